"""A circuit breaker: a worker that cannot be reached is left alone, longer each time, and then tried with one probe."""

from dataclasses import dataclass

FAILURES_TO_OPEN = 5
FIRST_OPEN_S = 1.0
LONGEST_OPEN_S = 30.0


@dataclass(slots=True)
class Breaker:
    """States as in M. Nygard, "Release It!": closed (all may pass), open (none), half-open (one probe). `why`: the
    reason of the last failure, for people.
    """

    failures: int = 0
    open_s: float = 0.0
    open_until_s: float = 0.0
    is_probing: bool = False
    why: str = ""

    def admits(self, now_s: float) -> bool:
        if self.open_s == 0.0:
            return True
        return now_s >= self.open_until_s and not self.is_probing

    def is_half_open(self, now_s: float) -> bool:
        return self.open_s > 0.0 and now_s >= self.open_until_s

    def begin_call(self) -> None:
        self.is_probing = self.open_s > 0.0

    def succeeded(self) -> None:
        self.failures, self.open_s, self.open_until_s, self.is_probing, self.why = 0, 0.0, 0.0, False, ""

    def failed(self, now_s: float, why: str = "") -> None:
        self.failures += 1
        self.why = why
        if self.is_probing:
            self.open_s = min(self.open_s * 2, LONGEST_OPEN_S)
        elif self.open_s == 0.0 and self.failures >= FAILURES_TO_OPEN:
            self.open_s = FIRST_OPEN_S
        else:
            return
        self.is_probing = False
        self.open_until_s = now_s + self.open_s

    def state(self, now_s: float) -> str:
        if self.open_s == 0.0:
            return "closed"
        return "half_open" if now_s >= self.open_until_s else "open"
