"""Events over HTTP: send them in each form, list, replay and refuse them."""

import base64
import json
from typing import Any

import pytest

from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D6", "D9"), real_time.MASTER]


async def define(api: Api, name: str = "ship", **fields: Any) -> dict[str, Any]:
    body = {"kind": "event", "event_type": "order.*", "job": {"name": "ship"}, **fields}
    status, answer = await api.call("PUT", f"/api/definitions/{name}", body)
    assert status in (200, 201), answer
    view: dict[str, Any] = answer
    return view


async def send(api: Api, event_type: str = "order.paid", **fields: Any) -> dict[str, Any]:
    status, answer = await api.call("POST", "/api/events", {"event_type": event_type, **fields})
    assert status == 202, answer
    found: dict[str, Any] = answer
    return found


async def test_a_definition_of_events_is_made_read_and_changed(api: Api) -> None:
    body = {
        "kind": "event", "event_type": "order.*", "job": {"name": "ship", "max_retry": 3}, "overlap": "forbid",
        "matcher": {"field": "payload.total", "op": "ge", "value": 10},
        "argument": {"order": {"from": "payload.id"}, "via": "post"},
        "collect": {"max": 10, "within_s": 2.5, "key": "payload.user"},
    }  # fmt: skip
    status, view = await api.call("PUT", "/api/definitions/ship", body)
    assert status == 201, view
    for field in body.keys() - {"job"}:
        assert view[field] == body[field], field
    assert (view["schedule"], view["next_due_at"], view["debounce"]) == (None, None, None)
    # Sending a view back changes nothing.
    fields = {
        field: view[field]
        for field in (
            "kind", "event_type", "matcher", "argument", "debounce", "collect", "schedule", "time_zone", "overlap",
            "enabled", "description", "jitter_s", "skip_late_after_s", "catch_up", "max_catch_up", "starts_at",
            "ends_at",
        )
    }  # fmt: skip
    job = {key: value for key, value in view["job"].items() if not key.startswith("argument_")}
    assert await api.call("PUT", "/api/definitions/ship", {**fields, "job": job}) == (200, view)
    assert (await define(api, "plain"))["argument"] == {"from": "payload"}
    assert (await define(api, "literal", job={"name": "ship", "argument": [1]}))["argument"] is None
    status, answer = await api.call("POST", "/api/definitions/preview", body | {"count": 1})
    assert (status, answer) == (200, {"instants": [], "events": []})
    for path, request in (
        ("run", None),
        ("backfill", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}),
    ):
        status, problem = await api.call("POST", f"/api/definitions/ship/{path}", request)
        assert (status, problem["code"]) == (409, "started_by_events")


@for_each(
    ("fields", "loc"),
    [
        ({"event_type": None}, ["event_type"]),
        ({"event_type": "a b"}, ["event_type"]),
        ({"schedule": {"hourly_at": 1}}, ["schedule"]),
        ({"starts_at": "2026-01-01T00:00:00Z"}, ["starts_at"]),
        ({"matcher": {"field": "argument.a", "op": "exists"}}, ["matcher", "field"]),
        ({"matcher": {}}, ["matcher"]),
        ({"argument": {"a": {"from": "nothing"}}}, ["argument", "a", "from"]),
        ({"argument": 1, "job": {"name": "ship", "argument": 2}}, ["argument"]),
        ({"debounce": {"wait_s": 5, "max_s": 1}}, ["debounce", "max_s"]),
        ({"debounce": {"wait_s": 0}}, ["debounce", "wait_s"]),
        ({"collect": {"max": 0, "within_s": 1}}, ["collect", "max"]),
        ({"collect": {"max": 1, "within_s": 1, "key": "name"}}, ["collect", "key"]),
        ({"collect": {"max": 1, "within_s": 1}, "debounce": {"wait_s": 1}}, ["collect"]),
        ({"overlap": "queue"}, ["overlap"]),
        ({"kind": "time", "schedule": {"hourly_at": 1}}, ["event_type"]),
    ],
)
async def test_a_faulty_definition_names_the_field(api: Api, fields: dict[str, Any], loc: list[Any]) -> None:
    body = {"kind": "event", "event_type": "order.*", "job": {"name": "ship"}, **fields}
    status, problem = await api.call("PUT", "/api/definitions/ship", body)
    assert status == 422, problem
    assert loc in [error["loc"] for error in problem["errors"]]


async def test_a_definition_keeps_its_kind(api: Api) -> None:
    await define(api)
    body = {"job": {"name": "ship"}, "schedule": {"hourly_at": 1}}
    status, problem = await api.call("PUT", "/api/definitions/ship", body)
    assert (status, problem["errors"][0]["loc"]) == (422, ["kind"])


async def test_events_start_jobs_and_are_listed_and_replayed(api: Api) -> None:
    await define(api)
    answer = await send(
        api, payload={"a": 1}, dedupe_key="k", source="/shop", occurred_at="2026-01-01T00:00:00Z"
    )
    (job_id,) = answer["job_ids"]
    assert answer["runs"] == [{"definition": "ship", "outcome": "fired", "reason": None, "job_id": job_id}]
    assert (await api.job(job_id))["argument"] == {"a": 1}
    again = await send(api, dedupe_key="k", source="/shop")
    assert again == answer | {"duplicate": True}
    status, many = await api.call(
        "POST",
        "/api/events",
        {"events": [{"event_type": "user.made"}, {"event_type": "order.made", "payload": 2}]},
    )
    assert status == 202
    assert [len(one["job_ids"]) for one in many["events"]] == [0, 1]
    status, page = await api.call("GET", "/api/events")
    assert [one["event_type"] for one in page["events"]] == ["order.made", "user.made", "order.paid"]
    shown = page["events"][2]
    assert await api.call("GET", f"/api/events/{answer['event_id']}") == (200, shown)
    assert (shown["payload"], shown["dedupe_key"], shown["source"]) == ({"a": 1}, "k", "/shop")
    assert (shown["occurred_at"], shown["runs"]) == ("2026-01-01T00:00:00.000Z", answer["runs"])
    status, filtered = await api.call("GET", "/api/events?type=order.*&limit=1")
    assert [one["event_type"] for one in filtered["events"]] == ["order.made"]
    _, rest = await api.call("GET", f"/api/events?type=order.*&cursor={filtered['next_cursor']}")
    assert ([one["event_type"] for one in rest["events"]], rest["next_cursor"]) == (["order.paid"], None)
    for query, found in (
        ("source=/shop", ["order.paid"]),
        ("definition=ship", ["order.made", "order.paid"]),
        ("definition=ship&type=order.m*", ["order.made"]),
        ("definition=none", []),
    ):
        _, page = await api.call("GET", f"/api/events?{query}")
        assert [one["event_type"] for one in page["events"]] == found, query
    status, replayed = await api.call("POST", f"/api/events/{answer['event_id']}/replay")
    assert status == 202
    assert replayed["job_ids"] != answer["job_ids"]
    _, view = await api.call("GET", f"/api/events/{replayed['event_id']}")
    assert (view["replay_of"], view["payload"]) == (answer["event_id"], {"a": 1})
    _, log = await api.call("GET", f"/api/audit?target={answer['event_id']}")
    assert [entry["action"] for entry in log["entries"]] == ["event.replay"]
    _, runs = await api.call("GET", "/api/definitions/ship/runs")
    assert [run["event_id"] for run in runs["runs"]][::-1][0] == answer["event_id"]
    for method, path in (("GET", ""), ("POST", "/replay")):
        status, problem = await api.call(method, f"/api/events/{job_id}{path}")
        assert (status, problem["code"]) == (404, "unknown_event")


async def test_a_preview_tells_which_events_would_start_a_job_and_with_which_argument(api: Api) -> None:
    for total in (5, 50):
        await send(api, payload={"id": total * 10, "total": total})
    await send(api, "user.made")
    body = {
        "kind": "event",
        "event_type": "order.*",
        "matcher": {"field": "payload.total", "op": "ge", "value": 10},
    }

    async def previewed(**fields: Any) -> list[tuple[bool | None, Any]]:
        status, answer = await api.call("POST", "/api/definitions/preview", body | fields)
        assert status == 200, answer
        assert answer["instants"] == []
        return [(one["matches"], one["argument"]) for one in answer["events"]]

    assert await previewed() == [(True, {"id": 500, "total": 50}), (False, {"id": 50, "total": 5})]
    assert await previewed(argument={"order": {"from": "payload.id"}, "via": "post"}, count=1) == [
        (True, {"order": 500, "via": "post"})
    ]
    assert await previewed(job={"name": "ship", "argument": [1]}, matcher=None) == [(True, [1])] * 2
    assert await previewed(event_type="nothing.*") == []


@for_each("query", ["cursor=1", "limit=0", "type=" + "%3F".join("**") * 40, "name=a"])
async def test_a_faulty_query_is_refused(api: Api, query: str) -> None:
    if query.startswith("type"):
        query = "type=*" + "%3F" * 33 + "*"
    assert (await api.call("GET", f"/api/events?{query}"))[0] == 422


CLOUD_EVENT = {
    "specversion": "1.0", "id": "A-1", "source": "/shop", "type": "order.paid", "time": "2026-01-01T00:00:00Z",
    "subject": "7", "datacontenttype": "application/json", "data": {"n": 1}, "myextension": "x",
}  # fmt: skip


async def posted(api: Api, content: bytes, **headers: str) -> tuple[int, Any]:
    named = {"Accept": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    response = await api.http.post("/api/events", content=content, headers=named)
    return response.status_code, response.json()


async def test_cloud_events_are_taken_in_each_mode(api: Api) -> None:
    await define(api)
    status, one = await posted(
        api, json.dumps(CLOUD_EVENT).encode(), content_type="application/cloudevents+json; charset=utf-8"
    )
    assert (status, one["duplicate"]) == (202, False)
    assert (await api.job(one["job_ids"][0]))["argument"] == {"n": 1}
    _, view = await api.call("GET", f"/api/events/{one['event_id']}")
    assert [view[field] for field in ("event_type", "source", "subject", "dedupe_key", "occurred_at")] == [
        "order.paid", "/shop", "7", "A-1", "2026-01-01T00:00:00.000Z",
    ]  # fmt: skip
    binary = {
        f"ce_{name}": str(CLOUD_EVENT[name]) for name in ("specversion", "id", "source", "type", "subject")
    }
    status, again = await posted(api, b'{"n": 2}', content_type="application/json", **binary)
    assert (status, again) == (202, one | {"duplicate": True})
    batch = [
        CLOUD_EVENT,
        {key: value for key, value in CLOUD_EVENT.items() if key != "data"}
        | {"id": "A-2", "data_base64": base64.b64encode(b"xyz").decode()},
    ]
    status, both = await posted(
        api, json.dumps(batch).encode(), content_type="application/cloudevents-batch+json"
    )
    assert (status, [event["duplicate"] for event in both["events"]]) == (202, [True, False])
    assert (await api.job(both["events"][1]["job_ids"][0]))["argument"] == b"xyz"


@pytest.mark.parametrize(
    ("content", "media_type", "payload"),
    [
        (b'{"a": [1]}', "application/json", {"a": [1]}),
        (b'{"a": 1}', "application/vnd.shop+json; charset=utf-8", {"a": 1}),
        (b"\x93\x01\x02\x03", "application/msgpack", [1, 2, 3]),
        ("grüße".encode(), "text/plain", "grüße"),
        (b"\x00\xff", "application/octet-stream", b"\x00\xff"),
        (b"\x00", "", b"\x00"),
        (b"", "application/json", None),
    ],
)
async def test_data_of_each_type_is_taken_in_binary_mode(
    api: Api, content: bytes, media_type: str, payload: Any
) -> None:
    headers = {"content_type": media_type} if media_type else {}
    status, answer = await posted(
        api, content, ce_specversion="1.0", ce_id="caf%C3%A9", ce_source="/s", ce_type="t", **headers
    )
    assert status == 202, answer
    _, view = await api.call("GET", f"/api/events/{answer['event_id']}")
    assert (view["payload"], view["dedupe_key"]) == (payload, "café")


@for_each(
    ("change", "loc"),
    [
        ({"specversion": "0.3"}, ["specversion"]),
        ({"id": ""}, ["id"]),
        ({"source": None}, ["source"]),
        ({"type": "a b"}, ["type"]),
        ({"time": "yesterday"}, ["time"]),
        ({"data_base64": "AA=="}, ["data_base64"]),
        ({"data": None, "data_base64": "?"}, ["data_base64"]),
    ],
)
async def test_a_faulty_cloud_event_names_the_attribute(
    api: Api, change: dict[str, Any], loc: list[str]
) -> None:
    event = {key: value for key, value in {**CLOUD_EVENT, **change}.items() if value is not None}
    status, problem = await posted(
        api, json.dumps(event).encode(), content_type="application/cloudevents+json"
    )
    assert (status, [error["loc"] for error in problem["errors"]]) == (422, [loc])
    status, problem = await posted(
        api, json.dumps([CLOUD_EVENT, event]).encode(), content_type="application/cloudevents-batch+json"
    )
    assert (status, [error["loc"] for error in problem["errors"]]) == (422, [["events", 1, *loc]])


async def test_faulty_cloud_events_are_refused_whole(api: Api) -> None:
    json_batch = "application/cloudevents-batch+json"
    assert (await posted(api, b"{}", content_type=json_batch))[1]["code"] == "not_an_array"
    assert (await posted(api, b"[]", content_type=json_batch))[0] == 422
    assert (await posted(api, b"{", content_type="application/cloudevents+json"))[0] == 400
    binary = {"ce_specversion": "1.0", "ce_source": "/s", "ce_type": "t"}
    assert (await posted(api, b"1", content_type="application/json", **binary))[0] == 422
    assert (await posted(api, b"\xff", content_type="text/plain", ce_id="1", **binary))[0] == 400
    assert (await posted(api, b"1", content_type="application/json", ce_id="%FF", **binary))[0] == 422
    assert (await posted(api, b"1", content_type="text/csv"))[0] == 415
    assert (await api.call("GET", "/api/events"))[1]["events"] == []


@for_each(
    ("body", "loc"),
    [
        ({}, ["event_type"]),
        ({"event_type": "a b"}, ["event_type"]),
        ({"event_type": 5}, ["event_type"]),
        ({"event_type": "a", "dedupe_key": ""}, ["dedupe_key"]),
        ({"event_type": "a", "dedupe_key": "x" * 256}, ["dedupe_key"]),
        ({"event_type": "a", "occurred_at": "now"}, ["occurred_at"]),
        ({"event_type": "a", "other": 1}, ["other"]),
        ({"events": []}, ["events"]),
        ({"events": [{"event_type": "a"}, {"event_type": 1}]}, ["events", 1, "event_type"]),
    ],
)
async def test_a_faulty_event_names_the_field(api: Api, body: dict[str, Any], loc: list[Any]) -> None:
    status, problem = await api.call("POST", "/api/events", body)
    assert (status, [error["loc"] for error in problem["errors"]]) == (422, [loc])


async def test_limits_are_told(api: Api) -> None:
    status, problem = await api.call("POST", "/api/events", {"event_type": "a", "payload": "x" * 70_000})
    assert (status, problem["code"], problem["errors"][0]["loc"]) == (413, "payload_too_large", ["payload"])
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    status, problem = await api.call("POST", "/api/events", {"event_type": "a", "payload": deep})
    assert (status, problem["errors"][0]["loc"]) == (422, ["payload"])
    events = [{"event_type": "a"}] * 20_000
    assert (await api.call("POST", "/api/events", {"events": events}))[1]["code"] == "too_many_items"


async def test_collected_events_become_a_job_without_further_calls(api: Api) -> None:
    await define(api, collect={"max": 3, "within_s": 60})
    answers = [await send(api, payload=n) for n in range(3)]
    assert {one["runs"][0]["outcome"] for one in answers} == {"waiting"}
    (job_id,) = {one["runs"][0]["job_id"] for one in answers}
    assert answers[0]["job_ids"] == []

    async def is_there() -> bool:
        return (await api.call("GET", f"/api/jobs/{job_id}"))[0] == 200

    await wait_until(is_there)
    assert (await api.job(job_id))["argument"] == [0, 1, 2]


async def test_metrics_count_events(api: Api) -> None:
    await define(api)
    await define(api, "paused", enabled=False)
    await send(api, dedupe_key="a")
    await send(api, dedupe_key="a")
    text = (await api.http.get("/metrics")).text
    assert 'jqmaster_events_total{outcome="accepted"} 1.0' in text
    assert 'jqmaster_events_total{outcome="duplicate"} 1.0' in text
    assert 'jqmaster_event_matches_total{effect="fired"} 1.0' in text
    assert 'jqmaster_event_matches_total{effect="skipped"} 1.0' in text
