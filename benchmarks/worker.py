"""Handlers that do nothing but be counted."""

import asyncio
import os
import time
from typing import Any

from worker_sdk import Worker

worker = Worker(max_jobs=int(os.environ.get("BENCH_MAX_JOBS", "200")))


@worker.handler("noop")
async def noop(argument: Any) -> None:
    """Nothing."""


@worker.handler("latency")
async def latency(argument: float) -> float:
    """Seconds from the push, by a clock that all processes of one machine share."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) - argument


@worker.handler("nap")
async def nap(argument: float) -> None:
    """Takes so many seconds, and nothing else."""
    await asyncio.sleep(argument)


@worker.handler("nap50")
async def nap50(argument: Any) -> None:
    """Waits for 50 ms, as handlers wait for a database or a server."""
    await asyncio.sleep(0.05)
