"""Probes and the contract."""

import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import msgpack
import pytest
from redis.asyncio import Redis

from jqmaster.api.app import build_app
from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.api.http.auth import AccessPolicy, Scope
from jqmaster.api.operations.published_document import PublishedDocument, PublishedForm
from jqmaster.api.services import MasterCondition, Services
from jqmaster.app import Master, readiness
from jqmaster.config import Settings
from jqmaster.domain.operations.latency import Traffic
from jqmaster.embedded import EmbeddedStatus
from jqmaster.embedded.supervisor import EmbeddedValkey
from jqmaster.live_value import LiveValue
from jqmaster.shared_bound import SharedBound
from tests.support import real_time
from tests.support.contract import check_answer, document
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER

TOKENS = tuple(f"{scope}:token-{scope}" for scope in Scope)


async def test_healthz_says_that_the_process_lives_and_which_one_it_is(api: Api, master: Master) -> None:
    assert await api.call("GET", "/healthz") == (200, {"status": "ok", "id": master.id})


@pytest.mark.req("M1")
async def test_readyz_shows_progress_and_the_durability_in_force(api: Api) -> None:
    status, answer = await api.call("GET", "/readyz")
    assert status == 200
    assert answer == {
        "status": "ready",
        "durability": "fsync",
        "durability_available": "fsync",
        "leader": True,
        "store": "serving",
        "faults": [],
        "duty_faults": [],
    }


async def test_readyz_tells_when_nobody_leads(api: Api, master: Master) -> None:
    assert (await api.call("GET", "/readyz"))[0] == 200
    await master.shard.leader.stop()
    try:
        # All masters see a change of leaders at once, and all take pushes meanwhile.
        assert (await api.call("GET", "/readyz"))[0] == 200
        assert (await api.call("POST", "/api/jobs", {"name": "work", "argument": None}))[0] == 201

        async def not_ready() -> Any:
            status, answer = await api.call("GET", "/readyz")
            return status == 503 and answer

        answer = await wait_until(not_ready)
        assert (answer["status"], answer["faults"]) == ("not_ready", ["no master leads"])
        assert answer["leader"] is False
        assert (await api.call("GET", "/healthz"))[0] == 200
    finally:
        await master.shard.leader.start()
    await wait_until(lambda: master.shard.leader.leadership)
    assert (await api.call("GET", "/readyz"))[0] == 200


async def test_readyz_names_the_refusal_of_a_store_that_takes_no_writes() -> None:
    server = StoreServer()
    server.start()
    try:
        async with Redis.from_url(server.admin_url) as admin, master_on(server.url) as (_, api):

            async def faults() -> list[str]:
                return list((await api.call("GET", "/readyz"))[1]["faults"])

            await admin.config_set("min-replicas-to-write", 1)
            await wait_until(
                lambda: _told(faults, "store: the store refuses", "NOREPLICAS"), what="the refusal is named"
            )
            await admin.config_set("min-replicas-to-write", 0)

            async def is_ready() -> bool:
                return (await api.call("GET", "/readyz"))[0] == 200

            await wait_until(is_ready, what="it is ready again")
    finally:
        server.stop()


async def test_masters_that_do_not_lead_are_ready_again_as_soon_as_another_one_leads() -> None:
    server = StoreServer()
    server.start()
    try:
        async with contextlib.AsyncExitStack() as stack:
            admin = await stack.enter_async_context(Redis.from_url(server.admin_url))
            apis = [(await stack.enter_async_context(master_on(server.url)))[1] for _ in range(3)]

            async def statuses() -> set[int]:
                return {(await api.call("GET", "/readyz"))[0] for api in apis}

            async def are(status: int) -> bool:
                return await statuses() == {status}

            await wait_until(lambda: are(200), what="all are ready")
            await admin.config_set("min-replicas-to-write", 1)
            await wait_until(lambda: are(503), what="none is ready")
            await admin.config_set("min-replicas-to-write", 0)
            await wait_until(lambda: are(200), what="all are ready again")
    finally:
        server.stop()


async def _told(faults: Callable[[], Awaitable[list[str]]], *words: str) -> bool:
    return any(all(word in fault for word in words) for fault in await faults())


@pytest.mark.parametrize(
    ("tokens", "peer", "authorization", "is_told"),
    [
        ((), "127.0.0.1", None, True),
        ((), "10.0.0.5", None, False),
        (TOKENS, "127.0.0.1", None, False),
        (TOKENS, "127.0.0.1", "Bearer wrong", False),
        (TOKENS, "127.0.0.1", "Bearer token-push", False),
        (TOKENS, "127.0.0.1", "Bearer token-work", False),
        (TOKENS, "10.0.0.5", "Bearer token-read", True),
        (TOKENS, "10.0.0.5", "Bearer token-operate", True),
        (TOKENS, "10.0.0.5", "Bearer token-admin", True),
    ],
)
async def test_only_readers_learn_where_the_store_is(
    tokens: tuple[str, ...], peer: str, authorization: str | None, is_told: bool
) -> None:
    async def condition() -> MasterCondition:
        faults = {"store": "store: no room in /srv/secret"}
        duties = {"notices.rounds": "notices.rounds fails (KeyError: a secret)"}
        others = {"mail": "namespace mail: a secret"}
        return MasterCondition(False, "no room in /srv/secret", faults, "fsync", "fsync", duties, others)

    settings = Settings()
    live = SimpleNamespace(current=settings, derive=lambda make: LiveValue(make(settings)))
    services = SimpleNamespace(
        store_id="",
        prefix="",
        settings=settings,
        live=live,
        contract=dict,
        condition=condition,
        traffic=Traffic(),
        calls=SharedBound(LiveValue(100)).portion(),
    )
    app = build_app(cast(Services, services), AccessPolicy(tokens))
    transport = httpx.ASGITransport(app, client=(peer, 5000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as http:
        headers = {"Authorization": authorization} if authorization else {}
        response = await http.get("/readyz", headers=headers)
    answer = response.json()
    check_answer("GET", "/readyz", response.status_code, response.headers, answer)
    assert (response.status_code, answer["status"], answer["durability"]) == (503, "not_ready", "fsync")
    if is_told:
        assert (answer["store"], answer["faults"]) == (
            "no room in /srv/secret",
            ["store: no room in /srv/secret"],
        )
    else:
        assert (answer["store"], answer["faults"]) == ("not serving", ["store"])
        assert answer["duty_faults"] == ["notices.rounds", "other_namespaces"]
        assert b"mail" not in response.content
        assert b"secret" not in response.content


async def test_a_page_on_a_rebound_name_learns_no_more_than_anybody(
    api: Api, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def faults() -> list[str]:
        answer: list[str] = (await api.http.get("/readyz", headers={"Host": "rebound.example"})).json()[
            "faults"
        ]
        return answer

    monkeypatch.setattr(readiness, "CHANGE_OF_LEADERS_TTLS", 0)
    await master.shard.leader.stop()
    try:
        assert await wait_until(faults, what="the master is not ready") == ["leader"]
    finally:
        await master.shard.leader.start()


@pytest.mark.req("J11")
async def test_the_contract_that_is_served_is_the_committed_one(api: Api) -> None:
    response = await api.http.get("/openapi.json", headers={"Accept": "application/json"})
    assert response.json() == document("jqmaster")


async def test_strangers_get_the_contract_at_little_cost(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    original = PublishedDocument._made

    def counted(self: PublishedDocument, encoding: Encoding, is_packed: bool) -> PublishedForm:
        made.append(is_packed)
        return original(self, encoding, is_packed)

    monkeypatch.setattr(PublishedDocument, "_made", counted)
    async with (
        master_on(store_server.url, tokens=["admin:secret"]) as (master, _),
        httpx.AsyncClient(base_url=master.server.url) as stranger,
    ):
        asked = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        first, again = [await stranger.get("/openapi.json", headers=asked) for _ in range(2)]
        assert first.json() == again.json() == document("jqmaster")
        assert first.headers["content-encoding"] == "gzip"
        assert int(first.headers["content-length"]) < 110_000
        assert made == [True]
        tag = first.headers["etag"]
        for held in (tag, f'"other", W/{tag}', "*"):
            same = await stranger.get("/openapi.json", headers={**asked, "If-None-Match": held})
            assert (same.status_code, same.content) == (304, b"")
            assert same.headers["etag"] == tag
            assert same.headers["cache-control"] == "no-cache"
            assert same.headers["vary"] == "accept, accept-encoding"
        # Each form has a tag of its own.
        plain = await stranger.get("/openapi.json", headers={**asked, "Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.headers["etag"] != tag
        assert plain.json() == first.json()
        packed = await stranger.get(
            "/openapi.json", headers={"Accept": "application/msgpack", "If-None-Match": tag}
        )
        assert packed.status_code == 200
        assert msgpack.unpackb(packed.content) == first.json()


async def test_no_answer_tells_what_runs_here(api: Api) -> None:
    for method, path in (
        ("GET", "/healthz"),
        ("GET", "/api/jobs"),
        ("GET", "/nothing"),
        ("PUT", "/api/jobs"),
    ):
        response = await api.http.request(method, path)
        assert "server" not in response.headers
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in response.headers["content-security-policy"]


def test_the_durability_of_the_contract_is_that_of_the_settings() -> None:
    promised = document("jqmaster")["components"]["schemas"]["Readiness"]["properties"]["durability"]["enum"]
    assert set(promised) == set(Settings.model_fields["durability"].annotation.__args__)  # type: ignore[union-attr]


@pytest.mark.req("M1")
async def test_while_the_data_are_written_anew_pushes_are_told_so(
    api: Api, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = EmbeddedStatus("rewriting", detail="they are written anew")
    parts = master.shard.services
    embedded: Any = SimpleNamespace(status=lambda: status)
    monkeypatch.setattr(parts.store, "embedded", embedded)
    parts.judge_admission()
    code, answer = await api.call("POST", "/api/jobs", {"name": "work"})
    assert (code, answer["code"], answer["detail"]) == (503, "store_unavailable", "they are written anew")
    status = EmbeddedStatus("running")
    parts.judge_admission()
    assert (await api.call("POST", "/api/jobs", {"name": "work"}))[0] == 201


async def test_the_level_of_admission_changes_with_each_of_its_causes(
    api: Api, master: Master, tmp_path: Path
) -> None:
    parts = master.shard.services
    admitted = parts.admitted.current
    assert admitted[None] == 0
    parts.health.faults = {"space": "the store is full"}
    parts.health.on_look()
    assert parts.admitted.current == {}
    assert (await api.call("POST", "/api/jobs", {"name": "work"}))[1]["code"] == "store_full"
    parts.health.faults = {}
    parts.health.on_look()
    assert parts.admitted.current == admitted

    told: list[str] = []
    embedded = EmbeddedValkey(tmp_path)
    embedded.on_change = lambda: told.append(embedded.status().state)
    embedded._set("rewriting")
    assert told == ["rewriting"]

    master.shard.services.faults.fail("the store holds other data")
    assert parts.admitted.current == {}
    assert (await api.call("POST", "/api/jobs", {"name": "work"}))[1]["code"] == "store_unfit"
