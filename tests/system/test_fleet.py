"""Workers that join, leave, hang and return, as real processes."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.cli import jqmaster
from tests.support.master import Api
from tests.support.ports import free_port
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(120), real_time.PROCESSES]


def starts(worker: WorkerProcess) -> list[str]:
    return [job_id for what, job_id, _, _ in worker.events() if what == "start"]


async def workers_of(api: Api) -> list[dict[str, Any]]:
    _, answer = await api.call("GET", "/api/workers")
    found: list[dict[str, Any]] = answer["workers"]
    return found


@pytest.mark.req("D10", "M6")
async def test_a_worker_that_is_killed_and_started_anew_runs_its_jobs_at_once(tmp_path: Path) -> None:
    """Otherwise its lease of a minute and the grace after the election would have to end first."""
    master = MasterProcess(tmp_path, lease_ms=60_000)
    worker = WorkerProcess(tmp_path, master.url, port=free_port())
    with running(master, worker):
        api = Api(master.url)
        job_id = await api.enqueue("nap", 1.0, timeout=86_400)
        await wait_until(lambda: starts(worker), what="it runs")
        (old,) = await workers_of(api)
        worker.kill()
        killed_s = time.monotonic()
        worker.start()
        job = await api.until_state(job_id, "succeeded", timeout_s=20)
        assert time.monotonic() - killed_s < 15
        assert job["worker_id"] != old["id"], "each start has an ID of its own"
        assert [a["outcome"] for a in job["attempts"]] == ["lost", "success"]
        assert "another one was started at its address" in job["attempts"][0]["message"]
        await api.http.aclose()


@pytest.mark.req("D12", "D13", "M6")
async def test_a_worker_that_stood_still_for_less_than_its_lease_goes_on(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path, max_missed_pings=1, ping_timeout_s=1)
    worker = WorkerProcess(tmp_path, master.url)
    may_end = tmp_path / "may-end"
    with running(master, worker):
        api = Api(master.url)
        # A lease that outlasts the test. The grace after the election has the length of the former, short one.
        assert (await api.call("PATCH", "/api/settings", {"lease_ms": 120_000}))[0] == 200
        job_id = await api.enqueue("hold", str(may_end), timeout=600)
        await wait_until(lambda: starts(worker), what="it runs")

        async def is_detached() -> bool:
            (view,) = await workers_of(api)
            assert view["detached_by"] in (None, "silence")
            return view["state"] == "detached"

        async def has_continued() -> bool:
            return bool((await api.job(job_id))["events"])

        worker.signal(signal.SIGSTOP)
        try:
            await wait_until(is_detached, timeout_s=30, what="it is detached")
        finally:
            worker.signal(signal.SIGCONT)
        await wait_until(has_continued, timeout_s=30, what="it goes on")
        may_end.touch()
        job = await api.until_state(job_id, "succeeded", timeout_s=30)
        assert (job["attempt"], [a["outcome"] for a in job["attempts"]]) == (1, ["success"])
        # A busy machine may keep the worker silent once more.
        assert {event["event"] for event in job["events"]} == {"continued"}
        assert starts(worker) == [job_id]
        shown = jqmaster("job", job_id, JQMASTER_URL=master.url).out
        assert "continued" in shown
        assert "silent since" in shown
        await api.http.aclose()


@pytest.mark.req("D13", "D14")
async def test_a_detached_worker_stops_its_jobs_and_they_run_again(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path, lease_ms=60_000)
    worker = WorkerProcess(tmp_path, master.url)
    with running(master, worker):
        api = Api(master.url)
        job_id = await api.enqueue("nap", 3.0, timeout=600)
        await wait_until(lambda: starts(worker), what="it runs")
        (old,) = await workers_of(api)
        done = jqmaster("workers", "detach", old["id"], JQMASTER_URL=master.url)
        assert (done.code, done.out.split()[:2]) == (0, [old["id"], "detached"])
        job = await api.until_state(job_id, "succeeded", timeout_s=20)
        assert job["worker_id"] != old["id"]
        assert starts(worker) == [job_id, job_id]
        begun = [at_s for what, _, _, at_s in worker.events() if what == "start"]
        assert begun[1] - begun[0] < 15, "it did not wait for the lease"
        assert [what for what, *_ in worker.events()] == ["start", "start", "end"], (
            "the first run was stopped"
        )
        await api.http.aclose()


@pytest.mark.req("D11", "D14", "D16")
async def test_workers_are_drained_and_resumed_by_command(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path)
    worker = WorkerProcess(tmp_path, master.url)
    with running(master, worker):
        api = Api(master.url)
        running_job = await api.enqueue("nap", 1.0)
        await wait_until(lambda: starts(worker), what="it runs")
        (view,) = await workers_of(api)
        assert jqmaster("workers", "drain", view["id"], JQMASTER_URL=master.url).out.split()[1] == "draining"
        waiting = await api.enqueue("echo", 1)
        await api.until_state(running_job, "succeeded")
        assert await api.state(waiting) == "ready"
        done = jqmaster("workers", "resume", view["id"], "--json", JQMASTER_URL=master.url)
        assert done.lines()[0]["state"] == "fresh"
        await api.until_state(waiting, "succeeded")
        assert jqmaster("workers", "drain", "nobody", view["id"], JQMASTER_URL=master.url).code == 3
        (view,) = await workers_of(api)
        assert view["state"] == "draining", "all are tried"
        assert "worker.resume" in jqmaster("audit", JQMASTER_URL=master.url).out
        await api.http.aclose()
