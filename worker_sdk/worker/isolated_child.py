"""The child's side of `isolated`: import the handler, run it once, and send its outcome."""

import asyncio
import contextlib
import importlib
import itertools
import os
import runpy
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import reduce
from typing import TYPE_CHECKING, Any

from worker_sdk import forked
from worker_sdk.dependencies.values import WorkerValues, with_dependencies
from worker_sdk.errors import CheckpointNotSaved, PartNotKept, UnavailableError
from worker_sdk.pusher.by_process import LazyPushers
from worker_sdk.transport.standard_streams import escape_unencodable
from worker_sdk.wire import decode, encode
from worker_sdk.worker import job_log, outcomes
from worker_sdk.worker.context import Context
from worker_sdk.worker.isolated import REPORT, send_frame
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.names import ATTRIBUTE
from worker_sdk.worker.registry import Handler, call_async

if TYPE_CHECKING:
    from worker_sdk.worker.observations import ObservedRoom


def main(fd: int) -> None:
    escape_unencodable()
    connection = socket.socket(fileno=fd)
    job = decode(_receive(connection))
    # Listen in a thread: when the socket closes, the worker has ended and renews the lease of this job no longer.
    reports = ParentReports(connection)
    threading.Thread(target=reports.listen, daemon=True).start()
    pid = os.getpid()
    outcome = _run(job, reports)
    if os.getpid() != pid:
        forked.end_copy()
    try:
        data = encode(outcome)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        data = encode(outcomes.unsendable(exc, outcome))
    sys.stdout.flush()
    sys.stderr.flush()
    reports.send(data)
    # Exit at once, without waiting for threads that the handler has started.
    os._exit(0)


def _run(job: dict[str, Any], reports: "ParentReports") -> outcomes.Fields:
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
        reports=reports,
        token="",
        checkpoint=job["checkpoint"],
        batch=job["batch"],
        callbacks=job["callbacks"],
        challenges=reports,
        inputs=job["inputs"],
        log=_log_of(job, reports),
    )
    try:
        return outcomes.success(_result(handler, job["argument"], ctx))
    except BaseException as exc:
        if (checkpoint := ctx.take_unsaved()) is not None:
            # Save the checkpoint: the next attempt continues from it.
            with contextlib.suppress(CheckpointNotSaved):
                reports.save("", checkpoint).result()
        fields = outcomes.of_exception(handler, exc, ctx.attempt)
        if handler.seal is not None:
            fields = handler.seal.sealed_failure(fields, ctx.job_id)
        # Let the worker log the failure at this level: this process has no logging set up.
        return {**fields, "log_level": outcomes.log_level(handler, exc, fields)}


def _log_of(job: dict[str, Any], reports: "ParentReports") -> "ParentLog | None":
    """Return the log of the job. From now on, records of all loggers go to it. If the module of the handler has set up
    logging to an output, the records arrive as lines of that output, in the module's format."""
    if not job["has_log"]:
        return None
    log = ParentLog(reports)
    if not job_log.is_output_logged():
        job_log.running_log.set(log)
        job_log.install(log)
    return log


class ParentLog:
    """The log of the job. Its lines are sent through the worker."""

    def __init__(self, reports: "ParentReports") -> None:
        self._reports = reports

    def write(self, at_s: float, level: str, text: str) -> None:
        # Replace characters that cannot be encoded, which occur in undecodable file names.
        text = job_log.cut(text).encode(errors="replace").decode()
        self._reports.send(encode({REPORT: {"line": [at_s, level, text]}}))


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
    # Make the worker's values here, because this process runs only one attempt.
    with asyncio.Runner() as runner:
        runner.run(values.open())
        try:
            return runner.run(call(argument, ctx)) if handler.is_coroutine else call(argument, ctx)
        finally:
            runner.run(values.close())


def _find(job: dict[str, Any]) -> Handler:
    """Import the module of the handler, and return the handler that it registers. `__main__` is imported with another
    name, so that code under `if __name__ == "__main__"` does not run."""
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
            raise EOFError
        data += piece
    return bytes(data)


class ParentReports:
    """Sends reports through the worker, which answers when a checkpoint is saved."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        # By the number of a call: its future, and the class of the error to raise if the call is refused.
        self._waiting: dict[int, tuple[Future[Any], type[Exception]]] = {}
        self._numbers = itertools.count()

    def send(self, data: bytes) -> None:
        with self._sending:
            send_frame(self._connection, data)

    def add_progress(self, token: str, fraction: float | None, message: str) -> None:
        self.send(encode({REPORT: {"fraction": fraction, "message": message}}))

    def add_used(self, token: str, used: Mapping[str, float]) -> None:
        self.send(encode({REPORT: {"used": dict(used)}}))

    def observe(self, token: str, observation: "ObservedRoom") -> None:
        self.send(encode({REPORT: {"observed": observation.fields()}}))

    def save(self, token: str, checkpoint: bytes) -> "Future[None]":
        return self._ask("checkpoint", checkpoint, CheckpointNotSaved)

    def emit(self, job_id: str, token: str, value: bytes, deadline_s: float) -> "Future[None]":
        return self._ask("part", value, PartNotKept)

    def open(
        self, job_id: str, token: str, fields: Mapping[str, Any], deadline_s: float
    ) -> "Future[Mapping[str, Any]]":
        return self._ask("challenge", dict(fields), UnavailableError)

    def _ask(self, what: str, value: Any, error: type[Exception]) -> "Future[Any]":
        asked: Future[Any] = Future()
        asked.set_running_or_notify_cancel()
        number = next(self._numbers)
        self._waiting[number] = (asked, error)
        self.send(encode({REPORT: {"number": number, what: value}}))
        return asked

    def listen(self) -> None:
        """Receive the outcomes of checkpoints, partial results and challenges until the worker dies. If it dies, end
        this process, because no worker renews the lease of the job any more."""
        try:
            while True:
                (size,) = struct.unpack(">I", _exactly(self._connection, 4))
                answer = decode(_exactly(self._connection, size))
                asked, error = self._waiting.pop(answer["number"])
                if answer["error"] is None:
                    asked.set_result(answer["answer"])
                else:
                    asked.set_exception(error(answer["error"]))
        finally:
            os.killpg(0, signal.SIGKILL)
