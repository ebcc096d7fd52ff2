"""Handlers for tests with processes. Each start and end goes to the worker's own file, an oracle outside the system."""

import asyncio
import os
import signal
import time
from typing import Any

from worker_sdk import Context, Worker

worker = Worker(
    max_jobs=int(os.environ.get("MAX_JOBS", "10")), grace_s=float(os.environ.get("GRACE_S", "25"))
)
_journal = os.open(os.environ.get("JOURNAL", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def note(what: str, ctx: Context) -> None:
    # One write(2) to an O_APPEND file keeps lines whole, even under SIGKILL.
    os.write(_journal, f"{what} {ctx.job_id} {ctx.attempt} {time.monotonic()}\n".encode())


@worker.handler("echo")
async def echo(argument: Any, ctx: Context) -> Any:
    note("start", ctx)
    note("end", ctx)
    return argument


@worker.handler("nap")
async def nap(argument: float, ctx: Context) -> float:
    note("start", ctx)
    await asyncio.sleep(argument)
    note("end", ctx)
    return argument


@worker.handler("hold")
async def hold(argument: str, ctx: Context) -> None:
    """Run until this file exists."""
    note("start", ctx)
    while not os.path.exists(argument):
        await asyncio.sleep(0.05)
    note("end", ctx)


@worker.handler("fail")
async def fail(argument: int, ctx: Context) -> str:
    """Fail `argument` times."""
    note("start", ctx)
    if ctx.attempt <= argument:
        raise RuntimeError(f"attempt {ctx.attempt}")
    note("end", ctx)
    return "done"


@worker.handler("block")
async def block(argument: float, ctx: Context) -> None:
    """Block the event loop, as careless handlers do."""
    note("start", ctx)
    time.sleep(argument)
    note("end", ctx)


@worker.handler("block.thread")
def block_thread(argument: list[str]) -> None:
    """Block the thread until the second file exists. Meanwhile write the process ID to the first one."""
    ticks, may_end = argument
    file = os.open(ticks or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while not os.path.exists(may_end):
        os.write(file, f"{os.getpid()}\n".encode())
        time.sleep(0.01)


@worker.handler("die")
async def die(argument: Any, ctx: Context) -> None:
    """End by itself, or as when the kernel kills a process that uses too much memory."""
    note("start", ctx)
    if argument == "memory":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(9)


@worker.handler("spawn")
async def spawn(argument: int, ctx: Context) -> list[str]:
    """Enqueue jobs from within a job."""
    return [await ctx.enqueue("echo", n, keep_result=True) for n in range(argument)]
