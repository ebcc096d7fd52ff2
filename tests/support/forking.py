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
    # Such a server forks before it has threads. Here another thread may request the interpreter's lock, and the child
    # would wait for ever for that thread, which it does not have, to take it.
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(5.0)
    try:
        # Current waiters give up after the former interval.
        time.sleep(2 * interval_s)
        return int(ctypes.PyDLL(None).fork())
    finally:
        sys.setswitchinterval(interval_s)


FORKS: Final[dict[str, Callable[[], int]]] = {"os.fork": with_hooks, "fork(2)": without_hooks}


class Child:
    """Run `work` in a forked process that then ends without cleanup."""

    def __init__(self, work: Callable[[], Any], fork: Callable[[], int] = with_hooks) -> None:
        reader, writer = os.pipe()
        self.pid = fork()
        if self.pid == 0:
            try:
                ending = (True, work())
            except BaseException:
                ending = (False, traceback.format_exc())
            with contextlib.suppress(BaseException), os.fdopen(writer, "wb") as pipe:
                pickle.dump(ending, pipe)
            os._exit(0)
        os.close(writer)
        self._reader = reader

    def result(self, timeout_s: float = 20.0) -> Any:
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
