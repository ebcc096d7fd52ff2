"""The process between a worker and an isolated handler: it ends all that the handler has started, also when the worker
dies.

It forks the process of the handler before anything large is imported, and takes over what that process forks away. Its
standard input is a pipe that the worker holds open. It ends as the process of the handler ended.
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
    """Return only in the process of the handler."""
    command_guard.become_reaper()
    guard = os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _begin(guard)
        return
    os.close(fd)
    # A supervisor may tell all processes to end. This one ends with the handler, and that one with the worker.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    command_guard.let_go_of_outputs()
    command_guard.supervise(child)
    command_guard.kill_family(child)
    _, status = os.waitpid(child, 0)
    _end_as(os.waitstatus_to_exitcode(status))


def _begin(guard: int) -> None:
    os.setsid()
    # The pipe of the worker is the guard's.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # Without its guard nobody could end what it starts.
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
