"""Failures over HTTP: what changed about a group, and how to ignore it."""

import json
from typing import Any

import pytest

from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.scripted_worker import ScriptedWorker, worker_at
from tests.support.waiting import wait_until

pytestmark = [real_time.MASTER, pytest.mark.req("P8")]


async def fail(api: Api, worker: ScriptedWorker, message: str) -> None:
    await api.enqueue("work", max_retry=0)
    await worker.end(await worker.next_job(), "failure", message=message)


async def groups(api: Api, query: str = "") -> list[dict[str, Any]]:
    status, answer = await api.call("GET", f"/api/failures{query}")
    assert status == 200, answer
    found: list[dict[str, Any]] = answer["groups"]
    return found


async def until_seen(api: Api, count: int) -> list[dict[str, Any]]:
    async def seen() -> list[dict[str, Any]] | None:
        found = await groups(api)
        return found if sum(group["count"] for group in found) == count else None

    return await wait_until(seen, what=f"{count} failures are counted")


async def test_a_group_shows_its_trend_and_the_versions_of_workers(api: Api) -> None:
    async with worker_at(api) as worker:
        for _ in range(2):
            await fail(api, worker, "order 7 is gone")
        (group,) = await until_seen(api, 2)
        assert (len(group["trend"]), sum(group["trend"])) == (24, 2)
        assert group["marks"] == ["new"]
        (version,) = group["versions"]
        assert (version["version"], version["count"]) == ("1.0", 2)
        assert group["ignored"] is None
        assert len(await groups(api, "?version=1.0")) == 1
        assert await groups(api, "?version=2.0") == []
        assert (await api.call("GET", "/api/failures?ignored=1"))[0] == 422


async def test_a_group_is_ignored_and_no_longer(api: Api) -> None:
    async with worker_at(api) as worker:
        await fail(api, worker, "boom")
        (group,) = await until_seen(api, 1)
        path = f"/api/failures/{group['id']}/ignore"
        status, ignored = await api.call("POST", path, {"reason": "known"})
        assert status == 200
        assert (ignored["ignored"]["reason"], ignored["ignored"]["until"], ignored["ignored"]["ended_by"]) == (
            "known", None, None,
        )  # fmt: skip
        assert [len(await groups(api, f"?ignored={flag}")) for flag in ("true", "false")] == [1, 0]
        status, ignored = await api.call("POST", path, {"duration_s": 0.001})
        assert status == 200
        assert ignored["ignored"]["until"] is not None

        async def is_over() -> bool:
            return (await groups(api))[0]["ignored"]["ended_by"] == "time"

        await wait_until(is_over, what="the time is over")
        assert [len(await groups(api, f"?ignored={flag}")) for flag in ("true", "false")] == [0, 1]
        for _ in range(2):
            status, group = await api.call("DELETE", path)
            assert (status, group["ignored"]) == (200, None)
        audit = (await api.call("GET", "/api/audit"))[1]["entries"]
        assert [entry["action"] for entry in audit[:3]] == [
            "failure.unignore", "failure.ignore", "failure.ignore",
        ]  # fmt: skip
        assert "boom" not in json.dumps(audit, default=str), "the message of a failure is not for everybody"


@for_each("body", [{"duration_s": 0}, {"duration_s": 1e12}, {"reason": "x" * 501}, {"until": 1}])
async def test_what_makes_no_sense_is_refused(api: Api, body: dict[str, Any]) -> None:
    assert (await api.call("POST", f"/api/failures/{'0' * 16}/ignore", body))[0] == 422


async def test_an_unknown_group_cannot_be_ignored(api: Api) -> None:
    for method, body in (("POST", {}), ("DELETE", None)):
        status, problem = await api.call(method, f"/api/failures/{'0' * 16}/ignore", body)
        assert (status, problem["code"]) == (404, "unknown_failure_group")
