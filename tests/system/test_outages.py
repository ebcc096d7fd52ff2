"""All masters gone, everything told to end at once, logs without a reader, no file descriptors left: work goes on."""

import asyncio
import os
import resource
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from jqmaster.domain.ids import new_id
from tests.chaos.proxy import RawLink
from tests.support import real_time
from tests.support.master import Api, assert_sound
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.server import StoreServer, started
from tests.support.strace import faulty_fsync
from tests.support.waiting import wait_until
from tests.system.test_kill import all_over, assert_data_sound, starts

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]


def ended(worker: WorkerProcess) -> set[str]:
    return {job_id for what, job_id, _, _ in worker.events() if what == "end"}


@pytest.mark.req("M1", "M6")
async def test_jobs_run_on_while_there_is_no_master_and_none_of_them_runs_again(
    store_server: StoreServer, tmp_path: Path
) -> None:
    masters = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        masters.append(
            MasterProcess(
                tmp_path / name,
                store_server.url,
                shard=f"s{tmp_path.name[-20:]}",
                node_id=name,
                lease_ms=15_000,
            )
        )
    worker = WorkerProcess(tmp_path, [master.url for master in masters])
    with running(*masters, worker):
        api = Api(masters[0].url)
        short = [await api.enqueue("nap", 2.0, timeout=600, max_retry=0) for _ in range(3)]
        long = [await api.enqueue("nap", 6.0, timeout=600, max_retry=0) for _ in range(3)]
        await wait_until(lambda: len(starts(worker)) == 6, what="all run")
        for master in masters:
            master.kill()
        await wait_until(lambda: ended(worker) == set(short), what="they end though nobody hears of it")
        for master in masters:
            await asyncio.to_thread(master.start)
        for job_id in (*short, *long):
            job = await api.until_state(job_id, "succeeded", timeout_s=30)
            assert (job["attempt"], job["losses"]) == (1, 0)
        assert set(starts(worker).values()) == {1}
        await api.http.aclose()
    await assert_sound(store_server.url, f"s{tmp_path.name[-20:]}")


@pytest.mark.req("M1", "M3")
async def test_all_processes_are_told_to_end_at_once_and_everything_accepted_runs_afterwards(
    tmp_path: Path,
) -> None:
    """End everything as a shutdown of the machine does: master, store and worker, each separately."""
    master = MasterProcess(tmp_path)
    worker = WorkerProcess(tmp_path, master.url, max_jobs=5)
    jobs = 30
    with running(master, worker):
        api = Api(master.url)
        for _ in range(jobs):
            await api.enqueue("nap", 0.3, timeout=600)
        await wait_until(lambda: ended(worker), what="the work is under way")
        for pid in (master.pid, master.store_pid(), worker.pid):
            os.kill(pid, signal.SIGTERM)
        assert worker.popen
        assert master.popen
        assert await asyncio.to_thread(worker.popen.wait, 30) == 0
        assert await asyncio.to_thread(master.popen.wait, 30) == 0
        await assert_data_sound(master)
        await asyncio.to_thread(master.start)
        worker.start()
        counts = await all_over(api, jobs)
        assert counts["succeeded"] == jobs
        await api.http.aclose()
    await assert_data_sound(master)


def after(preparation: str) -> list[str]:
    """Return Python arguments for `jqmaster serve` in a process that first runs `preparation`."""
    serve = "sys.argv = ['jqmaster', 'serve']; runpy.run_module('jqmaster', run_name='__main__')"
    return ["-c", f"import os, resource, runpy, sys\n{preparation}\n{serve}"]


@pytest.mark.req("M1")
async def test_a_disk_that_fails_takes_nothing_that_was_accepted(tmp_path: Path) -> None:
    """fsync reports an error only once. The store therefore ends rather than continue with possibly lost data, and
    restarts on freshly written data."""
    master = MasterProcess(tmp_path)
    with running(master):
        api = Api(master.url)
        accepted = [await api.enqueue("later", n, delay=3600) for n in range(20)]
        store_pid = master.store_pid()
        with faulty_fsync(store_pid, "error=EIO"):
            job = {"name": "later", "id": new_id(), "delay": 3600}
            # The status is 201 if a write of the leader met the error and the next server took the job.
            status, _ = await api.call("POST", "/api/jobs", job)
            assert status in (201, 503)
            await wait_until(lambda: not psutil.pid_exists(store_pid), what="the store ended")
        await asyncio.to_thread(master.wait_until_ready)
        assert "the data were rewritten" in master.log.read_text()
        repeated, _ = await api.call("POST", "/api/jobs", job)
        assert repeated == 200 or (status, repeated) == (503, 201)
        for job_id in (*accepted, job["id"]):
            assert await api.state(str(job_id)) == "scheduled"
        await api.http.aclose()


@pytest.mark.req("M1")
async def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    # Each write to its output fails, as on a full disk.
    master._arguments = after("full = os.open('/dev/full', os.O_WRONLY); os.dup2(full, 1); os.dup2(full, 2)")
    worker = WorkerProcess(tmp_path, master.url)
    with running(master, worker):
        api = Api(master.url)
        await api.until_state(await api.enqueue("echo", 1), "succeeded")
        # The master logs the failure and the recovery.
        master.kill_store()
        await asyncio.to_thread(master.wait_until_ready)
        await api.until_state(await api.enqueue("echo", 2), "succeeded", timeout_s=30)
        await api.http.aclose()
        assert worker.terminate() == 0
        assert master.terminate() == 0
    assert master.log.read_text() == "", "it had a log after all"
    await assert_data_sound(master)


@pytest.mark.req("M1", "M6")
async def test_clients_that_take_all_file_descriptors_take_none_of_the_store_and_the_workers(
    tmp_path: Path,
) -> None:
    descriptors, clients = 160, 300
    master = MasterProcess(tmp_path, receipt_deadline_s=600)
    # Set a hard limit, which cannot be raised without privileges.
    master._arguments = after(f"resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))")
    worker = WorkerProcess(tmp_path, master.url)
    with running(master, worker), ExitStack() as stack:
        api = Api(master.url)
        await api.until_state(await api.enqueue("echo", "first"), "succeeded")
        _, before = await api.call("GET", "/api/masters")
        running_job = await api.enqueue("nap", 4.0, timeout=600, max_retry=0)
        await wait_until(lambda: starts(worker), what="it runs")
        for _ in range(clients):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", master.port))
        # The worker uses an existing connection. Other connections are refused or wait.
        for n in range(20):
            await api.until_state(await api.enqueue("echo", n), "succeeded")
        job = await api.until_state(running_job, "succeeded")
        assert (job["attempt"], job["losses"]) == (1, 0)
        _, now = await api.call("GET", "/api/masters")
        assert now["epoch"] == before["epoch"], "it lost the lead"
        await api.http.aclose()


async def test_a_soft_limit_of_file_descriptors_is_raised(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    # This leaves room for 80 clients if not raised.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    master._arguments = after(f"resource.setrlimit(resource.RLIMIT_NOFILE, (160, {hard}))")
    with running(master), ExitStack() as stack:
        for _ in range(200):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", master.port)))
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await asyncio.to_thread(one.recv, 12)) == b"HTTP/1.1 200"


@pytest.mark.req("M1", "M6")
async def test_connections_to_the_store_that_are_reset_while_idle_cost_neither_a_push_nor_the_lead(
    tmp_path: Path,
) -> None:
    """Connections to a master, started as users do, are lost as when a firewall forgets them."""
    server = StoreServer()
    with started(server):
        link = RawLink("store", str(server.socket), seed=1)
        await link.start()
        master = MasterProcess(tmp_path, f"redis://127.0.0.1:{link.port}", log_level="info")
        try:
            await asyncio.to_thread(master.start)
            api = Api(master.url)
            for n in range(8):
                for push in range(5):
                    status, answer = await api.call("POST", "/api/jobs", {"name": "later", "delay": 3600})
                    # A call under way ends with an unknown outcome.
                    assert status == 201 or answer["code"] == "outcome_unknown", (n, push, answer)
                assert link.reset_idle()
                await asyncio.sleep(0.2)
            status, answer = await api.call("GET", "/readyz")
            assert (status, answer["leader"]) == (200, True)
            await api.http.aclose()
            assert "Traceback" not in master.log.read_text()
        finally:
            await asyncio.to_thread(master.terminate)
            await link.stop()
