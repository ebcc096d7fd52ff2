"""Figures of workers over HTTP, and by machine, version and label."""

from typing import Any

import pytest

from tests.support import real_time
from tests.support.master import Api
from tests.support.scripted_worker import ScriptedWorker, worker_at
from tests.support.waiting import wait_until

pytestmark = [real_time.MASTER, pytest.mark.req("D10", "P8")]


async def until_counted(api: Api, worker: ScriptedWorker, attempts: int) -> dict[str, Any]:
    async def counted() -> dict[str, Any] | None:
        _, view = await api.call("GET", f"/api/workers/{worker.id}")
        figures: dict[str, Any] = view["figures"]
        return figures if figures["succeeded"] + figures["failed"] == attempts else None

    return await wait_until(counted, timeout_s=20, what=f"{attempts} attempts are counted")


async def test_attempts_are_counted_by_worker_and_by_group(api: Api) -> None:
    async with worker_at(api) as worker:
        for n in range(3):
            await api.enqueue("work", max_retry=0)
            job = await worker.next_job()
            await worker.end(job, *(["failure"] if n == 0 else []))
        figures = await until_counted(api, worker, 3)
        assert (figures["succeeded"], figures["failed"], figures["failed_share"]) == (2, 1, 0.3333)
        assert figures["run"]["count"] == 3
        assert figures["attempts_per_s"] > 0
        _, listed = await api.call("GET", "/api/workers")
        assert listed["workers"][0]["figures"]["failed"] == 1
        for by, value, label in (("node", "node-1", None), ("version", "1.0", None), ("label", "b", "zone")):
            status, answer = await api.call("GET", f"/api/workers/groups?by={by}")
            assert (status, answer["by"]) == (200, by)
            (group,) = answer["groups"]
            assert (group["value"], group["label"], group["max_jobs"]) == (value, label, 10)
            assert group["workers"] == {"fresh": 1, "stale": 0, "draining": 0, "detached": 0}
            assert group["figures"]["failed"] == 1
        assert (await api.call("GET", "/api/workers/groups"))[1]["by"] == "node"
        await api.call("POST", f"/api/workers/{worker.id}/drain")
        (group,) = (await api.call("GET", "/api/workers/groups"))[1]["groups"]
        assert group["workers"]["draining"] == 1


async def test_workers_have_no_other_groups(api: Api) -> None:
    status, problem = await api.call("GET", "/api/workers/groups?by=name")
    assert (status, problem["errors"][0]["loc"]) == (422, ["query", "by"])
