"""People whom a proxy names in headers: who is believed and who is not. Each proxy has its own address."""

import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest

from jqmaster.config import Settings
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer

pytestmark = [real_time.MASTER, pytest.mark.req("D26")]

PROXY, BETWEEN, STRANGER = "127.0.0.7", "127.0.0.8", "127.0.0.9"
ADMIN_TOKEN = "a-configured-admin-token"
URL = "https://jobs.example.org"
SETTINGS: dict[str, Any] = {
    "public_url": URL,
    "tokens": [f"admin:{ADMIN_TOKEN}"],
    "login_user_header": "Remote-User",
    "login_groups_header": "Remote-Groups",
    "login_proxies": [f"{PROXY}/32"],
    "trusted_proxies": [f"{BETWEEN}/32"],
    "group_roles": ["ops=operator", "bosses=admin"],
    "proxy_logout_url": "/oauth2/sign_out",
}
ADA = {"Remote-User": "ada", "Remote-Groups": "staff, ops"}


def at(master_url: str, address: str) -> httpx.AsyncClient:
    """Return a client whose requests come from `address`."""
    transport = httpx.AsyncHTTPTransport(local_address=address)
    return httpx.AsyncClient(base_url=master_url, transport=transport, timeout=30)


@contextlib.asynccontextmanager
async def callers(
    store_url: str, *addresses: str, **changed: Any
) -> AsyncIterator[tuple[list[httpx.AsyncClient], Api]]:
    """Yield clients at these addresses, and an admin of the master."""
    async with (
        master_on(store_url, **{**SETTINGS, **changed}) as (master, _),
        contextlib.AsyncExitStack() as stack,
    ):
        admin = Api(master.server.url, ADMIN_TOKEN)
        stack.push_async_callback(admin.http.aclose)
        yield [await stack.enter_async_context(at(master.server.url, one)) for one in addresses], admin


async def session_of(client: httpx.AsyncClient, headers: Any) -> dict[str, Any]:
    response = await client.get("/api/session", headers=headers)
    assert response.status_code == 200
    return response.json()


async def test_a_person_whom_the_proxy_names_acts_under_that_name(store_server: StoreServer) -> None:
    async with callers(store_server.url, PROXY) as ((proxy,), admin):
        session = await session_of(proxy, ADA)
        assert (session["who"], session["role"], session["method"]) == ("proxy:ada", "operator", "proxy")
        assert session["logout_url"] == "/oauth2/sign_out"
        shown = ADA | {"X-CSRF-Token": session["csrf_token"], "Origin": URL}
        assert (await proxy.post("/api/jobs", json={"name": "a"}, headers=shown)).status_code == 201
        settings = await proxy.patch("/api/settings", json={"max_push_jobs": 100}, headers=shown)
        assert settings.status_code == 200, settings.text
        assert (await proxy.get("/api/tokens", headers=ADA)).status_code == 403
        status, found = await admin.call("GET", "/api/audit?who=proxy:ada")
        assert (status, len(found["entries"])) == (200, 1)
        # A page of another site makes the browser send a change.
        for headers in (ADA, ADA | {"X-CSRF-Token": "x"}, shown | {"Origin": "https://evil.example"}):
            refused = await proxy.post("/api/jobs", json={"name": "a"}, headers=headers)
            assert refused.status_code == 403
            assert refused.json()["code"] in ("csrf", "cross_site")


async def test_a_header_from_elsewhere_is_ignored_and_told(
    store_server: StoreServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with callers(store_server.url, STRANGER, BETWEEN) as ((stranger, between), _):
        for client, headers in (
            (stranger, ADA),
            (stranger, ADA | {"X-Forwarded-For": PROXY}),
            (between, ADA),
            (between, ADA | {"X-Forwarded-For": f"{PROXY}, {STRANGER}"}),
        ):
            assert (await session_of(client, headers))["who"] is None
            assert (await client.get("/api/jobs", headers=headers)).status_code == 401
        told = [line for line in caplog.messages if "Remote-User" in line]
        # The warning is logged once a minute: a flood does not fill the log.
        assert told == [
            f"the header Remote-User of a request from {STRANGER} is ignored: the request did not come through a "
            "network of login_proxies"
        ]
        # A token is as valid there as elsewhere.
        bearer = ADA | {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        assert (await session_of(stranger, bearer))["method"] == "token"


async def test_proxies_in_a_row_are_believed_if_all_after_the_login_are_known(
    store_server: StoreServer,
) -> None:
    async with callers(store_server.url, BETWEEN) as ((between,), _):
        passed = ADA | {"X-Forwarded-For": f"203.0.113.5, {PROXY}"}
        assert (await session_of(between, passed))["who"] == "proxy:ada"
        assert (await session_of(between, ADA | {"X-Forwarded-For": f"203.0.113.5, {PROXY}, {BETWEEN}"}))[
            "role"
        ]


@pytest.mark.parametrize(
    "headers",
    [
        [("Remote-User", "eve"), ("Remote-User", "ada"), ("Remote-Groups", "ops")],
        [("Remote-User", "ada"), ("Remote-Groups", "bosses"), ("Remote-Groups", "ops")],
        [("Remote-User", "ada"), ("remote-groups", "bosses"), ("Remote-Groups", "ops")],
    ],
)
async def test_a_proxy_that_leaves_the_callers_own_header_is_not_believed(
    store_server: StoreServer, headers: Sequence[tuple[str, str]]
) -> None:
    async with callers(store_server.url, PROXY) as ((proxy,), _):
        assert (await session_of(proxy, list(headers)))["who"] is None


async def test_the_secret_of_the_proxy_must_come_along(store_server: StoreServer) -> None:
    async with callers(store_server.url, PROXY, login_proxy_secret="of the proxy") as ((proxy,), _):
        assert (await session_of(proxy, ADA))["who"] is None
        assert (await session_of(proxy, ADA | {"JQ-Proxy-Secret": "wrong"}))["who"] is None
        twice = [*ADA.items(), ("JQ-Proxy-Secret", "of the proxy"), ("JQ-Proxy-Secret", "of the proxy")]
        assert (await session_of(proxy, twice))["who"] is None
        assert (await session_of(proxy, ADA | {"JQ-Proxy-Secret": "of the proxy"}))["who"] == "proxy:ada"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Remote-User": "ada"}, "no_role"),
        ({"Remote-User": "ada", "Remote-Groups": "staff"}, "no_role"),
        ({"Remote-User": "ada", "Remote-Groups": "opsX,Ops"}, "no_role"),
        ({"Remote-User": "", "Remote-Groups": "ops"}, "no_login_name"),
        ({"Remote-User": "a" * 129, "Remote-Groups": "ops"}, "no_login_name"),
        ({"Remote-User": b"a\x80\x9fb", "Remote-Groups": "ops"}, "no_login_name"),
    ],
)
async def test_people_without_a_role_are_told_so_and_may_log_in_by_a_token(
    store_server: StoreServer, headers: dict[str, Any], code: str
) -> None:
    async with callers(store_server.url, PROXY) as ((proxy,), _):
        refused = await proxy.get("/api/jobs", headers=headers | {"Cookie": "of_the_proxy=x"})
        assert (refused.status_code, refused.json()["code"]) == (403, code)
        logged_in = await proxy.post("/api/session", json={"token": ADMIN_TOKEN}, headers=headers)
        assert logged_in.status_code == 201
        kept = {"Cookie": logged_in.headers["set-cookie"].partition(";")[0]}
        assert (await proxy.get("/api/jobs", headers=headers | kept)).status_code == 200


async def test_the_person_of_the_proxy_comes_before_an_old_session_of_the_browser(
    store_server: StoreServer,
) -> None:
    async with callers(store_server.url, PROXY) as ((proxy,), _):
        logged_in = await proxy.post("/api/session", json={"token": ADMIN_TOKEN}, headers={"Origin": URL})
        kept = {"Cookie": logged_in.headers["set-cookie"].partition(";")[0]}
        assert (await session_of(proxy, kept))["method"] == "session"
        assert (await session_of(proxy, ADA | kept))["who"] == "proxy:ada"


async def test_everybody_gets_the_default_role_where_there_is_one(store_server: StoreServer) -> None:
    changed: dict[str, Any] = {"login_groups_header": None, "group_roles": [], "default_role": "viewer"}
    async with callers(store_server.url, PROXY, **changed) as ((proxy,), _):
        session = await session_of(proxy, ADA | {"Remote-User": "ada@example.org"})
        assert (session["who"], session["role"]) == ("proxy:ada@example.org", "viewer")


async def test_a_live_stream_ends_when_the_proxy_names_the_person_no_more(store_server: StoreServer) -> None:
    async with callers(store_server.url, PROXY) as ((proxy,), _):
        stream = {"Accept": "text/event-stream"}
        async with proxy.stream("GET", "/api/stream", headers=ADA | stream) as response:
            assert response.status_code == 200
            assert await anext(response.aiter_bytes())
        assert (await proxy.get("/api/stream", headers=stream)).status_code == 401


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"login_proxies": []}, "requires login_proxies"),
        ({"login_proxies": ["0.0.0.0/0"]}, "anybody could claim to be an admin"),
        ({"login_proxies": ["::/0"]}, "anybody could claim to be an admin"),
        ({"login_proxies": ["the proxy"]}, "the proxy"),
        ({"public_url": None}, "requires public_url"),
        ({"group_roles": []}, "nobody has a role"),
        ({"group_roles": ["ops"]}, "expected GROUP=ROLE"),
        ({"login_user_header": "Authorization"}, "names no person"),
        ({"login_user_header": "JQ-Proxy-Secret"}, "names no person"),
        ({"login_user_header": "X-Forwarded-For"}, "names no person"),
        ({"login_user_header": "a b"}, "pattern"),
        ({"login_user_header": None}, "login_groups_header requires login_user_header"),
        ({"proxy_logout_url": "//evil.example"}, "pattern"),
        ({"proxy_logout_url": "javascript:alert(1)"}, "pattern"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(changed: dict[str, Any], told: str) -> None:
    Settings(**SETTINGS)
    with pytest.raises(ValueError, match=told):
        Settings(**{**SETTINGS, **changed})


OIDC: dict[str, Any] = {
    "public_url": URL,
    "oidc_issuer": "https://login.example.org",
    "oidc_client_id": "jobs",
    "group_roles": ["a=admin"],
}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"oidc_issuer": None}, "oidc_client_id requires oidc_issuer"),
        ({"oidc_client_id": None}, "requires oidc_client_id"),
        ({"public_url": None}, "requires public_url"),
        ({"group_roles": []}, "nobody can log in"),
        ({"oidc_scopes": ["profile"]}, "must include openid"),
        ({"oidc_issuer": "http://login.example.org"}, "must begin with https"),
        ({"oidc_issuer": "https://user:pass@login.example.org"}, "pattern"),
        ({"oidc_client_secret": "a", "oidc_client_secret_file": "b"}, "not both"),
        ({"default_role": "owner"}, "viewer"),
    ],
)
def test_settings_of_a_provider_that_do_not_fit_are_refused(changed: dict[str, Any], told: str) -> None:
    Settings(**OIDC)
    with pytest.raises(ValueError, match=told):
        Settings(**{**OIDC, **changed})
