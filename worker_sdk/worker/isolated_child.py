"""The other end of `isolated`: imports the handler, runs it once, sends its outcome."""

import asyncio
import contextlib
import importlib
import os
import runpy
import signal
import socket
import struct
import sys
import threading
from functools import reduce
from typing import Any

from worker_sdk import forked
from worker_sdk.dependencies.values import WorkerValues, with_dependencies
from worker_sdk.pusher.by_process import LazyPushers
from worker_sdk.wire import decode, encode
from worker_sdk.worker import outcomes
from worker_sdk.worker.context import Context
from worker_sdk.worker.isolated import send_frame
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.registry import ATTRIBUTE, Handler, call_async


def main(fd: int) -> None:
    connection = socket.socket(fileno=fd)
    job = decode(_receive(connection))
    # The socket ends when the worker does, however it dies: then nobody holds the lease of this job any more.
    threading.Thread(target=_die_with, args=(connection,), daemon=True).start()
    pid = os.getpid()
    outcome = _run(job)
    if os.getpid() != pid:
        forked.end_copy()
    try:
        data = encode(outcome)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        data = encode(outcomes.unsendable(exc, outcome))
    sys.stdout.flush()
    sys.stderr.flush()
    send_frame(connection, data)
    # Threads that the handler left behind have no say in when this ends.
    os._exit(0)


def _run(job: dict[str, Any]) -> outcomes.Fields:
    try:
        handler = _find(job)
    except Exception as exc:
        return outcomes.failure(
            f"the handler cannot be imported: {type(exc).__name__}: {exc}", should_retry=True
        )
    ctx = Context(
        **{field: job[field] for field in ("job_id", "name", "attempt", "fence", "headers")},
        deadline_s=now_s() + job["remaining_s"],
        pushers=LazyPushers(job["masters"], job["token"]),
    )
    try:
        return outcomes.success(_result(handler, job["argument"], ctx))
    except BaseException as exc:
        fields = outcomes.of_exception(handler, exc, ctx.attempt)
        # The worker writes the log: here nobody has set one up.
        return {**fields, "log_level": outcomes.log_level(handler, exc, fields)}


def _result(handler: Handler, argument: Any, ctx: Context) -> Any:
    if not handler.dependencies:
        if handler.is_coroutine:
            return asyncio.run(call_async(handler, argument, ctx))
        return handler.call(argument, ctx)
    values = WorkerValues()
    values.add(handler.dependencies.values())
    call = with_dependencies(
        handler.name,
        handler.function,
        handler.dependencies,
        values.values,
        is_async=handler.is_coroutine,
        takes_context=handler.takes_context,
    )
    # In this process, an attempt is the whole life of a worker.
    with asyncio.Runner() as runner:
        runner.run(values.open())
        try:
            return runner.run(call(argument, ctx)) if handler.is_coroutine else call(argument, ctx)
        finally:
            runner.run(values.close())


def _find(job: dict[str, Any]) -> Handler:
    """The handler as its module registers it. `__main__` is run under another name, so that its guard holds."""
    if job["script"] is not None:
        names = runpy.run_path(job["script"], run_name="__jq_isolated__")
    elif job["is_module_run"]:
        names = runpy.run_module(job["module"], run_name="__jq_isolated__")
    else:
        names = vars(importlib.import_module(job["module"]))
    first, *rest = job["qualname"].split(".")
    function: Any = reduce(getattr, rest, names[first])
    handler: Handler = getattr(function, ATTRIBUTE)[job["name"]]
    return handler


def _receive(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">I", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            os._exit(1)
        data += piece
    return bytes(data)


def _die_with(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.recv(1)
    os.killpg(0, signal.SIGKILL)
