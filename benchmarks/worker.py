"""The handlers of benchmarks. Most of them do nothing."""

import asyncio
import functools
import logging
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.tasks import tasks
from worker_sdk import Challenged, Context, Worker

worker = Worker(max_jobs=int(os.environ.get("BENCH_MAX_JOBS", "200")), tasks=tasks)


@worker.handler("noop")
async def noop(argument: Any) -> None:
    """Do nothing."""


@worker.handler("latency")
async def latency(argument: float) -> None:
    """Append the seconds since the push to a file. All processes of one machine share the clock. The seconds are not
    sent as a result, because reading a result for each job would be most of the load."""
    waited_s = time.clock_gettime(time.CLOCK_MONOTONIC) - argument
    os.write(_waits(), struct.pack("d", waited_s))


@functools.cache
def _waits() -> int:
    return os.open(os.environ["BENCH_WAITS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


@worker.handler("waited")
async def waited(argument: float) -> float:
    """Return the seconds since the push, by the same clock as in `latency`."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) - argument


@worker.handler("nap")
async def nap(argument: float) -> None:
    """Sleep for as many seconds as the argument says."""
    await asyncio.sleep(argument)


@worker.handler("nap50")
async def nap50(argument: Any) -> None:
    """Wait for 50 ms, like a handler that waits for a database or a server."""
    await asyncio.sleep(0.05)


@worker.handler("challenge")
async def challenge(argument: Any, ctx: Context) -> None:
    """In the first run, open a challenge, and append its callback URL to a file. In the second run, append the seconds
    since the post of the callback to another file. The body of the callback has the time of the post."""
    if ctx.callback is None:
        opened = await ctx.open_challenge()
        os.write(_callback_urls(), f"{opened.callback_url}\n".encode())
        raise Challenged(opened.request_id)
    waited_s = time.clock_gettime(time.CLOCK_MONOTONIC) - float(ctx.callback.body)
    os.write(_waits(), struct.pack("d", waited_s))


TICK_S: Final = 0.01
TEXT: Final = "row %d of 1,000,000 has been imported"
JOB_LOGGER: Final = logging.getLogger("worker_sdk.job")


@worker.handler("lines")
async def lines(argument: dict[str, Any], ctx: Context) -> None:
    """Write `rate` log lines a second for `seconds`; the argument has both. The values of `way` are:

    * `silent`: write nothing.
    * `null`: write lines to a logger that drops them.
    * `stream`: write lines to a logger that writes them to a file.
    * `context`: write lines to `ctx.logger`.
    * `loggers`: write lines to another logger.
    * `shown`: write lines to `ctx.logger`, and also to the log of the worker.
    """
    way = argument["way"]
    JOB_LOGGER.setLevel(logging.INFO if way == "shown" else logging.WARNING)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):  # writes the worker's own log
            handler.setLevel(logging.NOTSET if way == "shown" else logging.WARNING)
    write = _writer(way, ctx)
    a_tick = int(argument["rate"] * TICK_S)
    began_s = time.monotonic()
    for tick in range(int(argument["seconds"] / TICK_S)):
        if write is not None:
            for number in range(tick * a_tick, (tick + 1) * a_tick):
                write(TEXT, number)
        # If the machine is too slow, do not write more lines later to make up for the delay.
        await asyncio.sleep(max(0.0, min(TICK_S, began_s + (tick + 1) * TICK_S - time.monotonic())))


def _writer(way: str, ctx: Context) -> Callable[..., None] | None:
    match way:
        case "silent":
            return None
        case "context" | "shown":
            return ctx.logger.info
        case "loggers":
            return logging.getLogger("benchmarks.lines").info
    return _apart(way).info


@functools.cache
def _apart(way: str) -> logging.Logger:
    found = logging.getLogger(f"benchmarks.{way}")
    found.propagate = False
    found.addHandler(logging.NullHandler() if way == "null" else logging.FileHandler(os.devnull))
    return found


def callback_urls_file(waits: str) -> Path:
    """Return the file to which the handler `challenge` writes the callback URLs, one per line."""
    return Path(f"{waits}-callback-urls")


@functools.cache
def _callback_urls() -> int:
    path = callback_urls_file(os.environ["BENCH_WAITS"])
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
