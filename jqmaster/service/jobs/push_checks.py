"""Refuses a bulk before the write, if a read of the store shows that the write would refuse it."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.jobs.predecessors import MAX_IN_PUSH, in_order
from jqmaster.errors import FieldError, InvalidError
from jqmaster.service.jobs.refusals import error_of
from jqmaster.store.jobs.enqueue_checks import EnqueueChecks
from jqmaster.store.jobs.enqueue_outcomes import IdTaken, PushRefusal

# Maximum number of jobs of a cycle that an error names.
MAX_NAMED: Final = 50
# Getters of attributes that are read for each job of a bulk. `map` with a getter needs no Python frame per job.
_ID, _AFTER, _UNIQUE = map(attrgetter, ("id", "after", "unique"))


class PushChecks:
    """Checks a push. Each check raises an error that names the refused jobs. `numbers`: the index of each job in its
    push."""

    def __init__(self, store: EnqueueChecks) -> None:
        self._store = store

    async def ids(self, specs: Sequence[JobSpec], numbers: Sequence[int]) -> None:
        doubled = _duplicates(specs) if len(set(map(_ID, specs))) < len(specs) else {}
        _raise(doubled or await self._store.find_taken(specs), numbers)

    async def holders(self, specs: Sequence[JobSpec], numbers: Sequence[int]) -> None:
        if any(map(_UNIQUE, specs)):
            _raise(await self._store.find_held(specs), numbers)

    async def predecessors(self, specs: Sequence[JobSpec], numbers: Sequence[int]) -> None:
        if any(map(_AFTER, specs)):
            _raise(await self._store.find_refused(specs), numbers)

    async def expiry(self, specs: Sequence[JobSpec], numbers: Sequence[int]) -> None:
        _raise(await self._store.find_expired(specs), numbers)


def sorted_positions(specs: Sequence[JobSpec], numbers: Sequence[int]) -> list[int]:
    """Return the positions of the jobs, sorted so that each job comes after its predecessors. Raise InvalidError, which
    names the jobs of a cycle, or the job at which the push exceeds the limit of predecessors."""
    named = 0
    for n, spec in enumerate(specs):
        named += len(spec.after.jobs) if spec.after else 0
        if named > MAX_IN_PUSH:
            too_many = f"the jobs of one push can have at most {MAX_IN_PUSH} predecessors in all"
            raise InvalidError(too_many, errors=[FieldError(("jobs", numbers[n], "after"), too_many)])
    ordered, cyclic = in_order([(spec.id, spec.after) for spec in specs])
    if cyclic:
        rule = "the job would wait for itself, directly or through other jobs of this push"
        errors = [FieldError(("jobs", numbers[n], "after"), rule) for n in cyclic[:MAX_NAMED]]
        raise InvalidError(
            f"{len(cyclic)} jobs would wait for each other forever; no job was accepted", errors=errors
        )
    return ordered


def _raise(refused: Mapping[int, PushRefusal], numbers: Sequence[int]) -> None:
    if refused:
        raise error_of(refused, numbers)


def _duplicates(specs: Sequence[JobSpec]) -> dict[int, IdTaken]:
    """Return, by position, the jobs that have the ID of an earlier, different job."""
    first: dict[str, JobSpec] = {}
    return {
        n: IdTaken(spec.id)
        for n, spec in enumerate(specs)
        if (other := first.setdefault(spec.id, spec)) is not spec and other != spec
    }
