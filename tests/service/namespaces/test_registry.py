"""A master's knowledge of the namespaces, with the registry's store and without it."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from jqmaster.clock import SystemClock
from jqmaster.config import Settings
from jqmaster.domain.namespaces.namespace import Namespace, default_namespace
from jqmaster.domain.namespaces.quotas import Quotas
from jqmaster.lifecycle import running
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.service.operations.live_settings import LiveSettings
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from jqmaster.store.namespaces.namespaces import NamespaceStore
from jqmaster.store.operations.settings import SettingsStore
from tests.support.admin import admin_of
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("D29")
DEFAULT = default_namespace("jq")
SHOP, MAIL = Namespace("shop", "shop", "b", quotas=Quotas(waiting_jobs=9)), Namespace("mail", "mail")
ENTRY = encode_entry(who="ada", action="namespace.put", target="shop", before=None, after=None)


class RegistryWorld:
    """The registry of an installation on a store of its own, and the data directory of one master."""

    def __init__(self, server: StoreServer, data_dir: Path) -> None:
        self.server = server
        self.data_dir = data_dir
        self.client = StoreClient(server.url, connections=2, timeout_s=1)
        self.shard = Shard(self.client, Keys("jq"))
        self.store = NamespaceStore(self.shard)

    @property
    def copy(self) -> RegistryCopy:
        return RegistryCopy(self.data_dir, self.server.url, "jq")

    async def put(self, namespace: Namespace) -> Namespace:
        """Create or change a namespace, and return it with its version."""
        present = await self.store.get(namespace.name)
        version = await self.store.put(present, namespace, ENTRY, max_namespaces=9)
        assert version
        return replace(namespace, version=version)

    @contextlib.asynccontextmanager
    async def master(self) -> AsyncIterator[NamespaceRegistry]:
        """Run the parts of a master that follow the registry."""
        live = LiveSettings(Settings(), SettingsStore(self.shard))
        registry = NamespaceRegistry(self.store, self.copy, SystemClock(), shard="jq")
        live.follow_namespaces(registry.wake)
        async with running([live, registry]):
            yield registry


@pytest.fixture
def server() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


@pytest.fixture
async def world(server: StoreServer, tmp_path: Path) -> AsyncIterator[RegistryWorld]:
    world = RegistryWorld(server, tmp_path / "data")
    yield world
    await world.client.close()


def others(current: Mapping[str, Namespace]) -> list[Namespace]:
    """Return all namespaces but the default one."""
    return [one for one in current.values() if not one.is_default]


async def test_a_master_follows_the_registry(world: RegistryWorld) -> None:
    heard: list[list[str]] = []
    async with world.master() as registry:
        registry.follow(lambda current: heard.append(list(current)))
        assert (dict(registry.current), registry.version) == ({"default": DEFAULT}, 0)
        # An installation without namespaces leaves nothing on the disk.
        assert not world.data_dir.exists()
        shop = await world.put(SHOP)
        await wait_until(lambda: others(registry.current) == [shop])
        mail = await world.put(MAIL)
        await wait_until(lambda: others(registry.current) == [mail, shop])
        await wait_until(lambda: (copied := world.copy.read()) and copied.version == mail.version)
        assert await world.store.remove(shop, ENTRY)
        await wait_until(lambda: others(registry.current) == [mail])
        assert (registry.is_confirmed, registry.fault) == (True, "")
    assert heard == [["default", "shop"], ["default", "mail", "shop"], ["default", "mail"]]


async def test_the_default_namespace_stays_where_it_is(world: RegistryWorld) -> None:
    await world.put(Namespace("default", "jq", title="Ours", quotas=Quotas(streams=5)))
    async with world.master() as registry:
        default = registry.current["default"]
        assert (default.title, default.quotas.streams) == ("Ours", 5)
        await world.put(replace(default, store="elsewhere", state="closed"))
        await wait_until(lambda: registry.version > default.version)
        moved = registry.current["default"]
        assert (moved.tag, moved.store, moved.state) == ("jq", "default", "open")


async def test_a_master_starts_with_its_copy_while_the_store_is_away(
    world: RegistryWorld, caplog: pytest.LogCaptureFixture
) -> None:
    shop = await world.put(SHOP)
    async with world.master():
        pass
    world.server.kill()
    async with world.master() as registry:
        assert others(registry.current) == [shop]
        assert not registry.is_confirmed
        assert f"the copy {world.copy.path}, version {shop.version}, is in force" in caplog.text
        world.server.start()
        mail = await world.put(MAIL)
        await wait_until(lambda: others(registry.current) == [mail, shop])
        assert registry.is_confirmed
        # A store that goes away again changes nothing.
        world.server.kill()
        registry.wake()
        await wait_until(lambda: not registry.is_confirmed)
        assert others(registry.current) == [mail, shop]
        world.server.start()


async def test_a_master_whose_copy_equals_the_registry_knows_all_at_its_next_start(
    world: RegistryWorld,
) -> None:
    shop = await world.put(SHOP)
    for _ in range(2):
        async with world.master() as registry:
            assert (others(registry.current), registry.is_confirmed) == ([shop], True)


async def test_without_store_and_copy_a_master_knows_the_default_namespace(
    world: RegistryWorld, caplog: pytest.LogCaptureFixture
) -> None:
    shop = await world.put(SHOP)
    world.server.kill()
    async with world.master() as registry:
        assert dict(registry.current) == {"default": DEFAULT}
        assert "there is no copy of it here: only the default namespace is known" in caplog.text
        world.server.start()
        await wait_until(lambda: others(registry.current) == [shop])
        await wait_until(world.copy.read)


async def test_a_damaged_copy_is_told_and_written_anew(
    world: RegistryWorld, caplog: pytest.LogCaptureFixture
) -> None:
    shop = await world.put(SHOP)
    async with world.master():
        pass
    world.copy.path.write_bytes(world.copy.path.read_bytes().replace(b'"b"', b'"c"'))
    world.server.kill()
    async with world.master() as registry:
        assert dict(registry.current) == {"default": DEFAULT}
        assert (
            "is damaged; the copy is not used, and is written again once the store answers" in registry.fault
        )
        assert "is damaged" in caplog.text
        world.server.start()
        await wait_until(lambda: others(registry.current) == [shop])
        await wait_until(lambda: not registry.fault)
        copied = world.copy.read()
        assert copied
        assert dict(copied.namespaces) == {"shop": shop}


async def test_the_store_is_believed_and_not_a_copy_of_a_later_state(
    world: RegistryWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await world.put(SHOP)
    mail = await world.put(MAIL)
    async with world.master():
        pass
    # The store is restored to a state from before the shop.
    await admin_of(world.client).hdel(world.shard.keys.namespaces, "shop")
    await admin_of(world.client).hset(world.shard.keys.settings, "namespaces", mail.version - 1)
    async with world.master() as registry:
        assert others(registry.current) == [mail]
        assert "restored to an older state, and its version is used" in caplog.text
        copied = world.copy.read()
        assert copied
        assert (copied.version, list(copied.namespaces)) == (mail.version - 1, ["mail"])


async def test_a_namespace_whose_entry_is_damaged_stays_as_it_was(world: RegistryWorld) -> None:
    shop = await world.put(SHOP)
    async with world.master() as registry:
        await admin_of(world.client).hset(world.shard.keys.namespaces, "shop", b"\xff")
        mail = await world.put(MAIL)
        await wait_until(lambda: others(registry.current) == [mail, shop])
        await wait_until(lambda: registry.fault == "namespace shop cannot be read in the registry")
    # A start takes it from the copy.
    async with world.master() as registry:
        assert others(registry.current) == [mail, shop]
        assert registry.fault


async def test_a_copy_that_cannot_be_written_is_told(world: RegistryWorld) -> None:
    world.data_dir.write_text("a file, where the directory should be")
    shop = await world.put(SHOP)
    async with world.master() as registry:
        assert others(registry.current) == [shop]
        assert "without this copy, the master does not know the namespaces if it starts" in registry.fault
        world.data_dir.unlink()
        mail = await world.put(MAIL)
        await wait_until(lambda: others(registry.current) == [mail, shop] and not registry.fault)
