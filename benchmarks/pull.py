"""Measure what many pulling workers cost while they wait for jobs."""

import asyncio
import secrets
import time
from typing import Any, Final

import aiohttp
import msgpack

from benchmarks.load import System, running_system

WORKERS: Final = 500
FOR_S: Final = 20.0
WAIT_S: Final = 20.0
Figures = dict[str, float]


async def idle() -> Figures:
    """Measure the CPU of the master and of Valkey for 500 pulling workers that have nothing to do. Measure once without
    heartbeats, and once with a heartbeat of each worker every second."""
    with running_system(workers=0) as system:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            ids = [await _register(session, system.url) for _ in range(WORKERS)]
            before = await _cpu_percent(system)
            beats = [asyncio.create_task(_beat(session, system.url, one)) for one in ids]
            beating = await _cpu_percent(system)
            polls = [asyncio.create_task(_poll(session, system.url, one)) for one in ids]
            both = await _cpu_percent(system)
            for task in (*beats, *polls):
                task.cancel()
            await asyncio.gather(*beats, *polls, return_exceptions=True)
    return {"idle_percent": before, "heartbeats_percent": beating, "with_polls_percent": both}


async def _cpu_percent(system: System) -> float:
    await asyncio.sleep(2)
    before, began_s = system.cpu_s(), time.monotonic()
    await asyncio.sleep(FOR_S)
    after, seconds = system.cpu_s(), time.monotonic() - began_s
    return 100 * sum(after[part] - before[part] for part in ("master", "store")) / seconds


async def _call(session: aiohttp.ClientSession, url: str, body: Any) -> Any:
    async with session.post(
        url, data=msgpack.packb(body), headers={"Content-Type": "application/msgpack"}
    ) as response:
        assert response.status < 300, await response.read()
        return msgpack.unpackb(await response.read(), timestamp=3)


async def _register(session: aiohttp.ClientSession, url: str) -> str:
    body = {"url": None, "names": ["nothing"], "max_jobs": 10, "secret": secrets.token_hex(32)}
    return str((await _call(session, f"{url}/api/workers", body))["worker_id"])


async def _beat(session: aiohttp.ClientSession, url: str, worker_id: str) -> None:
    while True:
        await _call(session, f"{url}/api/workers/{worker_id}/heartbeat", {"running": [], "free": 10})
        await asyncio.sleep(1)


async def _poll(session: aiohttp.ClientSession, url: str, worker_id: str) -> None:
    while True:
        await _call(session, f"{url}/api/workers/{worker_id}/claim", {"max": 10, "wait": WAIT_S})
