"""The records of moves: one transition of each script, and what each refuses."""

from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.namespaces.move import LEFT_FOR_MS, LeftCopy, MoveProgress, MoveSize, MoveTerms
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.namespaces.documents import unreadable_entry
from jqmaster.store.namespaces.moves import HOLD_MS, FailedMove, LostMoveError, MoveEnd, MoveStore
from jqmaster.store.namespaces.namespaces import NamespaceStore
from jqmaster.store.operations.settings import SettingsStore
from tests.support.store import START_MS, StoreWorld

pytestmark = pytest.mark.req("D29")
TERMS = MoveTerms("default", "b", "open", "ada", MoveSize(9, 900), 5_000, START_MS)
ENTRY = encode_entry(who="ada", action="namespace.move", target="shop", before=None, after=None)
PROGRESS = MoveProgress(3, 1, "")
LEFT = LeftCopy("default", "shop", "id-1", 1)


async def begun(world: StoreWorld) -> tuple[MoveStore, Namespace]:
    """Begin to move `shop`. Return its entry, too."""
    registry, moves = NamespaceStore(world.shard), MoveStore(world.shard)
    version = await registry.put(None, Namespace("shop", "shop"), b"", max_namespaces=9)
    present = Namespace("shop", "shop", version=version or 0)
    assert await moves.begin(present, replace(present, stop_ms=60_000), "id-1", TERMS, ENTRY)
    found = await registry.get("shop")
    assert found
    return moves, found


async def test_a_move_begins_with_the_entry_that_was_read(world: StoreWorld) -> None:
    moves, announced = await begun(world)
    assert (announced.state, announced.stop_ms) == ("open", 60_000)
    assert (await SettingsStore(world.shard).versions())[2] == announced.version
    move = await moves.get("shop")
    assert move
    assert (move.id, move.number, move.step, move.terms, move.is_under_way) == (
        "id-1", 0, "announced", TERMS, True,
    )  # fmt: skip
    assert await moves.under_way() == ["shop"]
    async with world.unchanged():
        with pytest.raises(ConflictError) as refused:
            await moves.begin(announced, announced, "id-2", TERMS, ENTRY)
        mail = Namespace("mail", "mail")
        assert not await moves.begin(mail, mail, "id-2", TERMS, ENTRY)
    assert refused.value.code == "move_under_way"
    entries = (await AuditStore(world.shard).page(cursor=None, limit=9)).entries
    assert entries[0].action == "namespace.move"
    assert await moves.get("mail") is None


async def test_one_master_holds_a_move_until_its_hold_is_over(world: StoreWorld) -> None:
    moves, _ = await begun(world)
    assert await moves.take("shop", "one") == 1
    async with world.unchanged():
        assert await moves.take("shop", "two") is None
        assert await moves.take("mail", "two") is None
    world.pass_ms(HOLD_MS)
    assert await moves.record("shop", 1, "copying", PROGRESS) == ""
    world.pass_ms(HOLD_MS)
    assert await moves.take("shop", "two") == 2
    async with world.unchanged():
        with pytest.raises(LostMoveError):
            await moves.record("shop", 1, "copying", PROGRESS)
    move = await moves.get("shop")
    assert move
    assert (move.step, move.progress, move.mover_id, move.number) == ("copying", PROGRESS, "two", 2)
    # A mover that ends in order gives it back at once.
    await moves.record("shop", 2, "copying", PROGRESS, hold_ms=0)
    assert await moves.take("shop", "one") == 3
    # The clock was set back: the hold does not last for years.
    world.pass_ms(-10 * HOLD_MS)
    assert await moves.take("shop", "two") == 4


async def test_the_mover_alone_stops_the_service(world: StoreWorld) -> None:
    moves, present = await begun(world)
    await moves.take("shop", "one")
    stopped = replace(present, state="moving")
    async with world.unchanged():
        with pytest.raises(LostMoveError):
            await moves.stop_service(present, stopped, 2)
        assert await moves.stop_service(replace(present, version=7), stopped, 1) is None
    version = await moves.stop_service(present, stopped, 1)
    assert await NamespaceStore(world.shard).get("shop") == replace(stopped, version=version or 0)


async def test_masters_release_a_namespace_that_is_being_moved(world: StoreWorld) -> None:
    moves, _ = await begun(world)
    await moves.release("shop", "one", 5)
    await moves.release("shop", "two", 6)
    async with world.unchanged():
        await moves.release("mail", "one", 5)
    move = await moves.get("shop")
    assert move
    assert move.released == {("one", 5), ("two", 6)}


async def test_the_end_names_the_store_and_the_copy_that_is_left(world: StoreWorld) -> None:
    moves, present = await begun(world)
    await moves.take("shop", "one")
    await moves.release("shop", "one", 5)
    opened = replace(present, store="b", stop_ms=0)
    async with world.unchanged():
        with pytest.raises(LostMoveError):
            await moves.end(present, opened, 2, MoveEnd("done", PROGRESS, ENTRY), left=LEFT)
        stale = replace(present, version=7)
        assert await moves.end(stale, opened, 1, MoveEnd("done", PROGRESS, ENTRY), left=LEFT) == "changed"
    assert await moves.end(present, opened, 1, MoveEnd("done", PROGRESS, ENTRY), left=LEFT) == "ok"
    found = await NamespaceStore(world.shard).get("shop")
    assert found
    assert found == replace(opened, version=found.version)
    move = await moves.get("shop")
    assert move
    assert (move.step, move.progress, move.released, move.ended_at_ms, move.is_under_way) == (
        "done", PROGRESS, frozenset(), world.now_ms, False,
    )  # fmt: skip
    assert await moves.under_way() == []
    async with world.unchanged():
        with pytest.raises(LostMoveError):
            await moves.end(found, opened, 1, MoveEnd("done", PROGRESS, ENTRY), left=LEFT)
        assert await moves.take("shop", "one") is None
        assert await moves.left_copies() == []
    world.pass_ms(LEFT_FOR_MS)
    assert await moves.left_copies() == [LEFT]
    await moves.forget(LEFT)
    assert await moves.left_copies() == []


async def test_an_aborted_move_does_not_end_with_success(world: StoreWorld) -> None:
    moves, present = await begun(world)
    await moves.take("shop", "one")
    async with world.unchanged():
        assert not await moves.abort("mail", "eve", ENTRY)
    assert await moves.abort("shop", "eve", ENTRY)
    async with world.unchanged():
        assert await moves.abort("shop", "bob", ENTRY)
        assert await moves.end(present, present, 1, MoveEnd("done", PROGRESS, ENTRY), left=None) == "aborted"
    assert await moves.record("shop", 1, "returning", PROGRESS) == "eve"
    opened = replace(present, stop_ms=0)
    assert await moves.end(present, opened, 1, MoveEnd("aborted", PROGRESS, ENTRY), left=None) == "ok"
    ended = await moves.get("shop")
    assert ended
    assert (ended.step, ended.aborted_by) == ("aborted", "eve")
    assert not await moves.abort("shop", "eve", ENTRY)
    # A later move begins anew.
    found = await NamespaceStore(world.shard).get("shop")
    assert found
    assert await moves.begin(found, found, "id-2", TERMS, ENTRY)
    move = await moves.get("shop")
    assert move
    assert (move.id, move.aborted_by, move.number, move.step) == ("id-2", "", 0, "announced")


async def test_a_record_that_cannot_be_read_is_told(world: StoreWorld) -> None:
    moves, _ = await begun(world)
    await world.redis.hset(world.shard.keys.move("shop"), "step", "flying")
    with pytest.raises(DamagedError, match="move of namespace shop"):
        await moves.get("shop")


async def test_a_record_is_dropped_whether_or_not_it_can_be_read(world: StoreWorld) -> None:
    moves, present = await begun(world)
    await moves.take("shop", "one")
    closed = replace(present, state="closed", stop_ms=0)
    async with world.unchanged():
        assert await moves.drop(replace(present, version=7), closed, ENTRY) is None
    await world.redis.hset(world.shard.keys.move("shop"), "step", "flying")
    version = await moves.drop(present, closed, ENTRY, left=(LEFT, 0))
    assert version
    assert await NamespaceStore(world.shard).get("shop") == replace(closed, version=version)
    assert (await moves.get("shop"), await moves.under_way(), await moves.left_copies()) == (None, [], [LEFT])
    # A second write of the same act needs no entry of its own in the audit log.
    entries = (await AuditStore(world.shard).page(cursor=None, limit=9)).entries
    found = await NamespaceStore(world.shard).get("shop")
    assert found
    assert await moves.drop(found, closed, b"")
    assert (await AuditStore(world.shard).page(cursor=None, limit=9)).entries == entries
    async with world.unchanged():
        with pytest.raises(LostMoveError):
            await moves.record("shop", 1, "copying", PROGRESS)
        assert await moves.take("shop", "two") is None


async def test_an_entry_of_a_left_copy_that_cannot_be_read_hides_no_other(world: StoreWorld) -> None:
    moves, present = await begun(world)
    assert await moves.drop(present, present, ENTRY, left=(LEFT, 0))
    await world.redis.zadd(world.shard.keys.left_copies, {"damaged": 1})
    assert await moves.left_copies() == [LEFT]


async def test_a_failed_move_is_told_until_the_next_one_or_for_a_while(world: StoreWorld) -> None:
    moves, present = await begun(world)
    await moves.take("shop", "one")
    opened = replace(present, stop_ms=0)
    failed = MoveProgress(reason="store b is full")
    assert await moves.end(present, opened, 1, MoveEnd("failed", failed, ENTRY), left=None) == "ok"
    told = FailedMove("its move to store b failed: store b is full", world.now_ms)
    assert await moves.failed(["mail", "shop"], within_ms=1_000) == {"shop": told}
    world.pass_ms(1_000)
    assert await moves.failed(["shop"], within_ms=1_000) == {}
    found = await NamespaceStore(world.shard).get("shop")
    assert found
    assert await moves.begin(found, found, "id-2", TERMS, ENTRY)
    assert await moves.failed(["shop"], within_ms=10_000) == {}
    # A record that cannot be read counts, too.
    await world.redis.set(world.shard.keys.move("mail"), "x")
    damaged = (await moves.failed(["mail", "shop"], within_ms=10_000))["mail"]
    assert "the record of the move of namespace mail cannot be read" in damaged.reason
    await world.redis.delete(world.shard.keys.move("mail"))


async def test_a_namespace_that_is_marked_as_being_moved_without_a_move_is_found(world: StoreWorld) -> None:
    moves, _ = await begun(world)
    registry = NamespaceStore(world.shard)
    for name, state in (("mail", "moving"), ("post", "open")):
        assert await registry.put(None, Namespace(name, name, state=state), b"", max_namespaces=9)  # type: ignore[arg-type]
    await world.redis.hset(world.shard.keys.namespaces, "odd", "damaged")
    names = ["shop", "mail", "post", "odd", "nobody"]
    assert await moves.lost(names) == ["mail"]
    assert await moves.lost([]) == []
    await world.redis.zrem(world.shard.keys.moves, "shop")
    assert await moves.lost(names) == ["shop", "mail"]


async def test_a_namespace_whose_move_begins_or_ends_meanwhile_is_not_found(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves, present = await begun(world)
    await world.redis.zrem(world.shard.keys.moves, "shop")
    pipeline = type(world.shard.client).pipeline

    async def with_a_change(client: Any, commands: Any, **more: Any) -> Any:
        _, *rest = await pipeline(client, commands, **more)
        return [[b"another version"], *rest]

    monkeypatch.setattr(type(world.shard.client), "pipeline", with_a_change)
    assert await moves.lost([present.name]) == []


async def test_a_copy_that_is_kept_is_known_by_its_store_and_tag(world: StoreWorld) -> None:
    moves, present = await begun(world)
    assert await moves.drop(present, present, b"", left=(LEFT, 1_000))
    await world.redis.zadd(world.shard.keys.left_copies, {"damaged": 1})
    kept = [
        await moves.keeps(store, tag)
        for store, tag in (("default", "shop"), ("b", "shop"), ("default", "mail"))
    ]
    assert kept == [True, False, False]


def test_an_entry_that_cannot_be_read_is_told_with_the_remedy() -> None:
    assert "namespaces create shop --tag TAG --store STORE" in unreadable_entry("shop")
    known = Namespace("shop", "till", "b")
    assert "namespaces create shop --tag till --store b" in unreadable_entry("shop", known)
    assert "its title and quotas" in unreadable_entry("default")


async def test_a_record_of_another_type_is_told_to_be_damaged(world: StoreWorld) -> None:
    moves, _ = await begun(world)
    await world.redis.delete(world.shard.keys.move("shop"))
    await world.redis.set(world.shard.keys.move("shop"), "x")
    with pytest.raises(DamagedError, match="abort-move shop --force"):
        await moves.get("shop")
    await world.redis.delete(world.shard.keys.move("shop"))
