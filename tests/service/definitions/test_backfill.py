"""A backfill starts no instant again whose record was removed, unless it is told to."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from jqmaster.domain.definitions.run import RunReason
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import (
    InvalidError,
    JqmasterError,
    OutcomeUnknownError,
    OverloadedError,
    StoreUnavailableError,
)
from jqmaster.live_value import LiveValue
from jqmaster.service.definitions.editor import Backfill
from jqmaster.service.definitions.firing import MAX_INSTANTS
from jqmaster.store.definitions.definitions import Firing, FiringOutcome, KeptRuns
from jqmaster.store.health.document_checks import event_faults
from jqmaster.store.health.repair import Repair
from tests.service.definitions.test_editor import Edited
from tests.support.definitions import MINUTE_MS
from tests.support.store import START_MS, TIMES, StoreWorld

DAY_MS = 86_400_000
# The default settings.
KEPT = KeptRuns(1_000, 90 * DAY_MS)
RETENTION = {"retention_ms": 3_600_000, "max_jobs": 100_000}


class Backfilling(Edited):
    """A definition `nightly`, the jobs that it started, and the sweeper that removes them."""

    def __init__(self, world: StoreWorld, kept: KeptRuns = KEPT) -> None:
        super().__init__(world)
        self.world = world
        self.definitions.firing._kept = LiveValue(kept)
        self.started = list[str]()

    async def backfill(self, from_ms: int, to_ms: int, **options: bool) -> Backfill:
        return await self.editor.backfill("nightly", from_ms, to_ms, "me", **{"is_dry": False, **options})

    async def run_all(self) -> int:
        """Run all jobs, and let the sweeper remove them; return how many there were."""
        worker = await self.world.worker("report", max_jobs=500)
        count = 0
        while jobs := await self.world.claim(worker, "report", limit=500):
            await self.world.settlements.settle_success(worker, [(j.job_id, j.token, b"\xc0") for j in jobs])
            count += len(jobs)
        self.world.pass_ms(2 * DAY_MS)
        while await self.world.retention.sweep(self.world.epoch, JobState.SUCCEEDED, **RETENTION):
            pass
        return count

    async def refused(self, from_ms: int, to_ms: int) -> str:
        async with self.world.unchanged():
            with pytest.raises(InvalidError) as refused:
                await self.backfill(from_ms, to_ms)
        (error,) = refused.value.errors
        assert error.loc == ("from",)
        return error.msg


@pytest.mark.req("D7")
async def test_three_backfills_of_ten_months_ago_start_each_job_once(world: StoreWorld) -> None:
    one = Backfilling(world)
    await one.put(schedule={"daily_at": "02:30"})
    begin_ms = START_MS - 300 * DAY_MS
    ran = []
    for _ in range(3):
        await one.backfill(begin_ms, begin_ms + 30 * DAY_MS)
        ran.append(await one.run_all())
        await one.definitions.fire()
    assert ran[0] == 30
    # Later ones are the instants of the days that passed meanwhile.
    assert sum(ran) - 30 <= 4
    assert [run.reason for run in await one.definitions.runs()].count(RunReason.BACKFILL) == 30


@pytest.mark.req("D7")
async def test_a_range_whose_records_were_removed_is_refused(world: StoreWorld) -> None:
    one = Backfilling(world, KeptRuns(10, KEPT.life_ms))
    await one.put()
    assert (await one.backfill(START_MS - 8 * MINUTE_MS, START_MS)).started == 8
    range_ms = START_MS - 18 * MINUTE_MS, START_MS - 8 * MINUTE_MS
    assert (await one.backfill(*range_ms)).started == 10
    assert await one.run_all() == 18
    dry = await one.backfill(*range_ms, is_dry=True)
    assert (dry.due, dry.fired_before, dry.forgotten) == (10, 2, 8)
    assert dry.forgotten_until_ms == START_MS - 11 * MINUTE_MS
    message = await one.refused(*range_ms)
    assert "2027-01-15T07:49:00.000Z" in message
    assert "8 of these instants" in message
    assert "also_forgotten" in message
    # Later instants have records, so they are not started again.
    assert (await one.backfill(dry.forgotten_until_ms + 1, START_MS)).fired_before == 10
    assert await one.run_all() == 0
    done = await one.backfill(*range_ms, also_forgotten=True)
    assert (done.started, done.forgotten) == (8, 8)
    assert await one.run_all() == 8


@pytest.mark.req("D7")
async def test_a_definition_that_fires_every_minute_does_not_run_its_past_again(world: StoreWorld) -> None:
    one = Backfilling(world, KeptRuns(20, KEPT.life_ms))
    await one.put(catch_up="all", max_catch_up=1000)
    for _ in range(4):
        world.pass_ms(10 * MINUTE_MS)
        await one.definitions.fire()
    assert await one.run_all() == 40
    assert "20 of these instants" in await one.refused(START_MS + 1, world.now_ms)
    # A change of the schedule does not make anything known.
    await one.put(schedule={"every_minutes": 2})
    assert "10 of these instants" in await one.refused(START_MS + 1, START_MS + 21 * MINUTE_MS)


@pytest.mark.req("D7")
@pytest.mark.parametrize("most_gone", [10, 0])
async def test_a_definition_that_is_made_again_does_not_run_what_the_former_one_ran(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch, most_gone: int
) -> None:
    monkeypatch.setattr("jqmaster.store.definitions.definitions.MAX_GONE", most_gone)
    one = Backfilling(world)
    await one.put()
    world.pass_ms(5 * MINUTE_MS)
    await one.definitions.fire()
    ran = await one.run_all()
    await one.editor.delete("nightly", "me")
    world.pass_ms(MINUTE_MS)
    await one.put()
    assert "5 of these instants" in await one.refused(START_MS + 1, START_MS + 5 * MINUTE_MS + 1)
    assert ran > 0
    k = world.shard.keys
    assert await world.redis.exists(k.gone_definitions) == 0
    # It never had a record, and so leaves nothing behind but what it found.
    await one.editor.delete("nightly", "me")
    assert await world.redis.hkeys(k.forgotten_runs) == ([] if most_gone else [b""])


@pytest.mark.req("D7")
async def test_instants_before_a_new_definition_are_known_to_be_new(world: StoreWorld) -> None:
    one = Backfilling(world)
    await one.put()
    await one.editor.delete("nightly", "me")
    await one.put()
    done = await one.backfill(START_MS - 10 * MINUTE_MS, START_MS)
    assert (done.started, done.forgotten, done.forgotten_until_ms) == (10, 0, None)


@pytest.mark.req("D7", "M4")
async def test_records_that_an_older_master_made_or_removed_are_unknown(world: StoreWorld) -> None:
    one = Backfilling(world, KeptRuns(10, KEPT.life_ms))
    await one.put()
    world.pass_ms(4 * MINUTE_MS)
    await one.definitions.fire()
    k = world.shard.keys
    # It does not note up to when records were removed.
    await world.redis.delete(k.forgotten_runs)
    assert "5 of these instants" in await one.refused(START_MS - 4 * MINUTE_MS, START_MS + 5 * MINUTE_MS)
    world.pass_ms(MINUTE_MS)
    await one.definitions.fire()
    assert (await one.backfill(START_MS + 1, world.now_ms)).forgotten == 0
    assert "5 of these instants" in await one.refused(START_MS - 4 * MINUTE_MS, START_MS + 5 * MINUTE_MS)
    # It removes the first three records.
    await world.redis.zremrangebyrank(k.runs("nightly"), 0, 2)
    assert "3 of these instants" in await one.refused(START_MS + 1, world.now_ms)
    # It removes the last ones as well.
    await world.redis.delete(k.runs("nightly"))
    assert "5 of these instants" in await one.refused(START_MS + 1, world.now_ms + 1)
    world.pass_ms(MINUTE_MS)
    await one.definitions.fire()
    assert "5 of these instants" in await one.refused(START_MS + 1, world.now_ms + 1)


@pytest.mark.req("D7", "M4")
async def test_repair_remembers_a_definition_that_an_older_master_removed(world: StoreWorld) -> None:
    one = Backfilling(world)
    known = await one.put()
    world.pass_ms(5 * MINUTE_MS)
    await one.definitions.fire()
    k = world.shard.keys
    await world.redis.hdel(k.definitions, "nightly")
    await world.redis.hdel(k.definition_clocks, "nightly")
    await world.redis.zrem(k.definitions_due, "nightly")
    await world.redis.delete(k.runs("nightly"))
    (finding,) = [fault.finding(k) for fault in await event_faults(world.shard.client, k)]
    assert (finding.key, finding.detail) == (k.forgotten_runs, "definition nightly does not exist")
    async for _ in Repair(world.shard, world.epoch, who="test", times=TIMES).steps():
        pass
    assert await event_faults(world.shard.client, k) == []
    again = await one.put()
    assert again.stored.definition.did != known.stored.definition.did
    assert "5 of these instants" in await one.refused(START_MS + 1, world.now_ms + 1)


@pytest.mark.req("D7")
async def test_two_masters_that_backfill_a_range_at_once_start_each_job_once(world: StoreWorld) -> None:
    one = Backfilling(world, KeptRuns(10, KEPT.life_ms))
    await one.put()
    range_ms = START_MS - 250 * MINUTE_MS, START_MS
    answers = await asyncio.gather(*(one.backfill(*range_ms) for _ in range(3)), return_exceptions=True)
    done = [answer for answer in answers if isinstance(answer, Backfill)]
    assert sum(answer.started or 0 for answer in done) == 250
    assert all(isinstance(answer, (Backfill, InvalidError)) for answer in answers)
    assert await one.run_all() == 250


@pytest.mark.parametrize(
    "refused", [StoreUnavailableError("the store does not answer"), OverloadedError("busy")]
)
async def test_a_backfill_that_ends_after_its_first_instants_says_that_some_were_started(
    world: StoreWorld, refused: JqmasterError, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Backfilling(world)
    await one.put(schedule={"every_minutes": 1})
    fire, calls = world.definitions.fire, list[int]()

    async def fire_once(
        firings: Sequence[Firing], *constraints: Any, **options: Any
    ) -> tuple[int, list[list[FiringOutcome]]]:
        if calls:
            raise refused
        calls.append(len(firings[0].entries))
        return await fire(firings, *constraints, **options)

    monkeypatch.setattr(world.definitions, "fire", fire_once)
    begin_ms = START_MS - DAY_MS
    with pytest.raises(
        OutcomeUnknownError, match=f"some of the jobs were started, but then: {refused.detail}"
    ):
        await one.backfill(begin_ms, begin_ms + (MAX_INSTANTS + 1) * MINUTE_MS)
    with pytest.raises(type(refused)):
        await one.backfill(begin_ms - 2 * MINUTE_MS, begin_ms - MINUTE_MS)
    assert (calls, await one.run_all()) == ([MAX_INSTANTS], MAX_INSTANTS)
