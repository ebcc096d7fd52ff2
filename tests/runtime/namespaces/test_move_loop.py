"""The part of one master in the moves of namespaces."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.namespaces.move import LeftCopy
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.runtime.namespaces.move_loop import MoveLoop
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from tests.support.moves import MoveWorld, TwoStores, move_world
from tests.support.server import StoreServer, started
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("D29")


@pytest.fixture(scope="module")
def other() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


@pytest.fixture
async def one(world: StoreWorld, lone_server: StoreServer, other: StoreServer) -> AsyncIterator[MoveWorld]:
    async with move_world(world, lone_server, other) as it:
        yield it


@pytest.fixture
async def loop(one: MoveWorld, tmp_path: Path) -> AsyncIterator[MoveLoop]:
    """A loop of a master that serves no namespace."""
    shard = one.control.shard.keys.shard
    copy = RegistryCopy(tmp_path, "redis://here", shard)
    registry = NamespaceRegistry(one.namespaces, copy, SystemClock(), shard=shard)
    it = MoveLoop(registry, one.tools, SystemClock(), master_id="master-1", is_served=lambda name: False)
    await one.seed(3)
    await registry.reload()
    yield it
    await registry.stop()


async def ended(one: MoveWorld) -> None:
    async def is_over() -> bool:
        return (await one.move()).ended_at_ms is not None

    await wait_until(is_over, what="the move has ended")


async def test_a_record_that_cannot_be_read_holds_up_no_other_move(one: MoveWorld, loop: MoveLoop) -> None:
    damaged = Namespace("a-damaged", f"{one.tag}-a", state="moving")
    assert await one.namespaces.put(None, damaged, b"", max_namespaces=9)
    k = one.control.shard.keys
    await one.control.redis.hset(k.move("a-damaged"), mapping={"id": "x", "number": "0", "until": "0"})
    await one.control.redis.zadd(k.moves, {"a-damaged": 0})
    await one.begin()
    await loop._registry.reload()
    await loop.start()
    try:
        await ended(one)
    finally:
        await loop.stop()
    assert (await one.move()).step == "done"


async def test_a_store_that_hangs_while_a_copy_is_removed_holds_up_no_move(
    one: MoveWorld, loop: MoveLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = await one.entry()
    left = LeftCopy("c", one.tag, "id-1", 1)
    await one.begin()
    moving = await one.take("master-2")
    await moving._end({"store": "default", "stop_ms": 0}, "failed", left)
    await one.begin()
    await loop._registry.reload()
    hangs, shard_of = asyncio.Event(), TwoStores.shard_of

    async def hanging(self: TwoStores, namespace: Namespace) -> Shard:
        if namespace.store == "c":
            hangs.set()
            await asyncio.Event().wait()
        return await shard_of(self, namespace)

    monkeypatch.setattr(TwoStores, "shard_of", hanging)
    one.control.pass_ms(24 * 3600 * 1000 + 1)
    await loop.start()
    try:
        await asyncio.wait_for(hangs.wait(), 10)
        await one.begin() if (await one.move()).ended_at_ms else None
        await loop._registry.reload()
        await ended(one)
    finally:
        await loop.stop()
    assert ((await one.move()).step, (await one.entry()).tag) == ("done", present.tag)
    assert replace(left, number=1) in await one.moves.left_copies()
