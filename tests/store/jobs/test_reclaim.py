from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.jobs.job import Cause, Job, JobState
from jqmaster.domain.jobs.outcome import Decision, OrderlyEnd
from jqmaster.errors import StaleEpochError
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.leases import ExpiredLease
from jqmaster.store.jobs.records import HEAD_READ
from jqmaster.store.jobs.settlements import Settlement
from jqmaster.store.workers.workers import LEFT_NOTE_MS
from tests.store.jobs.test_claim import damage
from tests.support.store import LEASE_MS, RESULT_TTL_MS, StoreWorld

LOST = Decision(JobState.READY, "lost", is_loss=True)
POISON = Decision(JobState.FAILED, "lost", cause=Cause.LOST, is_loss=True)
OVERDUE = Decision(JobState.RETRYING, "timeout", delay_ms=700, cause=Cause.TIMEOUT, is_counted=True)


async def expired(world: StoreWorld, **fields: Any) -> tuple[str, ClaimedJob, Job]:
    worker, job = await world.running(**fields)
    world.pass_ms(LEASE_MS)
    return worker, job, await world.get(job.job_id)


def ending(world: StoreWorld, job: Job, decision: Decision) -> Settlement:
    return world.settlement(job, job.token, decision, b"lost result")


@pytest.mark.req("M2", "M3", "M4")
@pytest.mark.parametrize("decision", [LOST, POISON, OVERDUE], ids=lambda d: d.state)
async def test_an_ended_lease_leads_where_it_was_decided(world: StoreWorld, decision: Decision) -> None:
    worker, _claimed, job = await expired(world, priority=4, keep_result=True)
    assert await world.leases.reclaim(world.epoch, [ending(world, job, decision)]) == [True]
    is_final = decision.state is JobState.FAILED
    assert await world.get(job.id) == replace(
        job, state=decision.state, cause=decision.cause, failures=int(decision.is_counted),
        losses=int(decision.is_loss), token="", due_at_ms=world.now_ms + decision.delay_ms,
        finished_at_ms=world.now_ms if is_final else 0,
    )  # fmt: skip
    redis, k = world.redis, world.shard.keys
    assert not await redis.exists(k.running, k.claims(worker))
    assert [a.outcome for a in await world.records.history(job.id)] == [decision.ending]
    assert await redis.get(k.result(job.id)) == (b"lost result" if is_final else None)
    assert await world.score(k.results, job.id) == (world.now_ms + RESULT_TTL_MS if is_final else None)
    if decision.state is JobState.READY:
        assert await world.score(world.ready(), job.id) == 4


@pytest.mark.req("M3", "D5")
@pytest.mark.parametrize("decision", [LOST, POISON, OVERDUE], ids=lambda d: d.state)
async def test_the_token_dies_with_the_lease(world: StoreWorld, decision: Decision) -> None:
    worker, claimed, job = await expired(world)
    await world.leases.reclaim(world.epoch, [ending(world, job, decision)])
    async with world.unchanged():
        assert await world.settlements.settle_success(worker, [(job.id, claimed.token, b"")]) == [False]
        for other in (decision, LOST, POISON, OVERDUE):
            settlement = world.settlement(job, claimed.token, other)
            assert await world.settlements.settle(worker, [settlement]) == [False]
        assert await world.settlements.confirm_start(worker, [(job.id, claimed.token)]) == [False]


async def test_an_old_leader_reclaims_nothing(world: StoreWorld) -> None:
    _, _, job = await expired(world)
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await world.leases.reclaim(old, [ending(world, job, LOST)])
        with pytest.raises(StaleEpochError):
            await world.leases.set_aside(old, [job.id])


@pytest.mark.req("M6")
async def test_a_renewed_lease_is_left_alone(world: StoreWorld) -> None:
    worker, claimed, job = await expired(world)
    await world.workers.renew(worker, [(job.id, claimed.token)], 0)
    async with world.unchanged():
        assert await world.leases.reclaim(world.epoch, [ending(world, job, LOST)]) == [False]
    assert await world.state(job.id) is JobState.RUNNING


async def test_a_lease_ends_at_its_instant_and_not_before(world: StoreWorld) -> None:
    _, claimed = await world.running()
    job = await world.get(claimed.job_id)
    world.pass_ms(LEASE_MS - 1)
    async with world.unchanged():
        assert await world.leases.reclaim(world.epoch, [ending(world, job, LOST)]) == [False]
        assert await world.leases.expired_leases() == (world.now_ms, [], 1)
    world.pass_ms(1)
    assert await world.leases.reclaim(world.epoch, [ending(world, job, LOST)]) == [True]


async def test_jobs_settled_or_claimed_anew_are_left_alone(world: StoreWorld) -> None:
    worker, claimed, job = await expired(world)
    await world.settlements.settle_success(worker, [(job.id, claimed.token, b"")])
    async with world.unchanged():
        assert await world.leases.reclaim(world.epoch, [ending(world, job, LOST)]) == [False]
    _, _, other = await expired(world)
    await world.leases.reclaim(world.epoch, [ending(world, other, LOST)])
    fresh = await world.worker()
    await world.claim(fresh)
    world.pass_ms(LEASE_MS)
    async with world.unchanged():
        assert await world.leases.reclaim(world.epoch, [ending(world, other, LOST)]) == [False]


async def test_those_who_wait_are_told(world: StoreWorld) -> None:
    _, _, job = await expired(world)
    await world.results.fetch_result(job.id, watch=True)
    k = world.shard.keys
    async with world.published(k.finished_channel, job.id), world.published(k.wake_channel):
        await world.leases.reclaim(world.epoch, [ending(world, job, POISON)])
    _, _, other = await expired(world)
    with world.leading_here() as words:
        await world.leases.reclaim(world.epoch, [ending(world, other, LOST)])
    assert words == ["ready", "due"]


async def test_expired_leases_tell_what_the_decision_needs(world: StoreWorld) -> None:
    worker, _, job = await expired(world)
    ended_ms = world.now_ms
    assert await world.leases.expired_leases() == (
        world.now_ms,
        [lease_of(job, world.now_ms - LEASE_MS, ended_ms)],
        -1,
    )
    world.pass_ms(9_000)
    await world.workers.renew(worker, [], 0, as_of_ms=world.now_ms - 7)
    assert (await world.leases.expired_leases())[1] == [
        lease_of(job, world.now_ms, ended_ms, as_of_ms=world.now_ms - 7)
    ]
    seen_ms = world.now_ms
    assert await world.workers.announce_leave(worker)
    assert (await world.leases.expired_leases())[1] == [
        lease_of(job, seen_ms, ended_ms, as_of_ms=seen_ms - 7, orderly_end="announced")
    ]
    await world.workers.forget(worker)
    assert (await world.leases.expired_leases())[1] == [lease_of(job, 0, ended_ms, orderly_end="left")]
    # The note of a worker expires in the end.
    assert 0 < await world.redis.pttl(world.shard.keys.left(worker)) <= LEFT_NOTE_MS
    await world.redis.delete(world.shard.keys.left(worker))
    assert (await world.leases.expired_leases())[1] == [
        lease_of(job, 0, ended_ms, orderly_end="unregistered")
    ]


def lease_of(
    job: Job, seen_ms: int, ended_ms: int, *, as_of_ms: int = 0, orderly_end: OrderlyEnd | None = None
) -> ExpiredLease:
    return ExpiredLease(job, job.id, seen_ms, as_of_ms, ended_ms, orderly_end=orderly_end)


async def test_headers_longer_than_one_read_do_not_hide_an_ended_lease(world: StoreWorld) -> None:
    long_one = {f"header-{n}": "x" * 100 for n in range(30)}
    assert sum(map(len, long_one.values())) > HEAD_READ
    _, _, job = await expired(world, headers=long_one)
    _, (lease,), _ = await world.leases.expired_leases()
    assert lease.job
    assert lease.job.headers == long_one
    found = await world.records.get_without_argument([job.id])
    assert found[job.id].headers == long_one
    assert await world.leases.reclaim(world.epoch, [ending(world, lease.job, LOST)]) == [True]


@pytest.mark.parametrize("how", ["gone", "wrong type", "no name", "half a name", "version"])
async def test_a_claim_without_a_readable_record_is_set_aside(world: StoreWorld, how: str) -> None:
    worker = await world.worker(max_jobs=2)
    bad, good = await world.enqueue_many(2)
    await world.claim(worker)
    job = await world.get(good)
    was = await world.get(bad)
    await damage(world, bad, how)
    async with world.unchanged():
        assert await world.leases.reclaim(world.epoch, [ending(world, was, LOST)]) == [False]
    world.pass_ms(LEASE_MS)
    _, leases, next_ms = await world.leases.expired_leases()
    assert {lease.job_id: lease.job for lease in leases} == {bad: None, good: job}
    assert next_ms == -1
    if how != "version":
        endings = [ending(world, was, LOST), ending(world, job, LOST)]
        assert await world.leases.reclaim(world.epoch, endings) == [False, True]
    else:
        assert await world.leases.reclaim(world.epoch, [ending(world, job, LOST)]) == [True]
    assert await world.leases.set_aside(world.epoch, [bad, good]) == 1
    assert (await world.leases.expired_leases())[1] == []
    worker_now = await world.workers.get(worker)
    assert worker_now
    assert worker_now.busy == 0
    assert {f.key for f in await world.findings()} == {world.shard.keys.job(bad)}
    async with world.unchanged():
        assert await world.leases.set_aside(world.epoch, [bad]) == 0
    await world.operator_actions.delete(bad)
    # The record tells its lane.
    world.never_counted_out["work"] = how in ("gone", "wrong type")


async def test_many_leases_end_at_once(world: StoreWorld) -> None:
    await world.enqueue_many(1_100)
    workers = [await world.worker(max_jobs=600), await world.worker(max_jobs=600)]
    for worker in workers:
        for _ in range(6):
            await world.claims.claim(world.epoch, worker, ["work"], 100)
    world.pass_ms(LEASE_MS)
    for expected in (500, 500, 100):
        _, leases, _ = await world.leases.expired_leases()
        endings = [ending(world, lease.job, LOST) for lease in leases if lease.job]
        assert await world.leases.reclaim(world.epoch, [*endings, endings[0]]) == [True] * expected + [False]
    assert (await world.inspector.counts())[JobState.READY] == 1_100


@pytest.mark.req("M3")
async def test_a_claim_of_which_nothing_can_be_told_is_found_again_later(world: StoreWorld) -> None:
    _worker, _claimed, job = await expired(world)
    await world.leases.look_later(world.epoch, [(job.id, world.now_ms + 500)])
    _, found, next_ms = await world.leases.expired_leases()
    assert (found, next_ms) == ([], 500)
    world.pass_ms(500)
    _, found, _ = await world.leases.expired_leases()
    assert [lease.job_id for lease in found] == [job.id]
    with pytest.raises(StaleEpochError):
        await world.leases.look_later("1", [(job.id, world.now_ms + 500)])
