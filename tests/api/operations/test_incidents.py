"""Incidents and marks over HTTP, from a real leader that saw them."""

import asyncio
from typing import Any

import pytest

from jqmaster.app import Master
from jqmaster.domain.content.content import full_access
from jqmaster.domain.operations.timeline import LeaderCause, TimelineEntry, TimelineKind
from tests.api.operations.test_masters import follower_of
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [real_time.MASTER, pytest.mark.req("D21")]


async def read(api: Api, path: str) -> dict[str, Any]:
    status, answer = await api.call("GET", path)
    assert status == 200, answer
    assert isinstance(answer, dict)
    return answer


async def marks(api: Api, kind: str) -> list[dict[str, Any]]:
    return [one for one in (await read(api, "/api/marks"))["marks"] if one["kind"] == kind]


async def over(api: Api) -> dict[str, Any] | None:
    """Return the newest incident if it is over."""
    found: list[dict[str, Any]] = (await read(api, "/api/incidents"))["incidents"]
    return found[0] if found and found[0]["ended_at"] else None


async def watched(master: Master) -> None:
    """Return once the leader keeps the timeline. Nothing that happened before gets an entry."""
    await wait_until(master.shard.services.timeline_store.known, what="the leader has begun the timeline")


async def test_a_lost_worker_is_an_incident_with_its_jobs_until_they_are_taken_back(
    store_server: StoreServer,
) -> None:
    async with master_on(store_server.url, lease_ms=5_000) as (master, api):
        await watched(master)
        async with worker_at(api) as worker:
            await wait_until(lambda: marks(api, "deploy"), what="the first worker of a version is a mark")
            await api.enqueue("work")
            await worker.next_job()
            duties = master.shard.duties
            assert duties
            await wait_until(lambda: duties.grace.is_over, timeout_s=20, what="the grace period is over")
            worker.is_silent = worker.is_deaf = True
            incident = await wait_until(lambda: over(api), timeout_s=20, what="the incident is over")
        kinds = [(one["kind"], one["subject"], one["count"]) for one in incident["entries"]]
        assert kinds == [("worker_lost", worker.id, 1), ("jobs_returned", worker.id, 1)]
        assert incident["title"] == "Worker detached, jobs taken back"
        assert incident["entries"][0]["text"] == (
            "Worker node-1:1 fell silent and was detached; it held 1 job."
        )
        path = f"/api/incidents/{incident['id']}"
        assert (await read(api, path))["acknowledged"] == []
        status, answer = await api.call("POST", f"{path}/acknowledge", {"note": "on it"})
        assert (status, [one["label"] for one in answer["acknowledged"]]) == (200, ["on it"])
        (mark,) = await marks(api, "incident")
        assert (mark["incident_id"], mark["until"]) == (incident["id"], incident["ended_at"])
        # The deploy before it is shown beside it, not in it.
        assert "deploy" in [one["kind"] for one in (await read(api, path))["nearby"]]


async def test_a_demoted_leader_is_a_mark_that_names_who_did_it_and_no_incident(
    store_server: StoreServer,
) -> None:
    async with (
        master_on(store_server.url, node_id="rack-1", leader_ttl_s=10.0) as (first, api),
        follower_of(store_server.url, first, node_id="rack-2", leader_ttl_s=10.0),
    ):
        await watched(first)
        status, _ = await api.call("POST", f"/api/masters/{first.id}/demote")
        assert status == 202
        (mark,) = await wait_until(
            lambda: marks(api, "leader"), timeout_s=20, what="the new leader is a mark"
        )
        entry = mark["entry"]
        assert (entry["label"][:7], entry["before"][:7], entry["cause"]) == ("rack-2:", "rack-1:", "demoted")
        assert entry["by"] == "local"
        assert (await read(api, "/api/incidents"))["incidents"] == []


async def test_a_pause_is_a_mark_with_who_reason_and_what(api: Api) -> None:
    body = {"job_name": "mail", "reason": "the partner is down", "duration_s": 60}
    assert (await api.call("POST", "/api/pauses", body))[0] == 201
    (mark,) = await marks(api, "pause")
    assert (mark["by"], mark["reason"]) == ("local", "the partner is down")
    assert mark["matcher"] == {"field": "name", "op": "eq", "value": "mail"}
    assert (await api.call("DELETE", f"/api/constraints/{mark['subject']}"))[0] == 204
    assert len(await marks(api, "resume")) == 1


@for_each(
    ("path", "code"),
    [
        ("/api/incidents?limit=0", "invalid"),
        ("/api/incidents?limit=201", "invalid"),
        ("/api/marks?since=yesterday", "invalid"),
        ("/api/marks?since=2026-11-21T04:30:00Z&until=2026-11-21T04:29:00Z", "invalid"),
        ("/api/incidents/1-0", "unknown_incident"),
        ("/api/incidents/x", "unknown_incident"),
    ],
)
async def test_missing_incidents_and_invalid_requests_are_refused(api: Api, path: str, code: str) -> None:
    status, problem = await api.call("GET", path)
    assert status == (404 if code == "unknown_incident" else 422)
    assert problem["code"].startswith(code)


async def test_only_operators_acknowledge(store_server: StoreServer) -> None:
    async with master_on(store_server.url, tokens=["read:" + "r" * 32, "operate+read:" + "o" * 32]) as (
        master,
        _,
    ):
        viewer, operator = Api(master.server.url, "r" * 32), Api(master.server.url, "o" * 32)
        assert (await viewer.call("GET", "/api/incidents"))[0] == 200
        assert (await viewer.call("GET", "/api/marks"))[0] == 200
        assert (await viewer.call("POST", "/api/incidents/1-0/acknowledge", {}))[0] == 403
        status, problem = await operator.call("POST", "/api/incidents/1-0/acknowledge", {})
        assert (status, problem["code"]) == (404, "unknown_incident")
        for one in (viewer, operator):
            await one.http.aclose()


async def test_readers_without_the_right_to_the_audit_log_see_what_was_changed_and_not_by_whom(
    store_server: StoreServer,
) -> None:
    tokens = ["push+work+read+operate+admin:everything", "read:viewer"]
    async with master_on(store_server.url, tokens=tokens) as (master, _):
        admin, viewer = Api(master.server.url, "everything"), Api(master.server.url, "viewer")
        pause = {"tag": "acme", "reason": "GDPR request of José", "duration_s": 3600}
        assert (await admin.call("POST", "/api/pauses", pause))[0] == 201
        (told,), (seen,) = [await marks(api, "pause") for api in (admin, viewer)]
        assert told["by"]
        assert (told["reason"], told["matcher"] is None) == (pause["reason"], False)
        assert seen["text"] == f"Somebody began the pause {told['subject']}."
        assert (seen["by"], seen["reason"], seen["matcher"]) == ("", "", None)
        assert {**seen, "by": told["by"], "text": told["text"]} == {**told, "reason": "", "matcher": None}
        await asyncio.gather(admin.http.aclose(), viewer.http.aclose())


async def test_readers_see_that_a_leader_was_demoted_and_not_by_whom(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, _):
        await watched(master)
        timeline, leadership = master.shard.services.timeline, master.shard.leader.leadership
        assert leadership
        store = master.shard.services.timeline_store
        known = await store.known()
        assert known
        at_ms = await master.shard.services.store_time_ms()
        entries = [
            TimelineEntry(TimelineKind.WORKER_LOST, at_ms, "w1", label="node-1:7"),
            TimelineEntry(TimelineKind.LEADER_CHANGED, at_ms, "m2", label="rack-2:7", before="rack-1:7", by="ada",
                          cause=LeaderCause.DEMOTED),
        ]  # fmt: skip
        await store.note(leadership.epoch, known, entries)
        for sees_acts, by in ((True, "ada"), (False, "")):
            (incident, *_), _ = await timeline.incidents(1, sees_acts=sees_acts)
            assert [one.by for one in incident.entries] == ["", by]
            story = await timeline.incident(incident.id, full_access([]), sees_acts=sees_acts)
            assert [one.by for one in story.incident.entries] == ["", by]
            found = await timeline.marks(at_ms - 1, None, full_access([]), sees_acts=sees_acts)
            (leader,) = [mark for mark in found.marks if mark.kind == "leader"]
            assert (leader.by, "ada" in leader.text) == (by, sees_acts)
