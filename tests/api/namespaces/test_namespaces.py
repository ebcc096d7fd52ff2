"""Namespaces over HTTP: created, used, closed, deleted, and looked at together."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.app import Master
from jqmaster.domain.namespaces.quotas import QUOTAS
from tests.support import real_time
from tests.support.master import Api, forget, master_on
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]


class Installation:
    """A master with the stores `default` and `b`. Tags begin with its shard, because tests share a server."""

    def __init__(self, master: Master, api: Api) -> None:
        self.master = master
        self.api = api
        self.tags: list[str] = []
        self._below: list[Api] = []

    async def create(self, name: str, **fields: Any) -> dict[str, Any]:
        self.tags.append(f"{self.master.settings.shard}-{name}")
        status, view = await self.api.call("PUT", f"/api/namespaces/{name}", {"tag": self.tags[-1], **fields})
        assert status == 201, view
        return view

    def below(self, name: str) -> Api:
        """Return a client of a namespace."""
        self._below.append(Api(f"{self.master.server.url}/ns/{name}"))
        return self._below[-1]

    async def until_served(self, name: str) -> Api:
        api = self.below(name)

        async def leads() -> bool:
            status, ready = await api.call("GET", "/readyz")
            return status == 200 and bool(ready["leader"])

        await wait_until(leads, what=f"namespace {name} is served")
        return api

    async def close(self) -> None:
        for api in self._below:
            await api.http.aclose()


@pytest.fixture
def other() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


@pytest.fixture
async def one(store_server: StoreServer, other: StoreServer, tmp_path: Path) -> AsyncIterator[Installation]:
    settings = {"stores": {"b": {"redis_url": other.url}}, "data_dir": tmp_path, "store_timeout_s": 1.0}
    async with master_on(store_server.url, **settings) as (master, api):
        installation = Installation(master, api)
        try:
            yield installation
        finally:
            await installation.close()
    for tag in installation.tags:
        await forget(store_server.url, tag)


async def test_a_namespace_is_created_used_closed_and_deleted(one: Installation) -> None:
    made = await one.create("shop", title="The shop")
    assert made == {
        "name": "shop", "title": "The shop", "store": "default", "tag": one.tags[0], "state": "open",
        "quotas": dict.fromkeys(QUOTAS), "version": made["version"],
    }  # fmt: skip
    shop = await one.until_served("shop")
    job_id = await shop.enqueue("work")
    assert (await one.api.call("GET", f"/api/jobs/{job_id}"))[0] == 404
    assert await shop.state(job_id) == "ready"
    status, view = await one.api.call("POST", "/api/namespaces/shop/close")
    assert (status, view["state"]) == (200, "closed")

    async def is_closed() -> bool:
        return (await shop.call("GET", f"/api/jobs/{job_id}"))[1].get("code") == "namespace_closed"

    await wait_until(is_closed)
    assert (await one.api.call("POST", "/api/namespaces/shop/open"))[1]["state"] == "open"
    await one.until_served("shop")
    assert await shop.state(job_id) == "ready"
    path = "/api/namespaces/shop"
    for query, code in (("", "invalid"), ("?confirm=ship", "invalid"), ("?confirm=shop&force=1", "invalid"),
                        ("?confirm=shop", "namespace_open")):  # fmt: skip
        assert (await one.api.call("DELETE", path + query))[1]["code"] == code
    await one.api.call("POST", "/api/namespaces/shop/close")
    assert (await one.api.call("DELETE", f"{path}?confirm=shop"))[1]["code"] == "namespace_not_empty"
    assert (await one.api.call("DELETE", f"{path}?confirm=shop&force=true"))[0] == 204

    async def is_unknown() -> bool:
        return (await shop.call("GET", f"/api/jobs/{job_id}"))[1].get("code") == "unknown_namespace"

    await wait_until(is_unknown)
    # The data come back with their tag.
    await one.create("shop")
    await one.until_served("shop")
    assert await shop.state(job_id) == "ready"
    actions = [
        entry["action"] for entry in (await one.api.call("GET", "/api/audit?target=shop"))[1]["entries"]
    ]
    words = ["put", "close", "open", "close", "delete", "put"]
    assert actions == [f"namespace.{word}" for word in reversed(words)]


async def test_a_change_compares_the_version(one: Installation) -> None:
    made = await one.create("shop")
    response = await one.api.http.get("/api/namespaces/shop")
    etag = response.headers["etag"]
    assert etag == f'"{made["version"]}"'
    title = {"title": "New"}
    status, changed = await one.api.call("PUT", "/api/namespaces/shop", title, **{"If-Match": etag})
    assert (status, changed["title"], changed["version"] > made["version"]) == (200, "New", True)
    status, problem = await one.api.call("PUT", "/api/namespaces/shop", title, **{"If-Match": etag})
    assert (status, problem["code"]) == (412, "precondition_failed")
    status, problem = await one.api.call("PUT", "/api/namespaces/shop", title, **{"If-None-Match": "*"})
    assert (status, problem["code"]) == (412, "namespace_exists")
    # Sent back as it was shown, it changes nothing.
    assert (await one.api.call("PUT", "/api/namespaces/shop", changed)) == (200, changed)


async def test_impossible_values_are_refused_with_their_rule(one: Installation) -> None:
    for name, loc, text in (
        ("Shop", "name", "such as shop"),
        ("new", "name", "must not be one of"),
        ("x" * 40, "name", "2 to 39"),
    ):
        status, problem = await one.api.call("PUT", f"/api/namespaces/{name}", {})
        assert (status, problem["errors"][0]["loc"]) == (422, [loc])
        assert text in problem["errors"][0]["msg"]
    status, problem = await one.api.call("PUT", "/api/namespaces/shop", {"store": "c"})
    assert (status, problem["errors"][0]["loc"]) == (422, ["store"])
    status, problem = await one.api.call("PUT", "/api/namespaces/shop", {"name": "mail"})
    assert (status, problem["errors"][0]["msg"]) == (422, "must be shop")
    shard = one.master.settings.shard
    status, problem = await one.api.call("PUT", "/api/namespaces/shop", {"tag": shard})
    assert (status, problem["code"]) == (409, "namespace_tag_taken")
    for method, path, code in (
        ("GET", "/api/namespaces/shop", "unknown_namespace"),
        ("POST", "/api/namespaces/shop/close", "unknown_namespace"),
        ("DELETE", "/api/namespaces/shop?confirm=shop", "unknown_namespace"),
        ("POST", "/api/namespaces/default/close", "default_namespace"),
        ("DELETE", "/api/namespaces/default?confirm=default", "default_namespace"),
    ):
        assert (await one.api.call(method, path))[1]["code"] == code


async def test_namespaces_are_managed_only_at_the_installation(one: Installation) -> None:
    await one.create("shop")
    shop = await one.until_served("shop")
    for path in ("/api/namespaces", "/api/namespaces/shop", "/api/overview", "/api/stores"):
        status, problem = await shop.call("GET", path)
        assert (status, problem["code"]) == (404, "not_found")
        assert "namespaces and users belong to the installation" in problem["detail"]


async def test_a_full_namespace_refuses_pushes_and_nothing_else(one: Installation) -> None:
    await one.create("shop", quotas={"waiting_jobs": 2})
    shop = await one.until_served("shop")
    await shop.enqueue("work")
    job_id = await shop.enqueue("work")

    async def pushed() -> tuple[int, Any]:
        return await shop.call("POST", "/api/jobs", {"name": "work"})

    async def is_full() -> bool:
        return (await pushed())[1].get("code") == "namespace_full"

    await wait_until(is_full)
    response = await shop.http.post("/api/jobs", json={"name": "work"})
    assert (response.status_code, response.headers["retry-after"]) == (429, "5")
    bulk = {"jobs": [{"name": "work"}]}
    assert (await shop.call("POST", "/api/jobs/bulk", bulk))[1]["code"] == "namespace_full"
    # Other namespaces are not concerned, and neither are operators.
    await one.api.enqueue("work")
    assert (await shop.call("POST", f"/api/jobs/{job_id}/cancel"))[0] == 200
    (entry,) = [
        entry
        for entry in (await one.api.call("GET", "/api/overview"))[1]["namespaces"]
        if entry["name"] == "shop"
    ]
    assert entry["waiting_quota"] >= 0.5
    # A request without quotas removes them.
    assert (await one.api.call("PUT", "/api/namespaces/shop", {}))[1]["quotas"]["waiting_jobs"] is None
    assert (await pushed())[0] == 201


async def test_an_argument_over_the_quota_is_refused_wherever_a_job_is_given(one: Installation) -> None:
    await one.create("shop", quotas={"argument_bytes": 100})
    shop = await one.until_served("shop")
    small, large = {"name": "work", "argument": "x" * 90}, {"name": "work", "argument": "x" * 101}
    schedule = {"daily_at": "02:30"}
    calls: list[tuple[str, str, dict[str, Any], list[str | int]]] = [
        ("POST", "/api/jobs", large, ["argument"]),
        ("POST", "/api/jobs/bulk", {"jobs": [small, large]}, ["jobs", 1, "argument"]),
        ("PUT", "/api/definitions/hourly", {"job": large, "schedule": schedule}, ["job", "argument"]),
        ("POST", "/api/batches", {"on_success": large}, ["on_success", "argument"]),
    ]
    for method, path, body, loc in calls:
        status, problem = await shop.call(method, path, body)
        assert (status, problem["code"]) == (422, "argument_over_quota"), (path, problem)
        assert problem["errors"] == [{"loc": loc, "msg": "at most 100 bytes"}]
        assert "raise the quota argument_bytes" in problem["detail"]
    assert (await shop.call("POST", "/api/jobs", small))[0] == 201
    # Other namespaces have no such quota, and the setting still counts.
    assert (await one.api.call("POST", "/api/jobs", large))[0] == 201
    most = one.master.settings.max_argument_bytes
    huge = {"name": "work", "argument": "x" * (most + 1)}
    status, problem = await shop.call("POST", "/api/jobs", huge)
    assert (status, problem["code"]) == (413, "argument_too_large")
    assert (await one.api.call("PUT", "/api/namespaces/shop", {}))[1]["quotas"]["argument_bytes"] is None

    async def is_accepted() -> bool:
        return (await shop.call("POST", "/api/jobs", large))[0] == 201

    await wait_until(is_accepted)


async def test_a_session_tells_whether_there_are_other_namespaces(one: Installation) -> None:
    assert (await one.api.call("GET", "/api/session"))[1]["has_namespaces"] is False
    await one.create("shop")
    shop = await one.until_served("shop")
    for api in (one.api, shop):
        assert (await api.call("GET", "/api/session"))[1]["has_namespaces"] is True
    # Unknown callers do not learn it.
    assert (await one.api.call("POST", "/api/tokens", {"label": "all", "scopes": ["admin"]}))[0] == 201
    for api in (one.api, shop):
        assert (await api.call("GET", "/api/session"))[1]["has_namespaces"] is False


async def test_only_admins_change_namespaces(one: Installation) -> None:
    made = await one.create("shop")
    tokens = {}
    for scope in ("admin", "operate", "read"):
        answer = (await one.api.call("POST", "/api/tokens", {"label": scope, "scopes": [scope]}))[1]
        tokens[scope] = Api(one.master.server.url, answer["token"])
        if scope == "admin":
            one.api.http.headers["Authorization"] = f"Bearer {answer['token']}"
    try:
        for scope in ("operate", "read"):
            for method, path in (
                ("PUT", "/api/namespaces/mail"),
                ("DELETE", "/api/namespaces/shop?confirm=shop"),
                ("POST", "/api/namespaces/shop/close"),
                ("POST", "/api/namespaces/shop/open"),
                ("POST", "/api/namespaces/shop/move"),
                ("DELETE", "/api/namespaces/shop/move"),
            ):
                body: dict[str, Any] | None = {} if method == "PUT" else None
                assert (await tokens[scope].call(method, path, body))[1]["code"] == "forbidden"
            assert (await tokens[scope].call("GET", "/api/namespaces/shop")) == (
                200,
                {**made, "move": None, "move_fault": ""},
            )
        assert (await tokens["admin"].call("POST", "/api/namespaces/shop/close"))[0] == 200
    finally:
        for api in tokens.values():
            await api.http.aclose()


async def test_the_overview_and_the_stores_tell_of_a_store_that_is_away(
    one: Installation, other: StoreServer
) -> None:
    await one.create("shop")
    await one.create("mail", store="b")
    await (await one.until_served("shop")).enqueue("work")
    await one.until_served("mail")

    async def seen() -> dict[str, dict[str, Any]]:
        answer = (await one.api.call("GET", "/api/overview"))[1]
        return {entry["name"]: entry for entry in answer["namespaces"]}

    async def counts_it() -> bool:
        return bool((await seen())["shop"]["ready"])

    await wait_until(counts_it)
    found = await seen()
    assert list(found) == ["default", "mail", "shop"]
    assert {entry["leader"] for entry in found.values()} == {one.master.id}
    assert (found["shop"]["ready"], found["shop"]["running"], found["mail"]["ready"]) == (1, 0, 0)
    stores = (await one.api.call("GET", "/api/stores"))[1]["stores"]
    assert [(store["name"], store["namespaces"], store["faults"]) for store in stores] == [
        ("default", ["default", "shop"], {}),
        ("b", ["mail"], {}),
    ]
    assert all(store["server"] and store["topology"] == "single" for store in stores)
    other.kill()

    async def is_away() -> bool:
        return (await seen())["mail"]["fault"] is not None

    await wait_until(is_away)
    found = await seen()
    assert (found["mail"]["ready"], found["mail"]["leader"]) == (None, None)
    assert found["shop"]["ready"] == 1
    (_, b) = (await one.api.call("GET", "/api/stores"))[1]["stores"]
    assert list(b["faults"]) == ["away"]
    with contextlib.suppress(OSError):
        other.start()


async def test_a_move_that_no_master_can_end_is_ended_by_force(one: Installation) -> None:
    await one.create("shop")
    api = await one.until_served("shop")
    job_id = await api.enqueue("work")
    path = "/api/namespaces/shop"
    redis, keys = one.master.shard.services.link.client.redis, one.master.shard.services.link.keys
    await redis.hset(keys.move("shop"), "step", "flying")
    _, shown = await one.api.call("GET", path)
    assert (shown["move"], "abort-move shop --force" in shown["move_fault"]) == (None, True)
    # Its document can be sent back as it was shown.
    assert (await one.api.call("PUT", path, shown))[0] == 200
    overview = (await one.api.call("GET", "/api/overview"))[1]["namespaces"]
    assert {entry["name"] for entry in overview if entry["failed_move"]} == {"shop"}
    status, problem = await one.api.call("DELETE", f"{path}/move")
    assert (status, problem["code"]) == (409, "move_record_damaged")
    status, problem = await one.api.call("DELETE", f"{path}/move?force=perhaps")
    assert (status, problem["errors"][0]["msg"]) == (422, "must be true or false")
    status, shown = await one.api.call("DELETE", f"{path}/move?force=true")
    assert (status, shown["state"], shown["move"], shown["move_fault"]) == (202, "open", None, "")
    assert await api.state(job_id) == "ready"
    status, problem = await one.api.call("DELETE", f"{path}/move?force=true")
    assert (status, problem["code"]) == (409, "not_moving")
