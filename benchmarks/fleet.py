"""Measure what large numbers cost: workers that only send heartbeats, jobs that only wait, and long-running jobs."""

import asyncio
import contextlib
import hashlib
import hmac
import random
import secrets
import socket
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import aiohttp
import msgpack
from aiohttp import web

from benchmarks.load import System, loop_ns, running_system
from worker_sdk import Pusher

WORKERS: Final = 500
BEAT_S: Final = 1.0
WATCHED_S: Final = 30.0
WAITING: Final = 1_000_000
# The numbers of jobs in each measurement: pushed in bulk, and one by one.
JOBS: Final = 20_000
SINGLE: Final = 5_000
WARM_UP: Final = 2_000
ROUNDS: Final = 3
# How many succeeded jobs are kept (`Settings.retention_succeeded_max`).
KEPT: Final = 100_000
LONG_JOBS: Final = 200
ARGUMENT: Final = "x" * 98
HOUR_S: Final = 3600
Figures = dict[str, float]


# --- workers that only report


class IdleWorker:
    """A worker without work, which sends a heartbeat every second. It is registered with a port of its own, as the
    protocol requires."""

    def __init__(self, master_url: str) -> None:
        self._master_url = master_url
        self._secret = secrets.token_hex(32)
        self._socket = socket.create_server(("127.0.0.1", 0))

    async def serve(self, runner: web.AppRunner) -> None:
        await web.SockSite(runner, self._socket).start()

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def proof(self, nonce: str) -> str:
        return hmac.new(self._secret.encode(), nonce.encode(), hashlib.sha256).hexdigest()

    async def report_until(self, is_over: asyncio.Event) -> int:
        """Send heartbeats over a separate connection, and return how many were answered."""
        beats = 0
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
            worker_id = (await self._call(session, "/api/workers", self._registration()))["worker_id"]
            # Begin at a random time, so that the heartbeats are spread over the second like those of a real fleet.
            next_s = time.monotonic() + random.uniform(0, BEAT_S)
            while not is_over.is_set():
                await asyncio.sleep(max(0.0, next_s - time.monotonic()))
                next_s += BEAT_S
                await self._call(session, f"/api/workers/{worker_id}/heartbeat", {"running": [], "free": 10})
                beats += 1
        return beats

    def _registration(self) -> dict[str, Any]:
        return {
            "url": f"http://127.0.0.1:{self.port}", "names": ["noop"], "max_jobs": 10,
            "node_id": f"node-{self.port}", "pid": 1,
            "labels": {}, "version": "1", "secret": self._secret,
        }  # fmt: skip

    async def _call(self, session: aiohttp.ClientSession, path: str, value: Any) -> Any:
        headers = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}
        async with session.post(
            self._master_url + path, data=msgpack.packb(value), headers=headers
        ) as response:
            answer = msgpack.unpackb(await response.read())
            assert response.status in (200, 201), answer
            return answer


async def heartbeats_500() -> Figures:
    """Measure the CPU of master and store, in cores, while 500 registered workers send a heartbeat every second."""
    with running_system(workers=0) as system:
        workers = [IdleWorker(system.url) for _ in range(WORKERS)]
        by_port = {worker.port: worker for worker in workers}

        async def challenge(request: web.Request) -> web.Response:
            nonce = msgpack.unpackb(await request.read())["nonce"]
            port = int(request.host.rpartition(":")[2])
            body = msgpack.packb({"proof": by_port[port].proof(nonce)})
            return web.Response(body=body, content_type="application/msgpack")

        app = web.Application()
        app.router.add_post("/challenge", challenge)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await asyncio.gather(*(worker.serve(runner) for worker in workers))
            is_over = asyncio.Event()
            began_s = time.monotonic()
            reporting = [asyncio.create_task(worker.report_until(is_over)) for worker in workers]
            await _until(lambda: _all_are_fresh(system, reporting))
            registered_s = time.monotonic() - began_s
            before, from_s = system.cpu_s(), time.monotonic()
            await asyncio.sleep(WATCHED_S)
            after, watched_s = system.cpu_s(), time.monotonic() - from_s
            is_over.set()
            await asyncio.gather(*reporting)
        finally:
            await runner.cleanup()
    cores = {kind: (after[kind] - before[kind]) / watched_s for kind in ("master", "store")}
    return {
        "registered_s": registered_s,
        "cores": sum(cores.values()),
        **{f"{kind}_cores": used for kind, used in cores.items()},
    }


async def _all_are_fresh(system: System, reporting: list[asyncio.Task[int]]) -> bool:
    for task in reporting:
        if task.done():
            task.result()
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.get(f"{system.url}/api/workers", headers={"Accept": "application/json"}) as response,
    ):
        found = (await response.json())["workers"]
    return len(found) == WORKERS and all(one["state"] == "fresh" for one in found)


# --- jobs that only wait


async def million_waiting() -> Figures:
    """Measure the CPU time of enqueueing a job, and of a job from its claim to its end. Compare a queue with 1,000,000
    waiting jobs with an empty queue. `loop_ns_ratio`: the ratio for a fixed loop, which shows how much the speed of the
    machine changed."""
    with running_system(workers=0) as system:
        async with (
            Pusher(system.url, max_wait_s=60) as pusher,
            aiohttp.ClientSession(trust_env=False) as session,
        ):
            # First run as many jobs as the store keeps. Otherwise, only the later rounds would have to remove succeeded
            # jobs.
            await _bulk(pusher, KEPT)
            async with _working(system):
                await _until_waiting(session, system, 0)
            empty = [await _once(system, pusher, session, left=0) for _ in range(ROUNDS)]
            await _bulk(pusher, WAITING)
            full = [await _once(system, pusher, session, left=WAITING) for _ in range(ROUNDS)]

    def median(runs: list[Figures], name: str) -> float:
        return statistics.median(run[name] for run in runs)

    steps = ("enqueue_single_us", "enqueue_bulk_us", "claim_to_end_us", "loop_ns")
    return {f"{name}_ratio": median(full, name) / median(empty, name) for name in steps} | {
        f"{state}_{name}": median(runs, name)
        for state, runs in (("empty", empty), ("million", full))
        for name in steps
    }


async def _once(system: System, pusher: Pusher, session: aiohttp.ClientSession, *, left: int) -> Figures:
    """Return the CPU time per job of master and store, in µs. For claims, include the worker. The queue has `left`
    waiting jobs before and after the call."""

    async def cost(work: Callable[[], Awaitable[None]], count: int, *kinds: str) -> float:
        before = system.cpu_s()
        await work()
        after = system.cpu_s()
        return sum(after[kind] - before[kind] for kind in kinds) / count * 1e6

    figures = {
        "loop_ns": loop_ns(),
        "enqueue_single_us": await cost(lambda: _singly(pusher, SINGLE), SINGLE, "master", "store"),
        "enqueue_bulk_us": await cost(lambda: _bulk(pusher, JOBS), JOBS, "master", "store"),
    }
    todo = SINGLE + JOBS
    async with _working(system):
        await _until_waiting(session, system, left + todo - WARM_UP)
        waiting = await _waiting(session, system)
        before = system.cpu_s()
        await _until_waiting(session, system, left + WARM_UP)
        after = system.cpu_s()
        count = waiting - await _waiting(session, system)
        spent = sum(after[kind] - before[kind] for kind in ("master", "store", "worker"))
        figures["claim_to_end_us"] = spent / count * 1e6
    # End with the same number of waiting jobs. If the worker has taken too many jobs, replace them. If it has taken too
    # few, let it run the rest.
    if (missing := left - await _waiting(session, system)) > 0:
        await _bulk(pusher, missing)
    elif missing < 0:
        async with _working(system):
            await _until_waiting(session, system, left)
    return figures


@contextlib.asynccontextmanager
async def _working(system: System) -> AsyncIterator[None]:
    worker = system.start_worker()
    try:
        yield
    finally:
        await asyncio.to_thread(system.end_worker, worker)


async def _singly(pusher: Pusher, count: int) -> None:
    numbers = iter(range(count))

    async def client() -> None:
        for _ in numbers:
            await pusher.enqueue("noop", ARGUMENT)

    await asyncio.gather(*(client() for _ in range(32)))


async def _bulk(pusher: Pusher, count: int) -> None:
    await pusher.enqueue_many({"name": "noop", "argument": ARGUMENT} for _ in range(count))


async def _waiting(session: aiohttp.ClientSession, system: System) -> int:
    async with session.get(
        f"{system.url}/api/jobs?limit=1", headers={"Accept": "application/json"}
    ) as response:
        counts: dict[str, int] = (await response.json())["counts"]
        return counts["ready"]


async def _until_waiting(session: aiohttp.ClientSession, system: System, most: int) -> None:
    async def is_so() -> bool:
        return await _waiting(session, system) <= most

    await _until(is_so)


# --- long-running jobs


async def long_jobs() -> Figures:
    """Measure what a long-running job costs in an hour, compared with the same worker without jobs: CPU time, and the
    bytes that the store appends to its file."""
    with running_system(workers=1, max_jobs=LONG_JOBS) as system:
        idle = await _spent(system)
        async with Pusher(system.url, max_wait_s=60) as pusher:
            await pusher.enqueue_many(
                {"name": "nap", "argument": HOUR_S, "timeout": 24 * HOUR_S} for _ in range(LONG_JOBS)
            )
        async with aiohttp.ClientSession(trust_env=False) as session:
            await _until_waiting(session, system, 0)
        busy = await _spent(system)
        # Kill the workers. Otherwise, the system would wait for their jobs before it ends.
        system.kill_workers()
    per_job_hour = {name: (busy[name] - idle[name]) / LONG_JOBS * HOUR_S for name in busy}
    return {
        "cpu_s_per_hour": sum(value for name, value in per_job_hour.items() if name != "file_bytes"),
        **{f"{name}_s_per_hour": value for name, value in per_job_hour.items() if name != "file_bytes"},
        "file_bytes_per_hour": per_job_hour["file_bytes"],
    }


async def _spent(system: System) -> Figures:
    """Return the costs per second."""
    before, bytes_before, from_s = system.cpu_s(), system.file_bytes(), time.monotonic()
    await asyncio.sleep(WATCHED_S)
    after, bytes_after, seconds = system.cpu_s(), system.file_bytes(), time.monotonic() - from_s
    spent = {kind: (after[kind] - before[kind]) / seconds for kind in ("master", "store", "worker")}
    return spent | {"file_bytes": (bytes_after - bytes_before) / seconds}


async def _until(is_true: Callable[[], Awaitable[bool]], timeout_s: float = 120.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not await is_true():
        if time.monotonic() > deadline_s:
            raise SystemExit("the expected state was not reached in time")
        await asyncio.sleep(0.02)
