"""The errors for a job that is refused, alone or in a bulk."""

from collections.abc import Mapping, Sequence
from typing import Final

from jqmaster.domain.instant import iso_ms
from jqmaster.errors import (
    ConflictError,
    FieldError,
    InvalidError,
    JqmasterError,
    NotUniqueError,
    OfferUnderWayError,
)
from jqmaster.store.jobs.enqueue_outcomes import (
    BatchClosed,
    Conflict,
    NotUnique,
    PredecessorRefused,
    PushExpired,
    PushRefusal,
)

NOTHING_ACCEPTED: Final = "no job was accepted"
# Where the field at fault is in the request for one job. A bulk names the first part.
_FIELDS: Final[Mapping[type[PushRefusal], tuple[str, ...]]] = {
    NotUnique: ("unique",),
    BatchClosed: ("batch",),
    PredecessorRefused: ("after", "jobs"),
    PushExpired: ("expires_at",),
}
_KEY_ERRORS: Final[Mapping[Conflict, type[NotUniqueError]]] = {
    Conflict.REFUSED: NotUniqueError,
    Conflict.OFFERED: OfferUnderWayError,
}


def refusal_of_one(refused: PushRefusal) -> JqmasterError:
    """Return the refusal of a job that was pushed alone."""
    rule = _rule(refused)
    # The detail says it already, and who holds the key is a field of its own.
    errors = [] if isinstance(refused, NotUnique) else [FieldError(_FIELDS[type(refused)], rule)]
    return _error(refused, _detail(refused, rule), errors)


def refusal_of_some(refused: Mapping[int, PushRefusal], numbers: Sequence[int], others: str) -> JqmasterError:
    """Return the refusal of jobs of a bulk, all for one reason. `refused`: by position; `numbers`: the index of each
    position in the request. `others`: the outcome for the other jobs."""
    # Name a conflict that a repeat does not end before one that it may end.
    first = min(refused.values(), key=_may_end)
    errors = [
        FieldError(("jobs", numbers[n], _FIELDS[type(one)][0]), _rule(one)) for n, one in refused.items()
    ]
    if isinstance(first, NotUnique):
        detail = f"{len(refused)} of the uniqueness keys are held by other jobs"
    else:
        detail = _detail(first, _rule(first))
    return _error(first, f"{detail}; {others}", errors)


def _may_end(refused: PushRefusal) -> bool:
    return isinstance(refused, NotUnique) and refused.conflict is Conflict.OFFERED


def _rule(refused: PushRefusal) -> str:
    """Return the fault of the field."""
    match refused:
        case NotUnique(holder, Conflict.OFFERED):
            return f"job {holder} is being offered to a worker, and may start with its former content; repeat the push"
        case NotUnique(holder):
            return f"job {holder} holds the uniqueness key"
        case BatchClosed(is_none=is_none):
            return "no batch has this ID" if is_none else "the batch is complete or canceled"
        case PredecessorRefused(predecessor, is_none=True):
            return f"no job has the ID {predecessor}"
        case PredecessorRefused(predecessor):
            return f"job {predecessor} is over and did not succeed"
        case PushExpired(now_ms):
            at = iso_ms(now_ms)
            return (
                f"is past: the request came at {at} by the clock of the store; give a later time, or expires_s, which "
                "counts from the request"
            )


def _detail(refused: PushRefusal, rule: str) -> str:
    if isinstance(refused, BatchClosed):
        return f"batch {refused.batch_id}: {rule}"
    return f"expires_at {rule}" if isinstance(refused, PushExpired) else rule


def _error(refused: PushRefusal, detail: str, errors: Sequence[FieldError]) -> JqmasterError:
    match refused:
        case NotUnique(holder, conflict):
            return _KEY_ERRORS[conflict](detail, holder, errors=errors)
        case BatchClosed(is_none=True):
            return InvalidError(detail, code="unknown_batch", errors=errors)
        case BatchClosed():
            return ConflictError(detail, code="batch_over", errors=errors)
        case PredecessorRefused(is_none=True):
            return InvalidError(detail, code="unknown_predecessor", errors=errors)
        case PredecessorRefused():
            return ConflictError(detail, code="predecessor_over", errors=errors)
        case PushExpired():
            return InvalidError(detail, code="already_expired", errors=errors)
