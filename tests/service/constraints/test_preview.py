"""Limits on how many previews of constraints a caller gets."""

import asyncio

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.content.content import full_access
from jqmaster.errors import OverloadedError, RateLimitedError
from jqmaster.service.constraints.preview import MAX_PREVIEWS, Preview, Previews
from jqmaster.service.constraints.reader import ConstraintReader
from jqmaster.store.constraints.usage import UsageStore
from tests.support.constraints import preview_turns
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("J13")

WORK = {"field": "name", "op": "eq", "value": "work"}
ALL = full_access([])


@pytest.fixture
def reader(world: StoreWorld) -> ConstraintReader:
    usage = UsageStore(world.shard, world.records)
    clock = SystemClock()
    previews = Previews(world.lanes, usage, clock, preview_turns(clock))
    return ConstraintReader(world.constraints, usage, world.gates, previews)


async def preview(reader: ConstraintReader, who: str = "somebody") -> Preview:
    return await reader.preview(WORK, None, 1, ALL, who=who, most_per_minute=MAX_PREVIEWS + 1)


async def test_a_caller_gets_so_many_previews_a_minute_and_others_theirs(reader: ConstraintReader) -> None:
    for _ in range(MAX_PREVIEWS + 1):
        await preview(reader)
    with pytest.raises(RateLimitedError) as limited:
        await preview(reader)
    assert (limited.value.code, 0 < (limited.value.retry_after_s or 0) <= 60) == ("too_many_previews", True)
    await preview(reader, "somebody else")


async def test_there_are_few_previews_at_a_time(reader: ConstraintReader) -> None:
    outcomes = await asyncio.gather(
        *(preview(reader) for _ in range(MAX_PREVIEWS + 1)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes].count(OverloadedError) == 1
    assert (await preview(reader)).is_exact
