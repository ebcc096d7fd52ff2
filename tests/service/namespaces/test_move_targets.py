"""Stores that fail a move while it copies to them, as real servers do: whatever happens, the namespace is open again
where it was, with all its jobs, and nothing is left at the target as soon as that can be reached."""

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from jqmaster.domain.namespaces.move import Move
from jqmaster.service.namespaces.mover import Mover
from jqmaster.store.health.rights import USER
from jqmaster.store.namespaces.frozen import FrozenData
from tests.support.moves import MoveWorld, move_world
from tests.support.server import StoreServer, started
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D29")

JOBS = 1_500
Act = Callable[[], Any]


@pytest.fixture
def other() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


@pytest.fixture
async def one(world: StoreWorld, lone_server: StoreServer, other: StoreServer) -> AsyncIterator[MoveWorld]:
    async with move_world(world, lone_server, other) as it:
        yield it


def there(one: MoveWorld) -> Any:
    return StoreWorld(one.target).redis


async def begin_with(one: MoveWorld, monkeypatch: pytest.MonkeyPatch, act: Act) -> list[str]:
    """Order a move, and let the target change by `act` when a part of the data has been copied. Return the jobs."""
    ids = await one.seed(JOBS)
    await one.begin()
    fill = FrozenData._fill
    filled: list[int] = []

    async def then_acts(self: FrozenData, *args: Any) -> None:
        await fill(self, *args)
        filled.append(1)
        if len(filled) == 1:
            await act()

    monkeypatch.setattr(FrozenData, "_fill", then_acts)
    return ids


async def assert_back(one: MoveWorld, move: Move, ids: list[str], reason: str) -> None:
    assert (move.step, reason in move.progress.reason) == ("failed", True), move.progress.reason
    entry = await one.entry()
    assert (entry.store, entry.state, entry.is_moving) == ("default", "open", False)
    assert await one.served_at() == ["default"]
    assert (await one.jobs.records.get_all(ids)).keys() == set(ids)
    await one.jobs.enqueue()
    await one.jobs.assert_sound()


async def test_a_target_that_becomes_full_keeps_nothing_of_the_copy(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill_up() -> None:
        used = (await there(one).info("memory"))["used_memory"]
        await there(one).config_set("maxmemory", used - 1)

    ids = await begin_with(one, monkeypatch, fill_up)
    await assert_back(one, await one.run(), ids, "the store is full")
    # It is removed at once, although the store is full.
    assert await one.contents(one.target) == {}
    assert await one.moves.left_copies() == []


async def test_a_target_whose_user_lacks_a_right_says_which(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbid() -> None:
        await there(one).execute_command("ACL", "SETUSER", USER, "-hset", "-zadd", "-append")

    ids = await begin_with(one, monkeypatch, forbid)
    await assert_back(one, await one.run(), ids, "permi")
    assert await one.contents(one.target) == {}


async def test_a_target_that_evicts_keys_of_the_copy_is_found_out(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def evict() -> None:
        await there(one).config_set("maxmemory-policy", "allkeys-random")
        used = (await there(one).info("memory"))["used_memory"]
        await there(one).config_set("maxmemory", used - 100_000)

    ids = await begin_with(one, monkeypatch, evict)
    await assert_back(one, await one.run(), ids, "")
    await there(one).config_set("maxmemory", 0)
    for left in await one.moves.left_copies():
        await FrozenData(one.target, left.id, left.number).remove_left()
    assert await one.contents(one.target) == {}


async def test_a_target_that_loses_the_key_of_the_move_ends_it_at_once(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose() -> None:
        await there(one).delete(one.target.keys.frozen)

    ids = await begin_with(one, monkeypatch, lose)
    await assert_back(one, await one.run(), ids, "a store has lost data that the move put there")
    assert await one.contents(one.target) == {}


async def test_a_target_that_has_become_unfit_before_the_end_is_not_served(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = Mover._compare

    async def then_evicts(self: Mover, source: FrozenData, target: FrozenData) -> None:
        await compare(self, source, target)
        one.places.faults = {"eviction": "maxmemory-policy is allkeys-lru"}

    monkeypatch.setattr(Mover, "_compare", then_evicts)
    ids = await one.seed(5)
    await one.begin()
    await assert_back(one, await one.run(), ids, "store b cannot take jobs: maxmemory-policy is allkeys-lru")
    assert await one.contents(one.target) == {}


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "hung"])
async def test_a_target_that_goes_away_has_its_rest_removed_when_it_is_back(
    one: MoveWorld, other: StoreServer, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    async def go() -> None:
        if is_killed:
            other.kill()
        else:
            other.signal(signal.SIGSTOP)

    ids = await begin_with(one, monkeypatch, go)
    move = await one.run()
    assert (await one.entry()).state == "open"
    if is_killed:
        other.start()
        other.wait_until_it_answers()
    else:
        other.signal(signal.SIGCONT)
    await assert_back(one, move, ids, "the store")
    (left,) = await one.moves.left_copies()
    assert left.store == "b"
    await FrozenData(one.target, left.id, left.number).remove_left()
    assert await one.contents(one.target) == {}
