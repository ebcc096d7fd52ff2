"""Definitions over HTTP: create, change, preview, run and backfill them, and a real master that fires them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jqmaster.app import Master
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.each import for_each
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D6"), real_time.MASTER]

JOB = {"name": "report", "argument": {"a": [1, "b", None]}, "max_retry": 4, "tags": ["t"]}
EVERY_MINUTE = {"every_minutes": 1}


async def made(api: Api, name: str = "nightly", **fields: Any) -> dict[str, Any]:
    body = {"job": JOB, "schedule": {"daily_at": "02:30"}, **fields}
    status, answer = await api.call("PUT", f"/api/definitions/{name}", body)
    assert status in (200, 201), answer
    view: dict[str, Any] = answer
    return view


async def test_a_definition_is_made_read_changed_and_removed(api: Api) -> None:
    body = {
        "job": JOB, "schedule": {"weekly_on": ["thu", "mon"], "at": "02:30"}, "time_zone": "Asia/Tokyo",
        "overlap": "forbid", "description": "reports", "jitter_s": 1.5, "catch_up": "all", "max_catch_up": 7,
        "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z", "skip_late_after_s": 60,
    }  # fmt: skip
    status, view = await api.call("PUT", "/api/definitions/nightly", body)
    assert status == 201, view
    assert view["schedule"] == {"weekly_on": ["mon", "thu"], "at": "02:30"}
    assert view["job"]["argument"] == JOB["argument"]
    for field in body.keys() - {"job", "schedule", "starts_at", "ends_at"}:
        assert view[field] == body[field], field
    assert view["last_run"] is None
    assert view["next_due_at"]
    assert await api.call("GET", "/api/definitions/nightly") == (200, view)
    assert await api.call("GET", "/api/definitions") == (200, {"definitions": [view], "next_cursor": None})
    # A repeat of the same request writes nothing.
    assert await api.call("PUT", "/api/definitions/nightly", body) == (200, view)
    status, changed = await api.call("PUT", "/api/definitions/nightly", body | {"enabled": False})
    assert (status, changed["enabled"]) == (200, False)
    assert changed["etag"] != view["etag"]
    assert (await api.call("DELETE", "/api/definitions/nightly"))[0] == 204
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/runs"), ("POST", "/run")):
        status, problem = await api.call(method, f"/api/definitions/nightly{path}")
        assert (status, problem["code"]) == (404, "unknown_definition")
    _, log = await api.call("GET", "/api/audit?target=nightly")
    assert [entry["action"] for entry in log["entries"]] == [
        "definition.delete", "definition.put", "definition.put",
    ]  # fmt: skip
    assert "argument" not in log["entries"][-1]["after"]["job"]


async def test_the_jobs_of_a_definition_expire_after_their_start(api: Api) -> None:
    view = await made(api, job=JOB | {"expires_s": 90})
    assert view["job"]["expires_s"] == 90
    again = await made(api, job=JOB | {"expires_s": 90})
    assert again["etag"] == view["etag"]
    status, run = await api.call("POST", "/api/definitions/nightly/run")
    assert status == 201, run
    job = await api.job(run["id"])
    lives = datetime.fromisoformat(job["expires_at"]) - datetime.fromisoformat(job["created_at"])
    assert lives == timedelta(seconds=90)
    assert (await made(api, job=JOB))["job"]["expires_s"] is None
    status, problem = await api.call(
        "PUT", "/api/definitions/nightly", {"job": JOB | {"expires_s": 0}, "schedule": {"daily_at": "02:30"}}
    )
    assert (status, problem["errors"][0]["loc"]) == (422, ["job", "expires_s"])


@for_each(
    ("fields", "loc"),
    [
        ({"schedule": {"every_minutes": 0}}, ["schedule", "every_minutes"]),
        ({"schedule": {"cron": "0 0 31 2 *"}}, ["schedule", "cron"]),
        ({"schedule": None}, ["schedule"]),
        ({"time_zone": "Mars/Olympus"}, ["time_zone"]),
        ({"starts_at": "2026-02-01T00:00:00Z", "ends_at": "2026-01-01T00:00:00Z"}, ["ends_at"]),
        ({"kind": "event"}, ["schedule"]),
        ({"event_type": "order.*"}, ["event_type"]),
        ({"overlap": "other"}, ["overlap"]),
        ({"job": {"name": "report", "run_at": "2026-01-01T00:00:00Z"}}, ["job", "run_at"]),
        ({"job": {}}, ["job", "name"]),
        ({"name": "other"}, ["name"]),
        ({"max_catch_up": 0}, ["max_catch_up"]),
    ],
)
async def test_a_definition_that_makes_no_sense_is_refused_with_its_place(
    api: Api, fields: dict[str, Any], loc: list[str]
) -> None:
    body = {"job": JOB, "schedule": EVERY_MINUTE, **fields}
    status, problem = await api.call("PUT", "/api/definitions/nightly", body)
    assert status == 422, problem
    assert problem["errors"][0]["loc"] == loc, problem
    assert (await api.call("GET", "/api/definitions/nightly"))[0] == 404


async def test_an_argument_over_the_limit_is_refused(api: Api) -> None:
    body = {"job": {"name": "report", "argument": "x" * 300_000}, "schedule": EVERY_MINUTE}
    status, problem = await api.call("PUT", "/api/definitions/nightly", body)
    assert (status, problem["code"]) == (413, "argument_too_large")


async def test_preconditions_tell_of_the_changes_of_others(api: Api) -> None:
    view = await made(api)
    body = {"job": JOB, "schedule": EVERY_MINUTE}
    path = "/api/definitions/nightly"
    response = await api.http.put(path, json=body, headers={"If-None-Match": "*"})
    assert (response.status_code, response.json()["code"]) == (412, "definition_exists")
    response = await api.http.put(path, json=body, headers={"If-Match": '"other"'})
    assert (response.status_code, response.json()["code"]) == (412, "precondition_failed")
    response = await api.http.put(path, json=body, headers={"If-Match": f'"{view["etag"]}"'})
    assert response.status_code == 200
    assert response.headers["etag"] == f'"{response.json()["etag"]}"'


async def test_definitions_are_listed_in_pages(api: Api) -> None:
    for name in ("c", "a", "b"):
        await made(api, name)
    _, page = await api.call("GET", "/api/definitions?limit=2")
    assert [one["name"] for one in page["definitions"]] == ["a", "b"]
    _, page = await api.call("GET", f"/api/definitions?limit=2&cursor={page['next_cursor']}")
    assert ([one["name"] for one in page["definitions"]], page["next_cursor"]) == (["c"], None)


async def test_there_is_a_limit_on_their_number(store_server: StoreServer) -> None:
    async with master_on(store_server.url, max_definitions=1) as (_, api):
        await made(api, "one")
        status, problem = await api.call(
            "PUT", "/api/definitions/two", {"job": JOB, "schedule": EVERY_MINUTE}
        )
        assert (status, problem["code"]) == (409, "too_many_definitions")
        await made(api, "one", enabled=False)


@pytest.mark.req("D7")
async def test_a_preview_shows_what_clock_changes_do(api: Api) -> None:
    body = {
        "schedule": {"daily_at": "02:30"}, "time_zone": "Europe/Berlin", "from": "2026-03-28T00:00:00Z", "count": 3,
    }  # fmt: skip
    status, answer = await api.call("POST", "/api/definitions/preview", body)
    assert status == 200, answer
    assert [one["due_at"] for one in answer["instants"]] == [
        "2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z",
    ]  # fmt: skip
    first, gap, _ = answer["instants"]
    assert (first["note"], gap["local"]) == (None, "2026-03-29T03:00:00+02:00")
    assert gap["note"].startswith("02:30 does not exist")
    body |= {"from": "2026-10-24T12:00:00Z", "count": 1, "jitter_s": 60}
    _, answer = await api.call("POST", "/api/definitions/preview", body)
    assert "occurs twice" in answer["instants"][0]["note"]
    assert "jitter" in answer["instants"][0]["note"]
    status, problem = await api.call("POST", "/api/definitions/preview", body | {"schedule": {}})
    assert status == 422, problem


async def test_a_run_on_demand_starts_the_job_and_leaves_a_record(api: Api) -> None:
    await made(api, enabled=False)
    status, answer = await api.call("POST", "/api/definitions/nightly/run")
    assert status == 201, answer
    _, job = await api.call("GET", f"/api/jobs/{answer['id']}")
    assert (job["name"], job["argument"], job["max_retry"], job["tags"]) == (
        "report",
        JOB["argument"],
        4,
        ["t"],
    )
    _, page = await api.call("GET", "/api/definitions/nightly/runs")
    (run,) = page["runs"]
    assert (run["outcome"], run["reason"], run["job_id"]) == ("fired", "manual", answer["id"])
    _, shown = await api.call("GET", "/api/definitions/nightly")
    assert shown["last_run"] == run


async def test_a_backfill_counts_first_and_starts_each_instant_once(api: Api) -> None:
    await made(api)
    path = "/api/definitions/nightly/backfill"
    end = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    body = {"from": f"{end - timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}", "to": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
    known = {"forgotten": 0, "forgotten_until": None}
    assert await api.call("POST", path, body | {"dry_run": True}) == (
        200, {"due": 3, "fired_before": 0, "started": None, **known},
    )  # fmt: skip
    assert await api.call("POST", path, body) == (200, {"due": 3, "fired_before": 0, "started": 3, **known})
    assert await api.call("POST", path, body) == (200, {"due": 3, "fired_before": 3, "started": 0, **known})
    # A definition that is made again does not know which instants the former one fired.
    assert (await api.call("DELETE", "/api/definitions/nightly"))[0] == 204
    await made(api)
    status, counted = await api.call("POST", path, body | {"dry_run": True})
    assert (status, counted["due"], counted["fired_before"], counted["forgotten"]) == (200, 3, 0, 3)
    status, problem = await api.call("POST", path, body)
    assert (status, problem["errors"][0]["loc"]) == (422, ["from"])
    assert counted["forgotten_until"] in problem["errors"][0]["msg"]
    status, done = await api.call("POST", path, body | {"also_forgotten": True})
    assert (status, done["started"], done["forgotten"]) == (200, 3, 3)
    known["forgotten_until"] = counted["forgotten_until"]
    assert await api.call("POST", path, body) == (200, {"due": 3, "fired_before": 3, "started": 0, **known})
    _, page = await api.call("GET", "/api/definitions/nightly/runs?outcome=fired&limit=2")
    assert {run["reason"] for run in page["runs"]} == {"backfill"}
    _, page = await api.call("GET", f"/api/definitions/nightly/runs?limit=2&cursor={page['next_cursor']}")
    assert (len(page["runs"]), page["next_cursor"]) == (1, None)
    assert (await api.call("POST", path, {"from": body["to"], "to": body["from"]}))[0] == 422
    await made(api, schedule=EVERY_MINUTE)
    status, problem = await api.call("POST", path, body)
    assert (status, problem["errors"][0]["loc"]) == (422, ["to"])
    for query in ("outcome=other", "cursor=x", "limit=0"):
        assert (await api.call("GET", f"/api/definitions/nightly/runs?{query}"))[0] == 422


async def test_a_run_waits_for_room_in_the_backlog(api: Api) -> None:
    work = {"matcher": {"field": "name", "op": "eq", "value": "report"}, "max_backlog": 1}
    assert (await api.call("PUT", "/api/constraints/few", work))[0] == 201
    await made(api)
    assert (await api.call("POST", "/api/definitions/nightly/run"))[0] == 201
    status, problem = await api.call("POST", "/api/definitions/nightly/run")
    assert (status, problem["code"]) == (429, "backlog_full")


async def test_redacted_parts_that_are_sent_back_stay_as_they_are(store_server: StoreServer) -> None:
    async with master_on(store_server.url, redact_paths=["argument.secret", "headers.key"]) as (_, api):
        job = {"name": "report", "argument": {"secret": "s", "open": 1}, "headers": {"key": "k"}}
        view = await made(api, job=job)
        assert view["job"]["argument"] == {"secret": "[redacted]", "open": 1}
        assert view["job"]["argument_redacted"]
        shown = {key: view["job"][key] for key in ("name", "argument", "headers")}
        same = await made(api, job=shown)
        assert same["etag"] == view["etag"]


@pytest.mark.req("D7")
async def test_a_master_fires_what_is_due(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, api):
        await made(api, schedule=EVERY_MINUTE)
        # Pretend that the minute before last was not handled.
        link = master.shard.services.link
        redis = admin_of(link.client)
        handled_ms = int((await redis.hget(link.keys.definition_clocks, "nightly")).split(b" ")[0])
        await redis.hset(link.keys.definition_clocks, "nightly", f"{handled_ms - 60_000}  ")
        await redis.zadd(link.keys.definitions_due, {"nightly": 0})

        async def fired() -> dict[str, Any] | None:
            _, page = await api.call("GET", "/api/definitions/nightly/runs")
            return page["runs"][-1] if page["runs"] else None

        run = await wait_until(fired, what="the definition fires")
        assert (run["outcome"], run["reason"]) == ("fired", None)
        assert (await api.call("GET", f"/api/jobs/{run['job_id']}"))[1]["name"] == "report"
        metrics = (await api.http.get("/metrics", headers={"Accept": "text/plain"})).text
        assert 'jqmaster_definition_instants_total{outcome="fired"}' in metrics
        assert "jqmaster_definition_lateness_seconds_count" in metrics


async def test_a_pause_has_a_reason_and_leaves_the_rest_as_it_is(api: Api) -> None:
    before = await made(api)
    path = "/api/definitions/nightly"
    response = await api.http.post(f"{path}/pause", json={}, headers={"If-Match": '"other"'})
    assert response.status_code == 412
    status, paused = await api.call("POST", f"{path}/pause", {"reason": "the printer is away"})
    assert (status, paused["enabled"], paused["reason"]) == (200, False, "the printer is away")
    assert paused["etag"] != before["etag"]
    # A repeat of the same request writes nothing.
    assert (await api.call("POST", f"{path}/pause", {"reason": "the printer is away"}))[1] == paused
    status, problem = await api.call("POST", f"{path}/pause", {"reason": "x" * 501})
    assert (status, problem["errors"][0]["loc"]) == (422, ["reason"])
    _, resumed = await api.call("POST", f"{path}/resume")
    assert (resumed["enabled"], resumed["reason"]) == (True, "")
    changing = {"enabled", "reason", "etag", "changed_at"}
    assert {k: v for k, v in resumed.items() if k not in changing} == {
        k: v for k, v in before.items() if k not in changing
    }
    _, log = await api.call("GET", "/api/audit?target=nightly")
    actions = [entry["action"] for entry in log["entries"]]
    assert actions == ["definition.resume", "definition.pause", "definition.put"]
    assert (await api.call("POST", "/api/definitions/none/pause", {}))[0] == 404


async def skip(master: Master, name: str, count: int) -> None:
    """Record the last instants of a definition as skipped because of the job of an earlier one."""
    store = master.shard.services.link
    now_ms = await master.shard.services.store_time_ms()
    for number in range(count):
        at_ms = now_ms + number
        await admin_of(store.client).zadd(store.keys.runs(name), {f"{at_ms} skipped overlap  {at_ms}": at_ms})


async def test_a_definition_that_skips_says_why_and_for_which_job_it_waits(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, api):
        await made(api, overlap="forbid")
        status, found = await api.call("GET", "/api/definitions/nightly/why")
        assert (status, found["is_fault"], found["text"]) == (
            200,
            False,
            "Its newest instant was not skipped.",
        )
        job_id = (await api.call("POST", "/api/definitions/nightly/run"))[1]["id"]
        await skip(master, "nightly", 3)
        _, found = await api.call("GET", "/api/definitions/nightly/why")
        assert (found["is_fault"], found["skipped_in_a_row"], found["reason"]) == (True, 3, "overlap")
        assert (found["job_id"], found["job_state"]) == (job_id, "ready")
        assert found["next_due_at"] == (await api.call("GET", "/api/definitions/nightly"))[1]["next_due_at"]
        assert found["text"].startswith(
            "Its last 3 instants were skipped: the job of an earlier instant is not finished. "
            f"Job {job_id} is ready. {found['job_why']}"
        )
        assert found["job_why"]
        assert len(found["skips"]) == 3
        assert (await api.call("GET", "/api/definitions/none/why"))[0] == 404
        await api.call("POST", "/api/definitions/nightly/pause", {})
        _, found = await api.call("GET", "/api/definitions/nightly/why")
        assert (found["text"], found["is_fault"]) == ("It is paused.", False)


async def test_the_list_is_filtered_and_shows_the_newest_runs(api: Api) -> None:
    for name in ("mail-a", "Mail-b", "report"):
        await made(api, name)
    await api.call("POST", "/api/definitions/report/pause", {})

    async def names(query: str) -> list[str]:
        _, page = await api.call("GET", f"/api/definitions?{query}")
        return [one["name"] for one in page["definitions"]]

    assert await names("q=mail") == ["Mail-b", "mail-a"]
    assert await names("state=paused") == ["report"]
    assert await names("state=enabled&q=a") == ["Mail-b", "mail-a"]
    assert await names("state=troubled") == []
    assert (await api.call("GET", "/api/definitions?state=other"))[0] == 422
    _, page = await api.call("GET", "/api/definitions?state=enabled&limit=1")
    assert page["next_cursor"] == "Mail-b"
    job_ids = [(await api.call("POST", "/api/definitions/mail-a/run"))[1]["id"] for _ in range(3)]
    _, page = await api.call("GET", "/api/definitions?q=mail-a&runs=2")
    (one,) = page["definitions"]
    assert [run["job_id"] for run in one["runs"]] == job_ids[:0:-1]
    assert one["last_run"] == one["runs"][0]
    # No worker claims it.
    assert one["last_run"]["job_state"] == "ready"
    assert (await api.call("DELETE", f"/api/jobs/{job_ids[2]}"))[0] == 204
    _, page = await api.call("GET", "/api/definitions/mail-a/runs?limit=1")
    assert page["runs"][0]["job_state"] is None


async def test_a_job_names_the_definition_that_started_it(api: Api) -> None:
    await made(api, job=JOB | {"headers": {"origin": "other"}})
    _, answer = await api.call("POST", "/api/definitions/nightly/run")
    _, job = await api.call("GET", f"/api/jobs/{answer['id']}")
    _, page = await api.call("GET", "/api/definitions/nightly/runs")
    assert job["definition"] == {"name": "nightly", "due_at": page["runs"][0]["due_at"]}
    assert (job["tags"], job["headers"]) == (["t"], {"origin": "other"})
    pushed = await api.enqueue("report", headers={"origin": "other"})
    assert (await api.call("GET", f"/api/jobs/{pushed}"))[1]["definition"] is None
