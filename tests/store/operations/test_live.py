"""Two looks for dashboards differ exactly if something changed that dashboards show."""

from dataclasses import replace

import pytest

from jqmaster.domain.batches.batch import BatchSpec
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import ActionKind
from jqmaster.domain.operations.master import Pace
from jqmaster.live_value import LiveValue
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.operations.live import LiveStore
from tests.support.events import Events, event
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D21")


@pytest.fixture
def live(world: StoreWorld) -> LiveStore:
    return LiveStore(world.shard, stale_ms=LiveValue(5_000), pace=LiveValue(Pace(5.0)))


async def test_while_nothing_happens_every_look_is_the_same(world: StoreWorld, live: LiveStore) -> None:
    await world.enqueue()
    await world.worker()
    # The first look has no earlier time yet, with which later looks tell silent workers from fresh ones.
    await live.look()
    one, other = await live.look(), await live.look()
    assert replace(one, at_ms=0) == replace(other, at_ms=0)


async def test_each_part_tells_of_its_own_changes(world: StoreWorld, live: LiveStore) -> None:
    before = await live.look()
    await world.enqueue()
    jobs = await live.look()
    assert jobs.jobs != before.jobs
    assert (jobs.workers, jobs.masters, jobs.constraints) == (
        before.workers,
        before.masters,
        before.constraints,
    )
    await world.worker()
    assert (await live.look()).workers != jobs.workers
    await world.reelect()
    assert (await live.look()).masters != before.masters


async def test_a_finished_job_is_seen_although_the_counts_are_the_same(
    world: StoreWorld, live: LiveStore
) -> None:
    worker_id, job = await world.running()
    await world.fail(worker_id, job)
    before = await live.look()
    await world.operator_actions.delete(job.job_id)
    worker_id, job = await world.running()
    await world.fail(worker_id, job)
    assert (await live.look()).jobs != before.jobs


async def test_the_audit_log_tells_what_was_changed_since_the_look_before(
    world: StoreWorld, live: LiveStore
) -> None:
    audit = AuditStore(world.shard)
    await audit.write(encode_entry(who="a", action="constraint.put", target="c", before=None, after=None))
    assert (await live.look()).changed == frozenset(), "a first look knows nothing of before"
    await audit.write(encode_entry(who="a", action="worker.drain", target="w", before=None, after=None))
    action = ActionKind.RETRY
    await audit.write(encode_entry(who="a", action=f"jobs.{action}", target="a1", before=None, after=None))
    look = await live.look()
    assert look.changed == {"worker", "jobs"}
    assert look.news_of_actions == {"a1"}
    assert (await live.look()).changed == frozenset()


async def test_each_batch_is_seen_when_it_is_made_and_when_it_is_over(
    world: StoreWorld, live: LiveStore
) -> None:
    batches = BatchStore(world.shard, world.tally)
    looks = [await live.look()]
    ids = [new_id(), new_id()]
    for batch_id in ids:
        assert await batches.put(BatchSpec(batch_id), life_ms=60_000)
        looks.append(await live.look())
    # An empty batch is over at once.
    await batches.seal(ids[0])
    looks.append(await live.look())
    assert len({look.batches for look in looks}) == len(looks)


async def test_each_event_is_seen_also_of_one_millisecond(world: StoreWorld, live: LiveStore) -> None:
    looks = [await live.look()]
    events = Events(world)
    for _ in range(2):
        await events.intake.one(event())
        looks.append(await live.look())
    assert len({look.events for look in looks}) == 3
    assert len({look.definitions for look in looks}) == 1
