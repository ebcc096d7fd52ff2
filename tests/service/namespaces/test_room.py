"""The quota of waiting jobs refuses pushes, and costs nothing where there is none."""

from pathlib import Path

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.namespaces.quotas import Quotas
from jqmaster.errors import RateLimitedError, StoreUnavailableError
from jqmaster.lifecycle import running
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.service.namespaces.room import NamespaceRoom
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from jqmaster.store.namespaces.namespaces import NamespaceStore
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("D29")
ENTRY = encode_entry(who="ada", action="namespace.put", target="shop", before=None, after=None)


async def test_a_full_namespace_refuses_until_jobs_have_gone_or_the_quota_is_raised(
    world: StoreWorld, tmp_path: Path
) -> None:
    store = NamespaceStore(world.shard)
    shard = world.shard.keys.shard
    registry = NamespaceRegistry(
        store, RegistryCopy(tmp_path, "redis://here", shard), SystemClock(), shard=shard
    )
    counted, changes = 0, 0
    waiting: int | Exception = 7

    async def count() -> int:
        nonlocal counted
        counted += 1
        if isinstance(waiting, Exception):
            raise waiting
        return waiting

    def changed() -> None:
        nonlocal changes
        changes += 1

    async def put(quota: int | None, size: int | None = None) -> None:
        present = await store.get("shop")
        new = Namespace("shop", "shop", quotas=Quotas(waiting_jobs=quota, waiting_bytes=size))
        await store.put(present, new, ENTRY, max_namespaces=9)
        await registry.reload()

    def is_full() -> bool:
        try:
            room.check()
        except RateLimitedError:
            return True
        return False

    async def size() -> int:
        return 5_000

    room = NamespaceRoom(registry, "shop", SystemClock(), count=count, size=size, on_change=changed)
    async with running([registry, room]):
        await put(None)
        assert (is_full(), counted) == (False, 0)
        await put(7)
        await wait_until(is_full)
        with pytest.raises(
            RateLimitedError, match="7 jobs of namespace shop wait, as many as its quota allows"
        ) as refused:
            room.check()
        assert refused.value.code == "namespace_full"
        # A store that does not answer changes nothing; pushes get its error anyway.
        waiting, before = StoreUnavailableError("away"), counted
        await wait_until(lambda: counted > before)
        assert is_full()
        waiting = 6
        await wait_until(lambda: not is_full())
        waiting = 7
        await wait_until(is_full)
        await put(8)
        await wait_until(lambda: not is_full())
        await put(7)
        await wait_until(is_full)
        # Without a quota, it is open at once.
        await put(None)
        assert not is_full()
        assert changes == 6
        # Their bytes are a quota of their own, for which nothing is counted.
        counted = 0
        await put(None, 5_000)
        await wait_until(is_full)
        with pytest.raises(RateLimitedError, match="5000 bytes of jobs of namespace shop wait"):
            room.check()
        await put(None, 5_001)
        await wait_until(lambda: not is_full())
        assert counted == 0
        # From 80 % on, a quota is nearly used up.
        assert list(room.nearly_used()) == ["waiting_bytes"]
        await put(8)
        await wait_until(lambda: room.nearly_used() == {"waiting_jobs": "waiting_jobs: 88 % of 8 are used"})
        await put(9)
        await wait_until(lambda: not room.nearly_used())
        await put(7)
        await wait_until(room.nearly_used)
        await put(None)
        assert not room.nearly_used()


async def test_jobs_that_wait_are_counted_whatever_they_wait_for(world: StoreWorld) -> None:
    await world.enqueue()
    await world.enqueue(run_at_ms=world.now_ms + 60_000)
    await world.enqueue("other")
    worker_id = await world.worker("other")
    await world.claim(worker_id, "other")
    assert await world.inspector.waiting() == 2
