"""Servers that import an application and then fork, and `multiprocessing`: every process gets its own answers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

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
from worker_sdk import Worker

pytestmark = [pytest.mark.system, pytest.mark.timeout(120), real_time.PROCESSES]

PROCESSES = 3
GUNICORN = ["-m", "gunicorn", "--preload", "--no-control-socket", "--workers", str(PROCESSES)]
SERVERS = {
    "gunicorn-sync": [*GUNICORN, "--bind", "{address}", "tests.system.web_apps:wsgi"],
    "gunicorn-threads": [*GUNICORN, "--threads", "4", "--bind", "{address}", "tests.system.web_apps:wsgi"],
    "gunicorn-asgi": [*GUNICORN, "--worker-class", "asgi", "--bind", "{address}", "tests.system.web_apps:asgi"],
    "gunicorn-uvicorn": [
        "-W", "ignore::DeprecationWarning", *GUNICORN, "--worker-class", "uvicorn.workers.UvicornWorker",
        "--bind", "{address}", "tests.system.web_apps:asgi",
    ],
    "uvicorn": [
        "-m", "uvicorn", "--workers", str(PROCESSES), "--host", "127.0.0.1", "--port", "{port}",
        "tests.system.web_apps:asgi",
    ],
}  # fmt: skip


@pytest.fixture
async def master(store_server: StoreServer) -> AsyncIterator[Master]:
    """A master and a worker that returns its jobs' arguments."""
    async with running_master(Settings(**QUICK, redis_url=store_server.url, shard="preforking")) as one:
        worker = Worker(one.server.url, max_jobs=50)

        @worker.handler("echo")
        async def echo(argument: object) -> object:
            return argument

        async with worker.running():
            yield one


@pytest.fixture(
    params=[
        "gunicorn-threads",
        "uvicorn",
        *long.left_out("gunicorn-sync", "gunicorn-asgi", "gunicorn-uvicorn"),
    ]
)
async def site(request: pytest.FixtureRequest, master: Master, tmp_path: Path) -> AsyncIterator[str]:
    """Return the address of the application, served by several processes."""
    port = free_port()
    arguments = [part.format(address=f"127.0.0.1:{port}", port=port) for part in SERVERS[request.param]]
    server = Process(arguments, tmp_path / "server.log", JQMASTER_URL=master.server.url)
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await asyncio.to_thread(server.terminate)


async def test_processes_of_a_web_server_never_get_one_anothers_answers(site: str) -> None:
    seen: dict[str, int] = {}
    async with httpx.AsyncClient(
        timeout=30, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
    ) as browser:

        async def answers() -> bool:
            try:
                return (await browser.get(site)).status_code == 200
            except httpx.TransportError:
                return False

        await wait_until(answers, timeout_s=60, what="the application serves")

        async def visit() -> None:
            pid, wrong = (await browser.get(site)).text.split("\n")
            assert not wrong
            seen[pid] = seen.get(pid, 0) + 1

        async def spread() -> bool:
            await asyncio.gather(*[visit() for _ in range(24)])
            return len(seen) == PROCESSES and min(seen.values()) >= 5

        await wait_until(spread, timeout_s=60, what="each process has answered often")


@pytest.mark.parametrize("method", ["fork", "spawn", *long.left_out("forkserver")])
async def test_processes_of_multiprocessing_never_get_one_anothers_answers(
    master: Master, tmp_path: Path, method: str
) -> None:
    log = tmp_path / "log"
    process = Process(["-m", "tests.system.start_methods", method], log, JQMASTER_URL=master.server.url)
    process.start()
    assert process.popen is not None
    try:
        assert await asyncio.to_thread(process.popen.wait, 90) == 0, log.read_text()
    finally:
        process.kill()
    assert log.read_text().endswith("all right\n")
