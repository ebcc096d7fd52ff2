"""Worker ends: in its own process, inside an application, and mounted in one."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import uvicorn

from tests.sdk.fake_master import MSGPACK, FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker
from worker_sdk.transport.http_server import WorkerServer
from worker_sdk.worker.farewell_process import FarewellCalls
from worker_sdk.worker.heartbeat import Heartbeat
from worker_sdk.worker.node import own_url

pytestmark = real_time.WORKER


@contextlib.asynccontextmanager
async def worker_process(master: FakeMaster, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.sdk.handlers", master.url,
        stderr=asyncio.subprocess.PIPE, env={**os.environ, **environment},
    )  # fmt: skip
    try:
        await wait_until(lambda: master.beats)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.req("M7")
async def test_sigterm_finishes_what_ends_in_time_and_hands_the_rest_back(master: FakeMaster) -> None:
    async with worker_process(master, GRACE_S="1.5") as process:
        far = {"lease_until_ms": master.now_ms() + 60_000}
        short = await master.run("wait", 0.2, **far)
        long = await master.run("wait", 60, **far)
        process.send_signal(signal.SIGTERM)
        await wait_until(lambda: master.beats[-1]["free"] == 0)
        late = await master.push(master.dispatch("wait", 0))
        assert late["rejected"][0]["reason"] == "draining"
        assert await asyncio.wait_for(process.wait(), 10) == 0
    assert master.results[short["job_id"]][0]["result"] == "waited"
    assert master.results[long["job_id"]][0]["type"] == "handed_back"
    assert master.workers == {}, "it has left"


async def ended(process: asyncio.subprocess.Process) -> int:
    return await asyncio.wait_for(process.wait(), 20)


@pytest.mark.req("M6", "M14")
@pytest.mark.parametrize("name", ["deaf", "stubborn"])
async def test_a_job_that_cannot_be_stopped_is_handed_back_when_its_handler_certainly_runs_no_more(
    master: FakeMaster, name: str, tmp_path: Path
) -> None:
    """If handed back earlier, it could start elsewhere while its thread still runs here."""
    async with worker_process(master) as process:
        far = {"lease_until_ms": master.now_ms() + 60_000}
        ticking = await master.run("tick", str(tmp_path / "ticks"), **far)
        job = await master.run(name, 60, **far)
        ticks_at_report: list[int] = []
        master.hooks["results"] = lambda body: ticks_at_report.append(ticks(tmp_path / "ticks"))
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == 0
    for one in (job, ticking):
        assert [item["type"] for item in master.results[one["job_id"]]] == ["handed_back"]
    held = {claim["token"] for claim in master.beats[-1]["running"]}
    assert {job["token"], ticking["token"]} <= held, "held to the last"
    assert ticks_at_report == [ticks(tmp_path / "ticks")], "its thread did nothing after the report"
    assert master.workers == {}, "it has left"
    assert len(master.leaving) == 1


def ticks(path: Path) -> int:
    return path.stat().st_size


@pytest.mark.req("M14")
async def test_processes_of_a_handler_have_ended_before_its_job_is_handed_back(
    master: FakeMaster, tmp_path: Path
) -> None:
    """A thread waits for a command that ignores SIGTERM."""
    path = tmp_path / "pid"
    async with worker_process(master) as process:
        job = await master.run("deaf.command", str(path), lease_until_ms=master.now_ms() + 60_000)
        pid = int(await wait_until(lambda: path.exists() and path.read_text()))
        running_at_report: list[bool] = []
        master.hooks["results"] = lambda body: running_at_report.append(psutil.pid_exists(pid))
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == 0
    assert master.results[job["job_id"]][0]["type"] == "handed_back"
    assert running_at_report == [False]


@pytest.mark.req("M14")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_signals_during_the_end_neither_prolong_nor_prevent_the_hand_back(
    master: FakeMaster, number: signal.Signals
) -> None:
    async with worker_process(master, GRACE_S="30") as process:
        job = await master.run("deaf", 60, lease_until_ms=master.now_ms() + 60_000)
        process.send_signal(number)
        await wait_until(lambda: master.beats[-1]["free"] == 0)
        # The second one ends the grace; more of them come while the report is made.
        while process.returncode is None and job["job_id"] not in master.results:
            process.send_signal(number)
            await asyncio.sleep(0.01)
        assert await ended(process) == 0
    assert [item["type"] for item in master.results[job["job_id"]]] == ["handed_back"]
    assert master.workers == {}


@pytest.mark.req("M14")
async def test_a_keyboard_interrupt_hands_back_what_runs(master: FakeMaster) -> None:
    """A library in the main thread may raise it, or replace the handler of SIGINT."""
    async with worker_process(master) as process:
        far = {"lease_until_ms": master.now_ms() + 60_000}
        jobs = [await master.run(name, 60, **far) for name in ("deaf", "wait")]
        await master.run("interrupt", None, **far)
        assert await ended(process) == 130
    for job in jobs:
        assert [item["type"] for item in master.results[job["job_id"]]] == ["handed_back"]
    assert master.workers == {}


@pytest.mark.req("M14")
@pytest.mark.parametrize("loss", ["away", "refusing", "lost on the way"])
async def test_reports_are_repeated_while_no_master_takes_them(master: FakeMaster, loss: str) -> None:
    """Then the process ends. The store knows from the announcement not to count a loss."""
    async with worker_process(master) as process:
        job = await master.run("deaf", 60, lease_until_ms=master.now_ms() + 60_000)
        process.send_signal(signal.SIGTERM)
        await wait_until(lambda: master.leaving)
        calls = 0

        def refuse(body: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > 2:
                return None
            if loss == "refusing":
                return (503, None, {})
            raise ConnectionResetError

        if loss == "away":
            master.stop()
            await asyncio.sleep(1.5)
            assert process.returncode is None, "it goes on trying"
            master.start()
        else:
            master.hooks["results"] = refuse
        assert await ended(process) == 0
    assert [item["type"] for item in master.results[job["job_id"]]][-1] == "handed_back"
    assert master.workers == {}


@pytest.mark.req("M14")
async def test_a_process_ends_although_no_master_ever_answers(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worker_process(master) as process:
        await master.run("deaf", 60, lease_until_ms=master.now_ms() + 60_000)
        process.send_signal(signal.SIGTERM)
        await wait_until(lambda: master.leaving)
        master.stop()
        assert await asyncio.wait_for(process.wait(), 30) == 0
    master.start()


@pytest.mark.req("M14")
async def test_a_thread_of_the_application_does_not_hold_up_the_end(master: FakeMaster) -> None:
    async with worker_process(master) as process:
        far = {"lease_until_ms": master.now_ms() + 60_000}
        await master.run("start.thread", 60, **far)
        job = await master.run("deaf", 60, **far)
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == 0
    assert master.results[job["job_id"]][-1]["type"] == "handed_back"


async def test_a_second_signal_does_not_wait(master: FakeMaster) -> None:
    async with worker_process(master) as process:
        assert process.stderr is not None
        job = await master.run("wait", 60, lease_until_ms=master.now_ms() + 60_000)
        process.send_signal(signal.SIGTERM)
        await wait_until(lambda: master.beats[-1]["free"] == 0)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
    assert master.results[job["job_id"]][0]["type"] == "handed_back"


@pytest.mark.req("M14")
async def test_a_worker_announces_its_end_before_it_unregisters(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only then does it count that no heartbeat has named an offer. Its heartbeats end before they announce it."""
    monkeypatch.setattr(Heartbeat, "_announce_leave", lambda heartbeat, member: None)
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    worker.handler("note")(lambda argument: None)
    async with worker.running():
        worker_id = await wait_until(lambda: worker.worker_id)
    ends = [(method, path) for method, path, _ in master.calls if method == "DELETE" or "leaving" in path]
    assert ends[-2:] == [
        ("POST", f"/api/workers/{worker_id}/leaving"), ("DELETE", f"/api/workers/{worker_id}"),
    ]  # fmt: skip
    assert master.leaving == [worker_id]


@pytest.mark.req("M14")
@pytest.mark.parametrize("answer", [204, 404, 405], ids=["taken", "not found", "not allowed"])
@pytest.mark.parametrize("is_announced", [False, True])
def test_the_last_calls_of_a_process_announce_its_end_unless_masters_know_of_it(
    master: FakeMaster, *, is_announced: bool, answer: int
) -> None:
    """Masters of 0.3 do not know the announcement."""
    if answer != 204:
        master.hooks["leaving"] = lambda body: (answer, None, {})
    order = {
        "masters": [master.url], "headers": {"Authorization": f"Bearer {master.token}", "Content-Type": MSGPACK},
        "worker_id": "w", "is_announced": is_announced, "head": "", "batches": [], "tls": None, "within_s": 5.0,
    }  # fmt: skip
    FarewellCalls(order).say()
    said = [(method, path) for method, path, _ in master.calls]
    announcement = [] if is_announced else [("POST", "/api/workers/w/leaving")]
    assert said == [*announcement, ("DELETE", "/api/workers/w")]


@pytest.mark.req("M14", "D29")
async def test_the_last_calls_for_one_namespace_do_not_wait_for_those_of_another(master: FakeMaster) -> None:
    """Nothing answers for the first one."""
    headers = {"Authorization": f"Bearer {master.token}", "Content-Type": MSGPACK}
    left = [
        f"LeftReports([{address!r}], {headers}, {worker_id!r}, [], is_announced=True)"
        for address, worker_id in (("http://127.0.0.1:9", "away"), (master.url, "here"))
    ]
    code = f"from worker_sdk.worker.farewell import *; Farewell([{', '.join(left)}], []).replace_process(7)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    await wait_until(lambda: ("DELETE", "/api/workers/here") in [call[:2] for call in master.calls])
    assert process.returncode is None, "the other is still tried"
    assert await asyncio.wait_for(process.wait(), 30) == 7


async def test_an_embedded_worker_hands_back_what_it_can_stop(master: FakeMaster) -> None:
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    may_end = threading.Event()

    @worker.handler("async")
    async def hold(argument: Any) -> None:
        await asyncio.sleep(60)

    @worker.handler("polite")
    def polite(argument: Any, ctx: Context) -> str:
        ctx.cancelled.wait(20)
        return "ended in time"

    @worker.handler("deaf")
    def deaf(argument: Any) -> None:
        may_end.wait(30)

    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        jobs = {name: await master.run(name) for name in ("async", "polite", "deaf")}
    assert master.results[jobs["async"]["job_id"]][0]["type"] == "handed_back"
    assert master.results[jobs["polite"]["job_id"]][0]["result"] == "ended in time"
    # It still runs in this process, which lives on: its lease is renewed until it ends.
    assert worker.worker_id is None
    left = jobs["deaf"]
    seen = len(master.beats)
    await wait_until(lambda: len(master.beats) > seen + 2)
    assert [claim["token"] for claim in master.beats[-1]["running"]] == [left["token"]]
    assert master.result(left["job_id"]) is None
    may_end.set()
    await wait_until(lambda: master.result(left["job_id"]))
    assert master.results[left["job_id"]][0]["type"] == "success"
    await wait_until(lambda: not master.workers)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)


@pytest.mark.req("M14")
@pytest.mark.parametrize("end", ["exit", "kill"])
async def test_a_job_left_in_a_web_server_is_handed_back_when_the_process_has_ended(
    master: FakeMaster, tmp_path: Path, end: str
) -> None:
    """The process lives on for a while after the end of its lifespan, and a thread of it never ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.sdk.lingering_server", master.url, env={**os.environ, "LINGER_S": "2"}
    )
    try:
        await wait_until(lambda: master.beats)
        job = await master.run("tick", str(tmp_path / "ticks"), lease_until_ms=master.now_ms() + 60_000)
        ticks_at_report: list[int] = []
        master.hooks["results"] = lambda body: ticks_at_report.append(ticks(tmp_path / "ticks"))
        process.send_signal(signal.SIGTERM)
        await wait_until(lambda: master.leaving)
        await asyncio.sleep(1)
        assert process.returncode is None
        assert master.result(job["job_id"]) is None, "it still runs there"
        if end == "kill":
            process.kill()
        await ended(process)
        await wait_until(lambda: not master.workers, timeout_s=15)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [item["type"] for item in master.results[job["job_id"]]] == ["handed_back"]
    assert ticks_at_report == [ticks(tmp_path / "ticks")]


async def test_an_end_without_a_master_does_not_hang(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker_sdk.worker.node._FLUSH_S", 0.2)
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    worker.handler("note")(lambda argument: None)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        master.hooks["results"] = lambda body: (503, None, {})
        await master.run("note")
        await wait_until(lambda: master.count("/results"))
        master.stop()
    assert worker.worker_id is None


async def test_the_application_runs_by_its_lifespan(master: FakeMaster, unused_tcp_port: int) -> None:
    worker = Worker(master.url, token=master.token, url=f"http://127.0.0.1:{unused_tcp_port}", grace_s=0.1)
    worker.handler("note")(lambda argument: argument)
    config = uvicorn.Config(
        worker.asgi(), host="127.0.0.1", port=unused_tcp_port, lifespan="on", log_config=None, ws="none"
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve())
    await wait_until(lambda: worker.worker_id)
    job = await master.run("note", 5)
    await wait_until(lambda: master.result(job["job_id"]))
    server.should_exit = True
    await serving
    assert master.workers == {}


async def test_the_application_can_be_mounted_below_a_path(master: FakeMaster) -> None:
    starlette = pytest.importorskip("starlette.applications")
    from starlette.routing import Mount

    worker = Worker(master.url, token=master.token, grace_s=0.1)
    worker.handler("note")(lambda argument: argument)
    server = WorkerServer(starlette.Starlette(routes=[Mount("/jq", app=worker.asgi())]), "127.0.0.1", 0)
    worker.url = f"http://127.0.0.1:{server.bound_port}/jq"
    await server.start()
    try:
        async with worker.running(serve=False):
            await wait_until(lambda: worker.worker_id)
            job = await master.run("note", 5)
            await wait_until(lambda: master.result(job["job_id"]))
            assert (await master.send("GET", "/status", path="/status")).status_code == 401
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{worker.url}/ping")).status_code == 503
    finally:
        await server.stop()


async def test_a_worker_that_cannot_start_says_why(master: FakeMaster) -> None:
    empty = Worker(master.url)
    with pytest.raises(ValueError, match="without handlers"):
        async with empty.running():
            pass
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    worker.handler("note")(lambda argument: None)
    with pytest.raises(ValueError, match="needs its url"):
        async with worker.running(serve=False):
            pass
    async with worker.running():
        with pytest.raises(RuntimeError, match="already"):
            async with worker.running():
                pass
        await wait_until(lambda: worker.worker_id)
        taken = Worker(master.url, port=int(worker.address.rsplit(":", 1)[1]), grace_s=0.1)  # type: ignore[union-attr]
        taken.handler("note")(lambda argument: None)
        with pytest.raises(OSError, match="in use"):
            async with taken.running():
                pass
    none: list[str] = []
    for bad in ("ftp://x", "http://", "127.0.0.1:8080", "http://u:p@h", "http://h?q=1", none):
        unfit = Worker(bad, grace_s=0.1)
        unfit.handler("note")(lambda argument: None)
        with pytest.raises(ValueError, match="master"):
            async with unfit.running():
                pass


def test_the_default_address_is_one_that_others_can_reach() -> None:
    assert own_url("127.0.0.1", 9000, "http://127.0.0.1:8080") == "http://127.0.0.1:9000"
    assert own_url("::1", 9000, "http://127.0.0.1:8080") == "http://[::1]:9000"
    assert own_url("0.0.0.0", 9000, "http://127.0.0.1:8080") == "http://127.0.0.1:9000"
