"""Tokens of a namespace open it and nothing else; those of the installation open every namespace."""

import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.api.routes import OPERATIONS
from jqmaster.service.identity.directory import TRUSTED_S
from jqmaster.service.identity.namespace_identity import PUSHERS_TRUSTED_S
from tests.api.identity.test_tokens import Later, create
from tests.api.operations.test_stream import dashboard_at
from tests.support import real_time
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]

JOB = {"name": "work"}


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


async def test_a_token_of_one_namespace_does_nothing_in_another(installation: Installation) -> None:
    of_shop = (await create(installation.api("shop"), "admin"))["token"]
    elsewhere = installation.api("mail", of_shop).http
    for operation in OPERATIONS:
        if operation.access is None:
            continue
        path = re.sub(r"\{\w+\}", "x", operation.path)
        response = await elsewhere.request(operation.method, path)
        told = (operation.method, path, response.status_code, response.json().get("code"))
        assert told == (operation.method, path, 404, "unknown_namespace")


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
        ("PATCH", "/api/settings", {"lease_ms": 20_000}),
    ]
    for method, path, body in calls:
        status, answer = await shop.call(method, path, body)
        assert (status, answer["code"]) == (404, "not_found"), path
        assert "without /ns/" in answer["detail"]
    assert (await installation.api().call("GET", "/api/users"))[1]["users"] == []
    assert (await shop.call("GET", "/api/settings"))[0] == 200


async def test_namespaces_are_open_to_tokens_while_the_store_of_the_installation_is_away(
    other: StoreServer, tmp_path: Path
) -> None:
    store, clock = StoreServer(), Later()
    with started(store):
        async with installed(
            store, other, tmp_path, clock=clock, tokens=["admin:token-of-admin"], token="token-of-admin"
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
                clock.later_s += PUSHERS_TRUSTED_S
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
        for name in ("mail", "nobody")
    ]
    assert others.status_code == nobodys.status_code == 404
    assert others.content == nobodys.content
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
