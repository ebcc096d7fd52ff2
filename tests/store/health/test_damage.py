"""Damaged records under constraints: what is still known of them keeps the counts of lanes and gates right."""

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from jqmaster.store.link.pages import MAX_PER_CALL
from tests.store.jobs.test_claim import DAMAGES, damage
from tests.support.constraints import ConstrainedWorld
from tests.support.store import LEASE_MS, StoreWorld

UNREADABLE = ("gone", "wrong type", "no name", "half a name")
NOTHING_LEFT = ("gone", "wrong type")


@pytest.fixture
def limited(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


@pytest.mark.parametrize("key", [None, "name"])
@pytest.mark.parametrize("how", UNREADABLE)
async def test_a_claim_that_is_set_aside_gives_its_slot_back(
    limited: ConstrainedWorld, how: str, key: str | None
) -> None:
    world = limited.world
    await limited.limit(key=key, concurrency=1)
    bad, next_one = await limited.enqueue(), await limited.enqueue()
    worker = await world.worker()
    assert await limited.take(worker) == [bad]
    await damage(world, bad, how)
    assert await limited.take(worker) == []
    world.pass_ms(LEASE_MS)
    with world.leading_here() as words:
        assert await world.leases.set_aside(world.epoch, [bad]) == 1
    assert words == ["ready"]
    assert await limited.take(worker) == [next_one]
    await world.operator_actions.delete(bad)
    world.never_counted_out["work"] = how in NOTHING_LEFT


async def test_an_old_leader_frees_no_slots(limited: ConstrainedWorld) -> None:
    world = limited.world
    one = await limited.limit(concurrency=1)
    job_id = await limited.enqueue()
    await limited.take(await world.worker())
    await damage(world, job_id, "gone")
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await world.leases.set_aside(old, [job_id])
        with pytest.raises(StaleEpochError):
            await world.leases._free_slots(old, [job_id.encode()])
    assert await limited.slots(one) == {f"{one.cid}{'0' * 16}": {job_id}}
    await world.leases.set_aside(world.epoch, [job_id])
    await world.operator_actions.delete(job_id)
    world.never_counted_out["work"] = 1


async def test_a_job_that_runs_again_under_a_lost_id_keeps_its_slot(limited: ConstrainedWorld) -> None:
    world = limited.world
    one = await limited.limit(concurrency=1)
    job_id = await limited.enqueue()
    await limited.take(await world.worker())
    async with world.unchanged():
        assert await world.leases._free_slots(world.epoch, [job_id.encode()]) is False
    assert set((await limited.slots(one)).popitem()[1]) == {job_id}


async def test_slots_are_looked_for_at_every_gate(limited: ConstrainedWorld) -> None:
    world = limited.world
    one = await limited.limit(key="name", concurrency=1)
    names = [f"name-{n}" for n in range(250)]
    ids = [await limited.enqueue(name) for name in names]
    worker = await world.worker(*names, max_jobs=MAX_PER_CALL)
    assert len(await limited.take(worker, *names, limit=MAX_PER_CALL)) == len(ids)
    bad = ids[::50]
    for job_id in bad:
        await damage(world, job_id, "gone")
    await world.leases.set_aside(world.epoch, bad)
    held = {job_id for jobs in (await limited.slots(one)).values() for job_id in jobs}
    assert held == set(ids) - set(bad)
    for name, job_id in zip(names[::50], bad, strict=True):
        await world.operator_actions.delete(job_id)
        world.never_counted_out[name] = 1


@pytest.mark.parametrize("key", [None, "name", "argument"])
@pytest.mark.parametrize("how", DAMAGES)
async def test_a_damaged_job_that_is_to_move_to_another_lane_is_set_aside(
    limited: ConstrainedWorld, how: str, key: str | None
) -> None:
    world = limited.world
    ids = [await limited.enqueue() for _ in range(3)]
    await damage(world, ids[1], how)
    await limited.limit(key=key, concurrency=2)
    worker = await world.worker()
    claim = await limited.claim_once(worker)
    assert [job.job_id for job in claim.jobs] == [ids[0], ids[2]]
    assert await world.redis.smembers(world.shard.keys.damaged) == {ids[1].encode()}
    await world.operator_actions.delete(ids[1])


@pytest.mark.parametrize("how", ["no name", "half a name", "wrong state"])
async def test_a_lane_that_went_with_a_damaged_job_does_not_come_back(
    limited: ConstrainedWorld, how: str
) -> None:
    world = limited.world
    await limited.limit(key="name", max_backlog=1, fair=True)
    bad = await limited.enqueue(delay_ms=1)
    await damage(world, bad, how)
    world.pass_ms(1)
    assert await world.due.promote(world.epoch, JobState.SCHEDULED) == (0, -1)
    good = await limited.enqueue("other")
    await world.operator_actions.delete(bad)
    k = world.shard.keys
    lane = k.lane((await world.get(good)).lane_id.hex())
    assert [key for key in await world.dump() if key.startswith(k.lane_prefix)] == [lane]
    # There is room behind its gate again.
    await limited.enqueue()


@pytest.mark.parametrize("key", [None, "name"])
async def test_nothing_stays_of_a_closed_gate_that_nobody_waits_at_any_more(
    limited: ConstrainedWorld, key: str | None
) -> None:
    world = limited.world
    await limited.limit(key=key, paused=True)
    ids = await limited.enqueue_many(range(3))
    assert await limited.take(await world.worker()) == []
    for job_id in ids:
        await world.operator_actions.cancel(job_id)
    await world.prune()
    redis, tag = world.redis, world.shard.keys.tag
    kinds = {key.decode().removeprefix(tag).split(":")[0] async for key in redis.scan_iter(match=f"{tag}*")}
    assert not kinds & {
        "lane",
        "lanes",
        "ready",
        "open",
        "open_groups",
        "parked",
        "waiters",
        "gates",
        "crowded",
        "names",
    }
