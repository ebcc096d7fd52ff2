"""Counts of masters add up, whoever reports them and however often, and stay within their bounds."""

import random
from typing import Any

import msgpack
import pytest

from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS
from jqmaster.domain.jobs.failure_group import failure_group_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.operations.tally import COUNTED, OTHER, TOTAL, NameCounts
from jqmaster.errors import StaleEpochError
from jqmaster.runtime.duties.backlog_sampler import IDLE_SAMPLE_S
from jqmaster.store.operations.history import (
    KEEP_GROUPS_MS,
    KEEP_MS,
    MAX_GROUPS,
    STEP_MS,
    CountedFailures,
    HistoryStore,
)
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld

DAY_MS = 86_400_000


def counts(rng: random.Random) -> NameCounts:
    counted: dict[str, Any] = {name: rng.choice((0, 1, 300)) for name in COUNTED}
    made = NameCounts(**counted)
    made.backlog, made.oldest_wait_ms = rng.randint(-1, 9), rng.randint(-1, 9_000)
    for histogram in (made.wait, made.run):
        for _ in range(rng.randint(0, 5)):
            histogram.add(int(10 ** rng.uniform(0, 11)))
    return made


def values(of: NameCounts | None) -> tuple[object, ...]:
    assert of is not None
    histograms = [(h.counts, h.max_ms) for h in (of.wait, of.run)]
    return (*(getattr(of, word) for word in COUNTED), of.backlog, of.oldest_wait_ms, *histograms)


def group(message: str, count: int = 1, job_id: str = "job") -> CountedFailures:
    return CountedFailures(
        failure_group_id("work", "error", message), "work", "error", message, count, job_id
    )


def pushed(count: int) -> NameCounts:
    return NameCounts(pushed=count)


@pytest.mark.req("P8")
async def test_two_masters_add_up_by_minute_and_by_hour(world: StoreWorld) -> None:
    masters = [HistoryStore(world.shard, master_id=f"master-{n}") for n in range(2)]
    rng = random.Random(7)
    first = world.now_ms // STEP_MS["minute"]
    expected: dict[tuple[str, int], NameCounts] = {}
    for number in range(1, 31):
        for master in masters:
            told = [(name, counts(rng)) for name in rng.sample([TOTAL, "a", "b/c"], 2)]
            assert await master.add_counts(number, told)
            for name, more in told:
                for step in (world.now_ms // STEP_MS["minute"], -1):
                    expected.setdefault((name, step), NameCounts()).merge(more)
        world.pass_ms(rng.choice((1_000, 20_000, 60_000)))
    last = world.now_ms // STEP_MS["minute"]
    hours = range(world.now_ms // STEP_MS["hour"] - 2, world.now_ms // STEP_MS["hour"] + 1)
    reader = masters[0]
    for name in (TOTAL, "a", "b/c"):
        series = await reader.series(name, "minute", range(first, last + 1))
        for minute, found in enumerate(series, first):
            if (name, minute) in expected:
                assert values(found) == values(expected[name, minute])
            else:
                assert found is None
        steps: tuple[tuple[Any, range], ...] = (("minute", range(first, last + 1)), ("hour", hours))
        for step, numbers in steps:
            sums = await reader.sums(step, numbers)
            assert values(sums[name]) == values(expected[name, -1])
    assert set(await reader.names()) == {"a", "b/c"}


@pytest.mark.req("P8")
async def test_a_call_that_is_repeated_counts_once(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    assert await history.add_counts(1, [("work", pushed(3))])
    assert await history.add_failures(2, [group("boom")])
    async with world.unchanged():
        for number in (2, 1):
            assert not await history.add_counts(number, [("work", pushed(3))])
            assert not await history.add_failures(number, [group("boom")])
    assert await HistoryStore(world.shard, master_id="master-2").add_counts(1, [("work", pushed(4))])
    (found,) = await history.series("work", "minute", [world.now_ms // STEP_MS["minute"]])
    assert found
    assert found.pushed == 7
    assert [g.count for g in await history.failure_groups()] == [1]


@pytest.mark.req("P8")
async def test_names_beyond_the_bound_are_counted_as_one(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1", max_names=3)
    for number in range(1, 6):
        names = [(f"name-{number}-{n}", pushed(1)) for n in range(2)]
        await history.add_counts(number, [(TOTAL, pushed(2)), *names])
    minute = [world.now_ms // STEP_MS["minute"]]
    sums = await history.sums("minute", minute)
    assert {name: c.pushed for name, c in sums.items()} == {
        TOTAL: 10, "name-1-0": 1, "name-1-1": 1, "name-2-0": 1, OTHER: 7,
    }  # fmt: skip
    assert OTHER in await history.names()
    # A name that was not seen for the longest retention makes room.
    world.pass_ms(KEEP_MS["hour"])
    await history.add_counts(6, [("new", pushed(1))])
    assert set(await history.names()) == {"new"}


@pytest.mark.req("P8")
async def test_a_name_whose_jobs_only_wait_is_listed_but_not_seen_again(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    waiting = NameCounts(backlog=5, oldest_wait_ms=9_000)
    await history.add_counts(1, [("work", pushed(1)), ("old", waiting)])
    seen = await history.names()
    assert set(seen) == {"work", "old"}
    world.pass_ms(60_000)
    await history.add_counts(2, [("work", waiting), ("old", waiting)])
    assert await history.names() == seen
    await history.add_counts(3, [("work", NameCounts(discarded=1)), ("old", waiting)])
    later = await history.names()
    assert later["work"] == seen["work"] + 60_000
    assert later["old"] == seen["old"]


@pytest.mark.req("P8")
async def test_minutes_are_kept_for_a_day_and_hours_for_thirty(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    await history.add_counts(1, [("work", pushed(1))])
    keys, redis = world.shard.keys, world.redis
    minute, hour = (world.now_ms // STEP_MS[step] for step in ("minute", "hour"))
    for key, days in ((keys.minute(minute), 1), (keys.hour(hour), 30)):
        left_ms = await redis.pttl(key)
        assert days * DAY_MS < left_ms <= days * DAY_MS + 3 * STEP_MS["hour"]
        await redis.pexpire(key, 77_000)
    # Later counts do not extend its life.
    await history.add_counts(2, [("work", pushed(1)), ("other", pushed(1))])
    for key in (keys.minute(minute), keys.hour(hour)):
        assert 0 < await redis.pttl(key) <= 77_000
    assert await redis.pttl(keys.flushed("master-1")) > 0


@pytest.mark.req("P8", "M12")
async def test_counts_of_release_0_2_are_read_and_added_to(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    number = world.now_ms // STEP_MS["minute"]
    key = world.shard.keys.minute(number)
    await history.add_counts(1, [("work", NameCounts(pushed=1, discarded=2))])
    former = msgpack.unpackb(await world.redis.hget(key, "work"))[:12]
    await world.redis.hset(key, "work", msgpack.packb(former))
    assert values(*await history.series("work", "minute", [number])) == values(pushed(1))
    await history.add_counts(2, [("work", NameCounts(discarded=3))])
    (found,) = await history.series("work", "minute", [number])
    assert values(found) == values(NameCounts(pushed=1, discarded=3))


async def test_an_unreadable_record_harms_nothing_else(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    await history.add_counts(1, [("work", pushed(1)), ("other", pushed(1))])
    number = world.now_ms // STEP_MS["minute"]
    for garbage in (b"", b"\xff", b"\x93\x01\x02\x03", b"x" * 50):
        await world.redis.hset(world.shard.keys.minute(number), "work", garbage)
        assert await history.series("work", "minute", [number]) == [None]
        assert (await history.sums("minute", [number]))["other"].pushed == 1
    await history.add_counts(2, [("work", pushed(5))])
    (found,) = await history.series("work", "minute", [number])
    assert found
    assert found.pushed == 5
    await world.redis.hset(world.shard.keys.failure_groups, "0" * 16, b"garbage")
    assert await history.failure_groups() == []
    await world.redis.delete(world.shard.keys.failure_groups)


@pytest.mark.req("P8")
async def test_failures_are_grouped_and_the_longest_unseen_go_first(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    began_ms = world.now_ms
    await history.add_failures(1, [group("boom", 2, "job-1"), group("bang")])
    world.pass_ms(1_000)
    await history.add_failures(2, [group("boom", 3, "job-2")])
    boom, bang = await history.failure_groups()
    assert (boom.message, boom.count, boom.example_job_id) == ("boom", 5, "job-2")
    assert (boom.first_seen_ms, boom.last_seen_ms) == (began_ms, began_ms + 1_000)
    assert (boom.name, boom.cause, boom.id) == ("work", "error", failure_group_id("work", "error", "boom"))
    assert (bang.message, bang.count) == ("bang", 1)
    for number in range(5):
        world.pass_ms(1)
        await history.add_failures(
            3 + number, [group(f"{chr(97 + number)} {'x' * n}") for n in range(1, 101)]
        )
    groups = await history.failure_groups()
    assert len(groups) == MAX_GROUPS
    assert not {"boom", "bang"} & {g.message for g in groups}
    assert await world.redis.zcard(world.shard.keys.failures_seen) == MAX_GROUPS
    world.pass_ms(KEEP_GROUPS_MS + 1)
    await history.add_failures(8, [group("late")])
    assert [g.message for g in await history.failure_groups()] == ["late"]


@pytest.mark.req("P8")
async def test_the_backlog_is_seen_with_the_age_of_its_oldest_job(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    assert await history.backlog() is None
    began_ms = world.now_ms
    nothing = await history.sample_backlog()
    assert (nothing.at_ms, nothing.whole.ready, nothing.whole.since_ms, nothing.names) == (began_ms, 0, 0, {})
    await world.enqueue("a", delay_ms=5_000)
    world.pass_ms(1_000)
    await world.enqueue("a", priority=9)
    world.pass_ms(1_000)
    await world.enqueue("a", priority=1)
    await world.enqueue("b")
    world.pass_ms(4_000)
    await world.due.promote(world.epoch, JobState.SCHEDULED)
    backlog = await history.sample_backlog()
    assert {name: (w.ready, w.since_ms) for name, w in backlog.names.items()} == {
        # This includes the job of priority 9, though others come before it; a scheduled job has been ready since its
        # time.
        "a": (3, began_ms + 1_000),
        "b": (1, began_ms + 2_000),
    }
    assert (backlog.whole.ready, backlog.whole.since_ms) == (4, began_ms + 1_000)
    await history.put_backlog(world.epoch, backlog)
    assert await history.backlog() == backlog
    assert 0 < await world.redis.pttl(world.shard.keys.backlog) <= 30_000
    # The next sample of a quiet shard comes later.
    await history.put_backlog(world.epoch, nothing)
    assert await world.redis.pttl(world.shard.keys.backlog) > 1_000 * IDLE_SAMPLE_S + 10_000
    stale = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await history.put_backlog(stale, nothing)


@pytest.mark.req("P8")
async def test_the_oldest_job_that_no_limit_holds_back_is_told_apart(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    began_ms = world.now_ms
    limited = ConstrainedWorld(world)
    await limited.limit("held", {"field": "name", "op": "eq", "value": "held"}, paused=True)
    await limited.limit(
        "keyed", {"field": "name", "op": "eq", "value": "keyed"}, key="argument", concurrency=1
    )
    await limited.enqueue("held")
    first, *_ = await limited.enqueue_many(["a", "a"], "keyed")
    world.pass_ms(1_000)
    other = await limited.enqueue("keyed", "b")
    worker = await world.worker("held", "keyed")
    assert await limited.take(worker, "held", "keyed", limit=1) == [first]
    assert await limited.take(worker, "held") == []
    world.pass_ms(1_000)
    labelled = await limited.enqueue("labelled", requires={"gpu": "yes"})
    world.pass_ms(1_000)
    backlog = await history.sample_backlog()
    assert backlog.names["held"].since_ms == began_ms
    assert (backlog.names["held"].startable_since_ms, backlog.names["held"].startable_job_id) == (0, "")
    # No claim has asked for the second job of `a` yet. Once one has, that of `b` comes first.
    assert backlog.names["keyed"].startable_since_ms == began_ms
    assert backlog.names["labelled"].startable_job_id == labelled
    assert await limited.take(worker, "keyed", limit=1) == [other]
    assert (await history.sample_backlog()).names["keyed"].startable_job_id == ""
    await history.put_backlog(world.epoch, backlog)
    assert await history.backlog() == backlog
    # A sample of an older master says nothing about it.
    at_ms, whole, names, _ = msgpack.unpackb(await world.redis.get(world.shard.keys.backlog))
    await world.redis.set(world.shard.keys.backlog, msgpack.packb([at_ms, whole, names]), px=1_000)
    read = await history.backlog()
    assert read is not None
    assert (read.whole.since_ms, read.whole.startable_job_id) == (began_ms, "")


async def test_the_age_of_a_job_retried_by_hand_is_not_known(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    worker, job = await world.running()
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    world.pass_ms(DAY_MS)
    await world.operator_actions.retry(await world.get(job.job_id), NO_CONSTRAINTS)
    backlog = await history.sample_backlog()
    assert (backlog.names["work"].ready, backlog.names["work"].since_ms) == (1, 0)


async def test_a_sample_that_cannot_be_read_is_none(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    for garbage in (b"\xc1", b"\x01", b"\x93\x01\x02\x03"):
        await world.redis.set(world.shard.keys.backlog, garbage, px=1_000)
        assert await history.backlog() is None
    await world.redis.delete(world.shard.keys.backlog)


async def test_names_whose_jobs_were_taken_meanwhile_are_not_in_the_sample(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.enqueue("mail")
    await world.enqueue("scan")
    history, client = HistoryStore(world.shard, master_id="master-1"), world.shard.client
    pipeline, worker_id = client.pipeline, await world.worker("mail")

    async def then_claim(commands: Any) -> Any:
        counts = await pipeline(commands)
        await world.claim(worker_id, "mail")
        return counts

    monkeypatch.setattr(client, "pipeline", then_claim)
    backlog = await history.sample_backlog()
    assert set(backlog.names) == {"scan"}


async def test_the_groups_of_deleted_examples_go_and_the_others_stay(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    await history.add_failures(1, [group("one", job_id="j1"), group("two", job_id="j2")])
    async with world.unchanged():
        await history.forget_failures(["j3"])
    await history.forget_failures(["j1", "j3"])
    assert [one.message for one in await history.failure_groups()] == ["two"]


async def test_time_is_that_of_the_store(world: StoreWorld) -> None:
    assert await HistoryStore(world.shard, master_id="m").now_ms() == world.now_ms
    real = world.on_store_time()
    now_ms = await HistoryStore(real.shard, master_id="m").now_ms()
    assert abs(now_ms - int((await world.redis.time())[0]) * 1000) < 60_000


async def test_counts_out_of_the_bounds_of_a_histogram_are_not_added(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    await history.add_counts(1, [("work", pushed(1))])
    number = world.now_ms // STEP_MS["minute"]
    key = world.shard.keys.minute(number)
    whole = msgpack.unpackb(await world.redis.hget(key, "work"))
    for span in ([-1, 1], [10_000, 1]):
        await world.redis.hset(key, "work", msgpack.packb([*whole[:10], span, *whole[11:]]))
        assert await history.series("work", "minute", [number]) == [None]
