from dataclasses import replace

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import NotFoundError
from jqmaster.store.jobs.claims import Claim, ClaimedJob, WantedClaim
from jqmaster.store.jobs.settlements import MAX_SHARED_BYTES, Settled, Successes
from tests.store.jobs.test_claim import damage
from tests.support.store import RESULT_TTL_MS, StoreWorld


@pytest.mark.req("J6", "J8", "M2")
@pytest.mark.parametrize("keep_result", [True, False])
async def test_a_success_ends_the_job(world: StoreWorld, keep_result: bool) -> None:
    worker, job = await world.running(keep_result=keep_result)
    before = await world.get(job.job_id)
    world.pass_ms(123)
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"result")]) == [True]
    assert await world.get(job.job_id) == replace(
        before, state=JobState.SUCCEEDED, finished_at_ms=world.now_ms
    )
    redis, k = world.redis, world.shard.keys
    assert await world.score(k.finished(JobState.SUCCEEDED), job.job_id) == world.now_ms
    assert not await redis.exists(k.running, k.claims(worker), k.history(job.job_id))
    assert await redis.get(k.result(job.job_id)) == (b"result" if keep_result else None)
    expected = world.now_ms + RESULT_TTL_MS if keep_result else None
    assert await world.score(k.results, job.job_id) == expected


async def test_a_repeat_is_accepted_and_changes_nothing(world: StoreWorld) -> None:
    worker, job = await world.running(keep_result=True)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"first")])
    world.pass_ms(1)
    async with world.unchanged():
        assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"second")]) == [True]
        # Another ending of the same attempt is not a repeat.
        assert await world.fail(worker, job) is False


@pytest.mark.req("D5", "M3")
async def test_a_stale_token_or_another_worker_changes_nothing(world: StoreWorld) -> None:
    worker, job = await world.running(keep_result=True)
    other = await world.worker()
    await world.enqueue("waiting")
    async with world.unchanged():
        ended = [(job.job_id, "0" * 32, b"r"), (world.spec().id, job.token, b"r")]
        assert await world.settlements.settle_success(worker, ended) == [False, False]
        assert await world.settlements.settle_success(other, [(job.job_id, job.token, b"r")]) == [False]


async def test_no_token_settles_a_job_that_has_none(world: StoreWorld) -> None:
    job_id = await world.enqueue()
    worker = await world.worker()
    async with world.unchanged():
        assert await world.settlements.settle_success(worker, [(job_id, "0" * 32, b"")]) == [False]


async def test_many_at_once_with_damaged_stale_and_doubled_ones_among_them(world: StoreWorld) -> None:
    await world.enqueue_many(700, keep_result=True)
    worker = await world.worker(max_jobs=1000)
    jobs = await world.claim(worker, limit=500) + await world.claim(worker, limit=500)
    bad = {jobs[5].job_id: "wrong type", jobs[6].job_id: "gone"}
    for job_id, how in bad.items():
        await damage(world, job_id, how)
    ended = [(j.job_id, j.token, b"r%d" % n) for n, j in enumerate(jobs)]
    ended[9] = (ended[9][0], "f" * 32, b"")
    ended.insert(3, ended[2])
    expected = [e[0] not in bad and e[1] != "f" * 32 for e in ended]
    assert await world.settlements.settle_success(worker, ended) == expected
    counts = await world.inspector.counts()
    assert (counts[JobState.SUCCEEDED], counts[JobState.RUNNING]) == (697, 3)
    assert await world.leases.set_aside(world.epoch, list(bad)) == 2
    # Their lane is no longer known.
    world.never_counted_out["work"] = 2
    for job_id in bad:
        await world.operator_actions.delete(job_id)
    worker_now = await world.workers.get(worker)
    assert worker_now
    assert worker_now.busy == 1


async def test_short_and_long_jobs_end_in_one_call_in_any_order(world: StoreWorld) -> None:
    lengths = [1] * 30 + [10_000] * 2 + [600] * 3 + [1] + [10_000] + [1] * 30
    for length in lengths:
        await world.enqueue(argument="x" * length, keep_result=True)
    worker = await world.worker(max_jobs=100)
    jobs = await world.claim(worker)
    before = [await world.get(job.job_id) for job in jobs]
    ended = [(job.job_id, job.token, b"r") for job in jobs]
    assert await world.settlements.settle_success(worker, ended) == [True] * len(lengths)
    assert [await world.get(job.job_id) for job in jobs] == [
        replace(job, state=JobState.SUCCEEDED, finished_at_ms=world.now_ms) for job in before
    ]


async def test_those_who_wait_are_told(world: StoreWorld) -> None:
    await world.enqueue_many(3, keep_result=True)
    worker = await world.worker()
    jobs = await world.claim(worker)
    for job in jobs[:2]:
        assert await world.results.fetch_result(job.job_id, watch=True) is JobState.RUNNING
    ended = [(j.job_id, j.token, b"r") for j in jobs]
    told = ",".join(j.job_id for j in jobs[:2])
    async with (
        world.published(world.shard.keys.finished_channel, told),
        world.published(world.shard.keys.wake_channel, f"freed:{worker}:3"),
    ):
        await world.settlements.settle_success(worker, ended)
    with world.leading_here() as words:
        async with world.published(world.shard.keys.wake_channel):
            await world.enqueue()
            (job,) = await world.claim(worker)
            await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    assert words == ["ready", f"freed:{worker}:1"]


async def claimed_by_each(world: StoreWorld, workers: list[str], jobs: int) -> list[list[ClaimedJob]]:
    await world.enqueue_many(jobs * len(workers))
    claims = await world.claims.claim_each(world.epoch, [WantedClaim(w, ["work"], jobs) for w in workers])
    return [claim.jobs for claim in claims if isinstance(claim, Claim)]


def report(worker: str, jobs: list[ClaimedJob]) -> Successes:
    return Successes(worker, [(job.job_id, job.token, b"r") for job in jobs], {})


@pytest.mark.req("D5", "D10")
async def test_the_reports_of_several_workers_end_in_one_call_and_each_gets_its_own_verdicts(
    world: StoreWorld,
) -> None:
    workers = [await world.worker() for _ in range(4)]
    one, two, three, four = await claimed_by_each(world, workers, 2)
    await world.workers.forget(workers[3])
    stale = Successes(workers[1], [(two[0].job_id, "0" * 32, b""), (two[1].job_id, two[1].token, b"")], {})
    foreign = report(workers[2], [one[0], *three])
    unknown = Successes(workers[3], [(job.job_id, "0" * 32, b"") for job in four], {})
    trips = sum(world.shard.client.round_trips["settle_success"].counts)
    world.pass_ms(5)
    freed = [f"freed:{worker}:{count}" for worker, count in zip(workers, (2, 1, 2), strict=False)]
    async with world.published(world.shard.keys.wake_channel, *freed):
        verdicts = await world.settlements.settle_successes(
            [report(workers[0], one), stale, foreign, unknown]
        )
    assert sum(world.shard.client.round_trips["settle_success"].counts) == trips + 1
    assert verdicts[:3] == [Settled([True, True]), Settled([False, True]), Settled([False, True, True])]
    assert isinstance(verdicts[3], NotFoundError)
    assert (await world.inspector.counts())[JobState.SUCCEEDED] == 5
    k = world.shard.keys
    left = [await world.redis.scard(k.claims(worker)) for worker in workers[:3]]
    assert left == [0, 1, 0]
    figures = [world.tally.on(worker).succeeded for worker in workers[:3]]
    assert figures == [2, 1, 2]


async def test_a_damaged_key_of_one_worker_keeps_no_attempt_from_its_end(world: StoreWorld) -> None:
    workers = [await world.worker() for _ in range(3)]
    jobs = await claimed_by_each(world, workers, 2)
    k = world.shard.keys
    await world.redis.delete(k.claims(workers[1]))
    await world.redis.set(k.claims(workers[1]), "x")
    reports = [report(worker, own) for worker, own in zip(workers, jobs, strict=True)]
    assert await world.settlements.settle_successes(reports) == [Settled([True, True])] * 3
    assert not await world.redis.exists(k.running, k.claims(workers[0]), k.claims(workers[2]))
    await world.redis.delete(k.claims(workers[1]))


async def test_more_attempts_than_a_call_may_end_take_several(world: StoreWorld) -> None:
    workers = [await world.worker(max_jobs=300) for _ in range(3)]
    jobs = await claimed_by_each(world, workers, 300)
    reports = [report(worker, own) for worker, own in zip(workers, jobs, strict=True)]
    assert await world.settlements.settle_successes(reports) == [Settled([True] * 300)] * 3
    assert (await world.inspector.counts())[JobState.SUCCEEDED] == 900


async def test_a_damaged_lane_leaves_no_attempt_of_another_worker_half_ended(world: StoreWorld) -> None:
    first, broken, last = await world.worker(), await world.worker("broken"), await world.worker()
    await world.enqueue_many(2)
    await world.enqueue("broken")
    (one,), (two,) = await world.claim(first, limit=1), await world.claim(last, limit=1)
    (bad,) = await world.claim(broken, "broken")
    lane = world.shard.keys.lane((await world.get(bad.job_id)).lane_id.hex())
    await world.redis.rename(lane, f"{lane}-aside")
    await world.redis.rpush(lane, "damaged")
    reports = [report(first, [one]), report(broken, [bad]), report(last, [two])]
    assert await world.settlements.settle_successes(reports) == [
        Settled([True]),
        Settled([False]),
        Settled([True]),
    ]
    k = world.shard.keys
    assert not await world.redis.exists(k.claims(first), k.claims(last))
    assert await world.redis.zrange(k.running, 0, -1) == [bad.job_id.encode()]
    assert await world.redis.zcard(k.finished(JobState.SUCCEEDED)) == 2
    await world.redis.rename(f"{lane}-aside", lane)


@pytest.mark.req("D10")
async def test_large_results_of_several_workers_share_no_call(world: StoreWorld) -> None:
    """One report may be as large as a request. Together, hundreds of them would stop the store."""
    workers = [await world.worker() for _ in range(4)]
    jobs = await claimed_by_each(world, workers, 1)
    size = MAX_SHARED_BYTES // 2
    reports = [
        Successes(worker, [(job.job_id, job.token, bytes(size))], {})
        for worker, (job,) in zip(workers, jobs, strict=True)
    ]
    trips = sum(world.shard.client.round_trips["settle_success"].counts)
    assert await world.settlements.settle_successes(reports) == [Settled([True])] * 4
    assert sum(world.shard.client.round_trips["settle_success"].counts) == trips + 2
