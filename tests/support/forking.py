"""Run work in a forked test process and return its result."""

import contextlib
import ctypes
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Final


def with_hooks() -> int:
    return os.fork()


def without_hooks() -> int:
    """Fork as a server written in C may: without the functions that Python modules have registered."""
    # A server in C forks before it has threads. Here, another thread may request the interpreter's lock. The child does
    # not have that thread, and would wait for ever for it to take the lock.
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(5.0)
    try:
        # Current waiters give up after the former interval.
        time.sleep(2 * interval_s)
        return int(ctypes.PyDLL(None).fork())
    finally:
        sys.setswitchinterval(interval_s)


# A child that lives asks at once. On a busy machine, that takes less than this.
ALIVE_WITHIN_S: Final = 5.0
MAX_FORKS: Final = 5
FORKS: Final[dict[str, Callable[[], int]]] = {"os.fork": with_hooks, "fork(2)": without_hooks}


class Child:
    """Run `work` in a forked process that then ends without cleanup."""

    def __init__(self, work: Callable[[], Any], fork: Callable[[], int] = with_hooks) -> None:
        self.pid, self._reader = _forked(work, fork)

    def result(self, timeout_s: float = 60.0) -> Any:
        """Return the result of `work`. Raise AssertionError with its traceback if it raised or does not end."""
        has_answered, _, _ = select.select([self._reader], [], [], timeout_s)
        if not has_answered:
            os.kill(self.pid, signal.SIGKILL)
        with os.fdopen(self._reader, "rb") as pipe:
            data = pipe.read()
        os.waitpid(self.pid, 0)
        assert has_answered, "the forked process does not end"
        assert data, "the forked process died"
        is_good, value = pickle.loads(data)
        assert is_good, value
        return value


def _forked(work: Callable[[], Any], fork: Callable[[], int]) -> tuple[int, int]:
    """Return the ID of a process that has begun `work`, and the pipe with its result.

    A busy machine may stop a thread of this process for longer than `without_hooks` waits. The child then hangs before
    it does anything, which a server without threads cannot bring about. So a child starts to work only when told, and a
    child of `without_hooks` that does not ask for work is replaced.
    """
    forks = MAX_FORKS if fork is without_hooks else 1
    for _ in range(forks):
        (asked, ask), (told, tell), (reader, writer) = os.pipe(), os.pipe(), os.pipe()
        pid = fork()
        if pid == 0:
            try:
                os.close(tell)
                os.write(ask, b"?")
                if os.read(told, 1):
                    _work(work, writer)
            finally:
                os._exit(0)
        for end in (ask, told, writer):
            os.close(end)
        is_alive, _, _ = select.select([asked], [], [], ALIVE_WITHIN_S)
        if is_alive:
            os.write(tell, b"!")
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reader)
        os.close(asked)
        os.close(tell)
        if is_alive:
            return pid, reader
    raise AssertionError(f"{forks} forked processes hung before they did anything")


def _work(work: Callable[[], Any], writer: int) -> None:
    """Write the result of `work`."""
    try:
        ending = (True, work())
    except BaseException:
        ending = (False, traceback.format_exc())
    with contextlib.suppress(BaseException), os.fdopen(writer, "wb") as pipe:
        pickle.dump(ending, pipe)
