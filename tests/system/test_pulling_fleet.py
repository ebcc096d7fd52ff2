"""Unreachable workers beside reachable ones, as real processes."""

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import jqmaster
from tests.support.master import Api
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.system.test_fleet import starts, workers_of

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), pytest.mark.req("M8"), real_time.PROCESSES]


def begun(*workers: WorkerProcess) -> Counter[str]:
    return Counter(job_id for worker in workers for job_id in starts(worker))


@pytest.mark.req("D11")
async def test_a_mixed_fleet_shares_the_work(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    pushed = WorkerProcess(tmp_path, master.url, number=1, max_jobs=10)
    pulls = WorkerProcess(tmp_path, master.url, number=2, max_jobs=10, pull=True)
    with running(master, pushed, pulls):
        api = Api(master.url)

        async def are_there() -> bool:
            return len(await workers_of(api)) == 2

        await wait_until(are_there)
        shown = jqmaster("workers", JQMASTER_URL=master.url).out
        assert "(pulls)" in shown
        jobs = [{"name": "nap", "argument": 0.05} for _ in range(200)]
        status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
        assert status == 201
        for job_id in answer["ids"]:
            await api.until_state(job_id, "succeeded", timeout_s=60)
        assert begun(pushed, pulls) == Counter(answer["ids"]), "each ran once"
        # On a busy machine, one of them may come late to most jobs.
        assert min(len(starts(pushed)), len(starts(pulls))) > 10
        await api.http.aclose()


async def test_a_job_starts_as_soon_as_it_is_there(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    pulls = WorkerProcess(tmp_path, master.url, pull=True)
    with running(master, pulls):
        api = Api(master.url)
        await wait_until(lambda: pulls.log.read_text().count("registered"), what="it is registered")
        waits_s = []
        for n in range(20):
            asked_s = time.monotonic()
            job_id = await api.enqueue("echo", n)
            await wait_until(lambda job_id=job_id: job_id in starts(pulls))
            waits_s.append(
                next(at for what, one, _, at in pulls.events() if (what, one) == ("start", job_id)) - asked_s
            )
        assert sorted(waits_s)[10] < 0.1, waits_s
        await api.http.aclose()


@pytest.mark.req("D5", "M3", "M6")
async def test_the_master_that_holds_the_polls_is_killed(tmp_path: Path, store_server: StoreServer) -> None:
    """First kill a follower, then the leader. The other keeps giving jobs, and no job runs twice."""
    shard = f"p{time.time_ns()}"
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    first = MasterProcess(tmp_path / "1", store_server.url, shard=shard)
    second = MasterProcess(tmp_path / "2", store_server.url, shard=shard)
    pulls = WorkerProcess(tmp_path, [first.url, second.url], number=1, max_jobs=20, pull=True)
    pushed = WorkerProcess(tmp_path, [second.url, first.url], number=2, max_jobs=20)
    with running(first, second, pulls, pushed):
        for killed, left in ((first, second), (second, first)):
            api = Api(left.url)

            async def are_there(api: Api = api) -> bool:
                return len([w for w in await workers_of(api) if w["state"] == "fresh"]) == 2

            await wait_until(are_there, timeout_s=20)
            job_ids = [await api.enqueue("nap", 0.02, keep_result=True) for _ in range(30)]
            killed.kill()
            job_ids += [await api.enqueue("nap", 0.02, keep_result=True) for _ in range(30)]
            for job_id in job_ids:
                job = await api.until_state(job_id, "succeeded", timeout_s=60)
                assert job["failures"] == 0
            again = {job_id: n for job_id, n in begun(pulls, pushed).items() if n > 1}
            assert again == {}
            await api.http.aclose()
            killed.start()
        assert min(len(starts(pulls)), len(starts(pushed))) > 0


@pytest.mark.req("M3", "M6")
async def test_a_killed_workers_jobs_run_elsewhere(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    pulls = WorkerProcess(tmp_path, master.url, number=1, pull=True)
    other = WorkerProcess(tmp_path, master.url, number=2, pull=True)
    with running(master, pulls):
        api = Api(master.url)
        job_id = await api.enqueue("nap", 2.0, timeout=86_400)
        await wait_until(lambda: starts(pulls), what="it runs")
        pulls.kill()
        with running(other):
            job = await api.until_state(job_id, "succeeded", timeout_s=30)
        assert [a["outcome"] for a in job["attempts"]] == ["lost", "success"]
        assert begun(pulls, other) == {job_id: 2}
        await api.http.aclose()


@pytest.mark.req("D16")
async def test_one_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    """Jobs given to it while it ends are free for others at once, before their leases end."""
    master = MasterProcess(tmp_path, lease_ms=60_000, offer_ms=20_000)
    with running(master):
        api = Api(master.url)
        for number in range(3):
            pulls = WorkerProcess(tmp_path, master.url, number=number, pull=True)
            with running(pulls):
                job_id = await api.enqueue("echo", number)
                await api.until_state(job_id, "succeeded")
                pulls.signal(signal.SIGTERM)
                job_ids = [await api.enqueue("echo", n) for n in range(5)]
            assert await workers_of(api) == []
            other = WorkerProcess(tmp_path, master.url, number=10 + number, pull=True)
            with running(other):
                for job_id in job_ids:
                    await api.until_state(job_id, "succeeded", timeout_s=15)
            assert begun(pulls, other).most_common(1)[0][1] == 1
        await api.http.aclose()
