"""Finds values of a constraint's key by their IDs, for callers that know a value only as text."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.constraints.constraint import Constraint, read_key, value_id
from jqmaster.domain.matching.fields import MISSING
from jqmaster.domain.matching.key_value import key_value
from jqmaster.errors import NotFoundError
from jqmaster.store.constraints.lanes import LaneStore
from jqmaster.store.constraints.usage import UsageStore, WaitingLane
from jqmaster.store.jobs.placement import fields_of

# Maximum number of jobs that a search reads, and maximum time that it takes.
MAX_JOBS: Final = 100_000
MAX_S: Final = 2.0
HOLDERS_READ: Final = 50


@dataclass(frozen=True, slots=True)
class ValueId:
    """The ID of a key value, as answers show it."""

    id: str


class KeyValues:
    """Finds key values by their IDs. Methods raise what the store raises."""

    def __init__(self, usage: UsageStore, lanes: LaneStore, clock: Clock) -> None:
        self._usage = usage
        self._lanes = lanes
        self._clock = clock

    async def find(self, constraint: Constraint, wanted: ValueId) -> object:
        """Return the value with this ID. Search the overrides and the unfinished jobs. Raise NotFoundError."""
        for override in constraint.overrides:
            if _is(override.value, wanted):
                return override.value
        (gate,) = await self._usage.gates([constraint.cid + wanted.id])
        for value in _readings(gate.text):
            if _is(value, wanted):
                return value
        # The stored text of a value may be shortened, or may be the text of a list or map. Such a text does not
        # identify the value, so read the value from a job.
        holders = await self._usage.holders([gate], HOLDERS_READ)
        found = await self._jobs_with_value([holder.job_id for holder in holders], constraint, wanted)
        if found is MISSING:
            found = await self._among_waiting(constraint, wanted)
        if found is MISSING:
            raise NotFoundError(
                "no unfinished job has this value of the key; give value or job_id", code="unknown_key_value"
            )
        return found

    async def _among_waiting(self, constraint: Constraint, wanted: ValueId) -> object:
        ends_at_s = self._clock.monotonic_s() + MAX_S
        seen = 0
        async for ids in self._waiting(constraint):
            found = await self._jobs_with_value(ids, constraint, wanted)
            seen += len(ids)
            if found is not MISSING or seen >= MAX_JOBS or self._clock.monotonic_s() > ends_at_s:
                return found
        return MISSING

    async def _waiting(self, constraint: Constraint) -> AsyncIterator[Sequence[str]]:
        async for lanes in self._usage.lanes():
            fitting: list[WaitingLane] = [
                lane for lane in lanes if constraint.matcher.given_name(lane.name) is not False
            ]
            async for ids in self._usage.ready_in(fitting, MAX_JOBS):
                yield ids
        async for ids in self._lanes.waiting_not_ready():
            yield ids

    async def _jobs_with_value(
        self, job_ids: Sequence[str], constraint: Constraint, wanted: ValueId
    ) -> object:
        for job in await self._usage.jobs(job_ids, with_argument="argument" in constraint.reads):
            value = read_key(constraint, fields_of(job))
            if value is not MISSING and _is(value, wanted):
                return value
        return MISSING


def _is(value: object, wanted: ValueId) -> bool:
    return value_id(key_value(value)) == wanted.id


def _readings(text: str) -> Iterator[object]:
    """Yield the values that a text may represent. The caller identifies the right value by its ID."""
    yield text
    try:
        if text.startswith("0x"):
            yield bytes.fromhex(text[2:])
        else:
            yield json.loads(text)
    except (ValueError, RecursionError):
        return
