"""set_slots.lua and drop_slot_rule.lua, and what follows from them for claims, heartbeats and registrations."""

from dataclasses import replace

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.workers.slot_rule import SlotRule
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.jobs.claims import Claim, NotClaimed
from jqmaster.store.workers.workers import Commanded
from tests.support.store import StoreWorld

ENTRY = encode_entry(who="ada", action="worker.slots", target="w", before=None, after=None)
SPEC = WorkerSpec("http://10.0.0.1:9000", ("work",), 4, "web-1", 1, {"gpu": "1"}, "1", "s" * 32)


async def registered(world: StoreWorld, spec: WorkerSpec = SPEC) -> str:
    worker_id = new_id()
    await world.workers.register(worker_id, replace(spec, url=f"http://10.0.0.1/{worker_id}"))
    return worker_id


async def slots(world: StoreWorld, worker_id: str) -> tuple[int, int]:
    """Return the slots as claims count them, and as the worker registered them."""
    worker = await world.workers.get(worker_id)
    assert worker
    return worker.spec.max_jobs, worker.own_max_jobs


def rule(world: StoreWorld, max_jobs: int, spec: WorkerSpec = SPEC) -> SlotRule:
    return SlotRule(spec.node_id, spec.labels, max_jobs, "ada", world.now_ms)


async def audited(world: StoreWorld) -> int:
    return len((await AuditStore(world.shard).page(limit=50, cursor=None, target=None)).entries)


@pytest.mark.req("D24", "D16")
async def test_the_next_claim_and_the_next_heartbeat_obey_the_slots(world: StoreWorld) -> None:
    for _ in range(8):
        await world.enqueue()
    worker = await registered(world)
    async with world.published(world.shard.keys.wake_channel, "workers"):
        assert await world.workers.set_slots(worker, 6, ENTRY) is Commanded.NEW
    assert await slots(world, worker) == (6, 4)
    claim = await world.claims.claim(world.epoch, worker, ["work"], 10)
    assert isinstance(claim, Claim)
    assert len(claim.jobs) == 6
    # The limit is lower than what it runs: nothing is taken from it, and nothing is added.
    assert await world.workers.set_slots(worker, 2, ENTRY) is Commanded.NEW
    assert await world.claims.claim(world.epoch, worker, ["work"], 10) is NotClaimed.FULL
    claims = [(job.job_id, job.token) for job in claim.jobs]
    answer = await world.workers.renew(worker, claims, 0)
    assert answer
    assert (answer.max_jobs, answer.lost, answer.to_cancel) == (2, frozenset(), frozenset())
    assert await world.workers.set_slots(worker, None, ENTRY) is Commanded.NEW
    assert await slots(world, worker) == (4, 4)
    assert await audited(world) == 3


async def test_a_repeat_leaves_no_trace(world: StoreWorld) -> None:
    worker = await registered(world)
    assert await world.workers.set_slots(worker, 6, ENTRY, kept=rule(world, 6)) is Commanded.NEW
    async with world.unchanged(), world.published(world.shard.keys.wake_channel):
        assert await world.workers.set_slots(worker, 6, ENTRY, kept=rule(world, 6)) is Commanded.SAME
        assert await world.workers.set_slots(worker, 6, ENTRY) is Commanded.SAME
    assert await world.workers.set_slots(worker, None, ENTRY) is Commanded.NEW
    async with world.unchanged():
        assert await world.workers.set_slots(worker, None, ENTRY) is Commanded.SAME


async def test_workers_that_are_gone_or_cut_off_get_no_slots(world: StoreWorld) -> None:
    worker = await registered(world)
    await world.workers.detach(worker, ENTRY)
    async with world.unchanged():
        assert await world.workers.set_slots(worker, 6, ENTRY, kept=rule(world, 6)) is Commanded.DETACHED
        assert await world.workers.set_slots(new_id(), 6, ENTRY) is Commanded.UNKNOWN


async def test_a_worker_that_a_former_release_registered_keeps_its_own_number(world: StoreWorld) -> None:
    worker = await registered(world)
    await world.redis.hdel(world.shard.keys.worker(worker), "own_max_jobs")
    assert await slots(world, worker) == (4, 4)
    await world.workers.set_slots(worker, 9, ENTRY)
    assert await slots(world, worker) == (9, 4)


@pytest.mark.req("D24")
async def test_kept_slots_hold_for_the_same_node_with_the_same_labels(world: StoreWorld) -> None:
    await world.workers.set_slots(await registered(world), 7, ENTRY, kept=rule(world, 7))
    assert await world.workers.slot_rules() == [rule(world, 7)]
    assert await slots(world, await registered(world)) == (7, 4)
    others = (replace(SPEC, node_id="web-2"), replace(SPEC, labels={}), replace(SPEC, labels={"gpu": "2"}))
    for other in others:
        assert await slots(world, await registered(world, other)) == (4, 4)
    # Labels have no order.
    both = replace(SPEC, labels={"a": "1", "b": "2"})
    await world.workers.set_slots(await registered(world, both), 1, ENTRY, kept=rule(world, 1, both))
    turned = replace(SPEC, labels={"b": "2", "a": "1"})
    assert await slots(world, await registered(world, turned)) == (1, 4)
    assert [one.max_jobs for one in await world.workers.slot_rules()] == [1, 7]


@pytest.mark.req("D24", "D16")
async def test_a_rule_that_is_removed_holds_for_nobody_who_comes(world: StoreWorld) -> None:
    worker = await registered(world)
    kept = rule(world, 7)
    await world.workers.set_slots(worker, 7, ENTRY, kept=kept)
    before = await audited(world)
    assert await world.workers.drop_slot_rule(kept.id, ENTRY) is True
    assert await audited(world) == before + 1
    assert await slots(world, worker) == (7, 4)
    assert await slots(world, await registered(world)) == (4, 4)
    async with world.unchanged():
        assert await world.workers.drop_slot_rule(kept.id, ENTRY) is False


async def test_a_damaged_rule_is_left_out(world: StoreWorld) -> None:
    await world.redis.hset(world.shard.keys.slot_rules, "broken", b"\xff")
    assert await world.workers.slot_rules() == []


@pytest.mark.req("D24", "D31")
async def test_a_rule_that_is_added_counts_for_later_workers_and_replaces_none(world: StoreWorld) -> None:
    assert await world.workers.add_slot_rule(rule(world, 2))
    assert not await world.workers.add_slot_rule(rule(world, 9))
    assert await world.workers.slot_rules() == [rule(world, 2)]
    assert await slots(world, await registered(world)) == (2, 4)
    assert await world.workers.drop_slot_rule(rule(world, 2).id, ENTRY)


@pytest.mark.req("D29")
async def test_a_heartbeat_may_offer_other_slots(world: StoreWorld) -> None:
    for _ in range(4):
        await world.enqueue()
    worker = await registered(world)
    answer = await world.workers.renew(worker, [], 2, max_jobs=2)
    assert answer
    assert answer.max_jobs == 2
    assert await slots(world, worker) == (2, 2)
    claim = await world.claims.claim(world.epoch, worker, ["work"], 10)
    assert isinstance(claim, Claim)
    assert len(claim.jobs) == 2
    # A heartbeat without the number leaves it.
    claims = [(job.job_id, job.token) for job in claim.jobs]
    answer = await world.workers.renew(worker, claims, 0)
    assert answer
    assert answer.max_jobs == 2


@pytest.mark.req("D29", "D24")
@pytest.mark.parametrize("is_kept", [False, True], ids=["for this worker", "by a slot rule"])
async def test_an_operator_bounds_what_heartbeats_offer(world: StoreWorld, *, is_kept: bool) -> None:
    worker = await registered(world)
    if is_kept:
        await world.workers.set_slots(worker, 3, ENTRY, kept=rule(world, 3))
        worker = await registered(world)
    else:
        await world.workers.set_slots(worker, 3, ENTRY)
    for offered, most in ((4, 3), (2, 2), (9, 3)):
        answer = await world.workers.renew(worker, [], 0, max_jobs=offered)
        assert answer
        assert answer.max_jobs == most
        assert await slots(world, worker) == (most, offered)
    await world.workers.set_slots(worker, None, ENTRY)
    answer = await world.workers.renew(worker, [], 0, max_jobs=7)
    assert answer
    assert answer.max_jobs == 7
