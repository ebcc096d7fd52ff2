from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.errors import StaleEpochError
from jqmaster.store.codec import GATE_BYTES, HEAD_SIZE
from jqmaster.store.jobs.claims import MAX_CLAIM_BYTES, Claim, NotClaimed, WantedClaim
from tests.support.store import GRACE_MS, LEASE_MS, OFFER_MS, StoreWorld


async def test_a_claim_takes_leases_marks_and_counts_in_one_step(world: StoreWorld) -> None:
    job_id = await world.enqueue(argument="x", headers={"h": "v"}, timeout_ms=600_000)
    worker = await world.worker()
    before = await world.get(job_id)
    world.pass_ms(7)
    claim = await world.claims.claim(world.epoch, worker, ["work"], 5)
    assert isinstance(claim, Claim)
    (job,) = claim.jobs
    assert (claim.now_ms, claim.busy, claim.passed_over) == (world.now_ms, 1, 0)
    assert claim.not_after_ms == world.now_ms + OFFER_MS
    assert claim.lease_until_ms == world.now_ms + LEASE_MS
    assert (job.record.attempt, job.record.headers, job.record.argument) == (1, {"h": "v"}, before.argument)
    assert (job.record.name, job.record.timeout_ms) == ("work", 600_000)
    assert await world.get(job_id) == replace(
        before, state=JobState.RUNNING, attempt=1, started_at_ms=world.now_ms, not_after_ms=claim.not_after_ms,
        fence=job.fence, token=job.token, worker_id=worker,
    )  # fmt: skip
    k = world.shard.keys
    assert await world.score(k.running, job_id) == claim.lease_until_ms
    assert await world.score(world.ready(), job_id) is None
    assert await world.redis.smembers(k.claims(worker)) == {job_id.encode()}
    assert len(job.token) == 32


async def test_a_short_job_is_looked_at_when_its_time_is_over(world: StoreWorld) -> None:
    await world.running(timeout_ms=100)
    (_, score), *_ = await world.redis.zrange(world.shard.keys.running, 0, -1, withscores=True)
    assert score == world.now_ms + min(LEASE_MS, OFFER_MS + 100 + GRACE_MS)


@pytest.mark.req("J4", "J12")
async def test_priority_over_all_of_int32_and_oldest_first_within(world: StoreWorld) -> None:
    priorities = [0, 2**31 - 1, -(2**31), 5, -1, 0, -(2**31), 2**31 - 1, 2**31 - 2, 1 - 2**31]
    ids = [await world.enqueue(priority=p) for p in priorities]
    worker = await world.worker(max_jobs=100)
    expected = [job_id for _, job_id in sorted(zip(priorities, ids, strict=True))]
    taken = [job.job_id for limit in (1, 3, 100) for job in await world.claim(worker, limit=limit)]
    assert taken == expected


@pytest.mark.req("J12")
async def test_names_are_merged_into_one_order(world: StoreWorld) -> None:
    names = ["a", "b", "c"]
    jobs = [(n * 7 % 5, await world.enqueue(names[n % 3], priority=n * 7 % 5)) for n in range(60)]
    worker = await world.worker(*names, max_jobs=100)
    taken = [job.job_id for _ in range(9) for job in await world.claim(worker, *names, limit=7)]
    assert taken == [job_id for _, job_id in sorted(jobs)]


async def test_a_claim_looks_only_at_the_names_it_is_given(world: StoreWorld) -> None:
    await world.enqueue("a")
    job_id = await world.enqueue("b")
    worker = await world.worker("b")
    assert [job.job_id for job in await world.claim(worker, "b")] == [job_id]


async def test_a_name_given_twice_gives_its_jobs_once(world: StoreWorld) -> None:
    ids = await world.enqueue_many(3)
    worker = await world.worker()
    assert [job.job_id for job in await world.claim(worker, "work", "work")] == ids


async def test_a_claim_of_nothing_changes_nothing(world: StoreWorld) -> None:
    worker = await world.worker()
    async with world.unchanged():
        claim = await world.claims.claim(world.epoch, worker, ["work"], 10)
        assert isinstance(claim, Claim)
        assert (claim.jobs, claim.busy, claim.passed_over) == ([], 0, 0)


@pytest.mark.req("D5")
async def test_refusals_change_nothing(world: StoreWorld) -> None:
    await world.enqueue_many(5)
    full = await world.worker(max_jobs=2)
    assert len(await world.claim(full)) == 2
    draining, detached, unknown = await world.worker(), await world.worker(), await world.worker()
    redis, k = world.redis, world.shard.keys
    await redis.hset(k.worker(draining), "is_draining", 1)
    await redis.hset(k.worker(detached), "is_detached", 1)
    await world.workers.forget(unknown)
    old = await world.reelect()
    number, nonce = world.epoch.split(":")
    async with world.unchanged():
        for epoch in (old, f"{int(number) + 1}:{nonce}", f"{number}:other", number, ""):
            with pytest.raises(StaleEpochError):
                await world.claims.claim(epoch, full, ["work"], 1)
        assert await world.claims.claim(world.epoch, full, ["work"], 1) is NotClaimed.FULL
        for worker in (draining, detached, unknown):
            assert await world.claims.claim(world.epoch, worker, ["work"], 1) is NotClaimed.GONE


@pytest.mark.req("D11")
async def test_never_more_than_max_jobs(world: StoreWorld) -> None:
    await world.enqueue_many(20)
    worker = await world.worker(max_jobs=7)
    first = await world.claim(worker, limit=3)
    assert len(first) == 3
    assert len(await world.claim(worker, limit=100)) == 4
    await world.settlements.settle_success(worker, [(first[0].job_id, first[0].token, b"")])
    assert len(await world.claim(worker, limit=100)) == 1


@pytest.mark.req("M3")
async def test_the_fence_grows_with_the_clock_and_without_it(world: StoreWorld) -> None:
    await world.enqueue_many(10)
    worker = await world.worker(max_jobs=100)
    first = [job.fence for job in await world.claim(worker, limit=3)]
    assert first == [world.now_ms, world.now_ms + 1, world.now_ms + 2]
    # The clock stood still: the stored fence is ahead of it.
    second = [job.fence for job in await world.claim(worker, limit=2)]
    assert second == [world.now_ms + 3, world.now_ms + 4]
    # A failover lost the newest fences: the clock is ahead of the stored one.
    await world.redis.set(world.shard.keys.fence, world.now_ms - 50_000)
    world.pass_ms(1000)
    assert [job.fence for job in await world.claim(worker, limit=1)] == [world.now_ms]
    # The clock went back by an hour.
    newest = world.now_ms
    world.pass_ms(-3_600_000)
    assert [job.fence for job in await world.claim(worker, limit=2)] == [newest + 1, newest + 2]
    assert await world.redis.get(world.shard.keys.fence) == str(newest + 2).encode()
    await world.redis.delete(world.shard.keys.fence)
    assert [job.fence for job in await world.claim(worker, limit=1)] == [world.now_ms]


async def test_tokens_are_never_the_same(world: StoreWorld) -> None:
    await world.enqueue_many(500)
    worker = await world.worker(max_jobs=1000)
    jobs = await world.claim(worker, limit=1000)
    assert len({job.token for job in jobs}) == 500
    for job in jobs[::100]:
        assert (await world.get(job.job_id)).token == job.token


async def test_a_claim_gives_at_most_500(world: StoreWorld) -> None:
    ids = await world.enqueue_many(620)
    worker = await world.worker(max_jobs=1000)
    assert [job.job_id for job in await world.claim(worker, limit=1000)] == ids[:500]
    assert [job.job_id for job in await world.claim(worker, limit=1000)] == ids[500:]


async def test_an_expired_job_is_skipped_instead_of_claimed(world: StoreWorld) -> None:
    expired = await world.enqueue(expires_at_ms=world.now_ms + 10, keep_result=True)
    lasting = await world.enqueue(expires_at_ms=world.now_ms + 11)
    assert await world.results.fetch_result(expired, watch=True) is JobState.READY
    before = await world.get(expired)
    worker = await world.worker()
    world.pass_ms(10)
    async with world.published(world.shard.keys.finished_channel, expired):
        claim = await world.claims.claim(world.epoch, worker, ["work"], 10)
    assert isinstance(claim, Claim)
    assert ([job.job_id for job in claim.jobs], claim.passed_over, claim.busy) == ([lasting], 1, 1)
    assert await world.get(expired) == replace(
        before, state=JobState.SKIPPED, cause=Cause.EXPIRED, finished_at_ms=world.now_ms
    )
    assert await world.score(world.shard.keys.finished(JobState.SKIPPED), expired) == world.now_ms


async def test_nothing_but_expired_jobs_is_told_apart_from_nothing(world: StoreWorld) -> None:
    await world.enqueue_many(3, expires_at_ms=world.now_ms + 1)
    worker = await world.worker()
    world.pass_ms(1)
    claim = await world.claims.claim(world.epoch, worker, ["work"], 2)
    assert isinstance(claim, Claim)
    assert (claim.jobs, claim.passed_over, claim.is_exhausted) == ([], 3, True)
    assert await world.redis.exists(world.shard.keys.fence) == 0


async def test_a_retry_is_claimed_under_a_new_token(world: StoreWorld) -> None:
    worker, first = await world.running()
    retry = Decision(JobState.RETRYING, "failure", delay_ms=10, cause=Cause.ERROR, is_counted=True)
    assert await world.fail(worker, first, retry)
    world.pass_ms(10)
    await world.due.promote(world.epoch, JobState.RETRYING)
    (second,) = await world.claim(worker)
    assert second.token != first.token
    assert second.fence > first.fence
    job = await world.get(second.job_id)
    assert (job.attempt, job.failures, job.cause, job.due_at_ms) == (2, 1, Cause.NONE, 0)


async def test_a_claim_is_an_offer_whatever_the_last_one_became(world: StoreWorld) -> None:
    worker, first = await world.running()
    await world.workers.renew(worker, [(first.job_id, first.token)], 0)
    await world.operator_actions.cancel(first.job_id)
    await world.operator_actions.retry(await world.get(first.job_id))
    (second,) = await world.claim(worker)
    assert not (await world.get(first.job_id)).is_confirmed
    await world.leases.return_offers(world.epoch, worker, [(second.job_id, second.token)])
    assert await world.state(first.job_id) is JobState.READY


async def test_in_production_the_time_is_that_of_the_store(world: StoreWorld) -> None:
    world = world.on_store_time()
    seconds, _ = await world.redis.time()
    worker, job = await world.running(delay_ms=None, keep_result=True)
    await world.workers.renew(worker, [(job.job_id, job.token)], 0)
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"r")]) == [True]
    record = await world.get(job.job_id)
    for at_ms in (record.created_at_ms, record.started_at_ms, record.finished_at_ms, job.fence):
        assert 0 <= at_ms // 1000 - seconds <= 5
    assert record.created_at_ms <= record.started_at_ms <= record.finished_at_ms


DAMAGES = (
    "gone",
    "wrong type",
    "no name",
    "half a name",
    "no extras length",
    "no argument",
    "wrong state",
    "version",
)


async def damage(world: StoreWorld, job_id: str, how: str) -> None:
    redis, key = world.redis, world.shard.keys.job(job_id)
    record = await redis.get(key)
    gates_at = HEAD_SIZE + 1 + record[HEAD_SIZE]
    extras_at = gates_at + 1 + GATE_BYTES * record[gates_at]
    match how:
        case "gone":
            await redis.delete(key)
        case "wrong type":
            await redis.delete(key)
            await redis.lpush(key, "x")
        case "wrong state":
            await redis.setrange(key, 1, b"\x07")
        case "version":
            await redis.setrange(key, 0, b"\x63")
        case _:
            cut = {
                "no name": HEAD_SIZE,
                "half a name": HEAD_SIZE + 3,
                "no extras length": extras_at + 1,
                "no argument": extras_at + 4,
            }[how]
            await redis.set(key, record[:cut])


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_damaged_record_hurts_only_itself(world: StoreWorld, how: str) -> None:
    one, bad, two = await world.enqueue(), await world.enqueue(), await world.enqueue()
    await damage(world, bad, how)
    worker = await world.worker()
    claim = await world.claims.claim(world.epoch, worker, ["work"], 10)
    assert isinstance(claim, Claim)
    assert ([job.job_id for job in claim.jobs], claim.passed_over, claim.busy) == ([one, two], 1, 2)
    redis, k = world.redis, world.shard.keys
    assert await redis.smembers(k.damaged) == {bad.encode()}
    assert await world.score(world.ready(), bad) is None
    assert [f.key for f in await world.findings()] == [k.job(bad)]
    await world.operator_actions.delete(bad)
    assert await world.findings() == []
    assert not await redis.exists(k.damaged, k.job(bad))


async def test_extras_that_cannot_be_read_hurt_only_their_job(world: StoreWorld) -> None:
    bad, good = await world.enqueue(tags=("t",)), await world.enqueue()
    redis, k = world.redis, world.shard.keys
    await redis.setrange(k.job(bad), HEAD_SIZE + 1 + len("work") + 1 + 4, b"\xc1")
    worker = await world.worker()
    claim = await world.claims.claim(world.epoch, worker, ["work"], 10)
    assert isinstance(claim, Claim)
    assert ([job.job_id for job in claim.jobs], claim.passed_over) == ([good], 1)
    assert claim.jobs[0].token == (await world.get(good)).token
    assert claim.jobs[0].fence == (await world.get(good)).fence
    world.pass_ms(LEASE_MS)
    _, leases, _ = await world.leases.expired_leases()
    assert {lease.job_id: lease.job is None for lease in leases} == {bad: True, good: False}
    assert await world.leases.set_aside(world.epoch, [bad]) == 1
    await world.operator_actions.delete(bad)


@pytest.mark.req("J12")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_ready_job_is_passed_over_for_a_lesser_one(store_server: object, data: st.DataObject) -> None:
    """test_stateful.py tests the same amid everything else; this test covers the whole range of priorities."""
    from tests.support.sync import on_a_world

    priorities = data.draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=30))
    limits = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))

    async def body(world: StoreWorld) -> None:
        jobs = [(p, await world.enqueue("ab"[n % 2], priority=p)) for n, p in enumerate(priorities)]
        worker = await world.worker("a", "b", max_jobs=1000)
        taken = [job.job_id for limit in limits for job in await world.claim(worker, "a", "b", limit=limit)]
        assert taken == [job_id for _, job_id in sorted(jobs)][: sum(limits)]

    on_a_world(store_server, body)


@pytest.mark.req("D11", "J12")
async def test_claims_for_several_workers_take_one_round_trip_and_one_that_fails_costs_the_others_nothing(
    world: StoreWorld,
) -> None:
    one, broken, other, gone = [await world.worker() for _ in range(4)]
    jobs = [await world.enqueue(priority=n) for n in range(5)]
    await world.redis.delete(world.shard.keys.worker(gone))
    await world.redis.set(world.shard.keys.claims(broken), "x")
    before = sum(world.shard.client.round_trips["claim"].counts)
    orders = [WantedClaim(worker, ["work"], 2) for worker in (one, broken, gone, other)]
    first, second, third, fourth = await world.claims.claim_each(world.epoch, orders)
    assert sum(world.shard.client.round_trips["claim"].counts) == before + 1
    assert isinstance(first, Claim)
    assert isinstance(fourth, Claim)
    assert [job.job_id for claim in (first, fourth) for job in claim.jobs] == jobs[:4]
    assert (first.busy, fourth.busy) == (2, 2)
    assert (second, third) == (NotClaimed.DAMAGED, NotClaimed.GONE)
    assert await world.claims.claim(world.epoch, broken, ["work"], 2) is NotClaimed.DAMAGED
    await world.redis.delete(world.shard.keys.claims(broken))


async def _calls(world: StoreWorld) -> int:
    return int((await world.redis.info("commandstats"))["cmdstat_evalsha"]["calls"])


async def test_workers_that_serve_the_same_names_share_a_call_in_the_order_of_claims(
    world: StoreWorld,
) -> None:
    """The fences show the order, and the tokens settle as they would after calls of their own."""
    workers = [await world.worker(max_jobs=n) for n in (1, 3, 2)]
    other = await world.worker("other")
    of_other = await world.enqueue("other")
    jobs = [await world.enqueue(priority=n) for n in range(8)]
    await world.claim(workers[1], limit=1)
    # The scripts are loaded.
    before = await _calls(world)
    wanted = [WantedClaim(worker, ["work"], 2) for worker in workers]
    wanted.insert(1, WantedClaim(other, ["other"], 2))
    claims = await world.claims.claim_each(world.epoch, wanted)
    assert await _calls(world) == before + 2
    one, alone, two, three = [claim for claim in claims if isinstance(claim, Claim)]
    assert [job.job_id for job in alone.jobs] == [of_other]
    assert (alone.busy, alone.is_exhausted) == (1, True)
    assert [[job.job_id for job in claim.jobs] for claim in (one, two, three)] == [
        jobs[1:2],
        jobs[2:4],
        jobs[4:6],
    ]
    assert [claim.busy for claim in (one, two, three)] == [1, 3, 2]
    assert not any(claim.is_exhausted for claim in (one, two, three))
    fences = [job.fence for claim in (one, two, three) for job in claim.jobs]
    assert fences == [*range(fences[0], fences[0] + 5)]
    for worker, claim in zip(workers, (one, two, three), strict=True):
        assert await world.redis.smembers(world.shard.keys.claims(worker)) >= {
            j.job_id.encode() for j in claim.jobs
        }
        for job in claim.jobs:
            record = await world.get(job.job_id)
            assert (record.worker_id, record.token, record.fence) == (worker, job.token, job.fence)
        ended = [(job.job_id, job.token, b"") for job in claim.jobs]
        assert await world.settlements.settle_success(worker, ended) == [True] * len(ended)


async def test_jobs_that_end_before_the_last_share_leave_it_empty(world: StoreWorld) -> None:
    workers = [await world.worker(max_jobs=2) for _ in range(3)]
    await world.enqueue_many(3, expires_at_ms=world.now_ms + 1)
    jobs = await world.enqueue_many(3)
    world.pass_ms(1)
    claims = await world.claims.claim_each(world.epoch, [WantedClaim(w, ["work"], 2) for w in workers])
    found = [claim for claim in claims if isinstance(claim, Claim)]
    assert [[job.job_id for job in claim.jobs] for claim in found] == [jobs[:2], jobs[2:], []]
    assert [(claim.busy, claim.is_exhausted) for claim in found] == [(2, True), (1, True), (0, True)]
    # Each of the expired jobs is counted once.
    assert sum(claim.passed_over for claim in found) == 3


async def test_a_call_for_workers_without_room_changes_nothing(world: StoreWorld) -> None:
    full, gone = [await world.worker(max_jobs=1) for _ in range(2)]
    await world.enqueue_many(3)
    await world.claim(full)
    await world.workers.forget(gone)
    async with world.unchanged():
        claims = await world.claims.claim_each(
            world.epoch, [WantedClaim(w, ["work"], 2) for w in (full, gone)]
        )
    assert claims == [NotClaimed.FULL, NotClaimed.GONE]


async def test_more_workers_than_fit_into_a_call_get_several(world: StoreWorld) -> None:
    workers = [await world.worker(max_jobs=300) for _ in range(4)]
    jobs = await world.enqueue_many(1_200)
    await world.claims.claim_each(world.epoch, [WantedClaim(workers[0], ["other"], 1)])
    before = await _calls(world)
    wanted = [
        WantedClaim(worker, ["work"], limit)
        for worker, limit in zip(workers, (300, 200, 250, 250), strict=True)
    ]
    claims = await world.claims.claim_each(world.epoch, wanted)
    assert await _calls(world) == before + 2
    assert [job.job_id for claim in claims if isinstance(claim, Claim) for job in claim.jobs] == jobs[:1_000]


async def test_pulling_workers_of_one_call_each_get_their_own_mail(world: StoreWorld) -> None:
    workers = [await world.worker(url=None) for _ in range(3)]
    for worker in workers[:2]:
        await world.polls.open(worker, "p", 2, 1_000)
    jobs = await world.enqueue_many(4)
    wanted = [WantedClaim(worker, ["work"], 3, polls_here=n == 0) for n, worker in enumerate(workers)]
    async with world.published(world.shard.keys.wake_channel, f"mail:{workers[1]}"):
        claims = await world.claims.claim_each(world.epoch, wanted)
    assert claims[2] is NotClaimed.NO_POLL
    for worker, claim, own in zip(workers[:2], claims[:2], (jobs[:2], jobs[2:]), strict=True):
        assert isinstance(claim, Claim)
        assert [job.job_id for job in claim.jobs] == own
        mail = await world.polls.take(worker, "p", ends=False)
        assert [(o.job.job_id, o.job.token) for o in mail.offers] == [(j.job_id, j.token) for j in claim.jobs]  # type: ignore[union-attr]
    assert [claim.is_ours_to_tell for claim in claims[:2]] == [True, False]  # type: ignore[union-attr]


async def test_claims_of_one_round_trip_share_its_bytes(world: StoreWorld) -> None:
    workers = [await world.worker() for _ in range(4)]
    for _ in range(16):
        await world.enqueue(argument=b"x" * (MAX_CLAIM_BYTES // 8))
    claims = await world.claims.claim_each(world.epoch, [WantedClaim(w, ["work"], 10) for w in workers])
    # A worker's share is two jobs, less the overhead of records; the job that exceeds it is the last.
    assert [len(claim.jobs) for claim in claims if isinstance(claim, Claim)] == [2, 2, 2, 2]


async def test_many_claims_of_large_records_together_stay_within_the_bytes_of_one_round_trip(
    world: StoreWorld,
) -> None:
    workers = [await world.worker() for _ in range(32)]
    for _ in range(24):
        await world.enqueue(argument=b"x" * (MAX_CLAIM_BYTES // 16))
    claims = await world.claims.claim_each(world.epoch, [WantedClaim(w, ["work"], 2) for w in workers])
    taken = [len(claim.jobs) for claim in claims if isinstance(claim, Claim)]
    # The record that exceeds the share of its worker takes the room of the next worker.
    assert (len(taken), sum(taken), max(taken)) == (32, 16, 1)
    assert not any(claim.is_exhausted for claim in claims if isinstance(claim, Claim))


async def test_a_claim_that_takes_the_last_job_with_its_last_slot_says_that_there_are_no_more(
    world: StoreWorld,
) -> None:
    worker = await world.worker()
    await world.enqueue_many(3)
    claims = [await world.claims.claim(world.epoch, worker, ["work"], limit) for limit in (1, 2)]
    assert [claim.is_exhausted for claim in claims if isinstance(claim, Claim)] == [False, True]
