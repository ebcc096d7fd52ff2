"""SIGKILL in the middle of the work: to the master, the worker, the store, each and all. Accepted jobs are not lost."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from jqmaster.embedded import EmbeddedValkey
from tests.support import long, real_time
from tests.support.master import Api, assert_sound
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.waiting import wait_until
from worker_sdk import Pusher

pytestmark = [pytest.mark.system, pytest.mark.timeout(240), real_time.PROCESSES]

# The pusher makes ten calls, and the kill comes at the first.
JOBS = long.size(1_000, 4_000)
PER_CALL = JOBS // 10


async def enqueue_all(pusher: Pusher, count: int) -> list[str]:
    ids: list[str] = []
    for start in range(0, count, PER_CALL):
        ids += await pusher.enqueue_many(
            {"name": "echo", "argument": n} for n in range(start, min(start + PER_CALL, count))
        )
    return ids


async def all_over(api: Api, count: int, timeout_s: float = 120) -> dict[str, int]:
    async def over() -> dict[str, int] | None:
        try:
            status, page = await api.call("GET", "/api/jobs?limit=1")
        except httpx.TransportError:
            return None
        if status != 200:
            return None  # the store is restarting
        counts = page["counts"]
        done = sum(counts[state] for state in ("succeeded", "failed", "canceled", "skipped"))
        return counts if done == count else None

    return await wait_until(over, timeout_s=timeout_s, what=f"{count} jobs are over")


def starts(*workers: WorkerProcess) -> Counter[str]:
    return Counter(job_id for worker in workers for what, job_id, _, _ in worker.events() if what == "start")


async def assert_data_sound(master: MasterProcess) -> None:
    """Run fsck on the data left by the processes, after the master is gone."""
    store = EmbeddedValkey(master.data_dir)
    await store.start()
    try:
        await assert_sound(store.url, "jq")
    finally:
        await store.stop()


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[tuple[MasterProcess, WorkerProcess, Api]]:
    master = MasterProcess(tmp_path, retention_succeeded_s=3600)
    worker = WorkerProcess(tmp_path, master.url)
    with running(master, worker):
        api = Api(master.url)
        yield master, worker, api
        await api.http.aclose()
    await assert_data_sound(master)


@pytest.mark.sized
@pytest.mark.req("M1")
@pytest.mark.req("M3")
@pytest.mark.parametrize("victims", ["master", "worker", "store", "all"])
async def test_no_accepted_job_is_lost_when_a_process_is_killed(
    system: tuple[MasterProcess, WorkerProcess, Api], victims: str
) -> None:
    master, worker, api = system

    async def disaster() -> None:
        await wait_until(lambda: sum(starts(worker).values()) > JOBS // 20, what="the work is under way")
        if victims in ("worker", "all"):
            worker.kill()
        if victims in ("store", "all"):
            master.kill_store()
        if victims in ("master", "all"):
            master.kill()
            await asyncio.to_thread(master.start)
        if victims in ("worker", "all"):
            worker.start()

    async with Pusher(master.url, max_wait_s=60) as pusher:
        ids, _ = await asyncio.gather(enqueue_all(pusher, JOBS), disaster())
    assert len(set(ids)) == JOBS
    counts = await all_over(api, JOBS)
    assert counts["succeeded"] == JOBS
    assert set(starts(worker)) == set(ids)
    if victims in ("master", "store"):
        # The worker survived: at-least-once applies to lost workers, not to lost masters.
        assert max(starts(worker).values()) == 1


@pytest.mark.req("M1")
async def test_jobs_outlive_an_orderly_restart(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    with running(master):
        async with Pusher(master.url, max_wait_s=60) as pusher:
            ids = await pusher.enqueue_many({"name": "echo", "argument": n} for n in range(100))
        assert master.terminate() == 0
        await asyncio.to_thread(master.start)
        api = Api(master.url)
        assert (await api.counts())["ready"] == 100
        assert await api.state(ids[0]) == "ready"
        await api.http.aclose()


@pytest.mark.req("M3")
@pytest.mark.req("M6")
@pytest.mark.req("M7")
async def test_a_killed_workers_jobs_run_on_another_whatever_their_timeout(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    first, second = (WorkerProcess(tmp_path, master.url, number=n) for n in (1, 2))
    with running(master, first):
        async with Pusher(master.url, max_wait_s=60) as pusher:
            ids = [await pusher.enqueue("nap", 0.8, timeout=86_400) for _ in range(5)]
            await wait_until(lambda: len(starts(first)) == 5, what="all run on the first worker")
            first.kill()
            with running(second):
                api = Api(master.url)
                for job_id in ids:
                    job = await api.until_state(job_id, "succeeded", timeout_s=30)
                    assert job["losses"] == 1
                    assert [a["outcome"] for a in job["attempts"]] == ["lost", "success"]
                await api.http.aclose()


@pytest.mark.req("M3")
@pytest.mark.parametrize("by", ["itself", "memory"])
async def test_a_job_that_kills_its_worker_three_times_is_stopped(tmp_path: Path, by: str) -> None:
    master = MasterProcess(tmp_path)
    workers = [WorkerProcess(tmp_path, master.url, number=n) for n in range(3)]
    with running(master, *workers):
        api = Api(master.url)
        poison = await api.enqueue("die", by, timeout=60)
        job = await api.until_state(poison, "failed", timeout_s=60)
        assert (job["cause"], job["losses"]) == ("lost", 3)
        assert sum(starts(*workers).values()) == 3
        await api.http.aclose()


@pytest.mark.req("M6")
async def test_a_stopped_worker_that_wakes_changes_nothing(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    stopped, other = (WorkerProcess(tmp_path, master.url, number=n) for n in (1, 2))
    with running(master, stopped):
        api = Api(master.url)
        job_id = await api.enqueue("nap", 1.0, timeout=600)
        await wait_until(lambda: starts(stopped)[job_id] == 1, what="it runs")
        stopped.signal(signal.SIGSTOP)
        with running(other):
            job = await api.until_state(job_id, "succeeded", timeout_s=30)
            assert job["worker_id"] != job["attempts"][0]["worker_id"]
            stopped.signal(signal.SIGCONT)
            # The worker fences itself or is told. Either way, its reports no longer count, and it serves again.
            follow_up = [await api.enqueue("echo", n) for n in range(20)]
            for n in follow_up:
                await api.until_state(n, "succeeded", timeout_s=30)
            assert (await api.job(job_id))["attempts"] == job["attempts"]
        await api.http.aclose()


@pytest.mark.req("M6")
async def test_a_living_workers_long_job_runs_once_also_when_it_blocks_the_event_loop(tmp_path: Path) -> None:
    """Each job takes several leases. Heartbeats come from their own thread."""
    master = MasterProcess(tmp_path, lease_ms=3_000, worker_stale_s=3.0)
    worker = WorkerProcess(tmp_path, master.url)
    with running(master, worker):
        api = Api(master.url)
        blocking = await api.enqueue("block", 7.0, timeout=600)
        await api.until_state(blocking, "succeeded", timeout_s=30)
        long = await api.enqueue("nap", 10.0, timeout=600)
        job = await api.until_state(long, "succeeded", timeout_s=60)
        assert job["attempt"] == 1
        assert starts(worker) == {blocking: 1, long: 1}
        await api.http.aclose()


@pytest.mark.req("J16")
async def test_a_handler_enqueues_jobs(system: tuple[MasterProcess, WorkerProcess, Api]) -> None:
    _, _, api = system
    parent = await api.enqueue("spawn", 3, keep_result=True)
    _, result = await api.call("GET", f"/api/jobs/{parent}/result?wait=20")
    for n, child in enumerate(result["result"]):
        _, answer = await api.call("GET", f"/api/jobs/{child}/result?wait=20")
        assert answer["result"] == n


@pytest.mark.req("M3")
async def test_a_draining_worker_hands_back_what_it_cannot_finish(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    first, second = (WorkerProcess(tmp_path, master.url, number=n) for n in (1, 2))
    with running(master, first):
        api = Api(master.url)
        job_id = await api.enqueue("nap", 3.0, timeout=600)
        await wait_until(lambda: starts(first)[job_id] == 1, what="it runs")
        os.kill(first.pid, signal.SIGTERM)
        with running(second):
            job = await api.until_state(job_id, "succeeded", timeout_s=60)
            assert job["failures"] == 0
            assert job["losses"] == 0
        await api.http.aclose()
