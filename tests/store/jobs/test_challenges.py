"""Challenges: an attempt opens them, callbacks answer them, a worker runs them, or they end."""

import msgpack
import pytest

from jqmaster.domain.challenges.challenge import (
    Callback,
    CallbackAnswer,
    CallbackSignature,
    ChallengeState,
    RequestId,
    new_request_id,
)
from jqmaster.domain.challenges.challenge_form import Audience, Form, GivenAnswer
from jqmaster.domain.constraints.constraint import new_cid
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision, NotReadyRecord
from jqmaster.domain.matching.paths import parse_path
from jqmaster.domain.targets.callback import TARGET_META
from jqmaster.errors import NotFoundError
from jqmaster.store import codec
from jqmaster.store.jobs.challenges import NOT_OPENED, AskedForm, OpenedChallenge, ReceivedCallback
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.settlements import Settlement
from jqmaster.store.notices.waiting_challenges import WaitingChallengeStore
from tests.store.jobs.test_settle import HANDED_BACK, RETRYING
from tests.support import long
from tests.support.constraints import ConstrainedWorld
from tests.support.store import LEASE_MS, START_MS, StoreWorld

pytestmark = pytest.mark.req("P2", "P3")
DAY_MS = 86_400_000
LOST = Decision(JobState.READY, "lost", is_loss=True)
UNANSWERED = Decision(
    JobState.RETRYING, "callback_timeout", delay_ms=100, cause=Cause.CALLBACK_TIMEOUT, is_counted=True
)


async def _expire(world: StoreWorld, decision: Decision = UNANSWERED) -> list[str]:
    due = await world.challenges.due()
    settlements = [
        Settlement(
            job.id, job.token, decision, codec.encode_attempt(job, decision.ending, "", None), name=job.name
        )
        for _, job in due.jobs
        if job
    ]
    return [ended.job_id for ended in await world.challenges.expire(world.epoch, settlements)]


async def _states(world: StoreWorld, job_id: str) -> list[ChallengeState]:
    return [challenge.state for challenge in (await world.challenges.of([job_id]))[job_id]]


async def _claim_callback(world: StoreWorld) -> tuple[str, ClaimedJob]:
    worker = await world.worker()
    (job,) = await world.claim(worker)
    await world.challenges.give_callbacks([job])
    return worker, job


async def test_a_challenge_frees_the_worker_and_its_callback_goes_on_with_the_attempt(
    world: StoreWorld,
) -> None:
    worker, job, request = await world.challenged()
    assert await world.redis.scard(world.shard.keys.claims(worker)) == 1
    assert await world.challenges.await_callbacks(worker, [(job.job_id, job.token, request.digest)]) == [1]
    waiting = await world.get(job.job_id)
    assert (waiting.state, waiting.due_at_ms) == (JobState.AWAITING_CALLBACK, world.now_ms + 60_000)
    assert await world.redis.exists(world.shard.keys.claims(worker)) == 0
    await world.assert_sound()
    assert await world.claim(await world.worker()) == []
    world.pass_ms(5_000)
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    await world.assert_sound()
    other, again = await _claim_callback(world)
    assert (again.record.attempt, again.record.has_callback, again.fence > job.fence) == (1, True, True)
    assert again.callbacks == [Callback("text/plain", b"done", world.now_ms)]
    assert await world.state(job.job_id) is JobState.RUNNING
    await world.assert_sound()
    assert await world.settlements.settle_success(other, [(job.job_id, again.token, b"")]) == [True]
    (over,) = (await world.challenges.of([job.job_id]))[job.job_id]
    assert (over.state, over.received, list(over.callbacks)) == (ChallengeState.SUCCEEDED, 1, [])
    assert (over.received_at_ms, over.run_at_ms, over.ended_at_ms) == (world.now_ms,) * 3


async def test_a_callback_that_comes_before_the_report_is_kept(world: StoreWorld) -> None:
    worker, job, request = await world.challenged()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    assert await world.state(job.job_id) is JobState.RUNNING
    assert await world.challenges.await_callbacks(worker, [(job.job_id, job.token, request.digest)]) == [1]
    _, again = await _claim_callback(world)
    assert again.callbacks[0].body == b"done"


async def test_the_same_callback_again_changes_nothing_and_another_conflicts(world: StoreWorld) -> None:
    _, job, request = await world.awaiting()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.REPEATED
        assert await world.call_back(request, b"other") is CallbackAnswer.CONFLICT
    worker, again = await _claim_callback(world)
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.REPEATED
    await world.settlements.settle_success(worker, [(job.job_id, again.token, b"")])
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.REPEATED
        assert await world.call_back(request, b"other") is CallbackAnswer.CONFLICT


async def test_several_callbacks_are_awaited_together(world: StoreWorld) -> None:
    _, _, request = await world.awaiting(expect=3)
    for body in (b"1", b"2"):
        assert await world.call_back(request, body) is CallbackAnswer.TAKEN
        assert await world.call_back(request, body) is CallbackAnswer.REPEATED
    assert await world.claim(await world.worker()) == []
    # The sender's own name tells equal bodies apart.
    same = Callback("text/plain", b"2")
    received = await world.challenges.take(request, same, b"a name")
    assert received == ReceivedCallback(CallbackAnswer.TAKEN, "work", 0)
    assert await world.call_back(request, b"4") is CallbackAnswer.CONFLICT
    _, again = await _claim_callback(world)
    assert [callback.body for callback in again.callbacks] == [b"1", b"2", b"2"]


@pytest.mark.req("P6")
async def test_a_callback_that_never_comes_is_a_failed_attempt(world: StoreWorld) -> None:
    _, job, request = await world.awaiting(wait_ms=86_400_000)
    world.pass_ms(86_399_999)
    assert (await world.challenges.due()).jobs == []
    assert (await world.challenges.due()).next_ms == 1
    world.pass_ms(1)
    assert await _expire(world) == [job.job_id]
    failed = await world.get(job.job_id)
    assert (failed.state, failed.failures, failed.has_challenge) == (JobState.RETRYING, 1, False)
    assert await _states(world, job.job_id) == [ChallengeState.EXPIRED]
    await world.assert_sound()
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.OVER
    world.pass_ms(100)
    await world.due.promote(world.epoch, JobState.RETRYING)
    (again,) = await world.claim(await world.worker())
    assert (again.record.attempt, again.record.has_callback) == (2, False)
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.OVER


@pytest.mark.req("P6")
async def test_a_callback_in_time_wins_over_a_deadline_that_is_seen_late(world: StoreWorld) -> None:
    _, job, request = await world.awaiting()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    # Repair leaves the job like this: its index says that it is due.
    await world.redis.zadd(world.shard.keys.awaiting_callback, {job.job_id: 0})
    await world.redis.delete(world.shard.keys.callbacks("work"))
    assert await _expire(world) == []
    _, again = await _claim_callback(world)
    assert again.job_id == job.job_id


@pytest.mark.req("P6", "M9")
@pytest.mark.parametrize("comes_before", [False, True])
async def test_a_canceled_job_awaits_nothing(world: StoreWorld, comes_before: bool) -> None:
    _, job, request = await world.awaiting()
    if comes_before:
        await world.call_back(request)
    assert await world.operator_actions.cancel(job.job_id) is None
    assert await world.state(job.job_id) is JobState.CANCELED
    assert await _states(world, job.job_id) == [ChallengeState.VOID]
    await world.assert_sound()
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.OVER
    assert [attempt.outcome for attempt in await world.records.history(job.job_id)] == ["canceled"]
    await world.operator_actions.retry(await world.get(job.job_id))
    (again,) = await world.claim(await world.worker())
    assert not again.record.has_callback
    await world.operator_actions.cancel(job.job_id)
    await world.operator_actions.delete(job.job_id)
    assert await world.call_back(request) is CallbackAnswer.UNKNOWN
    assert not await world.redis.exists(world.shard.keys.challenges(job.job_id), world.shard.keys.challenged)


@pytest.mark.parametrize("comes_before", [False, True])
async def test_a_lost_attempt_runs_its_callback_if_that_is_there_and_else_begins_anew(
    world: StoreWorld, comes_before: bool
) -> None:
    _, job, request = await world.challenged()
    if comes_before:
        await world.call_back(request)
    world.pass_ms(LEASE_MS)
    assert await world.leases.reclaim(
        world.epoch, [world.settlement(await world.get(job.job_id), job.token, LOST)]
    ) == [True]
    await world.assert_sound()
    _, again = await _claim_callback(world)
    assert again.record.has_callback is comes_before
    assert again.record.attempt == (1 if comes_before else 2)
    assert await _states(world, job.job_id) == [
        ChallengeState.PROCESSING if comes_before else ChallengeState.VOID
    ]


@pytest.mark.parametrize("ending", ["lost", "handed_back", "returned"])
async def test_a_callback_whose_worker_goes_is_given_to_the_next(world: StoreWorld, ending: str) -> None:
    _, job, request = await world.awaiting()
    await world.call_back(request)
    worker, first = await _claim_callback(world)
    if ending == "lost":
        world.pass_ms(LEASE_MS)
        await world.leases.reclaim(
            world.epoch, [world.settlement(await world.get(job.job_id), first.token, LOST)]
        )
    elif ending == "handed_back":
        await world.fail(worker, first, HANDED_BACK)
    else:
        await world.leases.return_offers(world.epoch, worker, [(job.job_id, first.token)])
    await world.assert_sound()
    assert await world.settlements.settle_success(worker, [(job.job_id, first.token, b"")]) == [False]
    _, again = await _claim_callback(world)
    assert (again.record.attempt, again.callbacks[0].body) == (1, b"done")


@pytest.mark.req("M13")
async def test_a_callback_that_workers_refuse_is_put_off_every_second_time(world: StoreWorld) -> None:
    """Otherwise it would come before all other jobs of a worker that always refuses it."""
    _, job, request = await world.awaiting()
    await world.call_back(request)
    waits = []
    for _ in range(18):
        worker, again = await _claim_callback(world)
        await world.leases.refuse_offers(worker, [(job.job_id, again.token)])
        due_ms = await world.score(world.shard.keys.callbacks("work"), job.job_id)
        assert due_ms is not None
        waits.append(max(0, int(due_ms) - world.now_ms))
        if waits[-1]:
            world.pass_ms(waits[-1] - 1)
            assert await world.claim(await world.worker()) == []
            world.pass_ms(1)
    await world.assert_sound()
    assert waits[::2] == [0] * 9
    assert waits[1::2] == [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]
    assert (await world.get(job.job_id)).attempt == 1


@pytest.mark.req("M13")
async def test_a_target_gets_the_callbacks_of_deliveries_and_no_others(world: StoreWorld) -> None:
    """A hundred callbacks that nobody takes cost it nothing."""
    foreign = [await world.awaiting() for _ in range(120)]
    for _, _, request in foreign:
        await world.call_back(request)
    target = await world.worker(max_jobs=1, target="shop")
    ready = await world.enqueue()
    (job,) = await world.claim(target)
    assert job.job_id == ready
    own = await world.open_challenge(target, job, meta=TARGET_META)
    assert await world.challenges.await_callbacks(target, [(ready, job.token, own.digest)]) == [1]
    assert await world.claim(target) == []
    await world.call_back(own)
    assert await world.redis.zcard(world.shard.keys.callbacks("work")) == 120
    await world.assert_sound()
    (again,) = await world.claim(target)
    await world.challenges.give_callbacks([again])
    assert (again.job_id, again.challenge_meta) == (ready, TARGET_META)
    # It is offered again after a loss, and a worker takes it as well as the others.
    world.pass_ms(LEASE_MS)
    await world.leases.reclaim(world.epoch, [world.settlement(await world.get(ready), again.token, LOST)])
    await world.assert_sound()
    worker = await world.worker(max_jobs=200)
    claimed = {one.job_id for one in await world.claim(worker, limit=200)}
    assert claimed == {ready, *(waiting.job_id for _, waiting, _ in foreign)}


@pytest.mark.req("M13")
async def test_the_end_of_a_delivery_takes_its_callback_out_of_the_list(world: StoreWorld) -> None:
    _, job, request = await world.awaiting(meta=TARGET_META)
    await world.call_back(request)
    await world.operator_actions.cancel(job.job_id)
    await world.assert_sound()
    assert await world.claim(await world.worker(target="shop")) == []
    assert await world.redis.hget(world.shard.keys.rules, "callback_names") is None


@pytest.mark.req("P4")
async def test_a_failure_of_the_callback_is_a_failed_attempt_and_the_next_opens_its_own(
    world: StoreWorld,
) -> None:
    _, job, request = await world.awaiting()
    await world.call_back(request)
    worker, again = await _claim_callback(world)
    await world.fail(worker, again, RETRYING)
    assert await _states(world, job.job_id) == [ChallengeState.FAILED]
    world.pass_ms(600_000)
    await world.due.promote(world.epoch, JobState.RETRYING)
    next_worker = await world.worker()
    (third,) = await world.claim(next_worker)
    assert third.record.attempt == 2
    other = await world.open_challenge(next_worker, third)
    assert other.digest != request.digest
    assert await _states(world, job.job_id) == [ChallengeState.FAILED, ChallengeState.PROCESSING]
    assert await world.call_back(request, b"another") is CallbackAnswer.CONFLICT
    assert await world.call_back(other) is CallbackAnswer.TAKEN


async def test_only_the_holder_of_the_job_opens_and_reports(world: StoreWorld) -> None:
    worker, job, request = await world.challenged()
    stranger = await world.worker()
    for who, token in ((stranger, job.token), (worker, "0" * 32)):
        new = new_request_id(job.job_id)
        async with world.unchanged():
            assert await world.challenges.open(who, token, new, wait_ms=1, expect=1, meta=None) == "stale"
            assert await world.challenges.await_callbacks(who, [(job.job_id, token, request.digest)]) == [0]
    assert await world.challenges.await_callbacks(worker, [(job.job_id, job.token, b"x" * 16)]) == [
        NOT_OPENED
    ]
    assert await world.call_back(new_request_id(job.job_id)) is CallbackAnswer.UNKNOWN
    second = await world.open_challenge(worker, job)
    assert await world.call_back(request) is CallbackAnswer.OVER
    assert await world.call_back(second) is CallbackAnswer.TAKEN
    new = new_request_id(job.job_id)
    assert await world.challenges.open(worker, job.token, new, wait_ms=1, expect=1, meta=None) == "answered"


@pytest.mark.req("P1", "M7")
@pytest.mark.parametrize("ending", ["succeeded", "canceled", "expired"])
async def test_a_constraint_counts_a_job_until_its_challenge_is_over(world: StoreWorld, ending: str) -> None:
    constrained = ConstrainedWorld(world)
    limit = await constrained.limit(concurrency=1)
    first, second = await constrained.enqueue_many(range(2))
    worker, other = await world.worker(), await world.worker()
    (job,) = await constrained.claim(worker)
    assert job.job_id == first
    request = await world.open_challenge(worker, job)
    assert await world.challenges.await_callbacks(worker, [(first, job.token, request.digest)]) == [1]
    (gate,) = await constrained.slots(limit)
    # The worker is free but the slot is not: the outside system works for the job.
    assert await constrained.slots(limit) == {gate: {first}}
    assert await constrained.claim(worker) == []
    await world.assert_sound()
    if ending == "succeeded":
        await world.call_back(request)
        (again,) = await constrained.claim(other)
        assert again.job_id == first
        assert await constrained.claim(worker) == []
        await constrained.succeed(other, again)
    elif ending == "canceled":
        assert await world.operator_actions.cancel(first) is None
    else:
        world.pass_ms(60_000)
        assert await _expire(world) == [first]
    assert await constrained.take(worker) == [second]
    assert await constrained.slots(limit) == {gate: {second}}


@pytest.mark.req("P1", "M7")
@pytest.mark.parametrize("key", [None, "name"])
@pytest.mark.parametrize("ending", ["succeeded", "failed", "canceled", "expired"])
async def test_a_constraint_may_leave_out_jobs_that_await_their_callbacks(
    world: StoreWorld, ending: str, key: str | None
) -> None:
    constrained = ConstrainedWorld(world)
    limit = await constrained.limit(key=key, concurrency=1, counts_awaiting=False)
    first, second, third = await constrained.enqueue_many(range(3))
    worker, other = await world.worker(), await world.worker()
    (job,) = await constrained.claim(worker)
    request = await world.open_challenge(worker, job)
    # Until the worker has handed its work over, the work counts and its gate is closed.
    assert await constrained.claim(other) == []
    async with world.published(world.shard.wake_channel, f"freed:{worker}:1", "due", "ready"):
        reports = [(first, job.token, request.digest)]
        assert await world.challenges.await_callbacks(worker, reports) == [1]
    (next_job,) = await constrained.claim(other)
    assert next_job.job_id == second
    assert await constrained.claim(worker) == []
    await world.assert_sound()
    # The run for the callback needs no slot, though the only one is taken.
    if ending in ("succeeded", "failed"):
        await world.call_back(request)
        (again,) = await constrained.claim(worker)
        assert again.job_id == first
        await world.assert_sound()
        assert await constrained.claim(worker) == []
        if ending == "succeeded":
            await constrained.succeed(worker, again)
        else:
            assert await world.fail(worker, again)
    elif ending == "canceled":
        assert await world.operator_actions.cancel(first) is None
    else:
        world.pass_ms(60_000)
        assert await _expire(world) == [first]
    await world.assert_sound()
    assert await constrained.claim(worker) == []
    await constrained.succeed(other, next_job)
    assert await constrained.take(worker) == [third]
    (held,) = (await constrained.slots(limit)).values()
    assert held == {third}
    assert await world.redis.exists(world.shard.keys.handed_over_gates) == 0


@pytest.mark.req("M7")
async def test_a_limit_may_begin_or_cease_to_count_awaiting_jobs_while_they_wait(world: StoreWorld) -> None:
    constrained = ConstrainedWorld(world)
    limit = await constrained.limit(concurrency=1)
    first, second, third = await constrained.enqueue_many(range(3))
    worker = await world.worker()
    (job,) = await constrained.claim(worker)
    request = await world.open_challenge(worker, job)
    assert await world.challenges.await_callbacks(worker, [(first, job.token, request.digest)]) == [1]
    assert await constrained.take(worker) == []
    limit = await constrained.edit(limit, counts_awaiting=False)
    assert await constrained.take(worker) == [second]
    assert await constrained.take(worker) == []
    limit = await constrained.edit(limit, counts_awaiting=True)
    assert await constrained.take(worker) == []
    # A new key means new gates, and new lanes.
    limit = await constrained.edit(limit, key=parse_path("name"), counts_awaiting=False, cid=new_cid())
    await world.assert_sound()
    assert await constrained.take(worker) == []
    assert await world.operator_actions.cancel(first) is None
    assert await constrained.take(worker) == []
    again = await world.get(second)
    assert await world.settlements.settle_success(worker, [(second, again.token, b"")]) == [True]
    assert await constrained.take(worker) == [third]
    await world.assert_sound()


@pytest.mark.req("P6")
async def test_a_callback_that_comes_a_day_later_counts_if_its_job_waits_so_long(world: StoreWorld) -> None:
    _, job, request = await world.awaiting(wait_ms=2 * DAY_MS)
    world.pass_ms(DAY_MS)
    assert await _expire(world) == []
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    _, again = await _claim_callback(world)
    assert (again.job_id, again.record.attempt) == (job.job_id, 1)


@pytest.mark.req("P6")
async def test_a_callback_that_comes_after_its_day_is_answered_and_changes_nothing(world: StoreWorld) -> None:
    _, job, request = await world.awaiting(wait_ms=DAY_MS)
    world.pass_ms(DAY_MS)
    assert await _expire(world) == [job.job_id]
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.OVER
    assert await _states(world, job.job_id) == [ChallengeState.EXPIRED]


@pytest.mark.req("P2")
async def test_a_signed_challenge_takes_only_callbacks_whose_signature_was_verified(
    world: StoreWorld,
) -> None:
    worker, job = await world.running()
    signature = CallbackSignature("X-Signature", "secret", "sha256=", "base64")
    request = new_request_id(job.job_id)
    opened = await world.challenges.open(
        worker, job.token, request, wait_ms=60_000, expect=1, meta=b"\x01", signature=signature
    )
    assert opened == OpenedChallenge("work", world.now_ms, is_new=True)
    callback = Callback("text/plain", b"done")
    async with world.unchanged():
        assert await world.challenges.take(request, callback, callback.digest) == signature
    taken = await world.challenges.take(request, callback, callback.digest, is_verified=True)
    assert taken == ReceivedCallback(CallbackAnswer.TAKEN, "work", 0)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    # The secret is removed at the end of the challenge.
    stored = await world.redis.get(world.shard.keys.challenges(job.job_id))
    assert b"secret" not in stored
    assert await world.call_back(request) is CallbackAnswer.REPEATED


@pytest.mark.req("P4")
async def test_people_answer_a_challenge_by_what_they_see_of_it(world: StoreWorld) -> None:
    worker, job = await world.running()
    first, second = [await world.open_challenge(worker, job) for _ in range(2)]
    await world.challenges.await_callbacks(worker, [(job.job_id, job.token, second.digest)])
    by_hand = Callback("application/json", b"{}")
    over = await world.challenges.take_shown(job.job_id, first.shown, by_hand)
    assert over == ReceivedCallback(CallbackAnswer.OVER, "work")
    for job_id, shown in ((job.job_id, "unknown1"), (new_id(), second.shown)):
        unknown = await world.challenges.take_shown(job_id, shown, by_hand)
        assert unknown == ReceivedCallback(CallbackAnswer.UNKNOWN)
    world.pass_ms(2_000)
    taken = await world.challenges.take_shown(job.job_id, second.shown, by_hand)
    assert taken == ReceivedCallback(CallbackAnswer.TAKEN, "work", 2_000)
    _, again = await _claim_callback(world)
    assert again.callbacks == [Callback("application/json", b"{}", world.now_ms)]


@pytest.mark.req("P1")
async def test_a_job_that_is_not_ready_counts_since_when_and_how_often(world: StoreWorld) -> None:
    worker, job = await world.running()
    for times in (1, 2, 3):
        found = await world.challenges.note_not_ready(worker, job.job_id, job.token)
        assert found == (world.now_ms, NotReadyRecord(START_MS, times))
        world.pass_ms(1_000)
    stranger = await world.worker()
    async with world.unchanged():
        assert await world.challenges.note_not_ready(worker, job.job_id, "0" * 32) is None
        assert await world.challenges.note_not_ready(stranger, job.job_id, job.token) is None
    # A count that cannot be read starts again.
    await world.redis.set(world.shard.keys.progress(job.job_id), b"damaged")
    found = await world.challenges.note_not_ready(worker, job.job_id, job.token)
    assert found == (world.now_ms, NotReadyRecord(world.now_ms, 1))


@pytest.mark.req("P2")
async def test_a_worker_that_is_not_registered_is_told_so(world: StoreWorld) -> None:
    _, job, request = await world.challenged()
    stranger = new_id()
    new = new_request_id(job.job_id)
    async with world.unchanged():
        opened = await world.challenges.open(stranger, job.token, new, wait_ms=1, expect=1, meta=None)
        assert opened == "unknown"
        with pytest.raises(NotFoundError, match=stranger):
            await world.challenges.await_callbacks(stranger, [(job.job_id, job.token, request.digest)])


@pytest.mark.parametrize("damage", [b"\xc1", b"\x07", b"\x91\x07", b"\x81\xa1x\x01"])
async def test_challenges_that_cannot_be_read_are_those_of_nobody(world: StoreWorld, damage: bytes) -> None:
    worker, job, request = await world.challenged()
    await world.redis.set(world.shard.keys.challenges(job.job_id), damage)
    async with world.unchanged():
        assert await _states(world, job.job_id) == []
        shown = await world.challenges.take_shown(job.job_id, request.shown, Callback("", b""))
        assert shown == ReceivedCallback(CallbackAnswer.UNKNOWN)
    # Its attempt continues like one that opened no challenge.
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]


@pytest.mark.req("P6")
async def test_a_job_whose_record_is_damaged_is_set_aside_when_its_callbacks_are_due(
    world: StoreWorld,
) -> None:
    k = world.shard.keys
    _, job, _ = await world.awaiting()
    whole = await world.redis.get(k.job(job.job_id))
    await world.redis.set(k.job(job.job_id), whole[:3])
    world.pass_ms(60_000)
    due = await world.challenges.due()
    assert due.jobs == [(job.job_id, None)]
    assert await world.challenges.expire(world.epoch, [], unreadable=[job.job_id]) == []
    assert await world.redis.smembers(k.damaged) == {job.job_id.encode()}
    assert (await world.challenges.due()).jobs == []
    # People find the job and put it back: it waits again.
    await world.redis.set(k.job(job.job_id), whole)
    await world.redis.srem(k.damaged, job.job_id)
    await world.redis.zadd(k.awaiting_callback, {job.job_id: world.now_ms})
    assert await _expire(world) == [job.job_id]


async def test_progress_of_the_outside_system_is_kept(world: StoreWorld) -> None:
    _, job, request = await world.awaiting()
    assert await world.challenges.report_progress(request, 0.5, "half") is CallbackAnswer.TAKEN
    (told,) = (await world.challenges.of([job.job_id]))[job.job_id]
    assert (told.fraction, told.note, told.told_at_ms) == (0.5, "half", world.now_ms)
    await world.call_back(request)
    await world.operator_actions.cancel(job.job_id)
    assert await world.challenges.report_progress(request, None, "") is CallbackAnswer.OVER
    assert (
        await world.challenges.report_progress(new_request_id(job.job_id), None, "") is CallbackAnswer.UNKNOWN
    )


async def test_the_newest_challenges_come_first_page_by_page(world: StoreWorld) -> None:
    jobs = []
    for _ in range(5):
        jobs.append((await world.awaiting())[1].job_id)
        world.pass_ms(1)
    first = await world.challenges.newest(None, 3)
    assert [job_id for _, job_id in first] == jobs[:1:-1]
    assert [job_id for _, job_id in await world.challenges.newest(first[-1], 3)] == jobs[1::-1]


@pytest.mark.sized
async def test_an_outstanding_challenge_is_small_and_a_job_without_one_has_none(world: StoreWorld) -> None:
    count = long.size(500, 2_000)
    worker = await world.worker(max_jobs=1_000)
    per_job = []
    for opens in (False, True):
        before = await world.used_bytes()
        for _ in range(count // 500):
            await world.enqueue_many(500)
            jobs = await world.claim(worker, limit=500)
            reports = []
            for job in jobs if opens else ():
                request = await world.open_challenge(worker, job, wait_ms=86_400_000)
                reports.append((job.job_id, job.token, request.digest))
            if opens:
                assert set(await world.challenges.await_callbacks(worker, reports)) == {1}
            else:
                await world.settlements.settle_success(worker, [(job.job_id, job.token, b"") for job in jobs])
        per_job.append((await world.used_bytes() - before) / count)
    assert per_job[1] - per_job[0] <= 600
    assert not [key for key in await world.key_names() if "challenges:" in key][count:]


FORM = Form("Refund order 42?")


async def _answer(world: StoreWorld, request: RequestId, choice: str, by: str = "") -> CallbackAnswer:
    """Answer as a person does: each person answers once, and `choice` is the whole answer."""
    callback = Callback("application/json", choice.encode() + by.encode())
    received = await world.challenges.take(
        request,
        callback,
        (by or choice).encode(),
        is_verified=True,
        answer=GivenAnswer(choice, "", by, "203.0.113.9", 0),
        digest=choice.encode(),
    )
    assert isinstance(received, ReceivedCallback)
    return received.answer


@pytest.mark.req("P10", "P4")
async def test_a_form_takes_answers_of_people_and_no_plain_callback(world: StoreWorld) -> None:
    _, job, request = await world.awaiting(form=FORM, audience=Audience.USERS, expect=2)
    async with world.unchanged():
        assert await world.challenges.take(request, Callback("", b"paid"), b"x") == AskedForm()
    (opened,) = (await world.challenges.of([job.job_id]))[job.job_id]
    assert (opened.form, opened.audience, opened.link, opened.is_open) == (
        FORM, Audience.USERS, request.text, True,
    )  # fmt: skip
    assert request.text not in repr(opened)
    assert await world.challenges.find(request) == opened
    assert await world.challenges.find_shown(job.job_id, request.shown) == opened
    assert await world.challenges.find(new_request_id(job.job_id)) is None
    assert await world.challenges.find_shown(job.job_id, "nothing0") is None
    assert await _answer(world, request, "approve", "user:ada") is CallbackAnswer.TAKEN
    async with world.unchanged():
        assert await _answer(world, request, "approve", "user:ada") is CallbackAnswer.REPEATED
        assert await _answer(world, request, "reject", "user:ada") is CallbackAnswer.CONFLICT
    world.pass_ms(1_000)
    assert await _answer(world, request, "reject", "user:bob") is CallbackAnswer.TAKEN
    async with world.unchanged():
        assert await _answer(world, request, "approve", "user:eve") is CallbackAnswer.CONFLICT
    worker, again = await _claim_callback(world)
    assert [one.body for one in again.callbacks] == [b"approveuser:ada", b"rejectuser:bob"]
    await world.settlements.settle_success(worker, [(job.job_id, again.token, b"")])
    (over,) = (await world.challenges.of([job.job_id]))[job.job_id]
    assert over.answers == [
        GivenAnswer("approve", "", "user:ada", "203.0.113.9", world.now_ms - 1_000),
        GivenAnswer("reject", "", "user:bob", "203.0.113.9", world.now_ms),
    ]
    # Its link goes when it ends; the questions stay for those who open it.
    assert (over.link, over.form, over.is_open, list(over.callbacks)) == ("", FORM, False, [])


@pytest.mark.req("P10")
async def test_the_link_of_a_form_goes_with_each_kind_of_end(world: StoreWorld) -> None:
    worker, job, first = await world.challenged(form=FORM)
    second = await world.open_challenge(worker, job, form=FORM)
    assert [one.link for one in (await world.challenges.of([job.job_id]))[job.job_id]] == ["", second.text]
    assert await _answer(world, first, "approve") is CallbackAnswer.OVER
    await world.challenges.await_callbacks(worker, [(job.job_id, job.token, second.digest)])
    world.pass_ms(60_001)
    assert await _expire(world) == [job.job_id]
    over = (await world.challenges.of([job.job_id]))[job.job_id]
    assert [(one.link, one.state) for one in over] == [
        ("", ChallengeState.VOID),
        ("", ChallengeState.EXPIRED),
    ]
    await world.assert_sound()


@pytest.mark.req("P10")
async def test_a_form_that_cannot_be_read_hides_no_challenge(world: StoreWorld) -> None:
    _, job, request = await world.awaiting(form=FORM)
    key = world.shard.keys.challenges(job.job_id)
    fields = msgpack.unpackb(await world.redis.get(key), raw=True)
    fields[0][b"form"] = b"\xc1"
    await world.redis.set(key, msgpack.packb(fields, use_bin_type=False))
    found = await world.challenges.find(request)
    assert found is not None
    assert (found.form, found.state) == (None, ChallengeState.PROCESSING)


@pytest.mark.req("P10")
async def test_a_reminder_is_kept_until_people_answer_or_it_is_over(world: StoreWorld) -> None:
    reminders = world.shard.keys.reminders
    worker, job, request = await world.challenged(form=FORM, remind_ms=5_000)
    assert await world.redis.exists(reminders) == 0
    await world.challenges.await_callbacks(worker, [(job.job_id, job.token, request.digest)])
    assert await world.score(reminders, job.job_id) == world.now_ms + 5_000
    (opened,) = (await world.challenges.of([job.job_id]))[job.job_id]
    assert (opened.remind_at_ms, opened.due_at_ms) == (world.now_ms + 5_000, world.now_ms + 60_000)
    assert await _answer(world, request, "approve") is CallbackAnswer.TAKEN
    assert await world.redis.exists(reminders) == 0
    _, other, _ = await world.awaiting(name="other", form=FORM, remind_ms=0)
    assert await world.score(reminders, other.job_id) == world.now_ms
    world.pass_ms(60_001)
    assert await _expire(world) == [other.job_id]
    assert await world.redis.exists(reminders) == 0
    # After an answer that came before the report, no reminder is needed.
    worker, early, request = await world.challenged(name="early", form=FORM, remind_ms=0)
    assert await _answer(world, request, "approve") is CallbackAnswer.TAKEN
    await world.challenges.await_callbacks(worker, [(early.job_id, early.token, request.digest)])
    assert await world.redis.exists(reminders) == 0


@pytest.mark.req("P10")
async def test_challenges_that_wait_for_people_are_read_with_their_jobs(world: StoreWorld) -> None:
    store = WaitingChallengeStore(world.shard, world.records, world.challenges)
    _, job, request = await world.awaiting(form=FORM, remind_ms=1_000)
    _, plain, _ = await world.awaiting()
    start_ms = world.now_ms
    world.pass_ms(1_001)
    assert await store.after(start_ms, world.now_ms) == ([job.job_id], world.now_ms - 1)
    assert await store.after(world.now_ms - 1, world.now_ms) == ([], world.now_ms - 1)
    (found,) = await store.read([job.job_id, plain.job_id, new_id()])
    assert (found.job.id, found.challenge.link) == (job.job_id, request.text)
    assert await store.read([plain.job_id]) == []
    await world.redis.delete(world.shard.keys.job(job.job_id))
    assert await store.read([job.job_id]) == []
    await world.redis.delete(*await world.key_names())


@pytest.mark.req("P6", "J8")
@pytest.mark.parametrize("how", ["canceled", "deleted", "begun anew"])
async def test_a_job_that_ends_after_the_claim_of_its_callback_is_not_offered(
    world: StoreWorld, how: str
) -> None:
    _, job, request = await world.awaiting()
    _, other, other_request = await world.awaiting()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    assert await world.call_back(other_request, b"other") is CallbackAnswer.TAKEN
    claimed = await world.claim(await world.worker())
    assert {one.job_id for one in claimed} == {job.job_id, other.job_id}
    await world.operator_actions.cancel(job.job_id)
    if how == "deleted":
        await world.operator_actions.delete(job.job_id)
    if how == "begun anew":
        await world.operator_actions.retry(await world.get(job.job_id))
        _, _, next_request = await world.awaiting_of(job.job_id)
        assert await world.call_back(next_request, b"of the next attempt") is CallbackAnswer.TAKEN
    (offered,) = await world.challenges.give_callbacks(claimed)
    assert (offered.job_id, offered.callbacks[0].body) == (other.job_id, b"other")


async def test_jobs_without_challenges_are_offered_without_a_question(world: StoreWorld) -> None:
    await world.enqueue_many(2)
    claimed = await world.claim(await world.worker())
    assert await world.challenges.give_callbacks(claimed) is claimed


async def test_a_job_whose_callback_cannot_be_read_any_more_begins_anew(world: StoreWorld) -> None:
    _, job, request = await world.awaiting()
    await world.call_back(request)
    worker = await world.worker()
    claimed = await world.claim(worker)
    await world.redis.set(world.shard.keys.challenges(job.job_id), b"\xc1")
    assert await world.challenges.give_callbacks(claimed) == []
    await world.leases.return_offers(world.epoch, worker, [(job.job_id, claimed[0].token)])
    assert await world.state(job.job_id) is JobState.READY
    (again,) = await world.claim(worker)
    assert (again.job_id, again.record.has_callback, again.record.attempt) == (job.job_id, False, 1)
    await world.redis.delete(world.shard.keys.challenges(job.job_id))


@pytest.mark.req("P2", "J8")
async def test_a_repeat_of_the_call_that_opened_a_challenge_changes_nothing_however_late_it_comes(
    world: StoreWorld,
) -> None:
    """Otherwise a network that delivers the call again, after its answer, would void the challenge."""
    worker, job = await world.running()
    request = new_request_id(job.job_id, job.token, "n" * 32)
    assert new_request_id(job.job_id, job.token, "n" * 32) == request

    async def repeat(is_new: bool) -> None:
        opened = await world.challenges.open(worker, job.token, request, wait_ms=60_000, expect=1, meta=None)
        assert opened == OpenedChallenge("work", world.now_ms, is_new)

    await repeat(is_new=True)
    await repeat(is_new=False)
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    await repeat(is_new=False)
    assert await _states(world, job.job_id) == [ChallengeState.PROCESSING]
    assert await world.challenges.await_callbacks(worker, [(job.job_id, job.token, request.digest)]) == [1]
    stale = await world.challenges.open(worker, job.token, request, wait_ms=60_000, expect=1, meta=None)
    assert stale == "stale"
    _, again = await _claim_callback(world)
    assert again.callbacks[0].body == b"done"


@pytest.mark.req("P2")
async def test_a_late_copy_of_a_call_does_not_make_the_second_challenge_void(world: StoreWorld) -> None:
    worker, job, first = await world.challenged()
    second = await world.open_challenge(worker, job)
    copy = await world.challenges.open(worker, job.token, first, wait_ms=60_000, expect=1, meta=None)
    assert copy == OpenedChallenge("work", world.now_ms, is_new=False)
    assert await world.call_back(first) is CallbackAnswer.OVER
    assert await world.call_back(second) is CallbackAnswer.TAKEN
