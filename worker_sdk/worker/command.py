"""Run a command for one attempt of a job, with a process group, limits, and its output."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from worker_sdk.worker.context import Context
from worker_sdk.worker.job_log import STDERR_LEVEL, STDOUT_LEVEL, OutputLines, running_log
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.outcomes import OutOfTimeError

# The number of bytes, from the end of each output, that are kept in memory.
KEPT_BYTES: Final = 64 * 1024
# How long a command may continue after SIGTERM: this many seconds, but at most this fraction of its timeout.
KILL_AFTER_S: Final = 5.0
KILL_SHARE: Final = 0.1
_LOOK_S: Final = 0.1
_GUARD: Final = Path(__file__).with_name("command_guard.py")


class CommandNotStartedError(Exception):
    """The system did not start the command."""


class StoppedError(Exception):
    """The job was stopped, and the command with it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that the system enforces for the command.

    * `cpu_s`: CPU time.
    * `memory_mb`: address space of each process.
    * `file_mb`: size of each file that the command writes.
    """

    cpu_s: int | None = None
    memory_mb: int | None = None
    file_mb: int | None = None

    def to_wire(self) -> dict[str, int]:
        limits = {}
        if self.cpu_s is not None:
            limits["RLIMIT_CPU"] = self.cpu_s
        if self.memory_mb is not None:
            limits["RLIMIT_AS"] = self.memory_mb * 1024 * 1024
        if self.file_mb is not None:
            limits["RLIMIT_FSIZE"] = self.file_mb * 1024 * 1024
        return limits


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `code`: the exit code, or the negative number of the signal that ended it."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def how(self) -> str:
        """Return a text that says how the command ended."""
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"ended by {signal.Signals(-self.code).name}"
        return f"exit code {self.code}"


def run(
    ctx: Context, argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, limits: Limits
) -> Ended:
    """Run the command, and return how it ended. This blocks.

    Raise CommandNotStartedError or OutOfTimeError. Raise StoppedError if the job is to stop. In every case, all
    processes of the command have then ended.
    """
    total_s = ctx.remaining()
    status, status_fd = os.pipe()
    with open(status, "rb", buffering=0) as outcome:
        try:
            guard = subprocess.Popen(  # noqa: S603 - our own program, which gets an argv and never a shell
                [sys.executable, "-I", "-S", str(_GUARD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[status_fd],
                start_new_session=True,
            )
        finally:
            os.close(status_fd)
        spec = {
            "argv": list(argv),
            "env": {**os.environ, **env},
            "cwd": cwd,
            "limits": limits.to_wire(),
            "status_fd": status_fd,
        }
        with guard:
            assert guard.stdin is not None
            # When this pipe is closed, even by the death of the worker, the guard kills the command.
            with guard.stdin:
                _order(guard, json.dumps(spec).encode() + b"\n")
                return _supervise(ctx, guard, outcome, total_s)


def _supervise(ctx: Context, guard: "subprocess.Popen[bytes]", outcome: Any, total_s: float) -> Ended:
    patience_s = min(KILL_AFTER_S, total_s * KILL_SHARE)
    # Stop the command early enough to kill it and to report its end before a master starts the next attempt.
    end_s = ctx.deadline_s - 1.5 * patience_s
    kill_s: float | None = None
    is_late = is_killed = False
    told = b""
    assert guard.stdout is not None
    assert guard.stderr is not None
    outputs: dict[Any, _Output] = {
        guard.stdout: _Output(STDOUT_LEVEL),
        guard.stderr: _Output(STDERR_LEVEL),
    }
    with selectors.DefaultSelector() as selector:
        for one in (guard.stdout, guard.stderr, outcome):
            selector.register(one, selectors.EVENT_READ)
        # Wait until no process has the pipe of the outcome open, except processes that have left the group.
        while outcome in {key.fileobj for key in selector.get_map().values()}:
            now = now_s()
            if kill_s is None and (now >= end_s or ctx.cancelled):
                is_late, kill_s = now >= end_s, now + patience_s
                _order(guard, b"T")
            elif kill_s is not None and now >= kill_s and not is_killed:
                is_killed = True
                _order(guard, b"K")
            for key, _ in selector.select(_LOOK_S):
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is outcome:
                    told += piece
                else:
                    outputs[key.fileobj].take(piece)
        for key in list(selector.get_map().values()):
            outputs[key.fileobj].drain(key.fd)
    for output in outputs.values():
        output.end()
    ended: dict[str, Any] = json.loads(told) if told else {"error": "the process that guards it has ended"}
    if kill_s is not None:
        raise OutOfTimeError(round(total_s, 1)) if is_late else StoppedError("the job is to stop")
    if "error" in ended:
        raise CommandNotStartedError(ended["error"])
    return Ended(ended["code"], outputs[guard.stdout].kept, outputs[guard.stderr].kept)


class _Output:
    """An output of the command: the last bytes are kept, and the lines go to the log of the job."""

    def __init__(self, level: str) -> None:
        self._kept = bytearray()
        log = running_log.get()
        self._lines = None if log is None else OutputLines(log, level)

    def take(self, piece: bytes) -> None:
        self._kept += piece
        if len(self._kept) > KEPT_BYTES:
            del self._kept[:-KEPT_BYTES]
        if self._lines is not None:
            self._lines.feed(piece)

    def drain(self, fd: int) -> None:
        """Read the available bytes, without waiting."""
        os.set_blocking(fd, False)
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(fd, 65536):
                self.take(piece)

    def end(self) -> None:
        if self._lines is not None:
            self._lines.end()

    @property
    def kept(self) -> bytes:
        return bytes(self._kept)


def _order(guard: "subprocess.Popen[bytes]", order: bytes) -> None:
    assert guard.stdin is not None
    # The guard may have ended already.
    with contextlib.suppress(BrokenPipeError):
        # An unbuffered pipe may accept only a part of the text.
        while order:
            order = order[guard.stdin.write(order) or 0 :]
