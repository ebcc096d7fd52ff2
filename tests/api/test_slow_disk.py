"""A disk that takes its time with every fsync: an answer waits for it, and a kill in between takes nothing back."""

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from jqmaster.domain.ids import new_id
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

FSYNC_S = 0.5
# No leadership ends because of the disk.
SLOW: dict[str, Any] = {"leader_ttl_s": 30.0, "store_timeout_s": 20}


@pytest.fixture
async def store() -> AsyncIterator[StoreServer]:
    server = StoreServer()
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.stop)


@contextlib.contextmanager
def slow_fsync(store: StoreServer) -> Iterator[None]:
    """Each fsync of the store takes so long."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    assert store.process
    log = store.directory / "strace"
    tracer = subprocess.Popen(
        [
            "strace", "-f", "-o", str(log), "-e", "trace=fdatasync,fsync",
            "-e", f"inject=fdatasync,fsync:delay_enter={int(FSYNC_S * 1e6)}", "-p", str(store.process.pid),
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert tracer.stderr
        said = tracer.stderr.readline()
        if "attached" not in said:
            pytest.skip(f"strace may not attach here: {said}")
        yield
        assert "fdatasync" in log.read_text(), "the fault did not bite"
    finally:
        tracer.terminate()
        tracer.wait()
        assert tracer.stderr
        tracer.stderr.close()


@pytest.mark.req("M1")
@pytest.mark.timeout(120)
async def test_an_answer_waits_for_a_slow_disk_and_what_was_accepted_outlives_a_kill(
    store: StoreServer,
) -> None:
    async with master_on(store.url, **SLOW) as (_, api):
        accepted: list[str] = []
        took_s: list[float] = []

        async def push() -> None:
            job_id, began_s = new_id(), time.monotonic()
            status, _ = await api.call("POST", "/api/jobs", {"name": "work", "id": job_id, "argument": 1})
            if status == 201:
                accepted.append(job_id)
                took_s.append(time.monotonic() - began_s)
            else:
                assert status == 503

        async def keep_pushing() -> None:
            while store.process and store.process.poll() is None:
                await push()

        with slow_fsync(store):
            pushing = [asyncio.create_task(keep_pushing()) for _ in range(5)]
            await wait_until(lambda: len(accepted) >= 10, timeout_s=60, what="jobs are accepted")
            await asyncio.to_thread(store.kill)
            await asyncio.gather(*pushing)
        assert min(took_s) >= FSYNC_S, "accepted before it was on the disk"
        await asyncio.to_thread(store.start)

        async def is_ready() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return (await api.http.get("/readyz")).status_code == 200
            return False

        await wait_until(is_ready, timeout_s=30)
        for job_id in accepted:
            assert await api.state(job_id) == "ready"
