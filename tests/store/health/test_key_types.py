"""Keys with fixed names that another program wrote."""

from jqmaster.store.health.fsck import check
from jqmaster.store.health.key_types import wrong_types
from jqmaster.store.keys import Key, Keys
from tests.support.admin import admin_of
from tests.support.each import for_each
from tests.support.store import StoreWorld

FIXED = [row.name for row in vars(Keys).values() if isinstance(row, Key)]


@for_each("name", FIXED)
async def test_a_fixed_key_of_a_wrong_type_is_named_and_ends_no_check(world: StoreWorld, name: str) -> None:
    key = getattr(world.shard.keys, name)
    admin = admin_of(world.shard.client)
    await admin.delete(key)
    if vars(Keys)[name].type == "string":
        await admin.lpush(key, "foreign")
    else:
        await admin.set(key, "foreign")
    try:
        ((found, detail),) = await wrong_types(world.shard.client, world.shard.keys)
        assert found == key
        assert "another program wrote it" in detail
        findings = [one async for one in check(world.shard.client, world.shard.keys)]
        assert ("type", key) in {(one.rule, one.key) for one in findings}
    finally:
        await admin.delete(key)
    assert await wrong_types(world.shard.client, world.shard.keys) == []
