"""put_declaration.lua: the latest declarations of each source."""

import pytest

from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store.operations import declarations
from jqmaster.store.operations.declarations import Declaration, DeclarationStore
from tests.support.store import StoreWorld


def declared(source: str, **definitions: str) -> Declaration:
    return Declaration(source, {"c": "1"} if definitions else {}, definitions, 5, "me")


async def test_a_source_is_written_replaced_and_forgotten(world: StoreWorld) -> None:
    store = DeclarationStore(world.shard)
    assert await store.all() == []
    await store.put(declared("b", nightly="e1"))
    await store.put(declared("a", often="e1"))
    await store.put(declared("b", nightly="e2"))
    assert await store.all() == [declared("a", often="e1"), declared("b", nightly="e2")]
    await store.put(declared("b"))
    assert await store.all() == [declared("a", often="e1")]


async def test_there_is_a_limit_on_sources(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "MAX_SOURCES", 1)
    store = DeclarationStore(world.shard)
    await store.put(declared("a", nightly="e1"))
    await store.put(declared("a", nightly="e2"))
    async with world.unchanged():
        with pytest.raises(ConflictError) as refused:
            await store.put(declared("b", nightly="e1"))
    assert refused.value.code == "too_many_sources"


async def test_a_document_that_cannot_be_read_is_reported(world: StoreWorld) -> None:
    await world.shard.client.command("HSET", world.shard.keys.declarations, "a", b"\xc1")
    with pytest.raises(DamagedError):
        await DeclarationStore(world.shard).all()
