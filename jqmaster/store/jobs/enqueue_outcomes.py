"""Outcomes of an enqueue: the job is new or known, or another job, a limit or its own terms stand in its way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from jqmaster.store.link.script_modules import ScriptHeaderError


class Accepted(StrEnum):
    """The outcome of one enqueue."""

    NEW = "new"
    KNOWN = "known"
    TAKEN = "taken"


class Conflict(StrEnum):
    """The outcome of a push whose uniqueness key another job holds."""

    REFUSED = "refused"
    # It is still unknown whether that job starts with its old content or can take the new one.
    OFFERED = "offered"
    EXISTING = "existing"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class BacklogFull:
    """Refused: the backlog of this gate is full."""

    gate_id: str


@dataclass(frozen=True, slots=True)
class NotUnique:
    """No new job was created, because `holder` holds the uniqueness key. If the conflict is REPLACED, `holder` took the
    content of the push."""

    holder: str
    conflict: Conflict

    @property
    def is_refusal(self) -> bool:
        return self.conflict in (Conflict.REFUSED, Conflict.OFFERED)


@dataclass(frozen=True, slots=True)
class BatchClosed:
    """Refused: the batch of the job is complete or canceled, or does not exist (`is_none`)."""

    is_refusal: ClassVar = True
    batch_id: str
    is_none: bool


@dataclass(frozen=True, slots=True)
class PredecessorRefused:
    """Refused: this predecessor does not exist (`is_none`), or it ended in a way that the job does not accept."""

    is_refusal: ClassVar = True
    predecessor: str
    is_none: bool


@dataclass(frozen=True, slots=True)
class PushExpired:
    """Refused: `expires_at_ms` of the job is not after `now_ms`, the time of the store at the push."""

    is_refusal: ClassVar = True
    now_ms: int


# The refusal of a job for which a whole push is refused.
PushRefusal = NotUnique | BatchClosed | PredecessorRefused | PushExpired
Outcome = Accepted | BacklogFull | PushRefusal
# The reasons, the one that is told first before the others.
_REASONS: Final = (BatchClosed, PredecessorRefused, NotUnique, PushExpired)


class PushRefused(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """A whole push is refused. `refused`: by index, the jobs at fault, all for one reason."""

    def __init__(self, refused: Mapping[int, PushRefusal]) -> None:
        super().__init__(refused)
        self.refused = refused


def outcome_of(word: str, about: str, *, batch: str | None, now_ms: int) -> Outcome:
    """Return the outcome that the script tells. `about`: the gate or the other job that it names. `batch`: that of the
    pushed job. `now_ms`: the time of the store."""
    match word:
        case "known" | "taken":
            return Accepted(word)
        case "existing" | "replaced" | "refused" | "offered":
            return NotUnique(about, Conflict(word))
        case "full":
            return BacklogFull(about)
        case "no_batch" | "batch_over":
            return BatchClosed(batch or "", is_none=word == "no_batch")
        case "no_predecessor" | "predecessor_over":
            return PredecessorRefused(about, is_none=word == "no_predecessor")
        case "expired":
            return PushExpired(now_ms)
    raise ScriptHeaderError(f"enqueue answered {word!r} for a job, which its header does not name")


def refused_for_one_reason(outcomes: Sequence[Outcome]) -> dict[int, PushRefusal]:
    """Return, by index, the refused jobs whose reason is told before the others; none: no job is refused."""
    if outcomes.count(Accepted.NEW) < len(outcomes):
        for reason in _REASONS:
            found = {n: one for n, one in enumerate(outcomes) if isinstance(one, reason) and one.is_refusal}
            if found:
                return found
    return {}


def text_of(outcome: Outcome) -> str:
    """Return the outcome in words, for the log."""
    match outcome:
        case Accepted.NEW:
            return "accepted"
        case Accepted.KNOWN:
            return "pushed again, and known"
        case Accepted.TAKEN:
            return "refused: its ID stands for another request"
        case BacklogFull(gate_id=gate):
            return f"refused: the backlog of gate {gate} is full"
        case NotUnique(holder=holder, conflict=conflict):
            return f"not made: job {holder} holds its uniqueness key ({conflict})"
        case BatchClosed(batch_id=batch):
            return f"refused: batch {batch} takes no new member"
        case PredecessorRefused(predecessor=predecessor):
            return f"refused: it cannot wait for job {predecessor}"
        case PushExpired():
            return "refused: its expires_at is past"
