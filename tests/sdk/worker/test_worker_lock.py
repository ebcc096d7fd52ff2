"""When it can, a worker's registration says that no other worker at its URL lives on this machine."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Worker
from worker_sdk.worker import worker_lock
from worker_sdk.worker.worker_lock import WorkerLock

pytestmark = real_time.WORKER

URL = "http://10.0.0.7:9000"
PROGRAM = """
import sys
from worker_sdk.worker.worker_lock import WorkerLock
lock = WorkerLock()
print(lock.take(sys.argv[1]), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def another_process(url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_it_is_taken_when_the_former_process_has_ended_however_it_ended() -> None:
    mine = WorkerLock()
    with another_process(URL) as (former, its_place):
        assert len(its_place) == 32
        assert mine.take(URL) == ""
        former.send_signal(signal.SIGSTOP)
        assert mine.take(URL) == "", "a process that stands still has not ended"
        former.kill()
        former.wait()
        assert mine.take(URL) == its_place
        assert mine.take(URL) == its_place, "its own second registration"
    mine.leave(is_idle=True)


def test_each_url_has_its_own() -> None:
    first, second, third = WorkerLock(), WorkerLock(), WorkerLock()
    assert first.take(URL)
    assert second.take(URL + "/other")
    first.leave(is_idle=True)
    assert third.take(URL)
    for one in (second, third):
        one.leave(is_idle=True)


def test_a_handler_that_still_runs_keeps_it_until_the_process_ends() -> None:
    url = f"{URL}/{os.getpid()}"
    former, successor = WorkerLock(), WorkerLock()
    assert former.take(url)
    former.leave(is_idle=False)
    assert successor.take(url) == ""


def test_another_start_of_the_machine_and_another_network_namespace_are_other_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for boot, namespace in [("a", "x"), ("b", "x"), ("a", "y")]:
        (tmp_path / boot).write_text(boot)
        (tmp_path / namespace).touch()
        monkeypatch.setattr(worker_lock, "_BOOT_ID", tmp_path / boot)
        monkeypatch.setattr(worker_lock, "_NAMESPACE", tmp_path / namespace)
        one = WorkerLock()
        seen.add(one.take(URL))
        one.leave(is_idle=True)
    assert len(seen) == 3


def test_nothing_is_said_if_there_are_no_such_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_lock, "_BOOT_ID", tmp_path / "none")
    assert WorkerLock().take(URL) == ""


async def test_a_registration_names_it_unless_the_worker_pulls(master: FakeMaster) -> None:
    for pull in (False, True):
        worker = Worker(master.url, token=master.token, grace_s=0.2, pull=pull)

        @worker.handler("work")
        async def work(argument: Any) -> None:
            pass

        async with worker.running():
            await wait_until(lambda: worker.worker_id)  # noqa: B023
            assert ("place" in master.worker) is not pull


async def test_masters_older_than_the_field_are_not_told(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("work")
    async def work(argument: Any) -> None:
        pass

    asked: list[dict[str, Any]] = []

    def refuse(body: dict[str, Any]) -> Any:
        asked.append(body)
        if "place" not in body:
            return None
        problem = {"code": "invalid", "errors": [{"loc": ["place"], "msg": "unknown"}]}
        return (422, problem, {})

    master.hooks["workers"] = refuse
    await up()
    assert ["place" in body for body in asked] == [True, False]
