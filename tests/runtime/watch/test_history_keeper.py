"""Counts reach the store once, whatever happens to the answers."""

from typing import Any

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.operations.tally import OTHER_MESSAGES, TOTAL, Tally
from jqmaster.errors import DamagedError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.runtime.watch.history_keeper import FLUSH_S, HistoryKeeper
from jqmaster.store.operations.history import STEP_MS, HistoryStore
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS

FAILED = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)


class Unsteady(HistoryStore):
    """Fails as the test says, before or after it did its work."""

    fail_before: Exception | None = None
    fail_after: Exception | None = None

    async def add_counts(self, *args: Any, **fields: Any) -> bool:
        if self.fail_before:
            raise self.fail_before
        answer = await super().add_counts(*args, **fields)
        if self.fail_after:
            raise self.fail_after
        return answer


async def total(world: StoreWorld, name: str = TOTAL) -> int:
    history = HistoryStore(world.shard, master_id="reader")
    (counts,) = await history.series(name, "hour", [world.now_ms // STEP_MS["hour"]])
    return counts.pushed if counts else 0


@pytest.mark.req("P8")
async def test_counts_that_are_sent_again_count_once(world: StoreWorld) -> None:
    tally, history = Tally(), Unsteady(world.shard, master_id="master-1")
    keeper = HistoryKeeper(tally, history, SystemClock())
    for n in range(150):
        tally.of(f"name-{n}").pushed += 1
    history.fail_after = OutcomeUnknownError("no answer")
    for _ in range(3):
        await keeper.flush()
    history.fail_after, history.fail_before = None, StoreUnavailableError("away")
    tally.of("name-1").pushed += 10
    await keeper.flush()
    history.fail_before = None
    await keeper.flush()
    assert (await total(world), await total(world, "name-1")) == (150, 1)
    await keeper.flush()
    assert (await total(world), await total(world, "name-1")) == (160, 11)
    async with world.unchanged():
        await keeper.flush()


async def test_counts_that_the_store_can_never_take_hold_up_no_others(world: StoreWorld) -> None:
    tally, history = Tally(), Unsteady(world.shard, master_id="master-1")
    keeper = HistoryKeeper(tally, history, SystemClock())
    tally.of("work").pushed += 1
    history.fail_before = DamagedError("a key is of the wrong type")
    await keeper.flush()
    history.fail_before = None
    tally.of("work").pushed += 1
    await keeper.flush()
    assert await total(world, "work") == 1


@pytest.mark.req("P8")
async def test_messages_that_differ_in_what_varies_come_as_one_group(world: StoreWorld) -> None:
    tally, history = Tally(), HistoryStore(world.shard, master_id="master-1")
    keeper = HistoryKeeper(tally, history, SystemClock())
    for n in range(600):
        tally.ended("work", FAILED, job_id=f"job-{n}", message=f"order {n} is gone")
    await keeper.flush()
    groups = {g.message: g for g in await history.failure_groups()}
    assert {message: g.count for message, g in groups.items()} == {
        "order <n> is gone": 500,
        OTHER_MESSAGES: 100,
    }
    assert (groups["order <n> is gone"].cause, groups["order <n> is gone"].name) == ("error", "work")


async def test_it_flushes_every_second_and_once_more_at_the_end(world: StoreWorld) -> None:
    tally, history = Tally(), HistoryStore(world.shard, master_id="master-1")
    keeper = HistoryKeeper(tally, history, SystemClock())
    await keeper.start()
    tally.of("work").pushed += 1

    async def counted() -> bool:
        return await total(world) == 1

    await wait_until(counted, what="the first second is told")
    tally.of("work").pushed += 1
    await keeper.stop()
    assert await total(world) == 2


async def test_counts_of_workers_are_told_every_few_seconds_and_at_the_end(world: StoreWorld) -> None:
    clock = ManualClock(lambda seconds: world.pass_ms(round(seconds * 1000)))
    tally, history = Tally(), HistoryStore(world.shard, master_id="master-1")
    keeper = HistoryKeeper(tally, history, clock)
    minute = world.now_ms // STEP_MS["minute"]

    async def told() -> int:
        found = await history.worker_counts(minute)
        return found["w"].succeeded if found else 0

    await keeper.flush()
    seen = []
    for _ in range(10):
        tally.on("w").succeed(5, 1)
        clock.jump(FLUSH_S)
        await keeper.flush()
        seen.append(await told())
    assert seen == [0, 0, 0, 0, 5, 5, 5, 5, 5, 10]
    tally.on("w").succeed(5, 1)
    await keeper.stop()
    assert await told() == 11
