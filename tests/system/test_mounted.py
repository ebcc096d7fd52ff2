"""Workers in multi-process web applications: none takes another's place."""

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jqmaster.app import Master, running_master
from jqmaster.config import Settings
from tests.support import long, real_time
from tests.support.master import QUICK
from tests.support.ports import free_port
from tests.support.processes import Process
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Pusher

pytestmark = [pytest.mark.system, pytest.mark.timeout(120), real_time.PROCESSES]

PROCESSES = 3
GUNICORN = ["-m", "gunicorn", "--no-control-socket", "--bind", "127.0.0.1:{port}", "--workers", "{processes}"]
UVICORN_IN_GUNICORN = [
    "-W", "ignore::DeprecationWarning", *GUNICORN, "--worker-class", "uvicorn.workers.UvicornWorker",
]  # fmt: skip
SERVERS = {
    "uvicorn": ["-m", "uvicorn", "--workers", "{processes}", "--host", "127.0.0.1", "--port", "{port}"],
    "gunicorn-uvicorn": UVICORN_IN_GUNICORN,
    "gunicorn-uvicorn-preload": [*UVICORN_IN_GUNICORN, "--preload"],
    "gunicorn-asgi": [*GUNICORN, "--worker-class", "asgi"],
    "hypercorn": ["-m", "hypercorn", "--workers", "{processes}", "--bind", "127.0.0.1:{port}"],
}


@pytest.fixture
async def master(store_server: StoreServer) -> AsyncIterator[Master]:
    shard = f"mounted-{uuid.uuid4().hex[:8]}"
    async with running_master(Settings(**QUICK, redis_url=store_server.url, shard=shard)) as one:
        yield one


@pytest.fixture
async def pusher(master: Master) -> AsyncIterator[Pusher]:
    async with Pusher(master.server.url) as one:
        yield one


@contextlib.asynccontextmanager
async def served(
    server: str, app: str, master: Master, directory: Path, *, processes: int = PROCESSES
) -> AsyncIterator[Process]:
    port = free_port()
    arguments = [part.format(port=port, processes=processes) for part in SERVERS[server]]
    process = Process(
        [*arguments, f"tests.system.mounted_apps:{app}"],
        directory / "server.log",
        JQMASTER_URL=master.server.url,
        WORKER_URL=f"http://127.0.0.1:{port}/jq",
    )
    process.start()
    try:
        yield process
    finally:
        await asyncio.to_thread(process.terminate)


async def workers(master: Master) -> dict[str, dict[str, Any]]:
    async with httpx.AsyncClient(trust_env=False, headers={"Accept": "application/json"}) as client:
        answer = await client.get(f"{master.server.url}/api/workers")
    return {one["id"]: one for one in answer.json()["workers"]}


async def pids_of_jobs(pusher: Pusher, count: int) -> set[int]:
    ids = [await pusher.enqueue("pid", keep_result=True) for _ in range(count)]
    found = set()
    for job_id in ids:
        result = await pusher.result(job_id, wait=20)
        assert result is not None
        assert result.is_success
        found.add(result.result)
    return found


@pytest.mark.parametrize(
    ("server", "app"),
    [
        ("uvicorn", "pulling"), ("uvicorn", "bare"), ("gunicorn-uvicorn-preload", "own_address"),
        ("hypercorn", "own_address"),
        *long.left_out(
            ("uvicorn", "own_address"), ("gunicorn-uvicorn", "own_address"),
            ("gunicorn-uvicorn-preload", "pulling"), ("gunicorn-asgi", "own_address"),
        ),
    ],
)  # fmt: skip
async def test_each_process_of_a_web_server_is_a_worker_of_its_own(
    server: str, app: str, master: Master, pusher: Pusher, tmp_path: Path
) -> None:
    async with served(server, app, master, tmp_path) as process:

        async def all_there() -> bool:
            return len(await workers(master)) == PROCESSES

        await wait_until(all_there, timeout_s=60, what="each process is registered")
        registered = await workers(master)
        pids = {one["pid"] for one in registered.values()}
        assert len(pids) == PROCESSES
        if app != "pulling":
            assert len({one["url"] for one in registered.values()}) == PROCESSES
        worked: set[int] = set()

        async def all_worked() -> bool:
            worked.update(await pids_of_jobs(pusher, 12))
            return worked == pids

        await wait_until(all_worked, timeout_s=60, what="each process has run jobs")
        assert (await workers(master)).keys() == registered.keys(), process.log.read_text()
    if server == "hypercorn":
        # Once one of its processes has ended, it kills the others while they still say goodbye.
        async def all_gone() -> bool:
            return all(one["state"] == "detached" for one in (await workers(master)).values())

        await wait_until(all_gone, what="the leases of the killed are over")
    else:
        assert await workers(master) == {}


@pytest.mark.parametrize("server", ["uvicorn", *long.left_out("gunicorn-uvicorn")])
async def test_a_second_process_at_one_url_refuses_to_start_and_says_what_to_do(
    server: str, master: Master, pusher: Pusher, tmp_path: Path
) -> None:
    async with served(server, "at_url", master, tmp_path, processes=2) as process:

        async def one_there() -> bool:
            return len(await workers(master)) == 1

        await wait_until(one_there, timeout_s=60, what="the first process is registered")
        registered = await workers(master)
        (pid,) = {one["pid"] for one in registered.values()}
        held = await pusher.enqueue("wait", str(tmp_path / "go"), keep_result=True)

        async def refused() -> bool:
            return "use Worker(pull=True)" in process.log.read_text()

        await wait_until(refused, timeout_s=60, what="the second process refuses")
        (tmp_path / "go").touch()
        result = await pusher.result(held, wait=20)
        assert result is not None
        assert result.result == pid
        assert (await pusher.status(held))["attempt"] == 1


async def test_a_reloaded_process_takes_the_url_over_when_the_jobs_of_the_old_one_are_done(
    master: Master, pusher: Pusher, tmp_path: Path
) -> None:
    async with served("gunicorn-uvicorn", "at_url", master, tmp_path, processes=1) as process:
        (old,) = await pids_of_jobs(pusher, 1)
        held = await pusher.enqueue("wait", str(tmp_path / "go"), keep_result=True)

        async def running() -> bool:
            return (await pusher.status(held))["state"] == "running"

        await wait_until(running, timeout_s=20)
        process.signal(signal.SIGHUP)

        async def reloaded() -> bool:
            return process.log.read_text().count("Application startup complete") == 2

        await wait_until(reloaded, timeout_s=30, what="the new process serves")
        (tmp_path / "go").touch()
        result = await pusher.result(held, wait=20)
        assert result is not None
        assert result.result == old
        assert (await pusher.status(held))["attempt"] == 1
        (new,) = await pids_of_jobs(pusher, 1)
        assert new != old
