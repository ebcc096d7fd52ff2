"""lua/constraints/why.lua reports the gates, holders and jobs ahead that the next claim meets."""

import random
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.constraints.constraint import Mode, gate_id
from jqmaster.domain.constraints.gate_check import GateCheck
from jqmaster.domain.constraints.limit_kinds import CONCURRENCY, HOLD, PAUSE, RATE, closing
from jqmaster.domain.content.content import full_access, no_access
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.jobs.predecessors import After
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.why.facts import Accuracy, JobsAhead, Snapshot
from jqmaster.domain.why.verdict import Ahead
from jqmaster.errors import DamagedError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.why import WhyPolicy, WhyService
from jqmaster.store import codec
from jqmaster.store.constraints import why as why_module
from jqmaster.store.constraints.why import WhyStore
from jqmaster.store.jobs.settlements import GateHold
from tests.support import long
from tests.support.constraints import ConstrainedWorld, constraint, override
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("J13")


async def look(world: StoreWorld, job_id: str, *rivals: str) -> Snapshot:
    snapshot = await WhyStore(world.shard, world.records).snapshot(job_id, rivals)
    assert snapshot
    return snapshot


async def jobs_ahead(world: StoreWorld, job_id: str, *rivals: str) -> JobsAhead:
    found = (await look(world, job_id, *rivals)).jobs_ahead
    assert found
    return found


async def only_gate(world: StoreWorld, job_id: str) -> GateCheck:
    (gate,) = (await look(world, job_id)).gates
    return gate


@pytest.fixture
def limited(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


async def test_an_unknown_job_has_no_snapshot(world: StoreWorld) -> None:
    assert await WhyStore(world.shard, world.records).snapshot(new_id()) is None


async def test_a_job_that_waits_for_others_names_them_with_their_states(world: StoreWorld) -> None:
    _, running = await world.running()
    first = await world.enqueue()
    second = await world.enqueue(after=After((first, running.job_id)))
    snapshot = await look(world, second)
    assert set(snapshot.awaits) == {(first, "ready"), (running.job_id, "running")}
    assert snapshot.awaits_count == 2


async def test_it_writes_nothing(world: StoreWorld, limited: ConstrainedWorld) -> None:
    await limited.limit("c", key="argument.k", concurrency=1, rate=(5, 1000))
    worker = await world.worker()
    first, second = await limited.enqueue(argument={"k": 1}), await limited.enqueue(argument={"k": 1})
    assert await limited.take(worker) == [first]
    async with world.unchanged():
        await look(world, second, "other")
        await look(world, first)


async def test_without_constraints_the_older_and_the_more_urgent_come_before(world: StoreWorld) -> None:
    jobs = await world.enqueue_many(5)
    urgent = await world.enqueue(priority=-1)
    await world.enqueue(priority=1)
    assert await jobs_ahead(world, urgent) == JobsAhead({}, Accuracy.EXACT)
    assert [(await jobs_ahead(world, job)).by_name.get("work", 0) for job in jobs] == [1, 2, 3, 4, 5]
    snapshot = await look(world, jobs[0])
    assert (snapshot.has_leader, snapshot.gates, snapshot.lease_until_ms) == (True, (), None)
    assert snapshot.now_ms == world.now_ms
    assert snapshot.edition == snapshot.settled_edition == snapshot.lane_edition == 0


async def test_other_names_of_the_same_workers_count_by_name(world: StoreWorld) -> None:
    await world.enqueue_many(3, "mail")
    await world.enqueue_many(2, "feed")
    await world.enqueue_many(4, "later", priority=7)
    await world.enqueue_many(2, "foreign")
    job = await world.enqueue("work")
    assert await jobs_ahead(world, job, "mail", "feed", "later") == JobsAhead(
        {"mail": 3, "feed": 2}, Accuracy.EXACT
    )
    assert await jobs_ahead(world, job) == JobsAhead({}, Accuracy.EXACT)


async def test_a_full_gate_names_its_holders_the_longest_running_first(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    made = await limited.limit("per-host", key="argument.host", concurrency=2)
    worker = await world.worker(max_jobs=50)
    holders = []
    for _ in range(2):
        holders.append(await limited.enqueue(argument={"host": "a"}))
        assert await limited.take(worker) == holders[-1:]
        world.pass_ms(7_000)
    blocked = await limited.enqueue(argument={"host": "a"})
    free = await limited.enqueue(argument={"host": "b"})
    gate = await only_gate(world, blocked)
    assert gate.gate_id.startswith(made.cid)
    assert (gate.value, gate.is_closed, closing(gate)) == ("a", True, (CONCURRENCY,))
    assert (gate.figures.get("concurrency"), gate.running, gate.waiting, gate.opens_at_ms) == (2, 2, 1, None)
    assert [(h.job_id, h.worker_id) for h in gate.holders] == [(job, worker) for job in holders]
    assert [world.now_ms - h.since_ms for h in gate.holders] == [14_000, 7_000]
    other = await only_gate(world, free)
    assert (other.value, other.is_closed, other.running, other.holders) == ("b", False, 0, ())
    assert await jobs_ahead(world, free) == JobsAhead({}, Accuracy.EXACT)
    assert await limited.take(worker) == [free]


@pytest.mark.parametrize("slots", [12, 150])
async def test_ten_of_many_holders_are_told(world: StoreWorld, limited: ConstrainedWorld, slots: int) -> None:
    await limited.limit("c", concurrency=slots)
    worker = await world.worker(max_jobs=500)
    jobs = [await limited.enqueue() for _ in range(slots)]
    assert await limited.take(worker, limit=slots) == jobs
    gate = await only_gate(world, await limited.enqueue())
    assert gate.running == slots
    assert len({h.job_id for h in gate.holders} & set(jobs)) == why_module.MAX_HOLDERS


async def test_a_spent_rate_opens_when_its_oldest_start_leaves_the_window(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.limit("c", rate=(2, 10_000))
    worker = await world.worker()
    first, second, third = [await limited.enqueue() for _ in range(3)]
    began_ms = world.now_ms
    assert await limited.take(worker, limit=1) == [first]
    world.pass_ms(3_000)
    assert await limited.take(worker, limit=5) == [second]
    gate = await only_gate(world, third)
    assert (closing(gate), gate.figures.get("starts")) == ((RATE,), 2)
    assert gate.opens_at_ms is not None
    assert gate.opens_at_ms == began_ms + 10_001
    world.pass_ms(gate.opens_at_ms - world.now_ms - 1)
    await limited.open_gates()
    assert await limited.take(worker) == []
    assert (await only_gate(world, third)).is_closed
    world.pass_ms(1)
    await limited.open_gates()
    assert not (await only_gate(world, third)).is_closed
    assert await limited.take(worker) == [third]


async def test_a_pause_a_hold_and_an_override_are_told_apart(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    made = await limited.limit("c", key="argument.k", concurrency=5,
        overrides=(override("paused", paused=True), override("one", concurrency=1)),
    )  # fmt: skip
    worker = await world.worker()
    paused, one, plain = [await limited.enqueue(argument={"k": k}) for k in ("paused", "one", "plain")]
    gate = await only_gate(world, paused)
    assert (closing(gate), gate.figures.get("is_paused"), gate.is_override, gate.opens_at_ms) == (
        (PAUSE,),
        True,
        True,
        None,
    )
    gate = await only_gate(world, one)
    assert (closing(gate), gate.figures.get("concurrency"), gate.is_override) == ((), 1, True)
    held = gate_id(made.cid, key_value("plain"))
    claimed = {job.job_id: job for job in await limited.claim(worker)}
    assert claimed.keys() == {one, plain}
    settlement = replace(
        world.settlement(await world.get(plain), claimed[plain].token, Decision(JobState.READY, "deferred")),
        hold=GateHold(held, 30_000),
    )
    assert await world.settlements.settle(worker, [settlement]) == [True]
    gate = await only_gate(world, plain)
    assert (closing(gate), gate.is_override) == ((HOLD,), False)
    assert gate.figures.get("held_until_ms") == gate.opens_at_ms == world.now_ms + 30_000
    assert await limited.take(worker) == []


async def test_a_shadow_gate_tells_what_it_would_close_and_closes_nothing(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.limit("c", concurrency=1, mode=Mode.SHADOW)
    worker = await world.worker()
    first, second = await limited.enqueue(), await limited.enqueue()
    assert await limited.take(worker, limit=1) == [first]
    gate = await only_gate(world, second)
    assert (gate.is_shadow, gate.is_closed, gate.running, gate.figures.get("concurrency")) == (
        True,
        True,
        1,
        1,
    )
    assert await jobs_ahead(world, second) == JobsAhead({}, Accuracy.EXACT)
    assert await limited.take(worker) == [second]


async def test_blocked_jobs_of_others_do_not_count_and_open_ones_count_up_to_their_room(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.limit("per-host", key="argument.host", concurrency=2)
    worker = await world.worker(max_jobs=50)
    for _ in range(10):
        await limited.enqueue(argument={"host": "a"})
    assert len(await limited.take(worker)) == 2
    for _ in range(5):
        await limited.enqueue(argument={"host": "b"})
    own = [await limited.enqueue(argument={"host": "c"}) for _ in range(4)]
    assert [(await jobs_ahead(world, job)).by_name.get("work", 0) for job in own] == [2, 3, 4, 5]
    assert (await jobs_ahead(world, own[0])).bound is Accuracy.EXACT
    assert (await limited.take(worker))[2:] == own[:2]


async def test_behind_a_closed_gate_those_that_wait_at_it_come_first_of_whatever_name(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.limit("all", concurrency=1)
    await limited.limit("per-host", key="argument.host", concurrency=1)
    worker = await world.worker("work", "mail")
    holder = await limited.enqueue(argument={"host": "a"})
    assert await limited.take(worker, "work", "mail") == [holder]
    for name, host in (("work", "a"), ("mail", "a"), ("mail", "b"), ("work", "b"), ("other", "a")):
        await limited.enqueue(name, {"host": host})
    assert await limited.take(worker, "work", "mail") == []
    job = await limited.enqueue(argument={"host": "a"})
    snapshot = await look(world, job, "mail")
    assert [gate.is_closed for gate in snapshot.gates] == [True, True]
    # The two jobs for host b may start one at a time.
    assert snapshot.jobs_ahead == JobsAhead({"work": 2, "mail": 1}, Accuracy.EXACT)


async def test_under_a_fair_constraint_the_key_served_last_waits_its_turn(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.limit("fair", key="argument.t", fair=True, max_backlog=1000)
    worker = await world.worker(max_jobs=100)
    many = [await limited.enqueue(argument={"t": "a"}) for _ in range(6)]
    few = [await limited.enqueue(argument={"t": "b"}) for _ in range(2)]
    world.pass_ms(1)
    expected = {job: await jobs_ahead(world, job) for job in [*many, *few]}
    order = await limited.take(worker)
    # The count over two keys is exact, whatever it is called.
    assert {job: order.index(job) for job in order} == {
        job: found.by_name.get("work", 0) for job, found in expected.items()
    }
    assert expected[many[0]].bound is Accuracy.EXACT
    assert expected[many[3]].bound is Accuracy.ABOUT


async def test_while_constraints_change_the_job_is_in_no_lane_of_theirs(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    job = await world.enqueue()
    assert await limited.change("c", constraint("c", concurrency=1))
    snapshot = await look(world, job)
    edition = snapshot.edition
    assert edition > 0
    assert (snapshot.settled_edition, snapshot.lane_edition) == (0, 0)
    assert (snapshot.gates, snapshot.jobs_ahead) == ((), None)
    await limited.follow_up()
    snapshot = await look(world, job)
    assert (snapshot.edition, snapshot.settled_edition, snapshot.lane_edition) == (edition,) * 3
    assert (len(snapshot.gates), snapshot.jobs_ahead) == (1, JobsAhead({}, Accuracy.EXACT))


async def test_it_counts_only_certain_lanes_and_names_if_there_are_too_many(
    world: StoreWorld, limited: ConstrainedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why_module, "MAX_LANES", 5)
    await limited.limit("c", key="argument.k", fair=True)
    for k in range(8):
        await limited.enqueue(argument={"k": k})
    job = await limited.enqueue(argument={"k": "mine"})
    assert await jobs_ahead(world, job) == JobsAhead({"work": 5}, Accuracy.AT_LEAST)
    monkeypatch.setattr(why_module, "MAX_NAMES", 1)
    first = await limited.enqueue("work", {"k": 9}, priority=-5)
    assert await jobs_ahead(world, first, "a", "b") == JobsAhead({}, Accuracy.AT_LEAST)


async def test_it_counts_only_certain_jobs_if_too_many_have_keys(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.limit("c", key="argument.k", concurrency=1)
    jobs = await limited.enqueue_many([{"k": n} for n in range(600)])
    assert await jobs_ahead(world, jobs[450]) == JobsAhead({"work": 450}, Accuracy.EXACT)
    assert await jobs_ahead(world, jobs[550]) == JobsAhead({"work": 500}, Accuracy.AT_LEAST)


async def test_without_keys_any_number_is_counted_exactly(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.limit("c", rate=(10, 1000))
    jobs = await limited.enqueue_many(range(5000))
    found = await WhyStore(world.shard, world.records).snapshot(jobs[4321], is_keyed=False)
    assert found
    assert found.jobs_ahead == JobsAhead({"work": 4321}, Accuracy.EXACT)


async def test_without_a_leader_it_says_so(world: StoreWorld) -> None:
    job = await world.enqueue()
    await world.redis.delete(world.shard.keys.leader)
    assert (await look(world, job)).has_leader is False


async def test_a_running_job_shows_its_lease(world: StoreWorld) -> None:
    _, job = await world.running()
    snapshot = await look(world, job.job_id)
    assert (snapshot.job.state, snapshot.jobs_ahead) == (JobState.RUNNING, None)
    assert snapshot.lease_until_ms == world.now_ms + 15_000


async def test_a_job_that_waits_for_a_time_or_is_over_stands_nowhere(world: StoreWorld) -> None:
    later = await world.enqueue(delay_ms=5000)
    assert (await look(world, later)).jobs_ahead is None
    await world.operator_actions.cancel(later)
    snapshot = await look(world, later)
    assert (snapshot.job.state, snapshot.gates, snapshot.jobs_ahead) == (JobState.CANCELED, (), None)


async def test_the_answer_tells_of_damaged_records(world: StoreWorld) -> None:
    job = await world.enqueue()
    redis, k = world.redis, world.shard.keys
    record = await redis.get(k.job(job))
    await redis.set(k.job(job), record[:50])
    with pytest.raises(DamagedError):
        await look(world, job)
    await redis.set(k.job(job), record)
    await redis.zrem(world.ready(), job)
    snapshot = await look(world, job)
    assert (snapshot.jobs_ahead, snapshot.index_fault) == (None, "is not in the list of its lane")
    await redis.zadd(world.ready(), {job: 0})
    await redis.delete(k.job(job))
    await redis.hset(k.job(job), "a", "b")
    with pytest.raises((DamagedError, StoreUnavailableError)):
        await look(world, job)
    await redis.delete(k.job(job))
    await redis.set(k.job(job), record)


@pytest.mark.sized
@pytest.mark.parametrize("seed", range(long.size(12, 30)))
async def test_the_next_claims_do_what_it_says(
    world: StoreWorld, limited: ConstrainedWorld, seed: int
) -> None:
    """A job that is reported as next is taken next; a job that waits for a constraint is not taken; no job waits longer
    than reported."""
    rng = random.Random(seed)
    names = ("work", "mail")
    kinds: list[dict[str, Any]] = [
        {"key": "argument.a", "concurrency": rng.randint(1, 3)},
        {"key": "argument.b", "concurrency": rng.randint(1, 2)},
        {"concurrency": rng.randint(2, 6)},
        {"key": "argument.a", "rate": (rng.randint(1, 3), 60_000)},
        {"matcher": {"field": "name", "op": "eq", "value": "mail"}, "concurrency": rng.randint(1, 3)},
    ]
    chosen = rng.sample(range(len(kinds)), rng.randint(0, 3))
    for n in chosen:
        await limited.limit(f"c{n}", **kinds[n])
    worker = await world.worker(*names, max_jobs=1000, url="http://127.0.0.1:1")
    waiting: list[str] = []

    async def push(count: int) -> None:
        for _ in range(count):
            argument = {"a": rng.randint(0, 2), "b": rng.randint(0, 2)}
            waiting.append(
                await limited.enqueue(rng.choice(names), argument, priority=rng.choice((0, 0, 0, 1)))
            )
            world.pass_ms(rng.choice((0, 1)))

    await push(12)
    claimed = await limited.claim(worker, *names, limit=rng.randint(1, 5))
    waiting = [job for job in waiting if job not in {one.job_id for one in claimed}]
    await push(6)
    if claimed:
        await limited.succeed(worker, *rng.sample(claimed, rng.randint(0, len(claimed))))
    service = WhyService(
        WhyStore(world.shard, world.records),
        world.workers,
        world.constraints,
        policy=LiveValue(WhyPolicy(5000, 0)),
        reach=dict,
    )
    said = {job: {v.code: v for v in (await service.why(job, full_access([]))).verdicts} for job in waiting}
    place = 0
    while True:
        now = {
            job: {v.code: v for v in (await service.why(job, full_access([]))).verdicts} for job in waiting
        }
        taken = await limited.take(worker, *names, limit=1)
        following = [job for job in waiting if "next" in now[job]]
        if not following and taken and "ahead" in now[taken[0]]:
            # The job's lane lay behind another one at a gate that is open again: which goes first is not predictable.
            assert getattr(now[taken[0]]["ahead"], "bound", None) is Accuracy.AT_LEAST, (chosen, now)
        else:
            assert following == taken, (chosen, now)
        for job in waiting:
            assert len({"next", "ahead", "constraint"} & now[job].keys()) >= 1
        if not taken:
            assert all("constraint" in now[job] for job in waiting), now
            break
        assert "constraint" not in now[taken[0]]
        assert "constraint" not in said[taken[0]]
        if isinstance(ahead := said[taken[0]].get("ahead"), Ahead) and ahead.bound is Accuracy.EXACT:
            assert place <= ahead.count, (chosen, ahead)
        waiting.remove(taken[0])
        place += 1


@pytest.mark.req("M13")
async def test_a_job_that_was_put_off_tells_why_to_those_who_may_know(world: StoreWorld) -> None:
    worker_id, job = await world.running()
    store = WhyStore(world.shard, world.records)
    assert await store.last_end(job.job_id) is None
    found = await world.records.get(job.job_id)
    assert found
    decision = Decision(JobState.SCHEDULED, "not_ready", delay_ms=20_000)
    entry = codec.encode_attempt(found, "not_ready", "the target answered 503 and asks to wait 20 s.", None)
    settlement = replace(world.settlement(found, job.token, decision), entry=entry)
    assert await world.settlements.settle(worker_id, [settlement]) == [True]
    last = await store.last_end(job.job_id)
    assert last
    assert last.outcome == "not_ready"
    service = WhyService(
        store, world.workers, world.constraints, policy=LiveValue(WhyPolicy(10_000, 10_000)), reach=dict
    )
    (verdict,) = (await service.why(job.job_id, full_access(()))).verdicts
    assert verdict.text.endswith("put off: the target answered 503 and asks to wait 20 s.")
    (verdict,) = (await service.why(job.job_id, no_access(()))).verdicts
    assert "503" not in verdict.text


async def test_the_keyed_gates_of_jobs_tell_which_wait_for_the_same(
    world: StoreWorld, limited: ConstrainedWorld
) -> None:
    await limited.limit("hosts", key="argument.host", concurrency=1)
    same = [await limited.enqueue(argument={"host": "acme"}) for _ in range(2)]
    other = await limited.enqueue(argument={"host": "globex"})
    damaged = new_id()
    await world.redis.set(world.shard.keys.job(damaged), b"\x02")
    store = WhyStore(world.shard, world.records)
    first, second, third, *none = await store.keyed_gates([*same, other, new_id(), damaged])
    assert first == second != third
    assert none == [b"", b""]
    await world.redis.delete(world.shard.keys.job(damaged))
