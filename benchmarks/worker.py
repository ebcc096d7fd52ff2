"""Handlers that do nothing but be counted."""

import asyncio
import functools
import os
import struct
import time
from pathlib import Path
from typing import Any

from benchmarks.tasks import tasks
from worker_sdk import Challenged, Context, Worker

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


@worker.handler("challenge")
async def challenge(argument: Any, ctx: Context) -> None:
    """Opens a challenge, and notes its address; then notes the seconds since its callback was posted, whose body says
    when that was."""
    if ctx.callback is None:
        opened = await ctx.open_challenge()
        os.write(_callback_urls(), f"{opened.callback_url}\n".encode())
        raise Challenged(opened.request_id)
    waited_s = time.clock_gettime(time.CLOCK_MONOTONIC) - float(ctx.callback.body)
    os.write(_waits(), struct.pack("d", waited_s))


def callback_urls_file(waits: str) -> Path:
    """Return the file in which `challenge` notes the addresses of callbacks, a line each."""
    return Path(f"{waits}-callback-urls")


@functools.cache
def _callback_urls() -> int:
    path = callback_urls_file(os.environ["BENCH_WAITS"])
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
