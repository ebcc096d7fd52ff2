"""A damaged key of one gate harms the jobs of that gate only, whatever the script has still to write."""

from collections.abc import Awaitable, Callable

import pytest

from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.domain.constraints.weight import Weight
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision, UsedUnits
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.matching.paths import parse_path
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.keys import Keys
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D30")

TOKENS = Weight(parse_path("argument.tokens"), 1000, "tokens")
KEYS: dict[str, Callable[[Keys, str], str]] = {
    "charges": lambda k, gate: k.charges(gate),
    "slots": lambda k, gate: k.slots(gate),
    "starts": lambda k, gate: k.starts(gate),
    "started": lambda k, gate: k.started(gate),
    "waiters": lambda k, gate: k.waiters(gate),
}
End = Callable[[StoreWorld, str, list[ClaimedJob]], Awaitable[object]]


async def succeed(world: StoreWorld, worker: str, jobs: list[ClaimedJob]) -> None:
    ended = [(job.job_id, job.token, b"") for job in jobs]
    used = {job.job_id: UsedUnits(0, {"tokens": 1000}) for job in jobs}
    assert await world.settlements.settle_success(worker, ended, used) == [True] * len(jobs)


async def fail(world: StoreWorld, worker: str, jobs: list[ClaimedJob]) -> None:
    decision = Decision(JobState.FAILED, "failure", is_counted=True)
    settlements = [world.settlement(await world.get(job.job_id), job.token, decision) for job in jobs]
    assert await world.settlements.settle(worker, settlements) == [True] * len(jobs)


async def damage(world: StoreWorld, key: str) -> None:
    """Replace a key by one of another type, as another program may."""
    is_text = await world.redis.type(key) == b"string"
    await world.redis.delete(key)
    if is_text:
        await world.redis.rpush(key, "x")
    else:
        await world.redis.set(key, "x")


@pytest.mark.parametrize("end", [succeed, fail])
@pytest.mark.parametrize("which", KEYS)
async def test_the_other_jobs_of_a_call_end_wholly(world: StoreWorld, which: str, end: End) -> None:
    constraints = ConstrainedWorld(world)
    one = await constraints.limit(key="argument.host", concurrency=4, rate=(100, 60_000), weight=TOKENS)
    await constraints.enqueue_many([{"tokens": 4, "host": host} for host in ("bad", "good")])
    later = await constraints.enqueue("work", {"tokens": 4, "host": "good"})
    worker = await world.worker()
    jobs = await constraints.claim(worker)
    assert len(jobs) == 2
    # The next claim sets the third job aside at its gate.
    assert await constraints.take(worker) == []
    k, bad = world.shard.keys, gate_id(one.cid, key_value("bad"))
    key = KEYS[which](k, bad)
    await damage(world, key)
    await end(world, worker, jobs)
    assert not await world.redis.exists(k.running, k.claims(worker))
    assert await constraints.take(worker) == [later]
    await world.redis.delete(key, *(name(k, bad) for name in KEYS.values()))
    await world.redis.hdel(k.charge_sums, bad)
    assert await world.findings() == []


@pytest.mark.parametrize(("which", "is_weighted"), [("slots", False), ("starts", False), ("starts", True)])
async def test_jobs_of_other_gates_are_claimed(world: StoreWorld, which: str, is_weighted: bool) -> None:
    constraints = ConstrainedWorld(world)
    weight = TOKENS if is_weighted else None
    one = await constraints.limit(key="argument.host", concurrency=4, rate=(100, 60_000), weight=weight)
    k, bad = world.shard.keys, gate_id(one.cid, key_value("bad"))
    key = KEYS[which](k, bad)
    await world.redis.rpush(key, "x")
    jobs = await constraints.enqueue_many([{"tokens": 1, "host": host} for host in ("bad", "good", "bad")])
    worker = await world.worker()
    assert await constraints.take(worker) == [jobs[1]]
    await world.redis.delete(key)
    # A closed gate whose keys cannot be read is checked again by and by.
    world.pass_ms(10_000)
    assert await constraints.open_gates()
    assert await constraints.take(worker) == [jobs[0], jobs[2]]
