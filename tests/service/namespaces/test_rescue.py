"""A move whose record is damaged or gone is ended by force: the data are served in exactly one store, wherever its
mover was."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.namespaces.move import MoveProgress
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import ConflictError, DamagedError, StoreUnavailableError, StoreUnfitError
from jqmaster.service.namespaces.rescue import place_of
from jqmaster.store.health import generation
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.namespaces.frozen import Freeze, FrozenData, HeldData, held_data
from jqmaster.store.namespaces.moves import LostMoveError, MoveStore
from tests.service.namespaces.test_mover import POINTS, dies
from tests.support.moves import MARK, MoveWorld, move_world
from tests.support.server import StoreServer, started
from tests.support.store import StoreWorld

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


async def lose_record(one: MoveWorld) -> None:
    """Take the record away, as a restore of the registry does that was backed up before the move."""
    await one.control.redis.delete(one.control.shard.keys.move("shop"), one.control.shard.keys.moves)


async def damage_record(one: MoveWorld) -> None:
    await one.control.redis.hset(one.control.shard.keys.move("shop"), "terms", b"\xc1")


async def assert_served_whole(one: MoveWorld, ids: list[str]) -> None:
    """The registry names the one store that has the data, and they are whole there."""
    entry = await one.entry()
    assert await one.served_at() == [entry.store]
    assert (entry.is_moving, await one.moves.get("shop"), await one.moves.under_way()) == (False, None, [])
    shard = {"default": one.source, "b": one.target}[entry.store]
    there = StoreWorld(shard)
    assert (await there.records.get_all(ids)).keys() == set(ids)
    assert await generation.mark(shard, "fresh") == MARK
    # Somebody leads there, or can be elected: the lock of the move is gone.
    leader = await there.leadership.current()
    assert leader is None or leader.master_id == "master-1"
    assert leader or await there.leadership.elect("master-9", "nonce", ttl_ms=60_000)


@pytest.mark.parametrize("spoil", [damage_record, lose_record])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", sorted(POINTS))
async def test_wherever_the_mover_died_the_data_are_served_in_one_store(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch, at: str, after: bool, spoil: object
) -> None:
    ids = await one.seed(5)
    await one.begin()
    await dies(await one.take(), monkeypatch, at, after=after)
    assert callable(spoil)
    await spoil(one)
    is_over = not (await one.entry()).is_moving
    if is_over and spoil is lose_record:
        # The move has succeeded; there is nothing to end.
        with pytest.raises(ConflictError) as error:
            await one.service.abort("shop", "eve", is_forced=True)
        assert error.value.code == "not_moving"
    else:
        await one.service.abort("shop", "eve", is_forced=True)
    await assert_served_whole(one, ids)
    was_opened = (at == "unfreeze" and after) or at == "finish"
    assert (await one.entry()).store == ("b" if was_opened else "default")


async def test_a_damaged_record_is_told_with_its_remedy_and_ended_by_force_alone(one: MoveWorld) -> None:
    ids = await one.seed(5)
    await one.begin()
    await (await one.take())._stop_service()
    await damage_record(one)
    with pytest.raises(DamagedError, match="abort-move shop --force"):
        await one.service.of("shop")
    before = await one.contents(one.control.shard)
    with pytest.raises(ConflictError, match="abort-move shop --force") as error:
        await one.service.abort("shop", "eve")
    assert error.value.code == "move_record_damaged"
    assert await one.contents(one.control.shard) == before
    await one.service.abort("shop", "eve", is_forced=True)
    await assert_served_whole(one, ids)
    assert (await one.entry()).state == "closed"
    newest = (await AuditStore(one.control.shard).page(cursor=None, limit=1)).entries[0]
    assert (newest.who, newest.action, newest.target) == ("eve", "namespace.abort_move", "shop")
    # It can be moved again.
    await one.begin()
    assert (await one.run()).step == "done"


async def test_a_record_of_another_type_is_ended_by_force(one: MoveWorld) -> None:
    ids = await one.seed(5)
    await one.begin()
    await (await one.take())._stop_service()
    key = one.control.shard.keys.move("shop")
    await one.control.redis.delete(key)
    await one.control.redis.set(key, "x")
    with pytest.raises(DamagedError, match="abort-move shop --force"):
        await one.moves.get("shop")
    await one.service.abort("shop", "eve", is_forced=True)
    await assert_served_whole(one, ids)


async def test_a_mover_that_works_while_its_move_is_ended_opens_nothing(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await one.seed(5)
    await one.begin()
    moving = await one.take()
    unfreeze = FrozenData.unfreeze
    is_ready, goes_on = asyncio.Event(), asyncio.Event()

    async def late(self: FrozenData, mark: str) -> None:
        if self.number == 1:
            is_ready.set()
            await goes_on.wait()
        await unfreeze(self, mark)

    monkeypatch.setattr(FrozenData, "unfreeze", late)
    running = asyncio.create_task(moving.run())
    await asyncio.wait_for(is_ready.wait(), 20)
    # The copy is whole, and the mover is about to open it.
    await damage_record(one)
    await one.service.abort("shop", "eve", is_forced=True)
    goes_on.set()
    await running
    await assert_served_whole(one, ids)
    assert (await one.entry()).store == "default"
    assert await one.contents(one.target) == {}


async def test_a_registry_from_before_the_move_is_led_to_the_data(one: MoveWorld) -> None:
    ids = await one.seed(5)
    before = await one.entry()
    await one.begin()
    assert (await one.run()).step == "done"
    moved = await one.entry()
    # The registry is restored: it names the former store, whose data are frozen.
    assert await one.namespaces.put(moved, before, b"", max_namespaces=9)
    await lose_record(one)
    with pytest.raises(ConflictError) as error:
        await one.service.abort("shop", "eve")
    assert error.value.code == "not_moving"
    await one.service.abort("shop", "eve", is_forced=True)
    await assert_served_whole(one, ids)
    entry = await one.entry()
    assert (entry.store, entry.state, entry.title) == ("b", "open", "The shop")
    # The copy that the move left is removed a day later.
    one.control.pass_ms(24 * 3600 * 1000)
    (left,) = {copy.number: copy for copy in await one.moves.left_copies() if copy.number > 1}.values()
    await FrozenData(one.source, left.id, left.number).remove_left()
    assert await one.contents(one.source) == {}


async def test_a_frozen_copy_of_data_that_were_lost_is_not_opened_before_somebody_looked(
    one: MoveWorld,
) -> None:
    ids = await one.seed(5)
    await one.begin()
    assert (await one.run()).step == "done"
    await StoreWorld(one.target).redis.delete(*await one.contents(one.target))
    await one.service.abort("shop", "eve", is_forced=True)
    await assert_served_whole(one, ids)
    assert ((await one.entry()).store, (await one.entry()).state) == ("default", "closed")


async def test_the_newest_of_data_that_were_moved_on_count(one: MoveWorld) -> None:
    ids = await one.seed(5)
    await one.begin()
    assert (await one.run()).step == "done"
    # The namespace moves on from `b`, and its record is lost while its data are frozen there.
    there = await one.entry()
    assert await one.namespaces.put(there, replace(there, state="moving"), b"", max_namespaces=9)
    assert await FrozenData(one.target, "id-2", 1).freeze() == MARK
    await lose_record(one)
    await one.service.abort("shop", "eve")
    await assert_served_whole(one, ids)
    assert (await one.entry()).store == "b"
    held = await held_data(one.source)
    assert held.freeze
    assert held.freeze.id != "id-2"


async def test_a_store_that_may_have_the_data_and_does_not_answer_changes_nothing(one: MoveWorld) -> None:
    ids = await one.seed(5)
    move = await one.begin()
    moving = await one.take()
    await moving._stop_service()
    await one.frozen(one.source, move, 1).freeze()
    await damage_record(one)
    one.places.away.add("b")
    before = await one.contents(one.control.shard), await one.contents(one.source)
    with pytest.raises(StoreUnavailableError, match="store b may have the data of namespace shop"):
        await one.service.abort("shop", "eve", is_forced=True)
    assert (await one.contents(one.control.shard), await one.contents(one.source)) == before
    one.places.away.clear()
    await one.service.abort("shop", "eve", is_forced=True)
    await assert_served_whole(one, ids)


async def test_a_namespace_without_data_anywhere_is_closed(one: MoveWorld) -> None:
    await one.seed(0)
    await one.begin()
    await (await one.take())._stop_service()
    await lose_record(one)
    await one.jobs.redis.delete(one.source.keys.generation)
    await one.service.abort("shop", "eve")
    assert ((await one.entry()).state, await one.served_at()) == ("closed", [])


def test_the_store_with_the_data_is_found() -> None:
    served, none = HeldData("m", "", None), HeldData("", "", None)
    left = HeldData("", "", Freeze("one", 1, "m"))
    brought, moved_on = HeldData("m", "one", None), HeldData("", "one", Freeze("two", 3, "m"))
    copy = HeldData("", "", Freeze("one", 1, ""))
    present = Namespace("shop", "shop", "a")
    for found, place in (
        ({"a": served, "b": none}, "a"),
        ({"a": left, "b": copy}, "a"),
        ({"a": left, "b": brought}, "b"),
        ({"a": left, "b": moved_on, "c": none}, "b"),
        ({"a": left, "b": moved_on, "c": copy}, "b"),
        # Both are served; the registry decides.
        ({"a": served, "b": brought}, "a"),
        ({"a": none, "b": copy}, None),
    ):
        assert place_of(present, found) == place
    with pytest.raises(ConflictError, match="the stores b and c have data with the tag shop"):
        place_of(present, {"a": none, "b": served, "c": served})


async def test_a_mover_whose_record_was_dropped_records_nothing(one: MoveWorld) -> None:
    await one.seed(1)
    await one.begin()
    moving = await one.take()
    await damage_record(one)
    await one.service.abort("shop", "eve", is_forced=True)
    with pytest.raises(LostMoveError):
        await one.moves.record("shop", 1, "copying", MoveProgress())
    await moving.run()
    assert await one.served_at() == ["default"]


async def test_a_mover_that_was_suspended_freezes_no_data_that_were_given_back(one: MoveWorld) -> None:
    await one.seed(3)
    move = await one.begin()
    suspended = await one.take("master-2")
    await suspended._stop_service()
    # Its hold ends, and another mover ends the move.
    await one.control.redis.zadd(one.control.shard.keys.moves, {"shop": 0})
    await one.service.abort("shop", "ada")
    await one.run()
    assert await one.served_at() == ["default"]
    with pytest.raises(LostMoveError):
        await one.frozen(one.source, move, 1).freeze()
    assert await one.served_at() == ["default"]


@pytest.mark.parametrize("at", ["freeze", "copy", "unfreeze"])
@pytest.mark.parametrize("fails", ["freeze", "reserve", "unfreeze", "remove", "drop"])
async def test_an_end_that_failed_half_way_is_repeated_without_force_and_does_the_rest(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch, at: str, fails: str
) -> None:
    ids = await one.seed(5)
    await one.begin()
    await dies(await one.take(), monkeypatch, at, after=at != "unfreeze")
    await damage_record(one)
    # Nothing that is left to do may be taken for done.
    owner = MoveStore if fails == "drop" else FrozenData
    act, calls = getattr(owner, fails), 0

    async def failing(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        # The first drop is the one that may be refused without any change.
        if calls > (fails == "drop"):
            raise StoreUnavailableError("the store is gone")
        return await act(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(owner, fails, failing)
        if fails == "remove":
            # A copy that cannot be removed is left to be removed later.
            await one.service.abort("shop", "eve", is_forced=True)
        else:
            # The order may get by without what fails.
            with contextlib.suppress(StoreUnavailableError):
                await one.service.abort("shop", "eve", is_forced=True)
    if calls > (fails == "drop") and fails != "remove":
        assert (await one.entry()).is_moving
        await one.service.abort("shop", "eve")
    await assert_served_whole(one, ids)
    entry = await one.entry()
    assert (entry.store, entry.state, entry.stop_ms) == ("default", "closed", 0)
    one.control.pass_ms(1)
    for left in await one.moves.left_copies():
        await FrozenData(one.target, left.id, left.number).remove_left()
    assert await one.contents(one.target) == {}


async def test_data_whose_freeze_was_lost_with_the_record_are_found_and_led(one: MoveWorld) -> None:
    ids = await one.seed(5)
    move = await one.begin()
    await (await one.take())._stop_service()
    await one.frozen(one.source, move, 1).freeze()
    await one.frozen(one.target, move, 1).reserve()
    await one.jobs.redis.delete(one.source.keys.frozen)
    await lose_record(one)
    await one.service.abort("shop", "eve")
    entry = await one.entry()
    assert (entry.store, entry.state, await one.served_at()) == ("default", "closed", ["default"])
    assert await one.contents(one.target) == {}
    assert (await one.jobs.records.get_all(ids)).keys() == set(ids)
    assert not await generation.is_frozen(one.source)
    assert await one.jobs.leadership.elect("master-9", "nonce", ttl_ms=60_000)


async def test_an_open_namespace_whose_freeze_was_lost_earlier_is_led_again(one: MoveWorld) -> None:
    ids = await one.seed(5)
    move = await one.begin()
    await one.frozen(one.source, move, 1).freeze()
    await one.jobs.redis.delete(one.source.keys.frozen)
    # As an earlier release left it: the move has ended, the data are marked anew, and the move holds the lead.
    await one.jobs.redis.set(one.source.keys.generation, "f" * 32)
    await one.moves.drop(await one.entry(), replace(await one.entry(), stop_ms=0), b"")
    with pytest.raises(StoreUnfitError, match="abort-move NAME --force"):
        await generation.mark(one.source, "fresh")
    await one.service.abort("shop", "eve", is_forced=True)
    assert (await one.entry()).state == "closed"
    assert not await generation.is_frozen(one.source)
    assert await one.jobs.leadership.elect("master-9", "nonce", ttl_ms=60_000)
    assert (await one.jobs.records.get_all(ids)).keys() == set(ids)
