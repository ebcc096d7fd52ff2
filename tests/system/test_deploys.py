"""Many deploys in a row, while a job blocks its thread for longer than all of them."""

import asyncio
import os
import signal
from itertools import groupby
from pathlib import Path

import pytest

from tests.support import long, real_time
from tests.support.master import Api
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(long.size(180, 600)), real_time.PROCESSES]

DEPLOYS = long.size(10, 100)


@pytest.mark.sized
@pytest.mark.req("M14")
async def test_many_deploys_end_no_job_and_run_none_twice_at_a_time(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    ticks, may_end = tmp_path / "ticks", tmp_path / "may_end"

    def next_worker(number: int) -> WorkerProcess:
        worker = WorkerProcess(tmp_path, master.url, number=number, pull=number % 2 == 1)
        worker.with_environment(GRACE_S="0.05")
        worker.start()
        return worker

    def runs() -> list[str]:
        """Return the processes in the order in which they ran the job."""
        lines = ticks.read_text().split("\n")[:-1] if ticks.exists() else []
        return [pid for pid, _ in groupby(lines)]

    with running(master):
        api = Api(master.url)
        worker = next_worker(0)
        jobs = {
            max_retry: await api.enqueue(
                "block.thread",
                [str(ticks) if max_retry else "", str(may_end)],
                max_retry=max_retry,
                timeout=3600,
            )
            for max_retry in (1, 0)
        }
        for deploy in range(1, DEPLOYS + 1):
            await wait_until(
                lambda pid=worker.pid: runs()[-1:] == [str(pid)], timeout_s=30, what=f"run {deploy}"
            )
            following = next_worker(deploy)
            assert await asyncio.to_thread(worker.terminate) == 0
            worker = following
        await wait_until(lambda: len(runs()) == DEPLOYS + 1, timeout_s=30)
        may_end.touch()
        for job_id in jobs.values():
            job = await api.until_state(job_id, "succeeded", "failed", timeout_s=30)
            assert (job["state"], job["failures"]) == ("succeeded", 0)
            assert {one["outcome"] for one in job["attempts"][:-1]} <= {"handed_back"}
            assert job["losses"] == 0
        worker.terminate()
        await api.http.aclose()
    assert len(runs()) == len(set(runs())) == DEPLOYS + 1, "no two processes ran it at a time"


@pytest.mark.req("M14", "M3")
async def test_a_killed_worker_still_counts_a_loss(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    worker = WorkerProcess(tmp_path, master.url)
    with running(master):
        api = Api(master.url)
        worker.start()
        ticks = tmp_path / "ticks"
        job_id = await api.enqueue("block.thread", [str(ticks), str(tmp_path / "never")], timeout=3600)
        await wait_until(ticks.exists)
        os.kill(worker.pid, signal.SIGKILL)
        worker.terminate()

        async def lost() -> bool:
            _, job = await api.call("GET", f"/api/jobs/{job_id}")
            return bool(job["losses"])

        await wait_until(lost, timeout_s=60)
        await api.http.aclose()
