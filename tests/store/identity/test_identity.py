"""put_tokens.lua, put_user.lua, count_login.lua, the folds of the access log, and the life of a session, by the
store's clock."""

import time
from dataclasses import replace

import pytest

from jqmaster.domain.access import Role, Scope
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.identity.identity import (
    LOGIN_WINDOW_MS,
    MAX_SESSIONS,
    IdentityStore,
    StoredToken,
    StoredUser,
)
from tests.support.store import StoreWorld

TOKEN = StoredToken("0123456789ab", "label", frozenset({Scope.PUSH}), ("mail.*",), b"d" * 32, 1, "me", None)
USER = StoredUser("ada", Role.ADMIN, "$argon2id$", 1)
IDLE_MS, LIFE_MS = 60_000, 600_000


@pytest.fixture
def store(world: StoreWorld) -> IdentityStore:
    return IdentityStore(world.shard)


async def opened(store: IdentityStore, digest: str, user: StoredUser, place: str = "p") -> int | None:
    return await store.open_session(
        digest, "user:ada", user.stored, idle_ms=IDLE_MS, life_ms=LIFE_MS, old_digest="", address="x",
        counted_user="u", place=place, access_entry=refused(place),
    )  # fmt: skip


async def test_tokens_change_only_as_they_were_read(world: StoreWorld, store: IdentityStore) -> None:
    assert await store.put_tokens([(TOKEN.id, None, TOKEN)], access_entry=b"") == "ok"
    directory = await store.load()
    assert (directory.tokens, directory.now_ms) == ({TOKEN.id: TOKEN}, world.now_ms)
    other = replace(TOKEN, label="other")
    async with world.unchanged():
        assert await store.put_tokens([(TOKEN.id, None, other)], access_entry=b"") == "changed"
        both = [("ffffffffffff", None, other), (TOKEN.id, other, None)]
        assert await store.put_tokens(both, access_entry=b"") == "changed"
    await store.note_uses({TOKEN.id: 7, "unknown": 8})
    await store.note_uses({TOKEN.id: 6})
    assert await store.token_uses() == {TOKEN.id: 7}
    assert await store.put_tokens([(TOKEN.id, TOKEN, None)], access_entry=b"") == "ok"
    assert (await store.token_uses(), (await store.load()).tokens) == ({}, {})
    assert (await store.version())[0] > directory.version


@pytest.mark.rule("E1.5")
async def test_a_session_idles_ages_and_ends_with_its_user(world: StoreWorld, store: IdentityStore) -> None:
    assert await store.put_user("ada", None, USER, access_entry=b"") == "ok"
    user = await store.user("ada")
    assert user is not None
    async with world.unchanged():
        assert await opened(store, "a", replace(user, stored=b"as it was")) is None
        assert await store.put_user("ada", None, USER, access_entry=b"") == "changed"
    began_ms = world.now_ms
    assert await opened(store, "a", user) == began_ms + LIFE_MS
    while world.now_ms < began_ms + LIFE_MS - IDLE_MS:
        world.pass_ms(IDLE_MS - 1)
        assert await store.use_session("a", idle_ms=IDLE_MS)
    world.now_ms = began_ms + LIFE_MS
    assert await store.use_session("a", idle_ms=IDLE_MS) is None
    await opened(store, "b", user)
    world.pass_ms(IDLE_MS)
    assert await store.use_session("b", idle_ms=IDLE_MS) is None
    for n in range(MAX_SESSIONS + 2):
        world.pass_ms(1)
        await opened(store, f"s{n}", user)
    kept = [n for n in range(MAX_SESSIONS + 2) if await store.use_session(f"s{n}", idle_ms=IDLE_MS)]
    assert kept == list(range(2, MAX_SESSIONS + 2))
    assert await store.put_user("ada", user, replace(user, role=Role.VIEWER), access_entry=b"") == "ok"
    assert await store.use_session(f"s{MAX_SESSIONS}", idle_ms=IDLE_MS) is None


@pytest.mark.rule("E1.4")
async def test_attempts_are_counted_within_a_minute(world: StoreWorld, store: IdentityStore) -> None:
    async def wait_ms(address: str, user: str) -> int:
        return await store.count_login(address, user, most_of_address=3, most_of_user=2)

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
    """(target, times) of all that the access log holds, the oldest first."""
    page = await AuditStore(world.shard).page(limit=500, cursor=None, log="access")
    return [(entry.target, entry.times) for entry in reversed(page.entries)]


def refused(kind: str) -> bytes:
    return encode_entry(who=kind, action="session.refused", target=kind, before=None, after=None)


@pytest.mark.rule("E6.4")
async def test_repeats_of_a_refused_login_share_an_entry_for_an_hour(
    world: StoreWorld, store: IdentityStore
) -> None:
    for _ in range(500):
        await store.log_refused_login("ada", refused("ada"))
        world.pass_ms(1000)
    await store.close_access_folds()
    assert await logged(world) == [("ada", 1)]
    world.pass_ms(3_600_000)
    await store.close_access_folds()
    await store.close_access_folds()
    assert await logged(world) == [("ada", 1), ("ada", 499)]
    await store.log_refused_login("ada", refused("ada"))
    await store.log_refused_login("ada", refused("ada"))
    world.pass_ms(3_600_000)
    await store.log_refused_login("ada", refused("ada"))
    assert await logged(world) == [("ada", 1), ("ada", 499), ("ada", 1), ("ada", 1), ("ada", 1)]
    # A clock that was set back ends the hour as well.
    world.pass_ms(-7_200_000)
    await store.close_access_folds()
    await store.log_refused_login("ada", refused("ada"))
    assert len(await logged(world)) == 6


@pytest.mark.rule("E6.4")
async def test_strangers_add_few_entries_an_hour_however_many_names_they_try(
    world: StoreWorld, store: IdentityStore
) -> None:
    for n in range(300):
        await store.log_refused_login(f"user{n}", refused(f"user{n}"))
    assert await logged(world) == [(f"user{n}", 1) for n in range(11)]
    world.pass_ms(3_600_000)
    await store.close_access_folds()
    assert (await logged(world))[11:] == [("user299", 289)]


@pytest.mark.rule("E6.4")
async def test_repeated_logins_share_an_entry_for_each_address(
    world: StoreWorld, store: IdentityStore
) -> None:
    assert await store.put_user("ada", None, USER, access_entry=refused("made")) == "ok"
    user = await store.user("ada")
    assert user is not None
    for n in range(30):
        await opened(store, f"s{n}", user, place=f"address{n % 2}")
    assert await logged(world) == [("made", 1), ("address0", 1), ("address1", 1)]
    for n in range(30):
        await store.end_session(f"s{n}", access_entry=refused("logout"))
    assert (await logged(world))[3:] == [("logout", 1)]
    world.pass_ms(3_600_000)
    await store.close_access_folds()
    assert sorted((await logged(world))[4:]) == [("address0", 14), ("address1", 14), ("logout", 29)]


@pytest.mark.rule("E6.4")
async def test_access_events_are_kept_for_400_days(world: StoreWorld, store: IdentityStore) -> None:
    await store.log_refused_login("old", refused("old"))
    # Entries are dated by the server.
    now_ms = time.time_ns() // 1_000_000
    world.now_ms = now_ms + 399 * 86_400_000
    await store.log_refused_login("new", refused("new"))
    assert await logged(world) == [("old", 1), ("new", 1)]
    world.now_ms = now_ms + 401 * 86_400_000
    await store.log_refused_login("newest", refused("newest"))
    assert await logged(world) == [("newest", 1)]


@pytest.mark.rule("E1.4")
async def test_whoever_fills_the_counters_locks_nobody_out(
    store: IdentityStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.store.identity.identity.MAX_COUNTED", 20)
    for n in range(100):
        assert await store.count_login(f"a{n}", f"u{n}", most_of_address=3, most_of_user=2) == 0
    assert [await store.count_login("new", "", most_of_address=2, most_of_user=2) for _ in range(2)] == [0, 0]
    assert await store.count_login("new", "", most_of_address=2, most_of_user=2) > 0
    assert await store._client.command("HLEN", store._keys.login_attempts) <= 20
