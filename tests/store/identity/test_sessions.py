"""put_user.lua and the life of a session, by the store's clock."""

from dataclasses import replace

import pytest

from jqmaster.domain.identity.access import Role
from jqmaster.store.identity.credentials import CredentialStore, StoredUser
from jqmaster.store.identity.sessions import MAX_SESSIONS, Grant, SessionStore
from tests.support.identity import IDLE_MS, LIFE_MS, USER, opened, refused
from tests.support.store import StoreWorld


@pytest.mark.rule("E1.5")
async def test_a_session_idles_ages_and_ends_with_its_user(
    world: StoreWorld, credentials: CredentialStore, sessions: SessionStore
) -> None:
    assert await credentials.put_user("ada", None, USER, access_entry=b"") == "ok"
    user = await credentials.user("ada")
    assert user is not None
    async with world.unchanged():
        assert await opened(sessions, "a", replace(user, stored=b"as it was")) is None
        assert await credentials.put_user("ada", None, USER, access_entry=b"") == "changed"
    began_ms = world.now_ms
    assert await opened(sessions, "a", user) == began_ms + LIFE_MS
    while world.now_ms < began_ms + LIFE_MS - IDLE_MS:
        world.pass_ms(IDLE_MS - 1)
        assert await sessions.use("a", idle_ms=IDLE_MS)
    world.now_ms = began_ms + LIFE_MS
    assert await sessions.use("a", idle_ms=IDLE_MS) is None
    await opened(sessions, "b", user)
    world.pass_ms(IDLE_MS)
    assert await sessions.use("b", idle_ms=IDLE_MS) is None
    for n in range(MAX_SESSIONS + 2):
        world.pass_ms(1)
        await opened(sessions, f"s{n}", user)
    kept = [n for n in range(MAX_SESSIONS + 2) if await sessions.use(f"s{n}", idle_ms=IDLE_MS)]
    assert kept == list(range(2, MAX_SESSIONS + 2))
    assert await credentials.put_user("ada", user, replace(user, role=Role.VIEWER), access_entry=b"") == "ok"
    assert await sessions.use(f"s{MAX_SESSIONS}", idle_ms=IDLE_MS) is None


@pytest.fixture
async def ada(credentials: CredentialStore) -> StoredUser:
    assert await credentials.put_user("ada", None, USER, access_entry=b"") == "ok"
    user = await credentials.user("ada")
    assert user is not None
    return user


async def test_sessions_are_listed_the_newest_first_and_without_those_that_are_over(
    world: StoreWorld, sessions: SessionStore, ada: StoredUser
) -> None:
    assert await sessions.all_of("user:ada") == []
    for digest in ("first", "second", "damaged"):
        await opened(sessions, digest, ada)
        world.pass_ms(1_000)
    await world.redis.hdel(world.shard.keys.session("damaged"), "until_ms")
    listed = await sessions.all_of("user:ada")
    assert [one.digest for one in listed] == ["second", "first"]
    assert (listed[0].opened_ms, listed[0].address) == (world.now_ms - 2_000, "p")
    assert listed[0].until_ms == world.now_ms - 2_000 + LIFE_MS


async def test_a_session_ends_once(sessions: SessionStore, ada: StoredUser) -> None:
    await opened(sessions, "a", ada)
    assert await sessions.end("a", access_entry=refused("p"))
    assert not await sessions.end("a", access_entry=refused("p"))
    assert await sessions.use("a", idle_ms=IDLE_MS) is None


@pytest.mark.parametrize("is_own", [False, True])
async def test_sessions_end_by_name_or_all_together(
    sessions: SessionStore, ada: StoredUser, is_own: bool
) -> None:
    for digest in ("a", "b", "c"):
        await opened(sessions, digest, ada)
    entry = refused("p")
    assert await sessions.end_all_of("user:ada", ["a", "unknown"], access_entry=entry, is_own=is_own) == 1
    assert {one.digest for one in await sessions.all_of("user:ada")} == {"b", "c"}
    assert await sessions.end_all_of("user:ada", [], access_entry=entry, is_own=is_own) == 2
    assert await sessions.all_of("user:ada") == []


@pytest.mark.req("D26")
async def test_a_session_by_a_provider_keeps_what_it_granted(sessions: SessionStore) -> None:
    grant = Grant("1a2b", ("staff", "jobs-admins"))
    assert await sessions.open(
        "a", "oidc:ada", b"", idle_ms=IDLE_MS, life_ms=LIFE_MS, old_digest="", address="x", counted_user="",
        place="p", access_entry=refused("p"), granted=grant.encode(), id_token="e.y.J",
    )  # fmt: skip
    found = await sessions.use("a", idle_ms=IDLE_MS)
    assert found is not None
    assert (found.subject, Grant.decode(found.credential)) == ("oidc:ada", grant)
    assert await sessions.id_token("a") == "e.y.J"
    assert await sessions.id_token("b") == ""
    assert [one.digest for one in await sessions.all_of("oidc:ada")] == ["a"]


@pytest.mark.parametrize("document", [b"", b"\xc1", b"\x01", b"\x80"])
def test_a_damaged_grant_opens_nothing(document: bytes) -> None:
    assert Grant.decode(document) is None
