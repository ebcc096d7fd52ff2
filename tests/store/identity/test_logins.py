"""count_login.lua, and how the access log folds entries."""

import time

import pytest

from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.identity.credentials import CredentialStore
from jqmaster.store.identity.logins import LOGIN_WINDOW_MS, USED_LOGIN_LIFE_MS, LoginStore
from jqmaster.store.identity.sessions import SessionStore
from tests.support.identity import USER, opened, refused
from tests.support.store import StoreWorld


@pytest.mark.rule("E1.4")
async def test_attempts_are_counted_within_a_minute(world: StoreWorld, logins: LoginStore) -> None:
    async def wait_ms(address: str, user: str) -> int:
        return await logins.count(address, user, most_of_address=3, most_of_user=2)

    assert [await wait_ms("a", "u") for _ in range(2)] == [0, 0]
    world.pass_ms(1000)
    async with world.unchanged():
        assert await wait_ms("b", "u") == LOGIN_WINDOW_MS - 1000
    assert await wait_ms("a", "v") == 0
    assert await wait_ms("a", "w") > 0
    assert await wait_ms("b", "") == 0
    world.pass_ms(LOGIN_WINDOW_MS)
    assert await wait_ms("a", "u") == 0
    world.pass_ms(-2 * LOGIN_WINDOW_MS)
    assert await wait_ms("a", "u") == 0


async def logged(world: StoreWorld) -> list[tuple[str, int]]:
    """Return (target, times) of everything in the access log, the oldest first."""
    page = await AuditStore(world.shard).page(limit=500, cursor=None, log="access")
    return [(entry.target, entry.times) for entry in reversed(page.entries)]


@pytest.mark.rule("E6.4")
async def test_repeats_of_a_refused_login_share_an_entry_for_an_hour(
    world: StoreWorld, logins: LoginStore
) -> None:
    for _ in range(500):
        await logins.log_refused("ada", refused("ada"))
        world.pass_ms(1000)
    await logins.close_folds()
    assert await logged(world) == [("ada", 1)]
    world.pass_ms(3_600_000)
    await logins.close_folds()
    await logins.close_folds()
    assert await logged(world) == [("ada", 1), ("ada", 499)]
    await logins.log_refused("ada", refused("ada"))
    await logins.log_refused("ada", refused("ada"))
    world.pass_ms(3_600_000)
    await logins.log_refused("ada", refused("ada"))
    assert await logged(world) == [("ada", 1), ("ada", 499), ("ada", 1), ("ada", 1), ("ada", 1)]
    # A clock that was set back also ends the hour.
    world.pass_ms(-7_200_000)
    await logins.close_folds()
    await logins.log_refused("ada", refused("ada"))
    assert len(await logged(world)) == 6


@pytest.mark.rule("E6.4")
async def test_strangers_add_few_entries_an_hour_however_many_names_they_try(
    world: StoreWorld, logins: LoginStore
) -> None:
    for n in range(300):
        await logins.log_refused(f"user{n}", refused(f"user{n}"))
    assert await logged(world) == [(f"user{n}", 1) for n in range(11)]
    world.pass_ms(3_600_000)
    await logins.close_folds()
    assert (await logged(world))[11:] == [("user299", 289)]


@pytest.mark.rule("E6.4")
async def test_repeated_logins_share_an_entry_for_each_address(
    world: StoreWorld, credentials: CredentialStore, sessions: SessionStore, logins: LoginStore
) -> None:
    assert await credentials.put_user("ada", None, USER, access_entry=refused("made")) == "ok"
    user = await credentials.user("ada")
    assert user is not None
    for n in range(30):
        await opened(sessions, f"s{n}", user, place=f"address{n % 2}")
    assert await logged(world) == [("made", 1), ("address0", 1), ("address1", 1)]
    for n in range(30):
        await sessions.end(f"s{n}", access_entry=refused("logout"))
    assert (await logged(world))[3:] == [("logout", 1)]
    world.pass_ms(3_600_000)
    await logins.close_folds()
    assert sorted((await logged(world))[4:]) == [("address0", 14), ("address1", 14), ("logout", 29)]


@pytest.mark.rule("E6.4")
async def test_access_events_are_kept_for_400_days(world: StoreWorld, logins: LoginStore) -> None:
    await logins.log_refused("old", refused("old"))
    # The server dates the entries.
    now_ms = time.time_ns() // 1_000_000
    world.now_ms = now_ms + 399 * 86_400_000
    await logins.log_refused("new", refused("new"))
    assert await logged(world) == [("old", 1), ("new", 1)]
    world.now_ms = now_ms + 401 * 86_400_000
    await logins.log_refused("newest", refused("newest"))
    assert await logged(world) == [("newest", 1)]


@pytest.mark.rule("E1.4")
async def test_a_caller_that_fills_the_counters_locks_nobody_out(
    logins: LoginStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.store.identity.logins.MAX_COUNTED", 20)
    for n in range(100):
        assert await logins.count(f"a{n}", f"u{n}", most_of_address=3, most_of_user=2) == 0
    assert [await logins.count("new", "", most_of_address=2, most_of_user=2) for _ in range(2)] == [0, 0]
    assert await logins.count("new", "", most_of_address=2, most_of_user=2) > 0
    assert await logins._client.command("HLEN", logins._keys.login_attempts) <= 20


@pytest.mark.req("D26")
async def test_a_login_by_a_provider_works_once(world: StoreWorld, logins: LoginStore) -> None:
    assert await logins.use_once("a")
    async with world.unchanged():
        assert not await logins.use_once("a")
    assert await logins.use_once("b")
    assert 0 < await world.redis.pttl(world.shard.keys.login_used("a")) <= USED_LOGIN_LIFE_MS
