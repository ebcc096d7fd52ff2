"""Content of jobs as callers see it who may only read."""

import asyncio
import hashlib
from typing import Any

import pytest

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import FINISHED_AT, worker_at
from tests.support.server import StoreServer

pytestmark = real_time.MASTER

TOKENS = ["read:t-viewer", "operate:t-operator", "push+read:t-pusher", "push+work:t-worker", "push:t-mere"]
SECRET = "s3cr3t"


async def carried(worker_api: Api, pusher: Api) -> str:
    """Finish a job that contains the secret everywhere a job can contain text."""
    async with worker_at(worker_api) as worker:
        job_id = await pusher.enqueue(
            "work", {"a": SECRET}, headers={"h": SECRET}, keep_result=True, max_retry=1, retry={"base_s": 0}
        )
        await worker.end(await worker.next_job(), "failure", message="it broke", error={"e": SECRET})
        await worker.end(await worker.next_job(), result={"r": SECRET})
    return job_id


@pytest.mark.req("D18")
async def test_a_viewer_sees_the_course_of_a_job_and_not_what_it_carries(store_server: StoreServer) -> None:
    async with master_on(store_server.url, tokens=TOKENS) as (master, _):
        viewer, operator, pusher, worker, mere = (
            Api(master.server.url, token.partition(":")[2]) for token in TOKENS
        )
        job_id = await carried(worker, pusher)
        job = await viewer.job(job_id)
        assert SECRET not in str(job)
        assert (job["argument_hidden"], job["has_result"], job["result_hidden"]) == (True, True, True)
        assert (job["argument"], job["headers"], job["result"]) == (None, {}, None)
        assert [(a["outcome"], a["message"], a["error"]) for a in job["attempts"]] == [
            ("failure", None, None), ("success", None, None),
        ]  # fmt: skip
        assert SECRET not in str(await viewer.call("GET", "/api/jobs"))
        assert (await viewer.call("GET", f"/api/jobs/{job_id}/result"))[0] == 403
        for api in (operator, pusher):
            job = await api.job(job_id)
            assert (job["argument"], job["headers"]) == ({"a": SECRET}, {"h": SECRET})
            assert job["result"] == {"type": "success", "finished_at": FINISHED_AT, "result": {"r": SECRET}}
            assert job["attempts"][0]["error"] == {"e": SECRET}
            assert (job["argument_hidden"], job["result_hidden"]) == (False, False)
        # Viewing a result does not fetch it: the pusher still gets it.
        assert (await pusher.call("GET", f"/api/jobs/{job_id}/result"))[1]["result"] == {"r": SECRET}
        await close(viewer, operator, pusher, worker, mere)


@pytest.mark.req("D18")
async def test_viewers_may_be_let_see(store_server: StoreServer) -> None:
    async with master_on(store_server.url, tokens=TOKENS, viewers_see_content=True) as (master, _):
        viewer, pusher = Api(master.server.url, "t-viewer"), Api(master.server.url, "t-pusher")
        job: dict[str, Any] = await viewer.job(await pusher.enqueue("work", SECRET))
        assert (job["argument"], job["argument_hidden"]) == (SECRET, False)
        assert (job["has_result"], job["result"], job["result_hidden"]) == (False, None, False)
        await close(viewer, pusher)


@pytest.mark.rule("E6.1")
async def test_nobody_sees_redacted_values_and_workers_and_pushers_get_them(
    store_server: StoreServer,
) -> None:
    paths = "argument.a headers.H error.e result.r"
    async with master_on(store_server.url, tokens=TOKENS, redact_paths=paths) as (master, _):
        operator, pusher, worker = (
            Api(master.server.url, name) for name in ("t-operator", "t-pusher", "t-worker")
        )
        job_id = await carried(worker, pusher)
        for api in (operator, pusher):
            job = await api.job(job_id)
            assert SECRET not in str(job)
            assert job["argument"] == {"a": "[redacted]"}
            assert job["result"]["result"] == {"r": "[redacted]"}
            assert job["headers"] == {"h": "[redacted]"}
        assert (await pusher.call("GET", f"/api/jobs/{job_id}/result"))[1]["result"] == {"r": SECRET}
        await close(operator, pusher, worker)


@pytest.mark.rule("E6.4")
async def test_the_audit_log_has_the_actions_of_operators_on_a_job(store_server: StoreServer) -> None:
    tokens = ["operate+push:t-operator", "push+read:t-pusher"]
    async with master_on(store_server.url, tokens=tokens) as (master, _):
        operator, pusher = (Api(master.server.url, name) for name in ("t-operator", "t-pusher"))
        job_id = await pusher.enqueue("work", run_at="2099-01-01T00:00:00Z")
        for method, path, body in (
            ("PATCH", "", {"priority": 5}), ("POST", "/run", None), ("POST", "/cancel", None), ("POST", "/retry", None),
        ):  # fmt: skip
            assert (await operator.call(method, f"/api/jobs/{job_id}{path}", body))[0] == 200
        assert (await pusher.call("POST", f"/api/jobs/{job_id}/cancel"))[0] == 200
        assert (await operator.call("DELETE", f"/api/jobs/{job_id}"))[0] == 204
        entries = (await operator.call("GET", f"/api/audit?target={job_id}"))[1]["entries"]
        assert [e["action"] for e in entries] == [
            "job.delete",
            "job.retry",
            "job.cancel",
            "job.run",
            "job.patch",
        ]
        assert {e["who"] for e in entries} == {hashlib.sha256(b"t-operator").hexdigest()[:8]}
        assert entries[-1]["after"] == {"priority": 5}
        # Nobody can change or remove an entry.
        for method in ("DELETE", "PUT", "PATCH", "POST"):
            assert (await operator.call(method, "/api/audit"))[0] == 405
        await close(operator, pusher)


async def close(*apis: Api) -> None:
    await asyncio.gather(*(api.http.aclose() for api in apis))
