import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import ExpiryRules
from jqmaster.domain.workers.silence import CrowdRules
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.errors import StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.grace import Grace, GracePolicy
from jqmaster.runtime.duties.reaper import UNREGISTERED_MESSAGE, Reaper, ReaperPolicy
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.claims import Claim
from jqmaster.store.leadership.leadership import Leadership
from tests.support.clock import ManualClock
from tests.support.store import GRACE_MS, LEASE_MS, OFFER_MS, StoreWorld

GRACE_S = LEASE_MS / 1000 + 2


class Reaping:
    """A reaper whose clock also moves the store's clock."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock(lambda seconds: world.pass_ms(round(seconds * 1000)))
        self.stale = 0

        def on_stale() -> None:
            self.stale += 1

        self.grace = Grace(self.clock, LiveValue(GracePolicy(GRACE_S, 5, CrowdRules(5000, 0.3, 3))))
        self.reaper = Reaper(
            Leadership(world.epoch, "master-1"),
            world.leases,
            world.workers,
            self.grace,
            self.clock,
            policy=LiveValue(
                ReaperPolicy(
                    ExpiryRules(5000, max_losses=3, lease_ms=LEASE_MS, alone_wait_ms=60_000),
                    GRACE_MS,
                    OFFER_MS,
                )
            ),
            on_ready=lambda: None,
            on_stale=on_stale,
        )

    async def past_grace(self) -> None:
        await self.clock.pass_s(GRACE_S + 1)

    async def beat(self, worker_id: str, *claims: tuple[str, str], tells_as_of: bool = True) -> None:
        as_of_ms = self.world.now_ms if tells_as_of else 0
        assert await self.world.workers.renew(worker_id, claims, 1, as_of_ms)

    async def beat_for(
        self, seconds: int, worker_id: str, *claims: tuple[str, str], tells_as_of: bool = True
    ) -> None:
        """The worker lives and names its claims every second."""
        for _ in range(seconds):
            await self.beat(worker_id, *claims, tells_as_of=tells_as_of)
            await self.clock.pass_s(1)


@pytest.fixture
async def reaping(world: StoreWorld) -> AsyncIterator[Reaping]:
    one = Reaping(world)
    await one.reaper.start()
    try:
        yield one
    finally:
        await one.reaper.stop()


@pytest.mark.req("M3", "M6")
async def test_the_job_of_a_silent_worker_waits_again_when_its_lease_is_over(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(timeout_ms=86_400_000)
    await reaping.beat(worker, (job.job_id, job.token))
    await reaping.clock.pass_s(LEASE_MS / 1000 - 1)
    assert await world.state(job.job_id) == JobState.RUNNING
    await reaping.clock.pass_s(2)
    found = await world.get(job.job_id)
    assert (found.state, found.losses, found.failures, found.token) == (JobState.READY, 1, 0, "")
    (attempt,) = await world.records.history(job.job_id)
    assert (attempt.attempt, attempt.outcome, attempt.worker_id) == (1, "lost", worker)
    assert world.tally.take_workers()[worker].failed == 1
    assert attempt.finished_at_ms - attempt.started_at_ms <= 20_000, "whatever the timeout"
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"\xc0")]) == [False]


@pytest.mark.req("M14")
@pytest.mark.parametrize("end", ["announced", "unregistered", "replaced"])
async def test_an_orderly_end_is_no_loss_however_often_it_happens(reaping: Reaping, end: str) -> None:
    world = reaping.world
    await reaping.past_grace()
    job_id = await world.enqueue(max_retry=1)
    for attempt in range(1, 6):
        worker = await world.worker()
        (job,) = await world.claim(worker)
        await reaping.beat(worker, (job_id, job.token))
        if end == "unregistered":
            assert await world.workers.forget(worker)
        else:
            assert await world.workers.announce_leave(worker)
        if end == "replaced":
            await world.workers.detach_silent(world.epoch, worker, silent_ms=0)
        await reaping.clock.pass_s(LEASE_MS / 1000 + 1)
        found = await world.get(job_id)
        assert (found.state, found.losses, found.failures) == (JobState.READY, 0, 0)
        history = await world.records.history(job_id)
        assert [entry.outcome for entry in history] == ["handed_back"] * attempt
    assert world.tally.take_workers()[worker].failed == 0


@pytest.mark.req("M14")
async def test_a_job_that_may_run_once_is_not_started_again_unless_it_was_handed_back(
    reaping: Reaping,
) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(max_retry=0)
    await reaping.beat(worker, (job.job_id, job.token))
    assert await world.workers.announce_leave(worker)
    await reaping.clock.pass_s(LEASE_MS / 1000 + 1)
    found = await world.get(job.job_id)
    assert (found.state, found.cause) == (JobState.FAILED, Cause.LOST)


@pytest.mark.req("M14")
@pytest.mark.parametrize("is_announced", [False, True], ids=["unannounced", "announced"])
@pytest.mark.parametrize("is_named", [False, True], ids=["offered", "named in a heartbeat"])
async def test_jobs_of_an_unregistered_worker_wait_again_only_if_it_announced_its_end_and_never_named_them(
    reaping: Reaping, *, is_named: bool, is_announced: bool
) -> None:
    """A worker that only unregisters may have run the job, and may have given up its result."""
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(max_retry=0)
    await reaping.beat(worker, *([(job.job_id, job.token)] if is_named else []))
    if is_announced:
        assert await world.workers.announce_leave(worker)
    assert await world.workers.forget(worker)
    await reaping.clock.pass_s(LEASE_MS / 1000 + 1)
    found = await world.get(job.job_id)
    if is_named or not is_announced:
        assert (found.state, found.cause, found.attempt) == (JobState.FAILED, Cause.LOST, 1)
        (attempt,) = await world.records.history(job.job_id)
        assert attempt.message == UNREGISTERED_MESSAGE
    else:
        assert (found.state, found.losses, found.attempt) == (JobState.READY, 0, 0)
        assert await world.records.history(job.job_id) == []


@pytest.mark.req("M6")
async def test_a_living_workers_job_is_never_taken_back(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(timeout_ms=86_400_000)
    await reaping.beat_for(60, worker, (job.job_id, job.token))
    found = await world.get(job.job_id)
    assert (found.state, found.token, found.losses) == (JobState.RUNNING, job.token, 0)


@pytest.mark.req("M3")
async def test_an_offer_that_was_never_taken_up_returns_and_counts_nothing(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(max_retry=0)
    await reaping.beat_for(17, worker)
    found = await world.get(job.job_id)
    assert (found.state, found.losses, found.failures) == (JobState.READY, 0, 0)
    assert (found.attempt, found.returned_offers) == (0, 1)
    assert await world.records.history(job.job_id) == []


@pytest.mark.req("M3", "M4")
@pytest.mark.parametrize("timeout_ms", [2_000, 60_000])
async def test_an_offer_that_was_never_taken_up_returns_although_heartbeats_tell_only_what_they_must(
    reaping: Reaping, timeout_ms: int
) -> None:
    """Without `as_of_ms`, only the arrival of the heartbeats tells that they were composed after the offer's end."""
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(max_retry=0, timeout_ms=timeout_ms)
    await reaping.beat_for((OFFER_MS + LEASE_MS) // 1000, worker, tells_as_of=False)
    assert await world.state(job.job_id) is JobState.RUNNING, "a heartbeat may be as old as a lease"
    await reaping.beat_for(3, worker, tells_as_of=False)
    found = await world.get(job.job_id)
    assert (found.state, found.attempt, found.returned_offers) == (JobState.READY, 0, 1)
    assert await world.records.history(job.job_id) == []


@pytest.mark.req("M3", "D12")
async def test_a_heartbeat_by_a_clock_that_was_set_back_since_proves_nothing(reaping: Reaping) -> None:
    """A worker takes an offer and dies before a heartbeat names it. Its last heartbeat, composed before, arrives while
    the store's clock is a minute ahead: late enough to prove that it never took the offer."""
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(max_retry=0, timeout_ms=3_600_000)
    await reaping.clock.pass_s(1)
    world.pass_ms(60_000)
    await reaping.beat(worker, tells_as_of=False)
    await reaping.clock.pass_s(1)
    world.pass_ms(-60_000)
    await reaping.clock.pass_s(2 * GRACE_S)
    found = await world.get(job.job_id)
    assert (found.state, found.losses) == (JobState.FAILED, 1)


@pytest.mark.req("M3", "M6")
async def test_a_late_first_sign_of_an_offer_keeps_it_where_it_is(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(max_retry=0, timeout_ms=60_000)
    await reaping.beat_for(LEASE_MS // 1000 + 2, worker, tells_as_of=False)
    await reaping.beat_for(10, worker, (job.job_id, job.token), tells_as_of=False)
    found = await world.get(job.job_id)
    assert (found.state, found.token, found.losses) == (JobState.RUNNING, job.token, 0)


@pytest.mark.req("M3")
async def test_claims_about_which_nothing_can_be_told_yet_hide_no_others(reaping: Reaping) -> None:
    """They come first in the order of leases."""
    world = reaping.world
    await reaping.past_grace()
    await world.enqueue_many(600)
    worker = await world.worker(max_jobs=1000)
    for limit in (500, 100):
        await world.claim(worker, limit=limit)
    other, job = await world.running("other")
    await reaping.beat(other, (job.job_id, job.token))
    await reaping.beat_for(LEASE_MS // 1000 + 2, worker, tells_as_of=False)
    assert (await world.get(job.job_id)).losses == 1
    assert await world.redis.zcard(world.shard.keys.running) == 600


@pytest.mark.req("M3")
async def test_the_history_of_a_lost_job_says_what_is_known_of_its_worker(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    speaks, not_named = await world.running("a")
    await reaping.beat(speaks, (not_named.job_id, not_named.token))
    silent, named = await world.running("b")
    await reaping.beat(silent, (named.job_id, named.token))
    _, offered = await world.running("c")
    await reaping.beat_for(LEASE_MS // 1000 + 2, speaks, tells_as_of=False)
    messages = [
        (await world.records.history(job.job_id))[0].message or "" for job in (not_named, named, offered)
    ]
    assert "did not name the job" in messages[0]
    assert "fell silent while it ran" in messages[1]
    assert "after it was offered the job" in messages[2]


@pytest.mark.req("J7", "M4")
async def test_a_run_that_its_living_worker_does_not_end_is_a_timeout(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(timeout_ms=2_000, max_retry=0, keep_result=True)
    await reaping.beat_for(14, worker, (job.job_id, job.token))
    found = await world.get(job.job_id)
    assert (found.state, found.cause, found.failures, found.losses) == (JobState.FAILED, Cause.TIMEOUT, 1, 0)
    result = await world.results.fetch_result(job.job_id, watch=False)
    assert isinstance(result, bytes)
    assert b"timeout" in result
    (attempt,) = await world.records.history(job.job_id)
    assert attempt.outcome == "timeout"


@pytest.mark.req("J5", "J7", "M3")
async def test_a_lost_run_that_is_found_after_its_time_is_a_loss_although_its_worker_lives_again(
    reaping: Reaping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease ended long before the job's time did, and nobody looked: the retries are for the job's own failures."""
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(timeout_ms=20_000, max_retry=1)
    await reaping.beat(worker, (job.job_id, job.token))
    with store_away(world, monkeypatch):
        await reaping.clock.pass_s(60)
    # The worker learned that it was cut off, ended the run, and has nothing to name.
    await reaping.beat_for(round(GRACE_S) + 2, worker)
    found = await world.get(job.job_id)
    assert (found.state, found.cause, found.losses, found.failures) == (JobState.READY, Cause.NONE, 1, 0)
    assert [a.outcome for a in await world.records.history(job.job_id)] == ["lost"]


@pytest.mark.req("J5", "J7")
async def test_a_timeout_is_retried_after_its_backoff(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(timeout_ms=2_000, max_retry=1)
    await reaping.beat_for(14, worker, (job.job_id, job.token))
    assert (await world.get(job.job_id)).state == JobState.RETRYING


@pytest.mark.req("M2", "M3")
async def test_the_third_loss_ends_the_job(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    job_id = await world.enqueue(max_retry=50, keep_result=True)
    for losses in (1, 2, 3):
        worker = await world.worker()
        if losses < 3:
            (job,) = await world.claim(worker)
        else:
            claim = await world.claims.claim_alone(world.epoch, worker, job_id)
            assert isinstance(claim, Claim)
            (job,) = claim.jobs
        await reaping.beat(worker, (job_id, job.token))
        await reaping.clock.pass_s(LEASE_MS / 1000 + 1)
        found = await world.get(job_id)
        assert found.losses == losses
        # Before its last try, the job waits for a worker to itself.
        assert found.state == (JobState.READY, JobState.RETRYING, JobState.FAILED)[losses - 1]
    assert (found.cause, found.failures) == (Cause.LOST, 0)
    assert [a.outcome for a in await world.records.history(job_id)] == ["lost"] * 3
    assert isinstance(await world.results.fetch_result(job_id, watch=False), bytes)


@pytest.mark.req("J5", "M3")
@pytest.mark.parametrize(("rerun_lost", "state"), [(False, JobState.FAILED), (True, JobState.READY)])
async def test_without_retries_a_lost_job_runs_again_only_if_it_says_so(
    reaping: Reaping, rerun_lost: bool, state: JobState
) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(max_retry=0, rerun_lost=rerun_lost)
    await reaping.beat(worker, (job.job_id, job.token))
    await reaping.clock.pass_s(LEASE_MS / 1000 + 1)
    found = await world.get(job.job_id)
    assert (found.state, found.losses) == (state, 1)


@pytest.mark.req("M3")
async def test_all_jobs_of_a_lost_worker_are_found(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    ids = await world.enqueue_many(700)
    worker = await world.worker(max_jobs=1000)
    for limit in (500, 200):
        await world.claim(worker, limit=limit)
    await reaping.clock.pass_s(LEASE_MS / 1000 + 2)
    jobs = await world.records.get_without_argument(ids)
    assert {(job.state, job.losses) for job in jobs.values()} == {(JobState.READY, 1)}


# --- grace


@pytest.mark.req("D12")
async def test_nothing_is_taken_back_in_the_grace_after_an_election(world: StoreWorld) -> None:
    _, job = await world.running()
    world.pass_ms(LEASE_MS * 4)
    reaping = Reaping(world)
    await reaping.reaper.start()
    await reaping.clock.pass_s(GRACE_S - 1)
    assert await world.state(job.job_id) == JobState.RUNNING
    await reaping.clock.pass_s(2)
    assert await world.state(job.job_id) == JobState.READY
    await reaping.reaper.stop()


@pytest.mark.req("M3", "D12")
async def test_offers_never_accepted_return_also_in_the_grace_after_an_election(world: StoreWorld) -> None:
    """The claimant died before the push, and the worker says so: nobody could run the job twice."""
    worker, offered = await world.running()
    _, silent = await world.running("other")
    world.pass_ms(LEASE_MS + 1)
    reaping = Reaping(world)
    await reaping.reaper.start()
    await reaping.beat(worker)
    await reaping.clock.pass_s(1)
    assert not reaping.grace.is_over
    found = await world.get(offered.job_id)
    assert (found.state, found.attempt, found.losses, found.returned_offers) == (JobState.READY, 0, 0, 1)
    assert await world.state(silent.job_id) == JobState.RUNNING
    await reaping.reaper.stop()


@contextlib.contextmanager
def store_away(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> Any:
    async def away() -> object:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(world.leases, "expired_leases", away)
        yield


@pytest.mark.req("D12", "M6")
async def test_nothing_is_taken_back_in_the_grace_after_an_outage(
    reaping: Reaping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No heartbeat could arrive, so every long job would run twice."""
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(timeout_ms=86_400_000)
    await reaping.beat(worker, (job.job_id, job.token))
    with store_away(world, monkeypatch):
        await reaping.clock.pass_s(60)
    await reaping.clock.pass_s(3)
    assert await world.state(job.job_id) == JobState.RUNNING
    await reaping.beat_for(30, worker, (job.job_id, job.token))
    assert (await world.get(job.job_id)).token == job.token


@pytest.mark.parametrize(("away_s", "is_ended"), [(2, True), (8, False)])
async def test_a_short_outage_keeps_no_runaway_run_whose_worker_reports(
    reaping: Reaping, monkeypatch: pytest.MonkeyPatch, away_s: int, is_ended: bool
) -> None:
    """The worker had the usual time to report the end. After a longer outage its report may still be on its way."""
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(timeout_ms=2_000, max_retry=0)
    silent_worker, silent_job = await world.running(timeout_ms=2_000, max_retry=0)
    await reaping.beat_for(1, worker, (job.job_id, job.token))
    await reaping.beat(silent_worker, (silent_job.job_id, silent_job.token))
    with store_away(world, monkeypatch):
        await reaping.clock.pass_s(away_s)
    await reaping.beat_for(14, worker, (job.job_id, job.token))
    assert not reaping.grace.is_over
    found = await world.get(job.job_id)
    assert (found.state, found.cause) == (
        (JobState.FAILED, Cause.TIMEOUT) if is_ended else (JobState.RUNNING, Cause.NONE)
    )
    assert await world.state(silent_job.job_id) == JobState.RUNNING


async def test_a_hiccup_of_the_store_costs_no_grace(
    reaping: Reaping, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = reaping.world
    await reaping.past_grace()
    _, job = await world.running()
    await reaping.clock.pass_s(LEASE_MS / 1000 - 2)
    with store_away(world, monkeypatch):
        await reaping.clock.pass_s(0.5)
    await reaping.clock.pass_s(3)
    assert await world.state(job.job_id) == JobState.READY


@pytest.mark.req("D12")
async def test_a_process_that_stood_still_waits_as_after_an_outage(reaping: Reaping) -> None:
    await reaping.past_grace()
    _, job = await reaping.world.running()
    await reaping.clock.step(60)
    await reaping.clock.pass_s(3)
    assert await reaping.world.state(job.job_id) == JobState.RUNNING


@pytest.mark.req("D12")
@pytest.mark.parametrize("step_ms", [7_200_000, -3_600_000])
async def test_a_step_of_the_stores_clock_takes_nothing_back(reaping: Reaping, step_ms: int) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(timeout_ms=86_400_000)
    await reaping.beat(worker, (job.job_id, job.token))
    await reaping.clock.pass_s(1)
    world.pass_ms(step_ms)
    await reaping.clock.pass_s(2)
    await reaping.beat_for(30, worker, (job.job_id, job.token))
    found = await world.get(job.job_id)
    assert (found.state, found.token, found.losses) == (JobState.RUNNING, job.token, 0)


@pytest.mark.req("D12", "M6")
async def test_after_the_stores_clock_was_set_back_a_dead_workers_job_runs_again_soon(
    reaping: Reaping,
) -> None:
    """Otherwise the lease would last until the time that the clock showed before, plus the length of a lease."""
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running(timeout_ms=86_400_000)
    await reaping.beat(worker, (job.job_id, job.token))
    await reaping.clock.pass_s(1)
    world.pass_ms(-3_600_000)
    await reaping.clock.pass_s(GRACE_S - 1)
    assert await world.state(job.job_id) == JobState.RUNNING
    await reaping.clock.pass_s(3)
    found = await world.get(job.job_id)
    assert (found.state, found.losses) == (JobState.READY, 1)


@pytest.mark.req("D5")
async def test_under_a_stale_epoch_no_lease_is_shortened(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    _, job = await world.running()
    await world.reelect()
    before = await world.score(world.shard.keys.running, job.job_id)
    world.pass_ms(-3_600_000)
    with contextlib.suppress(AssertionError):  # the loop ends with this round
        await reaping.clock.pass_s(2, within_s=1)
    assert reaping.stale == 1
    assert await world.score(world.shard.keys.running, job.job_id) == before


# --- damage and deposition


async def test_unreadable_claims_are_set_aside_and_hide_nothing(reaping: Reaping) -> None:
    """They come first in the order of leases; five hundred of them would hide all others for ever."""
    world = reaping.world
    await reaping.past_grace()
    redis, keys = world.redis, world.shard.keys
    damaged = {f"damaged-{n}": 1 for n in range(600)}
    await redis.zadd(keys.running, damaged)
    _, job = await world.running()
    await reaping.clock.pass_s(LEASE_MS / 1000 + 3)
    assert await world.state(job.job_id) == JobState.READY
    assert await redis.scard(keys.damaged) == 600
    await redis.delete(keys.damaged)


@pytest.mark.req("D2", "D4")
async def test_under_a_stale_epoch_nothing_is_taken_back(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    _, job = await world.running()
    before = await world.get(job.job_id)
    await world.reelect()
    await reaping.clock.asleep()
    with contextlib.suppress(
        AssertionError
    ):  # the loop ends with the round that notices it, and does not sleep
        await reaping.clock.pass_s(LEASE_MS / 1000 + 2, within_s=1)
    assert reaping.stale == 1
    assert await world.get(job.job_id) == before


# --- crowds, successors, and a busy master


@pytest.mark.req("D12")
async def test_the_leases_of_a_crowd_that_fell_silent_at_once_get_a_grace(reaping: Reaping) -> None:
    """A switch that fails for twenty seconds must not make every job of a rack run twice."""
    world = reaping.world
    await reaping.past_grace()
    crowd = [await world.running(timeout_ms=86_400_000) for _ in range(3)]
    for worker, job in crowd:
        await reaping.beat(worker, (job.job_id, job.token))
    await reaping.clock.pass_s(LEASE_MS / 1000 + GRACE_S - 1)
    assert {(await world.get(job.job_id)).token == job.token for _, job in crowd} == {True}
    worker, job = crowd[0]
    await reaping.beat(worker, (job.job_id, job.token))
    await reaping.clock.pass_s(2)
    states = [await world.state(job.job_id) for _, job in crowd]
    assert states == [JobState.RUNNING, JobState.READY, JobState.READY], "who came back keeps its job"


@pytest.mark.req("M3", "M6")
async def test_two_lost_workers_are_no_crowd(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    lost = [(await world.running())[1] for _ in range(2)]
    await reaping.clock.pass_s(LEASE_MS / 1000 + 1)
    assert {await world.state(job.job_id) for job in lost} == {JobState.READY}


@pytest.mark.req("D10", "M6")
async def test_the_jobs_of_a_worker_with_a_successor_are_taken_back_at_once_even_in_a_grace(
    world: StoreWorld,
) -> None:
    spec = WorkerSpec("http://h:1", ("work",), 10, "n", 1, {}, "1", "s" * 32, "here")
    former = new_id()
    await world.workers.register(former, spec)
    await world.enqueue()
    (job,) = await world.claim(former)
    await world.workers.renew(former, [(job.job_id, job.token)], 1, world.now_ms)
    _, of_another = await world.running("another")
    await world.workers.register(new_id(), spec)
    reaping = Reaping(world)
    await reaping.reaper.start()
    await reaping.clock.pass_s(1)
    found = await world.get(job.job_id)
    assert (found.state, found.losses, found.token) == (JobState.READY, 1, "")
    (attempt,) = await world.records.history(job.job_id)
    assert attempt.outcome == "lost"
    assert "another one was started at its address" in (attempt.message or "")
    assert await world.state(of_another.job_id) is JobState.RUNNING
    await reaping.reaper.stop()


@pytest.mark.req("D12")
async def test_the_history_says_that_people_detached_the_worker(reaping: Reaping) -> None:
    world = reaping.world
    await reaping.past_grace()
    worker, job = await world.running()
    await reaping.beat(worker, (job.job_id, job.token))
    entry = encode_entry(who="ada", action="worker.detach", target=worker, before=None, after=None)
    await world.workers.detach(worker, entry)
    await reaping.beat_for(LEASE_MS // 1000 - 1, worker, (job.job_id, job.token))
    assert await world.state(job.job_id) is JobState.RUNNING, "until its lease is over it may still run there"
    await reaping.beat_for(2, worker, (job.job_id, job.token))
    assert await world.state(job.job_id) is JobState.READY
    (attempt,) = await world.records.history(job.job_id)
    assert "detached by people" in (attempt.message or "")


@pytest.mark.req("M6")
async def test_a_master_that_stalls_again_and_again_takes_back_all_the_same(reaping: Reaping) -> None:
    """The master's own delays do not count as an outage of the store: otherwise it would take nothing back under
    load."""
    world = reaping.world
    await reaping.past_grace()
    _, job = await world.running()
    for _ in range(6):
        await reaping.clock.step(3)
    assert await world.state(job.job_id) is JobState.READY
