"""adopt_lanes.lua: where the name of a job decides about its gates, a change of constraints moves whole lanes."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.store.constraints.lanes import LaneStore, OldLane
from tests.support.constraints import EVERY_JOB, ConstrainedWorld, constraint
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("J13")

WORK = {"field": "name", "op": "eq", "value": "work"}
BY_ARGUMENT = {"field": "argument", "op": "ge", "value": 0}


@pytest.fixture
def limited(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


async def records(world: StoreWorld) -> dict[str, bytes]:
    prefix = world.shard.keys.job_prefix
    return {key: raw for key, raw in (await world.dump()).items() if key.startswith(prefix)}


async def waiting(limited: ConstrainedWorld, cid: str) -> int:
    return sum(count for gate, count in (await limited.structures()).waiting.items() if gate.startswith(cid))


async def test_no_job_is_touched_and_all_obey(world: StoreWorld, limited: ConstrainedWorld) -> None:
    ids = await limited.enqueue_many(range(6))
    later = await limited.enqueue(delay_ms=1_000)
    before = await records(world)
    one = await limited.limit("by-name", WORK, concurrency=2)
    assert await records(world) == before
    assert await waiting(limited, one.cid) == 7
    worker_id = await world.worker(max_jobs=50)
    jobs = await limited.claim(worker_id)
    assert [job.job_id for job in jobs] == ids[:2]
    await limited.succeed(worker_id, *jobs)
    world.pass_ms(1_000)
    await world.due.promote(world.epoch, JobState.SCHEDULED)
    assert await limited.take(worker_id) == ids[2:4]
    assert await waiting(limited, one.cid) == 3
    await limited.edit(one, concurrency=50)
    assert await limited.take(worker_id) == [*ids[4:], later]


async def test_older_jobs_go_before_those_that_were_pushed_after_the_change(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    first = await limited.enqueue_many(range(2))
    await limited.limit("one", WORK, concurrency=100)
    second = await limited.enqueue_many(range(2))
    await limited.limit("two", WORK, concurrency=100)
    urgent = await limited.enqueue(priority=-1)
    third = await limited.enqueue_many(range(2))
    assert await limited.take(await world.worker(max_jobs=50)) == [urgent, *first, *second, *third]


async def test_a_pause_holds_lanes_that_another_gate_had_closed(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    ids = await limited.enqueue_many(range(4))
    one = await limited.limit("one", WORK, concurrency=1)
    worker_id = await world.worker(max_jobs=50)
    (job,) = await limited.claim(worker_id)
    # The group lies at the closed gate.
    assert await limited.take(worker_id) == []
    pause = await limited.limit("pause", WORK, paused=True)
    await limited.succeed(worker_id, job)
    assert await limited.take(worker_id) == []
    assert (await waiting(limited, one.cid), await waiting(limited, pause.cid)) == (3, 3)
    await limited.remove("pause")
    assert await limited.take(worker_id) == ids[1:2]


async def test_with_a_key_each_job_is_matched(world: StoreWorld, limited: ConstrainedWorld) -> None:
    await limited.limit("keyed", BY_ARGUMENT, key="argument", concurrency=1)
    ids = await limited.enqueue_many([1, 1, 2])
    # The matcher no longer selects these jobs, whose records still name the gates of the same constraint.
    keyed = (await limited.store.load()).stored[0].constraint
    await limited.edit(keyed, matcher=parse_matcher({"field": "name", "op": "eq", "value": "other"}))
    assert await limited.take(await world.worker(max_jobs=50)) == ids


async def test_jobs_keep_the_gates_of_constraints_that_are_gone_and_these_let_them_through(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.limit("keyed", BY_ARGUMENT, key="argument", concurrency=1)
    ids = await limited.enqueue_many([1, 1, 2])
    await limited.remove("keyed")
    await limited.limit("by-name", WORK, concurrency=2)
    worker_id = await world.worker(max_jobs=50)
    jobs = await limited.claim(worker_id)
    assert [job.job_id for job in jobs] == ids[:2]
    await limited.succeed(worker_id, *jobs)
    assert await limited.take(worker_id) == ids[2:]


async def test_jobs_that_ask_for_labels_are_adopted_with_their_queue(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    ids = await limited.enqueue_many(range(3), requires={"pool": "big"})
    await limited.limit("by-name", WORK, concurrency=2)
    queue = 'work\t{"pool":"big"}'
    assert await limited.take(await world.worker("work", max_jobs=50), queue) == ids[:2]


async def test_lanes_of_changed_rules_and_of_another_leader_are_left_alone(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.enqueue("work")
    assert await limited.change("one", constraint("one", WORK, concurrency=1))
    stale = await limited.constraints.reload()
    (old,) = await world.lanes.older_lanes(stale.constraint_set.edition)
    assert await limited.change("two", constraint("two", WORK, concurrency=1))
    async with world.unchanged():
        assert await world.lanes.adopt(world.epoch, stale, [old]) == ([old], 0)
        unknown = OldLane("0" * 16, "work")
        present = await limited.constraints.reload()
        assert await world.lanes.adopt(world.epoch, present, [unknown]) == ([unknown], 0)
    await limited.follow_up()


@pytest.mark.parametrize("seed", range(5))
async def test_random_changes_leave_the_same_jobs_running_as_a_match_of_each_job(
    world: StoreWorld, limited: ConstrainedWorld, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds hold whichever way lanes are moved, and the world's own checks find the structures sound."""
    chance = random.Random(seed)
    adopt = LaneStore.adopt

    async def sometimes(self: LaneStore, *args: object) -> object:
        return await adopt(self, *args) if chance.random() < 0.7 else (args[2], 0)  # type: ignore[arg-type]

    monkeypatch.setattr(LaneStore, "adopt", sometimes)
    worker_id = await world.worker("work", "other", max_jobs=200)
    running: list[str] = []
    for _ in range(8):
        name = chance.choice(["work", "other"])
        await limited.enqueue_many(range(chance.randint(0, 4)), name, priority=chance.randint(0, 1))
        most = chance.randint(1, 6)
        matcher: Mapping[str, Any] = chance.choice([WORK, BY_ARGUMENT, EVERY_JOB])
        await limited.limit(chance.choice(["a", "b"]), matcher, concurrency=most)
        jobs = await limited.claim(worker_id, "work", "other")
        running += [job.job_id for job in jobs]
        for one in (await limited.store.load()).stored:
            slots = await limited.slots(one.constraint)
            assert sum(map(len, slots.values())) <= max(len(running), one.constraint.concurrency or 0)
        if jobs and chance.random() < 0.6:
            await limited.succeed(worker_id, *jobs)
            running = running[: -len(jobs)]
    for name in ("a", "b"):
        if (await limited.store.load()).named(name):
            await limited.remove(name)
    await limited.take(worker_id, "work", "other", limit=200)
    assert sum((await world.inspector.ready_counts(["work", "other"])).values()) == 0
