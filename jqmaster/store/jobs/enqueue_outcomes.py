"""Outcomes of an enqueue: the job is new or known, or the push is refused. Each refusal has its own error texts."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final, Self

from jqmaster.domain.constraints.constraint import Constraint
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.errors import (
    ConflictError,
    FieldError,
    InvalidError,
    JqmasterError,
    NotUniqueError,
    OfferUnderWayError,
    RateLimitedError,
)
from jqmaster.store.link.script_modules import ScriptHeaderError

# Retry-After of a push to a full backlog. A backlog empties only as fast as workers run its jobs.
BACKLOG_RETRY_AFTER_S: Final = 5.0


class Accepted(StrEnum):
    """Outcome: the job is in the store."""

    NEW = "new"
    KNOWN = "known"


class Conflict(StrEnum):
    """The outcome of a push if another job holds its uniqueness key."""

    REFUSED = "refused"
    # The other job was offered to a worker. It is still unknown whether it starts with its old content or can take the
    # new content.
    OFFERED = "offered"
    EXISTING = "existing"
    REPLACED = "replaced"


class PushRefusal(ABC):
    """The reason why a job is refused."""

    __slots__ = ()
    # In the request for one job: the path of the field that caused the refusal; empty if no field did.
    field_path: ClassVar[tuple[str, ...]] = ()

    @property
    def is_refusal(self) -> bool:
        return True

    @property
    def may_pass(self) -> bool:
        """Return whether a repeat of the push may succeed within moments."""
        return False

    @property
    @abstractmethod
    def rule(self) -> str:
        """The rule that the field breaks, as the error states it."""

    def detail(self, count: int = 1) -> str:
        """Return the detail of the error that refuses `count` jobs for this reason."""
        return self.rule

    @abstractmethod
    def error(self, detail: str, errors: Sequence[FieldError]) -> JqmasterError:
        """Return the error for the pusher."""


@dataclass(frozen=True, slots=True)
class BacklogFull(PushRefusal):
    """Refused: the backlog of a gate is full. `constraint`: the constraint of the gate, if it is known."""

    gate_id: str
    constraint: Constraint | None = field(default=None, compare=False)

    def of(self, constraint: Constraint | None) -> Self:
        return replace(self, constraint=constraint)

    @property
    def rule(self) -> str:
        if self.constraint is None:
            return f"a constraint lets no more of these jobs wait (gate {self.gate_id})"
        most = self.constraint.max_backlog
        return f"constraint {self.constraint.name} lets no more than {most} of these jobs wait"

    def error(self, detail: str, errors: Sequence[FieldError]) -> JqmasterError:
        return RateLimitedError(
            detail, code="backlog_full", errors=errors, retry_after_s=BACKLOG_RETRY_AFTER_S
        )


@dataclass(frozen=True, slots=True)
class TooFast(PushRefusal):
    """Refused: the namespace's quota of pushed jobs is used up for this second."""

    most_per_s: int

    @property
    def rule(self) -> str:
        return f"the quota of the namespace allows {self.most_per_s} pushed jobs a second"

    def error(self, detail: str, errors: Sequence[FieldError]) -> JqmasterError:
        return RateLimitedError(detail, code="namespace_rate", errors=errors, retry_after_s=1.0)


@dataclass(frozen=True, slots=True)
class IdTaken(PushRefusal):
    """Refused: another request created the job with this ID."""

    field_path = ("id",)
    job_id: str

    @property
    def rule(self) -> str:
        return f"{self.job_id} is already the ID of another job"

    def detail(self, count: int = 1) -> str:
        return f"the ID {self.job_id} is taken" if count == 1 else f"{count} of the IDs are taken"

    def error(self, detail: str, errors: Sequence[FieldError]) -> JqmasterError:
        return ConflictError(detail, code="id_taken", errors=errors)


@dataclass(frozen=True, slots=True)
class BatchClosed(PushRefusal):
    """Refused: the batch of the job is complete or canceled, or does not exist (`is_none`)."""

    field_path = ("batch",)
    batch_id: str
    is_none: bool

    @property
    def rule(self) -> str:
        return "no batch has this ID" if self.is_none else "the batch is complete or canceled"

    def detail(self, count: int = 1) -> str:
        return f"batch {self.batch_id}: {self.rule}"

    def error(self, detail: str, errors: Sequence[FieldError]) -> JqmasterError:
        if self.is_none:
            return InvalidError(detail, code="unknown_batch", errors=errors)
        return ConflictError(detail, code="batch_over", errors=errors)


@dataclass(frozen=True, slots=True)
class PredecessorRefused(PushRefusal):
    """Refused: a predecessor does not exist (`is_none`), or it ended in a way that the job does not accept."""

    field_path = ("after", "jobs")
    predecessor: str
    is_none: bool

    @property
    def rule(self) -> str:
        if self.is_none:
            return f"no job has the ID {self.predecessor}"
        return f"job {self.predecessor} is over and did not succeed"

    def error(self, detail: str, errors: Sequence[FieldError]) -> JqmasterError:
        if self.is_none:
            return InvalidError(detail, code="unknown_predecessor", errors=errors)
        return ConflictError(detail, code="predecessor_over", errors=errors)


@dataclass(frozen=True, slots=True)
class NotUnique(PushRefusal):
    """Outcome: no new job was created, because the job `holder` holds the uniqueness key. The push counts as accepted
    if it accepts that job, or has replaced the content of that job.
    """

    field_path = ("unique",)
    holder: str
    conflict: Conflict

    @property
    def is_refusal(self) -> bool:
        return self.conflict in (Conflict.REFUSED, Conflict.OFFERED)

    @property
    def may_pass(self) -> bool:
        return self.conflict is Conflict.OFFERED

    @property
    def rule(self) -> str:
        if self.may_pass:
            return (
                f"job {self.holder} is being offered to a worker, and may start with its former content; repeat the "
                "push"
            )
        return f"job {self.holder} holds the uniqueness key"

    def detail(self, count: int = 1) -> str:
        return self.rule if count == 1 else f"{count} of the uniqueness keys are held by other jobs"

    def error(self, detail: str, errors: Sequence[FieldError]) -> JqmasterError:
        made = OfferUnderWayError if self.may_pass else NotUniqueError
        return made(detail, self.holder, errors=errors)


@dataclass(frozen=True, slots=True)
class PushExpired(PushRefusal):
    """Refused: the job has expired. Its `expires_at_ms` is not after `now_ms`, the time of the store at the push."""

    field_path = ("expires_at",)
    now_ms: int

    @property
    def rule(self) -> str:
        return (
            f"is past: the request came at {iso_ms(self.now_ms)} by the clock of the store; give a later time, or "
            "expires_s, which counts from the request"
        )

    def detail(self, count: int = 1) -> str:
        return f"expires_at {self.rule}"

    def error(self, detail: str, errors: Sequence[FieldError]) -> JqmasterError:
        return InvalidError(detail, code="already_expired", errors=errors)


Outcome = Accepted | PushRefusal
# For these reasons, a script refuses a whole push. If several reasons apply, the error names the first one in this
# order.
_OF_WHOLE_PUSHES: Final = (BatchClosed, PredecessorRefused, NotUnique, PushExpired)
# For these reasons, a script refuses a single job, and accepts the other jobs of the push.
_OF_SINGLE_JOBS: Final = (BacklogFull, TooFast, IdTaken)


class PushRefused(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """Raised if a whole push is refused. `refused`: by index, the refusals of the jobs at fault. All have the same
    reason.
    """

    def __init__(self, refused: Mapping[int, PushRefusal]) -> None:
        super().__init__(refused)
        self.refused = refused


def outcome_of(
    word: str, about: str, spec: JobSpec, now_ms: int, *, most_per_s: int | None = None
) -> Outcome:
    """Return the outcome that the script reports.

    * `about`: the gate or the other job that the outcome names.
    * `now_ms`: the time of the store.
    * `most_per_s`: the quota of pushed jobs.
    """
    match word:
        case "known":
            return Accepted.KNOWN
        case "taken":
            return IdTaken(spec.id)
        case "existing" | "replaced" | "refused" | "offered":
            return NotUnique(about, Conflict(word))
        case "full":
            return BacklogFull(about)
        case "too_fast":
            return TooFast(most_per_s or 0)
        case "no_batch" | "batch_over":
            return BatchClosed(spec.batch or "", is_none=word == "no_batch")
        case "no_predecessor" | "predecessor_over":
            return PredecessorRefused(about, is_none=word == "no_predecessor")
        case "expired":
            return PushExpired(now_ms)
    raise ScriptHeaderError(
        f"the script `enqueue` answered {word!r} for a job, but the header of the script does not name this answer"
    )


def refused_jobs(outcomes: Sequence[Outcome], *, of_whole_push: bool = False) -> dict[int, PushRefusal]:
    """Return, by index, the jobs that are refused for the first reason that applies. `of_whole_push`: consider only
    reasons that refuse a whole push.
    """
    if outcomes.count(Accepted.NEW) < len(outcomes):
        for reason in _OF_WHOLE_PUSHES if of_whole_push else (*_OF_SINGLE_JOBS, *_OF_WHOLE_PUSHES):
            found: dict[int, PushRefusal] = {
                n: one for n, one in enumerate(outcomes) if isinstance(one, reason) and one.is_refusal
            }
            if found:
                return found
    return {}


def text_of(outcome: Outcome) -> str:
    """Return the outcome in words, for the log."""
    if isinstance(outcome, Accepted):
        return "accepted" if outcome is Accepted.NEW else "pushed again, and known"
    if isinstance(outcome, NotUnique):
        return f"not created: {outcome.detail()} ({outcome.conflict})"
    return f"refused: {outcome.detail()}"
