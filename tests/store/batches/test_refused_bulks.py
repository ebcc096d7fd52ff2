"""A refused bulk leaves no batch behind, and starts no callback."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.batches.batch import BatchCallback, BatchSpec
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.jobs.unique import Unique
from jqmaster.errors import (
    ConflictError,
    InvalidError,
    NotUniqueError,
    OutcomeUnknownError,
    RateLimitedError,
    StoreUnavailableError,
)
from jqmaster.store.link.scripts import ScriptCall
from tests.support.batches import ALL, LIFE_MS, Batches, callback_spec
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("S7")

FILL_MS = 600_000


@pytest.fixture
def batches(world: StoreWorld) -> Batches:
    return Batches(world)


def batch_spec(**fields: Any) -> BatchSpec:
    return BatchSpec(
        id=new_id(), callbacks={callback: callback_spec(str(callback)) for callback in ALL}, **fields
    )


def only_one(job: JobSpec, digest: str = "ab" * 16) -> JobSpec:
    return replace(job, unique=Unique(digest=digest))


async def nothing_came_of_it(world: StoreWorld, batches: Batches, spec: BatchSpec) -> None:
    """Assert that the batch does not exist and starts nothing, now or when the time to fill it is over."""
    assert await batches.store.get(spec.id) is None
    assert await batches.waiting() == []
    world.pass_ms(FILL_MS)
    await batches.expiry.end_due(world.epoch)
    await batches.carry_out()
    assert await batches.callbacks(spec.id) == set()
    assert (batches.figures.made, batches.figures.expired) == (0, 0)


async def test_a_conflict_of_ids_leaves_the_store_as_it_was(world: StoreWorld, batches: Batches) -> None:
    taken = world.spec(argument=1)
    await batches.served.enqueue.one(taken)
    spec = batch_spec()
    async with world.unchanged():
        with pytest.raises(ConflictError) as conflict:
            await batches.service.create_with(spec, [world.spec(), taken])
    assert (conflict.value.code, conflict.value.errors[0].loc) == ("id_taken", ("jobs", 1, "id"))
    await nothing_came_of_it(world, batches, spec)


async def test_a_conflict_of_uniqueness_keys_leaves_the_store_as_it_was(
    world: StoreWorld, batches: Batches
) -> None:
    await batches.served.enqueue.one(only_one(world.spec()))
    spec = batch_spec()
    async with world.unchanged():
        with pytest.raises(NotUniqueError) as conflict:
            await batches.service.create_with(spec, [replace(world.spec(), key="k"), only_one(world.spec())])
    assert conflict.value.errors[0].loc == ("jobs", 1, "unique")
    await nothing_came_of_it(world, batches, spec)


async def test_a_conflict_that_only_the_write_finds_removes_the_batch(
    world: StoreWorld, batches: Batches
) -> None:
    await batches.served.enqueue.one(replace(world.spec(argument=1), key="k"))
    spec = batch_spec()
    with pytest.raises(ConflictError) as conflict:
        await batches.service.create_with(spec, [world.spec(), replace(world.spec(argument=2), key="k")])
    assert (conflict.value.code, conflict.value.errors[0].loc) == (
        "idempotency_key_reused",
        ("jobs", 1, "key"),
    )
    await nothing_came_of_it(world, batches, spec)


async def test_a_full_backlog_removes_the_batch_and_a_repeat_makes_it(
    world: StoreWorld, batches: Batches
) -> None:
    await ConstrainedWorld(world).limit(max_backlog=2)
    spec, jobs = batch_spec(), [world.spec(argument=n) for n in range(3)]
    with pytest.raises(RateLimitedError) as refused:
        await batches.service.create_with(spec, jobs)
    assert refused.value.code == "backlog_full"
    await nothing_came_of_it(world, batches, spec)
    await batches.service.create_with(spec, jobs[:2])
    assert (await batches.ended(spec.id), batches.figures.made) == ({"total": 2, "unfinished": 2}, 1)
    assert (await batches.get(spec.id)).expires_at_ms == world.now_ms + LIFE_MS


async def test_a_parent_that_is_unknown_or_over_leaves_the_store_as_it_was(
    world: StoreWorld, batches: Batches
) -> None:
    over = await batches.make(())
    await batches.service.seal(over)
    await batches.carry_out()
    for parent, error in ((new_id(), InvalidError), (over, ConflictError)):
        async with world.unchanged():
            with pytest.raises(error):
                await batches.service.create_with(batch_spec(parent=parent), [world.spec()])


async def test_a_refused_batch_leaves_its_parent(world: StoreWorld, batches: Batches) -> None:
    await ConstrainedWorld(world).limit(max_backlog=1)
    parent = await batches.make()
    with pytest.raises(RateLimitedError):
        await batches.service.create_with(batch_spec(parent=parent), [world.spec(), world.spec()])
    assert await batches.store.children(parent) == []
    await batches.service.seal(parent)
    await batches.carry_out()
    assert await batches.callbacks(parent) == {"on_success", "on_complete"}
    assert await world.findings() == []


async def test_a_batch_that_is_canceled_while_it_is_filled_stays(
    world: StoreWorld, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = batch_spec()
    bulk = batches.served.enqueue.bulk

    async def after_a_cancel(*args: Any, **options: Any) -> Any:
        await batches.service.cancel(spec.id)
        return await bulk(*args, **options)

    monkeypatch.setattr(batches.served.enqueue, "bulk", after_a_cancel)
    with pytest.raises(ConflictError) as conflict:
        await batches.service.create_with(spec, [world.spec()])
    assert conflict.value.code == "batch_over"
    await batches.carry_out()
    assert await batches.callbacks(spec.id) == {"on_complete"}


async def test_a_refused_bulk_leaves_a_batch_that_was_there_or_that_a_repeat_fills(
    world: StoreWorld, batches: Batches
) -> None:
    await ConstrainedWorld(world).limit(max_backlog=1)
    there = batch_spec()
    assert await batches.service.create(there)
    with pytest.raises(RateLimitedError):
        await batches.service.create_with(there, [world.spec(), world.spec()])
    assert await batches.state(there.id) == "open"
    shared = batch_spec()
    for call in ("first", "repeat"):
        await batches.store.put(shared, life_ms=LIFE_MS, expires_at_ms=world.now_ms + 1, filled_by=call)
    async with world.unchanged():
        assert not await batches.store.drop(shared.id, "first")
    assert await batches.store.drop(shared.id, "repeat")
    # Nobody else may remove a batch that a separate call creates.
    await batches.store.put(shared, life_ms=LIFE_MS, filled_by="first")
    assert not await batches.service.create(shared)
    async with world.unchanged():
        assert not await batches.store.drop(shared.id, "first")


async def test_a_bulk_of_which_the_first_part_got_in_keeps_its_batch(
    world: StoreWorld, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, jobs = batch_spec(), [world.spec(argument=n) for n in range(1_200)]
    client = world.shard.client
    run_all, enqueues = client.run_all, 0

    async def fails_later(calls: Sequence[ScriptCall], **options: Any) -> list[tuple[str, list[Any]]]:
        nonlocal enqueues
        enqueues += calls[0].script.name == "enqueue"
        if enqueues > 1 and calls[0].script.name == "enqueue":
            raise StoreUnavailableError("the store is away", retry_after_s=1.0)
        return await run_all(calls, **options)

    monkeypatch.setattr(client, "run_all", fails_later)
    with pytest.raises(OutcomeUnknownError):
        await batches.service.create_with(spec, jobs)
    monkeypatch.undo()
    assert await batches.ended(spec.id) == {"total": 500, "unfinished": 500}
    assert await batches.state(spec.id) == "open"
    await batches.service.create_with(spec, jobs)
    assert await batches.ended(spec.id) == {"total": 1_200, "unfinished": 1_200}
    assert await batches.state(spec.id) == "sealed"
    # Without a repeat, the jobs that got in are canceled.
    broken = batch_spec()
    await batches.store.put(broken, life_ms=LIFE_MS, expires_at_ms=world.now_ms + FILL_MS, filled_by="it")
    await world.enqueue(batch=broken.id)
    assert not await batches.store.drop(broken.id, "it")
    world.pass_ms(FILL_MS)
    await batches.expiry.end_due(world.epoch)
    await batches.carry_out()
    assert await batches.ended(broken.id) == {"total": 1, "canceled": 1}
    assert await batches.callbacks(broken.id) == {str(BatchCallback.COMPLETE)}


async def test_an_empty_batch_that_nobody_could_remove_is_removed_when_the_time_to_fill_it_is_over(
    world: StoreWorld, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("the store is away", retry_after_s=1.0)

    spec = batch_spec()
    monkeypatch.setattr(batches.served.enqueue, "bulk", away)
    monkeypatch.setattr(batches.store, "drop", away)
    with pytest.raises(StoreUnavailableError):
        await batches.service.create_with(spec, [world.spec()])
    monkeypatch.undo()
    assert await batches.state(spec.id) == "open"
    world.pass_ms(FILL_MS)
    await batches.expiry.end_due(world.epoch)
    await nothing_came_of_it(world, batches, spec)
