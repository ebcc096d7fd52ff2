"""A worker unreachable for masters: it asks for jobs. Whatever happens to an answer, jobs are not lost or run twice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker

pytestmark = [pytest.mark.req("M8"), real_time.WORKER]


@pytest.fixture
def worker(master: FakeMaster) -> Worker:
    return Worker(master.url, token=master.token, grace_s=0.2, max_jobs=4, pull=True)


@pytest.fixture
async def second() -> AsyncIterator[FakeMaster]:
    one = FakeMaster()
    try:
        yield one
        assert one.faults == []
    finally:
        one.close()


@pytest.fixture
async def running(master: FakeMaster, worker: Worker) -> AsyncIterator[Callable[[], Any]]:
    async with AsyncExitStack() as stack:

        async def start() -> list[str]:
            """Return the jobs whose handlers were started: `work`, and `wait`, which waits for seconds."""
            started: list[str] = []

            @worker.handler("work")
            async def work(argument: Any, ctx: Context) -> Any:
                started.append(ctx.job_id)
                return argument

            @worker.handler("wait")
            async def wait(argument: float, ctx: Context) -> None:
                started.append(ctx.job_id)
                await asyncio.sleep(argument)

            await stack.enter_async_context(worker.running())
            await wait_until(lambda: master.polls, what="it asks for jobs")
            return started

        yield start


def calls_for_jobs(master: FakeMaster) -> list[dict[str, Any]]:
    return [poll for poll in list(master.polls) if not poll["withdraw"]]


async def test_it_registers_without_an_address_and_serves_nothing(
    master: FakeMaster, worker: Worker, running: Callable[[], Any]
) -> None:
    await running()
    assert master.worker["url"] is None
    assert worker.address is None
    assert worker.worker_id == master.worker["worker_id"]
    (first, *_) = master.polls
    assert (first["max"], first["wait"], first["refused"]) == (4, 20.0, [])


async def test_given_jobs_run_and_are_reported(master: FakeMaster, running: Callable[[], Any]) -> None:
    started = await running()
    jobs = [master.dispatch("work", n) for n in range(3)]
    master.mail.append(jobs)
    for n, job in enumerate(jobs):
        result = await wait_until(lambda job=job: master.result(job["job_id"]))
        assert (result["type"], result["result"], result["token"]) == ("success", n, job["token"])
    assert started == [job["job_id"] for job in jobs]
    ids = [poll["poll_id"] for poll in calls_for_jobs(master)]
    assert len(set(ids)) == len(ids), "each answered call is followed by another one"


async def test_it_asks_for_as_much_as_it_has_room_for(master: FakeMaster, running: Callable[[], Any]) -> None:
    await running()
    master.mail.append([master.dispatch("wait", 0.3) for _ in range(3)])
    await wait_until(lambda: calls_for_jobs(master)[-1]["max"] == 1, what="one slot is left")
    master.mail.append([master.dispatch("wait", 60)])
    await wait_until(lambda: calls_for_jobs(master)[-1]["max"] == 3, what="three have ended")
    assert max(poll["max"] for poll in calls_for_jobs(master)) == 4


async def test_a_call_without_an_answer_is_repeated_as_it_was(
    master: FakeMaster, running: Callable[[], Any]
) -> None:
    started = await running()
    before = master.count("/claim")
    for _ in range(3):
        master.script("claim", 503, {"code": "store_unavailable"})
    await wait_until(lambda: master.count("/claim") > before + 3)
    asked = [body["poll_id"] for _, path, body in master.calls if path.endswith("/claim")]
    assert len(set(asked[before : before + 4])) == 1, "the same call until it is answered"
    job = master.dispatch("work", 1)
    master.mail.append([job])
    await wait_until(lambda: master.result(job["job_id"]))
    assert started == [job["job_id"]]


async def test_a_job_that_is_given_twice_runs_once(master: FakeMaster, running: Callable[[], Any]) -> None:
    started = await running()
    job = master.dispatch("wait", 0.2)
    master.mail.append([job])
    master.mail.append([job])
    await wait_until(lambda: master.result(job["job_id"]))
    master.mail.append([job])
    last = master.dispatch("work")
    master.mail.append([last])
    await wait_until(lambda: master.result(last["job_id"]))
    assert started == [job["job_id"], last["job_id"]]
    assert all(poll["refused"] == [] for poll in master.polls)


@pytest.mark.req("M3", "D4")
@pytest.mark.parametrize("fault", ["too late", "older leader", "unknown name"])
async def test_jobs_that_it_must_not_start_are_given_back(
    master: FakeMaster, running: Callable[[], Any], fault: str
) -> None:
    started = await running()
    job = master.dispatch("nobody" if fault == "unknown name" else "work")
    if fault == "too late":
        job["not_after_ms"] = master.now_ms() - 1_000
    if fault == "older leader":
        await wait_until(lambda: master.beats)
        master.epoch = 999
    master.mail.append([job])
    refused = [{"job_id": job["job_id"], "token": job["token"]}]
    await wait_until(lambda: any(poll["refused"] == refused for poll in list(master.polls)))
    await wait_until(lambda: master.polls[-1]["refused"] == [], what="it is said once")
    assert started == []


async def test_a_master_that_does_not_answer_is_left_for_the_next(
    master: FakeMaster, second: FakeMaster, worker: Worker, running: Callable[[], Any]
) -> None:
    worker.master = [master.url, second.url]
    started = await running()
    second.workers = master.workers
    job = master.dispatch("work")
    asked = calls_for_jobs(master)[-1]["poll_id"]
    second.mail.append([job])
    master.stop()
    await wait_until(lambda: second.result(job["job_id"]), timeout_s=20)
    master.start()
    assert started == [job["job_id"]]
    assert calls_for_jobs(second)[0]["poll_id"] in {asked, calls_for_jobs(master)[-1]["poll_id"]}


async def test_a_master_that_answers_no_heartbeats_is_not_waited_for(
    master: FakeMaster, second: FakeMaster, worker: Worker, running: Callable[[], Any]
) -> None:
    """The first master stands still, so a call for jobs would hang for half a minute."""
    worker.master = [master.url, second.url]
    master.poll_s = 20
    await running()
    second.workers = master.workers
    master.answers_heartbeats = False
    job = master.dispatch("work")
    second.mail.append([job])
    await wait_until(lambda: master.result(job["job_id"]), timeout_s=10)
    assert calls_for_jobs(second)[0]["poll_id"] == calls_for_jobs(master)[-1]["poll_id"]
    master.answers_heartbeats = True


@pytest.mark.req("D14")
async def test_it_asks_no_more_while_it_drains(
    master: FakeMaster, worker: Worker, running: Callable[[], Any]
) -> None:
    master.poll_s = 20
    await running()
    asked = calls_for_jobs(master)
    master.drain = True
    await wait_until(lambda: master.polls[-1]["withdraw"], what="its call is taken back")
    assert master.polls[-1]["poll_id"] == asked[-1]["poll_id"]
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 20)
    assert calls_for_jobs(master) == asked
    master.drain = False
    await wait_until(lambda: not master.polls[-1]["withdraw"], what="it asks again")


async def test_its_end_takes_the_call_back(
    master: FakeMaster, worker: Worker, running: Callable[[], Any]
) -> None:
    master.poll_s = 20
    started = await running()
    asked = calls_for_jobs(master)
    await worker.stop()
    assert [(poll["poll_id"], poll["withdraw"]) for poll in master.polls[-1:]] == [
        (asked[-1]["poll_id"], True)
    ]
    assert master.workers == {}
    assert started == []


async def test_one_that_is_not_known_any_more_registers_anew(
    master: FakeMaster, worker: Worker, running: Callable[[], Any]
) -> None:
    await running()
    old = worker.worker_id
    master.workers.clear()
    await wait_until(lambda: worker.worker_id not in (None, old))
    job = master.dispatch("work")
    master.mail.append([job])
    await wait_until(lambda: master.result(job["job_id"]))


async def test_garbage_instead_of_jobs_does_not_end_the_asking(
    master: FakeMaster, running: Callable[[], Any]
) -> None:
    await running()
    master.script("claim", 200, {"epoch": master.epoch, "jobs": [{"job_id": 1}], "drain": False})
    master.script("claim", 200, {})
    master.script("claim", 400, {"code": "odd"})
    job = master.dispatch("work")
    master.mail.append([job])
    await wait_until(lambda: master.result(job["job_id"]))
