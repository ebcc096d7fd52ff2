"""Settings that change at run time, over HTTP and on several masters."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jqmaster.service.operations.live_settings import AUDIT_TARGET
from jqmaster.service.operations.settings_catalog import RUNTIME
from tests.api.operations.test_masters import follower_of
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.each import for_each
from tests.support.master import QUICK, Api, master_on
from tests.support.server import StoreServer
from tests.support.settings import other_values
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D15"), real_time.MASTER]


# Each master has its own value of these settings.
OWN = {"node_id"}


async def settings_of(api: Api) -> dict[str, dict[str, Any]]:
    status, answer = await api.call("GET", "/api/settings")
    assert status == 200
    return {one["key"]: one for one in answer["settings"]}


async def test_settings_are_shown_with_their_facts(store_server: StoreServer) -> None:
    token = "a-secret-token-of-this-test"
    async with master_on(store_server.url, tokens=[f"admin:{token}"]) as (master, api):
        with_token = Api(str(api.http.base_url), token)
        shown = await settings_of(with_token)
        text = (await with_token.http.get("/api/settings", headers={"Accept": "application/json"})).text
        await with_token.http.aclose()
    assert token not in text
    assert store_server.url not in text
    assert shown["redis_url"] | {"value": None, "is_secret": True} == shown["redis_url"]
    lease = shown["lease_ms"]
    assert (lease["value"], lease["default"], lease["source"]) == (1500, 15_000, "configured")
    assert (lease["type"], lease["unit"], lease["minimum"], lease["maximum"]) == (
        "integer",
        "ms",
        500,
        600_000,
    )
    assert shown["log_level"]["choices"] == ["debug", "info", "warning", "error"]
    assert shown["max_push_jobs"]["source"] == "default"
    assert not shown["host"]["is_runtime"]
    assert master.live.version == 0


async def test_a_change_is_in_force_on_all_masters_within_a_second_and_audited(
    store_server: StoreServer,
) -> None:
    async with (
        master_on(store_server.url) as (first, api),
        follower_of(store_server.url, first) as (second, other),
    ):
        spec: dict[str, Any] = {"name": "work", "argument": "x" * 2000}
        assert (await other.call("POST", "/api/jobs", spec))[0] == 201
        changes = {"max_argument_bytes": 1024, "lease_ms": 3000, "log_level": "warning"}
        status, answer = await api.call("PATCH", "/api/settings", changes)
        assert status == 200
        assert {one["key"] for one in answer["settings"] if one["source"] == "runtime"} == changes.keys()
        assert (await api.call("POST", "/api/jobs", spec))[0] == 413
        # A message brings the change; the test asserts no timing except its own timeout.
        await wait_until(lambda: second.live.version == answer["version"], what="the other master heard")
        assert (await other.call("POST", "/api/jobs", spec))[0] == 413
        assert (await settings_of(other))["lease_ms"]["value"] == 3000
        # A repeated change changes nothing.
        assert (await api.call("PATCH", "/api/settings", {"lease_ms": 3000}))[1]["version"] == answer[
            "version"
        ]

        _, answer = await other.call("PATCH", "/api/settings", {"max_argument_bytes": None})
        await wait_until(lambda: first.live.version == answer["version"])
        shown = await settings_of(api)
        assert shown["max_argument_bytes"]["source"] == "default"
        assert shown["lease_ms"]["source"] == "runtime"
        assert (await api.call("POST", "/api/jobs", spec))[0] == 201
        _, page = await api.call("GET", f"/api/audit?target={AUDIT_TARGET}")
    entries = page["entries"]
    assert [entry["action"] for entry in entries] == ["settings.change"] * 2
    assert entries[0]["before"], entries[0]["after"] == (
        {"max_argument_bytes": 1024},
        {"max_argument_bytes": 262_144},
    )
    assert entries[1]["before"]["lease_ms"] == 1500
    assert entries[1]["after"] == changes


async def test_every_setting_of_run_time_reaches_another_master_also_without_a_message(
    store_server: StoreServer,
) -> None:
    async with (
        master_on(store_server.url) as (first, api),
        follower_of(store_server.url, first) as (second, _),
    ):
        second.live.wake = lambda: None  # type: ignore[method-assign]
        for key in sorted(RUNTIME):
            changes = other_values(key, QUICK)
            status, answer = await api.call("PATCH", "/api/settings", changes)
            assert status == 200, (key, answer)
            assert getattr(first.live.current, key) == changes[key]
        await wait_until(lambda: second.live.version == first.live.version)
        assert second.live.current.model_dump(exclude=OWN) == first.live.current.model_dump(exclude=OWN)
        _, answer = await api.call("PATCH", "/api/settings", dict.fromkeys(RUNTIME))
        await wait_until(lambda: second.live.version == answer["version"])
        assert second.live.current.model_dump() == second.settings.model_dump()


@for_each(
    ("changes", "fields"),
    [
        ({"lease_ms": 900}, {"lease_ms"}),
        ({"lease_ms": 600, "heartbeat_interval_s": 10}, {"lease_ms", "heartbeat_interval_s"}),
        ({"worker_stale_s": 0.15}, {"worker_stale_s"}),
        ({"lease_ms": 1, "offer_ms": 10**400}, {"lease_ms", "offer_ms"}),
        ({"lease_ms": True, "max_losses": "3", "crowd_share": None, "log_level": "loud"},
         {"lease_ms", "max_losses", "log_level"}),
        ({"max_push_jobs": 2.0, "ping_timeout_s": 0}, {"max_push_jobs", "ping_timeout_s"}),
        ({"lease_ms": 2000, "port": 1, "redis_url": "redis://x", "nonsense": 1}, {"port", "redis_url", "nonsense"}),
    ],
)  # fmt: skip
async def test_a_change_with_a_value_that_does_not_fit_is_refused_whole_and_names_it(
    api: Api, changes: dict[str, Any], fields: set[str]
) -> None:
    if 10**400 in changes.values():
        changes = {**changes, "offer_ms": 2**63}
    status, problem = await api.call("PATCH", "/api/settings", changes)
    assert (status, problem["code"]) == (422, "invalid")
    assert {error["loc"][0] for error in problem["errors"]} == fields
    assert all(error["msg"] for error in problem["errors"])
    assert all(one["source"] != "runtime" for one in (await settings_of(api)).values())


async def test_a_document_that_a_master_cannot_use_leaves_what_it_had(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, api):
        _, before = await api.call("PATCH", "/api/settings", {"max_push_jobs": 7})
        admin, key = admin_of(master.shard.services.link.client), master.shard.services.link.keys.settings
        # Another version of the program wrote this: one setting is unknown, one has a value that is invalid here.
        newer = b"\x83\xadmax_push_jobs\x09\xa6fresh!\x01\xa8lease_ms\x01"
        await admin.hset(key, mapping={"version": before["version"] + 1, "document": newer})
        await wait_until(lambda: master.live.current.max_push_jobs == 9)
        assert master.live.current.lease_ms == 1500
        await admin.hset(key, mapping={"version": before["version"] + 2, "document": b"\xc1"})
        await asyncio.sleep(0)
        assert master.live.current.max_push_jobs == 9
        assert (await settings_of(api))["max_push_jobs"]["value"] == 9
        await admin.hset(key, mapping={"version": before["version"] + 3, "document": b"\x80"})
        await wait_until(lambda: master.live.current.max_push_jobs == 200)


async def test_a_worker_hears_of_its_times_by_its_heartbeats(api: Api) -> None:
    status, worker = await api.call(
        "POST",
        "/api/workers",
        {
            "url": None, "names": ["work"], "max_jobs": 1, "node_id": "n", "pid": 1, "labels": {}, "version": "1",
            "secret": "s" * 32,
        },
    )  # fmt: skip
    assert status == 201
    assert (worker["heartbeat_interval_s"], worker["lease_s"]) == (0.2, 1.5)
    await api.call("PATCH", "/api/settings", {"heartbeat_interval_s": 0.5, "lease_ms": 4000})
    status, beat = await api.call(
        "POST", f"/api/workers/{worker['worker_id']}/heartbeat", {"running": [], "free": 1}
    )
    assert status == 200
    assert (beat["heartbeat_interval_s"], beat["lease_s"]) == (0.5, 4.0)
    assert beat["lease_until_ms"] - beat["store_time_ms"] == 4000


@pytest.mark.req("D18")
@pytest.mark.rule("E6.1")
async def test_admins_alone_change_settings_that_protect_content_and_logins(
    store_server: StoreServer,
) -> None:
    tokens = ["operate+push:t-operator", "admin:t-admin", "read:t-viewer"]
    async with master_on(store_server.url, tokens=tokens, redact_paths="argument.pin") as (master, _):
        operator, admin, viewer = (
            Api(master.server.url, f"t-{name}") for name in ("operator", "admin", "viewer")
        )
        shown = await settings_of(operator)
        guarded = {key for key, one in shown.items() if one["change_scope"] == "admin"}
        assert guarded >= {
            "redact_paths", "viewers_see_content", "login_attempts_per_minute", "session_life_s", "session_idle_s",
        }  # fmt: skip
        protections = {
            "unproven_share", "max_connections", "previews_per_minute", "max_body_bytes", "namespace_quotas",
        }  # fmt: skip
        assert guarded == {key for key, one in shown.items() if one["group"] == "Access"} | protections
        for key in guarded:
            for value in (None, shown[key]["value"]):
                status, problem = await operator.call(
                    "PATCH", "/api/settings", {"max_push_jobs": 7, key: value}
                )
                assert (status, problem["code"]) == (403, "admin_only"), key
                assert problem["errors"][0]["loc"] == [key]
        # The refused changes left nothing behind.
        assert (await settings_of(operator))["max_push_jobs"]["source"] == "default"
        assert (await operator.call("PATCH", "/api/settings", {"max_push_jobs": 7}))[0] == 200
        assert (await admin.call("PATCH", "/api/settings", {"redact_paths": []}))[0] == 200
        assert (await viewer.call("PATCH", "/api/settings", {"max_push_jobs": 7}))[0] == 403
        (entry, *_) = (await operator.call("GET", "/api/audit?limit=1"))[1]["entries"]
        assert (entry["action"], entry["before"]) == ("settings.change", {"redact_paths": ["argument.pin"]})
        for api in (operator, admin, viewer):
            await api.http.aclose()


@pytest.mark.req("D18")
async def test_viewers_do_not_see_how_the_machine_is_laid_out(
    store_server: StoreServer, tmp_path: Path
) -> None:
    tokens_file = tmp_path / "tokens-of-this-test"
    tokens_file.write_text("operate:t-operator\nread:t-viewer\n")
    settings = {
        "tokens_file": tokens_file,
        "data_dir": tmp_path,
        "allowed_worker_networks": ["127.0.0.0/8", "10.9.8.0/24"],
    }
    async with master_on(store_server.url, **settings) as (master, _):
        operator, viewer = (Api(master.server.url, f"t-{name}") for name in ("operator", "viewer"))
        hidden = await settings_of(viewer)
        for text in (str(tmp_path), "10.9.8.0"):
            assert text in str(await settings_of(operator))
            assert text not in str(hidden)
        assert (hidden["data_dir"]["value"], hidden["data_dir"]["is_hidden"]) == (None, True)
        assert not hidden["max_push_jobs"]["is_hidden"]
        for api in (operator, viewer):
            await api.http.aclose()
