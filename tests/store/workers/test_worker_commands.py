"""drain_worker.lua, resume_worker.lua, detach_worker.lua, detach_silent_worker.lua, continue_worker.lua, and what
follows
from them for heartbeats and leases."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import CONTINUED, JobState
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.errors import StaleEpochError
from jqmaster.store import codec
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.jobs.claims import NotClaimed
from jqmaster.store.workers.workers import Commanded
from tests.support.store import LEASE_MS, StoreWorld

ENTRY = encode_entry(who="ada", action="worker.test", target="w", before=None, after=None)
ORDERS = ("drain", "resume", "detach")


def order(world: StoreWorld, name: str) -> Callable[[str, bytes], Awaitable[Commanded]]:
    method: Callable[[str, bytes], Awaitable[Commanded]] = getattr(world.workers, name)
    return method


async def audited(world: StoreWorld) -> list[str]:
    entries = (await AuditStore(world.shard).page(limit=50, cursor=None, target=None)).entries
    return [entry.who for entry in entries]


@pytest.mark.req("D11", "D14", "D16")
async def test_a_drained_worker_gets_nothing_until_it_is_resumed(world: StoreWorld) -> None:
    await world.enqueue()
    worker = await world.worker()
    async with world.published(world.shard.keys.wake_channel, "workers"):
        assert await world.workers.drain(worker, ENTRY) is Commanded.NEW
    assert await world.claims.claim(world.epoch, worker, ["work"], 1) is NotClaimed.GONE
    heartbeat = await world.workers.renew(worker, [], 0)
    assert heartbeat
    assert (heartbeat.is_draining, heartbeat.detached_by) == (True, None)
    async with world.published(world.shard.keys.wake_channel, "workers"):
        assert await world.workers.resume(worker, ENTRY) is Commanded.NEW
    assert len(await world.claim(worker)) == 1
    assert await audited(world) == ["ada", "ada"]


@pytest.mark.parametrize("name", ORDERS)
async def test_an_order_that_changes_nothing_leaves_no_trace(world: StoreWorld, name: str) -> None:
    worker = await world.worker()
    if name != "resume":
        await order(world, name)(worker, ENTRY)
    async with world.unchanged(), world.published(world.shard.keys.wake_channel):
        assert await order(world, name)(worker, ENTRY) is Commanded.SAME


@pytest.mark.parametrize("name", ORDERS)
async def test_an_order_to_a_worker_that_is_not_registered(world: StoreWorld, name: str) -> None:
    async with world.unchanged():
        assert await order(world, name)(new_id(), ENTRY) is Commanded.UNKNOWN


@pytest.mark.parametrize("name", ["drain", "resume"])
async def test_a_detached_worker_is_neither_drained_nor_resumed(world: StoreWorld, name: str) -> None:
    worker = await world.worker()
    await world.workers.detach(worker, ENTRY)
    async with world.unchanged():
        assert await order(world, name)(worker, ENTRY) is Commanded.DETACHED


@pytest.mark.req("D12", "D14", "D16")
async def test_a_worker_that_people_detach_gets_no_jobs_and_no_leases(world: StoreWorld) -> None:
    worker, job = await world.running()
    claim = (job.job_id, job.token)
    assert await world.workers.renew(worker, [claim], 1)
    ends_ms = await world.score(world.shard.keys.running, job.job_id)
    async with world.published(world.shard.keys.wake_channel, "workers"):
        assert await world.workers.detach(worker, ENTRY) is Commanded.NEW
    world.pass_ms(1_000)
    answer = await world.workers.renew(worker, [claim], 1)
    assert answer
    assert (answer.detached_by, answer.is_renewed, answer.lost) == ("operator", False, frozenset())
    assert await world.score(world.shard.keys.running, job.job_id) == ends_ms
    assert await world.claims.claim(world.epoch, worker, ["work"], 1) is NotClaimed.GONE
    assert await world.workers.reattach(worker, []) is False
    # The job remains its own until its lease ends.
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"\xc0")]) == [True]


# --- silence, and how a worker comes back


async def silent(world: StoreWorld, **fields: object) -> tuple[str, tuple[str, str]]:
    """Detach a worker for its silence, and return it with what it runs."""
    worker, job = await world.running(**fields)  # type: ignore[arg-type]
    assert await world.workers.renew(worker, [(job.job_id, job.token)], 1)
    world.pass_ms(6_000)
    assert await world.workers.detach_silent(world.epoch, worker, silent_ms=5_000) is True
    return worker, (job.job_id, job.token)


@pytest.mark.req("D12")
async def test_only_who_is_silent_is_detached_for_it(world: StoreWorld) -> None:
    worker = await world.worker()
    world.pass_ms(4_999)
    detach = world.workers.detach_silent
    async with world.unchanged():
        assert await detach(world.epoch, worker, silent_ms=5_000) is False
        assert await detach(world.epoch, new_id(), silent_ms=5_000) is False
    world.pass_ms(1)
    old = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await detach(old, worker, silent_ms=5_000)
    assert await detach(world.epoch, worker, silent_ms=5_000) is True
    found = await world.workers.get(worker)
    assert found
    assert (found.detached_by, found.silent_since_ms) == ("silence", found.last_seen_ms)
    async with world.unchanged():
        assert await detach(world.epoch, worker, silent_ms=5_000) is False


@pytest.mark.req("D13")
async def test_while_a_detached_worker_asks_nobody_takes_its_jobs(world: StoreWorld) -> None:
    """It comes back just before its lease ends; the heartbeat that tells it is also a renewal."""
    worker, claim = await silent(world)
    world.pass_ms(LEASE_MS - 6_001)
    answer = await world.workers.renew(worker, [claim], 1)
    assert answer
    assert (answer.detached_by, answer.is_renewed, answer.lost) == ("silence", True, frozenset())
    world.pass_ms(LEASE_MS - 1)
    _, expired, _ = await world.leases.expired_leases()
    assert expired == []


@pytest.mark.req("D13")
async def test_a_worker_that_may_continue_belongs_to_the_fleet_again_and_its_jobs_tell_of_it(
    world: StoreWorld,
) -> None:
    worker, claim = await silent(world)
    other_worker, other = await world.running("other")
    ended_worker, ended = await world.running("ended")
    await world.settlements.settle_success(ended_worker, [(ended.job_id, ended.token, b"\xc0")])
    entries = [
        (job_id, token, codec.encode_attempt(await world.get(job_id), CONTINUED, "it was away", None))
        for job_id, token in (claim, (other.job_id, other.token), (ended.job_id, ended.token), (claim[0], "0" * 32))
    ]  # fmt: skip
    async with world.published(world.shard.keys.wake_channel, "workers"):
        assert await world.workers.reattach(worker, entries) is True
    found = await world.workers.get(worker)
    assert found
    assert (found.is_detached, found.detached_by, found.silent_since_ms) == (False, None, 0)
    (event,) = await world.records.history(claim[0])
    assert (event.outcome, event.message, event.worker_id, event.attempt) == (
        CONTINUED,
        "it was away",
        worker,
        1,
    )
    assert event.finished_at_ms == world.now_ms
    assert await world.state(claim[0]) is JobState.RUNNING
    # Only its own jobs count.
    assert await world.records.history(other.job_id) == await world.records.history(ended.job_id) == []
    async with world.unchanged():
        assert await world.workers.reattach(worker, entries) is False
    assert other_worker


@pytest.mark.req("D13")
async def test_one_that_holds_more_than_a_call_takes_goes_on_with_all(world: StoreWorld) -> None:
    await world.enqueue_many(700)
    worker = await world.worker(max_jobs=1_000)
    jobs = [job for _ in range(7) for job in await world.claim(worker)]
    world.pass_ms(6_000)
    assert await world.workers.detach_silent(world.epoch, worker, silent_ms=5_000)
    records = await world.records.get_without_argument([job.job_id for job in jobs])
    entries = [
        (job.job_id, job.token, codec.encode_attempt(records[job.job_id], CONTINUED, "", None))
        for job in jobs
    ]
    assert await world.workers.reattach(worker, entries) is True
    for job in (jobs[0], jobs[499], jobs[500], jobs[-1]):
        assert len(await world.records.history(job.job_id)) == 1


@pytest.mark.req("D12", "D13")
async def test_people_may_cut_off_for_good_who_was_merely_silent(world: StoreWorld) -> None:
    worker, claim = await silent(world)
    assert await world.workers.detach(worker, ENTRY) is Commanded.NEW
    assert await world.workers.reattach(worker, []) is False
    answer = await world.workers.renew(worker, [claim], 1)
    assert answer
    assert (answer.detached_by, answer.is_renewed) == ("operator", False)


async def test_a_history_of_the_wrong_type_keeps_nobody_from_going_on(world: StoreWorld) -> None:
    worker, claim = await silent(world)
    redis, key = world.redis, world.shard.keys.history(claim[0])
    await redis.set(key, "damaged")
    assert await world.workers.reattach(worker, [(*claim, b"")]) is True
    await redis.delete(key)


# --- a successor at the address


@pytest.mark.req("D10", "M6")
async def test_a_restart_on_the_same_address_frees_the_jobs_of_the_former_one_at_once(
    world: StoreWorld,
) -> None:
    await world.enqueue_many(700)
    spec = WorkerSpec("http://h:1", ("work",), 1_000, "n", 1, {}, "1", "s" * 32, "here")
    first, second = new_id(), new_id()
    await world.workers.register(first, spec)
    jobs = [job for _ in range(7) for job in await world.claim(first)]
    claims = [(job.job_id, job.token) for job in jobs]
    assert await world.workers.renew(first, claims, 0)
    elsewhere, untouched = await world.running("elsewhere")
    world.pass_ms(100)
    assert await world.workers.register(second, spec)
    _, expired, _ = await world.leases.expired_leases()
    assert {lease.job_id for lease in expired} <= {job.job_id for job in jobs}
    assert len(expired) == 500
    assert {(lease.detached_by, lease.is_worker_gone) for lease in expired} == {("successor", True)}
    redis, k = world.redis, world.shard.keys
    assert await redis.zcount(k.running, "-inf", world.now_ms) == 700
    # The former worker, if it lives, learns that the jobs are no longer its own, and renews nothing.
    answer = await world.workers.renew(first, claims, 0)
    assert answer
    assert (answer.detached_by, answer.lost) == ("successor", frozenset(claims))
    assert await redis.zcount(k.running, "-inf", world.now_ms) == 700
    assert await world.state(untouched.job_id) is JobState.RUNNING
    assert elsewhere


@pytest.mark.req("M3", "M6")
@pytest.mark.parametrize(("former", "successor"), [("", ""), ("here", ""), ("", "here"), ("here", "there")])
async def test_an_address_that_may_have_moved_leaves_the_former_worker_its_leases(
    world: StoreWorld, former: str, successor: str
) -> None:
    """It may live where nobody can reach it, and run its jobs until its leases end."""
    await world.enqueue_many(3)
    spec = WorkerSpec("http://h:1", ("work",), 10, "n", 1, {}, "1", "s" * 32, former)
    first = new_id()
    await world.workers.register(first, spec)
    claims = [(job.job_id, job.token) for job in await world.claim(first)]
    assert await world.workers.renew(first, claims, 0)
    ends = await world.redis.zrange(world.shard.keys.running, 0, -1, withscores=True)
    world.pass_ms(100)
    await world.workers.register(new_id(), replace(spec, place=successor))
    assert await world.redis.zrange(world.shard.keys.running, 0, -1, withscores=True) == ends
    answer = await world.workers.renew(first, claims, 0)
    assert answer
    assert (answer.detached_by, answer.is_renewed, answer.lost) == ("successor", False, frozenset())
    assert await world.redis.zrange(world.shard.keys.running, 0, -1, withscores=True) == ends
    assert await world.settlements.settle_success(first, [(*claims[0], b"r")]) == [True], (
        "its right until then"
    )
    world.pass_ms(LEASE_MS - 101)
    assert (await world.leases.expired_leases())[1] == []
    world.pass_ms(1)
    _, expired, _ = await world.leases.expired_leases()
    assert [(lease.detached_by, lease.is_worker_gone) for lease in expired] == [("successor", False)] * 2


async def test_a_deadline_that_has_come_before_stays(world: StoreWorld) -> None:
    spec = WorkerSpec("http://h:1", ("work",), 10, "n", 1, {}, "1", "s" * 32, "here")
    first = new_id()
    await world.enqueue(timeout_ms=1_000)
    await world.workers.register(first, spec)
    (job,) = await world.claim(first)
    ends_ms = await world.score(world.shard.keys.running, job.job_id)
    assert ends_ms
    world.pass_ms(60_000)
    await world.workers.register(new_id(), spec)
    assert await world.score(world.shard.keys.running, job.job_id) == ends_ms


async def test_a_record_of_a_detached_worker_without_a_reason_counts_as_cut_off_by_people(
    world: StoreWorld,
) -> None:
    worker = await world.worker()
    await world.redis.hset(world.shard.keys.worker(worker), "is_detached", 1)
    answer = await world.workers.renew(worker, [], 0)
    found = await world.workers.get(worker)
    assert answer
    assert found
    assert answer.detached_by == found.detached_by == "operator"
    assert msgpack.unpackb(ENTRY)["who"] == "ada"
