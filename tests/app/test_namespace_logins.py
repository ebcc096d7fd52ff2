"""People whom a provider or a proxy names have the roles of their groups, in all namespaces or in single ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import real_time
from tests.support.namespaces import Installation, installed
from tests.support.oidc_provider import oidc_settings, provider
from tests.support.ports import free_port
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("D26", "D29"), real_time.MASTER]

TOKENS: dict[str, Any] = {"tokens": ["admin:token-of-admin"], "token": "token-of-admin"}
ROLES = ["staff=viewer", "sellers=operator@shop", "sellers=admin@mail", "guests=viewer@shop"]
JOB = {"name": "work"}


async def seen(
    browser: httpx.AsyncClient, headers: Mapping[str, str] | None = None
) -> dict[str, tuple[str | None, int, int]]:
    """Return the person's role in each namespace, and the statuses for reading jobs and for reading tokens."""
    found = {}
    for name in ("default", "shop", "mail"):
        session = await browser.get(f"/ns/{name}/api/session", headers=headers)
        jobs, tokens = [
            await browser.get(f"/ns/{name}/api/{what}", headers=headers) for what in ("jobs", "tokens")
        ]
        found[name] = session.json()["role"], jobs.status_code, tokens.status_code
    return found


async def served(one: Installation) -> None:
    await one.put("shop")
    await one.put("mail", "b")
    await one.until_served("shop", "mail")


async def test_a_proxy_names_a_group_with_a_role_in_one_namespace(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "public_url": "https://jobs.example.org",
        "login_user_header": "Remote-User",
        "login_groups_header": "Remote-Groups",
        "login_proxies": ["127.0.0.1/32"],
        "group_roles": ROLES,
    }
    async with (
        installed(store_server, other, tmp_path, **TOKENS, **settings) as one,
        httpx.AsyncClient(base_url=one.url, trust_env=False, timeout=30) as proxy,
    ):
        await served(one)
        ada = {"Remote-User": "ada", "Remote-Groups": "staff, sellers"}
        assert await seen(proxy, ada) == {
            "default": ("viewer", 200, 403),
            "shop": ("operator", 200, 403),
            "mail": ("admin", 200, 200),
        }
        # A viewer elsewhere, ada pushes to the namespaces in which another group lets her.
        shown = {**ada, "X-CSRF-Token": "by-proxy", "Origin": "https://jobs.example.org"}
        pushed = {
            path: (await proxy.post(f"{path}/api/jobs", json=JOB, headers=shown)).status_code
            for path in ("", "/ns/shop", "/ns/mail")
        }
        assert pushed == {"": 403, "/ns/shop": 201, "/ns/mail": 201}
        # A person with a role in one namespace alone does not learn that another exists.
        guest = {"Remote-User": "gus", "Remote-Groups": "guests"}
        assert await seen(proxy, guest) == {
            "default": (None, 404, 404),
            "shop": ("viewer", 200, 403),
            "mail": (None, 404, 404),
        }
        assert (await proxy.get("/api/session", headers=guest)).json()["namespaces"] == ["shop"]
        nobody = {"Remote-User": "eve", "Remote-Groups": "strangers"}
        refused = await proxy.get("/ns/shop/api/jobs", headers=nobody)
        assert (refused.status_code, refused.json()["code"]) == (403, "no_role")


async def test_one_login_at_a_provider_is_good_for_the_namespaces_of_the_persons_groups(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with provider() as one, httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as browser:
        settings = oidc_settings(one, url) | {"group_roles": ROLES}
        async with installed(store_server, other, tmp_path, port=port, **TOKENS, **settings) as installation:
            await served(installation)
            one.person["groups"] = ["sellers"]
            begun = await browser.get("/api/login/oidc", params={"page": "#/jobs"})
            back = await browser.get(await one.return_of(begun.headers["location"]))
            assert back.status_code == 302
            assert await seen(browser) == {
                "default": (None, 404, 404),
                "shop": ("operator", 200, 403),
                "mail": ("admin", 200, 200),
            }
            _, log = await installation.api().call("GET", "/api/audit?log=access")
            after = log["entries"][0]["after"]
            assert (after["role"], after["namespaces"]) == ("none", {"shop": "operator", "mail": "admin"})
            assert after["groups"] == ["sellers"]


async def test_a_login_at_a_provider_ends_the_login_by_a_token_of_the_namespace(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with provider() as one, httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as browser:
        settings = oidc_settings(one, url) | {"group_roles": ROLES}
        async with installed(store_server, other, tmp_path, port=port, **TOKENS, **settings) as installation:
            await served(installation)
            made = {"label": "till", "scopes": ["read"]}
            token = (await installation.api("mail").call("POST", "/api/tokens", made))[1]["token"]
            assert (await browser.post("/ns/mail/api/session", json={"token": token})).status_code == 201
            own = browser.cookies["jqmaster_namespace"]
            one.person["groups"] = ["strangers"]
            begun = await browser.get("/ns/mail/api/login/oidc", params={"page": "#/jobs"})
            await browser.get(await one.return_of(begun.headers["location"]))
            # A login that is refused ends nothing.
            assert (await browser.get("/ns/mail/api/session")).json()["role"] == "viewer"
            one.person["groups"] = ["sellers"]
            begun = await browser.get("/ns/mail/api/login/oidc", params={"page": "#/jobs"})
            back = await browser.get(await one.return_of(begun.headers["location"]))
            assert back.headers["location"] == f"{url}/ns/mail/#/jobs"
            session = (await browser.get("/ns/mail/api/session")).json()
            assert (session["role"], session["who"]) == ("admin", f"oidc:{one.person['preferred_username']}")
            # A copy of the cookie is not accepted.
            copied = {"cookie": f"jqmaster_namespace={own}"}
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as stranger:
                assert (await stranger.get("/ns/mail/api/jobs", headers=copied)).status_code == 401
            _, log = await installation.api("mail").call("GET", "/api/audit?log=access")
            assert log["entries"][0]["action"] == "session.logout"
