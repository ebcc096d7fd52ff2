"""The registry of namespaces in the store."""

from dataclasses import replace

import pytest

from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.namespaces.quotas import Quotas
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.namespaces.documents import decode_namespace, encode_namespace
from jqmaster.store.namespaces.namespaces import NamespaceStore
from jqmaster.store.operations.settings import SettingsStore
from tests.support.store import START_MS, StoreWorld

pytestmark = pytest.mark.req("D29")
SHOP = Namespace("shop", "shop", "b", "open", "The shop", Quotas(waiting_jobs=7, streams=2))
ENTRY = encode_entry(who="ada", action="namespace.put", target="shop", before=None, after={"tag": "shop"})


async def put(world: StoreWorld, present: Namespace | None, new: Namespace, most: int = 9) -> int | None:
    return await NamespaceStore(world.shard).put(present, new, ENTRY, max_namespaces=most)


def test_a_namespace_survives_encoding() -> None:
    stored = b"0000000000000005 shop " + encode_namespace(SHOP)
    assert decode_namespace("shop", stored) == replace(SHOP, version=5)
    for raw in (
        b"",
        b"5 shop",
        b"x shop " + encode_namespace(SHOP),
        b"5 shop \x80",
        stored[:-3],
        b"5 shop \xc1",
    ):
        with pytest.raises(DamagedError, match="namespace shop"):
            decode_namespace("shop", raw)
    with pytest.raises(DamagedError):
        decode_namespace("shop", b"5 shop " + encode_namespace(replace(SHOP, state="lost")))  # type: ignore[arg-type]


async def test_put_compares_the_version_and_gives_a_new_one(world: StoreWorld) -> None:
    store, settings = NamespaceStore(world.shard), SettingsStore(world.shard)
    assert (await store.load()).version == 0
    version = await put(world, None, SHOP)
    assert version == START_MS
    first = replace(SHOP, version=version)
    loaded = await store.load()
    assert (loaded.version, loaded.namespaces, loaded.damaged) == (version, {"shop": first}, frozenset())
    assert await settings.versions() == (0, 0, version)
    async with world.unchanged():
        assert await put(world, None, SHOP) is None
        assert await put(world, replace(first, version=version - 1), SHOP) is None
        assert not await store.remove(replace(first, version=version + 1), ENTRY)
    # The clock stands still, and the version grows all the same.
    assert await put(world, first, replace(SHOP, state="closed")) == version + 1
    second = replace(SHOP, state="closed", version=version + 1)
    assert await store.get("shop") == second
    entries = (await AuditStore(world.shard).page(cursor=None, limit=9)).entries
    assert [(one.who, one.action, one.target) for one in entries] == [("ada", "namespace.put", "shop")] * 2
    assert await store.remove(second, ENTRY)
    assert await store.get("shop") is None
    # Created again, it has another version than ever before, so that nobody takes it for the former one.
    assert await put(world, None, SHOP) == version + 3


async def test_a_tag_belongs_to_one_namespace(world: StoreWorld) -> None:
    await put(world, None, SHOP)
    own = world.shard.keys.tag.strip("{}:")
    async with world.unchanged():
        with pytest.raises(ConflictError, match="shop is the tag of namespace shop") as refused:
            await put(world, None, replace(SHOP, name="mail", store="c"))
        with pytest.raises(ConflictError, match=f"{own} is the tag of namespace default"):
            await put(world, None, replace(SHOP, name="mail", tag=own))
    assert refused.value.code == "namespace_tag_taken"
    assert [one.loc for one in refused.value.errors] == [("tag",)]
    # The default namespace has the tag of its shard, and a title of its own.
    assert await put(world, None, Namespace("default", own, title="Ours"))
    assert await put(world, None, Namespace("mail", "mail"))


async def test_there_are_not_too_many(world: StoreWorld) -> None:
    await put(world, None, SHOP, most=1)
    present = await NamespaceStore(world.shard).get("shop")
    async with world.unchanged():
        with pytest.raises(ConflictError, match="there are 1 namespaces") as refused:
            await put(world, None, Namespace("mail", "mail"), most=1)
    assert refused.value.code == "too_many_namespaces"
    assert await put(world, present, replace(SHOP, title="Still changed"), most=1)


async def test_a_damaged_namespace_is_told_and_the_others_are_read(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await put(world, None, SHOP)
    await world.redis.hset(world.shard.keys.namespaces, "bad", b"\xff")
    loaded = await NamespaceStore(world.shard).load()
    assert (list(loaded.namespaces), loaded.damaged) == (["shop"], {"bad"})
    assert "namespace bad: its entry in the registry cannot be read" in caplog.text
    # It does not keep others from being created.
    assert await put(world, None, Namespace("mail", "mail"))


async def test_a_damaged_entry_is_removed_as_it_was_read(world: StoreWorld) -> None:
    store, key = NamespaceStore(world.shard), world.shard.keys.namespaces
    await put(world, None, SHOP)
    await world.redis.hset(key, "shop", b"\xff")
    assert await store.remove_damaged("shop", ENTRY)
    assert await store.get("shop") is None
    assert (await AuditStore(world.shard).page(cursor=None, limit=1)).entries[0].target == "shop"
