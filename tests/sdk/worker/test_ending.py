"""Worker ends: in its own process, inside an application, and mounted in one."""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import uvicorn

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker
from worker_sdk.transport.http_server import WorkerServer
from worker_sdk.worker.node import own_url

pytestmark = real_time.WORKER


@contextlib.asynccontextmanager
async def worker_process(master: FakeMaster) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.sdk.handlers", master.url, stderr=asyncio.subprocess.PIPE
    )
    try:
        await wait_until(lambda: master.beats)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.req("M7")
async def test_sigterm_finishes_what_ends_in_time_and_hands_the_rest_back(master: FakeMaster) -> None:
    async with worker_process(master) as process:
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


@pytest.mark.req("M6")
@pytest.mark.parametrize("name", ["deaf", "stubborn"])
async def test_a_job_that_cannot_be_stopped_is_left_to_its_lease_when_the_process_ends(
    master: FakeMaster, name: str
) -> None:
    """If handed back, it could start elsewhere while its thread still runs here."""
    async with worker_process(master) as process:
        job = await master.run(name, 60, lease_until_ms=master.now_ms() + 60_000)
        process.send_signal(signal.SIGTERM)
        # A handler that does not end cannot keep the process beyond its lease.
        assert await asyncio.wait_for(process.wait(), 10) == 0
        ended_ms = master.now_ms()
    assert master.result(job["job_id"]) is None
    last = master.beats[-1]
    assert [claim["token"] for claim in last["running"]] == [job["token"]], "held to the last"
    assert ended_ms < master.lease_until_ms, "another start comes after the end of this one"
    assert master.workers == {}, "it has left"


async def test_a_second_signal_does_not_wait(master: FakeMaster) -> None:
    async with worker_process(master) as process:
        assert process.stderr is not None
        job = await master.run("wait", 60, lease_until_ms=master.now_ms() + 60_000)
        process.send_signal(signal.SIGTERM)
        await wait_until(lambda: master.beats[-1]["free"] == 0)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
    assert master.results[job["job_id"]][0]["type"] == "handed_back"


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
    # It still runs in this process, so its lease must end before it may run elsewhere.
    assert master.result(jobs["deaf"]["job_id"]) is None
    may_end.set()
    assert worker.worker_id is None
    async with worker.running():
        await wait_until(lambda: worker.worker_id)


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
    with pytest.raises(ValueError, match="told its url"):
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
