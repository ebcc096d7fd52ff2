"""put_tokens.lua and the copy of tokens that masters read."""

from dataclasses import replace

import pytest

from jqmaster.domain.identity.access import Role, Scope
from jqmaster.store.identity.credentials import CredentialStore, StoredToken, StoredUser
from tests.support.identity import USER
from tests.support.store import StoreWorld

TOKEN = StoredToken("0123456789ab", "label", frozenset({Scope.PUSH}), ("mail.*",), b"d" * 32, 1, "me", None)


async def test_tokens_change_only_as_they_were_read(world: StoreWorld, credentials: CredentialStore) -> None:
    assert await credentials.put_tokens([(TOKEN.id, None, TOKEN)], access_entry=b"") == "ok"
    directory = await credentials.load()
    assert (directory.tokens, directory.now_ms) == ({TOKEN.id: TOKEN}, world.now_ms)
    other = replace(TOKEN, label="other")
    async with world.unchanged():
        assert await credentials.put_tokens([(TOKEN.id, None, other)], access_entry=b"") == "changed"
        both = [("ffffffffffff", None, other), (TOKEN.id, other, None)]
        assert await credentials.put_tokens(both, access_entry=b"") == "changed"
    await credentials.note_uses({TOKEN.id: 7, "unknown": 8})
    await credentials.note_uses({TOKEN.id: 6})
    assert await credentials.token_uses() == {TOKEN.id: 7}
    assert await credentials.put_tokens([(TOKEN.id, TOKEN, None)], access_entry=b"") == "ok"
    assert (await credentials.token_uses(), (await credentials.load()).tokens) == ({}, {})
    assert (await credentials.version())[0] > directory.version


@pytest.mark.parametrize(("expires_at_ms", "is_expired"), [(None, False), (10, True), (11, False)])
def test_a_token_expires_at_its_time(expires_at_ms: int | None, is_expired: bool) -> None:
    assert replace(TOKEN, expires_at_ms=expires_at_ms).is_expired(10) is is_expired


def test_the_lineage_of_a_token_is_kept_only_where_it_has_one() -> None:
    rotated = replace(TOKEN, lineage="aaaaaaaaaaaa")
    assert StoredToken.decode(rotated.id, rotated.encode()) == rotated
    assert b"lineage" not in TOKEN.encode()


@pytest.mark.parametrize("document", [b"\xc1", b"\x01", b"\x80", b"\x82\xa6scopes\x91\xa3fly\xa5names\x90"])
async def test_entries_that_cannot_be_read_open_nothing_and_hide_no_other(
    world: StoreWorld, credentials: CredentialStore, document: bytes
) -> None:
    assert await credentials.put_tokens([(TOKEN.id, None, TOKEN)], access_entry=b"") == "ok"
    assert await credentials.put_user("ada", None, USER, access_entry=b"") == "ok"
    await world.redis.hset(world.shard.keys.tokens, "damaged", document)
    await world.redis.hset(world.shard.keys.users, "eve", document)
    directory = await credentials.load()
    assert (directory.tokens, directory.user_count) == ({TOKEN.id: TOKEN}, 2)
    assert await credentials.user("eve") is None
    assert [user.name for user, _ in await credentials.users()] == ["ada"]


async def test_users_are_listed_by_name_with_their_last_logins(
    world: StoreWorld, credentials: CredentialStore
) -> None:
    for name in ("eve", "ada"):
        one = StoredUser(name, Role.VIEWER, "$argon2id$", 1)
        assert await credentials.put_user(name, None, one, access_entry=b"") == "ok"
    await world.redis.hset(world.shard.keys.logins, "eve", 5)
    assert [(user.name, at_ms) for user, at_ms in await credentials.users()] == [("ada", None), ("eve", 5)]
    assert await credentials.last_login_ms("eve") == 5
    assert await credentials.last_login_ms("ada") is None
    assert await credentials.user("nobody") is None


async def test_nothing_is_written_where_no_token_was_used(
    world: StoreWorld, credentials: CredentialStore
) -> None:
    async with world.unchanged():
        await credentials.note_uses({})
