"""The dispatcher with workers that pull, beside those that it pushes to."""

import asyncio

import pytest

from jqmaster.service.workers.polls import Ask
from jqmaster.store.workers.polls import PollReply
from tests.runtime.conftest import Dispatching
from tests.support import real_time
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("M8"), real_time.LOOPS]


async def never() -> None:
    await asyncio.Event().wait()


async def hanging(dispatching: Dispatching, worker_id: str, max_jobs: int = 10) -> "asyncio.Task[PollReply]":
    poll = asyncio.create_task(dispatching.held_polls.poll(worker_id, Ask(max_jobs, 30, "p"), never))

    async def is_open() -> bool:
        worker = await dispatching.world.workers.get(worker_id)
        return worker is not None and worker.polls_until_ms > 0

    await wait_until(is_open)
    return poll


async def puller(dispatching: Dispatching, *names: str, max_jobs: int = 10) -> str:
    return await dispatching.world.worker(*names, url=None, max_jobs=max_jobs)


async def test_a_poll_is_answered_as_soon_as_there_is_a_job(dispatching: Dispatching) -> None:
    await dispatching.start()
    worker_id = await puller(dispatching)
    poll = await hanging(dispatching, worker_id)
    job_id = await dispatching.world.enqueue()
    reply = await poll
    assert [offer.job.job_id for offer in reply.offers] == [job_id]
    assert reply.epoch == int(dispatching.world.epoch.split(":")[0])


async def test_a_poll_that_was_there_before_the_leader_is_found(dispatching: Dispatching) -> None:
    worker_id = await puller(dispatching)
    poll = await hanging(dispatching, worker_id)
    job_ids = await dispatching.world.enqueue_many(4)
    await dispatching.start()
    assert [offer.job.job_id for offer in (await poll).offers] == job_ids


@pytest.mark.req("D11")
async def test_the_least_loaded_is_served_whether_it_pulls_or_not(dispatching: Dispatching) -> None:
    pushed = await dispatching.worker(max_jobs=8)
    worker_id = await puller(dispatching, max_jobs=8)
    poll = await hanging(dispatching, worker_id)
    await dispatching.world.enqueue_many(8)
    await dispatching.start()
    reply = await poll
    assert 1 <= len(reply.offers) < 8
    await wait_until(lambda: len(pushed.started) + len(reply.offers) == 8)


async def test_a_worker_that_does_not_poll_is_passed_by(dispatching: Dispatching) -> None:
    await dispatching.start()
    idle = await puller(dispatching)
    pushed = await dispatching.worker()
    await dispatching.world.enqueue_many(3)
    await wait_until(lambda: len(pushed.started) == 3)
    assert await dispatching.world.workers.claims(idle) == []


async def test_names_decide_who_is_asked(dispatching: Dispatching) -> None:
    await dispatching.start()
    poll = await hanging(dispatching, await puller(dispatching, "a"))
    other = await hanging(dispatching, await puller(dispatching, "b"))
    job_id = await dispatching.world.enqueue("b")
    assert [offer.job.job_id for offer in (await other).offers] == [job_id]
    assert not poll.done()
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)


@pytest.mark.req("D4")
async def test_a_leader_that_is_not_trusted_lets_the_store_speak(dispatching: Dispatching) -> None:
    """The leader stood still between claim and answer; its claim may belong to somebody else by now."""
    await dispatching.start()
    dispatching.is_trusted = False
    worker_id = await puller(dispatching)
    poll = await hanging(dispatching, worker_id)
    told: list[PollReply] = []
    dispatching.held_polls.answer = lambda worker_id, reply: told.append(reply)  # type: ignore[method-assign]
    job_id = await dispatching.world.enqueue()
    assert [offer.job.job_id for offer in (await poll).offers] == [job_id]
    assert told == []


async def test_a_poll_whose_end_the_leader_did_not_hear_of_costs_one_claim(dispatching: Dispatching) -> None:
    dispatcher = await dispatching.start()
    worker_id = await puller(dispatching)
    poll = await hanging(dispatching, worker_id)
    await wait_until(lambda: (m := dispatching.fleet.get(worker_id)) and m.polls_until_s > 0)
    assert isinstance(await dispatching.world.polls.take(worker_id, "p", ends=True), PollReply)
    job_id = await dispatching.world.enqueue()
    await wait_until(lambda: (m := dispatching.fleet.get(worker_id)) and m.polls_until_s == 0)
    assert dispatcher.claimed_at_s > 0
    assert await dispatching.world.workers.claims(worker_id) == []
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    reply = await dispatching.held_polls.poll(worker_id, Ask(10, 30, "q"), never)
    assert [offer.job.job_id for offer in reply.offers] == [job_id]
