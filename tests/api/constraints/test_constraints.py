"""Constraints over HTTP: create, change by several callers, limit, preview, and obey with real masters and workers."""

import asyncio
import base64
import json
from typing import Any

import msgpack
import pytest

from jqmaster.app import Master, running_master
from jqmaster.config import Settings
from jqmaster.domain.ids import new_id
from jqmaster.service.constraints import documents
from jqmaster.service.constraints import preview as previews
from jqmaster.service.constraints import reader as service
from jqmaster.store.constraints.constraints import MAX_CONSTRAINTS
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import ACCEPT, MSGPACK, QUICK, Api, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("J13"), real_time.MASTER]

WORK = {"field": "name", "op": "eq", "value": "work"}
ONE_AT_ONCE = {"matcher": WORK, "concurrency": 1}
PER_HOST = {"matcher": WORK, "key": "argument.host", "concurrency": 1}


async def made(api: Api, name: str, **fields: Any) -> dict[str, Any]:
    status, answer = await api.call("PUT", f"/api/constraints/{name}", {"matcher": WORK, **fields})
    assert status in (200, 201), answer
    view: dict[str, Any] = answer
    return view


async def shown(api: Api, name: str, value: str | None = None) -> dict[str, Any]:
    response = await api.http.get(
        f"/api/constraints/{name}", params={} if value is None else {"value": value}, headers=ACCEPT
    )
    assert response.status_code == 200, response.content
    found: dict[str, Any] = msgpack.unpackb(response.content)
    return found


async def in_force(api: Api, name: str) -> dict[str, Any]:
    async def settled() -> dict[str, Any] | None:
        found = await shown(api, name)
        return found if found["usage"]["in_force"] else None

    found: dict[str, Any] = await wait_until(settled, what=f"{name} is in force")
    return found


# --- made, changed, removed


async def test_a_constraint_is_made_read_changed_and_removed(api: Api) -> None:
    body = {
        "matcher": {"all": [WORK, {"field": "argument.n", "op": "exists"}]},
        "key": "argument.host",
        "concurrency": 3,
        "rate": {"limit": 10, "period_s": 0.5},
        "max_backlog": 100,
        "fair": True,
        "overrides": [{"value": "a", "concurrency": 1, "paused": True}],
    }
    response = await api.http.put("/api/constraints/c1", content=msgpack.packb(body), headers=MSGPACK)
    assert response.status_code == 201
    view = msgpack.unpackb(response.content)
    assert response.headers["etag"] == f'"{view["etag"]}"'
    assert view["matcher"] == {"all": [WORK, {"field": "argument.n", "op": "exists", "value": True}]}
    assert view["overrides"] == [{"value": "a", "concurrency": 1, "rate": None, "paused": True}]
    assert {
        f: view[f]
        for f in ("name", "enabled", "mode", "key", "concurrency", "rate", "paused", "max_backlog", "fair")
    } == {
        "name": "c1", "enabled": True, "mode": "enforce", "key": "argument.host", "concurrency": 3,
        "rate": {"limit": 10, "period_s": 0.5}, "paused": False, "max_backlog": 100, "fair": True,
    }  # fmt: skip

    response = await api.http.get("/api/constraints/c1")
    assert response.headers["etag"] == f'"{view["etag"]}"'
    detail = response.json()
    assert {field: detail[field] for field in view} == view
    status, listed = await api.call("GET", "/api/constraints")
    assert status == 200
    assert [(c["name"], c["etag"]) for c in listed["constraints"]] == [("c1", view["etag"])]

    changed = await made(api, "c1", concurrency=5)
    assert changed["etag"] != view["etag"]
    assert (changed["concurrency"], changed["rate"], changed["created_at"]) == (5, None, view["created_at"])

    assert (await api.call("DELETE", "/api/constraints/c1"))[0] == 204
    status, problem = await api.call("GET", "/api/constraints/c1")
    assert (status, problem["code"]) == (404, "unknown_constraint")
    assert (await api.call("DELETE", "/api/constraints/c1"))[0] == 404


async def test_an_answer_of_get_can_be_put_again_and_changes_nothing(api: Api) -> None:
    fields = {
        "key": "argument.host",
        "rate": {"limit": 1, "period_s": 60},
        "overrides": [{"value": 1, "paused": True}],
    }
    view = await made(api, "c1", **fields)
    document = {
        field: view[field] for field in documents.describe(documents.draft_of("c1", {**view, "paused": None}))
    }
    status, again = await api.call("PUT", "/api/constraints/c1", document)
    assert (status, again) == (200, view)
    _, audit = await api.call("GET", "/api/audit")
    assert len(audit["entries"]) == 1


async def test_a_value_of_another_type_is_a_change(api: Api) -> None:
    async def with_value(value: Any) -> str:
        matcher = {"field": "argument", "op": "eq", "value": value}
        etag: str = (await made(api, "c1", matcher=matcher, concurrency=1))["etag"]
        return etag

    assert len({await with_value(value) for value in (1, True, "1", b"1", None)}) == 5


async def test_json_says_binary_as_everywhere(api: Api) -> None:
    blob = {"$bin": base64.b64encode(b"\x00\xff").decode()}
    body = {"matcher": {"field": "argument.digest", "op": "eq", "value": blob}, "concurrency": 1}
    response = await api.http.put("/api/constraints/c1", json=body)
    assert response.status_code == 201
    assert (await shown(api, "c1"))["matcher"]["value"] == b"\x00\xff"
    response = await api.http.get("/api/constraints/c1", headers={"Accept": "application/json"})
    assert response.json()["matcher"]["value"] == blob


# --- several editors


async def test_the_second_of_two_editors_is_told(api: Api) -> None:
    first = await made(api, "c1", concurrency=1)
    tag = f'"{first["etag"]}"'
    path = "/api/constraints/c1"
    status, _ = await api.call("PUT", path, {**ONE_AT_ONCE, "concurrency": 2}, **{"If-Match": tag})
    assert status == 200
    status, problem = await api.call("PUT", path, {**ONE_AT_ONCE, "concurrency": 3}, **{"If-Match": tag})
    assert (status, problem["code"]) == (412, "precondition_failed")
    assert (await api.call("DELETE", path, **{"If-Match": tag}))[0] == 412
    status, _ = await api.call("POST", f"{path}/values", {"value": "a"}, **{"If-Match": tag})
    assert status == 412
    assert (await shown(api, "c1"))["concurrency"] == 2
    now = f'W/"other", "{(await shown(api, "c1"))["etag"]}"'
    assert (await api.call("DELETE", path, **{"If-Match": now}))[0] == 204
    # A constraint that was deleted meanwhile has changed, too.
    for demand in (tag, "*"):
        assert (await api.call("PUT", path, ONE_AT_ONCE, **{"If-Match": demand}))[0] == 412
        assert (await api.call("DELETE", path, **{"If-Match": demand}))[0] == 412


async def test_a_name_that_exists_is_not_made_again(api: Api) -> None:
    new = {"If-None-Match": "*"}
    assert (await api.call("PUT", "/api/constraints/c1", ONE_AT_ONCE, **new))[0] == 201
    status, problem = await api.call("PUT", "/api/constraints/c1", ONE_AT_ONCE, **new)
    assert (status, problem["code"]) == (412, "constraint_exists")
    etag = (await shown(api, "c1"))["etag"]
    weak = {"If-Match": f'W/"{etag}"'}
    assert (await api.call("PUT", "/api/constraints/c1", ONE_AT_ONCE, **weak))[0] == 412


@pytest.mark.parametrize("tag", ["etag", '"open', '"a" "b"', "", '"a",', '"*"'])
async def test_a_precondition_that_is_none_lets_nothing_happen(api: Api, tag: str) -> None:
    await made(api, "c1", concurrency=1)
    status, _ = await api.call(
        "PUT", "/api/constraints/c1", {**ONE_AT_ONCE, "concurrency": 9}, **{"If-Match": tag}
    )
    assert status == (412 if tag == '"*"' else 400)
    assert (await shown(api, "c1"))["concurrency"] == 1


async def test_each_of_many_writers_without_preconditions_writes_whole(api: Api) -> None:
    async def put(n: int) -> int:
        body = {**PER_HOST, "concurrency": n, "max_backlog": n}
        return (await api.call("PUT", "/api/constraints/c1", body))[0]

    async def pause(n: int) -> int:
        return (await api.call("POST", "/api/constraints/c1/values", {"value": n, "paused": True}))[0]

    assert sorted(await asyncio.gather(*map(put, range(1, 9)))) == [200] * 7 + [201]
    found = await shown(api, "c1")
    assert found["concurrency"] == found["max_backlog"]
    # Concurrent changes to different values do not undo one another.
    assert await asyncio.gather(*map(pause, range(8))) == [200] * 8
    assert sorted(o["value"] for o in (await shown(api, "c1"))["overrides"]) == list(range(8))
    _, audit = await api.call("GET", "/api/audit?limit=500")
    assert len(audit["entries"]) == 16


async def test_there_are_not_more_constraints_than_may_be(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_CONSTRAINTS == 1000
    monkeypatch.setattr("jqmaster.store.constraints.constraints.MAX_CONSTRAINTS", 2)
    await made(api, "c1", concurrency=1)
    await made(api, "c2", concurrency=1)
    status, problem = await api.call("PUT", "/api/constraints/c3", ONE_AT_ONCE)
    assert (status, problem["code"]) == (409, "too_many_constraints")
    assert (await made(api, "c2", concurrency=2))["concurrency"] == 2


# --- bad input

BAD: list[tuple[dict[str, Any], str]] = [
    ({"matcher": {}}, "matcher"),
    ({"matcher": None}, "matcher"),
    ({"matcher": []}, "matcher"),
    ({"matcher": {"all": []}}, "matcher.all"),
    ({"matcher": {"all": [WORK], "any": [WORK]}}, "matcher"),
    ({"matcher": {"not": {}}}, "matcher.not"),
    ({"matcher": {"field": "name", "op": "like", "value": "x"}}, "matcher.op"),
    ({"matcher": {"field": "nam", "op": "eq", "value": "x"}}, "matcher.field"),
    ({"matcher": {"field": "argument..x", "op": "eq", "value": 1}}, "matcher.field"),
    ({"matcher": {"field": "argument[-1]", "op": "eq", "value": 1}}, "matcher.field"),
    ({"matcher": {"field": "argument.x", "op": "eq"}}, "matcher.value"),
    ({"matcher": {"field": "argument.x", "op": "eq", "value": {"a": 1}}}, "matcher.value"),
    ({"matcher": {"field": "argument.x", "op": "eq", "value": "x" * 1025}}, "matcher.value"),
    ({"matcher": {"any": [WORK, {"field": "name", "op": "in", "value": []}]}}, "matcher.any.1.value"),
    ({"matcher": {**WORK, "extra": 1}}, "matcher.extra"),
    ({"concurrency": 0}, "concurrency"),
    ({"concurrency": -1}, "concurrency"),
    ({"concurrency": 10**6 + 1}, "concurrency"),
    ({"concurrency": 2**63}, "concurrency"),
    ({"concurrency": 1.5}, "concurrency"),
    ({"concurrency": True}, "concurrency"),
    ({"concurrency": "1"}, "concurrency"),
    ({"rate": {"limit": 0, "period_s": 1}}, "rate.limit"),
    ({"rate": {"limit": -5, "period_s": 1}}, "rate.limit"),
    ({"rate": {"limit": 10**9, "period_s": 1}}, "rate.limit"),
    ({"rate": {"limit": 1, "period_s": 0}}, "rate.period_s"),
    ({"rate": {"limit": 1, "period_s": -1}}, "rate.period_s"),
    ({"rate": {"limit": 1, "period_s": 1e308}}, "rate.period_s"),
    ({"rate": {"limit": 1, "period_s": -1e308}}, "rate.period_s"),
    ({"rate": {"limit": 1, "period_s": float("inf")}}, "rate.period_s"),
    ({"rate": {"limit": 1, "period_s": float("nan")}}, "rate.period_s"),
    ({"rate": {"limit": 1}}, "rate.period_s"),
    ({"rate": 5}, "rate"),
    ({"max_backlog": -1}, "max_backlog"),
    ({"max_backlog": 10**12}, "max_backlog"),
    ({"paused": "yes"}, "paused"),
    ({"mode": "off"}, "mode"),
    ({"key": "host"}, "key"),
    ({"key": "tags"}, "key"),
    ({"key": ""}, "key"),
    ({"key": "argument." + "x" * 2000}, "key"),
    ({"fair": True}, "fair"),
    ({"overrides": [{"value": 1, "paused": True}]}, "overrides"),
    ({"key": "argument.k", "overrides": [{"paused": True}]}, "overrides.0.value"),
    ({"rate": "10/60"}, "rate"),
    ({"key": "argument.k", "overrides": [{"value": 1, "rate": "10/60"}]}, "overrides.0.rate"),
    ({"key": "argument.k", "overrides": [{"value": ["x" * 2000], "paused": True}]}, "overrides.0.value"),
    ({"key": "argument.k", "overrides": [{"value": 1}, {"value": 1.0}]}, "overrides.1.value"),
    ({"key": "argument.k", "overrides": [{"value": "x" * 2000, "paused": True}]}, "overrides.0.value"),
    ({"key": "argument.k", "overrides": [{"value": 1, "concurrency": 0}]}, "overrides.0.concurrency"),
    ({"unknown": 1}, "unknown"),
    ({"name": "other"}, "name"),
    ({"cid": "00000000"}, "cid"),
]


async def test_a_constraint_that_is_not_valid_names_the_field_and_the_rule(api: Api) -> None:
    for fields, loc in BAD:
        given = {"matcher": WORK, **({} if "concurrency" in fields else {"concurrency": 1}), **fields}
        status, problem = await api.call("PUT", "/api/constraints/c1", given)
        assert (status, problem["code"]) == (422, "invalid"), (fields, problem)
        assert loc in [".".join(map(str, error["loc"])) for error in problem["errors"]], (fields, problem)
    status, problem = await api.call("PUT", "/api/constraints/c1", {"matcher": WORK})
    assert (status, problem["errors"][0]["loc"]) == (422, [])
    assert "has no limit" in problem["errors"][0]["msg"]
    assert (await api.call("GET", "/api/constraints"))[1] == {"constraints": []}
    assert (await api.call("GET", "/api/audit"))[1]["entries"] == []


@for_each("name", ["two%20words", "x" * 101, "%00", "%C3%A9"])
async def test_a_name_that_is_none_is_refused(api: Api, name: str) -> None:
    status, _ = await api.call("PUT", f"/api/constraints/{name}", ONE_AT_ONCE)
    assert status == 422
    assert (await api.call("GET", f"/api/constraints/{name}"))[0] == 404
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 404


async def test_a_constraint_has_a_size(api: Api) -> None:
    many = [{"field": "name", "op": "in", "value": ["x" * 1000] * 500}]
    status, problem = await api.call(
        "PUT", "/api/constraints/c1", {"matcher": {"any": many}, "concurrency": 1}
    )
    assert (status, problem["code"]) == (413, "too_large")
    deep: dict[str, Any] = WORK
    for _ in range(20):
        deep = {"not": deep}
    status, problem = await api.call("PUT", "/api/constraints/c1", {"matcher": deep, "concurrency": 1})
    assert status == 422
    status, _ = await api.call("POST", "/api/constraints/preview", {"matcher": {"any": many}})
    assert status == 413


# --- one value


async def test_one_value_is_paused_limited_and_left_alone_again(api: Api) -> None:
    await made(api, "c1", key="argument.host", concurrency=5)
    path = "/api/constraints/c1/values"
    status, view = await api.call("POST", path, {"value": "a", "paused": True})
    assert (status, view["overrides"]) == (
        200, [{"value": "a", "concurrency": None, "rate": None, "paused": True}],
    )  # fmt: skip
    _, view = await api.call("POST", path, {"value": "b", "rate": {"limit": 2, "period_s": 1.5}})
    _, view = await api.call("POST", path, {"value": "a", "concurrency": 1})
    assert view["overrides"] == [
        {"value": "a", "concurrency": 1, "rate": None, "paused": False},
        {"value": "b", "concurrency": None, "rate": {"limit": 2, "period_s": 1.5}, "paused": False},
    ]
    _, view = await api.call("POST", path, {"value": "a", "paused": False, "concurrency": None})
    assert [o["value"] for o in view["overrides"]] == ["b"]
    _, same = await api.call("POST", path, {"value": "never set"})
    assert same == view
    _, audit = await api.call("GET", "/api/audit?limit=1")
    (entry,) = audit["entries"]
    assert (entry["action"], entry["target"]) == ("constraint.value", "c1")
    assert entry["before"] == {
        "key": "argument.host", "value": "a", "concurrency": 1, "rate": None, "paused": False,
    }  # fmt: skip
    assert entry["after"] == {**entry["before"], "concurrency": None}


async def test_the_last_override_may_go_although_there_is_nothing_else(api: Api) -> None:
    await made(api, "c1", key="argument.host", overrides=[{"value": "a", "paused": True}])
    status, view = await api.call("POST", "/api/constraints/c1/values", {"value": "a"})
    assert (status, view["overrides"], view["paused"]) == (200, [], False)


async def test_values_are_what_they_are(api: Api) -> None:
    """1.0 equals 1; null, true, text and binary are distinct values."""
    await made(api, "c1", key="argument.host", concurrency=5)
    for value in (1, 1.0, "1", True, None, b"1", 1.5, -(2**63), "x" * 1024):
        status, _ = await api.call("POST", "/api/constraints/c1/values", {"value": value, "paused": True})
        assert status == 200
    overrides = (await shown(api, "c1"))["overrides"]
    assert [o["value"] for o in overrides] == [1.0, "1", True, None, b"1", 1.5, -(2**63), "x" * 1024]
    wrong: list[Any] = ["x" * 1025, b"x" * 1025, ["x" * 1025], ["x" * 1000] * 5, float("nan"), float("inf")]
    for value in wrong:
        status, problem = await api.call(
            "POST", "/api/constraints/c1/values", {"value": value, "paused": True}
        )
        assert (status, problem["errors"][0]["loc"]) == (422, ["value"])
    status, problem = await api.call("POST", "/api/constraints/c1/values", {"value": 1, "concurrency": 0})
    assert (status, problem["errors"][0]["loc"]) == (422, ["concurrency"])
    status, problem = await api.call(
        "POST", "/api/constraints/c1/values", {"value": 1, "rate": {"limit": 0, "period_s": 1}}
    )
    assert (status, problem["errors"][0]["loc"]) == (422, ["rate", "limit"])
    status, problem = await api.call("POST", "/api/constraints/c1/values", {"paused": True})
    assert (status, problem["errors"][0]["loc"]) == (422, ["value"])


async def test_a_value_needs_a_constraint_with_a_key(api: Api) -> None:
    body = {"value": "a", "paused": True}
    assert (await api.call("POST", "/api/constraints/none/values", body))[0] == 404
    await made(api, "c1", concurrency=1)
    status, problem = await api.call("POST", "/api/constraints/c1/values", body)
    assert (status, problem["errors"][0]["loc"]) == (422, ["value"])
    response = await api.http.get("/api/constraints/c1", params={"value": "a"})
    assert response.status_code == 422


# --- what it does now


async def test_use_and_holders_are_seen(api: Api) -> None:
    await made(api, "c1", **PER_HOST, rate={"limit": 10, "period_s": 60})
    await in_force(api, "c1")
    ids = {
        host: [await api.enqueue("work", {"host": host}) for _ in range(n)]
        for host, n in (("a", 3), ("b", 1))
    }
    await api.enqueue("work", {"no": "host"})
    async with worker_at(api, max_jobs=10) as worker:
        started = {(await worker.next_job())["job_id"] for _ in range(3)}
        assert started > {ids["a"][0], ids["b"][0]}
        found = await shown(api, "c1")
        assert found["usage"] == {
            "waiting": 2, "running": 2, "starts_in_window": 2, "shadow_delayed": 0, "next_opening": None,
            "in_force": True,
            "keys": 2, "held": 2, "closed_keys": 1, "is_exact": True, "running_units": None, "units_in_window": None,
        }  # fmt: skip
        assert [
            (k["value"], k["waiting"], k["running"], k["starts_in_window"], k["is_open"])
            for k in found["top_keys"]
        ] == [
            ("a", 2, 1, 1, False), ("b", 0, 1, 1, False),
        ]  # fmt: skip
        assert sorted((h["job_id"], h["worker_id"], h["value"]) for h in found["holders"]) == sorted(
            [(ids["a"][0], worker.id, "a"), (ids["b"][0], worker.id, "b")]
        )
        _, listed = await api.call("GET", "/api/constraints")
        assert listed["constraints"][0]["usage"] == found["usage"]
        one = await shown(api, "c1", "b")
        assert (one["value"]["value"], one["value"]["running"]) == ("b", 1)
        assert [h["value"] for h in one["holders"]] == ["b"]
        assert one["value"]["limits"] == {
            "concurrency": 1, "rate": {"limit": 10, "period_s": 60.0}, "paused": False,
        }  # fmt: skip
        assert (await shown(api, "c1", "nobody"))["value"]["is_open"]
        job = await api.job(ids["a"][1])
        assert job["constraints"] == ["c1"]


async def test_a_rate_tells_when_it_opens(api: Api) -> None:
    await made(api, "c1", rate={"limit": 1, "period_s": 3600})
    await in_force(api, "c1")
    await api.enqueue("work")
    await api.enqueue("work")
    async with worker_at(api) as worker:
        job = await worker.next_job()
        await worker.end(job)
        usage = (await shown(api, "c1"))["usage"]
        assert (usage["waiting"], usage["running"], usage["starts_in_window"]) == (1, None, 1)
        assert (usage["held"], usage["closed_keys"]) == (1, None)
        assert usage["next_opening"] is not None
        _, listed = await api.call("GET", "/api/constraints")
        assert listed["constraints"][0]["usage"] == usage


async def test_a_shadow_counts_and_delays_nothing(api: Api) -> None:
    await made(api, "c1", mode="shadow", concurrency=1)
    await in_force(api, "c1")
    for _ in range(3):
        await api.enqueue("work")
    async with worker_at(api) as worker:
        for _ in range(3):
            await worker.next_job()
        usage = (await shown(api, "c1"))["usage"]
        assert (usage["running"], usage["shadow_delayed"], usage["next_opening"]) == (3, 2, None)


async def test_a_list_sums_up_as_many_values_as_it_has_room_for(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(api, "few", key="argument.few", concurrency=1)
    await made(api, "many", key="argument.many", concurrency=1)
    await made(api, "none", key="argument.none", rate={"limit": 1, "period_s": 1})
    await made(api, "plain", concurrency=1)
    jobs = [{"name": "work", "argument": {"few": n % 3, "many": n}} for n in range(10)]
    assert (await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201

    async def listed() -> dict[str, tuple[Any, ...]]:
        _, found = await api.call("GET", "/api/constraints")
        return {
            one["name"]: tuple(one["usage"][of] for of in ("waiting", "running", "keys", "is_exact"))
            for one in found["constraints"]
        }

    rest = {"few": (10, 0, 3, True), "none": (0, None, 0, True), "plain": (10, 0, None, True)}
    assert await listed() == {**rest, "many": (10, 0, 10, True)}
    monkeypatch.setattr(service, "MAX_LISTED_GATES", 12)
    assert await listed() == {**rest, "many": (None, None, 10, False)}


async def test_two_thousand_values_are_seen_within_bounds(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await made(api, "c1", **PER_HOST)
    jobs = [{"name": "work", "argument": {"host": f"h{n}"}} for n in range(2000)]
    jobs += [{"name": "work", "argument": {"host": "h7"}}] * 5
    assert (await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201
    found = await shown(api, "c1")
    assert (found["usage"]["keys"], found["usage"]["waiting"]) == (2000, 1005)
    assert not found["usage"]["is_exact"]
    assert len(found["top_keys"]) == previews.MAX_TOP_KEYS
    assert (found["top_keys"][0]["value"], found["top_keys"][0]["waiting"]) == ("h7", 6)
    monkeypatch.setattr("jqmaster.store.constraints.usage.MAX_GATES", 5000)
    usage = (await shown(api, "c1"))["usage"]
    assert (usage["waiting"], usage["is_exact"]) == (2005, True)
    _, preview = await api.call("POST", "/api/constraints/preview", {"matcher": WORK, "key": "argument.host"})
    assert (preview["count"], preview["distinct_keys"], preview["is_exact"]) == (2005, 2000, True)
    assert preview["keys"][0] == {"value": "h7", "count": 6}
    assert len(preview["keys"]) == previews.MAX_TOP_KEYS


async def test_key_values_of_every_kind_have_a_limit_of_their_own(api: Api) -> None:
    await made(api, "c1", **PER_HOST)
    await in_force(api, "c1")
    values = [1, "1", True, None, b"1", 1.5, "x" * 100_000, "\x1b[31mred", [1, 2], {"a": 1}]
    for value in [*values, 1.0]:
        await api.enqueue("work", {"host": value})
    async with worker_at(api, max_jobs=50) as worker:
        for _ in values:
            await worker.next_job()
        found = await shown(api, "c1")
        assert (found["usage"]["running"], found["usage"]["waiting"], found["usage"]["keys"]) == (10, 1, 10)
        assert (found["top_keys"][0]["value"], found["top_keys"][0]["waiting"]) == ("1", 1)
        for key in found["top_keys"]:
            assert len(key["value"]) <= 128
            assert key["value"].isprintable()
        for text, is_open in (("1", False), ('"1"', False), ("true", False), ("null", False), ("2", True)):
            assert (await shown(api, "c1", text))["value"]["is_open"] is is_open, text
        assert not (await shown(api, "c1", json.dumps({"$bin": "MQ=="})))["value"]["is_open"]


# --- preview


async def test_a_preview_tells_which_jobs_wait_and_changes_nothing(api: Api) -> None:
    wanted = [await api.enqueue("work", {"n": n, "host": f"h{n % 2}"}) for n in range(4)]
    wanted.append(await api.enqueue("work", {"n": 9, "host": "h1"}, delay=3600))
    await api.enqueue("work", {"n": 5})
    await api.enqueue("other", {"n": 1, "host": "h0"})
    await api.enqueue("work", "no map")
    by_argument = {"all": [WORK, {"field": "argument.n", "op": "exists"}]}
    body = {"matcher": by_argument, "key": "argument.host", "limit": 3}
    status, found = await api.call("POST", "/api/constraints/preview", body)
    assert status == 200
    assert (found["count"], found["without_key"], found["is_exact"], found["distinct_keys"]) == (
        5,
        1,
        True,
        2,
    )
    assert found["keys"] == [{"value": "h1", "count": 3}, {"value": "h0", "count": 2}]
    assert len(found["examples"]) == 3
    assert {example["id"] for example in found["examples"]} <= set(wanted)
    assert (await api.call("GET", "/api/constraints"))[1] == {"constraints": []}

    # A matcher on the name alone needs to read no ready job.
    _, found = await api.call("POST", "/api/constraints/preview", {"matcher": WORK})
    assert (found["count"], found["looked_at"], found["keys"]) == (7, 1, None)
    assert {example["name"] for example in found["examples"]} == {"work"}
    assert len(found["examples"]) == 7
    _, found = await api.call("POST", "/api/constraints/preview", {"matcher": {"not": WORK}, "limit": 0})
    assert (found["count"], found["examples"]) == (1, [])


async def test_a_preview_is_bounded_and_says_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "PREVIEW_MAX_JOBS", 100)
    jobs = [{"name": "work", "argument": n} for n in range(500)]
    await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    body = {"matcher": {"field": "argument", "op": "ge", "value": 0}}
    _, found = await api.call("POST", "/api/constraints/preview", body)
    assert not found["is_exact"]
    assert found["count"] == found["looked_at"] == 100


@for_each(
    ("fields", "loc"),
    [({"matcher": {}}, "matcher"), ({"key": "nothing"}, "key"), ({"limit": 21}, "limit"), ({"limit": -1}, "limit"),
     ({"x": 1}, "x"),
     ({"matcher": {"any": [{"field": "tags", "op": "lt", "value": 1}]}}, "matcher.any.0.op"), ({"key": "tags"}, "key")],
)  # fmt: skip
async def test_a_preview_refuses_what_a_constraint_would(api: Api, fields: dict[str, Any], loc: str) -> None:
    status, problem = await api.call("POST", "/api/constraints/preview", {"matcher": WORK, **fields})
    assert (status, ".".join(map(str, problem["errors"][0]["loc"]))) == (422, loc)


# --- obeyed


async def test_it_is_obeyed_while_jobs_wait_and_its_end_frees_them_at_once(api: Api) -> None:
    for _ in range(3):
        await api.enqueue("work")
    await made(api, "c1", concurrency=1)
    await made(api, "c2", concurrency=2, paused=False)
    await in_force(api, "c1")
    async with worker_at(api) as worker:
        first = await worker.next_job()
        assert (await shown(api, "c1"))["usage"]["waiting"] == 2
        await made(api, "c1", concurrency=3)
        await worker.next_job()
        assert (await shown(api, "c2"))["usage"]["running"] == 2
        # Deleting a constraint in use starts the jobs that it held back; running jobs go on.
        assert (await api.call("DELETE", "/api/constraints/c2"))[0] == 204
        await worker.next_job()
        await worker.end(first)
        assert (await shown(api, "c1"))["usage"]["running"] == 2


async def test_a_paused_value_waits_and_the_others_go_on(api: Api) -> None:
    await made(api, "c1", key="argument.host", paused=False)
    await api.call("POST", "/api/constraints/c1/values", {"value": "a", "paused": True})
    await in_force(api, "c1")
    held = await api.enqueue("work", {"host": "a"}, priority=-1)
    free = await api.enqueue("work", {"host": "b"})
    async with worker_at(api) as worker:
        assert (await worker.next_job())["job_id"] == free
        assert await api.state(held) == "ready"
        await api.call("POST", "/api/constraints/c1/values", {"value": "a"})
        assert (await worker.next_job())["job_id"] == held


async def test_a_disabled_constraint_limits_nothing(api: Api) -> None:
    await made(api, "c1", paused=True, enabled=False)
    job_id = await api.enqueue("work")
    assert (await api.job(job_id))["constraints"] == []
    async with worker_at(api) as worker:
        await worker.next_job()
        usage = (await shown(api, "c1"))["usage"]
        assert (usage["running"], usage["waiting"]) == (None, 0)


async def test_one_job_that_met_a_429_holds_all_others_of_its_host(api: Api) -> None:
    await made(api, "hosts", key="argument.host", concurrency=1)
    await in_force(api, "hosts")
    throttled = [await api.enqueue("work", {"host": "a"}) for _ in range(3)]
    async with worker_at(api) as worker:
        job = await worker.next_job()
        hold = {"constraint": "hosts", "key": "a"}
        await worker.end(job, "deferred", retry_after=3600.0, hold=hold)
        others = [await api.enqueue("work", {"host": "b"}) for _ in range(2)]
        for expected in others:
            job = await worker.next_job()
            assert job["job_id"] == expected
            await worker.end(job)
        found = await shown(api, "hosts", "a")
        assert found["value"]["held_until"] is not None
        assert found["value"]["next_opening"] == found["value"]["held_until"]
        assert (found["value"]["running"], found["value"]["is_open"]) == (0, False)
        for job_id in throttled:
            view = await api.job(job_id)
            assert (view["state"], view["failures"]) == (
                "scheduled" if job_id == throttled[0] else "ready",
                0,
            )
        # A constraint that is created again does not know the hold.
        await api.call("DELETE", "/api/constraints/hosts")
        assert (await worker.next_job())["job_id"] == throttled[1]


async def test_a_hold_ends_by_itself(api: Api) -> None:
    await made(api, "all", paused=False)
    await in_force(api, "all")
    ids = [await api.enqueue("work") for _ in range(2)]
    async with worker_at(api, max_jobs=1) as worker:
        job = await worker.next_job()
        await worker.end(job, "deferred", retry_after=0.5, hold={"constraint": "all"})
        assert (await shown(api, "all"))["held_until"] is not None
        assert {(await worker.next_job())["job_id"]} <= set(ids)
        assert (await shown(api, "all"))["held_until"] is None
    assert {(await api.job(job_id))["failures"] for job_id in ids} == {0}


@pytest.mark.parametrize(
    "hold",
    [{"constraint": "unknown"}, {"constraint": "off", "key": "a"}, {"constraint": "hosts"},
     {"constraint": "all", "key": "a"},
     {"constraint": ""}, {"constraint": "x" * 1000, "key": {"a": [b"\xff"]}}],
    ids=str,
)  # fmt: skip
async def test_a_hold_that_fits_nothing_holds_nothing_and_the_deferral_counts(
    api: Api, hold: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    await made(api, "hosts", key="argument.host", concurrency=1)
    await made(api, "off", key="argument.host", concurrency=1, enabled=False)
    await made(api, "all", paused=False)
    await in_force(api, "all")
    await api.enqueue("work", {"host": "a"})
    second = await api.enqueue("work", {"host": "a"})
    async with worker_at(api) as worker:
        job = await worker.next_job()
        await worker.end(job, "deferred", retry_after=3600.0, hold=hold)
        assert "is ignored" in caplog.text
        assert await api.state(job["job_id"]) == "scheduled"
        assert (await worker.next_job())["job_id"] == second


@pytest.mark.parametrize(
    "hold",
    [{}, {"key": 1}, {"constraint": 5}, {"constraint": "x" * 1025}, {"constraint": "a", "more": 1}, "name"],
    ids=str,
)  # fmt: skip
async def test_a_hold_of_another_form_is_refused(api: Api, hold: Any) -> None:
    await api.enqueue("work")
    async with worker_at(api) as worker:
        job = await worker.next_job()
        item = {"job_id": job["job_id"], "token": job["token"], "type": "deferred", "retry_after": 1.0,
                "finished_at": "2026-11-21T04:30:00Z", "hold": hold}  # fmt: skip
        status, problem = await worker.report(item)
        assert (status, problem["errors"][0]["loc"][:3]) == (422, ["results", 0, "hold"])


async def test_a_full_backlog_refuses_single_and_whole_pushes(api: Api) -> None:
    await made(api, "backlog", key="argument.host", max_backlog=2)
    await api.enqueue("work", {"host": "a"})
    job_id = new_id()
    job = {"name": "work", "argument": {"host": "a"}}
    assert (await api.call("POST", "/api/jobs", {**job, "id": job_id}))[0] == 201
    response = await api.http.post("/api/jobs", content=msgpack.packb(job), headers=MSGPACK)
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1
    problem = msgpack.unpackb(response.content)
    assert (problem["code"], "backlog" in problem["detail"]) == ("backlog_full", True)
    # An accepted job may be repeated, other values have room, and a bulk is accepted whole or not at all.
    assert (await api.call("POST", "/api/jobs", {**job, "id": job_id}))[0] == 200
    other = {"name": "work", "argument": {"host": "b"}}
    status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": [other, job]})
    assert (status, problem["code"]) == (429, "backlog_full")
    status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": [other] * 3})
    assert (status, problem["code"]) == (429, "backlog_full")
    assert (await api.counts())["ready"] == 2
    assert (await api.call("POST", "/api/jobs/bulk", {"jobs": [other] * 2}))[0] == 201


async def test_a_caller_without_the_right_to_read_learns_nothing_of_constraints(
    store_server: StoreServer,
) -> None:
    tokens = ["push:pusher", "read:reader", "operate:operator"]
    async with master_on(store_server.url, tokens=tokens) as (master, _):
        pusher, reader, operator = (
            Api(master.server.url, token) for token in ("pusher", "reader", "operator")
        )
        try:
            path = "/api/constraints/c1"
            assert (await operator.call("PUT", path, ONE_AT_ONCE))[0] == 201
            job_id = await pusher.enqueue("work")
            for call in (
                ("GET", path),
                ("GET", "/api/constraints"),
                ("POST", "/api/constraints/preview", {"matcher": WORK}),
            ):
                assert (await pusher.call(*call))[0] == 403
                assert (await reader.call(*call))[0] == 200
            changes: tuple[tuple[Any, ...], ...] = (
                ("PUT", path, ONE_AT_ONCE),
                ("DELETE", path),
                ("POST", f"{path}/values", {"value": 1}),
                ("GET", "/api/audit"),
            )
            for change in changes:
                assert (await reader.call(*change))[0] == 403
            assert (await reader.job(job_id))["constraints"] == ["c1"]
            _, canceled = await pusher.call("POST", f"/api/jobs/{job_id}/cancel")
            assert canceled["constraints"] == []
        finally:
            for one in (pusher, reader, operator):
                await one.http.aclose()


async def test_another_master_obeys_a_constraint_made_on_this_one(
    store_server: StoreServer, master: Master, api: Api
) -> None:
    settings = Settings(**{**QUICK, "redis_url": store_server.url, "shard": master.settings.shard})
    async with running_master(settings) as second:
        other = Api(second.server.url)
        try:
            await other.enqueue("work", {"host": "a"})
            await made(api, "c1", key="argument.host", max_backlog=1)
            await in_force(other, "c1")
            status, problem = await other.call(
                "POST", "/api/jobs", {"name": "work", "argument": {"host": "a"}}
            )
            assert (status, problem["code"]) == (429, "backlog_full")
            assert "constraint c1" in problem["detail"]
        finally:
            await other.http.aclose()
