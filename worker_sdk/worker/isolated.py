"""Run one attempt in a separate process. When this process or the worker ends, all processes that it has started end,
too."""

import contextlib
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from worker_sdk import forked
from worker_sdk.wire import DecodeError, decode, encode
from worker_sdk.worker.job_log import LogLines
from worker_sdk.worker.output import OutputReader
from worker_sdk.worker.registry import FunctionOrigin

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
# How long the guard may take to kill all processes that the handler has started.
_GUARD_S: Final = 30.0
# The key in a frame that contains a report. A frame without it contains the outcome.
REPORT: Final = "report"


class ProcessDiedError(Exception):
    """The process ended without an outcome."""


class IsolatedProcess:
    """A process for one attempt, which the constructor starts. Call `kill` from any thread, and the other methods from
    the one thread that waits.

    This class does not depend on the event loop, so that a handler which blocks the loop cannot prevent another handler
    from being killed.
    """

    def __init__(
        self,
        origin: FunctionOrigin,
        job: dict[str, Any],
        on_report: Callable[[dict[str, Any]], None],
        log: LogLines | None = None,
    ) -> None:
        """Start the process. `log`: receives the output of the process, which also goes to the output of this
        process."""
        ours, theirs = socket.socketpair()
        # Use -c and not -m: this process may find the package only because its sys.path was changed, so pass on
        # sys.path.
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; from worker_sdk.worker.isolated_guard import main; "
            f"main({theirs.fileno()}); from worker_sdk.worker.isolated_child import main; main({theirs.fileno()})"
        )
        output = None if log is None else OutputReader(log)
        with theirs, contextlib.nullcontext() if output is None else output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program; the job comes by the socket
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=None if output is None else output.stdout,
                stderr=None if output is None else output.stderr,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._output = output
        self._lock = threading.Lock()
        self._socket = ours
        self._sending = threading.Lock()
        self._on_report = on_report
        self._received = bytearray()
        self._job = encode(
            {
                **job,
                "module": origin.module,
                "qualname": origin.qualname,
                "script": origin.script,
                "is_module_run": origin.is_module_run,
            }
        )
        self._is_sent = False
        forked.renew_in_child(self)

    def renew(self) -> None:
        # Another handler forked this process. Close the copy of the socket here: it would keep the child of this
        # handler alive after the worker dies.
        self._socket.close()
        self._let_go()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, timeout_s: float) -> dict[str, Any] | None:
        """Wait up to `timeout_s`. Return the outcome, or None if it is not known yet. Pass on the reports that have
        arrived. Raise ProcessDiedError if the process ended without an outcome."""
        try:
            if not self._is_sent:
                self._is_sent = True
                self._socket.settimeout(None)
                send_frame(self._socket, self._job)
                self._job = b""
            # Use a timeout and not select(), which accepts no descriptor above 1023; a web application may have more.
            self._socket.settimeout(max(timeout_s, 0.001))
            piece = self._socket.recv(1 << 20)
        except TimeoutError:
            return None
        except OSError:
            piece = b""
        self._received += piece
        if not piece:
            # The process has closed the connection before its outcome was complete. (A complete outcome would have been
            # found when its last piece arrived.)
            raise ProcessDiedError(_exit_text(self._reap()))
        while (frame := self._next_frame()) is not None:
            if REPORT not in frame:
                return frame
            self._on_report(frame[REPORT])
        return None

    def _next_frame(self) -> dict[str, Any] | None:
        if len(self._received) < 4:
            return None
        (size,) = struct.unpack_from(">I", self._received)
        if size > MAX_FRAME_BYTES:
            raise ProcessDiedError("its result is too large")
        if len(self._received) < 4 + size:
            return None
        try:
            frame = decode(bytes(self._received[4 : 4 + size]))
        except DecodeError as exc:
            raise ProcessDiedError(f"its result cannot be read: {exc}") from None
        if not isinstance(frame, dict):
            raise ProcessDiedError("its result has an unexpected form")
        del self._received[: 4 + size]
        return frame

    def saved(
        self,
        number: int,
        error: str | None,
        answer: Mapping[str, Any] | None = None,
    ) -> None:
        """Send the handler the outcome of its checkpoint, partial result or challenge with this number. Any thread may
        call this method."""
        told = {
            "number": number,
            "error": error,
            "answer": None if answer is None else dict(answer),
        }
        with self._sending, contextlib.suppress(OSError):
            send_frame(self._socket, encode(told))

    def kill(self) -> None:
        """Let the guard kill the process and all processes that it has started."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        # The guard kills the process of the handler when this pipe is closed.
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """Kill the process if necessary, and reap it."""
        self._reap()
        self._socket.close()
        if self._output is not None:
            self._output.end()

    def _reap(self) -> int:
        with self._lock:
            self._let_go()
            try:
                return self._process.wait(_GUARD_S)
            except subprocess.TimeoutExpired:
                # Someone has suspended the guard, so kill it. The process of the handler is killed when its guard ends.
                self._process.kill()
                return self._process.wait()


def send_frame(connection: socket.socket, data: bytes) -> None:
    connection.sendall(struct.pack(">I", len(data)) + data)


def _exit_text(returncode: int) -> str:
    if returncode < 0:
        with contextlib.suppress(ValueError):
            return f"the process of the handler was ended by {signal.Signals(-returncode).name}"
    return f"the process of the handler ended with status {returncode}"
