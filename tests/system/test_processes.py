"""`serve --processes` and `worker --processes`: one command that starts and ends as one, on several cores."""

import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support import long, real_time
from tests.support.master import Api
from tests.support.processes import MasterProcess, Process, WorkerProcess, running
from tests.support.waiting import wait_until
from tests.system.test_kill import all_over, assert_data_sound, enqueue_all, starts
from worker_sdk import Pusher

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

JOBS = long.size(600, 2_000)


class WorkerProcesses(WorkerProcess):
    """`jqmaster worker --processes`, as a shell starts it."""

    is_prepared = False

    def __init__(self, directory: Path, master_url: str, processes: int, module: str = "jqmaster") -> None:
        super().__init__(directory, master_url)
        self._arguments[1] = module
        self._arguments += ["--processes", str(processes)]


async def masters_of(api: Api) -> list[dict[str, Any]]:
    try:
        status, answer = await api.call("GET", "/api/masters")
    except httpx.TransportError:  # it was the dead one
        return []
    return [one for one in answer["masters"] if one["state"] == "fresh"] if status == 200 else []


async def until_masters(api: Api, count: int, *, without: int = 0) -> list[dict[str, Any]]:
    async def there() -> list[dict[str, Any]] | None:
        found = await masters_of(api)
        is_whole = len(found) == count and {"leader"} < {one["role"] for one in found}
        return found if is_whole and without not in {one["pid"] for one in found} else None

    return await wait_until(there, timeout_s=30, what=f"{count} masters, and one of them leads")


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if psutil.pid_exists(pid)]


@contextlib.asynccontextmanager
async def client_of(master: MasterProcess) -> AsyncIterator[Api]:
    """Yield a client with a new connection for each call, which therefore reaches different processes."""
    api = Api(master.url)
    await api.http.aclose()
    async with httpx.AsyncClient(
        base_url=master.url, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
    ) as http:
        api.http = http
        yield api


@pytest.mark.sized
@pytest.mark.req("M1")
@pytest.mark.parametrize("victim", ["leader", "other"])
async def test_a_killed_master_process_is_started_again_and_nothing_is_lost(
    tmp_path: Path, victim: str
) -> None:
    master = MasterProcess(tmp_path, processes=2)
    workers = WorkerProcesses(tmp_path, master.url, 2)
    with running(master, workers):
        async with client_of(master) as api:
            before = await until_masters(api, 2)
            assert len({one["url"] for one in before}) == 2, "each can be asked by itself whether it lives"
            assert all(one["pid"] != master.pid for one in before)
            async with Pusher(master.url, max_wait_s=60) as pusher:
                await enqueue_all(pusher, JOBS // 2)
                found = next(one for one in before if (one["role"] == "leader") == (victim == "leader"))
                psutil.Process(found["pid"]).kill()
                # The address serves without a break, because the other process shares the port.
                await enqueue_all(pusher, JOBS // 2)
            await until_masters(api, 2, without=found["pid"])
            counts = await all_over(api, JOBS)
            assert counts["succeeded"] == JOBS
            assert len(starts(workers)) == JOBS
            pids = [one["pid"] for one in await until_masters(api, 2)]
        store = master.store_pid()
        assert workers.terminate() == 0
        assert master.terminate() == 0
        assert not alive([*pids, store])
    await assert_data_sound(master)


async def test_all_processes_end_when_the_one_that_started_them_is_killed(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path, processes=2)
    workers = WorkerProcesses(tmp_path, master.url, 2)
    with running(master, workers):
        async with client_of(master) as api:
            pids = [one["pid"] for one in await until_masters(api, 2)]

            async def registered() -> list[int] | None:
                found = [one["pid"] for one in (await api.call("GET", "/api/workers"))[1]["workers"]]
                return found if len(found) == 2 else None

            of_workers = await wait_until(registered, timeout_s=30, what="two workers are registered")
        workers.kill()
        await wait_until(lambda: not alive(of_workers), timeout_s=30, what="the workers have ended")
        master.kill()
        await wait_until(lambda: not alive(pids), timeout_s=30, what="the masters have ended")
        # The port is free again, and the master takes over the store, which outlived the processes.
        master.start()
        async with client_of(master) as api:
            await until_masters(api, 2)
            _, answer = await api.call("GET", "/api/workers")
            assert answer["workers"] == [], "they left in good order"


@pytest.mark.parametrize("module", ["jqmaster", "worker_sdk"])
async def test_a_killed_worker_process_is_started_again(tmp_path: Path, module: str) -> None:
    master = MasterProcess(tmp_path)
    workers = WorkerProcesses(tmp_path, master.url, 2, module)
    with running(master, workers):
        api = Api(master.url)

        async def pids(without: int = 0) -> set[int] | None:
            _, answer = await api.call("GET", "/api/workers")
            found = {one["pid"] for one in answer["workers"] if one["state"] == "fresh"}
            return found if len(found) == 2 and without not in found else None

        before = await wait_until(pids, timeout_s=30, what="two workers")
        victim = min(before)
        psutil.Process(victim).send_signal(signal.SIGKILL)
        after = await wait_until(lambda: pids(victim), timeout_s=30, what="two workers again")
        assert len(before & after) == 1, "the other one goes on"
        await api.http.aclose()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["serve", "--processes", "2", "--with-worker", "tests.support.workers:worker"], 2, "--with-worker"),
        (["serve", "--processes", "2", "--redis", "redis://127.0.0.1:1"], 5, "127.0.0.1:1"),
        (["worker", "no_such_module:worker", "--processes", "2"], 2, "no module no_such_module"),
        (
            ["worker", "tests.support.workers:worker", "--processes", "2", "--url", "http://127.0.0.1:1"],
            2,
            "share one --url",
        ),
    ],
)
async def test_processes_that_cannot_start_end_with_the_code_of_a_single_process(
    tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    process = Process(["-m", "jqmaster", *arguments], tmp_path / "log", JQMASTER_PORT="0")
    process.start()
    assert process.popen
    assert process.popen.wait(60) == code
    assert says in process.log.read_text()


async def test_a_port_that_is_taken_is_not_shared_by_mistake(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path, processes=2)
    with running(master):
        (tmp_path / "second").mkdir()
        second = MasterProcess(tmp_path / "second", port=master.port, processes=2)
        Process.start(second)
        assert second.popen
        assert second.popen.wait(60) == 4
        assert "in use" in second.log.read_text()
