"""The audit log: every change with its author, its before and its after, the newest first."""

from typing import Any

import msgpack
import pytest

from jqmaster.app import Master
from jqmaster.service.constraints import editor as service
from jqmaster.store.identity import audit as store
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.each import for_each
from tests.support.master import Api, master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("D16"), real_time.MASTER]

PASSWORD = "correct horse battery"
WORK = {"field": "name", "op": "eq", "value": "work"}


async def entries(api: Api, query: str = "") -> list[dict[str, Any]]:
    status, page = await api.call("GET", f"/api/audit{query}")
    assert status == 200, page
    found: list[dict[str, Any]] = page["entries"]
    return found


async def put(api: Api, name: str, **fields: Any) -> None:
    status, answer = await api.call("PUT", f"/api/constraints/{name}", {"matcher": WORK, **fields})
    assert status in (200, 201), answer


async def test_each_change_is_written_down_with_what_was_and_what_is(api: Api) -> None:
    await put(api, "c1", concurrency=1)
    await put(api, "c1", concurrency=1)  # no change
    await put(api, "c1", concurrency=2)
    await api.call("DELETE", "/api/constraints/c1")
    await api.call("DELETE", "/api/constraints/c1")  # no change either
    deleted, changed, made = await entries(api)
    assert [e["action"] for e in (made, changed, deleted)] == [
        "constraint.put",
        "constraint.put",
        "constraint.delete",
    ]
    assert {(e["who"], e["target"]) for e in (made, changed, deleted)} == {("local", "c1")}
    assert made["before"] is None
    assert made["after"] == {
        "name": "c1", "enabled": True, "mode": "enforce", "matcher": WORK, "key": None, "concurrency": 1, "rate": None,
        "paused": False, "max_backlog": None, "fair": False, "counts_awaiting": True, "reserve": [], "weight": None,
        "overrides": [], "expires_at": None, "reason": "",
    }  # fmt: skip
    assert changed["before"] == made["after"]
    assert changed["after"] == {**made["after"], "concurrency": 2} == deleted["before"]
    assert deleted["after"] is None
    assert made["at"] <= changed["at"] <= deleted["at"]


async def test_a_change_that_was_refused_leaves_no_trace(api: Api) -> None:
    await api.call("PUT", "/api/constraints/c1", {"matcher": WORK, "concurrency": 0})
    await api.call("PUT", "/api/constraints/c1", {"matcher": WORK, "concurrency": 1}, **{"If-Match": '"x"'})
    assert await entries(api) == []


async def test_it_names_the_token_and_not_the_secret(store_server: StoreServer) -> None:
    async with master_on(store_server.url, tokens=["operate:one-secret", "operate:other-secret"]) as (
        master,
        _,
    ):
        one, other = Api(master.server.url, "one-secret"), Api(master.server.url, "other-secret")
        try:
            await put(one, "c1", concurrency=1)
            await put(other, "c1", concurrency=2)
            whos = [entry["who"] for entry in await entries(one)]
            assert len(set(whos)) == 2
            assert all(len(who) == 8 and "secret" not in who for who in whos)
        finally:
            await one.http.aclose()
            await other.http.aclose()


async def test_it_is_read_in_pages_and_by_target(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(1, 8):
        await put(api, "even" if n % 2 == 0 else "odd", concurrency=n)
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        _, page = await api.call("GET", f"/api/audit?limit=3{cursor}")
        found += page["entries"]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert [e["after"]["concurrency"] for e in found] == [7, 6, 5, 4, 3, 2, 1]
    assert len({e["id"] for e in found}) == 7
    assert [e["after"]["concurrency"] for e in await entries(api, "?target=even")] == [6, 4, 2]
    assert await entries(api, "?target=nothing") == []
    # The search for a rare target is bounded, and the cursor continues from there.
    monkeypatch.setattr(store, "MAX_SEARCHED", 2)
    monkeypatch.setattr(store, "MAX_LOOKED_AT", 2)
    monkeypatch.setattr(store, "ENTRIES_PER_READ", 2)
    _, page = await api.call("GET", "/api/audit?target=nothing")
    assert page["entries"] == []
    _, page = await api.call("GET", f"/api/audit?target=odd&cursor={page['next_cursor']}")
    assert [e["after"]["concurrency"] for e in page["entries"]] == [5]


@for_each(
    "query",
    [
        "limit=0",
        "limit=501",
        "limit=x",
        "cursor=x",
        "cursor=1",
        "cursor=-",
        "cursor=%2B",
        "cursor=1-1_x",
        "author=me",
        "log=x",
        "after=x",
        "after=1-1_1-1&log=access",
    ],
)
async def test_a_query_that_is_not_valid_is_refused(api: Api, query: str) -> None:
    assert (await api.call("GET", f"/api/audit?{query}"))[0] == 422


async def test_a_huge_document_is_not_kept_twice(api: Api) -> None:
    matcher = {"field": "name", "op": "in", "value": [f"{n}" * 100 for n in range(500)]}
    await put(api, "c1", matcher=matcher, concurrency=1)
    (entry,) = await entries(api)
    assert entry["after"]["omitted_bytes"] > service.MAX_AUDITED_BYTES
    assert (entry["after"]["matcher"], entry["after"]["concurrency"]) == (None, 1)


async def test_an_entry_that_cannot_be_read_is_shown_as_such_and_hides_no_other(
    api: Api, master: Master
) -> None:
    await put(api, "c1", concurrency=1)
    redis, key = admin_of(master.shard.services.link.client), master.shard.services.link.keys.audit
    await redis.xadd(key, {"at_ms": "1", "entry": b"\xc1"})
    await redis.xadd(key, {"at_ms": "1", "entry": msgpack.packb({"who": "x"})})
    await redis.xadd(key, {"else": "1"})
    assert [entry["action"] for entry in await entries(api)] == [*["damaged"] * 3, "constraint.put"]
    assert len(await entries(api, "?target=c1")) == 1


@pytest.mark.rule("E6.4")
async def test_a_flood_of_changes_ages_no_access_event_out(api: Api, master: Master) -> None:
    status, _ = await api.call("POST", "/api/users", {"name": "ada", "password": PASSWORD, "role": "admin"})
    assert status == 201
    _, session = await api.call("POST", "/api/session", {"user": "ada", "password": PASSWORD})
    ada = Api(master.server.url)
    ada.http.cookies.update(api.http.cookies)
    shard = master.shard.services.link
    redis = admin_of(shard.client)
    filler = store.encode_entry(who="x", action="job.cancel", target="x", before=None, after=None)
    for _ in range(11):
        pipeline = redis.pipeline(transaction=False)
        for _ in range(10_000):
            pipeline.xadd(shard.keys.audit, {"at_ms": 1, "entry": filler})
        await pipeline.execute()
    csrf = {"X-CSRF-Token": session["csrf_token"]}
    try:
        assert (await ada.call("PUT", "/api/constraints/c1", {"matcher": WORK, "concurrency": 1}, **csrf))[
            0
        ] == 201
        assert 100_000 <= await redis.xlen(shard.keys.audit) < 100_200
        of_access = await entries(ada, "?log=access&limit=500")
        assert [e["action"] for e in of_access] == ["session.login", "user.add"]
        assert {e["log"] for e in of_access} == {"access"}
        # Both logs are read as one, in order of time.
        assert [e["action"] for e in await entries(ada, "?limit=2")] == ["constraint.put", "job.cancel"]
    finally:
        await ada.http.aclose()


@pytest.mark.rule("E6.4")
async def test_new_entries_are_read_in_order_from_both_logs(api: Api) -> None:
    await put(api, "before", concurrency=1)
    _, page = await api.call("GET", "/api/audit")
    after = page["follow_from"]
    assert (await api.call("GET", f"/api/audit?after={after}"))[1]["entries"] == []
    for n in range(1, 4):
        await put(api, "c1", concurrency=n)
        await api.call("PATCH", "/api/settings", {"login_attempts_per_minute": 10 + n})
    seen = []
    while True:
        _, page = await api.call("GET", f"/api/audit?limit=4&after={after}")
        after = page["next_cursor"]
        if not page["entries"]:
            break
        seen += [(e["log"], e["action"]) for e in page["entries"]]
    # Within a millisecond, the order of the two logs is undefined.
    assert sorted(seen) == [("access", "settings.change")] * 3 + [("changes", "constraint.put")] * 3


@pytest.mark.rule("E6.4")
@pytest.mark.req("D18")
async def test_a_refused_login_is_in_the_access_log_without_what_was_typed(
    store_server: StoreServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with master_on(store_server.url, tokens=["admin:a-configured-admin-token"]) as (master, _):
        admin = Api(master.server.url, "a-configured-admin-token")
        try:
            await admin.call("POST", "/api/users", {"name": "ada", "password": PASSWORD, "role": "viewer"})
            for user in ("ada", "ada", "my-pass-word-typed-here"):
                login = {"user": user, "password": "wrong"}
                assert (await admin.call("POST", "/api/session", login))[0] == 401
            assert (await admin.call("POST", "/api/session", {"token": "wrong"}))[0] == 401
            refused = [e for e in await entries(admin, "?log=access") if e["action"] == "session.refused"]
            assert [(e["who"], e["after"]["by"]) for e in refused] == [
                ("unknown", "token"),
                ("unknown", "password"),
                ("user:ada", "password"),
            ]
            assert {e["after"]["address"] for e in refused} == {"127.0.0.1"}
            assert "typed-here" not in str(refused)
        finally:
            await admin.http.aclose()


async def test_entries_are_found_by_their_author_and_by_time(api: Api) -> None:
    await put(api, "c1", concurrency=1)
    await put(api, "c2", concurrency=1)
    _, older = await entries(api)
    assert len(await entries(api, "?who=LOC")) == 2
    assert await entries(api, "?who=nobody") == []
    assert await entries(api, "?since=2099-01-01T00:00:00Z") == []
    assert await entries(api, "?until=2001-01-01T00:00:00Z") == []
    moment = older["at"]
    assert older in await entries(api, f"?since={moment}&until={moment}&target=c1")
    status, problem = await api.call("GET", "/api/audit?since=yesterday")
    assert (status, problem["errors"][0]["loc"]) == (422, ["query", "since"])
    assert (await api.call("GET", "/api/audit?after=0-0_0-0&who=x"))[0] == 422
