"""Results on their way: kept until a master has answered for each."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Discard, Worker

pytestmark = real_time.WORKER


@pytest.fixture
def echo(worker: Worker) -> None:
    @worker.handler("echo")
    async def handle(argument: Any) -> Any:
        return argument


@pytest.mark.req("M1")
async def test_results_survive_a_restart_of_the_master(
    master: FakeMaster, worker: Worker, echo: None, up: Callable[[], Any]
) -> None:
    opened = asyncio.Event()

    @worker.handler("hold")
    async def hold(argument: Any) -> str:
        await opened.wait()
        return "kept"

    await up()
    master.lease_s = 20  # the worker must keep the job while the master is away
    job = await master.run("hold", lease_until_ms=master.now_ms() + 20_000)
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 1)
    master.stop()
    opened.set()
    for _ in range(3):
        master.start()
        master.script("results", 503, {"code": "store_unavailable"})
        master.stop()
    master.scripts.clear()
    assert master.result(job["job_id"]) is None
    master.start()
    assert (await wait_until(lambda: master.result(job["job_id"])))["result"] == "kept"
    await wait_until(lambda: master.beats[-1]["running"] == [])


@pytest.mark.req("M1")
@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (500, None, {}),
        (502, {"code": "x"}, {}),
        (503, {"code": "outcome_unknown"}, {"Retry-After": "1"}),
        (429, {"code": "rate_limited"}, {}),
        (408, None, {}),
        (401, {"code": "unauthorized"}, {}),
        (200, {"accepted": [], "stale": []}, {}),
        (200, {"accepted": 7}, {}),
        (200, ["garbage"], {}),
        (307, None, {"Location": "http://127.0.0.1:1/"}),
    ],
    ids=str,
)
async def test_an_answer_that_settles_nothing_is_no_answer(
    master: FakeMaster, echo: None, up: Callable[[], Any], status: int, body: Any, headers: dict[str, str]
) -> None:
    await up()
    master.script("results", status, body, **{k.replace("-", "_"): v for k, v in headers.items()})
    job = await master.run("echo", 7)
    await wait_until(lambda: master.count("/results") >= 2)
    assert (await wait_until(lambda: master.result(job["job_id"])))["result"] == 7


async def test_stale_results_leave_the_outbox(master: FakeMaster, echo: None, up: Callable[[], Any]) -> None:
    await up()
    job = master.dispatch("echo")
    master.stale.add(job["token"])
    await master.push(job)
    await wait_until(lambda: master.result(job["job_id"]))
    await wait_until(lambda: master.beats[-1]["running"] == [])
    assert len(master.results[job["job_id"]]) == 1


async def test_reports_that_arrive_during_a_call_go_with_the_next(
    master: FakeMaster, worker: Worker, echo: None, up: Callable[[], Any]
) -> None:
    worker.max_jobs = 1000
    await up()
    sizes: list[int] = []
    master.hooks["results"] = lambda body: sizes.append(len(body["results"]))
    for n in range(4):
        await master.push(*[master.dispatch("echo", n) for _ in range(200)])
    await wait_until(lambda: len(master.results) == 800)
    assert sum(sizes) == 800
    assert max(sizes) <= 500
    assert len(sizes) < 40


async def test_one_refused_result_does_not_hold_the_others(
    master: FakeMaster, echo: None, up: Callable[[], Any]
) -> None:
    await up()

    def refuse_large(body: Any) -> Any:
        if any(item.get("result") == "large" for item in body["results"]):
            return 413, {"code": "too_large", "detail": "a result is over 1 MiB"}, {}
        return None

    master.hooks["results"] = refuse_large
    jobs = [master.dispatch("echo", argument) for argument in ("a", "large", "b")]
    await master.push(*jobs)
    await wait_until(lambda: all(master.result(job["job_id"]) for job in jobs))
    a, large, b = (master.results[job["job_id"]][-1] for job in jobs)
    assert (a["result"], b["result"]) == ("a", "b")
    assert (large["type"], large["should_retry"]) == ("failure", False)
    assert "413 too_large" in large["message"]


@pytest.mark.req("S12", "M12")
async def test_a_master_that_knows_no_discarded_jobs_is_told_of_a_final_failure(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("gone")
    async def gone(argument: Any) -> None:
        raise Discard("the record was deleted")

    await up()

    def refuse_discarded(body: Any) -> Any:
        if any(item["type"] == "discarded" for item in body["results"]):
            return 422, {"code": "invalid", "detail": "type: not one of success, failure"}, {}
        return None

    master.hooks["results"] = refuse_discarded
    job = await master.run("gone")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["type"], result["should_retry"]) == ("failure", False)
    assert result["message"].startswith("the record was deleted")


async def test_large_results_are_sent_in_several_calls(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    sizes: list[int] = []
    master.hooks["results"] = lambda body: sizes.append(sum(len(item["result"]) for item in body["results"]))

    @worker.handler("big")
    async def big(argument: Any) -> bytes:
        return bytes(1_500_000)

    await up()
    jobs = [master.dispatch("big") for _ in range(4)]
    await master.push(*jobs)
    await wait_until(lambda: len(master.results) == 4)
    assert max(sizes) <= 4 * 1024 * 1024


async def test_an_unknown_worker_joins_again_and_delivers_then(
    master: FakeMaster, worker: Worker, echo: None, up: Callable[[], Any]
) -> None:
    await up()
    old = worker.worker_id
    master.script("results", 404, {"code": "unknown_worker"})
    job = await master.run("echo", 1)
    await wait_until(lambda: worker.worker_id not in (None, old))
    assert (await wait_until(lambda: master.result(job["job_id"])))["result"] == 1


async def test_a_worker_with_too_many_bytes_of_undelivered_results_takes_no_more_jobs(
    master: FakeMaster, worker: Worker, echo: None, up: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker_sdk.worker.report_queue.MAX_HELD_BYTES", 1000)
    await up()
    is_away = True
    master.hooks["results"] = lambda body: (503, {"code": "store_unavailable"}, {}) if is_away else None
    first = await master.run("echo", "x" * 2000)
    await wait_until(lambda: master.beats[-1]["free"] == 0, what="it says that it has no room")
    is_away = False
    await wait_until(lambda: master.result(first["job_id"]), what="the result was delivered")
    await wait_until(lambda: master.beats[-1]["free"] > 0, what="there is room again")
