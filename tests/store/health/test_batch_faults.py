"""fsck finds batches whose counts, state or follow-ups are wrong, and repair fixes what is certain."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.domain.batches.batch import BatchCallback
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from jqmaster.store.health import batches as health
from jqmaster.store.health.batches import BatchFault, batch_faults, unlisted_batches
from jqmaster.store.health.repair import Repair
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.support.admin import forget_keys
from tests.support.batches import Batches
from tests.support.store import TIMES, StoreWorld

pytestmark = pytest.mark.req("S7")


@pytest.fixture
def batches(world: StoreWorld) -> Batches:
    return Batches(world)


async def faults(world: StoreWorld) -> list[BatchFault]:
    client, keys = world.shard.client, world.shard.keys
    return [
        fault for faults_of in (batch_faults, unlisted_batches) async for fault in faults_of(client, keys)
    ]


async def details(world: StoreWorld) -> list[str]:
    """Return the faults of batches that fsck reports; it finds no others."""
    found = await world.findings()
    assert {finding.rule for finding in found} <= {"batch"}
    return [finding.detail for finding in found]


async def repaired(world: StoreWorld) -> list[str]:
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    return [finding.key async for step in repair.steps() for finding in step.repaired]


async def ended_batch(world: StoreWorld, batches: Batches) -> str:
    """Return an open batch of four: two succeeded, one failed, one is ready."""
    batch = await batches.make()
    await world.enqueue_many(4, batch=batch)
    worker = await world.worker()
    first, second, third = await world.claim(worker, limit=3)
    ended = [(job.job_id, job.token, b"") for job in (first, second)]
    assert await world.settlements.settle_success(worker, ended) == [True, True]
    assert await world.fail(worker, third)
    await batches.carry_out()
    return batch


@pytest.mark.parametrize(
    ("harm", "detail"),
    [
        ({"succeeded": 1}, "counts 2 unfinished and 2 ended jobs, but has 1 and 3"),
        ({"succeeded": 3}, "counts 0 unfinished and 4 ended jobs, but has 1 and 3"),
        ({"succeeded": 0, "canceled": 2}, "counts 1 unfinished and 3 ended jobs, but has 1 and 3"),
        ({"total": 7}, "counts 4 unfinished and 3 ended jobs, but has 1 and 3"),
        ({"deleted": 1}, "counts 0 unfinished and 3 ended jobs, but has 1 and 3"),
        ({"gone": 1}, "counts 1 unfinished and 3 ended jobs, but has 1 and 3"),
    ],
    ids=str,
)
async def test_wrong_counts_are_counted_again(
    world: StoreWorld, batches: Batches, harm: dict[str, int], detail: str
) -> None:
    batch = await ended_batch(world, batches)
    right = await batches.ended(batch)
    assert right == {"total": 4, "unfinished": 1, "succeeded": 2, "failed": 1}
    key = world.shard.keys.batch(batch)
    await world.redis.hset(key, mapping=harm)
    (found,) = await details(world)
    assert found.startswith(detail)
    assert await repaired(world) == [key]
    counts = await batches.ended(batch)
    if "gone" in harm:
        # Jobs that are gone still count as they ended.
        assert counts.pop("gone", 0) == 0
    if "deleted" in harm:
        # It is no longer known whether a job was deleted.
        assert counts == {"total": 5, "unfinished": 1, "succeeded": 2, "failed": 1, "deleted": 1}
    else:
        assert counts == right
    assert await repaired(world) == []


async def test_members_over_their_retention_stay_counted_as_they_ended(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(3, batch=batch)
    await batches.service.seal(batch)
    jobs = await world.claim(worker)
    ended = [(job.job_id, job.token, b"") for job in jobs]
    await world.settlements.settle_success(worker, ended)
    await batches.carry_out()
    world.pass_ms(10_000)
    assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, retention_ms=5_000, max_jobs=9) == 3
    assert await batches.ended(batch) == {"total": 3, "succeeded": 3, "gone": 3}
    assert await faults(world) == []
    await world.redis.hset(world.shard.keys.batch(batch), "gone", 2)
    assert [fault.counts for fault in await faults(world)] == [
        (
            ("canceled", 0),
            ("deleted", 0),
            ("discarded", 0),
            ("failed", 0),
            ("gone", 3),
            ("skipped", 0),
            ("succeeded", 3),
            ("total", 3),
        )
    ]
    assert len(await repaired(world)) == 1
    assert await batches.ended(batch) == {"total": 3, "succeeded": 3, "gone": 3}


async def test_members_without_a_record_leave_and_count_as_deleted(
    world: StoreWorld, batches: Batches
) -> None:
    k = world.shard.keys
    batch = await ended_batch(world, batches)
    lost = [new_id() for _ in range(1_100)]
    await world.redis.zadd(k.batch_members(batch), dict.fromkeys(lost, 0))
    (fault,) = await faults(world)
    assert fault.detail.endswith("1100 have no record")
    assert len(fault.missing) == health.MAX_MISSING
    # One round of repair removes a bounded number of them, the next one the rest.
    assert await repaired(world) == [k.batch(batch)]
    assert await repaired(world) == [k.batch(batch)]
    assert await faults(world) == []
    assert len(await batches.store.members(batch, limit=10_000)) == 4
    ended = await batches.ended(batch)
    assert (ended["total"], ended["deleted"]) == (1_104, 1_100)


async def test_the_repair_of_counts_completes_a_batch_and_starts_its_callbacks(
    world: StoreWorld, batches: Batches
) -> None:
    batch = await batches.make()
    worker = await world.worker()
    await world.enqueue_many(2, batch=batch)
    await batches.service.seal(batch)
    jobs = await world.claim(worker)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"") for job in jobs])
    await batches.carry_out()
    assert await batches.state(batch) == "complete"
    key = world.shard.keys.batch(batch)
    # A store that lost its last writes looks like this.
    await world.redis.hset(
        key, mapping={"succeeded": 1, "state": "sealed", "on_success": "waiting", "on_complete": "waiting"}
    )
    assert await details(world) == [
        "counts 1 unfinished and 1 ended jobs, but has 0 and 2; 0 were removed, 0 have no record"
    ]
    assert await repaired(world) == [key]
    assert await batches.state(batch) == "complete"
    await batches.carry_out()
    assert await batches.callbacks(batch) == {"on_success", "on_complete"}


@pytest.mark.parametrize(
    ("fields", "detail", "state"),
    [
        ({"state": "sealed"}, "is sealed with 0 unfinished jobs", "complete"),
        ({"batches": 1}, "is complete with 0 unfinished jobs", "sealed"),
    ],
    ids=str,
)
async def test_a_state_that_the_counts_contradict_is_put_right(
    world: StoreWorld, batches: Batches, fields: dict[str, Any], detail: str, state: str
) -> None:
    batch = await batches.make()
    await batches.service.seal(batch)
    await batches.carry_out()
    key = world.shard.keys.batch(batch)
    await world.redis.hset(key, mapping=fields)
    assert await details(world) == [detail]
    assert await repaired(world) == [key]
    assert await batches.state(batch) == state
    assert await details(world) == []


async def test_a_callback_that_nobody_would_enqueue_is_enqueued(world: StoreWorld, batches: Batches) -> None:
    batch = await batches.make()
    await batches.service.seal(batch)
    await world.redis.delete(world.shard.keys.follow_ups)
    assert await details(world) == ["has a due callback that will never be enqueued"]
    assert await repaired(world) == [world.shard.keys.batch(batch)]
    await batches.carry_out()
    assert await batches.callbacks(batch) == {"on_success", "on_complete"}


async def test_faults_that_cannot_be_repaired_are_left_to_people(world: StoreWorld, batches: Batches) -> None:
    k = world.shard.keys
    unreadable, unlisted, gone = [await batches.make() for _ in range(3)]
    await world.redis.hset(k.batch(unreadable), "spec", b"\xc1")
    await world.redis.zrem(k.batches, unlisted)
    await world.redis.delete(k.batch(gone))
    found = {fault.batch_id: fault.detail for fault in await faults(world)}
    assert found == {
        unreadable: f"batch {unreadable}: its fields cannot be read",
        unlisted: "is not in the list of batches",
        gone: "is listed but does not exist",
    }
    async with world.unchanged():
        assert await repaired(world) == []
    await forget_keys(world.shard)


async def test_a_batch_that_changes_while_it_is_counted_is_not_judged(
    world: StoreWorld, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = await ended_batch(world, batches)
    key = world.shard.keys.batch(batch)
    await world.redis.hset(key, "succeeded", 1)
    count, looks = health._count, []

    async def changing(client: StoreClient, keys: Keys, batch_id: str) -> tuple[Counter[JobState], list[str]]:
        looks.append(await world.redis.hincrby(key, "changes", 1))
        return await count(client, keys, batch_id)

    with monkeypatch.context() as patched:
        patched.setattr(health, "_count", changing)
        assert await faults(world) == []
    assert len(looks) == health.MAX_LOOKS
    # A batch that changes after it was judged is left for the next round.
    (fault,) = await faults(world)
    await world.redis.hincrby(key, "changes", 1)
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    async with world.unchanged():
        assert await repair.repair_batch(fault) == []
    old = await world.reelect()
    (fault,) = await faults(world)
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await Repair(world.shard, old, who="test", times=TIMES).repair_batch(fault)
    assert await repaired(world) == [key]


class _Meanwhile:
    """A client of the store; something happens right after its first command of this name."""

    def __init__(self, client: StoreClient, command: str, key: str, happens: Any) -> None:
        self._client, self._command, self._key, self._happens = client, command, key, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def command(self, *words: Any) -> Any:
        reply = await self._client.command(*words)
        if words[:2] == (self._command, self._key) and self._happens:
            happens, self._happens = self._happens, None
            await happens()
        return reply


async def looked_at(world: StoreWorld, command: str, key: str, happens: Any) -> list[str]:
    client: Any = _Meanwhile(world.shard.client, command, key, happens)
    found: AsyncIterator[BatchFault] = batch_faults(client, world.shard.keys)
    return [fault.detail async for fault in found]


async def test_changes_during_a_check_are_no_fault(world: StoreWorld, batches: Batches) -> None:
    k = world.shard.keys
    batch, other = await batches.make(), await batches.make([BatchCallback.SUCCESS])
    assert await batches.store.drop(batch, "nobody") is False

    async def remove() -> None:
        await world.redis.delete(k.batch(batch), k.batch_members(batch))
        await world.redis.zrem(k.batches, batch)
        await world.redis.zrem(k.batches_due, batch)

    # The batch was listed, and is removed before it is read.
    assert await looked_at(world, "ZSCAN", k.batches, remove) == []
    await batches.service.seal(other)
    # Its callback is started between the look at the batch and the look at its entry.
    assert await looked_at(world, "HGETALL", k.batch(other), batches.carry_out) == []
    assert await batches.callbacks(other) == {"on_success"}
