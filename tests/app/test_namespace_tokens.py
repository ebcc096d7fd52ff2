"""Tokens of a namespace open it and nothing else; those of the installation open every namespace."""

import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.routes import OPERATIONS
from jqmaster.domain.identity.access import Scope
from jqmaster.service.identity.directory import TRUSTED_S
from tests.api.identity.test_tokens import Later, create
from tests.api.operations.test_stream import dashboard_at
from tests.support import real_time
from tests.support.master import Api
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]

JOB = {"name": "work"}
STALE_S = 100.0


@pytest.fixture
async def installation(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> AsyncIterator[Installation]:
    """Yield an installation with an admin, and the namespaces `shop` and `mail`."""
    async with installed(
        store_server, other, tmp_path, tokens=["admin:token-of-admin"], token="token-of-admin"
    ) as one:
        await one.put("shop")
        await one.put("mail", "b")
        await one.until_served("shop", "mail")
        yield one


async def push(installation: Installation, namespace: str | None, token: str) -> tuple[int, str]:
    response = await installation.api(namespace, token).http.post("/api/jobs", json=JOB)
    return response.status_code, response.json().get("code", "")


async def test_a_token_opens_its_own_namespace_alone(installation: Installation) -> None:
    of_shop = (await create(installation.api("shop"), "push"))["token"]
    of_all = (await create(installation.api(), "push"))["token"]
    assert await push(installation, "shop", of_shop) == (201, "")
    assert await push(installation, "mail", of_shop) == (404, "unknown_namespace")
    assert await push(installation, None, of_shop) == (401, "unauthorized")
    for namespace in ("shop", "mail", None):
        assert await push(installation, namespace, of_all) == (201, "")
    assert await push(installation, "shop", "no-token-at-all") == (404, "unknown_namespace")
    response = await installation.api("shop").http.post("/api/jobs", headers={"authorization": ""})
    assert response.status_code == 401
    listed = (await installation.api("shop").call("GET", "/api/tokens"))[1]["tokens"]
    assert [token["scopes"] for token in listed] == [["push"]]


async def told(api: Api, operation: Operation) -> tuple[str, str, int, str]:
    path = re.sub(r"\{\w+\}", "x", operation.path)
    response = await api.http.request(operation.method, path)
    return operation.method, path, response.status_code, response.json().get("code", "")


@pytest.mark.parametrize("is_of_installation", [False, True], ids=["its own", "bound to it"])
async def test_a_token_of_one_namespace_does_nothing_in_another(
    installation: Installation, *, is_of_installation: bool
) -> None:
    if is_of_installation:
        of_shop = (await create(installation.api(), "admin", namespaces=["shop"]))["token"]
    else:
        of_shop = (await create(installation.api("shop"), "admin"))["token"]
    elsewhere, of_all = installation.api("mail", of_shop), installation.api(None, of_shop)
    for operation in OPERATIONS:
        if operation.access is None:
            continue
        method, path, *answer = await told(elsewhere, operation)
        assert (method, path, answer) == (method, path, [404, "unknown_namespace"])
        method, path, status, code = await told(of_all, operation)
        if not is_of_installation:
            assert (method, path, status, code) == (method, path, 401, "unauthorized")
        elif not (operation.is_of_installation or operation.changes_installation):
            assert (method, path, status, code) == (method, path, 404, "unknown_namespace")
        elif operation.access is not Scope.READ:
            assert (method, path, status, code) == (method, path, 403, "forbidden")


async def test_a_token_bound_to_namespaces_opens_these_and_sees_no_others(
    installation: Installation,
) -> None:
    of_shop = (await create(installation.api(), "operate", namespaces=["shop"]))["token"]
    of_both = (await create(installation.api(), "push", namespaces=["default", "mail"]))["token"]
    assert await push(installation, "mail", of_both) == (201, "")
    assert await push(installation, None, of_both) == (201, "")
    assert await push(installation, "default", of_both) == (201, "")
    assert await push(installation, "shop", of_both) == (404, "unknown_namespace")
    assert await push(installation, "shop", of_shop) == (403, "forbidden")
    shop = installation.api("shop", of_shop)
    assert (await shop.call("GET", "/api/jobs"))[0] == 200
    session = (await shop.call("GET", "/api/session"))[1]
    assert (session["role"], session["scopes"]) == ("operator", ["operate", "read"])
    reader = installation.api(None, of_shop)
    assert (await reader.call("GET", "/api/session"))[1]["role"] is None
    for path in ("/api/namespaces", "/api/overview"):
        listed = (await reader.call("GET", path))[1]["namespaces"]
        assert [one["name"] for one in listed] == ["shop"]
    stores = (await reader.call("GET", "/api/stores"))[1]["stores"]
    assert [one["namespaces"] for one in stores] == [["shop"], []]
    assert (await reader.call("GET", "/api/namespaces/shop"))[0] == 200
    mail, nobody = [await reader.call("GET", f"/api/namespaces/{name}") for name in ("mail", "nobody")]
    assert mail[1]["code"] == nobody[1]["code"] == "unknown_namespace"
    tokens = (await installation.api().call("GET", "/api/tokens"))[1]["tokens"]
    assert [one["namespaces"] for one in tokens] == [["default", "mail"], ["shop"]]


async def test_a_bound_token_keeps_its_bounds_and_hands_none_beyond_them(installation: Installation) -> None:
    admin = installation.api()
    bound = await create(admin, "admin", namespaces=["default", "mail"])
    whole = await create(admin, "push")
    api = installation.api(None, bound["token"])
    for namespaces in (None, ["*"], ["shop"], ["mail", "shop"]):
        body = {"label": "x", "scopes": ["admin"], "namespaces": namespaces}
        status, problem = await api.call("POST", "/api/tokens", body)
        assert (status, problem["code"]) == (403, "forbidden"), namespaces
        assert problem["errors"] == [
            {"loc": ["namespaces"], "msg": "must be among default, mail, where the caller is an admin"}
        ]
    made = await create(api, "push", namespaces=["mail"])
    listed = (await api.call("GET", "/api/tokens"))[1]["tokens"]
    assert {one["id"] for one in listed} == {bound["id"], made["id"]}
    for method, path, content in (("POST", f"{whole['id']}/rotate", {}), ("DELETE", whole["id"], None)):
        assert (await api.call(method, f"/api/tokens/{path}", content))[1]["code"] == "unknown_token"
    rotated = (await admin.call("POST", f"/api/tokens/{made['id']}/rotate", {}))[1]
    assert rotated["namespaces"] == ["mail"]
    assert await push(installation, "shop", rotated["token"]) == (404, "unknown_namespace")
    assert (await api.call("POST", "/api/users", {}))[1]["code"] == "forbidden"
    status, problem = await installation.api("mail", bound["token"]).call(
        "POST", "/api/tokens", {"label": "x", "scopes": ["push"], "namespaces": ["shop"]}
    )
    assert (status, problem["errors"][0]["loc"]) == (422, ["namespaces"])
    for namespaces in ([], ["*", "shop"], ["Shop"]):
        body = {"label": "x", "scopes": ["push"], "namespaces": namespaces}
        assert (await admin.call("POST", "/api/tokens", body))[0] == 422


async def test_a_bound_token_is_no_admin_of_the_installation(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with installed(store_server, other, tmp_path) as one:
        body = {"label": "x", "scopes": ["admin"], "namespaces": ["default"]}
        status, problem = await one.api().call("POST", "/api/tokens", body)
        assert (status, problem["code"]) == (409, "first_must_be_admin")
        whole = await create(one.api(), "admin")
        admin = one.api(None, whole["token"])
        await create(admin, "admin", namespaces=["default"])
        status, problem = await admin.call("DELETE", f"/api/tokens/{whole['id']}")
        assert (status, problem["code"]) == (409, "last_admin")


async def test_the_creator_of_a_namespace_administers_it(installation: Installation) -> None:
    creator = installation.api(None, (await create(installation.api(), "admin"))["token"])
    tag = f"{installation.master.settings.shard}-new"
    assert (await creator.call("PUT", "/api/namespaces/blog", {"tag": tag}))[0] == 201
    await installation.until_served("blog")
    token = creator.http.headers["authorization"].removeprefix("Bearer ")
    made = await create(installation.api("blog", token), "admin")
    assert await push(installation, "blog", made["token"]) == (201, "")


async def test_an_admin_of_a_namespace_changes_nothing_of_the_installation(
    installation: Installation,
) -> None:
    of_shop = (await create(installation.api("shop"), "admin"))["token"]
    shop = installation.api("shop", of_shop)
    calls: list[tuple[str, str, Any]] = [
        ("GET", "/api/users", None),
        ("POST", "/api/users", {"name": "eve", "role": "admin", "password": "long-enough-for-it"}),
        ("PATCH", "/api/users/eve", {"role": "admin"}),
        ("DELETE", "/api/users/eve", None),
        ("DELETE", "/api/users/eve/sessions", None),
    ]
    for method, path, body in calls:
        status, answer = await shop.call(method, path, body)
        assert (status, answer["code"]) == (404, "not_found"), path
        assert "without the prefix /ns/" in answer["detail"]
    status, problem = await shop.call(
        "PATCH", "/api/settings", {"lease_ms": 20_000, "viewers_see_content": True}
    )
    assert (status, [fault["loc"] for fault in problem["errors"]]) == (422, [["viewers_see_content"]])
    assert (await installation.api().call("GET", "/api/settings"))[1]["version"] == 0
    assert (await installation.api().call("GET", "/api/users"))[1]["users"] == []
    assert (await shop.call("GET", "/api/settings"))[0] == 200


async def test_namespaces_are_open_to_tokens_while_the_store_of_the_installation_is_away(
    other: StoreServer, tmp_path: Path
) -> None:
    store, clock = StoreServer(), Later()
    with started(store):
        async with installed(
            store,
            other,
            tmp_path,
            clock=clock,
            tokens=["admin:token-of-admin"],
            token="token-of-admin",
            stale_tokens_s=STALE_S,
        ) as installation:
            await installation.put("mail", "b")
            await installation.until_served("mail")
            own = (await create(installation.api("mail"), "push"))["token"]
            pusher, reader = [
                (await create(installation.api(), scope))["token"] for scope in ("push", "read")
            ]
            store.signal(signal.SIGSTOP)
            try:
                clock.later_s += TRUSTED_S + 1

                async def is_refused() -> bool:
                    status, _ = await installation.api("mail", reader).call("GET", "/api/jobs")
                    return status == 503

                await wait_until(is_refused, what="a reader may have been revoked")
                assert await push(installation, "mail", pusher) == (201, "")
                assert await push(installation, "mail", own) == (201, "")
                clock.later_s += STALE_S
                assert await push(installation, "mail", pusher) == (503, "store_unavailable")

                async def is_open_to_its_own() -> bool:
                    return await push(installation, "mail", own) == (201, "")

                await wait_until(is_open_to_its_own, what="its own store tells that the token is valid")
            finally:
                store.signal(signal.SIGCONT)


async def test_a_token_cannot_tell_a_namespace_of_others_from_none(installation: Installation) -> None:
    of_shop = (await create(installation.api("shop"), "push"))["token"]
    others, nobodys = [
        await installation.api(name, of_shop).http.get("/api/jobs", headers={"x-request-id": "mine"})
        for name in ("mail", "none")
    ]
    assert others.status_code == nobodys.status_code == 404
    # Each answer repeats the name that was asked for, and says nothing else.
    assert b"'mail'" in others.content
    assert others.content.replace(b"'mail'", b"'none'") == nobodys.content
    shown = [
        {name: text for name, text in one.headers.items() if name != "date"} for one in (others, nobodys)
    ]
    assert shown[0] == shown[1]


@pytest.mark.req("D18")
async def test_the_stream_of_a_namespace_ends_when_its_token_is_revoked(installation: Installation) -> None:
    admin = installation.api("shop")
    made = await create(admin, "read")
    async with dashboard_at(f"{installation.url}/ns/shop", Authorization=f"Bearer {made['token']}") as one:
        await wait_until(lambda: "jobs" in one.newest, what="the stream runs")
        assert (await admin.call("DELETE", f"/api/tokens/{made['id']}"))[0] == 204
        await wait_until(lambda: one.is_over, what="the stream ends")


async def test_a_user_has_roles_by_namespace(installation: Installation) -> None:
    admin, password = installation.api(), "long-enough-for-it"
    body = {"name": "root", "password": password, "role": "admin"}
    assert (await admin.call("POST", "/api/users", body))[0] == 201
    eve = {"name": "eve", "password": password, "role": "none", "namespaces": {"shop": "operator"}}
    status, made = await admin.call("POST", "/api/users", eve)
    assert (status, made["role"], made["namespaces"]) == (201, "none", {"shop": "operator"})

    async def logged_in(namespace: str | None) -> tuple[dict[str, Any], Api]:
        api = installation.api(namespace)
        del api.http.headers["authorization"]
        response = await api.http.post("/api/session", json={"user": "eve", "password": password})
        assert response.status_code == 201
        session: dict[str, Any] = response.json()
        api.http.headers["x-csrf-token"] = session["csrf_token"] or ""
        return session, api

    session, shop = await logged_in("shop")
    assert (session["who"], session["role"]) == ("user:eve", "operator")
    assert (await shop.call("POST", "/api/jobs", JOB))[0] == 201
    assert (await shop.call("GET", "/api/tokens"))[1]["code"] == "forbidden"
    # One login is good for all namespaces in which the user has a role.
    session, everywhere = await logged_in(None)
    assert (session["who"], session["role"], session["namespaces"]) == ("user:eve", None, ["shop"])
    assert (await everywhere.call("GET", "/api/session"))[1]["namespaces"] == ["shop"]
    assert (await everywhere.call("GET", "/api/jobs"))[1]["code"] == "unknown_namespace"
    found = [
        await everywhere.http.get(path)
        for path in ("/ns/mail/api/jobs", "/ns/mail/api/session", "/ns/shop/api/jobs")
    ]
    assert [one.status_code for one in found] == [404, 200, 200]
    assert found[1].json()["who"] is None
    listed = (await everywhere.call("GET", "/api/namespaces"))[1]["namespaces"]
    assert [one["name"] for one in listed] == ["shop"]
    assert (await everywhere.call("POST", "/api/namespaces/shop/close"))[1]["code"] == "forbidden"
    # A change of roles is in force at the next login, and the access log has it.
    change: dict[str, Any] = {"role": "viewer", "namespaces": {"mail": "admin"}}
    assert (await admin.call("PATCH", "/api/users/eve", change))[0] == 200
    assert (await shop.call("GET", "/api/jobs"))[0] == 401
    session, mail = await logged_in("mail")
    assert session["role"] == "admin"
    assert (await mail.call("GET", "/api/tokens"))[0] == 200
    assert (await logged_in("shop"))[0]["role"] == "viewer"
    entries = (await admin.call("GET", "/api/audit?target=eve"))[1]["entries"]
    changed = next(entry for entry in entries if entry["action"] == "user.change")
    assert (changed["before"]["namespaces"], changed["after"]["namespaces"]) == (
        {"shop": "operator"},
        {"mail": "admin"},
    )
    assert (await admin.call("PATCH", "/api/users/eve", {"namespaces": {"Shop": "admin"}}))[0] == 422


_KINDS = ("constraint", "namespace", "session", "token", "user")


async def test_a_bound_caller_reads_of_the_audit_log_what_concerns_its_namespaces(
    installation: Installation,
) -> None:
    admin, password = installation.api(), "long-enough-for-it"
    whole = await create(admin, "push")
    bound = await create(admin, "admin", namespaces=["default", "mail"])
    of_shop = await create(admin, "push", namespaces=["shop"])
    of_both = await create(admin, "push", namespaces=["mail", "shop"])
    for name, role, roles in (
        ("root", "admin", {}),
        ("eve", "none", {"default": "operator"}),
        ("ann", "operator", {"default": "admin"}),
    ):
        user = {"name": name, "password": password, "role": role, "namespaces": roles}
        assert (await admin.call("POST", "/api/users", user))[0] == 201
    limit = {"matcher": {"field": "name", "op": "eq", "value": "work"}, "concurrency": 1}
    assert (await admin.call("PUT", "/api/constraints/mine", limit))[0] in (200, 201)
    for name in ("shop", "mail"):
        assert (await admin.call("POST", f"/api/namespaces/{name}/close"))[0] in (200, 202)
    api = installation.api(None, bound["token"])
    made = await create(api, "push", namespaces=["mail"])

    async def seen(api: Api) -> set[tuple[str, str]]:
        """Return the actions and their targets, which must be the same by both ways."""
        page = (await api.call("GET", "/api/audit?limit=500"))[1]
        later = (await api.call("GET", "/api/audit?after=0-0_0-0&limit=500"))[1]
        entries = [{(one["action"], one["target"]) for one in read["entries"]} for read in (page, later)]
        assert entries[0] == entries[1]
        return {one for one in entries[0] if one[0].partition(".")[0] in _KINDS}

    common = {("constraint.put", "mine")}
    of_mail = {
        ("namespace.close", "mail"),
        ("token.create", bound["id"]),
        ("token.create", made["id"]),
    }
    of_others = {
        ("namespace.close", "shop"),
        *(("token.create", one["id"]) for one in (whole, of_shop, of_both)),
        *(("user.add", name) for name in ("root", "eve", "ann")),
    }
    logins = {("session.login", f"user:{name}") for name in ("eve", "ann")}
    for name, others in (("eve", set()), ("ann", of_mail | of_others)):
        person = installation.api()
        del person.http.headers["authorization"]
        login = {"user": name, "password": password}
        assert (await person.call("POST", "/api/session", login))[0] == 201
        own = {("session.login", f"user:{name}")}
        assert await seen(person) == common | (own if name == "eve" else logins) | others
    assert await seen(api) == common | of_mail
    assert await seen(admin) == common | of_mail | of_others | logins


async def test_a_bound_caller_does_not_learn_which_other_namespaces_are_not_served(
    installation: Installation,
) -> None:
    admin = installation.api()
    of_default, of_both = [
        installation.api(None, (await create(admin, "read", namespaces=names))["token"])
        for names in (["default"], ["default", "blog"])
    ]
    await installation.put("blog", "c")

    async def is_told() -> bool:
        return "[stores.c]" in (await admin.http.get("/readyz")).text

    await wait_until(is_told, what="an admin learns why it is not served")
    assert "[stores.c]" in (await of_both.http.get("/readyz")).text
    nobody = installation.api()
    del nobody.http.headers["authorization"]
    for caller in (of_default, nobody):
        answer = (await caller.http.get("/readyz")).text
        assert "blog" not in answer
        assert "stores.c" not in answer

    async def is_counted() -> bool:
        return "does not serve some other namespaces" in (await of_default.http.get("/api/stats")).text

    await wait_until(is_counted, what="all readers learn that there is a fault")
    for path in ("/api/stats", "/metrics", "/api/health"):
        answer = (await of_default.http.get(path)).text
        assert "blog" not in answer, path
        assert "stores.c" not in answer, path


async def test_a_namespaces_own_token_logs_a_browser_in_there_and_nowhere_else(
    installation: Installation,
) -> None:
    of_shop = (await create(installation.api("shop"), "operate"))["token"]
    async with httpx.AsyncClient(base_url=installation.url, trust_env=False, timeout=30) as browser:
        # Only its own namespace takes the token.
        for path in ("/ns/mail", ""):
            refused = await browser.post(f"{path}/api/session", json={"token": of_shop})
            assert (refused.status_code, refused.json()["code"]) == (401, "login_failed")
        opened = await browser.post("/ns/shop/api/session", json={"token": of_shop})
        assert (opened.status_code, opened.json()["role"], opened.json()["has_namespaces"]) == (
            201, "operator", False,
        )  # fmt: skip
        assert "Path=/ns/shop;" in opened.headers["set-cookie"]
        seen = {
            path: (await browser.get(f"{path}/api/jobs")).status_code for path in ("/ns/shop", "/ns/mail", "")
        }
        assert seen == {"/ns/shop": 200, "/ns/mail": 401, "": 401}
        # Another path cannot make the browser show the cookie to another namespace; whoever copies it gains nothing.
        value = browser.cookies["jqmaster_namespace"]
        secret = {"cookie": f"jqmaster_session={value}; jqmaster_namespace={value}"}
        for path in ("/ns/mail", ""):
            assert (await browser.get(f"{path}/api/jobs", headers=secret)).status_code == 401
        unsafe = await browser.post("/ns/shop/api/jobs", json=JOB)
        assert (unsafe.status_code, unsafe.json()["code"]) == (403, "csrf")
        shown = {"X-CSRF-Token": opened.json()["csrf_token"]}
        pushed = await browser.post("/ns/shop/api/constraints/preview", json={}, headers=shown)
        assert pushed.status_code == 422
        logins = (await browser.get("/ns/shop/api/sessions")).json()["sessions"]
        assert [one["is_current"] for one in logins] == [True]
        # The login is in the access log of the namespace, and not in that of the installation.
        logs = [
            (await installation.api(name).call("GET", "/api/audit?log=access"))[1]["entries"]
            for name in ("shop", None)
        ]
        assert ["session.login" in [entry["action"] for entry in log] for log in logs] == [True, False]
        assert (await browser.delete("/ns/shop/api/session", headers=shown)).status_code == 204
        assert (await browser.get("/ns/shop/api/jobs")).status_code == 401


async def test_a_login_by_a_namespaces_token_ends_with_the_token_and_with_another_login(
    installation: Installation,
) -> None:
    made = await create(installation.api("shop"), "read")
    async with httpx.AsyncClient(base_url=installation.url, trust_env=False, timeout=30) as browser:
        await browser.post("/api/session", json={"token": "token-of-admin"})
        opened = await browser.post("/ns/shop/api/session", json={"token": made["token"]})
        who = [(await browser.get(f"{path}/api/session")).json()["role"] for path in ("/ns/shop", "/ns/mail")]
        assert who == ["viewer", "admin"]
        # A login by a token of the installation counts again.
        again = await browser.post("/ns/shop/api/session", json={"token": "token-of-admin"})
        assert again.status_code == 201
        assert (await browser.get("/ns/shop/api/session")).json()["role"] == "admin"
        await browser.post("/ns/shop/api/session", json={"token": made["token"]})
        assert (await browser.get("/ns/shop/api/session")).json()["role"] == "viewer"
        assert opened.json()["csrf_token"]
        assert (await installation.api("shop").call("DELETE", f"/api/tokens/{made['id']}"))[0] == 204
        # Without it, the login of the installation is left.
        assert (await browser.get("/ns/shop/api/session")).json()["role"] == "admin"


async def test_a_login_that_is_refused_ends_no_login_by_a_token_of_the_namespace(
    installation: Installation,
) -> None:
    of_shop = (await create(installation.api("shop"), "operate"))["token"]
    password = "long-enough-for-it"
    user = {"name": "eve", "password": password, "role": "viewer"}
    assert (await installation.api().call("POST", "/api/users", user))[0] == 201
    async with httpx.AsyncClient(base_url=installation.url, trust_env=False, timeout=30) as browser:
        earlier = {"user": "eve", "password": password}
        assert (await browser.post("/api/session", json=earlier)).status_code == 201
        assert (await browser.post("/ns/shop/api/session", json={"token": of_shop})).status_code == 201
        own = browser.cookies["jqmaster_namespace"]
        for login in ({"user": "eve", "password": "mistyped"}, {"token": "jq_no.token"}):
            refused = await browser.post("/ns/shop/api/session", json=login)
            assert (refused.status_code, refused.json()["code"]) == (401, "login_failed")
            assert (await browser.get("/ns/shop/api/session")).json()["role"] == "operator"
        opened = await browser.post("/ns/shop/api/session", json={"user": "eve", "password": password})
        assert opened.status_code == 201
        session = (await browser.get("/ns/shop/api/session")).json()
        assert (session["who"], session["role"]) == ("user:eve", "viewer")
        # The new login has also replaced the earlier one of the installation.
        assert len((await browser.get("/api/sessions")).json()["sessions"]) == 1
        copied = {"cookie": f"jqmaster_namespace={own}"}
    async with httpx.AsyncClient(base_url=installation.url, trust_env=False, timeout=30) as stranger:
        assert (await stranger.get("/ns/shop/api/jobs", headers=copied)).status_code == 401
