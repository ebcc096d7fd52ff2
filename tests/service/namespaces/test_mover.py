"""A mover carries all data to another store, or opens the namespace again where it was. Wherever it ends, the data are
served in exactly one store, and another master goes on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.operations.master import MasterRecord
from jqmaster.errors import ConflictError, StaleEpochError, StoreUnavailableError, StoreUnfitError
from jqmaster.service.namespaces import mover
from jqmaster.service.namespaces.mover import Mover
from jqmaster.store.health import generation
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.frozen import FrozenData
from jqmaster.store.namespaces.moves import HOLD_MS, LostMoveError
from tests.support.moves import MARK, MoveWorld, move_world
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


class _DiedError(BaseException):
    """The process ended at once: nothing after this happens."""


async def dies(moving: Mover, monkeypatch: pytest.MonkeyPatch, at: str, *, after: bool) -> None:
    """Run a mover that ends before, or after, its first call of `at`."""
    owner, name = POINTS[at]
    act = getattr(owner, name)

    async def dying(*args: Any, **more: Any) -> Any:
        if after:
            await act(*args, **more)
        raise _DiedError

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dying)
        with pytest.raises(_DiedError):
            await moving.run()


POINTS: dict[str, tuple[Any, str]] = {
    "stop_service": (Mover, "_stop_service"),
    "until_released": (Mover, "_until_released"),
    "freeze": (FrozenData, "freeze"),
    "reserve": (FrozenData, "reserve"),
    "copy": (Mover, "_copy"),
    "compare": (Mover, "_compare"),
    "unfreeze": (FrozenData, "unfreeze"),
    "finish": (Mover, "_finish"),
}


async def test_all_data_are_at_the_target_and_served_there(one: MoveWorld) -> None:
    ids = await one.seed(30)
    before = await one.contents(one.source)
    await one.begin()
    assert (await one.entry()).state == "open"
    move = await one.run()
    assert (move.step, move.progress.reason, move.ended_at_ms) == ("done", "", one.control.now_ms)
    assert move.progress.copied == move.progress.compared >= len(ids)
    entry = await one.entry()
    assert (entry.store, entry.state, entry.stop_ms, entry.title) == ("b", "open", 0, "The shop")
    assert await one.served_at() == ["b"]
    there = StoreWorld(one.target)
    assert (await there.records.get_all(ids)).keys() == set(ids)
    await there.assert_sound()
    # The former store has everything but the mark and the lead, under the freeze.
    after = await one.contents(one.source)
    k = one.source.keys
    changed = {key for key in before | after if before.get(key) != after.get(key)}
    assert changed == {k.generation, k.rules, k.epoch, k.leader, k.frozen}
    entries = (await AuditStore(one.control.shard).page(cursor=None, limit=9)).entries
    assert [(e.who, e.action, e.target) for e in entries if e.action == "namespace.moved"] == [
        ("ada", "namespace.moved", "shop")
    ]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", sorted(POINTS))
async def test_another_master_goes_on_wherever_the_mover_dies(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch, at: str, after: bool
) -> None:
    ids = await one.seed(5)
    move = await one.begin()
    await dies(await one.take(), monkeypatch, at, after=after)
    if after and at == "finish":
        assert (await one.entry()).store == "b"
        assert await one.served_at() == ["b"]
        return
    assert len(await one.served_at()) <= 1
    assert await one.moves.take("shop", "master-2") is None
    one.control.pass_ms(HOLD_MS + 1)
    await (await one.take("master-2")).run()
    move = await one.move()
    assert (move.step, move.number, move.progress.reason) == ("done", 2, "")
    assert (await one.entry()).store == "b"
    assert await one.served_at() == ["b"]
    there = StoreWorld(one.target)
    assert (await there.records.get_all(ids)).keys() == set(ids)
    await there.assert_sound()


async def test_a_mover_that_was_replaced_changes_nothing_in_either_store(one: MoveWorld) -> None:
    await one.seed(5)
    move = await one.begin()
    await one.take()
    one.control.pass_ms(HOLD_MS + 1)
    await (await one.take("master-2")).run()
    before = await one.contents(one.source), await one.contents(one.target)
    for shard in (one.source, one.target):
        late = one.frozen(shard, move, 1)
        for act in (late.reserve, late.remove, late.clear) if shard is one.source else (late.remove,):
            with pytest.raises((LostMoveError, ConflictError)):
                await act()
        with pytest.raises(LostMoveError):
            await late.unfreeze(MARK)
    assert (await one.contents(one.source), await one.contents(one.target)) == before


@pytest.mark.parametrize("at", sorted(set(POINTS) - {"finish"}))
async def test_a_failure_before_the_end_opens_the_namespace_where_it_was(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    ids = await one.seed(5)
    await one.begin()
    owner, name = POINTS[at]
    act, failures = getattr(owner, name), [StoreUnavailableError("the store is gone")]

    async def failing(*args: Any, **more: Any) -> Any:
        if failures:
            raise failures.pop()
        return await act(*args, **more)

    monkeypatch.setattr(owner, name, failing)
    move = await one.run()
    assert (move.step, move.progress.reason) == ("failed", "the store is gone")
    entry = await one.entry()
    assert (entry.store, entry.state, entry.stop_ms) == ("default", "open", 0)
    assert await one.served_at() == ["default"]
    assert await one.contents(one.target) == {}
    assert (await one.jobs.records.get_all(ids)).keys() == set(ids)
    await one.jobs.enqueue()
    # A new move begins from there.
    await one.begin()
    assert (await one.run()).step == "done"
    assert await one.served_at() == ["b"]


@pytest.mark.parametrize("at", sorted(POINTS))
async def test_a_move_is_aborted_at_each_step(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    await one.seed(5)
    await one.begin()
    owner, name = POINTS[at]
    act = getattr(owner, name)

    async def aborted(*args: Any, **more: Any) -> Any:
        await one.moves.abort("shop", "eve", b"")
        return await act(*args, **more)

    monkeypatch.setattr(owner, name, aborted)
    monkeypatch.setattr(mover, "RECORD_S", 0.0)
    move = await one.run()
    assert move.step == "aborted"
    entry = await one.entry()
    assert (entry.store, entry.state) == ("default", "open")
    assert await one.served_at() == ["default"]
    assert await one.contents(one.target) == {}


async def test_a_copy_that_differs_is_not_served(one: MoveWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await one.seed(5)
    await one.begin()
    copy = Mover._copy

    async def spoiled(self: Mover, source: FrozenData, target: FrozenData) -> None:
        await copy(self, source, target)
        await StoreWorld(one.target).redis.append(one.target.keys.job(ids[2]), "x")

    monkeypatch.setattr(Mover, "_copy", spoiled)
    move = await one.run()
    assert (move.step, move.progress.reason) == (
        "failed",
        f"the copy differs: job:{ids[2]} has other content in the copy",
    )
    assert await one.served_at() == ["default"]


async def test_data_that_a_sleeping_master_changed_after_they_were_copied_are_found(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.seed(2)
    await one.jobs.worker()
    await one.begin()
    copy = Mover._copy

    async def with_a_sleeper(self: Mover, source: FrozenData, target: FrozenData) -> None:
        await copy(self, source, target)
        await one.jobs.worker()

    monkeypatch.setattr(Mover, "_copy", with_a_sleeper)
    move = await one.run()
    assert move.step == "failed"
    assert "the copy differs: worker" in move.progress.reason


async def test_a_sleeping_master_enqueues_claims_and_leads_nothing_at_the_source(one: MoveWorld) -> None:
    await one.seed(3)
    worker_id = await one.jobs.worker()
    await one.begin()
    assert (await one.run()).step == "done"
    before = await one.contents(one.source)
    with pytest.raises(StoreUnavailableError):
        await one.jobs.enqueue()
    assert await one.jobs.leadership.elect("master-3", "n", ttl_ms=600_000) is None
    with pytest.raises(StaleEpochError):
        await one.jobs.claim(worker_id)
    assert await one.contents(one.source) == before


async def test_a_target_that_dies_gets_its_rest_removed_later(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.seed(5)
    move = await one.begin()
    compare = Mover._compare

    async def dead(self: Mover, source: FrozenData, target: FrozenData) -> None:
        await compare(self, source, target)
        one.places.away.add("b")
        raise StoreUnavailableError("store b does not answer")

    monkeypatch.setattr(Mover, "_compare", dead)
    move = await one.run()
    assert move.step == "failed"
    assert await one.served_at() == ["default"]
    one.places.away.clear()
    assert await one.contents(one.target) != {}
    (left,) = await one.moves.left_copies()
    assert (left.store, left.tag, left.id, left.number) == ("b", one.tag, move.id, 1)
    await FrozenData(one.target, left.id, left.number).remove_left()
    assert await one.contents(one.target) == {}


async def test_a_copy_that_cannot_be_removed_for_whatever_reason_keeps_the_namespace_closed_no_longer(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.seed(5)
    move = await one.begin()
    copy = Mover._copy

    async def beside_a_foreign_key(self: Mover, source: FrozenData, target: FrozenData) -> None:
        await copy(self, source, target)
        await StoreWorld(one.target).redis.set(one.target.keys.tag.encode() + b"\xff", "of another program")

    monkeypatch.setattr(Mover, "_copy", beside_a_foreign_key)
    move = await one.run()
    assert move.step == "failed"
    entry = await one.entry()
    assert (entry.store, entry.state) == ("default", "open")
    assert await one.served_at() == ["default"]


async def test_a_source_that_is_away_is_opened_as_soon_as_it_answers(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.seed(5)
    await one.begin()
    monkeypatch.setattr(mover, "RETRY_S", 0.01)

    async def dead(self: Mover, source: FrozenData, target: FrozenData) -> None:
        one.places.away.add("default")
        raise StoreUnavailableError("store default does not answer")

    monkeypatch.setattr(Mover, "_copy", dead)
    running = asyncio.create_task((await one.take()).run())

    async def returns() -> bool:
        return (await one.move()).step == "returning"

    await wait_until(returns, what="the move returns")
    assert not running.done()
    assert (await one.entry()).state == "moving"
    one.places.away.clear()
    await running
    assert ((await one.move()).step, (await one.entry()).state) == ("failed", "open")
    assert await one.served_at() == ["default"]


async def test_a_mover_waits_for_each_master_that_lives(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.seed(3)
    await one.begin()
    record = MasterRecord(new_id(), "node", 1, "http://one", "1", one.control.now_ms, knows_namespaces=True)
    await one.masters.beat(record)
    running = asyncio.create_task((await one.take()).run())

    async def is_closing() -> bool:
        return (await one.entry()).state == "moving"

    await wait_until(is_closing, what="the namespace is stopped")
    version = (await one.entry()).version
    await one.moves.release("shop", record.id, version - 1)
    await asyncio.sleep(2 * mover.POLL_S)
    assert ((await one.move()).step, running.done()) == ("closing", False)
    await one.moves.release("shop", record.id, version)
    await running
    assert (await one.move()).step == "done"


async def test_a_master_that_does_not_let_go_keeps_the_namespace_where_it_is(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.seed(3)
    await one.begin()
    monkeypatch.setattr(mover, "RELEASE_WITHIN_S", 0.1)
    # Only the source sees it: it is cut off from the registry.
    record = MasterRecord(new_id(), "node", 1, "http://cut-off", "1", 1, knows_namespaces=True)
    await MasterStore(one.source).beat(record)
    move = await one.run()
    assert move.step == "failed"
    assert "http://cut-off" in move.progress.reason


async def test_a_master_that_was_silent_for_a_moment_is_waited_for(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.seed(3)
    monkeypatch.setattr(mover, "RELEASE_WITHIN_S", 0.1)
    record = MasterRecord(new_id(), "node", 1, "http://busy", "1", one.control.now_ms, knows_namespaces=True)
    await one.masters.beat(record)
    one.control.pass_ms(one.tools.pace.current.fresh_ms + 1)
    await one.begin()
    move = await one.run()
    assert (move.step, "http://busy" in move.progress.reason) == ("failed", True)
    one.control.pass_ms(mover.MIN_SILENCE_MS)
    await one.begin()
    assert (await one.run()).step == "done"


async def test_too_many_movers_end_the_move(one: MoveWorld) -> None:
    await one.seed(2)
    await one.begin()
    for _ in range(mover.MAX_MOVERS):
        await one.take()
        one.control.pass_ms(HOLD_MS + 1)
    assert (await one.run()).step == "failed"
    assert await one.served_at() == ["default"]


async def test_a_namespace_moves_back_over_the_copy_that_it_left(one: MoveWorld) -> None:
    await one.seed(3)
    await one.begin()
    assert (await one.run()).step == "done"
    there = StoreWorld(replace(one.target, mark=MARK))
    added = await there.enqueue()
    plan = await one.service.plan("shop", "default")
    assert plan.size.keys > 3
    await one.service.begin("shop", "default", "ada")
    assert (await one.run()).step == "done"
    assert await one.served_at() == ["default"]
    assert await one.jobs.records.get(added)
    one.control.pass_ms(24 * 3600 * 1000 + 1)
    for left in await one.moves.left_copies():
        shard = one.source if left.store == "default" else one.target
        try:
            await FrozenData(shard, left.id, left.number).remove_left()
        except LostMoveError:
            assert left.store == "default"
    assert await one.contents(one.target) == {}
    assert await one.served_at() == ["default"]
    assert await generation.read(one.source) == MARK


async def lose_freeze(one: MoveWorld) -> None:
    """Take the key away that says who froze the data at the source, as a store that evicts keys does."""
    await one.jobs.redis.delete(one.source.keys.frozen)


async def assert_can_be_led(shard: Shard) -> None:
    """A master opens the data, and is elected."""
    there = StoreWorld(replace(shard, mark=await generation.mark(shard, "fresh")))
    assert await there.leadership.elect("master-9", "nonce", ttl_ms=60_000)


@pytest.mark.parametrize("at", ["copy", "compare", "unfreeze"])
async def test_a_namespace_whose_freeze_was_lost_is_led_after_its_move_was_aborted(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    ids = await one.seed(5)
    await one.begin()
    owner, name = POINTS[at]
    act, losses = getattr(owner, name), [lose_freeze]

    async def lost(*args: Any, **more: Any) -> Any:
        if losses:
            await losses.pop()(one)
            await one.moves.abort("shop", "eve", b"")
        return await act(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, lost)
        patch.setattr(mover, "RECORD_S", 0.0)
        move = await one.run()
    assert move.step == "aborted"
    assert ((await one.entry()).store, (await one.entry()).state) == ("default", "open")
    await assert_can_be_led(one.source)
    assert (await one.jobs.records.get_all(ids)).keys() == set(ids)


async def test_another_mover_goes_on_with_data_whose_freeze_was_lost(
    one: MoveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await one.seed(5)
    await one.begin()
    await dies(await one.take(), monkeypatch, "copy", after=True)
    await lose_freeze(one)
    one.control.pass_ms(HOLD_MS + 1)
    await (await one.take("master-2")).run()
    assert (await one.move()).step == "done"
    assert await one.served_at() == ["b"]
    await assert_can_be_led(one.target)
    assert (await StoreWorld(one.target).records.get_all(ids)).keys() == set(ids)


async def test_a_namespace_that_comes_back_to_data_whose_freeze_was_lost_is_led(one: MoveWorld) -> None:
    await one.seed(3)
    await one.begin()
    assert (await one.run()).step == "done"
    await lose_freeze(one)
    with pytest.raises(StoreUnfitError, match="frozen here"):
        await generation.mark(one.source, "fresh")
    await one.service.begin("shop", "default", "ada")
    assert (await one.run()).step == "done"
    assert await one.served_at() == ["default"]
    await assert_can_be_led(one.source)
