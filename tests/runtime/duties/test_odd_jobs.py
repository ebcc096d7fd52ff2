"""A job that its worker cannot read, or answers with nonsense, delays no other job."""

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Cause, JobState, RetryPolicy
from jqmaster.store.link.wake import JobsReady
from tests.runtime.conftest import Dispatching
from tests.support import fake_worker as fake
from tests.support import real_time
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS

UNREADABLE = msgpack.packb({"code": "unparsable", "detail": "code must be 0~127"})


def only_for(odd: set[str], behaviour: fake.Behaviour) -> fake.Behaviour:
    """Act this way when one of these jobs is in the push, and accept any other push."""

    async def act(exchange: fake.Exchange) -> None:
        assert exchange.push
        is_odd = odd.intersection(exchange.push.job_ids)
        await (behaviour if is_odd else fake.accept)(exchange)

    return act


def answers(value: object) -> fake.Behaviour:
    return fake.status(200, msgpack.packb(value))


async def cut_short(exchange: fake.Exchange) -> None:
    exchange.writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n\x82\xa8accep")
    await exchange.writer.drain()
    exchange.writer.close()


@pytest.mark.req("M3")
@pytest.mark.parametrize("code", [400, 413, 422])
async def test_one_that_cannot_be_read_fails_and_the_others_of_its_push_get_through(
    dispatching: Dispatching, code: int
) -> None:
    dispatching.be_patient()
    world = dispatching.world
    odd: set[str] = set()
    worker = await dispatching.worker(
        default=only_for(odd, fake.status(code, UNREADABLE)), names=("work", "other"), max_jobs=100
    )
    ids = [await world.enqueue(name) for name in ["work", "other"] * 10]
    odd.add(bad := await world.enqueue(max_retry=0, keep_result=True, priority=-1))
    odd.add(worse := await world.enqueue(max_retry=0))
    await dispatching.start()
    await wait_until(lambda: len(worker.started) == len(ids))
    assert {job_id for job_id, _ in worker.started} == set(ids)
    for job_id in (bad, worse):

        async def has_failed(job_id: str = job_id) -> bool:
            return await world.state(job_id) == JobState.FAILED

        await wait_until(has_failed)
        job = await world.get(job_id)
        assert (job.cause, job.attempt, job.failures, job.losses) == (Cause.ERROR, 1, 1, 0)
        (attempt,) = await world.records.history(job_id)
        assert (attempt.outcome, attempt.worker_id) == ("failure", worker.id)
        assert attempt.message is not None
        assert f"status {code} (code must be 0~127)" in attempt.message
    result = msgpack.unpackb(await world.results.look_at_result(bad))
    assert (result["type"], result["should_retry"]) == ("failure", True)
    assert dispatching.member(worker).breaker.failures == 0
    # All pushes carry the tokens of one claim each: nothing was claimed twice.
    assert len({token for push in worker.pushes for token in push.tokens}) == len(ids) + 2


@pytest.mark.req("M3", "J6")
async def test_its_retries_end(dispatching: Dispatching) -> None:
    dispatching.be_patient()
    world = dispatching.world
    worker = await dispatching.worker(default=fake.status(400))
    job_id = await world.enqueue(max_retry=2, retry=RetryPolicy(base_s=0))
    dispatcher = await dispatching.start()

    async def is_over() -> bool:
        await world.due.promote(world.epoch, JobState.RETRYING)
        dispatcher.wake(JobsReady())
        return await world.state(job_id) == JobState.FAILED

    await wait_until(is_over)
    job = await world.get(job_id)
    assert (job.attempt, job.failures, len(worker.pushes)) == (3, 3, 3)
    assert dispatching.member(worker).breaker.failures == 0


NONSENSE = {
    "500": fake.status(500),
    "501": fake.status(501),
    "302": fake.status(302, Location="http://127.0.0.1:9/"),
    "308": fake.status(308, Location="http://127.0.0.1:9/"),
    "404": fake.status(404),
    "409": fake.status(409),
    "204": fake.status(204),
    "garbage": fake.status(200, b"\xc1\xc1"),
    "empty": fake.status(200),
    "a list": answers([]),
    "wrong types": answers({"accepted": 5, "rejected": []}),
    "wrong members": answers({"accepted": [], "rejected": [None]}),
    "unknown jobs": answers({"accepted": [new_id()], "rejected": [{"job_id": new_id(), "reason": "busy"}]}),
    "no reason": answers({"accepted": [], "rejected": [{"job_id": new_id()}]}),
    "too much": fake.huge(1 << 20),
    "cut short": cut_short,
    "reset": fake.reset_after_reading,
}


@pytest.mark.req("M3")
@pytest.mark.parametrize("behaviour", NONSENSE.values(), ids=NONSENSE)
async def test_jobs_of_the_same_and_other_names_go_on_beside_one_that_is_answered_with_nonsense(
    dispatching: Dispatching, behaviour: fake.Behaviour
) -> None:
    world = dispatching.world
    odd: set[str] = set()
    worker = await dispatching.worker(default=only_for(odd, behaviour), names=("work", "other"), max_jobs=100)
    # The odd job comes first, in one push with the others.
    odd.add(await world.enqueue(priority=-1))
    ids = [await world.enqueue(name) for name in ["work", "other"] * 4]
    await dispatching.start()
    await wait_until(lambda: set(ids) <= {job_id for job_id, _ in worker.started}, timeout_s=20)
    later = [await world.enqueue(name) for name in ["work", "other"]]
    await wait_until(lambda: set(later) <= {job_id for job_id, _ in worker.started}, timeout_s=20)
    for job_id in odd:
        job = await world.get(job_id)
        assert (job.failures, job.losses) == (0, 0)


@pytest.mark.parametrize("code", [302, 404])
async def test_one_that_opened_the_breaker_does_not_keep_it_open(dispatching: Dispatching, code: int) -> None:
    """It is alone at first, and always the first to be offered again."""
    dispatching.be_patient()
    world = dispatching.world
    odd: set[str] = set()
    worker = await dispatching.worker(default=only_for(odd, fake.status(code)), max_jobs=100)
    odd.add(bad := await world.enqueue(priority=-1))
    await dispatching.start()
    await wait_until(lambda: dispatching.fleet.breaker_states().get(worker.id) == "open")
    good = await world.enqueue()
    await wait_until(lambda: [job_id for job_id, _ in worker.started] == [good], timeout_s=20)
    # The worker starts the job before the dispatcher reads the answer.
    await wait_until(lambda: dispatching.member(worker).breaker.state(0.0) == "closed")
    job = await world.get(bad)
    assert (job.state, job.failures, job.losses) == (JobState.SCHEDULED, 0, 0)
    (entry,) = await world.records.history(bad)
    assert (entry.outcome, entry.message) == (
        "deferred", f"the worker did not take the job when it was pushed alone: status {code}",
    )  # fmt: skip
