"""Keep the log of a job in tests, without a master."""

from datetime import UTC, datetime
from typing import Any

from worker_sdk.pusher.logs import LEVELS


class KeptLine(tuple[str, str]):
    """Level and text of a log line. `at_s`: when it was written, in seconds since 1970."""

    at_s: float

    @classmethod
    def of(cls, at_s: float, level: str, text: str) -> "KeptLine":
        """Return the pair, with its time."""
        line = cls((level, text))
        line.at_s = at_s
        return line


class KeptLog(list[tuple[str, str]]):
    """Level and text of each line, in order."""

    def write(self, at_s: float, level: str, text: str) -> None:
        """Keep a line, as a master does."""
        self.append(KeptLine.of(at_s, level, text))

    def page(
        self, run_attempt: int, *, after: int, level: str | None, attempt: int | None, tail: int | None
    ) -> dict[str, Any]:
        """Return a page of lines, as a master does. `run_attempt`: the attempt that wrote them."""
        first = max(after, len(self) - tail) if tail else after
        texts = [str(one) for one in LEVELS]
        rank = texts.index(level) if level else 0
        entries = [
            {
                "seq": seq,
                "attempt": run_attempt,
                "at": datetime.fromtimestamp(getattr(line, "at_s", 0.0), UTC).isoformat(),
                "level": line[0],
                "text": line[1],
            }
            for seq, line in enumerate(self, 1)
            if seq > first and texts.index(line[0]) >= rank and attempt in (None, run_attempt)
        ]
        return {
            "entries": entries,
            "next": len(self),
            "last": len(self),
            "dropped": 0,
            "is_archived": False,
            "log_ref": None,
        }
