"""Parts shared by all history checks: violations, handler runs, and fault lookups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.history import Call, History

FINISHED: Final = frozenset({"succeeded", "discarded", "failed", "canceled", "skipped"})
# Clocks of one machine, read by different processes near the same event.
READING_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Violation:
    """`name` is one of those in docs/reliability.md; `subject` is a job, worker, epoch, …"""

    name: str
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {self.subject}: {self.detail}"


@dataclass(slots=True)
class Run:
    """One start of a handler. `end_s` is its own end, or the death of its process (then `ending` is ""). `phase` is
    "callback" if it has its challenge's callbacks, else ""."""

    job_id: str
    attempt: int
    token: str
    fence: int
    epoch: int
    worker: str
    life: int
    start_s: float
    end_s: float
    ending: str = ""
    phase: str = ""


RunsOf = Mapping[str, Sequence[Run]]


def may_be_doubled(history: History, call: Call) -> bool:
    """Return whether, during this call, a fault delivered client requests twice or again later."""
    return any(
        f.kind in ("double", "copy later")
        and f.target.startswith("pushers>")
        and f.from_s <= call.returned_s
        and f.to_s >= call.invoked_s
        for f in history.faults
    )


def clock_was_stepped(history: History, from_s: float, to_s: float) -> bool:
    return any(f.kind == "clock step" and f.from_s <= to_s and f.to_s >= from_s for f in history.faults)
