"""One process at a time serves a URL, and the next registers when its jobs are over."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support.waiting import wait_until
from worker_sdk import Worker
from worker_sdk.worker import siblings
from worker_sdk.worker.siblings import ProcessLock, SiblingError, Siblings


@pytest.fixture(params=[siblings.abstract_lock, siblings.file_lock])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return an address. Siblings there use each system's locks in turn."""
    monkeypatch.setattr(siblings, "lock_of_system", request.param)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return f"http://10.0.0.7:9000/{os.urandom(8).hex()}"


async def test_a_second_process_is_refused_and_told_what_to_do(url: str) -> None:
    first, second = Siblings(url), Siblings(url)
    await first.claim(0)
    with pytest.raises(SiblingError, match=r"Worker\(pull=True\)"):
        await second.claim(0)
    await Siblings(url + "/other").claim(0)
    first.leave(is_idle=True)
    await second.claim(0)
    second.leave(is_idle=True)


async def test_the_next_process_serves_at_once_and_registers_when_the_last_job_is_over(url: str) -> None:
    old, new = Siblings(url), Siblings(url)
    await old.claim(0)
    assert old.may_register()
    old.drain()
    await new.claim(0)
    assert not new.may_register()
    old.leave(is_idle=True)
    assert new.may_register()
    new.leave(is_idle=True)


async def test_a_handler_that_does_not_stop_keeps_the_next_process_waiting(url: str) -> None:
    old, new = Siblings(url), Siblings(url)
    await old.claim(0)
    assert old.may_register()
    old.leave(is_idle=False)
    await new.claim(0)
    assert not new.may_register()
    old.leave(is_idle=True)
    new.leave(is_idle=True)


def test_a_forked_process_does_not_hold_the_lock(url: str) -> None:
    lock, other = ProcessLock(url), ProcessLock(url)
    assert lock.take()
    (begun, tell), (end, release) = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        os.write(tell, b"x")
        os.read(end, 1)
        os._exit(0)
    try:
        os.read(begun, 1)
        assert not other.take()
        lock.free()
        assert other.take()
    finally:
        other.free()
        os.write(release, b"x")
        os.waitpid(child, 0)
        for fd in (begun, tell, end, release):
            os.close(fd)


def test_nobody_is_refused_if_there_is_no_place_for_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "lock_of_system", siblings.file_lock)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/nowhere")
    assert ProcessLock("a").take()
    assert ProcessLock("a").take()


async def test_the_lifespan_runs_a_worker_at_an_address_of_its_own(master: FakeMaster) -> None:
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    ran: list[Any] = []
    worker.handler("note")(ran.append)
    async with worker.lifespan(object()):
        await wait_until(lambda: worker.worker_id)
        job = await master.run("note", 5)
        await wait_until(lambda: master.result(job["job_id"]))
    assert ran == [5]
    assert worker.address is None


async def test_a_taken_port_is_told_with_what_to_do(master: FakeMaster) -> None:
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    worker.handler("note")(print)
    async with worker.running():
        assert worker.address is not None
        second = Worker(master.url, token=master.token, port=int(worker.address.rpartition(":")[2]))
        second.handler("note")(print)
        with pytest.raises(OSError, match="omit port"):
            async with second.lifespan():
                pass
