from dataclasses import replace

import pytest

from jqmaster.domain.jobs.job import FINISHED, Attempt, Cause, JobState
from jqmaster.domain.jobs.outcome import Decision, leave_ms
from jqmaster.errors import NotFoundError
from jqmaster.store.jobs.settlements import Settlement
from tests.store.jobs.test_claim import damage
from tests.support.store import RESULT_TTL_MS, StoreWorld

FAILED = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
TIMED_OUT = Decision(JobState.FAILED, "timeout", cause=Cause.TIMEOUT, is_counted=True)
RETRYING = Decision(JobState.RETRYING, "failure", delay_ms=1_500, cause=Cause.ERROR, is_counted=True)
DEFERRED = Decision(JobState.SCHEDULED, "deferred", delay_ms=2_500)
HANDED_BACK = Decision(JobState.READY, "handed_back")
CANCELED = Decision(JobState.CANCELED, "canceled", cause=Cause.CANCELED)
DISCARDED = Decision(JobState.DISCARDED, "discarded")
DECISIONS = [FAILED, TIMED_OUT, RETRYING, DEFERRED, HANDED_BACK, CANCELED, DISCARDED]


@pytest.mark.req("J5", "J9", "M2", "M4", "S12")
@pytest.mark.parametrize("decision", DECISIONS, ids=lambda d: f"{d.state}-{d.ending}")
async def test_every_ending_leads_where_it_was_decided(world: StoreWorld, decision: Decision) -> None:
    worker, job = await world.running(priority=-5, keep_result=True)
    await world.workers.renew(worker, [(job.job_id, job.token)], 0)
    before = await world.get(job.job_id)
    assert before.is_confirmed
    world.pass_ms(123)
    assert await world.fail(worker, job, decision)
    is_final = decision.state in FINISHED
    due_at_ms = world.now_ms + decision.delay_ms
    assert await world.get(job.job_id) == replace(
        before, state=decision.state, cause=decision.cause, is_confirmed=False, failures=int(decision.is_counted),
        due_at_ms=due_at_ms, finished_at_ms=world.now_ms if is_final else 0,
    )  # fmt: skip
    redis, k = world.redis, world.shard.keys
    home = world.ready() if decision.state is JobState.READY else k.index(decision.state)
    score = -5 if decision.state is JobState.READY else world.now_ms if is_final else due_at_ms
    assert await world.score(home, job.job_id) == score
    assert not await redis.exists(k.running, k.claims(worker))
    assert await world.records.history(job.job_id) == [
        Attempt(1, worker, before.started_at_ms, world.now_ms, decision.ending, "message", None)
    ]
    has_result = decision.state is JobState.FAILED
    assert await redis.get(k.result(job.job_id)) == (b"failed result" if has_result else None)
    assert await world.score(k.results, job.job_id) == (world.now_ms + RESULT_TTL_MS if has_result else None)


async def test_no_result_is_kept_that_nobody_asked_for(world: StoreWorld) -> None:
    worker, job = await world.running(keep_result=False)
    assert await world.fail(worker, job, FAILED)
    assert not await world.redis.exists(world.shard.keys.result(job.job_id))


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda d: f"{d.state}-{d.ending}")
async def test_a_repeat_is_accepted_and_changes_nothing(world: StoreWorld, decision: Decision) -> None:
    worker, job = await world.running(keep_result=True)
    assert await world.fail(worker, job, decision)
    world.pass_ms(1)
    async with world.unchanged():
        assert await world.fail(worker, job, decision)
        # Meanwhile the job has one more failure, so the same report may lead to another decision.
        if decision.state is not JobState.CANCELED:
            assert await world.fail(worker, job, FAILED)
        assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [False]


async def test_a_repeat_is_accepted_until_the_next_claim(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.fail(worker, job, RETRYING)
    world.pass_ms(1_500)
    await world.due.promote(world.epoch, JobState.RETRYING)
    async with world.unchanged():
        assert await world.fail(worker, job, RETRYING)
    (again,) = await world.claim(worker)
    async with world.unchanged():
        assert await world.fail(worker, job, RETRYING) is False
        assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [False]
    assert again.token != job.token


@pytest.mark.req("D5", "M3")
async def test_a_stale_token_or_another_worker_changes_nothing(world: StoreWorld) -> None:
    worker, job = await world.running(keep_result=True)
    other = await world.worker()
    settled = await world.get(job.job_id)
    async with world.unchanged():
        assert await world.fail(other, job) is False
        for stale in ("0" * 32, "f" * 32):
            assert await world.settlements.settle(worker, [world.settlement(settled, stale, FAILED)]) == [
                False
            ]
        unknown = replace(settled, id=world.spec().id)
        assert await world.settlements.settle(worker, [world.settlement(unknown, job.token, FAILED)]) == [
            False
        ]


@pytest.mark.req("M9")
async def test_a_canceled_job_takes_no_other_end(world: StoreWorld) -> None:
    worker, job = await world.running(keep_result=True)
    await world.operator_actions.cancel(job.job_id)
    async with world.unchanged():
        for decision in (FAILED, RETRYING, DEFERRED, HANDED_BACK):
            assert await world.fail(worker, job, decision) is False
        assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"r")]) == [False]
        assert await world.fail(worker, job, CANCELED)


async def test_many_at_once_with_damaged_and_doubled_ones_among_them(world: StoreWorld) -> None:
    await world.enqueue_many(600)
    worker = await world.worker(max_jobs=1000)
    jobs = await world.claim(worker, limit=500) + await world.claim(worker, limit=500)
    loaded = await world.records.get_without_argument([j.job_id for j in jobs])
    settlements = [
        world.settlement(loaded[j.job_id], j.token, DECISIONS[n % len(DECISIONS)], b"r")
        for n, j in enumerate(jobs)
    ]
    settlements.insert(1, settlements[0])
    redis, k = world.redis, world.shard.keys
    bad = {jobs[10].job_id: "wrong type", jobs[11].job_id: "gone", jobs[12].job_id: "half a name"}
    for job_id, how in bad.items():
        await damage(world, job_id, how)
    await redis.set(k.history(jobs[13].job_id), "not a list")
    expected = [s.job_id not in bad for s in settlements]
    assert await world.settlements.settle(worker, settlements) == expected
    counts = await world.inspector.counts()
    assert counts[JobState.RUNNING] == 3
    assert sum(counts.values()) == 600
    assert await world.leases.set_aside(world.epoch, list(bad)) == 3
    # The lane of two of them is no longer known.
    world.never_counted_out["work"] = 2
    for job_id in bad:
        await world.operator_actions.delete(job_id)
    assert [(one.rule, one.key) for one in await world.findings()] == [("type", k.history(jobs[13].job_id))]
    await redis.delete(k.history(jobs[13].job_id))


@pytest.mark.req("M4")
async def test_the_last_hundred_attempts_are_kept(world: StoreWorld) -> None:
    worker, job = await world.running()
    for _ in range(104):
        await world.fail(worker, job, HANDED_BACK)
        (job,) = await world.claim(worker)
    attempts = [a.attempt for a in await world.records.history(job.job_id)]
    assert attempts == list(range(5, 105))


async def test_the_leader_is_told_what_became_possible(world: StoreWorld) -> None:
    k = world.shard.keys
    for decision, words in (
        (FAILED, ()),
        (RETRYING, ("due",)),
        (DEFERRED, ("due",)),
        (HANDED_BACK, ("ready",)),
    ):
        worker, job = await world.running(f"n{decision.ending}")
        await world.results.fetch_result(job.job_id, watch=True)
        told = (job.job_id,) if decision is FAILED else ()
        async with (
            world.published(k.wake_channel, f"freed:{worker}:1", *words),
            world.published(k.finished_channel, *told),
        ):
            await world.fail(worker, job, decision)


@pytest.mark.req("J7")
async def test_the_leader_is_told_which_names_a_worker_leaves_to_others_before_the_jobs_are_ready(
    world: StoreWorld,
) -> None:
    late = Decision(JobState.RETRYING, "timeout", delay_ms=5_000, cause=Cause.TIMEOUT, is_counted=True)
    worker, job = await world.running("send:mail")
    found = await world.get(job.job_id)

    def ended(decision: Decision) -> Settlement:
        return replace(
            world.settlement(found, job.token, decision), name="send:mail", leave_ms=leave_ms(decision)
        )

    told = f"left:{worker}:20000:send:mail", f"freed:{worker}:1", "due"
    async with world.published(world.shard.keys.wake_channel, *told):
        assert await world.settlements.settle(worker, [ended(late), ended(HANDED_BACK)]) == [True, True]
    worker, job = await world.running("send:mail")
    found = await world.get(job.job_id)
    with world.leading_here() as words:
        await world.settlements.settle(worker, [ended(HANDED_BACK)])
    assert words.index(f"left:{worker}:15000:send:mail") < words.index("ready")
    worker, job = await world.running("send:other")
    found = await world.get(job.job_id)
    async with world.published(world.shard.keys.wake_channel, f"left:{worker}:20000:send:mail"):
        await world.leases.reclaim(world.epoch, [replace(ended(late), worker_id=worker)])


async def test_the_attempts_of_a_retried_job_count_on(world: StoreWorld) -> None:
    worker, job = await world.running(max_retry=2)
    for n in range(1, 4):
        decision = RETRYING if n < 3 else FAILED
        await world.fail(worker, job, decision)
        state = await world.get(job.job_id)
        assert (state.attempt, state.failures, state.losses) == (n, n, 0)
        if n < 3:
            world.pass_ms(1_500)
            await world.due.promote(world.epoch, JobState.RETRYING)
            (job,) = await world.claim(worker)
    assert [a.outcome for a in await world.records.history(job.job_id)] == ["failure"] * 3


async def test_an_unknown_worker_settles_nothing(world: StoreWorld) -> None:
    _, job = await world.running()
    settlement = world.settlement(await world.get(job.job_id), job.token, FAILED)
    async with world.unchanged():
        with pytest.raises(NotFoundError) as unknown:
            await world.settlements.settle("01890a5d-ac96-774b-bcce-b302099a8057", [settlement])
    assert unknown.value.code == "unknown_worker"
