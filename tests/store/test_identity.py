"""put_tokens.lua, put_user.lua, count_login.lua, and the life of a session, by the store's clock."""

from dataclasses import replace

import pytest

from jqmaster.domain.access import Role, Scope
from jqmaster.store.identity import LOGIN_WINDOW_MS, MAX_SESSIONS, IdentityStore, StoredToken, StoredUser
from tests.support.store import StoreWorld

TOKEN = StoredToken("0123456789ab", "label", frozenset({Scope.PUSH}), ("mail.*",), b"d" * 32, 1, "me", None)
USER = StoredUser("ada", Role.ADMIN, "$argon2id$", 1)
IDLE_MS, LIFE_MS = 60_000, 600_000


@pytest.fixture
def store(world: StoreWorld) -> IdentityStore:
    return IdentityStore(world.shard)


async def opened(store: IdentityStore, digest: str, user: StoredUser) -> int | None:
    return await store.open_session(
        digest, "user:ada", user.stored, idle_ms=IDLE_MS, life_ms=LIFE_MS, old_digest="", address="x",
        counted_user="u", audit_entry=b"",
    )  # fmt: skip


async def test_tokens_change_only_as_they_were_read(world: StoreWorld, store: IdentityStore) -> None:
    assert await store.put_tokens([(TOKEN.id, None, TOKEN)], audit_entry=b"") == "ok"
    directory = await store.load()
    assert (directory.tokens, directory.now_ms) == ({TOKEN.id: TOKEN}, world.now_ms)
    other = replace(TOKEN, label="other")
    async with world.unchanged():
        assert await store.put_tokens([(TOKEN.id, None, other)], audit_entry=b"") == "changed"
        both = [("ffffffffffff", None, other), (TOKEN.id, other, None)]
        assert await store.put_tokens(both, audit_entry=b"") == "changed"
    await store.note_uses({TOKEN.id: 7, "unknown": 8})
    await store.note_uses({TOKEN.id: 6})
    assert await store.token_uses() == {TOKEN.id: 7}
    assert await store.put_tokens([(TOKEN.id, TOKEN, None)], audit_entry=b"") == "ok"
    assert (await store.token_uses(), (await store.load()).tokens) == ({}, {})
    assert (await store.version())[0] > directory.version


@pytest.mark.rule("E1.5")
async def test_a_session_idles_ages_and_ends_with_its_user(world: StoreWorld, store: IdentityStore) -> None:
    assert await store.put_user("ada", None, USER, audit_entry=b"") == "ok"
    user = await store.user("ada")
    assert user is not None
    async with world.unchanged():
        assert await opened(store, "a", replace(user, stored=b"as it was")) is None
        assert await store.put_user("ada", None, USER, audit_entry=b"") == "changed"
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
    assert await store.put_user("ada", user, replace(user, role=Role.VIEWER), audit_entry=b"") == "ok"
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
