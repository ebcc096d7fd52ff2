"""Settings of namespaces, over HTTP and on several masters: they act in their namespace, at once, and nowhere else."""

from pathlib import Path
from typing import Any

import pytest

from jqmaster.app import running_master
from tests.api.operations.test_settings import settings_of
from tests.support import real_time
from tests.support.master import Api
from tests.support.namespaces import installed
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), pytest.mark.req("D15"), real_time.MASTER]

WORKER: dict[str, Any] = {
    "url": None, "names": ["work"], "max_jobs": 1, "node_id": "n", "pid": 1, "labels": {}, "version": "1",
    "secret": "s" * 32,
}  # fmt: skip


async def lease_s(api: Api) -> float:
    """Return the lease that a new worker is told."""
    status, worker = await api.call("POST", "/api/workers", WORKER)
    assert status == 201, worker
    return float(worker["lease_s"])


async def changed(api: Api, **changes: Any) -> dict[str, dict[str, Any]]:
    status, answer = await api.call("PATCH", "/api/settings", changes)
    assert status == 200, answer
    return {one["key"]: one for one in answer["settings"]}


async def test_a_namespace_overrides_settings_for_itself_on_all_masters(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with installed(store_server, other, tmp_path) as one:
        await one.put("shop", "b")
        await one.put("mail")
        await one.until_served("shop", "mail")
        async with running_master(one.master.settings) as second:
            shop, mail, root = one.api("shop"), one.api("mail"), one.api()
            there = Api(f"{second.server.url}/ns/shop")
            one.apis.append(there)

            async def is_served() -> bool:
                return (await there.call("GET", "/readyz"))[0] == 200

            await wait_until(is_served, what="the second master serves the namespace")
            shown = await changed(shop, lease_ms=8000)
            lease = {"value": 8000, "source": "namespace", "reset_value": 1500, "is_overridable": True}
            assert shown["lease_ms"] == shown["lease_ms"] | lease | {"change_scope": "operate"}
            assert shown["log_level"] == shown["log_level"] | {"is_overridable": False, "change_scope": None}
            assert [await lease_s(api) for api in (shop, mail, root)] == [8.0, 1.5, 1.5]

            async def is_heard(value: int) -> bool:
                return (await settings_of(there))["lease_ms"]["value"] == value

            await wait_until(lambda: is_heard(8000), what="the other master heard")
            assert await lease_s(there) == 8.0
            # The installation changes what the namespace overrides, and what it does not.
            await changed(root, lease_ms=4000, max_losses=7)
            assert [await lease_s(api) for api in (shop, mail, root)] == [8.0, 4.0, 4.0]
            told = await settings_of(shop)
            assert (told["max_losses"]["value"], told["max_losses"]["source"]) == (7, "runtime")
            assert (await changed(shop, lease_ms=None))["lease_ms"]["source"] == "runtime"
            assert await lease_s(shop) == 4.0
            await wait_until(lambda: is_heard(4000), what="the other master heard of the reset")
        entries = (await shop.call("GET", "/api/audit?target=settings"))[1]["entries"]
        assert [(entry["before"], entry["after"]) for entry in entries] == [
            ({"lease_ms": 8000}, {"lease_ms": 4000}),
            ({"lease_ms": 1500}, {"lease_ms": 8000}),
        ]
        entries = (await root.call("GET", "/api/audit?target=settings"))[1]["entries"]
        assert [entry["after"] for entry in entries] == [{"lease_ms": 4000, "max_losses": 7}]


async def test_duties_of_the_leader_obey_the_namespace(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with installed(store_server, other, tmp_path) as one:
        await one.put("shop", "b")
        await one.until_served("shop")
        shop, root = one.api("shop"), one.api()
        await changed(shop, retention_succeeded_s=0.1, retention_succeeded_max=1)
        ids = []
        for api in (shop, root):
            ids.append(await api.enqueue("work"))
            assert (await api.call("POST", f"/api/jobs/{ids[-1]}/cancel", {}))[0] in (200, 202)

        async def is_gone() -> bool:
            return (await shop.call("GET", f"/api/jobs/{ids[0]}"))[0] == 404

        await wait_until(is_gone, what="retention of the namespace removed the job")
        assert (await root.call("GET", f"/api/jobs/{ids[1]}"))[0] == 200


async def test_a_namespace_keeps_its_settings_when_it_is_opened_again(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with installed(store_server, other, tmp_path) as one:
        await one.put("shop")
        await one.until_served("shop")
        shop, root = one.api("shop"), one.api()
        await changed(shop, lease_ms=8000)
        for word in ("close", "open"):
            assert (await root.call("POST", f"/api/namespaces/shop/{word}"))[0] == 200
        await changed(root, max_losses=9)
        await one.until_served("shop")
        assert await lease_s(shop) == 8.0
        assert (await settings_of(shop))["max_losses"]["value"] == 9


async def test_roles_decide_who_may_change_settings_where(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    tokens = ["admin:token-of-admin"]
    async with installed(store_server, other, tmp_path, tokens=tokens, token="token-of-admin") as one:
        await one.put("shop")
        await one.put("mail")
        await one.until_served("shop", "mail")

        async def token(api: Api, **fields: Any) -> str:
            status, made = await api.call("POST", "/api/tokens", {"label": "x", **fields})
            assert status == 201, made
            return str(made["token"])

        bound = await token(one.api(), scopes=["operate"], namespaces=["shop", "default"])
        own, reader = [await token(one.api("shop"), scopes=[scope]) for scope in ("operate", "read")]
        change = {"max_losses": 8}

        async def told(namespace: str | None, text: str) -> int:
            return (await one.api(namespace, text).call("PATCH", "/api/settings", change))[0]

        assert [await told("shop", text) for text in (bound, own, reader)] == [200, 200, 403]
        assert [await told("mail", text) for text in (bound, own, reader)] == [404, 404, 404]
        # At the installation a change reaches every namespace, so a token that is bound to some makes none.
        assert [await told(None, text) for text in (bound, own)] == [403, 401]
        assert await told("default", bound) == 403
        assert (await settings_of(one.api()))["max_losses"]["source"] == "default"
        assert (await settings_of(one.api("shop")))["max_losses"]["source"] == "namespace"
