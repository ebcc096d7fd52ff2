"""Fixtures for pytest: write `pytest_plugins = ["worker_sdk.testing.pytest_plugin"]` in the topmost `conftest.py`."""

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from worker_sdk.environment import Configuration, configuration, configure
from worker_sdk.testing.kit import inline, recording
from worker_sdk.testing.records import Recorded

logger = logging.getLogger(__name__)

# If a start takes longer than `_SLOW_S`, log a warning. If it takes longer than `_MAX_S`, fail.
_SLOW_S: Final = 30.0
_MAX_S: Final = 300.0


@pytest.fixture
def recorded_jobs() -> Iterator[Recorded]:
    """Record the jobs that the test enqueues through tasks, without sending them.

    For example:

        def test_it_makes_a_thumbnail(recorded_jobs: Recorded) -> None:
            make_thumbnail.enqueue(42)
            assert recorded_jobs.only(make_thumbnail, photo_id=42)
    """
    with recording() as jobs:
        yield jobs


@pytest.fixture
def inline_jobs() -> Iterator[Recorded]:
    """Record the jobs that the test enqueues through tasks, and run each at once.

    For example:

        def test_it_makes_a_thumbnail(inline_jobs: Recorded) -> None:
            make_thumbnail.enqueue(42)
            assert len(inline_jobs) == 1
    """
    with inline() as jobs:
        yield jobs


@pytest.fixture(scope="session")
def live_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a real master with its own store for the whole session, and return its address. Tasks use this master by
    default. The fixture needs the distribution `jqmaster`. Without it, the test is skipped.

    No worker runs. A job stays `ready` until the test runs a worker: by `run_burst`, or by
    `async with Worker(tasks=tasks).running():` in an `async def`.

    For example:

        def test_it_runs(live_master: str) -> None:
            handle = make_thumbnail.using(keep_result=True).enqueue(42)
            Worker(tasks=tasks).run_burst(idle_s=1)
            assert handle.get(timeout=10) == 320
    """
    if find_spec("jqmaster") is None:
        pytest.skip("live_master needs the distribution jqmaster, which contains the master")
    # Keep the path of the directory short, because a socket will be created in it.
    directory = Path(tmp_path_factory.mktemp("jq"))
    url = f"http://127.0.0.1:{_free_port()}"
    log = directory / "master.log"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JQMASTER_")}
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "jqmaster", "serve", "--port", url.rpartition(":")[2],
             "--data-dir", str(directory / "data")],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
        )  # fmt: skip
    before = configuration()
    try:
        _wait_until_ready(process, url, log)
        configure(url=url)
        yield url
    finally:
        _restore(before)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _restore(before: Configuration) -> None:
    configure(**{field: getattr(before, field) for field in Configuration.__slots__})


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    began_s = time.monotonic()
    is_told = False
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while process.poll() is None:
        waited_s = time.monotonic() - began_s
        if waited_s > _MAX_S:
            raise RuntimeError(
                f"the master has not started after {waited_s:.0f} s; is the machine busy?\n{_end_of(log)}"
            )
        if waited_s > _SLOW_S and not is_told:
            is_told = True
            logger.warning("the master has not started after %.0f s; is the machine busy?", waited_s)
        try:
            with opener.open(f"{url}/readyz", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.02)
    raise RuntimeError(f"the master did not start:\n{_end_of(log)}")


def _end_of(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-2000:]
