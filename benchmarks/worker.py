"""Handlers that do nothing but be counted."""

import asyncio
import functools
import os
import struct
import time
from typing import Any

from benchmarks.tasks import tasks
from worker_sdk import Worker

worker = Worker(max_jobs=int(os.environ.get("BENCH_MAX_JOBS", "200")), tasks=tasks)


@worker.handler("noop")
async def noop(argument: Any) -> None:
    """Nothing."""


@worker.handler("latency")
async def latency(argument: float) -> None:
    """Notes the seconds since the push, by a clock that all processes of one machine share. In a file: to fetch a
    result for each job would be most of the load."""
    waited_s = time.clock_gettime(time.CLOCK_MONOTONIC) - argument
    os.write(_waits(), struct.pack("d", waited_s))


@functools.cache
def _waits() -> int:
    return os.open(os.environ["BENCH_WAITS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


@worker.handler("waited")
async def waited(argument: float) -> float:
    """Gives the seconds since the push, by the same clock."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) - argument


@worker.handler("nap")
async def nap(argument: float) -> None:
    """Takes so many seconds, and nothing else."""
    await asyncio.sleep(argument)


@worker.handler("nap50")
async def nap50(argument: Any) -> None:
    """Waits for 50 ms, as handlers wait for a database or a server."""
    await asyncio.sleep(0.05)
