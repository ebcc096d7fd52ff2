"""A store that fills up, or is no longer as it was at the start, takes no new jobs; everything else goes on."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from jqmaster.clock import SystemClock
from jqmaster.config import Settings
from jqmaster.errors import StoreUnavailableError
from jqmaster.runtime.watch import store_health
from jqmaster.runtime.watch.store_health import StoreHealth
from jqmaster.store.health.probe import look_again, probe
from jqmaster.store.link.client import StoreClient
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.clock import ManualClock
from tests.support.replicas import in_sync, replicated
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS

MIB = 1024 * 1024
# The reliability plan allows this time between a change and its alarm.
ALARM_WITHIN_S = 10


@contextlib.asynccontextmanager
async def gauge_of(url: str, **settings: Any) -> AsyncIterator[tuple[StoreClient, StoreHealth]]:
    client, wanted = StoreClient(url, connections=4), Settings(**settings)
    health = StoreHealth(client, SystemClock(), wanted, await probe(client.redis, wanted), quorum_of=[client])
    await health.start()
    yield client, health
    await health.stop()
    await client.close()


@pytest.fixture
async def gauged() -> AsyncIterator[tuple[StoreClient, StoreHealth]]:
    """A separate store, since the tests change its limits."""
    server = StoreServer()
    server.start()
    async with gauge_of(server.url) as one:
        yield one
    server.stop()


def refusal(health: StoreHealth) -> str:
    with pytest.raises(StoreUnavailableError) as refused:
        health.admit()
    assert refused.value.retry_after_s
    return refused.value.code


@pytest.mark.row(66)
async def test_above_eighty_percent_new_jobs_are_refused_until_there_is_room(
    gauged: tuple[StoreClient, StoreHealth],
) -> None:
    client, health = gauged
    health.admit()
    used = (await admin_of(client).info("memory"))["used_memory"]
    await admin_of(client).config_set("maxmemory", used + 20 * MIB)
    # The memory is allocated there, not sent: data on its way would count as used, too.
    await admin_of(client).setrange("ballast", int((used + 20 * MIB) * 0.85 - used), "x")
    await wait_until(lambda: "space" in health.faults, what="the health sees it")
    assert refusal(health) == "store_full"
    await admin_of(client).delete("ballast")
    await wait_until(lambda: not health.faults, what="there is room again")
    health.admit()


# A change to a running store, its reversal, and the name in the alarm.
CHANGES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str, str]] = {
    "it evicts": (
        ("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"), ("CONFIG", "SET", "maxmemory-policy", "noeviction"),
        "store_unfit", "allkeys-lru",
    ),
    "it is a replica": (
        ("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "store_unfit", "replica",
    ),
    "no append-only file": (
        ("CONFIG", "SET", "appendonly", "no"), ("CONFIG", "SET", "appendonly", "yes"), "durability_unavailable",
        "CONFIG SET appendonly yes",
    ),
    "fsync each second": (
        ("CONFIG", "SET", "appendfsync", "everysec"), ("CONFIG", "SET", "appendfsync", "always"),
        "durability_unavailable", "CONFIG SET appendfsync always",
    ),
    "no fsync during a rewrite": (
        ("CONFIG", "SET", "no-appendfsync-on-rewrite", "yes"), ("CONFIG", "SET", "no-appendfsync-on-rewrite", "no"),
        "durability_unavailable", "no-appendfsync-on-rewrite no",
    ),
}  # fmt: skip


@pytest.mark.req("M1")
@pytest.mark.parametrize("change", CHANGES)
async def test_a_fault_that_makes_a_store_unfit_is_noticed_while_it_runs(
    gauged: tuple[StoreClient, StoreHealth], change: str, caplog: pytest.LogCaptureFixture
) -> None:
    client, health = gauged
    harm, undo, code, told = CHANGES[change]
    health.admit()
    began = time.monotonic()
    await admin_of(client).execute_command(*harm)
    await wait_until(lambda: health.faults, timeout_s=ALARM_WITHIN_S, what="the health sees it")
    assert time.monotonic() - began < ALARM_WITHIN_S
    assert refusal(health) == code
    (alarm,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told in alarm.message
    await admin_of(client).execute_command(*undo)
    await wait_until(lambda: not health.faults, what="it is put right")
    health.admit()


@pytest.mark.req("D21")
async def test_an_outage_lasts_from_the_last_answer_before_to_the_first_after(
    gauged: tuple[StoreClient, StoreHealth], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = gauged
    clock, settings = ManualClock(), Settings()
    health = StoreHealth(client, clock, settings, await probe(client.redis, settings), quorum_of=[client])

    async def away(*_: Any) -> Any:
        raise StoreUnavailableError("the store cannot be reached", retry_after_s=1)

    await health._round()
    answered_s = clock.monotonic_s()
    # A late round is not an outage. This process itself was held up.
    clock.jump(30)
    await health._round()
    assert list(health.outages) == []
    answered_s += 30
    monkeypatch.setattr(store_health, "look_again", away)
    for _ in range(2):
        clock.jump(5)
        with pytest.raises(StoreUnavailableError) as failed:
            await health._round()
        health._failed(failed.value, "")
    monkeypatch.setattr(store_health, "look_again", look_again)
    clock.jump(1)
    await health._round()
    await health._round()
    assert list(health.outages) == [(answered_s, answered_s + 11)]


@pytest.mark.req("M1")
async def test_a_push_that_asks_for_less_than_was_lost_is_served(
    gauged: tuple[StoreClient, StoreHealth],
) -> None:
    client, health = gauged
    await admin_of(client).config_set("appendfsync", "everysec")
    await wait_until(lambda: health.faults)
    assert (health.durability, health.durability_available) == ("besteffort", "besteffort")
    assert refusal(health) == "durability_unavailable"
    assert health.admit("besteffort") == 0


@pytest.mark.req("M1")
async def test_a_replica_that_is_gone_ends_the_quorum_until_it_is_back() -> None:
    async with (
        replicated(1) as (primary, (replica,)),
        gauge_of(primary.url, durability="fsync+quorum") as (client, health),
    ):
        assert (health.admit(), client.quorum_replicas) == (1, 1)
        replica.kill()
        await wait_until(lambda: "durability" in health.faults, timeout_s=ALARM_WITHIN_S)
        assert (health.durability, health.durability_available) == ("fsync", "fsync")
        assert refusal(health) == "durability_unavailable"
        assert health.admit("fsync") == 0
        replica.start()
        await in_sync(primary, 1)
        await wait_until(lambda: not health.faults)
        assert health.admit() == 1


@pytest.mark.req("M1")
async def test_a_quorum_is_there_for_who_asks_where_it_is_not_configured() -> None:
    async with replicated(2) as (primary, _), gauge_of(primary.url) as (client, health):
        assert (health.durability, health.durability_available) == ("fsync", "fsync+quorum")
        assert (health.admit(), health.admit("fsync+quorum"), client.quorum_replicas) == (0, 1, 0)


@pytest.mark.req("M1")
async def test_a_store_that_stops_showing_its_configuration_gives_what_was_declared() -> None:
    server = StoreServer()
    server.start()
    admin = StoreClient(server.url, connections=2)
    await admin_of(admin).execute_command("ACL", "SETUSER", "managed", "on", ">pw", "~*", "&*", "+@all")
    url = f"unix://managed:pw@{server.socket}"
    seen: Callable[[StoreHealth, str], bool] = lambda health, level: health.durability == level  # noqa: E731
    async with gauge_of(url) as (_, strict), gauge_of(url, declare_durability="fsync") as (_, declared):
        await admin_of(admin).execute_command("ACL", "SETUSER", "managed", "-config")
        await wait_until(lambda: seen(strict, "besteffort"))
        assert "JQMASTER_DECLARE_DURABILITY" in strict.faults["durability"]
        assert seen(declared, "fsync")
        declared.admit()
    await admin.close()
    server.stop()
