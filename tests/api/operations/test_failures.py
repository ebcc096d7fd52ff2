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
async def test_requests_that_make_no_sense_are_refused(api: Api, body: dict[str, Any]) -> None:
    assert (await api.call("POST", f"/api/failures/{'0' * 16}/ignore", body))[0] == 422


async def test_an_unknown_group_cannot_be_ignored(api: Api) -> None:
    for method, body in (("POST", {}), ("DELETE", None)):
        status, problem = await api.call(method, f"/api/failures/{'0' * 16}/ignore", body)
        assert (status, problem["code"]) == (404, "unknown_failure_group")


TRACE = """Traceback (most recent call last):
  File "/app/shop/payments.py", line 12, in capture
    raise CardDeclined(customer)
shop.errors.CardDeclined: declined
"""


async def declined(api: Api, worker: ScriptedWorker, customer: str, **argument: Any) -> None:
    """Let a job fail at the same place in the code, with the name of the customer in its message."""
    await api.enqueue("work", argument, max_retry=0)
    error = {"type": "shop.errors.CardDeclined", "message": customer, "traceback": TRACE}
    await worker.end(
        await worker.next_job(),
        "failure",
        message=f"CardDeclined: カードが拒否されました: {customer}",
        error=error,
    )


async def test_failures_of_one_place_are_one_group_and_show_whom_they_affect(api: Api) -> None:
    async with worker_at(api) as worker:
        for customer, tenant in (("José Peña", "acme"), ("山田 太郎", "acme"), ("Zoë", "globex")):
            await declined(api, worker, customer, tenant=tenant)
        await declined(api, worker, "Jürgen")
        (group,) = await until_seen(api, 4)
        assert group["raised_at"] == {
            "file": "shop/payments.py", "function": "capture", "code": "raise CardDeclined(customer)",
        }  # fmt: skip
        found = (await api.call("GET", f"/api/jobs?state=failed&failure_group={group['id']}"))[1]
        assert len(found["jobs"]) == 4
        path = f"/api/failures/{group['id']}/values?path="
        assert (await api.call("GET", path + "argument.tenant")) == (
            200,
            {
                "values": [{"value": '"acme"', "count": 2}, {"value": '"globex"', "count": 1}],
                "examined": 4,
                "without": 1,
                "is_complete": True,
                "distinct": 2,
                "paths": ["argument.tenant"],
            },
        )
        # Values that begin alike are told apart, and shown with their ends.
        for end in ("first", "second", "second"):
            await declined(api, worker, "Zoë", url=300 * "x" + end)
        found = (await api.call("GET", path + "argument.url"))[1]
        assert [(one["value"][-8:], one["count"], len(one["value"])) for one in found["values"]] == [
            ('xsecond"', 2, 200), ('xxfirst"', 1, 200),
        ]  # fmt: skip
        assert (found["distinct"], found["paths"]) == (2, ["argument.tenant", "argument.url"])
        for wrong in ("", "tenant", "argument..x"):
            status, problem = await api.call("GET", path + wrong)
            assert (status, problem["errors"][0]["loc"]) == (422, ["query", "path"])
        status, problem = await api.call("GET", f"/api/failures/{'0' * 16}/values?path=argument.tenant")
        assert (status, problem["code"]) == (404, "unknown_failure_group")


async def test_a_group_is_assigned_resolved_and_open_again_with_a_later_version(api: Api) -> None:
    async with worker_at(api) as worker:
        await declined(api, worker, "Zoë")
        (group,) = await until_seen(api, 1)
        path = f"/api/failures/{group['id']}"
        assert (group["assigned"], group["resolved"]) == (None, None)
        status, assigned = await api.call("POST", f"{path}/assign", {"assignee": "grace"})
        assert (status, assigned["assigned"]["assignee"]) == (200, "grace")
        assert len(await groups(api, "?assignee=grace")) == 1
        assert await groups(api, "?assignee=ada") == []
        status, resolved = await api.call("POST", f"{path}/resolve", {"version": "1.1"})
        assert (status, resolved["resolved"]["version"], resolved["resolved"]["reopened_by"]) == (
            200,
            "1.1",
            None,
        )
        assert await groups(api, "?open=true") == []
        assert len(await groups(api, "?resolved=true")) == 1
        # A worker of the old version is still there.
        await declined(api, worker, "Zoë")
        await until_seen(api, 2)
        assert await groups(api, "?open=true") == []
    async with worker_at(api, version="1.1.2") as worker:
        await declined(api, worker, "Zoë")
        await until_seen(api, 3)
        (group,) = await groups(api, "?open=true")
        assert group["resolved"]["reopened_by"] == "1.1.2"
        assert (await api.call("DELETE", f"{path}/resolve"))[1]["resolved"] is None
        assert (await api.call("DELETE", f"{path}/assign"))[1]["assigned"] is None
    entries = (await api.call("GET", "/api/audit"))[1]["entries"]
    mine = [(one["action"], one["after"]) for one in entries if one["target"] == group["id"]][::-1]
    kind = {"name": "work", "cause": "error"}
    assert mine == [
        ("failure.assign", kind | {"assignee": "grace"}),
        ("failure.resolve", kind | {"resolved": True, "version": "1.1"}),
        ("failure.reopen", kind | {"resolved": False, "version": None}),
        ("failure.assign", kind | {"assignee": None}),
    ]
    for call in ("assign", "resolve"):
        status, problem = await api.call(
            "POST", f"/api/failures/{'0' * 16}/{call}", {"assignee": "x"} if call == "assign" else {}
        )
        assert (status, problem["code"]) == (404, "unknown_failure_group")


async def test_groups_are_merged_by_hand_and_split_off_again(api: Api) -> None:
    async with worker_at(api) as worker:
        for message in ("disk full on a", "no room on b", "no room on b"):
            await fail(api, worker, message)
        found = {one["message"]: one for one in await until_seen(api, 3)}
        room, disk = found["no room on b"], found["disk full on a"]
        path = f"/api/failures/{room['id']}/merge"
        status, whole = await api.call("POST", path, {"into": disk["id"]})
        assert status == 200, whole
        assert (whole["id"], whole["count"], whole["message"]) == (disk["id"], 3, "disk full on a")
        assert whole["merged"] == [{"id": room["id"], "message": "no room on b", "count": 2}]
        assert [one["id"] for one in await groups(api)] == [disk["id"]]
        # The filter, the counts, the values and actions on many jobs take all of them, by either ID.
        for group_id in (disk["id"], room["id"]):
            query = f"?state=failed&failure_group={group_id}"
            assert len((await api.call("GET", f"/api/jobs{query}"))[1]["jobs"]) == 3
            assert (await api.call("GET", f"/api/jobs/count{query}"))[1]["count"] == 3
            values = f"/api/failures/{group_id}/values?path=argument"
            assert (await api.call("GET", values))[1]["examined"] == 3
            action = {
                "action": "retry",
                "filter": {"state": "failed", "failure_group": group_id},
                "dry_run": True,
            }
            assert (await api.call("POST", "/api/jobs/actions", action))[1]["count"] == 3
        # A decision about either is one about the whole.
        await api.call("POST", f"/api/failures/{room['id']}/ignore", {"reason": "known"})
        assert (await groups(api, "?ignored=true"))[0]["id"] == disk["id"]
        status, alone = await api.call("DELETE", path)
        assert (status, alone["id"], alone["count"], alone["merged"]) == (200, room["id"], 2, [])
        assert {one["id"]: one["count"] for one in await groups(api)} == {room["id"]: 2, disk["id"]: 1}
        audit = (await api.call("GET", "/api/audit"))[1]["entries"]
        assert [one["action"] for one in audit[:3]] == ["failure.split", "failure.ignore", "failure.merge"]


async def test_only_another_group_of_the_same_name_can_take_a_group(api: Api) -> None:
    async with worker_at(api, "work", "other") as worker:
        await fail(api, worker, "boom")
        await api.enqueue("other", max_retry=0)
        await worker.end(await worker.next_job(), "failure", message="boom")
        one, other = await until_seen(api, 2)
        path = f"/api/failures/{one['id']}/merge"
        for into, status in ((one["id"], 422), (other["id"], 422), ("0" * 16, 404), ("x", 422)):
            assert (await api.call("POST", path, {"into": into}))[0] == status, into
        assert (await api.call("DELETE", f"/api/failures/{'0' * 16}/merge"))[0] == 404


async def test_a_new_version_ends_the_ignoring_of_the_group_into_which_its_failures_were_merged(
    api: Api,
) -> None:
    async with worker_at(api) as worker:
        for message in ("disk full on a", "no room on b"):
            await fail(api, worker, message)
        found = {one["message"]: one["id"] for one in await until_seen(api, 2)}
        into = found["disk full on a"]
        await api.call("POST", f"/api/failures/{found['no room on b']}/merge", {"into": into})
        await api.call("POST", f"/api/failures/{into}/ignore", {"reason": "known"})
    async with worker_at(api, version="2.0") as worker:
        await fail(api, worker, "no room on b")

        async def is_over() -> bool:
            return (await groups(api))[0]["ignored"]["ended_by"] == "version"

        await wait_until(is_over, what="the new version is seen")
