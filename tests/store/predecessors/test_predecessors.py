"""Jobs that wait for others start when these have succeeded, are skipped when one ended otherwise, and wait again when
it is retried."""

from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.jobs.predecessors import After, AfterWhen, SkippedBy
from jqmaster.errors import StaleEpochError
from jqmaster.store.health.repair import Repair
from jqmaster.store.jobs.claims import OmissionReason
from jqmaster.store.jobs.enqueue_outcomes import Accepted, PredecessorRefused, PushRefused
from jqmaster.store.jobs.operator_actions import Changes
from tests.support.predecessors import Orders
from tests.support.store import START_MS, TIMES, StoreWorld

DISCARDED = Decision(JobState.DISCARDED, "discarded")


@pytest.fixture
def orders(world: StoreWorld) -> Orders:
    return Orders(world)


async def succeed(world: StoreWorld, worker: str, result: bytes = b"\xc0") -> list[str]:
    """Claim all ready jobs, end them successfully, and return their IDs."""
    jobs = await world.claim(worker)
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, result) for job in jobs])
    return [job.job_id for job in jobs]


async def mend(world: StoreWorld) -> None:
    """Repair the whole shard, as the leader does."""
    async for _ in Repair(world.shard, world.epoch, who="test", times=TIMES).steps():
        pass


@pytest.mark.req("P9")
async def test_a_job_starts_when_the_last_of_its_predecessors_has_succeeded(
    world: StoreWorld, orders: Orders
) -> None:
    first, second = await world.enqueue(), await world.enqueue()
    third = await orders.behind(first, second)
    worker = await world.worker()
    assert await orders.states(first, second, third) == ["ready", "ready", "awaiting_jobs"]
    (job, other) = await world.claim(worker)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"\x01")])
    await orders.carry_out()
    assert await orders.states(third) == ["awaiting_jobs"]
    await world.settlements.settle_success(worker, [(other.job_id, other.token, b"\x02")])
    await orders.carry_out()
    assert await orders.states(third) == ["ready"]
    (job,) = await world.claim(worker)
    assert job.job_id == third
    await world.predecessors.give_inputs([job])
    assert job.inputs is not None
    assert [(one.job_id, one.state, one.result) for one in job.inputs] == [
        (first, JobState.SUCCEEDED, b"\x01"),
        (second, JobState.SUCCEEDED, b"\x02"),
    ]


@pytest.mark.req("P9")
async def test_jobs_of_one_push_may_wait_for_each_other(world: StoreWorld, orders: Orders) -> None:
    first, second = world.spec(), world.spec()
    second.after = After((first.id,))
    third = world.spec(after=After((first.id, second.id)))
    assert await world.acceptance.enqueue([first, second, third], is_whole=True) == [Accepted.NEW] * 3
    worker = await world.worker()
    for spec in (first, second, third):
        assert await succeed(world, worker) == [spec.id]
        await orders.carry_out()
    # A repeat of the push counts as the same push, whatever became of its jobs.
    async with world.unchanged():
        assert await world.acceptance.enqueue([first, second, third], is_whole=True) == [Accepted.KNOWN] * 3


@pytest.mark.req("P9")
async def test_unknown_and_failed_predecessors_are_refused(world: StoreWorld, orders: Orders) -> None:
    worker, job = await world.running()
    assert await world.fail(worker, job)
    unknown = new_id()
    specs = [world.spec(after=After((unknown,))), world.spec(after=After((job.job_id,)))]
    refusals = [PredecessorRefused(unknown, is_none=True), PredecessorRefused(job.job_id, is_none=False)]
    async with world.unchanged():
        assert await world.acceptance.enqueue(specs) == refusals
    async with world.unchanged():
        with pytest.raises(PushRefused) as refused:
            await world.acceptance.enqueue([world.spec(), *specs], is_whole=True)
    assert refused.value.refused == {1: refusals[0], 2: refusals[1]}
    assert await world.acceptance.checks.find_refused([world.spec(), *specs]) == {
        1: refusals[0],
        2: refusals[1],
    }
    assert await orders.states(await orders.behind_the_end(job.job_id)) == ["ready"]


@pytest.mark.req("P9")
async def test_a_predecessor_that_succeeded_before_is_not_waited_for(
    world: StoreWorld, orders: Orders
) -> None:
    first = await world.enqueue()
    assert await succeed(world, await world.worker()) == [first]
    assert await orders.states(await orders.behind(first)) == ["ready"]


@pytest.mark.req("P9", "M2")
@pytest.mark.parametrize("ending", ["failed", "discarded", "canceled", "deleted", "expired"])
async def test_every_other_end_skips_all_that_follow_and_names_the_first_cause(
    world: StoreWorld, orders: Orders, ending: str
) -> None:
    expires: dict[str, Any] = {"expires_at_ms": world.now_ms + 10} if ending == "expired" else {}
    first = await world.enqueue(**expires)
    second = await orders.behind(first)
    third, fourth = await orders.behind(second), await orders.behind(first, second)
    anyway = await orders.behind_the_end(first, fourth)
    if ending in ("failed", "discarded"):
        worker = await world.worker()
        (job,) = await world.claim(worker)
        assert await world.fail(worker, job, DISCARDED if ending == "discarded" else None)
    elif ending == "canceled":
        await world.operator_actions.cancel(first)
    elif ending == "deleted":
        await world.operator_actions.delete(first)
    else:
        world.pass_ms(10)
        assert (await world.due.expire(world.epoch))[0] == 1
    await orders.carry_out()
    await orders.carry_out()
    assert await orders.states(second, third, fourth, anyway) == ["skipped", "skipped", "skipped", "ready"]
    skipped = await world.get(third)
    assert (skipped.cause, skipped.finished_at_ms) == (Cause.DEPENDENCY, world.now_ms)
    state = {"deleted": "", "expired": "skipped"}.get(ending, ending)
    assert (await world.predecessors.links(skipped)).skipped_by == SkippedBy(first, state)
    assert world.tally.of("work").skipped == (4 if ending == "expired" else 3)


@pytest.mark.req("P9")
async def test_a_job_that_expires_at_a_claim_is_told_to_its_dependents(
    world: StoreWorld, orders: Orders
) -> None:
    first = await world.enqueue(expires_at_ms=world.now_ms + 10)
    second = await orders.behind(first)
    world.pass_ms(10)
    assert await world.claim(await world.worker()) == []
    await orders.carry_out()
    assert await orders.states(first, second) == ["skipped", "skipped"]


@pytest.mark.req("P9")
async def test_a_retry_revives_what_the_failure_skipped(world: StoreWorld, orders: Orders) -> None:
    first, aside = await world.enqueue(), await world.enqueue(priority=9)
    second = await orders.behind(first)
    third = await orders.behind(first, second)
    with_aside = await orders.behind(second, aside)
    worker = await world.worker(max_jobs=10)
    job, other = await world.claim(worker)
    assert await world.fail(worker, job)
    assert await world.fail(worker, other)
    await orders.carry_out()
    assert await orders.states(second, third, with_aside) == ["skipped"] * 3
    await world.operator_actions.retry(await world.get(first))
    await orders.carry_out()
    # The last one has another predecessor that failed.
    assert await orders.states(second, third, with_aside) == ["awaiting_jobs", "awaiting_jobs", "skipped"]
    for expected in (first, second, third):
        assert await succeed(world, worker) == [expected]
        await orders.carry_out()
    await world.operator_actions.retry(await world.get(aside))
    await orders.carry_out()
    assert await orders.states(with_aside) == ["awaiting_jobs"]
    assert await succeed(world, worker) == [aside]
    await orders.carry_out()
    assert await succeed(world, worker) == [with_aside]
    await orders.carry_out()


@pytest.mark.req("P9")
async def test_an_entry_may_be_carried_out_again_and_late(world: StoreWorld, orders: Orders) -> None:
    first = await world.enqueue()
    second = await orders.behind(first)
    worker = await world.worker()
    (job,) = await world.claim(worker)
    assert await world.fail(worker, job)
    # The job was retried and succeeded before anything followed from the failure.
    await world.operator_actions.retry(await world.get(first))
    assert await succeed(world, worker) == [first]
    await orders.carry_out()
    assert await orders.states(second) == ["ready"]
    async with world.unchanged():
        await world.predecessors.release(first, "0", world.epoch)
    old = await world.reelect()
    with pytest.raises(StaleEpochError):
        await world.predecessors.release(first, "0", old)


@pytest.mark.req("P9")
async def test_a_wide_fan_starts_page_by_page(world: StoreWorld, orders: Orders) -> None:
    first = await world.enqueue()
    await world.enqueue_many(1_500, after=After((first,)))
    worker = await world.worker(max_jobs=2_000)
    assert await succeed(world, worker) == [first]
    await orders.carry_out()
    assert await world.redis.zcard(world.shard.keys.awaiting_jobs) == 0
    assert len(await world.claim(worker, limit=500)) == 500


@pytest.mark.req("P9")
async def test_a_job_waits_for_its_predecessors_and_then_for_its_time(
    world: StoreWorld, orders: Orders
) -> None:
    first = await world.enqueue()
    second = await orders.behind(first, delay_ms=60_000)
    assert await succeed(world, await world.worker()) == [first]
    await orders.carry_out()
    assert await orders.states(second) == ["scheduled"]


@pytest.mark.req("P9")
async def test_waiting_jobs_are_changed_canceled_and_deleted(world: StoreWorld, orders: Orders) -> None:
    first = await world.enqueue()
    changed, canceled, deleted = [await orders.behind(first) for _ in range(3)]
    await world.operator_actions.patch(await world.get(changed), Changes(priority=7, run_at_ms=START_MS - 1))
    await world.operator_actions.cancel(canceled)
    await world.operator_actions.delete(deleted)
    assert await orders.states(changed, canceled) == ["awaiting_jobs", "canceled"]
    assert await succeed(world, await world.worker()) == [first]
    await orders.carry_out()
    assert await orders.states(changed, canceled) == ["ready", "canceled"]
    assert (await world.get(changed)).priority == 7


@pytest.mark.req("P9")
async def test_results_are_kept_until_the_dependents_are_over(world: StoreWorld, orders: Orders) -> None:
    first = await world.enqueue()
    second = await orders.behind(first, name="later")
    worker = await world.worker("work", "later")
    assert await succeed(world, worker, b"\x07") == [first]
    await orders.carry_out()
    world.pass_ms(10 * 86_400_000)
    for _ in range(2):
        assert await world.retention.sweep_results(world.epoch) == 0
        assert (
            await world.retention.sweep(world.epoch, JobState.SUCCEEDED, retention_ms=1, max_jobs=1_000) == 0
        )
        world.pass_ms(600_000)
    (job,) = await world.claim(worker, "later")
    await world.predecessors.give_inputs([job])
    assert job.inputs
    assert job.inputs[0].result == b"\x07"
    await world.settlements.settle_success(worker, [(second, job.token, b"\xc0")])
    world.pass_ms(10)
    assert await world.retention.sweep_results(world.epoch) == 1
    assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, retention_ms=1, max_jobs=1_000) == 2
    k = world.shard.keys
    assert await world.redis.exists(k.awaited, k.dependents(first), k.awaits(second)) == 0


@pytest.mark.req("P9")
async def test_inputs_tell_which_results_are_missing_and_why(
    world: StoreWorld, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.store.jobs.predecessors.MAX_INPUT_BYTES", 3)
    ids = [await world.enqueue() for _ in range(4)]
    last = await world.enqueue(after=After(tuple(ids), AfterWhen.FINISHED), name="later")
    worker = await world.worker("work", "later")
    jobs = await world.claim(worker)
    await world.settlements.settle_success(
        worker,
        [(job.job_id, job.token, result) for job, result in zip(jobs, [b"12", b"3456", b"7"], strict=False)],
    )
    await world.operator_actions.cancel(ids[3])
    await world.operator_actions.delete(ids[3])
    await orders.carry_out()
    (job,) = await world.claim(worker, "later")
    await world.predecessors.give_inputs([job])
    assert job.job_id == last
    assert job.inputs is not None
    assert [one.result for one in job.inputs] == [b"12", None, b"7", None]
    assert (job.inputs[1].omitted, job.inputs[3].omitted) == (
        OmissionReason.TOO_LARGE,
        OmissionReason.NOT_KEPT,
    )
    assert job.inputs[3].state is None


@pytest.mark.req("P9", "P9")
async def test_fsck_finds_and_repair_mends_a_torn_order(world: StoreWorld, orders: Orders) -> None:
    k, redis = world.shard.keys, world.redis
    first = await world.enqueue()
    ids = [await orders.behind(first) for _ in range(4)]
    await redis.delete(k.awaits(ids[0]))
    await redis.zrem(k.dependents(first), ids[1])
    await redis.zrem(k.awaiting_jobs, ids[2])
    constraints = {f.key.removeprefix(k.job_prefix): f.rule for f in await world.findings()}
    assert constraints == {ids[0]: "order", ids[1]: "order", ids[2]: "membership"}
    await mend(world)
    await world.assert_sound()
    assert await succeed(world, await world.worker()) == [first]
    # The entry of the end is lost, as in a failover.
    await redis.delete(k.follow_ups)
    assert {f.rule for f in await world.findings()} == {"order"}
    await mend(world)
    await orders.carry_out()
    assert await orders.states(*ids) == ["ready"] * 4


@pytest.mark.req("P9")
async def test_jobs_without_predecessors_pay_nothing(world: StoreWorld) -> None:
    worker = await world.worker(max_jobs=100)
    keys = {"smismember", "sismember", "unlink", "hset"}

    async def calls_of() -> dict[str, int]:
        info = await world.redis.info("commandstats")
        return {name: info.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in keys}

    before = await calls_of()
    await world.enqueue_many(50)
    await succeed(world, worker)
    assert await calls_of() == before


@pytest.mark.req("P9")
async def test_dependents_of_many_jobs_are_read_up_to_a_bound(world: StoreWorld, orders: Orders) -> None:
    first, second, alone = [await world.enqueue() for _ in range(3)]
    behind = [await orders.behind(first) for _ in range(3)]
    other = await orders.behind(first, second)
    asked = [first, second, alone]
    found = await world.predecessors.dependents(asked, 10)
    assert set(found[first].first) == {*behind, other}
    assert (found[first].total, found[second], found[alone]) == (4, ([other], 1), ([], 0))
    bounded = await world.predecessors.dependents(asked, 2)
    assert [(len(bounded[one].first), bounded[one].total) for one in asked] == [(2, 4), (0, 1), (0, 0)]
    assert await world.predecessors.dependents([], 10) == {}
