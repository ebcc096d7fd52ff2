"""Statistics over HTTP, of real jobs on a real master."""

from typing import Any

import pytest

from jqmaster.app import Master
from jqmaster.domain.jobs.failure_group import failure_group_id
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.spec.examples.values import JOB_ID
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER

SPANS = ("1h", "3h", "6h", "24h", "7d", "30d")


async def get(api: Api, path: str) -> Any:
    status, answer = await api.call("GET", path)
    assert status == 200, answer
    return answer


async def get_unchecked(api: Api, path: str) -> Any:
    """Return the answer as JSON, without checking it against the contract."""
    response = await api.http.get(path, headers={"Accept": "application/json"})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.req("P8")
async def test_the_present_state_of_an_idle_system(api: Api, master: Master) -> None:
    stats = await get(api, "/api/stats")
    assert set(stats["counts"].values()) == {0}
    assert stats["oldest_wait_ms"] is None
    assert set(stats["rates"].values()) == {0.0}
    assert stats["workers"] == {
        "fresh": 0,
        "stale": 0,
        "draining": 0,
        "detached": 0,
        "max_jobs": 0,
        "busy": 0,
    }
    assert stats["store"]["server"].split()[0] in ("Valkey", "Redis")
    assert stats["store"]["used_memory_bytes"] > 0
    assert stats["store"]["faults"] == []

    async def led() -> bool:
        found = (await get(api, "/api/stats"))["masters"]
        return bool(found["leader_id"] == master.id and found["fresh"] == 1)

    await wait_until(led, what="the master is listed as the leader")


@pytest.mark.req("P8")
async def test_jobs_are_seen_in_stats_history_and_names(api: Api) -> None:
    for _ in range(3):
        await api.enqueue("mail/send.v2")
    canceled = await api.enqueue("other")
    await api.call("POST", f"/api/jobs/{canceled}/cancel")

    async def counted() -> bool:
        rows = {row["name"]: row for row in (await get(api, "/api/names"))["names"]}
        return rows.get("mail/send.v2", {}).get("pushed") == 3 and rows.get("other", {}).get("canceled") == 1

    await wait_until(counted, what="the counts are in the store")

    async def waits() -> bool:
        stats = await get(api, "/api/stats")
        return stats["oldest_wait_ms"] is not None and stats["counts"]["ready"] == 3

    await wait_until(waits, what="the leader looked at the backlog")
    assert (await get(api, "/api/stats"))["rates"]["pushed"] > 0
    for span in SPANS:
        # Only short answers are checked against the contract: the check takes longer than the answer.
        whole = await get_unchecked(api, f"/api/stats/history?span={span}")
        assert sum(point["pushed"] for point in whole["points"]) == 4
        assert whole["step_s"] == (60 if span in SPANS[:4] else 3600)
        one = await get_unchecked(api, f"/api/stats/history?span={span}&name=mail/send.v2")
        assert sum(point["pushed"] for point in one["points"]) == 3
        assert [p["at"] for p in one["points"]] == sorted({p["at"] for p in one["points"]})
        rows = (await get(api, f"/api/names?span={span}&sort=pushed"))["names"]
        assert [(row["name"], row["pushed"]) for row in rows] == [("mail/send.v2", 3), ("other", 1)]

    async def sampled() -> bool:
        points = (await get_unchecked(api, "/api/stats/history"))["points"]
        return any(point["backlog"] == 3 and point["oldest_wait_ms"] is not None for point in points)

    await wait_until(sampled, what="the backlog is in the history")
    assert len((await get(api, "/api/stats/history"))["points"]) == 60
    detail = await get(api, "/api/names/mail%2Fsend.v2?span=24h")
    assert (detail["name"], detail["ready"], detail["pushed"]) == ("mail/send.v2", 3, 3)
    assert (await get_unchecked(api, "/api/names/mail/send.v2"))["pushed"] == 3
    first = await get(api, "/api/names?limit=1&sort=ready")
    second = await get(api, f"/api/names?limit=1&sort=ready&cursor={first['next_cursor']}")
    assert [row["name"] for row in first["names"] + second["names"]] == ["mail/send.v2", "other"]
    assert second["next_cursor"] is None
    assert [row["name"] for row in (await get(api, "/api/names?q=oth"))["names"]] == ["other"]


@pytest.mark.req("P8")
@pytest.mark.row(115)
@for_each(
    "path",
    [
        "/api/stats?span=1h",
        "/api/stats/history?days=1000000000",
        "/api/stats/history?span=1000000000d",
        "/api/stats/history?span=",
        "/api/stats/history?name=",
        f"/api/stats/history?name={'x' * 201}",
        "/api/stats/history?name=%00",
        "/api/names?limit=1000000000",
        "/api/names?sort=argument",
        "/api/names?cursor=nonsense",
        "/api/names?span=2h",
        "/api/names/mail.send?span=1y",
        "/api/failures?limit=0",
        "/api/failures?cursor=AAAA",
        f"/api/failures?q={'x' * 201}",
    ],
)
async def test_values_out_of_bounds_are_refused_at_once(api: Api, path: str) -> None:
    status, problem = await api.call("GET", path)
    assert status == 422, problem
    assert problem["code"] in ("invalid", "invalid_cursor")


async def test_a_name_that_was_never_counted_is_unknown(api: Api) -> None:
    status, problem = await api.call("GET", "/api/names/no.such")
    assert (status, problem["code"]) == (404, "unknown_name")
    assert (await get(api, "/api/failures"))["groups"] == []


@pytest.mark.req("P8")
async def test_failures_come_by_group_and_hostile_messages_stay_text(api: Api, master: Master) -> None:
    failed = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
    hostile = "<script>alert(1)</script>\x00\u202e\r\nSet-Cookie: a=b"
    for n in range(3):
        master.shard.services.tally.ended("mail", failed, job_id=JOB_ID, message=f"order {n} is gone")
    master.shard.services.tally.ended("mail", failed, job_id=JOB_ID, message=hostile)

    async def grouped() -> dict[str, Any] | None:
        groups = {group["message"]: group for group in (await get(api, "/api/failures?limit=10"))["groups"]}
        return groups if len(groups) == 2 else None

    groups = await wait_until(grouped, what="the failures are in the store")
    group = groups.pop("order <n> is gone")
    assert (group["count"], group["name"], group["cause"], group["example_job_id"]) == (
        3,
        "mail",
        "error",
        JOB_ID,
    )
    assert group["id"] == failure_group_id("mail", "error", "order 77 is gone")
    assert list(groups) == ["<script>alert(<n>)</script> Set-Cookie: a=b"]
    page = await get_unchecked(api, "/api/failures?q=ORDER&name=mail")
    assert [one["message"] for one in page["groups"]] == ["order <n> is gone"]
    # The group's ID also filters the list of jobs.
    assert (await api.call("GET", f"/api/jobs?failure_group={group['id']}"))[0] == 200
