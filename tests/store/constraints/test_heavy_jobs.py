"""A job that does not fit yet is not overtaken for ever, whichever workers take the lighter ones."""

import pytest

from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.domain.constraints.weight import Weight
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from jqmaster.store.jobs.operator_actions import Changes
from tests.support.constraints import ConstrainedWorld
from tests.support.store import LEASE_MS, StoreWorld

pytestmark = pytest.mark.req("D30")

TOKENS = Weight(parse_path("argument.tokens"), 1000, "tokens")
MINUTE_MS = 60_000


@pytest.fixture
def constraints(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


class LightLoad:
    """Workers that always take lighter jobs before anybody else may claim."""

    def __init__(self, constraints: ConstrainedWorld, names: tuple[str, ...], tokens: int) -> None:
        self._constraints, self._names, self._tokens = constraints, names, tokens
        self._workers: dict[str, str] = {}
        self.running: list[tuple[str, ClaimedJob]] = []

    async def start(self) -> None:
        for name in self._names:
            self._workers[name] = await self._constraints.world.worker(name)

    async def take(self) -> list[str]:
        """Enqueue jobs and claim for each worker. Return those that started."""
        before = len(self.running)
        for name, worker in self._workers.items():
            await self._constraints.enqueue_many([{"tokens": self._tokens, "host": "x"}] * 2, name)
            self.running += [(worker, job) for job in await self._constraints.claim(worker, name)]
        return [job.job_id for _, job in self.running[before:]]

    async def end_one(self) -> None:
        worker, job = self.running.pop(0)
        await self._constraints.succeed(worker, job)


async def lights(constraints: ConstrainedWorld, *names: str, tokens: int = 5) -> LightLoad:
    load = LightLoad(constraints, names or ("a", "c"), tokens)
    await load.start()
    await load.take()
    return load


async def enqueue_heavy(constraints: ConstrainedWorld, tokens: int) -> str:
    return await constraints.enqueue("work", {"tokens": tokens, "host": "x"})


@pytest.mark.parametrize("key", [None, "argument.host"])
@pytest.mark.parametrize(("light", "heavy"), [(5, 10), (4, 5), (2, 8), (3, 1000)])
async def test_no_younger_job_starts_before_a_heavy_one_whichever_workers_ask_first(
    constraints: ConstrainedWorld, light: int, heavy: int, key: str | None
) -> None:
    await constraints.limit(key=key, concurrency=10, weight=TOKENS)
    load = await lights(constraints, tokens=light)
    worker = await constraints.world.worker()
    job = await enqueue_heavy(constraints, heavy)
    assert await constraints.take(worker) == []
    started: list[str] = []
    for _ in range(50):
        await load.end_one()
        started += await load.take()
        if await constraints.take(worker) == [job]:
            break
        constraints.world.pass_ms(100)
    else:
        raise AssertionError(f"{len(started)} lighter jobs started, and the heavy one did not")
    assert [one for one in started if one > job] == []


async def test_a_rate_keeps_room_in_its_window_as_well(constraints: ConstrainedWorld) -> None:
    await constraints.limit(rate=(10, MINUTE_MS), weight=TOKENS)
    load = await lights(constraints, "a", tokens=5)
    worker = await constraints.world.worker()
    job = await enqueue_heavy(constraints, 8)
    started: list[str] = []
    for _ in range(20):
        if await constraints.take(worker) == [job]:
            break
        constraints.world.pass_ms(10_000)
        await constraints.open_gates()
        started += await load.take()
    else:
        raise AssertionError(f"{len(started)} lighter jobs started, and the heavy one did not")
    assert started == []


async def test_a_heavy_job_keeps_room_at_one_gate_while_it_waits_at_another(
    constraints: ConstrainedWorld,
) -> None:
    await constraints.limit("one", concurrency=10, weight=TOKENS)
    money = Weight(parse_path("argument.price"), 0, "yen")
    await constraints.limit("two", concurrency=10, weight=money)
    a, b, c = [await constraints.world.worker(name) for name in ("a", "b", "work")]
    await constraints.enqueue("a", {"tokens": 5})
    await constraints.enqueue("b", {"tokens": 0, "price": 5})
    (of_a,) = await constraints.claim(a, "a")
    (of_b,) = await constraints.claim(b, "b")
    job = await constraints.enqueue("work", {"tokens": 8, "price": 8})
    assert await constraints.take(c) == []
    await constraints.succeed(a, of_a)
    await constraints.enqueue("a", {"tokens": 5})
    assert await constraints.take(c) == []
    assert await constraints.take(a, "a") == []
    await constraints.succeed(b, of_b)
    assert await constraints.take(c) == [job]


async def claim_alone(constraints: ConstrainedWorld, worker: str, job: str) -> bool:
    edition = (await constraints.constraints.reload()).constraint_set.edition
    found = await constraints.world.claims.claim_alone(constraints.world.epoch, worker, job, edition)
    return isinstance(found, Claim)


@pytest.mark.parametrize("light", [4, 5])
async def test_a_suspect_job_that_runs_alone_keeps_room_too(
    constraints: ConstrainedWorld, light: int
) -> None:
    await constraints.limit(concurrency=10, weight=TOKENS)
    worker = await constraints.world.worker()
    job = await suspect(constraints, worker, 8)
    load = await lights(constraints, "a", tokens=light)
    assert not await claim_alone(constraints, worker, job)
    for _ in range(20):
        await load.end_one()
        await load.take()
        if await claim_alone(constraints, worker, job):
            break
    else:
        raise AssertionError("lighter jobs started again and again")


async def suspect(constraints: ConstrainedWorld, worker: str, tokens: int) -> str:
    """Return a job whose worker was lost, so that it waits for a worker of its own."""
    world = constraints.world
    job = await enqueue_heavy(constraints, tokens)
    (lost,) = await constraints.claim(worker)
    world.pass_ms(LEASE_MS)
    retried = world.settlement(
        await world.get(job), lost.token, Decision(JobState.RETRYING, "lost", delay_ms=600_000, is_loss=True)
    )
    assert await world.leases.reclaim(world.epoch, [retried]) == [True]
    return job


async def start_of_each(constraints: ConstrainedWorld) -> tuple[str, list[ClaimedJob], list[str]]:
    """Let one claim serve the lanes of two names in turn, until the gate is full. Return the worker, the jobs that
    started and those that wait, by age."""
    world = constraints.world
    before, worker = await world.worker("z"), await world.worker("a", "b")
    await constraints.enqueue("z", {"tokens": 10, "host": "x"})
    (running,) = await constraints.claim(before, "z")
    jobs = [await constraints.enqueue(name, {"tokens": 5, "host": "x"}) for name in "abab"]
    assert await constraints.take(worker, "a", "b") == []
    await constraints.succeed(before, running)
    begun = list((await constraints.claim_once(worker, "a", "b", limit=4)).jobs)
    started = {job.job_id for job in begun}
    assert len(started) == 2
    return worker, begun, [job for job in jobs if job not in started]


@pytest.mark.parametrize(("key", "fair"), [(None, False), ("argument.host", False), ("argument.host", True)])
async def test_a_claim_keeps_room_for_a_job_that_it_leaves_not_for_one_that_it_takes(
    constraints: ConstrainedWorld, key: str | None, fair: bool
) -> None:
    await constraints.limit(key=key, fair=fair, concurrency=10, weight=TOKENS)
    _, _, waiting = await start_of_each(constraints)
    redis = constraints.world.redis
    (note,) = [
        await redis.get(key) for key in await redis.keys(f"{constraints.world.shard.keys.tag}needed:*")
    ]
    assert note.decode().split()[4] == waiting[0]


@pytest.mark.parametrize(("key", "fair"), [(None, False), ("argument.host", False), ("argument.host", True)])
async def test_no_younger_job_starts_before_what_a_claim_has_left_in_a_lane_that_it_served_twice(
    constraints: ConstrainedWorld, key: str | None, fair: bool
) -> None:
    await constraints.limit(key=key, fair=fair, concurrency=10, weight=TOKENS)
    worker, begun, waiting = await start_of_each(constraints)
    other = await constraints.world.worker("c")
    await constraints.enqueue("c", {"tokens": 1, "host": "x"})
    await constraints.succeed(worker, begun[0])
    assert await constraints.take(other, "c") == []
    assert await constraints.take(worker, "a", "b") == waiting[:1]


# --- who may start while the room is kept


async def test_jobs_that_come_before_it_by_priority_or_age_start_as_usual(
    constraints: ConstrainedWorld,
) -> None:
    await constraints.limit(concurrency=10, weight=TOKENS)
    a, b = await constraints.world.worker("a", "c"), await constraints.world.worker()
    await constraints.enqueue("a", {"tokens": 6})
    assert len(await constraints.take(a, "a")) == 1
    older = await constraints.enqueue("c", {"tokens": 2})
    await enqueue_heavy(constraints, 8)
    assert await constraints.take(b) == []
    younger = await constraints.enqueue("a", {"tokens": 1})
    urgent = await constraints.enqueue("a", {"tokens": 1}, priority=-1)
    assert await constraints.take(a, "a") == [urgent]
    assert await constraints.take(a, "c") == [older]
    assert (await constraints.world.get(younger)).state is JobState.READY


async def test_jobs_that_fit_beside_the_kept_room_start(constraints: ConstrainedWorld) -> None:
    await constraints.limit(concurrency=10, weight=TOKENS)
    a, b = await constraints.world.worker("a"), await constraints.world.worker()
    first = await constraints.enqueue("a", {"tokens": 6})
    (running,) = await constraints.claim(a, "a")
    assert running.job_id == first
    job = await enqueue_heavy(constraints, 5)
    assert await constraints.take(b) == []
    light = await constraints.enqueue_many([{"tokens": 3}] * 3, "a")
    assert await constraints.take(a, "a") == []
    await constraints.succeed(a, running)
    assert await constraints.take(a, "a") == light[:1]
    assert await constraints.take(b) == [job]
    assert await constraints.take(a, "a") == []


async def test_a_job_whose_workers_are_busy_holds_others_back_for_two_seconds(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    await constraints.limit(concurrency=10, weight=TOKENS)
    a, b = await world.worker("a"), await world.worker()
    await constraints.enqueue("a", {"tokens": 6})
    (running,) = await constraints.claim(a, "a")
    await enqueue_heavy(constraints, 10)
    assert await constraints.take(b) == []
    (light,) = await constraints.enqueue_many([{"tokens": 6}], "a")
    await constraints.succeed(a, running)
    assert await constraints.take(a, "a") == []
    world.pass_ms(1_999)
    await constraints.open_gates()
    assert await constraints.take(a, "a") == []
    world.pass_ms(1)
    assert await constraints.open_gates()
    assert await constraints.take(a, "a") == [light]


async def test_a_job_that_nobody_asks_for_holds_others_back_for_a_minute(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    await constraints.limit(concurrency=10, weight=TOKENS)
    a, b = await world.worker("a"), await world.worker()
    await constraints.enqueue("a", {"tokens": 6})
    assert len(await constraints.take(a, "a")) == 1
    job = await enqueue_heavy(constraints, 10)
    assert await constraints.take(b) == []
    (light,) = await constraints.enqueue_many([{"tokens": 1}], "a")
    assert await constraints.take(a, "a") == []
    # It is asked for again in time, although nothing else happens at the gate.
    world.pass_ms(30_000)
    assert await constraints.open_gates()
    assert await constraints.take(a, "a") == []
    assert await constraints.take(b) == []
    for _ in range(2):
        world.pass_ms(30_000)
        assert await constraints.open_gates()
        last = await constraints.take(a, "a")
    assert last == [light]
    assert (await world.get(job)).state is JobState.READY


# --- the end of the wait


@pytest.mark.parametrize("how", ["cancel", "expire", "priority", "move", "weight", "delete"])
async def test_the_gate_opens_at_once_when_the_job_no_longer_waits_for_it(
    constraints: ConstrainedWorld, how: str
) -> None:
    world = constraints.world
    one = await constraints.limit(concurrency=10, weight=TOKENS)
    a, b = await world.worker("a"), await world.worker()
    await constraints.enqueue("a", {"tokens": 6})
    assert len(await constraints.take(a, "a")) == 1
    deadline_ms = world.now_ms + 1_000
    job = await constraints.enqueue(
        "work", {"tokens": 8}, expires_at_ms=deadline_ms if how == "expire" else None
    )
    assert await constraints.take(b) == []
    (light,) = await constraints.enqueue_many([{"tokens": 3}], "a")
    assert await constraints.take(a, "a") == []
    match how:
        case "cancel":
            await world.operator_actions.cancel(job)
        case "expire":
            world.pass_ms(1_000)
            await world.due.expire(world.epoch)
        case "priority":
            rules = (await constraints.constraints.reload()).constraint_set
            await world.operator_actions.patch(await world.get(job), Changes(priority=5), rules)
        case "move":
            await constraints.edit(one, matcher=parse_matcher({"field": "name", "op": "eq", "value": "a"}))
        case "weight":
            await constraints.edit(one, weight=Weight(parse_path("argument.size"), 1000, "tokens"))
        case _:
            await constraints.remove()
    assert await constraints.take(a, "a") == [light]


async def test_a_job_that_a_claim_finds_expired_waits_no_more(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    await constraints.limit(concurrency=10, weight=TOKENS)
    a, b = await world.worker("a"), await world.worker()
    await constraints.enqueue("a", {"tokens": 6})
    assert len(await constraints.take(a, "a")) == 1
    await constraints.enqueue("work", {"tokens": 8}, expires_at_ms=world.now_ms + 1_000)
    assert await constraints.take(b) == []
    (light,) = await constraints.enqueue_many([{"tokens": 3}], "a")
    world.pass_ms(30_000)
    assert await constraints.open_gates()
    assert await constraints.take(a, "a") == []
    assert await constraints.take(b) == []
    assert await constraints.take(a, "a") == [light]


async def test_the_start_of_the_job_ends_its_wait(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    await constraints.limit(concurrency=10, weight=TOKENS)
    a, b = await world.worker("a"), await world.worker()
    await constraints.enqueue("a", {"tokens": 6})
    (running,) = await constraints.claim(a, "a")
    job = await enqueue_heavy(constraints, 8)
    assert await constraints.take(b) == []
    assert len(await world.redis.keys(f"{world.shard.keys.tag}needed:*")) == 1
    await constraints.succeed(a, running)
    assert await constraints.take(b) == [job]
    assert await world.redis.keys(f"{world.shard.keys.tag}needed:*") == []


@pytest.mark.parametrize("key", [None, "argument.host"])
@pytest.mark.parametrize("how", ["cancel", "expire", "delete", "promote and cancel"])
async def test_the_gate_opens_at_once_when_a_suspect_job_no_longer_waits_for_it(
    constraints: ConstrainedWorld, how: str, key: str | None
) -> None:
    world = constraints.world
    await constraints.limit(key=key, concurrency=10, weight=TOKENS)
    a, b = await world.worker("a"), await world.worker()
    job = await suspect(constraints, b, 8)
    await constraints.enqueue_many([{"tokens": 6, "host": "x"}], "a")
    assert len(await constraints.take(a, "a")) == 1
    assert not await claim_alone(constraints, b, job)
    (light,) = await constraints.enqueue_many([{"tokens": 3, "host": "x"}], "a")
    assert await constraints.take(a, "a") == []
    match how:
        case "cancel":
            await world.operator_actions.cancel(job)
        case "expire":
            await world.redis.zadd(world.shard.keys.expiring, {job: world.now_ms})
            await world.due.expire(world.epoch)
        case "delete":
            await world.operator_actions.delete(job)
        case _:
            await world.operator_actions.run_now(job)
            await world.operator_actions.cancel(job)
    assert await constraints.take(a, "a") == [light]


async def test_a_note_that_is_damaged_stops_no_script(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    one = await constraints.limit(concurrency=10, weight=TOKENS)
    worker = await world.worker()
    first, second = await constraints.enqueue_many([{"tokens": 6, "host": "x"}] * 2)
    key = world.shard.keys.needed(gate_id(one.cid, None))
    await world.redis.hset(key, "a", "b")
    assert await constraints.take(worker) == [first]
    await world.redis.unlink(key)
    await world.redis.hset(key, "a", "b")
    await world.operator_actions.cancel(second)
    assert (await world.get(second)).state is JobState.CANCELED
    await world.redis.unlink(key)
