"""repair_*.lua fixes each disagreement that fsck finds according to the record; records stay unchanged."""

from collections.abc import Awaitable, Callable

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.domain.targets.callback import TARGET_META
from jqmaster.errors import StaleEpochError
from jqmaster.store.health.findings import Finding
from jqmaster.store.health.repair import Repair
from jqmaster.store.identity.audit import AuditStore
from jqmaster.store.jobs.slot_gates import slot_gate_pages
from jqmaster.store.keys import Keys
from jqmaster.store.link import shared_scan
from tests.store.health.test_fsck import HARMS, SLOT_HARMS
from tests.store.jobs.test_operator_actions import job_in
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.store import LEASE_MS, NO_KEY, TIMES, StoreWorld

# The record itself is missing or wrong: nothing can tell what it said.
BEYOND_REPAIR = {"wrong type", "cut short", "set aside", "wrong index"}
# The record is gone, and nothing tells where its job was counted.
COUNTED_FOR_GOOD = {"gone", "gone while claimed"}


async def repaired(world: StoreWorld) -> list[Finding]:
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    return [finding async for step in repair.steps() for finding in step.repaired]


async def records(world: StoreWorld) -> dict[str, bytes]:
    k = world.shard.keys
    return {
        key: raw
        for key, raw in (await world.dump()).items()
        if key.startswith((k.job_prefix, k.result_prefix))
    }


@pytest.fixture
def limited(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


@pytest.mark.parametrize("harm", sorted(set(HARMS) - BEYOND_REPAIR))
async def test_each_disagreement_is_put_right_and_no_job_is_harmed(world: StoreWorld, harm: str) -> None:
    state, _, do = HARMS[harm]
    other = await world.enqueue("work2")
    job = await job_in(world, state, keep_result=True)
    await do(world, job, world.shard.keys)
    before = await records(world)
    found = await world.findings()
    assert found
    assert {f.key for f in await repaired(world)} >= {f.key for f in found if f.rule != "lane"}
    assert await world.findings() == []
    assert await records(world) == before
    world.never_counted_out["work"] += harm in COUNTED_FOR_GOOD
    # One pass is enough, and another one changes nothing.
    async with world.unchanged():
        assert await repaired(world) == []
    worker = await world.worker("work", "work2", max_jobs=10)
    claimed = [j.job_id for j in await world.claim(worker, "work", "work2")]
    assert claimed == [other, *([job.id] if state is JobState.READY else [])]


@pytest.mark.parametrize("harm", sorted(BEYOND_REPAIR - {"wrong index"}))
async def test_facts_that_nobody_can_know_are_left_unchanged(world: StoreWorld, harm: str) -> None:
    state, _, do = HARMS[harm]
    job = await job_in(world, state)
    await do(world, job, world.shard.keys)
    found = await world.findings()
    async with world.unchanged():
        assert await repaired(world) == []
    assert await world.findings() == found
    await world.redis.unlink(*[key for key in await world.dump() if key != world.shard.keys.epoch])


async def test_a_record_that_says_it_is_over_is_believed(world: StoreWorld) -> None:
    """The record wins, whatever names the job as running: somebody may have been told of its end."""
    job = await job_in(world, JobState.RUNNING)
    k = world.shard.keys
    await world.redis.setrange(k.job(job.id), 1, b"\x06")
    await repaired(world)
    assert await world.findings() == []
    assert await world.redis.zrange(k.index(JobState.SUCCEEDED), 0, -1) == [job.id.encode()]
    assert not await world.redis.exists(k.running, k.claims(job.worker_id))
    # The lane counts one finished job: a count that is too high is harmless.
    world.never_counted_out["work"] = 1


@pytest.mark.parametrize("state", [s for s in JobState if s is not JobState.READY])
async def test_a_job_that_no_index_names_comes_back_to_its_own(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state)
    index = world.shard.keys.index(state)
    score = await world.score(index, job.id)
    await world.redis.zrem(index, job.id)
    await repaired(world)
    assert await world.findings() == []
    # The record does not say when a lease ends: it gets a new one.
    expected = world.now_ms + LEASE_MS if state is JobState.RUNNING else score
    assert await world.score(index, job.id) == expected


async def test_a_running_job_that_came_back_is_renewed_and_ends_as_any(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.redis.delete(world.shard.keys.running, world.shard.keys.claims(worker))
    await repaired(world)
    renewed = await world.workers.renew(worker, [(job.job_id, job.token)], 0)
    assert renewed
    assert (renewed.lost, renewed.to_cancel) == (frozenset(), frozenset())
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]


async def test_attempts_of_a_job_that_is_gone_go_too(world: StoreWorld) -> None:
    job = await job_in(world, JobState.FAILED)
    k = world.shard.keys
    await world.redis.delete(k.job(job.id))
    await world.redis.zrem(k.index(JobState.FAILED), job.id)
    assert [f.rule for f in await repaired(world)] == ["history"]
    assert not await world.redis.exists(k.history(job.id))


# --- lanes


LaneHarm = Callable[[StoreWorld, Job, Keys], Awaitable[object]]


async def _fields(world: StoreWorld, job: Job, **changes: str) -> None:
    """Change some fields of a lane."""
    key = world.shard.keys.lane(job.lane_id.hex())
    names = ("name", "edition", "group", "shared", "keyed", "at", "score", "member", "jobs")
    kept = dict(zip(names, (await world.redis.get(key)).decode().split("\n"), strict=True))
    await world.redis.set(key, "\n".join((kept | changes).values()))


async def _nothing_open(world: StoreWorld, k: Keys) -> None:
    await world.redis.delete(*[key for key in await world.dump() if key.startswith(k.open_prefix)])


async def _lane_gone(world: StoreWorld, job: Job, k: Keys) -> None:
    await _nothing_open(world, k)
    await world.redis.delete(k.lane(job.lane_id.hex()), k.lanes("work"), k.open_groups("work"))


LANE_HARMS: dict[str, LaneHarm] = {
    "stands nowhere": lambda w, j, k: _nothing_open(w, k),
    "stands elsewhere": lambda w, j, k: _fields(w, j, score="7"),
    "says another first job": lambda w, j, k: _fields(w, j, member="0" * 52),
    "says nothing": lambda w, j, k: _fields(w, j, member=""),
    "no claim finds it": lambda w, j, k: w.redis.delete(k.open_groups("work")),
    "its name does not list it": lambda w, j, k: w.redis.delete(k.lanes("work")),
    "listed under another edition": lambda w, j, k: w.redis.zadd(k.lanes("work"), {j.lane_id.hex(): 5}),
    "counts too few": lambda w, j, k: _fields(w, j, jobs="1"),
    "name unknown": lambda w, j, k: w.redis.srem(k.names, "work"),
    "counts the ready wrong": lambda w, j, k: w.redis.hincrby(k.ready_counts, "work", -2),
}


@pytest.mark.parametrize("harm", LANE_HARMS)
async def test_a_lane_is_put_where_its_first_job_belongs(world: StoreWorld, harm: str) -> None:
    ids = await world.enqueue_many(3)
    await LANE_HARMS[harm](world, await world.get(ids[0]), world.shard.keys)
    assert {f.rule for f in await world.findings()} == {"lane"}
    before = await records(world)
    assert await repaired(world)
    assert await world.findings() == []
    assert await records(world) == before
    assert [job.job_id for job in await world.claim(await world.worker())] == ids


async def test_a_lane_of_which_nothing_is_left_is_made_anew(world: StoreWorld) -> None:
    ids = await world.enqueue_many(3)
    await _lane_gone(world, await world.get(ids[0]), world.shard.keys)
    assert await repaired(world)
    # The leader has to match its jobs again: they belong to no edition, and none may start before.
    assert await world.findings() == []
    stored = (await world.redis.get(world.shard.keys.lane((await world.get(ids[0])).lane_id.hex()))).decode()
    assert stored.split("\n")[:2] == ["work", "-1"]
    for job_id in ids:
        await world.operator_actions.cancel(job_id)
    await world.redis.unlink(*[key for key in await world.dump() if key != world.shard.keys.epoch])


# --- slots


@pytest.mark.req("J13")
@pytest.mark.parametrize("harm", SLOT_HARMS)
async def test_sums_of_slots_are_made_anew(limited: ConstrainedWorld, harm: str) -> None:
    world, k = limited.world, limited.world.shard.keys
    await limited.put(constraint("one", concurrency=5), constraint("two", concurrency=5))
    await limited.enqueue()
    await limited.take(await world.worker())
    (gates,) = [raw.decode() for raw in await world.redis.smembers(k.slot_lists)]
    await SLOT_HARMS[harm](world, gates, k)
    assert {f.rule for f in await repaired(world)} == {"slot"}
    assert await world.findings() == []


@pytest.mark.req("J13")
@pytest.mark.parametrize("key", [None, "name"])
async def test_a_slot_that_nobody_uses_is_free_and_what_waits_for_it_starts(
    limited: ConstrainedWorld, key: str | None
) -> None:
    world, k = limited.world, limited.world.shard.keys
    one = await limited.limit(key=key, concurrency=1)
    first, second = await limited.enqueue(), await limited.enqueue()
    worker = await world.worker()
    assert await limited.take(worker) == [first]
    (gates,) = await limited.slots(one)
    # The end of the first job looks as if it had been interrupted halfway.
    job = await world.get(first)
    await world.redis.hset(k.slots(gates), world.spec().id, bytes(16))
    if key is None:
        await world.redis.hincrby(k.slot_counts, gates, 1)
    assert await limited.take(worker) == []
    assert {f.rule for f in await world.findings()} == {"slot"}
    await repaired(world)
    assert set((await limited.slots(one)).popitem()[1]) == {first}
    assert await limited.take(worker) == []
    assert await world.settlements.settle_success(worker, [(first, job.token, b"")]) == [True]
    assert await limited.take(worker) == [second]


@pytest.mark.req("J13")
@pytest.mark.parametrize("key", [None, "name"])
@pytest.mark.parametrize("harm", ["gone", "foreign"])
async def test_a_running_job_gets_its_slot_back(
    limited: ConstrainedWorld, key: str | None, harm: str
) -> None:
    world, k = limited.world, limited.world.shard.keys
    one = await limited.limit(key=key, concurrency=1)
    first, second = await limited.enqueue(), await limited.enqueue()
    worker = await world.worker()
    assert await limited.take(worker) == [first]
    (gates,) = await limited.slots(one)
    if harm == "gone":
        await world.redis.delete(k.slots(gates), k.slot_counts, k.slot_lists)
    else:
        await world.redis.hset(k.slots(gates), first, bytes(16))
    await repaired(world)
    assert await world.findings() == []
    assert await limited.take(worker) == []
    assert await world.settlements.settle_success(worker, [(first, (await world.get(first)).token, b"")]) == [
        True
    ]
    assert await limited.take(worker) == [second]


@pytest.mark.req("J13")
@pytest.mark.parametrize("key", [None, "name"])
@pytest.mark.parametrize("harm", ["a job that runs", "a job that is gone", "unlisted"])
async def test_a_job_that_did_not_hand_its_work_over_counts_again(
    limited: ConstrainedWorld, key: str | None, harm: str
) -> None:
    world, k = limited.world, limited.world.shard.keys
    one = await limited.limit(key=key, concurrency=1, counts_awaiting=False)
    first, second = await limited.enqueue(), await limited.enqueue()
    worker = await world.worker()
    (job,) = await limited.claim(worker)
    (gate,) = await limited.slots(one)
    if harm == "unlisted":
        request = await world.open_challenge(worker, job)
        assert await world.challenges.await_callbacks(worker, [(first, job.token, request.digest)]) == [1]
        assert await world.findings() == []
        await world.redis.delete(k.handed_over_gates)
    else:
        wrong = first if harm == "a job that runs" else world.spec().id
        await world.redis.sadd(k.handed_over(gate), wrong)
        await world.redis.sadd(k.handed_over_gates, gate)
    assert {f.rule for f in await world.findings()} == {"slot"}
    await repaired(world)
    assert await world.findings() == []
    assert await limited.take(worker) == ([second] if harm == "unlisted" else [])


@pytest.mark.req("J13")
async def test_a_lane_at_a_closed_gate_is_not_let_through(limited: ConstrainedWorld) -> None:
    """The lane is put among the open ones; the claim checks its gates all the same."""
    world, k = limited.world, limited.world.shard.keys
    await limited.limit(key="name", concurrency=1)
    first, second = await limited.enqueue(), await limited.enqueue()
    worker = await world.worker()
    assert await limited.take(worker) == [first]
    assert await limited.take(worker) == []
    parked = [key for key in await world.dump() if key.startswith(k.parked_prefix)]
    await world.redis.delete(*parked)
    assert {f.rule for f in await world.findings()} == {"lane"}
    assert await repaired(world)
    assert await world.findings() == []
    assert await limited.take(worker) == []
    assert await world.settlements.settle_success(worker, [(first, (await world.get(first)).token, b"")]) == [
        True
    ]
    assert await limited.take(worker) == [second]


@pytest.mark.req("M13")
async def test_a_callback_is_moved_to_the_list_of_its_kind(world: StoreWorld) -> None:
    """A master of 0.3.0 lists the callback of a delivery among those for workers."""
    _, job, request = await world.awaiting(meta=TARGET_META)
    await world.call_back(request)
    keys = world.shard.keys
    await world.redis.rename(keys.callbacks("work\t"), keys.callbacks("work"))
    await world.redis.hset(keys.rules, "callback_names", "work\n")
    assert await repaired(world)
    await world.assert_sound()
    (again,) = await world.claim(await world.worker(target="shop"))
    assert again.job_id == job.job_id


# --- authorship


async def test_under_another_leadership_nothing_is_changed(world: StoreWorld) -> None:
    job = await job_in(world, JobState.SCHEDULED)
    k = world.shard.keys
    await world.redis.zrem(k.scheduled, job.id)
    old = await world.reelect()
    repair = Repair(world.shard, old, who="test", times=TIMES)
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            _ = [step async for step in repair.steps()]
    await repaired(world)


@pytest.mark.parametrize("what", ["lane", "name", "slots"])
async def test_no_step_is_taken_under_another_leadership(limited: ConstrainedWorld, what: str) -> None:
    world, k = limited.world, limited.world.shard.keys
    one = await limited.limit(concurrency=5)
    await limited.enqueue()
    await limited.take(await world.worker())
    await limited.enqueue()
    match what:
        case "lane":
            await _nothing_open(world, k)
        case "name":
            await world.redis.srem(k.names, "work")
        case "slots":
            await world.redis.hincrby(k.slot_counts, (await limited.slots(one)).popitem()[0], 1)
    old = await world.reelect()
    repair = Repair(world.shard, old, who="test", times=TIMES)
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            _ = [step async for step in repair.steps()]
    await repaired(world)


async def test_repairs_are_in_the_audit_log(world: StoreWorld) -> None:
    job = await job_in(world, JobState.SCHEDULED)
    await world.redis.zrem(world.shard.keys.scheduled, job.id)
    (finding,) = await repaired(world)
    (entry,) = (await AuditStore(world.shard).page(limit=10, cursor=None, target=None)).entries
    assert (entry.who, entry.action, entry.target) == ("test", "repair", "store")
    assert entry.before == {finding.key: f"membership: {finding.detail}"}


async def test_a_large_store_is_put_right_in_pages(world: StoreWorld) -> None:
    ids = await world.enqueue_many(450, delay_ms=9)
    await world.redis.delete(world.shard.keys.scheduled)
    assert len(await repaired(world)) == 450
    assert {raw.decode() for raw in await world.redis.zrange(world.shard.keys.scheduled, 0, -1)} == set(ids)


async def test_without_strays_a_check_asks_for_no_key_that_no_index_names(world: StoreWorld) -> None:
    limited = ConstrainedWorld(world)
    await limited.limit(key="argument", concurrency=3)
    await limited.limit("whole", concurrency=9)
    await limited.enqueue_many(["a", "a", "b", "c"])
    worker_id = await world.worker()
    (taken, *_) = await limited.claim(worker_id, limit=2)
    await limited.enqueue("another", delay_ms=5_000)
    await world.redis.config_resetstat()
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    assert [f async for step in repair.steps(finds_strays=False) for f in step.repaired] == []
    assert "cmdstat_scan" not in await world.redis.info("commandstats")
    # It finds what the indexes tell: a slot that a running job lost, and a place among the ready jobs.
    k = world.shard.keys
    gates = [page async for page in slot_gate_pages(world.shard.client, k)]
    (keyed,) = [gate for page in gates for gate in page if not gate.endswith(NO_KEY)]
    await world.redis.hdel(k.slots(keyed), taken.job_id)
    assert [f.rule async for step in repair.steps(finds_strays=False) for f in step.repaired] == ["slot"]
    # A stray is left to the search for strays.
    await world.redis.set(k.result(new_id()), "left over")
    assert [f async for step in repair.steps(finds_strays=False) for f in step.repaired] == []
    assert [f.rule async for step in repair.steps() for f in step.repaired] == ["result"]


async def test_shards_on_one_store_share_the_scan_for_strays(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_scan, "GATHER_S", 0.05)
    # One step, however many keys other tests have left in this store.
    monkeypatch.setattr(shared_scan, "KEYS_PER_STEP", 10_000_000)
    monkeypatch.setattr(world.shard.client.scan, "shards", 2)
    job_id = await world.enqueue()
    await world.redis.delete(world.shard.keys.names)
    await world.redis.set(world.shard.keys.result(new_id()), "left over")
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    await world.redis.config_resetstat()
    async with repair.turn():
        found = {f.rule async for step in repair.steps() for f in step.repaired}
    assert "result" in found
    assert (await world.redis.info("commandstats"))["cmdstat_scan"]["calls"] == 1
    worker_id = await world.worker()
    assert [job.job_id for job in await world.claim(worker_id)] == [job_id]
    assert await world.findings() == []
