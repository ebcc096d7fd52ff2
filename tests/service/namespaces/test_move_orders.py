"""A move is refused, with its reason, before anything is changed."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.operations.master import MasterRecord
from jqmaster.errors import ConflictError, InvalidError, JqmasterError, NotFoundError
from jqmaster.store.backup import loading
from jqmaster.store.health import generation
from jqmaster.store.identity.audit import AuditStore
from tests.support.moves import MoveWorld, move_world
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
        await it.seed(3)
        yield it


async def refused(one: MoveWorld, target: str = "b", name: str = "shop") -> JqmasterError:
    """Return the refusal of a move, which changes nothing anywhere."""
    before = await one.contents(one.source), await one.contents(one.target)
    async with one.control.unchanged():
        for order in (one.service.plan(name, target), one.service.begin(name, target, "ada")):
            with pytest.raises(JqmasterError) as error:
                await order
    assert (await one.contents(one.source), await one.contents(one.target)) == before
    return error.value


async def test_stores_that_are_none_or_the_same_are_refused(one: MoveWorld) -> None:
    for target, msg in (
        ("c", "is not one of the configured stores"),
        ("default", "already has the data of the namespace"),
    ):
        error = await refused(one, target)
        assert isinstance(error, InvalidError)
        assert [field.loc for field in error.errors] == [("store",)]
        assert msg in error.errors[0].msg


async def test_clocks_that_differ_by_more_than_half_a_second_are_refused(one: MoveWorld) -> None:
    one.places.ahead_ms = 5_000
    error = await refused(one)
    assert (error.code, "the clocks of the stores default and b differ by" in error.detail) == (
        "move_refused",
        True,
    )
    one.places.ahead_ms = -5_000
    assert (await refused(one)).code == "move_refused"
    one.places.ahead_ms = 200
    await one.service.plan("shop", "b")


async def test_a_store_that_takes_no_jobs_or_does_not_answer_is_refused(one: MoveWorld) -> None:
    one.places.faults = {"eviction": "maxmemory-policy is allkeys-lru"}
    assert "allkeys-lru" in (await refused(one)).detail
    one.places.faults = {}
    one.places.away.add("b")
    assert "does not answer" in (await refused(one)).detail


async def test_a_store_without_room_is_refused(one: MoveWorld) -> None:
    one.places.most_bytes = 2_000
    error = await refused(one)
    assert (error.code, "has too little memory" in error.detail) == ("move_refused", True)
    one.places.most_bytes = 10_000_000
    await one.service.plan("shop", "b")


async def test_data_of_others_at_the_target_are_refused(one: MoveWorld) -> None:
    there = StoreWorld(one.target).redis
    await there.set(one.target.keys.job("x"), "of another")
    error = await refused(one)
    assert (error.code, "job:x" in error.detail) == ("namespace_has_data", True)
    await generation.mark(one.target, "f" * 32)
    assert (await refused(one)).code == "namespace_has_data"


async def test_keys_that_this_release_does_not_know_are_refused(one: MoveWorld) -> None:
    await one.jobs.redis.set(f"{one.source.keys.tag}of-a-later-release", "x")
    error = await refused(one)
    assert (error.code, "1 keys of the namespace are of a kind" in error.detail) == ("move_refused", True)


async def test_masters_that_do_not_know_namespaces_are_refused(one: MoveWorld) -> None:
    record = MasterRecord(new_id(), "node", 1, "http://old", "0.3", one.control.now_ms)
    await one.masters.beat(record)
    error = await refused(one)
    assert (error.code, "http://old (0.3)" in error.detail) == ("masters_too_old", True)


async def test_masters_without_the_target_store_are_refused(one: MoveWorld) -> None:
    await one.masters.beat(
        MasterRecord(
            new_id(),
            "node",
            1,
            "http://m",
            "1",
            one.control.now_ms,
            knows_namespaces=True,
            stores=("default",),
        )
    )
    assert "do not have store b: http://m" in (await refused(one)).detail


async def test_namespaces_that_cannot_be_moved_are_refused(one: MoveWorld) -> None:
    assert isinstance(await refused(one, name="ship"), NotFoundError)
    assert (await refused(one, name="default")).code == "default_namespace"
    present = await one.entry()
    assert await one.namespaces.put(present, replace(present, state="faulted"), b"", max_namespaces=9)
    assert "marked as faulty" in (await refused(one)).detail
    present = await one.entry()
    assert await one.namespaces.put(present, replace(present, state="open"), b"", max_namespaces=9)
    await one.begin()
    error = await refused(one)
    assert isinstance(error, ConflictError)
    assert error.code == "move_under_way"


async def test_an_order_announces_the_stop_and_prolongs_leases(one: MoveWorld) -> None:
    move = await one.service.begin("shop", "b", "ada")
    assert (move.step, move.terms.source, move.terms.target, move.terms.who) == (
        "announced", "default", "b", "ada",
    )  # fmt: skip
    entry = await one.entry()
    assert (entry.state, entry.stop_ms) == ("open", 120_000)
    entries = (await AuditStore(one.control.shard).page(cursor=None, limit=9)).entries
    assert (entries[0].who, entries[0].action, entries[0].target) == ("ada", "namespace.move", "shop")
    await one.service.abort("shop", "eve")
    assert (await one.run()).step == "aborted"
    with pytest.raises(ConflictError) as error:
        await one.service.abort("shop", "eve")
    assert error.value.code == "not_moving"
    assert (await one.entry()).stop_ms == 0


async def test_a_closed_namespace_moves_and_stays_closed(one: MoveWorld) -> None:
    present = await one.entry()
    assert await one.namespaces.put(present, replace(present, state="closed"), b"", max_namespaces=9)
    await one.service.begin("shop", "b", "ada")
    assert (await one.run()).step == "done"
    entry = await one.entry()
    assert (entry.state, entry.store) == ("closed", "b")


async def test_data_of_a_restore_that_has_not_ended_are_not_moved(one: MoveWorld) -> None:
    await loading.begin(one.source, "a backup")
    error = await refused(one)
    assert "a restore into the shard has begun and not ended" in error.detail
    # One that begins after the checks, while the namespace is closed, is found when the data are frozen.
    await loading.end(one.source)
    await one.begin()
    await loading.begin(one.source, "a backup")
    move = await one.run()
    assert (move.step, "a restore into the shard" in move.progress.reason) == ("failed", True)
    assert await one.served_at() == ["default"]


async def test_a_namespace_whose_record_of_a_move_is_gone_is_closed_by_an_abort(one: MoveWorld) -> None:
    await one.begin()
    moving = await one.take()
    await moving._stop_service()
    # As after a restore of the registry, which was backed up while the move ended.
    await one.control.redis.delete(one.control.shard.keys.move("shop"), one.control.shard.keys.moves)
    await one.service.abort("shop", "eve")
    entry = await one.entry()
    assert (entry.state, entry.stop_ms, entry.is_moving, entry.store) == ("closed", 0, False, "default")
    with pytest.raises(ConflictError) as error:
        await one.service.abort("shop", "eve")
    assert error.value.code == "not_moving"


async def test_a_move_of_a_namespace_that_is_not_marked_as_being_moved_is_ended(one: MoveWorld) -> None:
    await one.begin()
    await one.take()
    present = await one.entry()
    # As after the namespace was deleted by force and created again.
    assert await one.namespaces.put(present, replace(present, stop_ms=0), b"", max_namespaces=9)
    await one.service.abort("shop", "eve")
    assert (await one.moves.under_way(), (await one.entry()).state) == ([], "open")
    assert await one.served_at() == ["default"]
