"""put_user.lua and the life of a session, by the store's clock."""

from dataclasses import replace

import pytest

from jqmaster.domain.access import Role
from jqmaster.store.identity.credentials import CredentialStore
from jqmaster.store.identity.sessions import MAX_SESSIONS, SessionStore
from tests.support.identity import IDLE_MS, LIFE_MS, USER, opened
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
