"""The list of definitions, with the filters that people use."""

import pytest

from jqmaster.domain.definitions.definition import CatchUp, Kind
from jqmaster.service.definitions import reader
from jqmaster.service.definitions.reader import LATE_MS, DefinitionFilter, DefinitionReader
from tests.support.definitions import MINUTE_MS, Definitions
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D21")


class Listed:
    """The reader of a world without a leader that fires."""

    def __init__(self, world: StoreWorld) -> None:
        self.definitions = Definitions(world)

        async def now_ms() -> int:
            return world.now_ms

        self.reader = DefinitionReader(world.definitions, now_ms)

    async def troubled(self) -> list[str]:
        page = await self.reader.page("", 10, condition=DefinitionFilter.TROUBLED)
        return [one.known.stored.definition.name for one in page.definitions]


async def test_late_and_missed_definitions_are_troubled_until_the_next_one_fires(world: StoreWorld) -> None:
    listed = Listed(world)
    await listed.definitions.put("late")
    await listed.definitions.put("far", schedule={"daily_at": "23:59"})
    await listed.definitions.put("missed", catch_up=CatchUp.SKIP, skip_late_after_ms=1000)
    world.pass_ms(MINUTE_MS + LATE_MS - world.now_ms % MINUTE_MS)
    assert await listed.troubled() == []
    world.pass_ms(1)
    assert await listed.troubled() == ["late", "missed"]
    await listed.definitions.fire()
    assert await listed.troubled() == ["missed"]
    world.pass_ms(MINUTE_MS - world.now_ms % MINUTE_MS)
    await listed.definitions.fire()
    assert await listed.troubled() == []


async def test_a_definition_that_skips_three_times_is_troubled_and_names_the_job_that_it_waits_for(
    world: StoreWorld,
) -> None:
    listed = Listed(world)
    await listed.definitions.put("nightly", overlap="forbid")
    for skipped in range(4):
        assert await listed.troubled() == []
        found = await listed.reader.skips("nightly")
        assert (len(found.skips), found.is_fault) == (max(0, skipped - 1), False)
        world.pass_ms(MINUTE_MS)
        await listed.definitions.fire()
    found = await listed.reader.skips("nightly")
    assert (len(found.skips), found.is_fault) == (3, True)
    assert found.unfinished
    assert (found.unfinished.run.outcome, found.unfinished.job_state) == ("fired", "ready")
    assert await listed.troubled() == ["nightly"]
    await listed.definitions.put("nightly", overlap="forbid", enabled=False)
    assert await listed.troubled() == []


async def test_a_filtered_page_that_found_few_says_where_to_go_on(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_LOOKED_AT", 2)
    listed = Listed(world)
    for name in ("a", "b", "c"):
        await listed.definitions.put(name, enabled=name == "c")
    page = await listed.reader.page("", 10, condition=DefinitionFilter.ENABLED)
    assert (page.definitions, page.next_cursor) == ([], "b")
    page = await listed.reader.page("b", 10, condition=DefinitionFilter.ENABLED)
    assert ([one.known.stored.definition.name for one in page.definitions], page.next_cursor) == (["c"], None)


async def test_definitions_of_one_kind_are_listed(world: StoreWorld) -> None:
    listed = Listed(world)
    await listed.definitions.put("clock")
    for kind, names in ((Kind.TIME, ["clock"]), (Kind.EVENT, [])):
        page = await listed.reader.page("", 10, kind=kind)
        assert [one.known.stored.definition.name for one in page.definitions] == names


async def test_a_definition_that_cannot_be_read_does_not_hide_the_others(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    listed = Listed(world)
    for name in ("broken", "whole"):
        await listed.definitions.put(name)
    await world.redis.hset(world.shard.keys.definitions, "broken", b"x" * 16 + b"\xc1")
    for kind in (None, Kind.TIME):
        page = await listed.reader.page("", 10, kind=kind)
        assert [one.known.stored.definition.name for one in page.definitions] == ["whole"]
    assert "definition broken: its document cannot be read; it is not shown" in caplog.text
    k = world.shard.keys
    await world.redis.delete(k.definitions, k.definitions_due, k.definition_clocks, k.forgotten_runs)
