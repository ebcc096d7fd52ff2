"""A pytest plugin that ends a run that takes too long, and names the tests that run at that moment.

A continuous-integration service ends such a run too, but then nobody learns where it stood.
"""

import faulthandler
import os
import sys
import threading
import time
from typing import Final

import psutil
import pytest

# Twenty minutes are usual on two quiet cores. Many services end a run after 90, with installation and checks.
LIMIT_S: Final = 70 * 60.0
VARIABLE: Final = "JQMASTER_TEST_LIMIT_S"
# The exit code of a run that took too long.
TOO_LONG: Final = 11


def pytest_configure(config: pytest.Config) -> None:
    # The processes of pytest-xdist end with the one that started them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunLimit(limit_s()))


def limit_s() -> float:
    return float(os.environ.get(VARIABLE, LIMIT_S))


class RunLimit:
    """Watches the run from a thread, because the main thread may be the one that hangs."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._begun_s = time.monotonic()
        self._running: dict[str, float] = {}
        self._ended = 0
        self._stderr = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)
        self._timer = threading.Timer(limit_s, self._end)
        self._timer.daemon = True

    def pytest_sessionstart(self) -> None:
        self._timer.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if self._running.pop(nodeid, None) is not None:
            self._ended += 1

    def pytest_unconfigure(self) -> None:
        self._timer.cancel()
        os.close(self._stderr)

    def _end(self) -> None:
        now_s = time.monotonic()
        running = sorted(self._running.items(), key=lambda one: one[1])
        if not running:
            faulthandler.dump_traceback(self._stderr)
        lines = [
            f"\nThis run is ended: it took more than {self._limit_s / 60:.0f} minutes ({VARIABLE} changes that).",
            f"{self._ended} tests have ended. "
            + ("These run:" if running else "None runs; the stacks above tell why."),
            *(f"  {nodeid} for {now_s - since_s:.0f} s" for nodeid, since_s in running),
        ]
        # Otherwise, the other processes of the run would write afterwards that nobody listens to them any more.
        for process in psutil.Process().children():
            process.kill()
        os.write(self._stderr, ("\n".join(lines) + "\n").encode())
        os._exit(TOO_LONG)
