"""Batches count their members in the scripts that end, revive and remove jobs, and start their callbacks once."""

from dataclasses import replace

import pytest

from jqmaster.domain.batches.batch import BatchCallback, BatchSpec, CallbackState, callback_job_id
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import CallbackOf, Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.jobs.unique import OnConflict, Unique, UniqueScope
from jqmaster.errors import (
    ConflictError,
    DamagedError,
    InvalidError,
    StaleEpochError,
    StoreUnavailableError,
)
from jqmaster.store.batches import batches as store_of_batches
from jqmaster.store.batches.batches import BatchStore, due_callbacks
from jqmaster.store.health.findings import Finding
from jqmaster.store.health.repair import Repair
from jqmaster.store.jobs.enqueue_outcomes import BatchClosed
from jqmaster.store.jobs.placement import StaleConstraints
from jqmaster.store.jobs.settlements import Settlement
from tests.support.batches import LIFE_MS, RETENTION_MS, Batches
from tests.support.constraints import ConstrainedWorld
from tests.support.store import TIMES, StoreWorld

FAILED = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
DISCARDED = Decision(JobState.DISCARDED, "discarded")


@pytest.fixture
def batches(world: StoreWorld) -> Batches:
    return Batches(world)


async def succeed(world: StoreWorld, worker: str, name: str = "work") -> int:
    """Claim all ready jobs and end them successfully."""
    jobs = await world.claim(worker, name)
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"") for job in jobs])
    return len(jobs)


@pytest.mark.req("S7")
async def test_a_batch_is_complete_when_all_are_over_and_starts_its_callbacks_once(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(3, batch=batch)
    assert await batches.ended(batch) == {"total": 3, "unfinished": 3}
    assert await succeed(world, worker) == 3
    # All jobs are over, but more may come.
    assert await batches.state(batch) == "open"
    assert await batches.waiting() == []
    await batches.service.seal(batch)
    assert await batches.state(batch) == "complete"
    assert await batches.ended(batch) == {"total": 3, "succeeded": 3}
    await batches.carry_out()
    await batches.carry_out()
    assert await batches.callbacks(batch) == {"on_success", "on_complete"}
    job = await world.get(callback_job_id(batch, BatchCallback.SUCCESS))
    assert (job.name, job.callback_of, job.batch) == ("on_success", CallbackOf(batch, "on_success"), None)
    assert world.tally.of("on_success").pushed == 1
    assert batches.figures.callbacks == {"on_success": 1, "on_complete": 1}


@pytest.mark.req("S7")
async def test_an_empty_sealed_batch_is_complete(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    await batches.service.seal(batch)
    await batches.carry_out()
    assert await batches.state(batch) == "complete"
    assert await batches.callbacks(batch) == {"on_success", "on_complete"}
    async with world.unchanged():
        await batches.service.seal(batch)


@pytest.mark.req("S7")
async def test_a_member_may_add_further_ones_to_a_sealed_batch(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue(batch=batch)
    await batches.service.seal(batch)
    (job,) = await world.claim(worker)
    await world.enqueue(batch=batch)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    assert await batches.state(batch) == "sealed"
    assert await succeed(world, worker) == 1
    assert await batches.state(batch) == "complete"
    spec = world.spec(batch=batch)
    async with world.unchanged():
        assert await world.acceptance.enqueue([spec]) == [BatchClosed(batch, is_none=False)]


@pytest.mark.req("S7")
async def test_the_first_failure_starts_its_callback_and_a_retry_the_one_of_success(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(3, batch=batch)
    await batches.service.seal(batch)
    jobs = await world.claim(worker)
    assert await world.fail(worker, jobs[0], FAILED)
    await batches.carry_out()
    assert await batches.callbacks(batch) == {"on_failure"}
    assert await world.fail(worker, jobs[1], FAILED)
    assert await world.fail(worker, jobs[2], DISCARDED)
    await batches.carry_out()
    assert await batches.ended(batch) == {"total": 3, "failed": 2, "discarded": 1}
    assert await batches.callbacks(batch) == {"on_failure", "on_complete"}
    assert await batches.service.retry(batch) == 2
    await batches.carry_out()
    assert await batches.state(batch) == "sealed"
    assert await batches.ended(batch) == {"total": 3, "unfinished": 2, "discarded": 1}
    assert await succeed(world, worker) == 2
    await batches.carry_out()
    assert await batches.callbacks(batch) == {"on_failure", "on_complete", "on_success"}
    assert batches.figures.callbacks == {"on_failure": 1, "on_complete": 1, "on_success": 1}


@pytest.mark.req("S7")
async def test_a_result_that_is_reported_twice_counts_once(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(2, batch=batch)
    good, bad = await world.claim(worker)
    settlement = world.settlement(await world.get(bad.job_id), bad.token, FAILED)
    for _ in range(2):
        await world.settlements.settle_success(worker, [(good.job_id, good.token, b"")])
        await world.settlements.settle(worker, [settlement])
    stale = Settlement(good.job_id, "0" * 32, FAILED, b"", b"")
    assert await world.settlements.settle(worker, [stale]) == [False]
    assert await batches.ended(batch) == {"total": 2, "succeeded": 1, "failed": 1}


@pytest.mark.req("S7")
async def test_a_repeated_push_joins_once(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    specs = [world.spec(argument=n, batch=batch) for n in range(3)]
    for _ in range(2):
        await world.acceptance.enqueue(specs)
    assert await batches.ended(batch) == {"total": 3, "unfinished": 3}
    assert await batches.store.members(batch) == sorted(spec.id for spec in specs)


@pytest.mark.req("S7")
async def test_every_way_to_end_moves_a_count(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    worker = await world.worker()
    canceled, deleted, retried = [await world.enqueue(batch=batch) for _ in range(3)]
    await world.enqueue(batch=batch, expires_at_ms=world.now_ms + 10)
    await world.enqueue("lost", batch=batch, max_retry=0)
    await world.operator_actions.cancel(canceled)
    await world.operator_actions.delete(deleted)
    world.pass_ms(10)
    await world.due.expire(world.epoch)
    assert await batches.ended(batch) == {
        "total": 5,
        "unfinished": 2,
        "canceled": 1,
        "deleted": 1,
        "skipped": 1,
    }
    (job,) = await world.claim(worker)
    assert job.job_id == retried
    await world.operator_actions.cancel(retried)
    await world.operator_actions.retry(await world.get(retried))
    assert await batches.ended(batch) == {
        "total": 5,
        "unfinished": 2,
        "canceled": 1,
        "deleted": 1,
        "skipped": 1,
    }
    await world.operator_actions.cancel(retried)
    await world.operator_actions.delete(retried)
    assert await batches.ended(batch) == {
        "total": 5,
        "unfinished": 1,
        "canceled": 1,
        "deleted": 2,
        "skipped": 1,
    }
    await batches.service.seal(batch)
    other = await world.worker("lost")
    (lost,) = await world.claim(other, "lost")
    assert await world.fail(other, lost, FAILED)
    assert await batches.state(batch) == "complete"
    await batches.carry_out()
    assert await batches.callbacks(batch) == {"on_complete", "on_failure"}


@pytest.mark.req("S7")
async def test_deleting_a_member_that_succeeded_does_not_spoil_the_success(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make()
    worker = await world.worker()
    first, _ = await world.enqueue_many(2, batch=batch)
    assert await succeed(world, worker) == 2
    await world.operator_actions.delete(first)
    assert await batches.ended(batch) == {"total": 1, "succeeded": 1}
    await batches.service.seal(batch)
    await batches.carry_out()
    assert "on_success" in await batches.callbacks(batch)


@pytest.mark.req("S7")
async def test_deleting_the_last_waiting_member_completes_the_batch_without_success(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make()
    job = await world.enqueue(batch=batch)
    await batches.service.seal(batch)
    await world.operator_actions.delete(job)
    await batches.carry_out()
    assert await batches.state(batch) == "complete"
    assert await batches.callbacks(batch) == {"on_complete"}


@pytest.mark.req("S7")
async def test_a_canceled_batch_cancels_its_members_and_takes_no_more(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(1_200, batch=batch)
    jobs = await world.claim(worker)
    await batches.service.cancel(batch)
    assert await world.acceptance.enqueue([world.spec(batch=batch)]) == [BatchClosed(batch, is_none=False)]
    await batches.carry_out()
    assert await batches.state(batch) == "complete"
    assert await batches.ended(batch) == {"total": 1_200, "canceled": 1_200}
    assert await batches.callbacks(batch) == {"on_complete"}
    assert {order[1] for order in batches.served.orders} <= {job.job_id for job in jobs}
    await batches.service.cancel(batch)
    await batches.carry_out()
    assert await batches.waiting() == []


@pytest.mark.req("S7")
async def test_a_complete_batch_cannot_be_canceled(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    await batches.service.seal(batch)
    with pytest.raises(ConflictError, match="complete"):
        await batches.service.cancel(batch)


@pytest.mark.req("S7")
@pytest.mark.parametrize("ends_well", [True, False])
async def test_a_batch_is_a_member_of_another(world: StoreWorld, batches: Batches, ends_well: bool) -> None:
    parent = await batches.make()
    child = await batches.make(parent=parent)
    worker = await world.worker()
    await world.enqueue(batch=child)
    await batches.service.seal(parent)
    assert await batches.state(parent) == "sealed"
    (job,) = await world.claim(worker)
    if ends_well:
        await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    else:
        await world.fail(worker, job, FAILED)
    assert await batches.state(parent) == "sealed"
    await batches.service.seal(child)
    assert [await batches.state(one) for one in (child, parent)] == ["complete", "complete"]
    await batches.carry_out()
    expected = {"on_complete", "on_success" if ends_well else "on_failure"}
    assert await batches.callbacks(parent) == await batches.callbacks(child) == expected
    if not ends_well:
        await batches.service.retry(parent)
        await batches.carry_out()
        assert [await batches.state(one) for one in (child, parent)] == ["sealed", "sealed"]
        assert await succeed(world, worker) == 1
        await batches.carry_out()
        assert await batches.callbacks(parent) == {"on_complete", "on_success", "on_failure"}


@pytest.mark.req("S7")
async def test_canceling_a_batch_cancels_those_inside(world: StoreWorld, batches: Batches) -> None:
    parent = await batches.make()
    child = await batches.make(parent=parent)
    job = await world.enqueue(batch=child)
    await batches.service.cancel(parent)
    await batches.carry_out()
    assert await world.state(job) is JobState.CANCELED
    assert [await batches.state(one) for one in (child, parent)] == ["complete", "complete"]


@pytest.mark.req("S7")
async def test_a_batch_that_is_refused_writes_nothing(world: StoreWorld, batches: Batches) -> None:
    over = await batches.make()
    await batches.service.seal(over)
    chain = [await batches.make()]
    for _ in range(9):
        chain.append(await batches.make(parent=chain[-1]))
    async with world.unchanged():
        with pytest.raises(ConflictError, match="complete or canceled"):
            await batches.make(parent=over)
        with pytest.raises(InvalidError, match="no batch"):
            await batches.make(parent="00000000-0000-7000-8000-000000000000")
        with pytest.raises(InvalidError, match="10 levels"):
            await batches.make(parent=chain[-1])
        with pytest.raises(ConflictError, match="another batch"):
            await batches.make(id=over, description="other")
        with pytest.raises(AssertionError):
            await batches.make(id=over)


@pytest.mark.req("S7")
async def test_a_push_into_an_unknown_batch_writes_nothing(world: StoreWorld, batches: Batches) -> None:
    unknown = "00000000-0000-7000-8000-000000000000"
    async with world.unchanged():
        with pytest.raises(InvalidError, match="no batch"):
            await batches.served.enqueue.one(world.spec(batch=unknown))
        with pytest.raises(InvalidError, match="no batch"):
            await batches.served.enqueue.bulk([world.spec(), world.spec(batch=unknown)])


@pytest.mark.req("S7")
async def test_a_member_is_kept_until_its_batch_is_over(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(2, batch=batch)
    await world.enqueue()
    assert await succeed(world, worker) == 3
    world.pass_ms(10_000)
    limits = {"retention_ms": 5_000, "max_jobs": 10}
    assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, **limits) == 1
    assert await batches.ended(batch) == {"total": 2, "succeeded": 2}
    world.pass_ms(10_000)
    assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, retention_ms=10**9, max_jobs=0) == 0
    await batches.service.seal(batch)
    world.pass_ms(10_000)
    assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, **limits) == 2
    assert await batches.ended(batch) == {"total": 2, "succeeded": 2, "gone": 2}
    assert await batches.store.members(batch) == []


@pytest.mark.req("S7")
async def test_the_members_of_a_batch_without_success_are_kept_as_long_as_it_may_be_retried(
    world: StoreWorld, batches: Batches
) -> None:
    parent = await batches.make()
    child = await batches.make(parent=parent)
    worker = await world.worker()
    await world.enqueue_many(3, batch=child)
    await world.enqueue("later", batch=parent)
    await batches.service.seal(child)
    await batches.service.seal(parent)
    (first, *others) = await world.claim(worker)
    assert await world.fail(worker, first, FAILED)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"") for job in others])
    await batches.carry_out()
    assert [await batches.state(one) for one in (child, parent)] == ["complete", "sealed"]
    limits = {"retention_ms": 5_000, "max_jobs": 10}

    async def sweep() -> list[int]:
        await batches.expiry.end_due(world.epoch)
        return [
            await world.retention.sweep(world.epoch, state, **limits)
            for state in (JobState.SUCCEEDED, JobState.FAILED)
        ]

    # The batch inside another one waits with it.
    for _ in range(3):
        world.pass_ms(RETENTION_MS + 600_000)
        assert await sweep() == [0, 0]
    assert await succeed(world, await world.worker("later"), "later") == 1
    await batches.carry_out()
    assert [await batches.state(one) for one in (child, parent)] == ["complete", "complete"]
    world.pass_ms(RETENTION_MS - 1)
    assert await sweep() == [0, 0]
    await batches.service.retry(parent)
    await batches.carry_out()
    assert await succeed(world, worker) == 1
    await batches.carry_out()
    assert "on_success" in await batches.callbacks(parent)
    world.pass_ms(10_000)
    # All have succeeded, and the jobs of the callbacks wait.
    assert await sweep() == [4, 0]
    world.pass_ms(RETENTION_MS)
    for _ in range(2):
        await sweep()
        world.pass_ms(600_000)
    assert await batches.store.count() == 0


@pytest.mark.req("S7")
async def test_the_members_of_a_batch_go_when_it_can_no_longer_be_retried(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make([])
    worker = await world.worker()
    await world.enqueue_many(3, batch=batch)
    await batches.service.seal(batch)
    (first, *others) = await world.claim(worker)
    assert await world.fail(worker, first, FAILED)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"") for job in others])
    limits = {"retention_ms": 5_000, "max_jobs": 10}
    for passed_ms, removed in ((RETENTION_MS - 1, 0), (1, 2)):
        world.pass_ms(passed_ms)
        await batches.expiry.end_due(world.epoch)
        assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, **limits) == removed


@pytest.mark.req("S7")
async def test_a_push_that_replaces_a_waiting_member_takes_its_place(
    world: StoreWorld, batches: Batches
) -> None:
    first, second = await batches.make(), await batches.make()
    unique = Unique("d" * 32, "key", UniqueScope.UNTIL_START, OnConflict.REPLACE)
    job = await world.enqueue(batch=first, unique=unique)
    for target in (second, second, first):
        await world.acceptance.enqueue([world.spec(argument=target, batch=target, unique=unique)])
        counts = [await batches.ended(one) for one in (first, second)]
        assert counts == ([{}, {"total": 1, "unfinished": 1}] if target == second else [*counts[:1], {}])
        assert (await world.get(job)).batch == target
    await world.acceptance.enqueue([world.spec(argument=0, unique=unique)])
    assert [await batches.ended(one) for one in (first, second)] == [{}, {}]
    assert (await world.get(job)).batch is None


@pytest.mark.req("S7")
async def test_a_batch_that_takes_too_long_is_canceled_and_a_complete_one_is_removed(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make(expires_at_ms=world.now_ms + 60_000)
    other = await batches.make()
    job = await world.enqueue(batch=batch)
    assert await batches.expiry.end_due(world.epoch) == 60_000
    world.pass_ms(60_000)
    await batches.expiry.end_due(world.epoch)
    await batches.carry_out()
    assert await world.state(job) is JobState.CANCELED
    assert await batches.state(batch) == "complete"
    assert batches.figures.expired == 1
    await batches.expiry.end_due(world.epoch)
    world.pass_ms(RETENTION_MS - 1)
    await batches.expiry.end_due(world.epoch)
    assert await batches.state(batch) == "complete"
    world.pass_ms(1)
    await batches.expiry.end_due(world.epoch)
    assert await batches.store.get(batch) is None
    assert [one for _, one in await batches.store.newest(None, 10)] == [other]
    world.pass_ms(LIFE_MS)
    await batches.expiry.end_due(world.epoch)
    await batches.carry_out()
    assert await batches.state(other) == "complete"
    # The member whose batch is gone continues on its own.
    await world.operator_actions.retry(await world.get(job))
    await world.operator_actions.delete(job)


@pytest.mark.req("S7")
async def test_no_crash_between_two_steps_leaves_a_batch_stuck(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue(batch=batch)
    await batches.service.seal(batch)
    assert await succeed(world, worker) == 1
    # The leader that reads the entry dies before it acts on it; another leader gets the same entry.
    entries = await batches.entries.oldest()
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await batches.batch_follow_ups.start_callbacks([batch], old)
        with pytest.raises(StaleEpochError):
            await batches.entries.end(old, entries)
    # The new leader enqueues the callbacks, and dies before it removes the entry.
    await batches.batch_follow_ups.start_callbacks([batch], world.epoch)
    assert await batches.callbacks(batch) == {"on_success", "on_complete"}
    await world.reelect()
    assert await batches.waiting() == [f"batch:{batch}"]
    # A callback that ran and was removed meanwhile does not run again.
    assert await succeed(world, await world.worker("on_success"), "on_success") == 1
    await world.operator_actions.delete(callback_job_id(batch, BatchCallback.SUCCESS))
    await batches.carry_out()
    assert await batches.callbacks(batch) == {"on_complete"}
    assert await batches.waiting() == []
    assert world.tally.of("on_success").pushed == 1


@pytest.mark.req("S7")
async def test_an_entry_that_is_written_again_while_it_is_carried_out_stays(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(2, batch=batch)
    await batches.service.seal(batch)
    bad, good = await world.claim(worker)
    await world.fail(worker, bad, FAILED)
    entries = await batches.entries.oldest()
    await batches.batch_follow_ups.start_callbacks([batch], world.epoch)
    await world.settlements.settle_success(worker, [(good.job_id, good.token, b"")])
    await batches.entries.end(world.epoch, entries)
    assert await batches.waiting() == [f"batch:{batch}"]
    await batches.carry_out()
    assert await batches.callbacks(batch) == {"on_failure", "on_complete"}


@pytest.mark.req("S7")
async def test_a_callback_that_fails_is_an_ordinary_failed_job(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    await batches.service.seal(batch)
    await batches.carry_out()
    worker = await world.worker("on_success")
    (job,) = await world.claim(worker, "on_success")
    await world.fail(worker, job, FAILED)
    await batches.carry_out()
    assert (await batches.get(batch)).callbacks[BatchCallback.SUCCESS] is CallbackState.ENQUEUED
    assert await batches.ended(batch) == {}
    await world.operator_actions.retry(await world.get(job.job_id))
    assert await succeed(world, worker, "on_success") == 1


@pytest.mark.req("S7")
async def test_a_bulk_makes_fills_and_seals_its_batch(world: StoreWorld, batches: Batches) -> None:
    spec = BatchSpec(id=new_id())
    jobs = [world.spec(argument=n) for n in range(1_100)]
    for _ in range(2):
        answer = await batches.service.create_with(spec, jobs)
        assert answer.ids == [job.id for job in jobs]
        assert await batches.state(spec.id) == "sealed"
        assert await batches.ended(spec.id) == {"total": 1_100, "unfinished": 1_100}
    assert (await batches.get(spec.id)).expires_at_ms == world.now_ms + LIFE_MS
    # A batch whose push breaks off is canceled after a while.
    broken = BatchSpec(id=new_id())
    await batches.service._put(broken, world.now_ms + 600_000)
    await world.enqueue(batch=broken.id)
    world.pass_ms(600_000)
    await batches.expiry.end_due(world.epoch)
    await batches.carry_out()
    assert await batches.ended(broken.id) == {"total": 1, "canceled": 1}


@pytest.mark.req("S7")
async def test_fsck_finds_wrong_counts_and_repair_puts_them_right(
    world: StoreWorld, batches: Batches
) -> None:
    k = world.shard.keys
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(3, batch=batch)
    (job,) = await world.claim(worker, limit=1)
    await world.fail(worker, job, FAILED)
    await batches.carry_out()
    await world.redis.hset(k.batch(batch), mapping={"succeeded": 2, "failed": 0})
    await batches.service.seal(batch)
    assert [finding.rule for finding in await world.findings()] == ["batch"]
    assert [finding.rule for finding in await repaired(world)] == ["batch"]
    assert await batches.ended(batch) == {"total": 3, "unfinished": 2, "failed": 1}
    # A member whose record is gone does not block the batch.
    lost = (await batches.store.members(batch))[-1]
    await world.operator_actions.delete(lost)
    await world.redis.hset(k.batch(batch), "deleted", 0)
    await world.redis.zadd(k.batch_members(batch), {lost: 0})
    assert [finding.rule for finding in await world.findings()] == ["batch"]
    await repaired(world)
    assert await batches.ended(batch) == {"total": 3, "unfinished": 1, "failed": 1, "deleted": 1}


@pytest.mark.req("S7")
async def test_repair_writes_a_lost_follow_up_again(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    await batches.service.seal(batch)
    await world.redis.delete(world.shard.keys.follow_ups)
    assert [finding.rule for finding in await world.findings()] == ["batch"]
    await repaired(world)
    await batches.carry_out()
    assert await batches.callbacks(batch) == {"on_success", "on_complete"}


async def repaired(world: StoreWorld) -> list[Finding]:
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    return [finding async for step in repair.steps() for finding in step.repaired]


@pytest.mark.req("S7")
async def test_members_that_are_not_over_are_counted_by_their_states(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(3, batch=batch)
    await world.enqueue(batch=batch, delay_ms=1_000)
    await world.enqueue()
    await world.claim(worker, limit=2)
    shown = await batches.service.get(batch)
    assert shown.unfinished is not None
    counts = {str(state): count for state, count in shown.unfinished.items() if count}
    assert counts == {"running": 2, "ready": 1, "scheduled": 1}
    examples = await batches.service.examples(shown.batch, 2)
    assert len(examples) == 2


@pytest.mark.req("S7")
async def test_batches_of_one_millisecond_are_listed_page_by_page(
    world: StoreWorld, batches: Batches
) -> None:
    made = [await batches.make() for _ in range(4)]
    world.pass_ms(1)
    made.append(await batches.make())
    expected = [made[4], *sorted(made[:4], reverse=True)]
    listed: list[tuple[int, str]] = []
    while page := await batches.store.newest(listed[-1] if listed else None, 2):
        listed += page
    assert [batch for _, batch in listed] == expected
    assert await batches.store.count() == 5


@pytest.mark.req("S7")
async def test_one_batch_that_cannot_be_read_hides_no_other(
    world: StoreWorld, batches: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    k = world.shard.keys
    good, damaged = await batches.make(), await batches.make()
    spec = await world.redis.hget(k.batch(damaged), "spec")
    await world.redis.hset(k.batch(damaged), "spec", b"\xc1")
    found = await batches.store.get_all([damaged, new_id(), good])
    assert list(found) == [good]
    assert f"batch {damaged}: its fields cannot be read" in caplog.text
    with pytest.raises(DamagedError, match=damaged):
        await batches.store.get(damaged)
    await world.redis.hset(k.batch(damaged), "spec", spec)


@pytest.mark.req("S7")
async def test_the_unfinished_jobs_of_a_batch_are_counted_up_to_a_bound(
    world: StoreWorld, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_of_batches, "MAX_COUNTED", 3)
    batch = await batches.make()
    none = await batches.store.unfinished(await batches.get(batch))
    assert none is not None
    assert set(none.values()) == {0}
    worker = await world.worker()
    jobs = await world.enqueue_many(3, batch=batch)
    (job,) = await world.claim(worker, limit=1)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    counted = await batches.store.unfinished(await batches.get(batch))
    assert counted == none | {JobState.READY: 2}
    states = await batches.store.states([*jobs[:2], new_id()])
    assert [member.state for member in states] == [JobState.SUCCEEDED, JobState.READY, None]
    await world.enqueue(batch=batch)
    assert await batches.store.unfinished(await batches.get(batch)) is None


@pytest.mark.req("S7")
async def test_batches_and_callbacks_are_written_under_the_rules_and_data_that_were_read(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make([BatchCallback.COMPLETE])
    await batches.service.seal(batch)
    due = due_callbacks({batch: await batches.get(batch)})
    constrained = ConstrainedWorld(world)
    await constrained.limit(concurrency=1)
    async with world.unchanged():
        with pytest.raises(StaleConstraints):
            await batches.store.start_callbacks(due, epoch=world.epoch)
    others = BatchStore(replace(world.shard, mark="other"), world.tally)
    constraints = (await constrained.constraints.reload()).constraint_set
    async with world.unchanged():
        with pytest.raises(StoreUnavailableError, match="no batch was created") as refused:
            await others.start_callbacks(due, constraints, epoch=world.epoch)
        assert refused.value.code == "store_unfit"
        with pytest.raises(StoreUnavailableError):
            await others.put(BatchSpec(id=new_id()), life_ms=LIFE_MS)
    assert await batches.store.start_callbacks(due, constraints, epoch=world.epoch) == [True]
    # A leader that got no answer repeats the step.
    assert await batches.store.start_callbacks(due, constraints, epoch=world.epoch) == [False]
    assert world.tally.of("on_complete").pushed == 1
    await batches.carry_out()
