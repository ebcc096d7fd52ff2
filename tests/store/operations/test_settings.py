"""put_settings.lua: settings that were changed at run time."""

import pytest

from jqmaster.errors import DamagedError
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.operations.settings import SettingsStore, StoredSettings
from tests.support.store import StoreWorld

ENTRY = encode_entry(who="ada", action="settings.change", target="lease_s", before=None, after=None)


async def test_settings_change_only_as_they_were_read(world: StoreWorld) -> None:
    store, k = SettingsStore(world.shard), world.shard.keys
    assert await store.load() == StoredSettings(0, {})
    assert (await store.versions()).settings == 0
    async with world.published(k.wake_channel, "settings"):
        first = await store.put(0, {"lease_s": 9}, ENTRY, is_access=False)
    assert first
    assert first.values == {"lease_s": 9}
    assert await store.load() == first
    async with world.unchanged():
        assert await store.put(0, {"lease_s": 1}, ENTRY, is_access=False) is None
    second = await store.put(first.version, {}, ENTRY, is_access=True)
    assert second
    assert second.version > first.version
    assert await store.load() == second
    assert (await store.versions()).settings == second.version


async def test_a_change_of_access_is_written_down_among_the_access_events(world: StoreWorld) -> None:
    store, audit = SettingsStore(world.shard), AuditStore(world.shard)
    first = await store.put(0, {"lease_s": 9}, ENTRY, is_access=False)
    assert first
    await store.put(first.version, {"lease_s": 8}, ENTRY, is_access=True)
    for log in ("changes", "access"):
        page = await audit.page(limit=5, cursor=None, log=log)
        assert [one.target for one in page.entries] == ["lease_s"]


@pytest.mark.parametrize("document", [b"\xc1", b"", b"\x01"])
async def test_settings_that_cannot_be_read_are_damage(world: StoreWorld, document: bytes) -> None:
    await world.redis.hset(world.shard.keys.settings, mapping={"version": 3, "document": document})
    with pytest.raises(DamagedError, match="the settings in the store cannot be read"):
        await SettingsStore(world.shard).load()
