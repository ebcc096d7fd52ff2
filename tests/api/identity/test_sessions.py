"""Logins of browsers: the attributes of the cookie, what it opens, and what ends it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from jqmaster.api.http.cookies import SessionCookie
from jqmaster.app import Master, running_master
from jqmaster.config import Settings
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.support import real_time
from tests.support.admin import admin_at, admin_of
from tests.support.contract import check_answer
from tests.support.master import QUICK, Api, master_on
from tests.support.server import StoreServer

pytestmark = real_time.MASTER

ADMIN_TOKEN = "a-configured-admin-token"
PASSWORD = "correct horse battery"
COOKIE = "jqmaster_session"


class Browser:
    """Keeps cookies as a browser does, speaks JSON, and sends the CSRF token with every change."""

    def __init__(self, url: str, base_path: str = "") -> None:
        self.http = httpx.AsyncClient(base_url=url + base_path, timeout=60, trust_env=False)
        self.csrf: str | None = None

    async def call(self, method: str, path: str, value: Any = None, **headers: str) -> tuple[int, Any]:
        fields = {"Accept": "application/json", **headers}
        if self.csrf and method != "GET":
            fields.setdefault("X-CSRF-Token", self.csrf)
        response = await self.http.request(method, path, json=value, headers=fields)
        answer = response.json() if response.content else None
        check_answer(method, path, response.status_code, response.headers, answer)
        self.last = response
        return response.status_code, answer

    async def log_in(self, user: str, password: str = PASSWORD) -> dict[str, Any]:
        status, session = await self.call("POST", "/api/session", {"user": user, "password": password})
        assert status == 201, session
        self.csrf = session["csrf_token"]
        return session

    async def status_of(self, method: str, path: str, value: Any = None, **headers: str) -> int:
        return (await self.call(method, path, value, **headers))[0]


@contextlib.asynccontextmanager
async def guarded(store_url: str, **settings: Any) -> AsyncIterator[tuple[Master, Api]]:
    """A master with one configured admin token, and that admin."""
    async with master_on(store_url, tokens=[f"admin:{ADMIN_TOKEN}"], **settings) as (master, _):
        admin = Api(master.server.url, ADMIN_TOKEN)
        yield master, admin
        await admin.http.aclose()


@contextlib.asynccontextmanager
async def browsers(master: Master, count: int = 1) -> AsyncIterator[list[Browser]]:
    made = [Browser(master.server.url) for _ in range(count)]
    yield made
    await asyncio.gather(*(browser.http.aclose() for browser in made))


def follower(store_url: str, shard: str) -> Settings:
    """Return the settings of a second master on the same shard."""
    return Settings(**{**QUICK, "redis_url": store_url, "shard": shard, "tokens": [f"admin:{ADMIN_TOKEN}"]})


async def add_user(admin: Api, name: str, role: str = "admin", password: str = PASSWORD) -> None:
    status, user = await admin.call("POST", "/api/users", {"name": name, "password": password, "role": role})
    assert (status, user["name"], user["role"], user["is_disabled"]) == (201, name, role, False), user


async def dump(store_url: str, shard: str) -> bytes:
    """Return everything that the shard keeps, as bytes."""
    client, keys = StoreClient(store_url, connections=2), Keys(shard)
    try:
        redis = await admin_at(client, keys.leader)
        found = [key async for key in redis.scan_iter(match=f"{keys.tag}*", count=1000)]
        parts = []
        for key in found:
            kind = (await redis.type(key)).decode()
            match kind:
                case "hash":
                    value: Any = await redis.hgetall(key)
                case "string":
                    value = await redis.get(key)
                case "zset":
                    value = await redis.zrange(key, 0, -1)
                case "set":
                    value = await redis.smembers(key)
                case "stream":
                    value = await redis.xrange(key)
                case _:
                    value = await redis.lrange(key, 0, -1)
            parts.append(repr((key, value)).encode())
        return b"\n".join(parts)
    finally:
        await client.close()


async def test_cookies_of_neighbours_on_the_site_log_nobody_out(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin), browsers(master, 2) as (ada, eve):
        await add_user(admin, "ada", "operator")
        await add_user(admin, "eve", "viewer")
        await ada.log_in("ada")
        await eve.log_in("eve")
        mine, hers = ada.http.cookies[COOKIE], eve.http.cookies[COOKIE]
        ada.http.cookies.clear()

        async def who(*cookies: str) -> str | None:
            status, session = await ada.call("GET", "/api/session", Cookie="; ".join(cookies))
            assert status == 200
            return session["who"]

        for others in (f"{COOKIE}=x", f"{COOKIE}={'A' * 43}", "big=" + "x" * 8000):
            assert await who(others, f"{COOKIE}={mine}") == "user:ada"
            assert await who(f"{COOKIE}={mine}", others) == "user:ada"
        # An attacker who planted their own session in ada's browser does not make her act under it.
        assert await who(f"{COOKIE}={hers}", f"{COOKIE}={mine}") is None
        cookies = f"{COOKIE}={'A' * 43}; {COOKIE}={mine}"
        assert await ada.status_of("DELETE", "/api/session", Cookie=cookies) == 204
        assert await who(f"{COOKIE}={mine}") is None


@pytest.mark.req("D18")
@pytest.mark.rule("E1.4", "E1.5", "E4.3")
@pytest.mark.row(116, 118)
async def test_a_user_logs_in_acts_and_logs_out(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin), browsers(master, 3) as (ada, thief, other):
        await add_user(admin, "ada", "operator")
        status, nobody = await ada.call("GET", "/api/session")
        assert (status, nobody["who"], nobody["role"], nobody["method"]) == (200, None, None, None)
        assert nobody["login_by_user"]
        assert await ada.status_of("GET", "/api/jobs") == 401
        session = await ada.log_in("ada")
        assert (session["who"], session["role"], session["method"]) == ("user:ada", "operator", "session")
        assert session["scopes"] == ["operate", "push", "read"]
        kept, _ = ada.last.headers.get_list("set-cookie")
        assert [part.strip() for part in kept.split(";")][1:] == [
            "Max-Age=43200", "Path=/", "HttpOnly", "SameSite=Strict",
        ]  # fmt: skip
        assert (await ada.call("GET", "/api/session"))[1] == session
        status, made = await ada.call("POST", "/api/jobs", {"name": "work"})
        assert status == 201
        assert await ada.status_of("GET", "/api/tokens") == 403
        # Another site makes a browser send these requests, or could.
        path = f"/api/jobs/{made['id']}/cancel"
        for headers, code in (
            ({"X-CSRF-Token": ""}, "csrf"),
            ({"X-CSRF-Token": "0" * 64}, "csrf"),
            ({"Origin": "https://evil.example"}, "cross_site"),
            ({"Sec-Fetch-Site": "cross-site"}, "cross_site"),
        ):
            status, problem = await ada.call("POST", path, **headers)
            assert (status, problem["code"]) == (403, code)
        assert (await admin.job(made["id"]))["state"] == "ready"
        status, problem = await ada.call("DELETE", "/api/session", **{"X-CSRF-Token": "0"})
        assert (status, problem["code"]) == (403, "csrf")
        # One cookie was changed, the other one outlives its session.
        secret = ada.http.cookies[COOKIE]
        thief.http.cookies.set(COOKIE, ("A" if secret[0] != "A" else "B") + secret[1:])
        assert await thief.status_of("GET", "/api/jobs") == 401
        assert await ada.status_of("DELETE", "/api/session") == 204
        assert COOKIE not in ada.http.cookies
        other.http.cookies.set(COOKIE, secret)
        assert await other.status_of("GET", "/api/jobs") == 401
        assert (await other.call("GET", "/api/session"))[1]["who"] is None
        assert await ada.status_of("DELETE", "/api/session") == 204
        audit = (await admin.call("GET", "/api/audit"))[1]["entries"]
        assert [(e["who"], e["action"]) for e in audit[:3]][::-1][1:] == [
            ("user:ada", "session.login"), ("user:ada", "session.logout"),
        ]  # fmt: skip


@pytest.mark.rule("E1.2", "E1.4", "E6.1")
async def test_no_secret_is_kept_in_clear(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin), browsers(master) as (ada,):
        await add_user(admin, "ada", password=PASSWORD)
        await ada.log_in("ada")
        token = (await admin.call("POST", "/api/tokens", {"label": "x", "scopes": ["push"]}))[1]["token"]
        kept = await dump(store_server.url, master.settings.shard)
        assert b"$argon2id$" in kept
        for secret in (
            PASSWORD,
            ADMIN_TOKEN,
            token,
            token.rpartition("_")[2],
            ada.http.cookies[COOKIE],
            ada.csrf,
        ):
            assert secret
            assert secret.encode() not in kept


@pytest.mark.rule("E1.5")
async def test_a_change_of_a_user_ends_its_sessions_on_all_masters(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin):
        shard = master.settings.shard
        async with (
            running_master(follower(store_server.url, shard)) as second,
            browsers(second) as (there,),
            browsers(master) as (here,),
        ):
            await add_user(admin, "ada", "viewer")
            new_password = PASSWORD + "!"
            for change, role, password in (
                ({"role": "operator"}, "operator", PASSWORD),
                ({"password": new_password}, "operator", new_password),
            ):
                await here.log_in("ada", PASSWORD)
                there.http.cookies.set(COOKIE, here.http.cookies[COOKIE])
                assert await there.status_of("GET", "/api/jobs") == 200
                status, user = await admin.call("PATCH", "/api/users/ada", change)
                assert (status, user["role"]) == (200, role)
                assert user["last_login_at"]
                assert await there.status_of("GET", "/api/jobs") == 401
                assert await here.status_of("GET", "/api/jobs") == 401
                session = await there.log_in("ada", password)
                assert session["role"] == role
                there.http.cookies.clear()
            await there.log_in("ada", new_password)
            assert (await admin.call("PATCH", "/api/users/ada", {"is_disabled": True}))[0] == 200
            assert await there.status_of("GET", "/api/jobs") == 401
            wrong = {"user": "ada", "password": new_password}
            status, problem = await there.call("POST", "/api/session", wrong)
            assert (status, problem["code"]) == (401, "login_failed")
            assert (await admin.call("DELETE", "/api/users/ada"))[0] == 204
            assert (await admin.call("DELETE", "/api/users/ada"))[0] == 404
            assert (await admin.call("GET", "/api/users"))[1] == {"users": []}


@pytest.mark.rule("E1.4")
@pytest.mark.row(117)
async def test_guessing_is_stopped_also_while_the_store_is_full(store: StoreServer) -> None:
    async with guarded(store.url) as (master, admin), browsers(master, 2) as (guesser, ada):
        await add_user(admin, "ada")
        await add_user(admin, "bob")
        client = StoreClient(store.url, connections=2)
        await admin_of(client).config_set("maxmemory", "1mb")
        statuses: list[int] = []
        for _ in range(100):
            wrong = {"user": "ada", "password": "guess"}
            status, problem = await guesser.call("POST", "/api/session", wrong)
            statuses.append(status)
            if status == 429:
                assert problem["code"] == "too_many_logins"
                assert 1 <= int(guesser.last.headers["retry-after"]) <= 60
        # A new minute may have begun meanwhile, once or twice.
        assert 10 <= statuses.count(401) <= 30
        assert statuses.count(401) + statuses.count(429) == 100
        # Others can still log in from the same address, and a successful login does not count.
        for _ in range(12):
            await ada.log_in("bob")
        await admin_of(client).config_set("maxmemory", "0")
        await client.close()


@pytest.mark.rule("E1.4")
async def test_unknown_users_are_refused_like_known_ones(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin), browsers(master) as (guesser,):
        await add_user(admin, "ada")
        bodies = (
            {"user": "ada", "password": "wrong"},
            {"user": "nobody", "password": "wrong"},
            {"user": "ada\x00", "password": PASSWORD},
        )
        answers = [await guesser.call("POST", "/api/session", body) for body in bodies]
        assert {status for status, _ in answers} == {401}
        assert len({str(problem) for _, problem in answers}) == 1
        for token in ("wrong", "jqm_admin_000000000000_" + "0" * 56):
            status, problem = await guesser.call("POST", "/api/session", {"token": token})
            assert (status, problem["code"]) == (401, "login_failed")
        for body in ({}, {"user": "ada"}, {"user": "a", "password": "b", "token": "c"}, {"password": "b"}):
            assert await guesser.status_of("POST", "/api/session", body) == 422
        assert await guesser.status_of("POST", "/api/session", {"token": "x" * 5000}) == 413


async def test_tokens_log_in_and_their_sessions_end_with_them(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin), browsers(master, 2) as (by_kept, by_configured):
        made = (await admin.call("POST", "/api/tokens", {"label": "desk", "scopes": ["operate"]}))[1]
        for browser, token, role in (
            (by_kept, made["token"], "operator"),
            (by_configured, ADMIN_TOKEN, "admin"),
        ):
            status, session = await browser.call("POST", "/api/session", {"token": token})
            assert (status, session["role"], session["method"]) == (201, role, "session")
            assert await browser.status_of("GET", "/api/jobs") == 200
        assert (await admin.call("DELETE", f"/api/tokens/{made['id']}"))[0] == 204
        assert await by_kept.status_of("GET", "/api/jobs") == 401
        assert await by_configured.status_of("GET", "/api/jobs") == 200


@pytest.mark.rule("E1.5")
async def test_a_login_replaces_the_session_that_the_browser_had(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin), browsers(master, 2) as (ada, thief):
        await add_user(admin, "ada")
        await ada.log_in("ada")
        planted = ada.http.cookies[COOKIE]
        await ada.log_in("ada")
        assert ada.http.cookies[COOKIE] != planted
        thief.http.cookies.set(COOKIE, planted)
        assert await thief.status_of("GET", "/api/jobs") == 401
        assert await ada.status_of("GET", "/api/jobs") == 200


@pytest.mark.rule("E1.4")
async def test_free_access_ends_with_the_first_user_who_must_be_an_admin(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, local), browsers(master) as (ada,):
        status, session = await local.call("GET", "/api/session")
        assert (status, session["method"], session["role"]) == (200, "local", "admin")
        body = {"name": "ada", "password": PASSWORD, "role": "viewer"}
        status, problem = await local.call("POST", "/api/users", body)
        assert (status, problem["code"]) == (409, "first_must_be_admin")
        status, problem = await local.call("POST", "/api/tokens", {"label": "x", "scopes": ["push"]})
        assert (status, problem["code"]) == (409, "first_must_be_admin")
        await add_user(local, "ada")
        assert (await local.call("GET", "/api/jobs"))[0] == 401
        await ada.log_in("ada")
        for change in ({"role": "viewer"}, {"is_disabled": True}):
            status, problem = await ada.call("PATCH", "/api/users/ada", change)
            assert (status, problem["code"]) == (409, "last_admin")
        assert await ada.status_of("POST", "/api/users", {**body, "name": "bob"}) == 201
        status, problem = await ada.call("DELETE", "/api/users/ada")
        assert (status, problem["code"]) == (409, "last_admin")
        assert await ada.status_of("POST", "/api/users", {**body, "name": "bob"}) == 409
        assert await ada.status_of("DELETE", "/api/users/bob") == 204
        assert await ada.status_of("DELETE", "/api/users/ada") == 204
        assert (await local.call("GET", "/api/jobs"))[0] == 200


@pytest.mark.rule("E1.1")
async def test_behind_a_proxy_this_machine_too_needs_a_token(
    store_server: StoreServer, tmp_path: Any
) -> None:
    settings = {"public_url": "https://jobs.example/queue", "data_dir": tmp_path}
    async with master_on(store_server.url, **settings) as (master, local), browsers(master) as (browser,):
        assert (await local.call("GET", "/api/jobs"))[0] == 401
        public = {"Host": "jobs.example", "Origin": "https://jobs.example"}
        assert (await local.call("POST", "/api/jobs", {"name": "work"}, **public))[0] == 401
        assert await browser.status_of("GET", "/healthz", None, Host="evil.example") == 200
        assert await browser.status_of("GET", "/api/jobs", None, Host="evil.example") == 400


@pytest.mark.rule("E1.5")
@pytest.mark.row(118)
@pytest.mark.parametrize(
    ("public_url", "has_tls", "name", "attributes"),
    [
        (None, False, "jqmaster_session", "Path=/; HttpOnly; SameSite=Strict"),
        (None, True, "__Host-jqmaster_session", "Path=/; HttpOnly; SameSite=Strict; Secure"),
        ("https://j.example", False, "__Host-jqmaster_session", "Path=/; HttpOnly; SameSite=Strict; Secure"),
        ("https://j.example/", False, "__Host-jqmaster_session", "Path=/; HttpOnly; SameSite=Strict; Secure"),
        ("https://j.example/q/", False, "__Secure-jqmaster_session", "Path=/q; HttpOnly; SameSite=Strict; Secure"),
        ("http://j.example/q", True, "jqmaster_session", "Path=/q; HttpOnly; SameSite=Strict"),
    ],
)  # fmt: skip
def test_the_cookie_is_as_narrow_as_it_can_be(
    public_url: str | None, has_tls: bool, name: str, attributes: str
) -> None:
    cookie = SessionCookie(public_url, has_tls=has_tls)
    assert cookie.set("s", max_age_s=60) == (b"set-cookie", f"{name}=s; Max-Age=60; {attributes}".encode())
    assert cookie.clear()[1].decode() == f"{name}=; Max-Age=0; {attributes}"
    mine, other = "m" * 43, "o" * 43
    assert cookie.candidates({b"cookie": f"a=b; {name}={mine}; c=d".encode()}) == [mine]
    assert cookie.candidates({b"cookie": f"{name}={mine}; {name}={other}; {name}={mine}".encode()}) == [
        mine,
        other,
    ]
    for field in (b"", b"x=y", f"{name}=s".encode(), f"x{name}={mine}".encode(), b"a" * 5000):
        assert cookie.candidates({b"cookie": field}) == []
    # Each candidate costs a query to the store.
    many = "; ".join(f"{name}={n:043d}" for n in range(100))
    assert len(cookie.candidates({b"cookie": many.encode()})) == 4


@pytest.mark.rule("E1.4")
async def test_users_change_their_own_password_and_their_other_logins_end(store_server: StoreServer) -> None:
    new = "seven plums in a hat"
    async with guarded(store_server.url) as (master, admin), browsers(master, 3) as (ada, elsewhere, thief):
        await add_user(admin, "ada", "viewer")
        await ada.log_in("ada")
        await elsewhere.log_in("ada")
        path = "/api/session/password"
        for body, problem in (
            ({"old_password": "wrong", "new_password": new}, (403, "wrong_password")),
            ({"old_password": PASSWORD, "new_password": "ada-ada-ada-1"}, (422, "invalid")),
            ({"old_password": PASSWORD, "new_password": "Password1234"}, (422, "invalid")),
        ):
            status, answer = await ada.call("POST", path, body)
            assert (status, answer["code"]) == problem, body
        (fault,) = answer["errors"]
        assert fault["loc"] == ["new_password"]
        change = {"old_password": PASSWORD, "new_password": new}
        # Neither another site nor a token can change the password.
        assert (await ada.call("POST", path, change, **{"X-CSRF-Token": "x"}))[1]["code"] == "csrf"
        assert (await admin.call("POST", path, change))[1]["code"] == "no_session"
        assert await ada.status_of("POST", path, change) == 204
        assert await ada.status_of("GET", "/api/jobs") == 200
        assert await elsewhere.status_of("GET", "/api/jobs") == 401
        assert await thief.status_of("POST", "/api/session", {"user": "ada", "password": PASSWORD}) == 401
        await thief.log_in("ada", new)
        entries = (await admin.call("GET", "/api/audit?log=access&target=ada"))[1]["entries"]
        assert (entries[0]["who"], entries[0]["action"]) == ("user:ada", "user.change")
        assert entries[0]["after"]["password"] == "changed"


@pytest.mark.rule("E1.4")
async def test_a_stolen_session_is_no_good_for_guessing_the_password(store_server: StoreServer) -> None:
    async with (
        guarded(store_server.url, login_attempts_per_minute=3) as (master, admin),
        browsers(master) as (ada,),
    ):
        await add_user(admin, "ada", "viewer")
        await ada.log_in("ada")
        guess = {"old_password": "wrong", "new_password": "seven plums in a hat"}
        seen = [await ada.status_of("POST", "/api/session/password", guess) for _ in range(5)]
        assert seen == [403, 403, 403, 429, 429]


@pytest.mark.rule("E1.5")
async def test_people_see_their_logins_and_end_them(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin), browsers(master, 4) as (ada, phone, lost, bob):
        await add_user(admin, "ada", "viewer")
        await add_user(admin, "bob", "viewer")
        for browser in (ada, phone, lost):
            await browser.log_in("ada")
        await bob.log_in("bob")
        _, answer = await ada.call("GET", "/api/sessions")
        logins = answer["sessions"]
        assert [one["is_current"] for one in logins].count(True) == 1
        assert {one["address"] for one in logins} == {"127.0.0.1"}
        assert len({one["id"] for one in logins}) == 3
        (of_bob,) = (await bob.call("GET", "/api/sessions"))[1]["sessions"]
        assert await ada.status_of("DELETE", f"/api/sessions/{of_bob['id']}") == 404
        (own,) = (
            one["id"] for one in (await lost.call("GET", "/api/sessions"))[1]["sessions"] if one["is_current"]
        )
        assert await ada.status_of("DELETE", f"/api/sessions/{own}") == 204
        assert await lost.status_of("GET", "/api/jobs") == 401
        assert await phone.status_of("GET", "/api/jobs") == 200
        assert await ada.status_of("DELETE", "/api/sessions") == 204
        assert await phone.status_of("GET", "/api/jobs") == 401
        assert await ada.status_of("GET", "/api/jobs") == 200
        # An admin can end all sessions of a user.
        assert await bob.status_of("DELETE", "/api/users/ada/sessions") == 403
        assert (await admin.call("DELETE", "/api/users/nobody/sessions"))[0] == 404
        assert (await admin.call("DELETE", "/api/users/ada/sessions"))[0] == 204
        assert await ada.status_of("GET", "/api/jobs") == 401
        assert await bob.status_of("GET", "/api/jobs") == 200
        assert (await admin.call("GET", "/api/sessions"))[1]["code"] == "no_session"


@pytest.mark.rule("E1.4")
@pytest.mark.parametrize("password", ["elevenchars", "password12345", "ada.ada.ada.ada", "qwertyuiop123"])
async def test_a_password_that_is_guessed_first_is_refused(store_server: StoreServer, password: str) -> None:
    async with guarded(store_server.url) as (_, admin):
        status, problem = await admin.call(
            "POST", "/api/users", {"name": "ada", "password": password, "role": "viewer"}
        )
        assert (status, problem["errors"][0]["loc"]) == (422, ["password"])
        await add_user(admin, "bob", "viewer")
        status, problem = await admin.call("PATCH", "/api/users/bob", {"password": password})
        assert (status, problem["errors"][0]["loc"]) == (422, ["password"]) or "ada" in password
