from dataclasses import replace

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from jqmaster.live_value import LiveValue
from jqmaster.store.jobs.leases import LeaseStore
from jqmaster.store.workers.workers import HeartbeatReply
from tests.store.jobs.test_claim import damage
from tests.support.store import GRACE_MS, LEASE_MS, OFFER_MS, TIMES, StoreWorld


@pytest.mark.req("M3", "M6")
async def test_a_heartbeat_keeps_the_claims_that_it_names(world: StoreWorld) -> None:
    worker, job = await world.running(timeout_ms=86_400_000)
    world.pass_ms(14_000)
    answer = await world.workers.renew(worker, [(job.job_id, job.token)], 3)
    number = int(world.epoch.split(":")[0])
    assert answer == HeartbeatReply(
        world.now_ms, number, False, None, frozenset(), frozenset(), job.fence, 10
    )
    k = world.shard.keys
    assert await world.score(k.running, job.job_id) == world.now_ms + LEASE_MS
    assert await world.score(k.workers, worker) == world.now_ms
    assert await world.redis.hget(k.worker(worker), "free") == b"3"
    assert (await world.get(job.job_id)).is_confirmed
    # The same renewal at the same instant changes nothing.
    async with world.unchanged():
        assert await world.workers.renew(worker, [(job.job_id, job.token)], 3) == answer


async def test_before_the_first_claim_no_fence_was_given(world: StoreWorld) -> None:
    answer = await world.workers.renew(await world.worker(), [], 3)
    assert answer is not None
    assert answer.fence == 0


async def test_no_renewal_reaches_beyond_the_deadline(world: StoreWorld) -> None:
    worker, job = await world.running(timeout_ms=12_000)
    started = world.now_ms
    deadline = started + OFFER_MS + 12_000 + GRACE_MS
    for at in (10_000, 20_000, 30_000):
        world.now_ms = started + at
        await world.workers.renew(worker, [(job.job_id, job.token)], 0)
        score = await world.score(world.shard.keys.running, job.job_id)
        assert score == min(deadline, world.now_ms + LEASE_MS)


@pytest.mark.req("M3")
async def test_nobody_vouches_for_a_time_that_is_still_to_come(world: StoreWorld) -> None:
    """The store's clock was set back, and the worker does not know it yet: the worker may take its next offer."""
    worker = await world.worker()
    assert await world.workers.renew(worker, [], 1, world.now_ms + 3_600_000)
    assert (
        await world.shard.client.redis.hget(world.shard.keys.worker(worker), "as_of_ms")
        == b"%d" % world.now_ms
    )
    assert await world.workers.renew(worker, [], 1, world.now_ms - 7)
    assert await world.shard.client.redis.hget(world.shard.keys.worker(worker), "as_of_ms") == b"%d" % (
        world.now_ms - 7
    )


async def test_an_unknown_worker_renews_nothing(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.workers.forget(worker)
    world.pass_ms(1_000)
    async with world.unchanged():
        assert await world.workers.renew(worker, [(job.job_id, job.token)], 0) is None


@pytest.mark.req("M3", "D5")
async def test_claims_that_are_not_its_own_are_told_as_lost(world: StoreWorld) -> None:
    worker, job = await world.running()
    other, theirs = await world.running("other")
    never = world.spec().id
    world.pass_ms(1_000)
    claims = [(job.job_id, "0" * 32), (theirs.job_id, theirs.token), (never, job.token)]
    before = [await world.get(j.job_id) for j in (job, theirs)]
    answer = await world.workers.renew(worker, claims, 0)
    assert answer
    assert answer.lost == set(claims)
    assert answer.to_cancel == frozenset()
    assert [await world.get(j.job_id) for j in (job, theirs)] == before
    for j in (job, theirs):
        assert await world.score(world.shard.keys.running, j.job_id) == world.now_ms - 1_000 + LEASE_MS
    assert other != worker


async def test_a_canceled_job_is_told_to_its_worker_alone(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.operator_actions.cancel(job.job_id)
    answer = await world.workers.renew(worker, [(job.job_id, job.token)], 0)
    assert answer
    assert (answer.to_cancel, answer.lost) == ({(job.job_id, job.token)}, frozenset())
    other = await world.worker()
    answer = await world.workers.renew(other, [(job.job_id, job.token)], 0)
    assert answer
    assert (answer.to_cancel, answer.lost) == (frozenset(), {(job.job_id, job.token)})
    assert await world.score(world.shard.keys.running, job.job_id) is None


async def test_a_settled_job_is_not_brought_back(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    answer = await world.workers.renew(worker, [(job.job_id, job.token)], 0)
    assert answer
    assert answer.lost == {(job.job_id, job.token)}
    assert await world.state(job.job_id) is JobState.SUCCEEDED


async def test_the_worker_learns_what_it_was_told(world: StoreWorld) -> None:
    worker = await world.worker()
    redis, k = world.redis, world.shard.keys
    await redis.hset(k.worker(worker), mapping={"is_draining": 1, "is_detached": 1})
    answer = await world.workers.renew(worker, [], 0)
    assert answer
    assert (answer.is_draining, answer.is_detached) == (True, True)


async def test_a_heartbeat_before_any_election(world: StoreWorld) -> None:
    worker = await world.worker()
    await world.redis.delete(world.shard.keys.epoch, world.shard.keys.leader)
    answer = await world.workers.renew(worker, [], 0)
    assert answer
    assert answer.epoch == 0


async def test_more_claims_than_one_call_holds_some_damaged(world: StoreWorld) -> None:
    await world.enqueue_many(1_000)
    worker = await world.worker(max_jobs=1_000)
    jobs = [job for _ in range(10) for job in await world.claim(worker)]
    bad = {jobs[7].job_id: "wrong type", jobs[777].job_id: "gone"}
    for job_id, how in bad.items():
        await damage(world, job_id, how)
    world.pass_ms(1_000)
    answer = await world.workers.renew(worker, [(j.job_id, j.token) for j in jobs], 0)
    assert answer
    assert {job_id for job_id, _ in answer.lost} == set(bad)
    redis, k = world.redis, world.shard.keys
    assert await redis.zcount(k.running, world.now_ms + LEASE_MS, "+inf") == 998
    await world.leases.set_aside(world.epoch, list(bad))
    # Their lane is no longer known.
    world.never_counted_out["work"] = 2
    for job_id in bad:
        await world.operator_actions.delete(job_id)


async def test_leases_that_last_longer_than_new_ones_are_cut(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jqmaster.store.jobs import leases as module

    await world.enqueue_many(3)
    ids = [job.job_id for job in await world.claim(await world.worker())]
    monkeypatch.setattr(module, "MAX_PER_CALL", 2)
    shorter = LeaseStore(
        world.shard, world.records, world.tally, LiveValue(replace(TIMES.current, lease_ms=2_000))
    )
    await shorter.shorten_leases(world.epoch)
    running = world.shard.keys.running
    assert [await world.score(running, job_id) for job_id in ids] == [world.now_ms + 2_000] * 3
    async with world.unchanged():
        await shorter.shorten_leases(world.epoch)
        await world.leases.shorten_leases(world.epoch)
        with pytest.raises(StaleEpochError):
            await shorter.shorten_leases("0:former")
