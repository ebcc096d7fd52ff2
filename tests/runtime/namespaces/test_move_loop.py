"""The part of one master in the moves of namespaces."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.namespaces.move import LeftCopy
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.operations.master import MasterRecord
from jqmaster.errors import StoreUnavailableError
from jqmaster.runtime.namespaces.move_loop import MoveLoop
from jqmaster.service.namespaces import mover
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from tests.support.moves import MoveWorld, TwoStores, move_world
from tests.support.server import StoreServer, started
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("D29")
MASTER = "master-1"


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
    it = MoveLoop(registry, one.tools, SystemClock(), master_id=MASTER, is_served=lambda name: False)
    await one.seed(3)
    await registry.reload()
    yield it
    await registry.stop()


async def test_a_store_that_hangs_while_a_copy_is_removed_holds_up_no_move(
    one: MoveWorld, loop: MoveLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "RELEASE_WITHIN_S", 2.0)
    await one.begin()
    moving = await one.take("master-2")
    left = LeftCopy("c", one.tag, "id-1", 1)
    assert await moving._end({"stop_ms": 0}, "failed", left) == "ok"
    hangs, shard_of = asyncio.Event(), TwoStores.shard_of

    async def hanging(self: TwoStores, namespace: Namespace) -> Shard:
        if namespace.store == "c":
            hangs.set()
            await asyncio.Event().wait()
        return await shard_of(self, namespace)

    monkeypatch.setattr(TwoStores, "shard_of", hanging)
    # The mover waits until this master has released the namespace, which a later round does.
    record = MasterRecord(MASTER, "node", 1, "http://one", "1", one.control.now_ms, knows_namespaces=True)
    await one.masters.beat(record)
    await loop._registry.reload()
    await loop.start()
    try:
        await asyncio.wait_for(hangs.wait(), 10)
        await one.begin()

        async def has_ended() -> bool:
            await loop._registry.reload()
            return (await one.move()).ended_at_ms is not None

        await wait_until(has_ended, what="the move has ended", timeout_s=30)
    finally:
        await loop.stop()
    move = await one.move()
    assert (move.step, move.progress.reason) == ("done", "")
    assert left in await one.moves.left_copies()


async def test_while_the_registry_does_not_answer_no_copy_is_removed_and_a_line_says_why(
    one: MoveWorld, loop: MoveLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away() -> list[LeftCopy]:
        raise StoreUnavailableError("the store did not answer", retry_after_s=1)

    monkeypatch.setattr(one.moves, "left_copies", away)
    await loop.start()
    try:
        await wait_until(lambda: "cannot look for copies" in caplog.text, what="the fault is logged")
    finally:
        await loop.stop()
    (record,) = (record for record in caplog.records if "copies" in record.message)
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert record.message == "cannot look for copies of moved namespaces: the store did not answer"


@pytest.mark.parametrize("field", ["terms", "number"])
async def test_a_damaged_record_holds_up_no_other_move_and_is_told_once(
    one: MoveWorld, loop: MoveLoop, caplog: pytest.LogCaptureFixture, field: str
) -> None:
    await one.begin()
    damaged = replace(await one.entry(), name="a-damaged", tag=f"{one.tag}-x", version=0, stop_ms=1)
    assert await one.namespaces.put(None, damaged, b"", max_namespaces=9)
    redis, keys = one.control.redis, one.control.shard.keys
    await redis.hset(keys.move("a-damaged"), field, "x")
    await redis.zadd(keys.moves, {"a-damaged": 0})
    await loop._registry.reload()
    await loop.start()
    try:

        async def has_ended() -> bool:
            await loop._registry.reload()
            return (await one.move()).ended_at_ms is not None

        await wait_until(has_ended, what="the move has ended", timeout_s=30)
    finally:
        await loop.stop()
    assert (await one.move()).step == "done"
    told = [record.message for record in caplog.records if "a-damaged" in record.message]
    assert len(told) == 1
    assert "abort-move a-damaged --force" in told[0]
