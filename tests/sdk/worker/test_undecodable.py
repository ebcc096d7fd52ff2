"""An undecodable job fails without affecting others, and a meaningless answer counts as no answer."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgpack
import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Pusher, Worker, WorkerSdkError
from worker_sdk.wire import DecodeError, Undecodable, decode_jobs

pytestmark = real_time.WORKER

# The value that the fake master packs, and the bytes sent in its place.
WRITTEN = msgpack.packb(b"abc")
UNREADABLE = b"\xc7\x02\x80ab"


@pytest.fixture(params=[False, True], ids=["push", "pull"])
def worker(request: pytest.FixtureRequest, master: FakeMaster) -> Worker:
    return Worker(master.url, token=master.token, grace_s=0.2, max_jobs=4, pull=request.param)


@pytest.fixture
async def give(master: FakeMaster, worker: Worker) -> AsyncIterator[Callable[..., Any]]:
    """Return a function that starts the worker with handlers `work` and `sure` (asks before it starts), then gives it
    jobs."""
    async with AsyncExitStack() as stack:

        @worker.handler("work")
        async def work(argument: Any) -> Any:
            return argument

        @worker.handler("sure", confirm_start=True)
        async def sure(argument: Any) -> Any:
            return argument

        await stack.enter_async_context(worker.running())
        await wait_until(lambda: worker.worker_id)

        async def give(*jobs: dict[str, Any]) -> None:
            if worker.pull:
                master.mail.append(list(jobs))
            else:
                assert (await master.push(*jobs))["rejected"] == []

        yield give


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.exc_info]


@pytest.mark.req("J6")
async def test_it_fails_for_good_and_the_others_run(
    master: FakeMaster, give: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    master.rewrites = {WRITTEN: UNREADABLE}
    before, bad, after = (
        master.dispatch("work", 1),
        master.dispatch("work", b"abc"),
        master.dispatch("work", 2),
    )
    sure = master.dispatch("sure", {"a": [b"abc"]})
    await give(before, bad, sure, after)
    for job, value in ((before, 1), (after, 2)):
        result = await wait_until(lambda job=job: master.result(job["job_id"]))
        assert (result["type"], result["result"]) == ("success", value)
    for job in (bad, sure):
        result = await wait_until(lambda job=job: master.result(job["job_id"]))
        assert (result["type"], result["reason"], result["should_retry"]) == ("failure", "undecodable", False)
        assert result["token"] == job["token"]
        assert result["message"] == "the job cannot be decoded: argument: code must be 0~127"
    assert master.count("/start") == 0, "what cannot run is not asked for"
    assert tracebacks(caplog) == []


async def test_its_slot_is_free_again(master: FakeMaster, give: Callable[..., Any]) -> None:
    master.rewrites = {WRITTEN: UNREADABLE}
    for _ in range(2):
        bad = [master.dispatch("work", b"abc") for _ in range(4)]
        await give(*bad)
        for job in bad:
            await wait_until(lambda job=job: master.result(job["job_id"]))
    good = [master.dispatch("work", n) for n in range(4)]
    await give(*good)
    for job in good:
        assert (await wait_until(lambda job=job: master.result(job["job_id"])))["type"] == "success"


async def test_a_master_that_does_not_know_the_reason_is_told_in_words(
    master: FakeMaster, give: Callable[..., Any]
) -> None:
    """The master is older than the SDK."""

    def as_before(body: dict[str, Any]) -> Any:
        if any(item.get("reason") not in (None, "other", "timeout") for item in body["results"]):
            return 422, {"code": "invalid", "detail": "the request is not valid", "errors": []}, {}
        return None

    master.hooks["results"] = as_before
    master.rewrites = {WRITTEN: UNREADABLE}
    bad, good = master.dispatch("work", b"abc"), master.dispatch("work", 1)
    await give(bad, good)
    assert (await wait_until(lambda: master.result(good["job_id"])))["type"] == "success"
    result = await wait_until(lambda: master.result(bad["job_id"]))
    assert (result["reason"], result["should_retry"]) == ("other", False)
    assert result["message"].startswith("the job cannot be decoded: argument: code must be 0~127 (")


async def test_one_of_a_name_that_is_not_handled_is_left_to_others(
    master: FakeMaster, worker: Worker, give: Callable[..., Any]
) -> None:
    master.rewrites = {WRITTEN: UNREADABLE}
    job = master.dispatch("nobody", b"abc")
    if worker.pull:
        await give(job)
        await wait_until(lambda: any(poll["refused"] for poll in list(master.polls)))
    else:
        assert (await master.push(job))["rejected"][0]["reason"] == "unknown_name"
    assert master.result(job["job_id"]) is None


@pytest.mark.parametrize(
    "broken", [UNREADABLE, b"\xa4abc\xff", b"\xd7\xff" + b"\xff" * 8, b"\x81\xa1a" + UNREADABLE]
)
def test_the_job_whose_value_is_broken_is_told_apart(broken: bytes) -> None:
    jobs = [
        {"job_id": "a", "argument": 1},
        {"job_id": "b", "argument": b"abc"},
        {"job_id": "c", "argument": 2},
    ]
    found = decode_jobs(msgpack.packb({"epoch": 1, "jobs": jobs}).replace(WRITTEN, broken))
    assert (found["epoch"], found["jobs"][0], found["jobs"][2]) == (1, jobs[0], jobs[2])
    assert found["jobs"][1]["job_id"] == "b"
    assert isinstance(found["jobs"][1]["argument"], Undecodable)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x81\xa4jobs\x05\xc1", b"\x81\xa4jobs\xdd\xff\xff\xff\xff", b"\x81\xa4jobs\x91\xc1",
    b"\x81\xa5epoch\xd4\x80\x00", b"\x80\xc0", b"\x91\xd4\x80\x00"]
)  # fmt: skip
def test_a_message_with_another_fault_is_no_message(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_jobs(data)


# --- answers that make no sense


NONSENSE: list[Any] = [
    {}, [], None, 5, b"abc", {"broken": b"abc"}, {"jobs": 5, "epoch": 1}, {"jobs": [], "epoch": "x"},
    {"worker_id": 5, "store_time_ms": "soon", "lost": 1, "cancel": [5], "accepted": [[]], "stale": 7, "confirmed": {}},
]  # fmt: skip


@pytest.mark.parametrize("answer", NONSENSE, ids=repr)
async def test_a_call_for_jobs_that_is_answered_with_nonsense_is_repeated(
    master: FakeMaster, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(master.url, token=master.token, grace_s=0.2, pull=True)
    worker.handler("work")(lambda argument: argument)
    master.rewrites = {WRITTEN: UNREADABLE}
    for _ in range(2):
        master.script("claim", 200, answer)
    async with worker.running():
        await wait_until(lambda: master.count("/claim") >= 3)
        ids = [body["poll_id"] for _, path, body in list(master.calls) if path.endswith("/claim")]
        assert len(set(ids[:3])) == 1, "the same call"
        job = master.dispatch("work", 1)
        master.mail.append([job])
        await wait_until(lambda: master.result(job["job_id"]))
    assert tracebacks(caplog) == []


async def test_a_job_that_makes_no_sense_takes_no_other_along(
    master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(master.url, token=master.token, grace_s=0.2, pull=True)
    worker.handler("work")(lambda argument: argument)
    odd, job = master.dispatch("work", timeout="long"), master.dispatch("work", 1)
    async with worker.running():
        await wait_until(lambda: master.polls)
        master.mail.append([5, {"job_id": 7}, odd, job])  # type: ignore[list-item]
        await wait_until(lambda: master.result(job["job_id"]))
        given_back = [{"job_id": odd["job_id"], "token": odd["token"]}]
        await wait_until(lambda: any(poll["refused"] == given_back for poll in list(master.polls)))
    assert tracebacks(caplog) == []


@pytest.mark.parametrize("route", ["workers", "heartbeat", "results", "start"])
@pytest.mark.parametrize("answer", NONSENSE, ids=repr)
async def test_other_calls_that_are_answered_with_nonsense_are_repeated(
    master: FakeMaster, route: str, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(master.url, token=master.token, grace_s=0.2)

    @worker.handler("sure", confirm_start=True)
    async def sure(argument: Any) -> Any:
        return argument

    master.rewrites = {WRITTEN: UNREADABLE}
    for _ in range(2):
        master.script(route, 200, answer)
    async with worker.running():
        await wait_until(lambda: worker.worker_id and master.beats)
        job = await master.run("sure", 1)
        result = await wait_until(lambda: master.result(job["job_id"]))
        assert (result["type"], result["result"]) == ("success", 1)
        await wait_until(lambda: not master.scripts[route])
    assert tracebacks(caplog) == []


@pytest.mark.parametrize("answer", NONSENSE, ids=repr)
async def test_a_pusher_is_told_that_no_master_gave_an_answer_that_makes_sense(
    master: FakeMaster, answer: Any
) -> None:
    master.rewrites = {WRITTEN: UNREADABLE}
    for _ in range(20):
        master.script("jobs", 201, answer)
        master.script("bulk", 201, answer)
    async with Pusher(master.url, token=master.token, max_wait_s=0.05) as pusher:
        with pytest.raises(WorkerSdkError):
            await pusher.enqueue("work")
        with pytest.raises(WorkerSdkError):
            await pusher.enqueue_many([("work", 1)])
