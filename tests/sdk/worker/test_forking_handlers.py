"""Handlers that fork: the worker stays one worker, whatever its children do."""

import asyncio
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.sdk.fake_master import FakeMaster
from tests.sdk.worker.test_isolated import is_gone
from tests.support import real_time
from tests.support.forking import Child, with_hooks
from tests.support.processes import Process
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker
from worker_sdk.worker.cancel_signal import CancelSignal

# Python warns about threads when it forks, and tests always have some. This tests that they are harmless.
pytestmark = [pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"), real_time.PROCESSES]


def exit_status(pid: int) -> int | None:
    """Return the exit status of a child of this process, or None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


@pytest.fixture
def children() -> Iterator[list[int]]:
    """Collect the process IDs of children that a test may leave behind."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        try:
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        except ChildProcessError:
            pass


@pytest.mark.parametrize("name", ["sync", "async"])
async def test_a_child_that_returns_in_the_handler_ends_and_reports_nothing(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], children: list[int], name: str
) -> None:
    def forks() -> int:
        pid = with_hooks()
        if pid:
            children.append(pid)
        return pid

    @worker.handler("sync")
    def of_thread(argument: Any) -> int:
        return forks()

    @worker.handler("async")
    async def of_loop(argument: Any) -> int:
        return forks()

    @worker.handler("plain")
    async def plain(argument: Any) -> str:
        return "plain"

    await up()
    job = await master.run(name)
    await wait_until(lambda: master.result(job["job_id"]))
    status = await wait_until(lambda: (found := exit_status(children[0])) is not None and (found,))
    assert status == (1,)
    children.clear()
    other = await master.run("plain")
    await wait_until(lambda: master.result(other["job_id"]))
    assert [len(results) for results in master.results.values()] == [1, 1]
    assert master.results[job["job_id"]][0]["result"] > 0, "the parent's word"
    assert len(master.workers) == 1


async def test_multiprocessing_in_a_handler_works_and_may_push(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    def push_twice(ctx: Context, found: Any) -> None:
        found.put([ctx.enqueue("x"), ctx.sync_pusher.enqueue("x")])

    @worker.handler("spread")
    def spread(argument: Any, ctx: Context) -> Any:
        ctx.enqueue("before")
        fork = multiprocessing.get_context("fork")
        found = fork.SimpleQueue()
        processes = [fork.Process(target=push_twice, args=(ctx, found)) for _ in range(3)]
        for process in processes:
            process.start()
        made = [found.get() for _ in processes]
        for process in processes:
            process.join()
        return [ctx.enqueue("after"), *made]

    await up()
    job = await master.run("spread")
    await wait_until(lambda: master.result(job["job_id"]))
    (result,) = master.results[job["job_id"]]
    last, *pairs = result["result"]
    assert {last, *(job_id for pair in pairs for job_id in pair)} < set(master.jobs)
    assert len(master.jobs) == 8
    assert len(master.workers) == 1


async def test_a_child_that_leaves_the_block_of_the_worker_takes_no_leave_for_it(
    master: FakeMaster, worker: Worker
) -> None:
    @worker.handler("x")
    async def handler(argument: Any) -> None: ...

    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        assert await asyncio.to_thread(lambda: Child(lambda: asyncio.run(worker.stop())).result()) is False
        beats = len(master.beats)
        await wait_until(lambda: len(master.beats) > beats)
        assert not [method for method, _, _ in master.calls if method == "DELETE"]


async def test_a_worker_that_runs_in_the_parent_may_be_started_in_the_child(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("x")
    async def handler(argument: Any) -> None: ...

    async def another() -> str:
        async with worker.running():
            return str(await wait_until(lambda: worker.worker_id))

    await up()
    in_child = await asyncio.to_thread(lambda: Child(lambda: asyncio.run(another())).result())
    assert in_child != worker.worker_id
    assert worker.worker_id in master.workers


def test_a_cancel_signal_that_another_thread_holds_does_not_hold_the_child() -> None:
    cancelled = CancelSignal()
    assert not cancelled.wait(0)
    assert cancelled._event is not None
    with cancelled._event._cond:  # type: ignore[attr-defined]  # the lock that another thread holds
        assert Child(lambda: cancelled.wait(0.01)).result() is False
    cancelled.set()
    assert cancelled.wait(0)


# --- the worker as a process


class HandlersProcess(Process):
    """Run `python -m tests.sdk.handlers URL`."""

    def __init__(self, directory: Path, master: FakeMaster) -> None:
        super().__init__(["-m", "tests.sdk.handlers", master.url], directory / "worker.log")


@pytest.fixture
async def process(tmp_path: Path, master: FakeMaster) -> Any:
    one = HandlersProcess(tmp_path, master)
    one.start()
    try:
        await wait_until(lambda: master.workers, timeout_s=20)
        yield one
    finally:
        one.kill()


async def test_a_child_that_goes_back_to_the_event_loop_ends_before_other_handlers_go_on_there(
    master: FakeMaster, process: HandlersProcess, tmp_path: Path
) -> None:
    beside = tmp_path / "beside"
    jobs = [await master.run("fork.beside", str(beside)), await master.run("fork.waits")]
    for job in jobs:
        await wait_until(lambda job=job: master.result(job["job_id"]), timeout_s=20)
    assert master.results[jobs[1]["job_id"]][0]["result"] == 1, "the status of the child"
    assert beside.read_text() == f"{process.pid}\n"
    assert [len(results) for results in master.results.values()] == [1, 1]


async def test_a_child_that_is_terminated_ends_and_does_not_drain_the_worker(
    master: FakeMaster, process: HandlersProcess
) -> None:
    job = await master.run("fork.terminate")
    await wait_until(lambda: master.result(job["job_id"]), timeout_s=20)
    assert master.results[job["job_id"]][0]["result"] == -signal.SIGTERM
    again = await master.run("fork.terminate")
    await wait_until(lambda: master.result(again["job_id"]), timeout_s=20)


def is_refused(url: str) -> bool:
    address = httpx.URL(url)
    try:
        socket.create_connection((address.host, address.port or 0), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


async def test_a_child_that_outlives_the_worker_holds_neither_its_port_nor_its_isolated_handlers(
    master: FakeMaster, process: HandlersProcess, tmp_path: Path
) -> None:
    isolated_pid, orphan_pid = tmp_path / "isolated", tmp_path / "orphan"
    await master.run("isolated.hang", str(isolated_pid))
    await wait_until(lambda: isolated_pid.exists() and isolated_pid.read_text())
    job = await master.run("fork.orphan", str(orphan_pid))
    await wait_until(lambda: master.result(job["job_id"]), timeout_s=20)
    orphan = int(orphan_pid.read_text())
    try:
        url = master.worker["url"]
        assert not is_refused(url)
        process.kill()
        assert is_refused(url)
        isolated = int(isolated_pid.read_text().split()[0])
        await wait_until(lambda: is_gone(isolated), timeout_s=10)
        os.kill(orphan, 0)  # it survives
    finally:
        os.kill(orphan, signal.SIGKILL)
