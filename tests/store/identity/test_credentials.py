"""put_tokens.lua and the copy of tokens that masters read."""

from dataclasses import replace

from jqmaster.domain.access import Scope
from jqmaster.store.identity.credentials import CredentialStore, StoredToken
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
