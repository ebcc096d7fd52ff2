"""End a process in which handlers still run. Hand back their jobs only when the handlers certainly no longer run.

A thread cannot be ended, but its process can. So another program reports the hand-back. That program either replaces
this process (`exec` ends all other threads at once), or waits for its end. A replacement keeps the process ID, so it
also works for the first process of a container.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from worker_sdk.environment import tls_files_of_calls
from worker_sdk.worker.report_queue import HEAD, batches_of

# How long reports are repeated while no master answers.
TELL_WITHIN_S: Final = 10.0
# Read the program when the worker starts, because a deploy may replace the file before the process ends.
_PROGRAM: Final = Path(__file__).with_name("farewell_process.py").read_text()
_START: Final = "import json; f = open({fd}); order = json.loads(f.readline()); exec(f.read()); main(order)"


@dataclass(frozen=True, slots=True)
class LeftReports:
    """The remaining reports about the jobs of one worker ID, to send after its process has ended.

    * `headers`: sent with each call.
    * `reports`: encoded items of the report queue.
    * `is_announced`: masters know that the process is ending.
    """

    masters: Sequence[str]
    headers: Mapping[str, str]
    worker_id: str
    reports: Sequence[bytes]
    is_announced: bool

    def as_order(self) -> dict[str, Any]:
        return {
            "masters": list(self.masters),
            "headers": dict(self.headers),
            "worker_id": self.worker_id,
            "is_announced": self.is_announced,
            "batches": [[_text(one) for one in batch] for batch in batches_of(self.reports)],
        }


@dataclass(frozen=True, slots=True)
class Farewell:
    """The remaining reports of a worker, for each of its IDs. `threads`: the system's IDs of the handlers' threads."""

    left: Sequence[LeftReports]
    threads: Sequence[int]

    def replace_process(self, exit_code: int) -> NoReturn:
        """Replace this process by a process that reports the end of the worker, and then exits with `exit_code`."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        children = [pid for thread in self.threads for pid in _children_of(thread)]
        fd = self._written(parent=None, children=children, exit_code=exit_code)
        os.set_inheritable(fd, True)
        # A deploy may have removed the interpreter of the virtual environment. The kernel keeps the running program.
        for program in (sys.executable, "/proc/self/exe"):
            try:
                os.execv(program, _arguments(fd))  # noqa: S606 - our own program
            except OSError as exc:
                failure = exc
        sys.stderr.write(f"the jobs of this worker are not handed back: {failure}\n")
        os._exit(exit_code)

    def follow_process(self) -> "subprocess.Popen[bytes]":
        """Start a process that waits for the end of this process, and then sends the reports. Raise OSError if it
        cannot be started."""
        fd = self._written(parent=os.getpid(), children=[], exit_code=0)
        try:
            return subprocess.Popen(  # noqa: S603 - our own program
                _arguments(fd), stdin=subprocess.DEVNULL, pass_fds=[fd], start_new_session=True
            )
        finally:
            os.close(fd)

    def _written(self, *, parent: int | None, children: list[int], exit_code: int) -> int:
        """Return a descriptor. The new process reads its instructions and its program from it."""
        files = tls_files_of_calls()
        order = {
            "workers": [one.as_order() for one in self.left],
            "head": _text(HEAD),
            "tls": files and [str(one) if one else None for one in files],
            "parent": parent,
            "children": children,
            "within_s": TELL_WITHIN_S,
            "exit_code": exit_code,
        }
        fd = _memory_file()
        with os.fdopen(os.dup(fd), "w") as file:
            file.write(json.dumps(order) + "\n" + _PROGRAM)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("jqmaster-farewell")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _children_of(thread: int) -> list[int]:
    """Return the processes that a thread of this process has started. The list is empty if the system does not list
    them."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{thread}/children").read_text().split()]
    except (OSError, ValueError):
        return []


def _arguments(fd: int) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _START.format(fd=fd)]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
