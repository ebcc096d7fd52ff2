"""A circuit breaker. A worker that cannot be reached gets no pushes for a while, then one probe. Each failed probe
makes the pause longer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a breaker opens, and for how long.

    * `failures_to_open`: it opens after this many failures in a row.
    * `first_open_s`: how long it stays open at first. Each failed probe doubles this time.
    * `longest_open_s`: the maximum of this time.
    """

    failures_to_open: int = 5
    first_open_s: float = 1.0
    longest_open_s: float = 30.0


DEFAULT_POLICY: Final = BreakerPolicy()


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
    # A function, because operators may change the policy at run time. It is called at each failure.
    policy: Callable[[], BreakerPolicy] = field(default=lambda: DEFAULT_POLICY, compare=False, repr=False)

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
        policy = self.policy()
        if self.is_probing:
            self.open_s = min(self.open_s * 2, policy.longest_open_s)
        elif self.open_s == 0.0 and self.failures >= policy.failures_to_open:
            self.open_s = policy.first_open_s
        else:
            return
        self.is_probing = False
        self.open_until_s = now_s + self.open_s

    def state(self, now_s: float) -> str:
        if self.open_s == 0.0:
            return "closed"
        return "half_open" if now_s >= self.open_until_s else "open"
