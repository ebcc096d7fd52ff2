"""The process between a worker and an isolated handler. It ends all processes that the handler has started, even when
the worker dies.

It forks the process of the handler before anything large is imported, and adopts the orphans of that process. Its
standard input is a pipe that the worker keeps open. It ends with the exit code of the process of the handler.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys

from worker_sdk.worker import command_guard

_PR_SET_PDEATHSIG = 1


def main(fd: int) -> None:
    """Fork the process of the handler, and return only in that process."""
    command_guard.become_reaper()
    guard = os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _begin(guard)
        return
    os.close(fd)
    # Ignore these signals, which a supervisor may send to all processes. The guard must end after the handler's
    # process, and that process ends with the worker.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    command_guard.let_go_of_outputs()
    command_guard.supervise(child)
    command_guard.kill_family(child)
    _, status = os.waitpid(child, 0)
    _end_as(os.waitstatus_to_exitcode(status))


def _begin(guard: int) -> None:
    os.setsid()
    # Replace standard input: only the guard may hold the worker's pipe.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # Let the kernel kill this process if the guard dies, because nothing else could end the processes that the handler
    # starts.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != guard:
        os._exit(1)


def _end_as(code: int) -> None:
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
