"""`make bench`: JSON lines on standard output, a table at the end. `--only NAME` runs one."""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aiohttp
import msgpack
from rich.console import Console
from rich.table import Table

from benchmarks import constraints, fleet, masters, pull
from benchmarks.load import System, loop_ns, running_system
from worker_sdk import Pusher

JOBS = 20_000
ARGUMENT = "x" * 98  # 100 bytes as MessagePack
Figures = dict[str, float]


async def end_to_end() -> Figures:
    """20,000 no-op jobs, bulk-enqueued while one worker works."""
    return await _end_to_end()


async def _end_to_end(*, pull: bool = False) -> Figures:
    with running_system(pull=pull) as system:
        await _drain(system, 2_000)
        cpu, began = system.cpu_s(), time.monotonic()
        await _drain(system, JOBS)
        return _per_job(system, cpu, time.monotonic() - began, JOBS)


async def enqueue_single() -> Figures:
    """Single POSTs from 32 connections, no worker."""
    with running_system(workers=0) as system:
        return await _enqueue_single(system, 10_000, connections=32)


async def enqueue_bulk() -> Figures:
    """Bulk enqueue by the SDK, no worker."""
    with running_system(workers=0) as system:
        cpu, began = system.cpu_s(), time.monotonic()
        async with Pusher(system.url) as pusher:
            await pusher.enqueue_many({"name": "noop", "argument": ARGUMENT} for _ in range(JOBS))
        return _per_job(system, cpu, time.monotonic() - began, JOBS)


async def latency() -> Figures:
    """Enqueue to handler start at a steady 100 jobs/s."""
    return await _latency(rate=100, seconds=10)


async def latency_pull() -> Figures:
    """The same to a worker that pulls."""
    return await _latency(rate=100, seconds=10, pull=True)


async def end_to_end_pull() -> Figures:
    """As end_to_end, with a worker that pulls."""
    return await _end_to_end(pull=True)


async def memory() -> Figures:
    """Store bytes of a waiting job with a 100-byte argument, at 100,000."""
    count = 100_000
    with running_system(workers=0) as system:
        before = system.store.memory_info().rss
        async with Pusher(system.url) as pusher:
            await pusher.enqueue_many({"name": "noop", "argument": ARGUMENT} for _ in range(count))
        return {"rss_bytes_per_job": (system.store.memory_info().rss - before) / count}


async def _drain(system: System, count: int) -> None:
    async with Pusher(system.url) as pusher, aiohttp.ClientSession() as session:
        done = await _succeeded(session, system.url)
        await pusher.enqueue_many({"name": "noop", "argument": ARGUMENT} for _ in range(count))
        while await _succeeded(session, system.url) < done + count:
            await asyncio.sleep(0.02)


async def _succeeded(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(
        f"{url}/api/jobs?limit=1&state=succeeded", headers={"Accept": "application/json"}
    ) as response:
        return int((await response.json())["counts"]["succeeded"])


async def _enqueue_single(system: System, count: int, *, connections: int) -> Figures:
    body = msgpack.packb({"name": "noop", "argument": ARGUMENT})
    headers = {"Content-Type": "application/msgpack"}
    waits: list[float] = []
    left = iter(range(count))
    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def push() -> None:
            for _ in left:
                began = time.monotonic()
                async with session.post(f"{system.url}/api/jobs", data=body, headers=headers) as response:
                    assert response.status == 201, await response.read()
                    await response.read()
                waits.append(time.monotonic() - began)

        cpu, began = system.cpu_s(), time.monotonic()
        await asyncio.gather(*(push() for _ in range(connections)))
        return _per_job(system, cpu, time.monotonic() - began, count) | _quantiles("ms", waits)


async def _latency(*, rate: int, seconds: int, pull: bool = False) -> Figures:
    waits: list[float] = []
    with running_system(pull=pull) as system:
        async with Pusher(system.url) as pusher:

            async def one() -> None:
                pushed = time.clock_gettime(time.CLOCK_MONOTONIC)
                job_id = await pusher.enqueue("latency", pushed, keep_result=True)
                result = await pusher.result(job_id, wait=30)
                assert result
                waits.append(result.result)

            for _ in range(20):
                await one()
            waits.clear()
            tasks = []
            began = time.monotonic()
            for n in range(rate * seconds):
                await asyncio.sleep(max(0.0, began + n / rate - time.monotonic()))
                tasks.append(asyncio.create_task(one()))
            await asyncio.gather(*tasks)
    return {"rate_per_s": float(rate)} | _quantiles("ms", waits)


def _per_job(system: System, before: dict[str, float], seconds: float, count: int) -> Figures:
    after = system.cpu_s()
    split = {f"{kind}_us": (after[kind] - before[kind]) / count * 1e6 for kind in after}
    return {"jobs_per_s": count / seconds, "cpu_us_per_job": sum(split.values()), **split}


def _quantiles(unit: str, seconds: Sequence[float]) -> Figures:
    cuts = statistics.quantiles(seconds, n=100)
    return {
        f"p50_{unit}": cuts[49] * 1000,
        f"p99_{unit}": cuts[98] * 1000,
        f"max_{unit}": max(seconds) * 1000,
    }


async def machine() -> Figures:
    """How fast this machine is at this moment: CPU time of a fixed loop. Shared machines vary by half; compare by it."""
    return {"loop_ns": loop_ns()}


BENCHMARKS: dict[str, Callable[[], Awaitable[Figures]]] = {
    "machine": machine,
    "end_to_end": end_to_end,
    "enqueue_single_32": enqueue_single,
    "enqueue_bulk": enqueue_bulk,
    "latency_100": latency,
    "memory_100k": memory,
    "five_constraints": constraints.five_constraints,
    "distinct_keys": constraints.distinct_keys,
    "blocked_in_front": constraints.blocked_in_front,
    "blocked_keys_in_front": constraints.blocked_keys_in_front,
    "change_under_load": constraints.change_under_load,
    "key_memory": constraints.key_memory,
    "takeover": masters.takeover,
    "heartbeats_500": fleet.heartbeats_500,
    "million_waiting": fleet.million_waiting,
    "long_jobs": fleet.long_jobs,
    "end_to_end_pull": end_to_end_pull,
    "latency_100_pull": latency_pull,
    "pull_idle": pull.idle,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "--only", choices=BENCHMARKS, action="append", help="run only this one; may be repeated"
    )
    parser.add_argument("--runs", type=int, default=1, help="runs of each; the median of each figure is told")
    options = parser.parse_args()
    table = Table(title=f"median of {options.runs} run(s), appendfsync always")
    table.add_column("benchmark")
    table.add_column("figures")
    for name in options.only or BENCHMARKS:
        runs = [asyncio.run(_figures(name)) for _ in range(options.runs)]
        median: dict[str, Any] = {
            key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]
        }
        print(json.dumps({"benchmark": name, "runs": options.runs, **median}), flush=True)
        table.add_row(name, "  ".join(f"{key} {value:g}" for key, value in median.items()))
    Console(stderr=True, width=160).print(table)


async def _figures(name: str) -> Figures:
    return await BENCHMARKS[name]()


if __name__ == "__main__":
    main()
