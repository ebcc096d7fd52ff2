"""A pytest plugin that ends a process that hangs, with the stacks of all its threads.

The limit of each test (`timeout`) raises an exception in the main thread. It cannot end a test that takes the signal
for itself or waits in native code. It cannot end a process that hangs after its last test, either. Here, a thread that
runs no Python code ends the process. pytest-xdist then reports the test as failed, and continues in another process.
"""

import faulthandler
import os
import sys
from collections.abc import Generator
from typing import Final

import pytest

# A test may run twice, and its fixtures take time too.
RUNS: Final = 3
LAST_S: Final = 300.0
_STDERR: Final = pytest.StashKey[int]()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    # While tests run, pytest captures the usual stderr.
    config.stash[_STDERR] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    mark = item.get_closest_marker("timeout")
    limit_s = float(mark.args[0] if mark and mark.args else item.config.getini("timeout") or 0)
    if limit_s:
        _end_after(RUNS * limit_s, item.config)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    _end_after(LAST_S, session.config)
    try:
        return (yield)
    finally:
        # A process of pytest-xdist then waits for the others, which may take long, and is ended by the first one.
        if hasattr(session.config, "workerinput"):
            faulthandler.cancel_dump_traceback_later()


def _end_after(limit_s: float, config: pytest.Config) -> None:
    faulthandler.dump_traceback_later(limit_s, file=config.stash[_STDERR], exit=True)
