"""Two masters on one store. If one has an old copy of the constraints, the store says so (`stale_constraints`), and the
master repeats the step under the present ones."""

from collections.abc import AsyncIterator

import pytest

from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.enqueue import EnqueueService
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.service.jobs.reach import CallerReach
from jqmaster.store.batches.batches import BatchStore
from jqmaster.store.constraints.constraints import ConstraintSnapshot, ConstraintStore
from jqmaster.store.jobs.operator_actions import Changes
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("J13")

URGENT = {"field": "priority", "op": "le", "value": 0}


class CountedCache(ConstraintCache):
    reloads = 0

    async def reload(self) -> ConstraintSnapshot:
        self.reloads += 1
        return await super().reload()


class SecondMaster:
    """A master that keeps the rules that it last read: nobody tells it of changes."""

    def __init__(self, world: StoreWorld) -> None:
        self.constraints = CountedCache(ConstraintStore(world.shard))
        self.enqueue = EnqueueService(
            world.acceptance,
            self.constraints,
            admit=lambda _: 0,
            reach=CallerReach(world.records, BatchStore(world.shard, world.tally)),
        )
        self.actions = JobActions(
            world.operator_actions, world.records, self.constraints, tell_worker=self._tell
        )

    async def _tell(self, *order: str) -> None:
        raise AssertionError(f"no job of these tests is canceled: {order}")

    @property
    def edition(self) -> int:
        return self.constraints.current.constraint_set.edition


@pytest.fixture
async def second(world: StoreWorld) -> AsyncIterator[SecondMaster]:
    one = SecondMaster(world)
    yield one
    await one.actions.stop()
    await one.enqueue.stop()


@pytest.fixture
def first(world: StoreWorld) -> ConstrainedWorld:
    """The leader, through which the tests change the constraints."""
    return ConstrainedWorld(world)


async def gates(first: ConstrainedWorld, job_id: str) -> list[str]:
    return await first.gates_of(job_id, (await first.structures()).lanes)


@pytest.mark.parametrize("act", ["enqueue", "enqueue_bulk", "retry", "patch"])
async def test_a_master_with_old_rules_acts_under_the_new_ones(
    first: ConstrainedWorld, second: SecondMaster, world: StoreWorld, act: str
) -> None:
    worker_id, failed = await world.running()
    assert await world.fail(worker_id, failed)
    patched = await world.enqueue(priority=5)
    old = second.edition

    limit = await first.limit(matcher=URGENT, concurrency=1)
    specs = [world.spec(), world.spec()]
    match act:
        case "enqueue":
            for spec in specs:
                assert (await second.enqueue.one(spec)).is_new
            changed = [spec.id for spec in specs]
        case "enqueue_bulk":
            changed = (await second.enqueue.bulk(specs)).ids
        case "retry":
            await second.actions.retry(failed.job_id)
            changed = [failed.job_id]
        case _:
            await second.actions.patch(patched, Changes(priority=0))
            changed = [patched]

    # The store told it once, and it knows the rules from then on.
    assert second.constraints.reloads == 1
    assert second.edition > old
    for job_id in changed:
        assert await gates(first, job_id) == [gate_id(limit.cid, None)]
    # The limit applies to these jobs together with those of the first master.
    await first.enqueue()
    taken = await first.take(await world.worker())
    assert len(set(taken) - {patched} if patched not in changed else taken) == 1


@pytest.mark.parametrize("act", ["enqueue", "retry", "patch"])
async def test_a_master_with_old_rules_puts_no_job_behind_a_constraint_that_is_gone(
    first: ConstrainedWorld, second: SecondMaster, world: StoreWorld, act: str
) -> None:
    worker_id, failed = await world.running()
    assert await world.fail(worker_id, failed)
    patched = await world.enqueue(priority=5)
    await first.limit(matcher=URGENT, paused=True)
    await second.constraints.reload()

    # The constraint is created again with another matcher: jobs are matched again, also those of old editions.
    await first.remove()
    await first.limit("other", {"field": "name", "op": "eq", "value": "other"}, paused=True)
    match act:
        case "enqueue":
            changed = (await second.enqueue.one(world.spec())).job_id
        case "retry":
            changed = failed.job_id
            await second.actions.retry(changed)
        case _:
            changed = patched
            await second.actions.patch(changed, Changes(priority=0))
    assert await gates(first, changed) == []
    assert changed in await first.take(await world.worker())
