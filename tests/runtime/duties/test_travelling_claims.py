"""Claims that travel in the round trip of the write that makes them possible."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jqmaster.domain.challenges.challenge import CallbackAnswer
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.runtime.duties import dispatcher as dispatcher_module
from jqmaster.runtime.duties import given_jobs
from jqmaster.runtime.duties.claim_offers import MAX_WITH_ANSWER
from jqmaster.service.workers.polls import Ask
from jqmaster.store.jobs.settlements import Settled, Successes
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.wake import WorkersChanged
from tests.runtime.conftest import Dispatching
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.fake_worker import Behaviour, FakeWorker, accept, reset_before_reading, status
from tests.support.unique import unique
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS

Trips = list[list[str]]


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Trips:
    """Record the scripts of each round trip that concerns jobs."""
    found: Trips = []
    replies = StoreClient._replies

    async def noted(self: StoreClient, calls: Sequence[ScriptCall], replicas: int | None) -> list[Any]:
        names = [call.script.name for call in calls]
        if {"enqueue", "claim", "settle_success", "take_callback"} & {*names}:
            found.append(names)
        return await replies(self, calls, replicas)

    monkeypatch.setattr(StoreClient, "_replies", noted)
    return found


async def never() -> None:
    await asyncio.Event().wait()


async def at_rest(dispatching: Dispatching, worker: FakeWorker) -> None:
    """Wait until the worker is known and nothing is left to claim."""
    await wait_until(lambda: dispatching.fleet.get(worker.id) is not None)
    count = len(worker.started)
    await dispatching.world.enqueue()
    await wait_until(lambda: len(worker.started) > count)
    await wait_until(lambda: not dispatching.member(worker).pushes)


@pytest.mark.req("S6")
async def test_a_job_is_claimed_in_the_round_trip_of_its_push(dispatching: Dispatching, trips: Trips) -> None:
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    trips.clear()
    job_id = await dispatching.world.enqueue()
    await wait_until(lambda: worker.started[-1][0] == job_id)
    assert trips[0] == ["enqueue", "claim"]
    assert trips[1:] in ([], [["claim"]]), "no more than what the clock asks for"


@pytest.mark.req("S6")
async def test_a_slot_that_a_result_frees_is_claimed_in_its_round_trip(
    dispatching: Dispatching, trips: Trips
) -> None:
    worker = await dispatching.worker(max_jobs=1)
    await dispatching.start()
    await at_rest(dispatching, worker)
    job_id = await dispatching.world.enqueue()
    trips.clear()
    await worker.succeed(dispatching.world.settlements, worker.started[-1])
    assert trips == [["settle_success", "claim"]]
    await wait_until(lambda: worker.started[-1][0] == job_id)


@pytest.mark.req("D11", "S6")
async def test_slots_that_results_of_many_workers_free_are_claimed_in_one_call_of_their_round_trip(
    dispatching: Dispatching, trips: Trips
) -> None:
    world = dispatching.world
    workers = [await dispatching.worker(max_jobs=2) for _ in range(6)]
    await world.enqueue_many(12)
    await dispatching.start()
    await wait_until(lambda: all(len(worker.started) == 2 for worker in workers))
    await wait_until(lambda: not any(dispatching.member(worker).pushes for worker in workers))
    await world.enqueue_many(12)
    trips.clear()
    reports = [Successes(w.id, [(*started, b"") for started in w.started], {}) for w in workers]
    assert await world.settlements.settle_successes(reports) == [Settled([True, True])] * 6
    await wait_until(lambda: sum(len(worker.started) for worker in workers) > 12)
    # The leader has yet to learn that jobs are left behind before it claims for all workers at once.
    assert trips[0] == ["settle_success", "claim"]
    await wait_until(lambda: all(len(worker.started) == 4 for worker in workers))


@pytest.mark.req("S6", "M2")
@pytest.mark.parametrize("write", ["settle_success", "enqueue"])
async def test_a_claim_that_overtook_its_write_because_a_script_was_missing_is_made_again(
    dispatching: Dispatching, trips: Trips, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """After a restart of the store, the first claim may find its script while the write before it does not."""
    monkeypatch.setattr(dispatcher_module, "POLL_S", 3600.0)
    world = dispatching.world
    worker = await dispatching.worker(max_jobs=1)
    await dispatching.start()
    await at_rest(dispatching, worker)
    if write == "settle_success":
        job_id = await world.enqueue()
    else:
        await worker.succeed(world.settlements, worker.started[-1])
        await wait_until(lambda: dispatching.fleet.is_within({("work",)}) or trips[-1] == ["claim"])
    redis = admin_of(world.shard.client)
    await redis.script_flush()
    await redis.script_load(load("claim").text(is_guarded=False, is_sharded=False))
    trips.clear()
    if write == "settle_success":
        await worker.succeed(world.settlements, worker.started[-1])
    else:
        job_id = await world.enqueue()
    assert trips[0] == [write, "claim"]
    await wait_until(lambda: worker.started[-1][0] == job_id, what="the job that waited is claimed")


async def test_slots_that_bring_no_claim_are_counted_once(dispatching: Dispatching, trips: Trips) -> None:
    """Their message counts them again."""
    world = dispatching.world
    workers = [await dispatching.worker(max_jobs=2) for _ in range(2)]
    await dispatching.start()
    await world.enqueue_many(4)
    await wait_until(lambda: all(len(worker.started) == 2 for worker in workers))
    for worker in workers:
        await wait_until(lambda worker=worker: not dispatching.member(worker).pushes)
        dispatching.member(worker).paused_until_s = math.inf
    await world.enqueue()
    trips.clear()
    reports = [Successes(w.id, [(*w.started[0], b"")], {}) for w in workers]
    await world.settlements.settle_successes(reports)
    assert trips == [["settle_success"]]
    assert [dispatching.member(worker).busy for worker in workers] == [1, 1]


async def test_a_delayed_job_is_claimed_in_the_round_trip_that_makes_it_ready(
    dispatching: Dispatching, trips: Trips
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    job_id = await world.enqueue(delay_ms=50)
    world.pass_ms(50)
    trips.clear()
    due = await dispatching.world.due.come_due(world.epoch, expects_some=True)
    assert due
    assert (due.moved, due.is_told) == (1, True)
    assert trips == [["expire", "promote", "promote", "claim"]]
    await wait_until(lambda: worker.started[-1][0] == job_id)


@pytest.mark.req("P2", "S6")
@pytest.mark.parametrize("is_pulled", [False, True])
async def test_a_callback_is_claimed_in_the_round_trip_that_stores_it(
    dispatching: Dispatching, trips: Trips, *, is_pulled: bool
) -> None:
    world = dispatching.world
    opener, job, request = await world.awaiting()
    await world.workers.forget(opener)
    await dispatching.start()
    if is_pulled:
        worker_id = await world.worker(url=None)
        poll = asyncio.create_task(dispatching.held_polls.poll(worker_id, Ask(10, 30, "p"), never))

        def asks_and_has_its_answer() -> bool:
            member = dispatching.fleet.get(worker_id)
            return member is not None and member.polls_until_s > 0 and not member.claims

        await wait_until(asks_and_has_its_answer)
    else:
        worker = await dispatching.worker()
        await at_rest(dispatching, worker)
    trips.clear()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    assert trips[0] == ["take_callback", "claim"]
    if is_pulled:
        (offer,) = (await poll).offers
        assert (offer.job.job_id, offer.job.callbacks[0].body) == (job.job_id, b"done")
    else:
        await wait_until(lambda: worker.started[-1][0] == job.job_id)
        assert worker.pushes[-1].jobs[0]["callback"]["body"] == b"done"
    assert trips[1:] in ([], [["claim"]]), "no more than what the clock asks for"


async def test_workers_without_room_and_those_of_another_name_cost_no_claim(
    dispatching: Dispatching, trips: Trips
) -> None:
    worker = await dispatching.worker(max_jobs=1)
    await dispatching.start()
    await at_rest(dispatching, worker)
    trips.clear()
    await dispatching.world.enqueue(name="other")
    await dispatching.world.enqueue()
    assert trips[:2] == [["enqueue"], ["enqueue"]]


@pytest.mark.parametrize("loses_lead", [False, True])
@pytest.mark.req("D2")
async def test_a_leader_that_is_none_any_more_accepts_the_job_and_gives_it_to_nobody(
    dispatching: Dispatching, trips: Trips, *, loses_lead: bool
) -> None:
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    trips.clear()
    if loses_lead:
        # The leader does not know yet that it lost the lead.
        await dispatching.world.reelect()
    else:
        dispatching.is_trusted = False
    job_id = await dispatching.world.enqueue()
    assert trips[0] == (["enqueue", "claim"] if loses_lead else ["enqueue"])
    if loses_lead:
        assert dispatching.stale
        assert await dispatching.world.state(job_id) == JobState.READY
    assert len(worker.started) == 1


@pytest.mark.parametrize("kind", ["lost", "refused"])
async def test_the_trouble_of_a_push_ends_its_claims_too_and_the_worker_goes_on(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    replies, faults = StoreClient._replies, iter([True])

    async def troubled(self: StoreClient, calls: Sequence[ScriptCall], replicas: int | None) -> list[Any]:
        if calls[0].script.name == "enqueue" and next(faults, False):
            if kind == "refused":
                raise StoreUnavailableError("the store cannot be reached", retry_after_s=1)
            await replies(self, calls, replicas)
            raise OutcomeUnknownError("the store did not answer", retry_after_s=1)
        return await replies(self, calls, replicas)

    monkeypatch.setattr(StoreClient, "_replies", troubled)
    with pytest.raises((StoreUnavailableError, OutcomeUnknownError)):
        await dispatching.world.enqueue()
    assert not dispatching.member(worker).claims
    job_id = await dispatching.world.enqueue()
    await wait_until(lambda: worker.started[-1][0] == job_id)


async def test_a_claim_that_the_store_cannot_do_takes_nothing_from_the_push_with_it(
    dispatching: Dispatching, trips: Trips, caplog: pytest.LogCaptureFixture
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    key = world.shard.keys.claims(worker.id)
    aside = f"{key}-aside"
    await world.redis.rename(key, aside)
    await world.redis.set(key, "damaged")
    trips.clear()
    job_id = await world.enqueue()
    assert trips[0] == ["enqueue", "claim"]
    assert await world.state(job_id) == JobState.READY
    assert "has the wrong type" in caplog.text
    await world.redis.rename(aside, key)


@pytest.mark.parametrize("nonsense", [[b"nonsense"], [b"ok", 1], 7])
async def test_an_answer_without_sense_to_a_claim_ends_it_and_the_worker_goes_on(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch, nonsense: object
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    await dispatching.start()
    await at_rest(dispatching, worker)
    replies, faults = StoreClient._replies, iter([True])

    async def garbled(self: StoreClient, calls: Sequence[ScriptCall], replicas: int | None) -> list[Any]:
        answers = await replies(self, calls, replicas)
        if calls[0].script.name == "enqueue" and next(faults, False):
            answers[-1] = nonsense
        return answers

    monkeypatch.setattr(StoreClient, "_replies", garbled)
    taken = await world.enqueue()
    assert not dispatching.member(worker).claims
    job_id = await world.enqueue()
    await wait_until(lambda: worker.started[-1][0] == job_id)
    assert await world.state(taken) == JobState.RUNNING, "until its lease ends"


async def test_stop_waits_for_claims_under_way_and_gives_back_what_they_took(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    dispatcher = await dispatching.start()
    await at_rest(dispatching, worker)
    done, goes_on = asyncio.Event(), asyncio.Event()
    replies: Callable[..., Any] = StoreClient._replies

    async def slow(self: StoreClient, calls: Sequence[ScriptCall], replicas: int | None) -> list[Any]:
        answers: list[Any] = await replies(self, calls, replicas)
        if calls[0].script.name == "enqueue":
            done.set()
            await goes_on.wait()
        return answers

    monkeypatch.setattr(StoreClient, "_replies", slow)
    pushing = asyncio.create_task(world.enqueue())
    await done.wait()
    dispatching.is_trusted = False
    stopping = asyncio.create_task(dispatcher.stop())
    await asyncio.sleep(0)
    goes_on.set()
    job_id = await pushing
    await stopping
    assert (await world.state(job_id), len(worker.started)) == (JobState.READY, 1)


# --- jobs that go with the answer to a report


async def reported(dispatching: Dispatching, worker: FakeWorker, newest_fence: int) -> Settled:
    """Report the worker's last job, and return the answer."""
    report = Successes(worker.id, [(*worker.started[-1], b"")], {}, newest_fence)
    (settled,) = await dispatching.world.settlements.settle_successes([report])
    assert isinstance(settled, Settled)
    assert settled.verdicts == [True]
    return settled


async def busy_worker(dispatching: Dispatching, **job: Any) -> tuple[FakeWorker, str]:
    """Return a worker whose only slot is taken, and the ID of the job that waits for it."""
    worker = await dispatching.worker(max_jobs=1)
    await dispatching.start()
    await at_rest(dispatching, worker)
    await script_is_loaded(dispatching, worker)
    return worker, await dispatching.world.enqueue(**job)


async def script_is_loaded(dispatching: Dispatching, worker: FakeWorker) -> None:
    """Report something stale. A script that the store does not have yet runs behind the claim that travels with it."""
    stale = [(worker.started[-1][0], "0" * 32, b"")]
    assert await dispatching.world.settlements.settle_success(worker.id, stale) == [False]


@pytest.mark.req("D19")
async def test_the_next_job_goes_with_the_answer_to_a_report_that_takes_it(
    dispatching: Dispatching, trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_jobs, "HEARD_WITHIN_S", math.inf)
    worker, job_id = await busy_worker(dispatching)
    trips.clear()
    pushes = len(worker.pushes)
    given = (await reported(dispatching, worker, newest_fence=0)).given
    assert given is not None
    (offer,) = given.offers
    assert offer.job.job_id == job_id
    assert (given.epoch, offer.not_after_ms > given.now_ms) == (
        int(dispatching.world.epoch.split(":")[0]),
        True,
    )
    assert trips == [["settle_success", "claim"]]
    # The worker has the job: its next report says so, and nothing is pushed.
    worker.started.append((offer.job.job_id, offer.job.token))
    assert (await reported(dispatching, worker, newest_fence=offer.job.fence)).given is None
    await dispatching.stop()
    assert len(worker.pushes) == pushes


@pytest.mark.req("D5", "M6")
async def test_jobs_whose_answer_was_lost_are_pushed_under_the_same_token(dispatching: Dispatching) -> None:
    worker, job_id = await busy_worker(dispatching)
    reported_job = worker.started[-1]
    given = (await reported(dispatching, worker, newest_fence=0)).given
    assert given is not None
    # The worker repeats its report, because it had no answer.
    repeat = Successes(worker.id, [(*reported_job, b"")], {}, 0)
    assert await dispatching.world.settlements.settle_successes([repeat]) == [Settled([True])]
    await wait_until(lambda: worker.started[-1][0] == job_id)
    assert worker.started[-1] == (job_id, given.offers[0].job.token)


async def test_a_report_of_a_failure_shows_a_lost_answer_too(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together with the first report, which the worker repeats."""
    monkeypatch.setattr(given_jobs, "HEARD_WITHIN_S", math.inf)
    worker, job_id = await busy_worker(dispatching)
    succeeded = worker.started[-1]
    given = (await reported(dispatching, worker, newest_fence=0)).given
    assert given is not None
    failed = Outcome(worker.started[0][0], "0" * 32, "failure")
    answer = await dispatching.reports.take(worker.id, [Outcome(*succeeded, "success"), failed], 0)
    assert (answer.accepted, answer.given) == ([succeeded[0]], None)
    await wait_until(lambda: worker.started[-1] == (job_id, given.offers[0].job.token))


@pytest.mark.req("D5", "M6")
async def test_jobs_whose_answer_was_lost_are_pushed_although_no_report_comes_here(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker repeats its report at another master, or drains."""
    monkeypatch.setattr(given_jobs, "HEARD_WITHIN_S", 0.0)
    worker, job_id = await busy_worker(dispatching)
    given = (await reported(dispatching, worker, newest_fence=0)).given
    assert given is not None
    pushes = len(worker.pushes)
    dispatching.world.leader.wake(WorkersChanged())
    await wait_until(lambda: len(worker.pushes) > pushes)
    await wait_until(lambda: worker.started[-1] == (job_id, given.offers[0].job.token))


@pytest.mark.req("D5", "M6")
@pytest.mark.parametrize(
    "answer", [status(503), status(404), reset_before_reading], ids=["503", "404", "cut"]
)
async def test_jobs_that_did_arrive_go_to_nobody_else_if_their_push_fails(
    dispatching: Dispatching, answer: Behaviour
) -> None:
    """A proxy repeated the report, and the worker runs the job of the first answer."""
    worker = await dispatching.worker(accept, max_jobs=1, default=answer)
    dispatcher = await dispatching.start()
    await at_rest(dispatching, worker)
    await script_is_loaded(dispatching, worker)
    job_id = await dispatching.world.enqueue()
    reported_job = worker.started[-1]
    given = (await reported(dispatching, worker, newest_fence=0)).given
    assert given is not None
    other = await dispatching.worker()
    pushes = len(worker.pushes)
    repeat = Successes(worker.id, [(*reported_job, b"")], {}, 0)
    assert await dispatching.world.settlements.settle_successes([repeat]) == [Settled([True])]
    await wait_until(lambda: dispatching.member(worker).pushes or len(worker.pushes) > pushes)
    await wait_until(lambda: not dispatching.member(worker).pushes)
    dispatcher.wake(WorkersChanged())
    await wait_until(lambda: dispatching.fleet.get(other.id) is not None)
    assert await dispatching.world.state(job_id) is JobState.RUNNING
    assert not other.started
    # The worker has run it.
    report = Successes(worker.id, [(job_id, given.offers[0].job.token, b"")], {})
    assert await dispatching.world.settlements.settle_successes([report]) == [Settled([True])]


@pytest.mark.req("D11")
async def test_a_worker_with_a_damaged_key_keeps_no_other_from_jobs_of_its_names(
    dispatching: Dispatching, caplog: pytest.LogCaptureFixture
) -> None:
    world = dispatching.world
    broken, good = await dispatching.worker(max_jobs=1), await dispatching.worker(max_jobs=1)
    dispatcher = await dispatching.start()
    await wait_until(lambda: dispatching.fleet.get(broken.id) and dispatching.fleet.get(good.id))
    key = world.shard.keys.claims(broken.id)
    await world.redis.set(key, "damaged")
    await world.enqueue_many(30)
    rounds = dispatcher.last_round_s
    for n in range(30):
        await wait_until(lambda n=n: len(good.started) == n + 1)
        await good.succeed(world.settlements, good.started[-1])
    assert dispatcher.last_round_s - rounds < 10, "not one job for each look at the fleet"
    assert f"worker {broken.id}: one of its keys has the wrong type" in caplog.text
    await world.redis.delete(key)


async def test_an_answer_that_becomes_an_error_takes_no_jobs_along(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, job_id = await busy_worker(dispatching)
    read = StoreClient._read

    def refused(self: StoreClient, call: ScriptCall, reply: Any) -> Any:
        if call.script.name == "settle_success":
            raise StoreUnavailableError("the store is full")
        return read(self, call, reply)

    monkeypatch.setattr(StoreClient, "_read", refused)
    with pytest.raises(StoreUnavailableError):
        await reported(dispatching, worker, newest_fence=0)
    await wait_until(lambda: worker.started[-1][0] == job_id)


@pytest.mark.parametrize("why", ["large", "unique", "breaker", "takes none"])
async def test_jobs_that_need_an_answer_of_the_worker_are_pushed(dispatching: Dispatching, why: str) -> None:
    fields: dict[str, dict[str, Any]] = {
        "large": {"argument": "x" * 20_000},
        "unique": {"unique": unique("k")},
    }
    worker, job_id = await busy_worker(dispatching, **fields.get(why, {}))
    if why == "breaker":
        dispatching.member(worker).breaker.failures = 1
    report = Successes(worker.id, [(*worker.started[-1], b"")], {}, None if why == "takes none" else 0)
    assert await dispatching.world.settlements.settle_successes([report]) == [Settled([True])]
    await wait_until(lambda: worker.started[-1][0] == job_id)


async def test_more_jobs_than_an_answer_carries_are_pushed(dispatching: Dispatching) -> None:
    world = dispatching.world
    worker = await dispatching.worker(max_jobs=MAX_WITH_ANSWER + 1)
    await dispatching.start()
    await world.enqueue_many(MAX_WITH_ANSWER + 1)
    await wait_until(lambda: len(worker.started) == MAX_WITH_ANSWER + 1)
    await wait_until(lambda: not dispatching.member(worker).pushes)
    await world.enqueue_many(MAX_WITH_ANSWER + 1)
    report = Successes(worker.id, [(*started, b"") for started in worker.started], {}, 0)
    (settled,) = await world.settlements.settle_successes([report])
    assert isinstance(settled, Settled)
    assert settled.given is None
    await wait_until(lambda: len(worker.started) == 2 * (MAX_WITH_ANSWER + 1))
