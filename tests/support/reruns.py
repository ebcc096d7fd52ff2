"""A pytest plugin that decides which failed tests run once more. The summary lists each reason under RERUN.

A test with a mark of `real_time.py` runs once more. So does a test that failed while the machine stood still, except in
folders whose tests do not depend on time. On a machine that ran normally, every other test fails at once.
"""

import contextlib
import functools
import socket
import time
from collections.abc import Generator
from typing import Any, Final

import pytest

from tests.support.standstill import Watch

# Tests in these folders do not wait for anything: a failure there is a fault, however slow the machine is.
STEADY: Final = frozenset({"contract", "domain", "model"})
_BEGUN: Final = pytest.StashKey[float]()
_WATCH: Final = pytest.StashKey[Watch]()
_PROPERTY: Final = "why_once_more"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    watch = config.stash[_WATCH] = Watch()
    watch.start()
    config.add_cleanup(watch.stop)
    # With xdist, pytest-rerunfailures exchanges two small messages for each test. Without this, each pair takes 40 ms.
    with contextlib.suppress(AttributeError, OSError):
        config.failures_db.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # `-p no:rerunfailures` disables reruns, to look for the cause of a failure.
    if not any(config.pluginmanager.hasplugin(name) for name in ("rerunfailures", "pytest_rerunfailures")):
        return
    for item in items:
        is_marked = item.get_closest_marker("real_time") is not None
        if is_marked or STEADY.isdisjoint(item.path.relative_to(item.config.rootpath).parts):
            again = functools.partial(_is_to_run_again, item)
            item.add_marker(pytest.mark.flaky(reruns=2 if is_marked else 1, condition=again))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGUN] = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    why = why_once_more(item) if report.failed else None
    if why is not None:
        # The property belongs only to this attempt, and travels with the report from xdist processes.
        report.user_properties = [*report.user_properties, (_PROPERTY, why)]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    if report.outcome != "rerun":
        return None
    why = dict(report.user_properties).get(_PROPERTY, "no reason")
    return "rerun", "R", (f"RERUN ({why})", {"yellow": True})


def why_once_more(item: pytest.Item) -> str | None:
    """Return why a test that just failed may run once more, or None if it may not."""
    mark = item.get_closest_marker("real_time")
    attempt = getattr(item, "execution_count", 1)
    still = item.config.stash[_WATCH].since(item.stash.get(_BEGUN, 0.0))
    # Only the machine can justify a second rerun.
    if still is not None and attempt <= (2 if mark else 1):
        return still
    return str(mark.args[0]) if mark and attempt == 1 else None


def _is_to_run_again(item: pytest.Item) -> bool:
    return why_once_more(item) is not None
