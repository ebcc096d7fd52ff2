"""Jobs of a flow or of a batch are kept as long as a retry may still need them."""

import pytest

from jqmaster.domain.batches.batch import BatchSpec
from jqmaster.domain.content.content import full_access
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.flow_path import critical_path, failures
from jqmaster.domain.jobs.job import JobState
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.sweeper import Sweeper
from jqmaster.service.jobs.excerpts import JobExcerpts
from jqmaster.service.jobs.flow_texts import FlowTextReader
from jqmaster.service.jobs.flows import FlowReader, Revival
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.jobs.retention import Retention
from jqmaster.store.leadership.leadership import Leadership
from tests.store.predecessors.test_predecessors import succeed
from tests.support.clock import ManualClock
from tests.support.predecessors import Orders
from tests.support.store import StoreWorld

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
# The default settings.
SHORT = Retention(HOUR_MS, 100_000, 100_000)
RETENTION = dict.fromkeys(
    (JobState.SUCCEEDED, JobState.DISCARDED, JobState.CANCELED, JobState.SKIPPED), SHORT
) | {JobState.FAILED: Retention(30 * DAY_MS, 100_000)}


@pytest.fixture
def orders(world: StoreWorld) -> Orders:
    return Orders(world)


async def sweep(world: StoreWorld, retention: dict[JobState, Retention] = RETENTION) -> None:
    """Sweep until nothing goes any more."""
    everything = dict[JobState | None, Retention]([*retention.items(), (None, Retention(0, 0))])
    while any(one.removed for one in (await world.retention.sweep_all(world.epoch, everything)).values()):
        pass


async def pass_days(world: StoreWorld, days: int) -> None:
    """Let days pass, and the sweeper look twice."""
    for part_ms in (days * DAY_MS - HOUR_MS, HOUR_MS):
        world.pass_ms(part_ms)
        await sweep(world)


async def gone(world: StoreWorld, *job_ids: str) -> list[bool]:
    return [await world.records.get(job_id) is None for job_id in job_ids]


async def failed_first(world: StoreWorld, orders: Orders, worker: str, first: str) -> None:
    (job,) = await world.claim(worker)
    assert job.job_id == first
    assert await world.fail(worker, job)
    await orders.carry_out()


@pytest.mark.req("P9")
async def test_a_retry_after_four_weeks_revives_all_that_were_skipped(
    world: StoreWorld, orders: Orders
) -> None:
    first = await world.enqueue()
    second = await orders.behind(first)
    third = await orders.behind(second)
    worker = await world.worker()
    await failed_first(world, orders, worker, first)
    await pass_days(world, 28)
    assert await orders.states(first, second, third) == ["failed", "skipped", "skipped"]
    await world.operator_actions.retry(await world.get(first))
    await sweep(world)
    await orders.carry_out()
    assert await orders.states(first, second, third) == ["ready", "awaiting_jobs", "awaiting_jobs"]
    for job_id in (first, second, third):
        assert await succeed(world, worker) == [job_id]
        await orders.carry_out()
    await pass_days(world, 1)
    assert await gone(world, first, second, third) == [True] * 3
    k = world.shard.keys
    assert await world.redis.exists(k.awaited, k.dependents(first), k.awaits(third)) == 0


@pytest.mark.req("P9", "D21")
@pytest.mark.parametrize("in_batch", [False, True])
async def test_a_flow_is_read_whole_two_hours_after_its_failure(
    world: StoreWorld, orders: Orders, in_batch: bool
) -> None:
    batches, batch = BatchStore(world.shard, world.tally), new_id()
    fields = {"batch": batch} if in_batch else {}
    if in_batch:
        assert await batches.put(BatchSpec(batch), life_ms=30 * DAY_MS)
    load = await world.enqueue("load", {"url": "http://photos/1"}, **fields)
    good, bad = [
        await orders.behind(load, name="resize", argument={"width": w}, **fields) for w in (160, 320)
    ]
    publish = await orders.behind(good, bad, name="publish", **fields)
    report = await orders.behind(publish, name="report", **fields)
    if in_batch:
        assert await batches.seal(batch)
    worker = await world.worker("load", "resize")
    (job,) = await world.claim(worker, "load")
    assert await world.settlements.settle_success(worker, [(load, job.token, b"\xc0")])
    await orders.carry_out()
    world.pass_ms(1_000)
    tokens = {job.job_id: job for job in await world.claim(worker, "resize")}
    assert await world.settlements.settle_success(worker, [(good, tokens[good].token, b"\xc0")])
    world.pass_ms(4_000)
    assert await world.fail(worker, tokens[bad])
    await orders.carry_out()
    for _ in range(2):
        world.pass_ms(HOUR_MS)
        await sweep(world)
        await batches.end_due(world.epoch, retention_ms=7 * DAY_MS)
    reader = FlowReader(world.records, world.predecessors, batches)
    flow = await (reader.of_batch(batch, 500) if in_batch else reader.of_job(bad, 500))
    jobs = {one.id: one.job for one in flow.jobs if one.job}
    before = {one.id: one.after for one in flow.jobs}
    assert jobs.keys() == {load, good, bad, publish, report}
    assert failures(jobs, before) == [bad]
    assert critical_path(jobs, before) == [load, bad]
    excerpts = JobExcerpts(world.records, world.workers, world.progress)
    texts = await FlowTextReader(world.records, excerpts).of(list(jobs.values()), full_access(()))
    assert texts.labels == {good: "width=160", bad: "width=320"}
    assert texts.errors == {bad: "message"}


@pytest.mark.req("P9")
@pytest.mark.parametrize("end", ["swept", "deleted", "counted out"])
async def test_skipped_jobs_go_soon_after_the_job_that_skipped_them(
    world: StoreWorld, orders: Orders, end: str
) -> None:
    first = await world.enqueue()
    chain = [first]
    for _ in range(5):
        chain.append(await orders.behind(chain[-1]))
    await failed_first(world, orders, await world.worker(), first)
    await pass_days(world, 3)
    assert await gone(world, *chain) == [False] * 6
    if end == "swept":
        await pass_days(world, 28)
    elif end == "deleted":
        await world.operator_actions.delete(first)
        await orders.carry_out()
        await sweep(world)
    else:
        await sweep(world, RETENTION | {JobState.FAILED: Retention(DAY_MS * 30, 0)})
        await sweep(world)
    assert await gone(world, *chain) == [True] * 6


@pytest.mark.req("P9")
async def test_a_skipped_job_waits_for_each_of_several_failed_ones(world: StoreWorld, orders: Orders) -> None:
    first, second = await world.enqueue(), await world.enqueue()
    third = await orders.behind(first, second)
    worker = await world.worker()
    for job in await world.claim(worker):
        assert await world.fail(worker, job)
    await orders.carry_out()
    for one in (first, second):
        await pass_days(world, 5)
        await world.operator_actions.retry(await world.get(one))
        await orders.carry_out()
        assert await succeed(world, worker) == [one]
        await orders.carry_out()
    assert await orders.states(third) == ["ready"]


@pytest.mark.req("P9")
async def test_a_failed_step_that_is_retried_weeks_later_gets_its_inputs(
    world: StoreWorld, orders: Orders
) -> None:
    first, other = await world.enqueue(), await world.enqueue()
    second = await orders.behind(first)
    last = await orders.behind(second, other)
    worker = await world.worker()
    assert sorted(await succeed(world, worker, b"\x07")) == sorted([first, other])
    await orders.carry_out()
    await failed_first(world, orders, worker, second)
    await pass_days(world, 20)
    await world.operator_actions.retry(await world.get(second))
    await orders.carry_out()
    (job,) = await world.claim(worker)
    await world.predecessors.give_inputs([job])
    assert [(one.state, one.result) for one in job.inputs or ()] == [(JobState.SUCCEEDED, b"\x07")]
    await world.settlements.settle_success(worker, [(second, job.token, b"\x08")])
    await orders.carry_out()
    await pass_days(world, 20)
    (job,) = await world.claim(worker)
    assert job.job_id == last
    await world.predecessors.give_inputs([job])
    assert [one.result for one in job.inputs or ()] == [b"\x08", b"\x07"]
    await world.settlements.settle_success(worker, [(last, job.token, b"\xc0")])
    await pass_days(world, 2)
    assert await gone(world, first, other, second, last) == [True] * 4
    assert await world.redis.exists(world.shard.keys.result(first), world.shard.keys.results) == 0


@pytest.mark.req("P9")
async def test_a_step_that_succeeded_and_runs_again_gets_its_inputs(
    world: StoreWorld, orders: Orders
) -> None:
    first = await world.enqueue()
    second = await orders.behind(first)
    worker = await world.worker()
    for _ in range(2):
        await succeed(world, worker, b"\x07")
        await orders.carry_out()
    # The end of the dependent has been seen.
    await sweep(world)
    await world.operator_actions.retry(await world.get(second))
    await pass_days(world, 3)
    (job,) = await world.claim(worker)
    await world.predecessors.give_inputs([job])
    assert [one.state for one in job.inputs or ()] == [JobState.SUCCEEDED]


@pytest.mark.req("P9")
async def test_a_retry_tells_what_it_revives_what_it_does_not_and_what_is_gone(
    world: StoreWorld, orders: Orders
) -> None:
    reader = FlowReader(world.records, world.predecessors, BatchStore(world.shard, world.tally))
    first, other = await world.enqueue(), await world.enqueue()
    second = await orders.behind(first)
    third = await orders.behind(second)
    both = await orders.behind(first, other)
    behind_both = await orders.behind(third, both)
    removed = await orders.behind(first)
    assert await reader.revival(first) == Revival(0, 0, 0, is_complete=True)
    worker = await world.worker()
    for job in await world.claim(worker):
        assert await world.fail(worker, job)
    await orders.carry_out()
    await world.operator_actions.delete(removed)
    await orders.carry_out()
    assert await reader.revival(first) == Revival(2, 2, 1, is_complete=True)
    assert await reader.revival(other) == Revival(0, 2, 0, is_complete=True)
    await world.operator_actions.retry(await world.get(first))
    await orders.carry_out()
    waiting = ["awaiting_jobs"] * 2
    assert await orders.states(second, third, both, behind_both) == [*waiting, "skipped", "skipped"]
    assert await reader.revival(other) == Revival(2, 0, 0, is_complete=True)


@pytest.mark.req("P9", "M1")
async def test_jobs_kept_for_others_are_bounded_and_do_not_displace_the_rest(
    world: StoreWorld, orders: Orders
) -> None:
    first = await world.enqueue()
    skipped = [await orders.behind(first) for _ in range(6)]
    await failed_first(world, orders, await world.worker(), first)
    world.pass_ms(10)
    expired = await world.enqueue_many(5, delay_ms=1, expires_at_ms=world.now_ms + 1)
    world.pass_ms(1)
    await world.due.expire(world.epoch)
    limits = {"retention_ms": HOUR_MS, "max_jobs": 3}
    assert await world.retention.sweep(world.epoch, JobState.SKIPPED, **limits, most_needed=10) == 2
    assert await gone(world, *skipped) == [False] * 6
    assert await gone(world, *expired) == [True] * 2 + [False] * 3
    # There may be three, and four more.
    assert await world.retention.sweep(world.epoch, JobState.SKIPPED, **limits, most_needed=4) == 2
    assert sum(await gone(world, *skipped)) == 2


@pytest.mark.req("M1")
async def test_kept_jobs_do_not_delay_the_others_and_keep_their_place_in_lists(
    world: StoreWorld, orders: Orders
) -> None:
    first = await world.enqueue()
    specs = [world.spec(after=(await world.get(await orders.behind(first))).after) for _ in range(700)]
    await world.acceptance.enqueue(specs[:500])
    await world.acceptance.enqueue(specs[500:])
    await failed_first(world, orders, await world.worker(), first)
    key = world.shard.keys.finished(JobState.SKIPPED)
    before = await world.redis.zrange(key, 0, -1, withscores=True)
    assert len(before) == 1_400
    world.pass_ms(10)
    expired = await world.enqueue_many(5, delay_ms=1, expires_at_ms=world.now_ms + 1)
    world.pass_ms(1)
    await world.due.expire(world.epoch)
    world.pass_ms(HOUR_MS)
    clock = ManualClock(lambda seconds: world.pass_ms(round(seconds * 1000)))
    sweeper = Sweeper(
        Leadership(world.epoch, "m"),
        world.retention,
        clock,
        retention=LiveValue({JobState.SKIPPED: SHORT}),
        on_stale=lambda: None,
    )
    await sweeper.start()
    await clock.asleep()
    await sweeper.stop()
    assert await gone(world, *expired) == [True] * 5
    assert await world.redis.zrange(key, 0, -1, withscores=True) == before
