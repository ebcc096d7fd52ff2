"""Data of all types and lengths are copied to another server exactly, and each difference is found."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from jqmaster.errors import ConflictError, DamagedError, StoreUnfitError
from jqmaster.store.health import generation
from jqmaster.store.namespaces.copying import differences, measured, moved_keys, records
from jqmaster.store.namespaces.frozen import FrozenData, held_data
from jqmaster.store.namespaces.moves import LostMoveError
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


@pytest.fixture
def k(one: MoveWorld) -> Any:
    return one.source.keys


async def fill(one: MoveWorld) -> None:
    """Write keys of each type, short and long."""
    redis, k = one.jobs.redis, one.source.keys
    await redis.set(k.job("a"), b"\x00\xff record")
    await redis.set(k.job("long"), bytes(range(256)) * 700, px=900_000)
    await redis.set(k.job("empty"), b"")
    await redis.rpush(k.history("a"), *(b"%d" % n for n in range(1_200)))
    await redis.hset(k.progress("a"), mapping={"fraction": "0.5", "message": b"\xff"})
    await redis.hset(k.token_uses, mapping={f"name-{n}": n for n in range(2_000)})
    await redis.sadd(k.batch_children("b"), *range(2_000))
    await redis.zadd(k.scheduled, {f"job-{n}": 1_800_000_000_000 + n / 3 for n in range(1_600)})
    await redis.zadd(k.retrying, {"first": float("-inf"), "last": float("inf"), "tiny": 1e-300})
    for n in range(1, 131):
        await redis.xadd(k.logs("a"), {"text": b"line %d" % n, "n": n}, id=f"{n}-0")
    await redis.set(k.left("w"), b"1", px=60_000)
    await redis.set(k.leader, b"1:n:master")
    await redis.zadd(k.masters, {"master": 1})


async def copied(one: MoveWorld) -> tuple[FrozenData, FrozenData]:
    await generation.mark(one.source, MARK)
    source, target = FrozenData(one.source, "id-1", 1), FrozenData(one.target, "id-1", 1)
    assert await source.freeze() == MARK
    await target.reserve()
    async for page in moved_keys(one.source):
        async for _ in target.fill(records(one.source, page)):
            pass
    return source, target


async def found_differences(one: MoveWorld) -> list[str]:
    return sorted([one async for one in differences(one.source, one.target)])


async def test_every_type_of_key_is_copied_as_it_is(one: MoveWorld) -> None:
    await fill(one)
    await copied(one)
    assert await found_differences(one) == []
    here, there = await one.contents(one.source), await one.contents(one.target)
    k = one.source.keys
    of_the_place = {k.frozen, k.leader, k.masters}
    assert {key: here[key] for key in here.keys() - of_the_place} == {
        key: there[key] for key in there.keys() - {k.frozen}
    }
    redis = StoreWorld(one.target).redis
    assert 890_000 < await redis.pttl(k.job("long")) <= 900_000
    assert await redis.pttl(k.job("a")) == -1
    assert await redis.zscore(k.retrying, "tiny") == 1e-300


@pytest.mark.parametrize(
    ("act", "key", "said"),
    [
        (("append", "job:a", "x"), "job:a", "has other content in the copy"),
        (("append", "job:long", "x"), "job:long", "has other content in the copy"),
        (("lset", "history:a", 1_100, "x"), "history:a", "has other content in the copy"),
        (("hset", "token_uses", "name-7", "8"), "token_uses", "has other content in the copy"),
        (("hdel", "token_uses", "name-7"), "token_uses", "has other content in the copy"),
        (("srem", "batch_children:b", "7"), "batch_children:b", "has other content in the copy"),
        (("zadd", "scheduled", "1", "job-7"), "scheduled", "has other content in the copy"),
        (("xdel", "logs:a", "120-0"), "logs:a", "has other content in the copy"),
        (("del", "job:empty"), "job:empty", "is missing in the copy"),
        (("persist", "job:long"), "job:long", "expires at another time in the copy"),
        (("pexpire", "job:long", "800000"), "job:long", "expires at another time in the copy"),
        (("set", "job:more", "x"), "job:more", "is in the copy only"),
    ],
)
async def test_a_difference_is_found(one: MoveWorld, act: tuple[Any, ...], key: str, said: str) -> None:
    await fill(one)
    await copied(one)
    command, name, *rest = act
    await StoreWorld(one.target).redis.execute_command(command, one.target.keys.tag + name, *rest)
    assert await found_differences(one) == [f"{key} {said}"]


async def test_a_key_that_expires_meanwhile_is_no_difference(one: MoveWorld) -> None:
    await fill(one)
    await copied(one)
    await StoreWorld(one.target).redis.delete(one.target.keys.left("w"))
    assert await found_differences(one) == []


async def test_the_size_is_measured_without_reading_everything(one: MoveWorld) -> None:
    assert (await measured(one.source)).keys == 0
    for n in range(1_000):
        await one.jobs.redis.set(one.source.keys.job(f"{n}"), bytes(1_000))
    await one.jobs.redis.set(f"{one.source.keys.tag}of-nobody", "x")
    size = await measured(one.source)
    assert (size.keys, size.unknown) == (1_000, 1)
    assert 1_000_000 < size.bytes < 1_400_000


async def test_frozen_data_are_opened_by_no_master(one: MoveWorld) -> None:
    await fill(one)
    _, target = await copied(one)
    for shard in (one.source, one.target):
        before = await one.contents(shard)
        with pytest.raises(StoreUnfitError, match="frozen here"):
            await generation.mark(shard, "fresh")
        assert await one.contents(shard) == before
    await target.unfreeze(MARK)
    assert await generation.mark(one.target, "fresh") == MARK


async def test_a_freeze_belongs_to_its_move_and_its_newest_mover(one: MoveWorld) -> None:
    await fill(one)
    source, target = await copied(one)
    later = FrozenData(one.source, "id-1", 2)
    assert await later.freeze() == MARK
    before = await one.contents(one.source)
    for stranger in (source, FrozenData(one.source, "id-2", 9)):
        for act in (stranger.freeze(), stranger.unfreeze(MARK), stranger.remove()):
            with pytest.raises(LostMoveError):
                await act
    assert await one.contents(one.source) == before
    await FrozenData(one.target, "id-1", 2).reserve()
    with pytest.raises(LostMoveError):
        async for _ in target.fill(records(one.source, [b"job:a"])):
            pass
    assert (await one.contents(one.target)).keys() == {one.target.keys.frozen}
    await later.give_back()
    assert await generation.read(one.source) == MARK
    # Again, it does nothing.
    before = await one.contents(one.source)
    await later.give_back()
    assert await one.contents(one.source) == before


async def test_data_of_others_are_not_replaced(one: MoveWorld) -> None:
    await generation.mark(one.target, "f" * 32)
    before = await one.contents(one.target)
    move = FrozenData(one.target, "id-1", 1)
    with pytest.raises(ConflictError, match="has data with the tag"):
        await move.reserve()
    with pytest.raises(LostMoveError):
        await move.remove_left()
    assert await one.contents(one.target) == before
    assert await FrozenData(one.source, "id-1", 1).freeze() is None


@pytest.mark.parametrize("spoiled", [None, b"no freeze"])
async def test_data_whose_freeze_was_lost_stay_frozen_until_their_move_gives_them_back(
    one: MoveWorld, spoiled: bytes | None
) -> None:
    await generation.mark(one.source, MARK)
    source = FrozenData(one.source, "id-1", 1)
    await source.freeze()
    redis, k = one.jobs.redis, one.source.keys
    await (redis.set(k.frozen, spoiled) if spoiled else redis.delete(k.frozen))
    assert await generation.is_frozen(one.source)
    held = await held_data(one.source)
    assert (held.mark, held.lost_by, held.frozen_by, held.has_data) == ("", "id-1", "id-1", True)
    before = await one.contents(one.source)
    with pytest.raises(StoreUnfitError, match="frozen here"):
        await generation.mark(one.source, "fresh")
    stranger = FrozenData(one.source, "id-2", 1)
    await stranger.give_back()
    with pytest.raises(LostMoveError):
        await stranger.remove_left()
    assert await stranger.freeze() is None
    assert await one.jobs.leadership.elect("master-1", "n", ttl_ms=60_000) is None
    assert await one.contents(one.source) == before
    await FrozenData(one.source, "id-1", 2).give_back()
    mark = await generation.read(one.source)
    assert mark not in (None, MARK)
    assert await generation.mark(one.source, "fresh") == mark
    assert not await generation.is_frozen(one.source)
    assert await one.jobs.leadership.elect("master-1", "n", ttl_ms=60_000)
    # A mover that was suspended freezes nothing any more.
    with pytest.raises(LostMoveError):
        await source.freeze()


async def test_data_that_were_marked_anew_where_a_move_holds_the_lead_keep_that_mark(one: MoveWorld) -> None:
    await generation.mark(one.source, MARK)
    source = FrozenData(one.source, "id-1", 1)
    await source.freeze()
    # As by a master of an earlier release, after the freeze was lost.
    await one.jobs.redis.delete(one.source.keys.frozen)
    await one.jobs.redis.set(one.source.keys.generation, "f" * 32)
    assert (await held_data(one.source)).mark == ""
    await source.give_back()
    assert await generation.read(one.source) == "f" * 32
    assert await one.jobs.leadership.elect("master-1", "n", ttl_ms=60_000)


async def test_a_freeze_that_cannot_be_read_is_told_where_no_move_holds_the_lead(one: MoveWorld) -> None:
    await one.jobs.redis.set(one.source.keys.frozen, "no freeze")
    with pytest.raises(DamagedError, match="who froze the data"):
        await held_data(one.source)


async def test_a_copy_whose_freeze_was_lost_is_removed_by_its_move(one: MoveWorld) -> None:
    source, _ = await copied(one)
    await one.jobs.redis.delete(one.source.keys.frozen)
    await source.remove_left()
    assert await one.contents(one.source) == {}
