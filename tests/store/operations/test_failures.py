"""Groups of failures keep their trend, the versions of workers, and who ignores them."""

from dataclasses import replace

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.failure_group import failure_group_id
from jqmaster.domain.jobs.failures import HOUR_MS, MAX_VERSIONS, QUIET_MS, GroupedFailures
from jqmaster.domain.jobs.triage import AssignedPerson, Merge, Resolution
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.operations.failure_triage import FailureTriageStore
from jqmaster.store.operations.history import KEEP_GROUPS_MS, CountedFailures, HistoryStore
from tests.support.store import StoreWorld

ENTRY = encode_entry(who="ada", action="failure.ignore", target="x", before=None, after=None)


@pytest.fixture
def history(world: StoreWorld) -> HistoryStore:
    return HistoryStore(world.shard, master_id="master-1")


def boom(count: int = 1, **workers: int) -> CountedFailures:
    group_id = failure_group_id("work", "error", "boom")
    return CountedFailures(group_id, "work", "error", "boom", count, "job", workers)


async def worker_of(world: StoreWorld, version: str) -> str:
    worker_id = new_id()
    spec = WorkerSpec(f"http://{worker_id}", ("work",), 5, "node", 1, {}, version, "s" * 32)
    await world.workers.register(worker_id, spec)
    return worker_id


async def only(history: HistoryStore) -> GroupedFailures:
    (group,) = await history.failure_groups()
    return group


@pytest.mark.req("P8")
async def test_the_trend_is_kept_by_hour_for_a_day(world: StoreWorld, history: HistoryStore) -> None:
    hour = world.now_ms // HOUR_MS
    for number in range(1, 31):
        await history.add_failures(number, [boom(number)])
        world.pass_ms(HOUR_MS)
    group = await only(history)
    assert group.hours == {hour + n - 1: n for n in range(7, 31)}, "24 hours, whatever was before"
    assert group.count == sum(range(1, 31))
    await history.add_failures(31, [boom(2)])
    await history.add_failures(32, [boom(3)])
    assert (await only(history)).trend(world.now_ms)[-2:] == [30, 5]
    async with world.unchanged():
        assert not await history.add_failures(32, [boom(3)])


@pytest.mark.req("P8")
async def test_the_versions_of_workers_are_kept_the_last_seen_first(
    world: StoreWorld, history: HistoryStore
) -> None:
    old, new, nameless = [await worker_of(world, version) for version in ("1", "2", "")]
    began_ms = world.now_ms
    await history.add_failures(1, [boom(4, **{old: 3, nameless: 1})])
    world.pass_ms(1_000)
    await history.add_failures(2, [boom(2, **{new: 1, old: 1, new_id(): 1})])
    world.pass_ms(1_000)
    await history.add_failures(3, [boom(1, **{new: 1})])
    seen = {v.version: (v.count, v.first_seen_ms, v.last_seen_ms) for v in (await only(history)).versions}
    assert list(seen) == ["2", "1"]
    assert seen == {
        "2": (2, began_ms + 1_000, began_ms + 2_000),
        "1": (4, began_ms, began_ms + 1_000),
    }
    for number in range(10):
        one = await worker_of(world, f"3.{number}")
        world.pass_ms(1)
        await history.add_failures(4 + number, [boom(1, **{one: 1})])
    assert [v.version for v in (await only(history)).versions] == [f"3.{n}" for n in (9, 8, 7, 6, 5)]
    assert MAX_VERSIONS == 5


@pytest.mark.req("P8")
async def test_a_failure_that_comes_back_after_a_day_has_regressed(
    world: StoreWorld, history: HistoryStore
) -> None:
    await history.add_failures(1, [boom()])
    world.pass_ms(QUIET_MS - 1)
    await history.add_failures(2, [boom()])
    assert (await only(history)).regressed_ms == 0
    world.pass_ms(QUIET_MS)
    await history.add_failures(3, [boom()])
    regressed_ms = world.now_ms
    world.pass_ms(1)
    await history.add_failures(4, [boom()])
    assert (await only(history)).regressed_ms == regressed_ms


@pytest.mark.req("P8", "M12")
async def test_groups_of_release_0_2_are_read_and_added_to(world: StoreWorld, history: HistoryStore) -> None:
    await history.add_failures(1, [boom(2)])
    key, group_id = world.shard.keys.failure_groups, boom().id
    former = msgpack.unpackb(await world.redis.hget(key, group_id))[:7]
    await world.redis.hset(key, group_id, msgpack.packb(former))
    group = await only(history)
    assert (group.count, dict(group.hours), group.versions, group.regressed_ms) == (2, {}, (), 0)
    await history.add_failures(2, [boom(3)])
    group = await only(history)
    assert (group.count, list(group.hours.values())) == (5, [3])


async def test_the_person_who_ignores_a_group_is_kept_and_audited(
    world: StoreWorld, history: HistoryStore
) -> None:
    await history.add_failures(1, [boom(2)])
    group = await only(history)
    ignore = group.ignored(who="ada", now_ms=world.now_ms, until_ms=0, reason="known")
    async with world.unchanged():
        assert not await history.ignore("f" * 16, ignore, ENTRY)
        assert not await history.unignore("f" * 16, ENTRY)
        assert await history.unignore(group.id, ENTRY), "it is not ignored, so nothing is written"
    assert await history.ignore(group.id, ignore, ENTRY)
    assert (await only(history)).ignore == ignore
    await history.add_failures(2, [boom()])
    assert (await only(history)).ignore == replace(ignore, since_per_hour=3)
    assert await history.unignore(group.id, ENTRY)
    assert (await only(history)).ignore is None
    assert len((await AuditStore(world.shard).page(limit=10, cursor=None)).entries) == 2


async def test_the_end_of_a_decision_is_not_forgotten_with_the_hours_and_the_versions(
    world: StoreWorld, history: HistoryStore
) -> None:
    known = await worker_of(world, "1")
    await history.add_failures(1, [boom(2, **{known: 2})])
    group = await only(history)
    ignore = group.ignored(who="ada", now_ms=world.now_ms, until_ms=0, reason="")
    await history.ignore(group.id, ignore, ENTRY)
    await history.add_failures(2, [boom(8, **{known: 8})])
    assert (await only(history)).is_ignored(world.now_ms)
    world.pass_ms(HOUR_MS)
    await history.add_failures(3, [boom(40, **{known: 40})])
    assert (await only(history)).changed(world.now_ms) == "more"
    for number in range(25):
        world.pass_ms(HOUR_MS)
        await history.add_failures(4 + number, [boom(1, **{known: 1})])
    group = await only(history)
    assert max(group.hours.values()) == 1
    assert (group.ignore, group.changed(world.now_ms)) == (replace(ignore, since_per_hour=40), "more")

    ignore = group.ignored(who="ada", now_ms=world.now_ms, until_ms=0, reason="")
    await history.ignore(group.id, ignore, ENTRY)
    for number in range(MAX_VERSIONS + 1):
        later = await worker_of(world, f"2.{number}" if number == 0 else f"1.{number}")
        await history.add_failures(30 + number, [boom(1, **{later: 1})])
    group = await only(history)
    assert "2.0" not in [seen.version for seen in group.versions]
    assert group.changed(world.now_ms) == "version"


async def test_a_decision_goes_with_its_group(world: StoreWorld, history: HistoryStore) -> None:
    await history.add_failures(1, [boom()])
    group = await only(history)
    ignore = group.ignored(who="ada", now_ms=world.now_ms, until_ms=0, reason="")
    await history.ignore(group.id, ignore, ENTRY)
    await history.forget_failures(["job"])
    assert not await world.redis.exists(world.shard.keys.failure_ignores)
    await history.add_failures(2, [boom()])
    await history.ignore(group.id, ignore, ENTRY)
    world.pass_ms(KEEP_GROUPS_MS + 1)
    later = CountedFailures("0" * 16, "work", "error", "late", 1, "job-2")
    await history.add_failures(3, [later])
    assert not await world.redis.exists(world.shard.keys.failure_ignores)


async def test_a_decision_that_cannot_be_read_ignores_nothing(
    world: StoreWorld, history: HistoryStore
) -> None:
    await history.add_failures(1, [boom()])
    for garbage in (b"\xc1", b"\x01", b"\x93\x01\x02\x03"):
        await world.redis.hset(world.shard.keys.failure_ignores, boom().id, garbage)
        assert (await only(history)).ignore is None
    await world.redis.delete(world.shard.keys.failure_ignores)


@pytest.mark.req("P8")
async def test_decisions_stay_with_their_group_and_go_with_it(
    world: StoreWorld, history: HistoryStore
) -> None:
    store = FailureTriageStore(world.shard)
    assignment = AssignedPerson("grace", "ada", world.now_ms)
    resolution = Resolution("ada", world.now_ms, "1.2", ("1.1",))
    async with world.unchanged():
        assert not await store.put("no-such-group", "assignment", assignment, ENTRY)
    await history.add_failures(1, [boom()])
    group = await only(history)
    async with world.unchanged():
        assert await store.put(group.id, "resolution", None, ENTRY), "there was nothing to remove"
    assert await store.put(group.id, "assignment", assignment, ENTRY)
    assert await store.put(group.id, "resolution", resolution, ENTRY)
    group = await only(history)
    assert (group.assignment, group.resolution) == (assignment, resolution)
    assert await store.put(group.id, "assignment", None, ENTRY)
    group = await only(history)
    assert (group.assignment, group.resolution) == (None, resolution)
    assert len((await AuditStore(world.shard).page(limit=10, cursor=None)).entries) == 3
    await history.add_failures(2, [boom()])
    assert (await only(history)).resolution == resolution
    await history.forget_failures({group.example_job_id})
    assert await world.redis.exists(world.shard.keys.failure_triage) == 0
    await history.add_failures(3, [boom()])
    assert await store.put((await only(history)).id, "assignment", assignment, ENTRY)
    world.pass_ms(KEEP_GROUPS_MS + 1)
    await history.add_failures(4, [])
    assert await world.redis.exists(world.shard.keys.failure_triage) == 0


@pytest.mark.req("P8")
async def test_a_merged_group_counts_in_the_other_one(world: StoreWorld, history: HistoryStore) -> None:
    store = FailureTriageStore(world.shard)
    assert await store.now_ms() == world.now_ms
    other = replace(boom(2), id=failure_group_id("work", "error", "other"), message="other")
    await history.add_failures(1, [boom(3), other])
    assert await store.put(other.id, "merge", Merge(boom().id, "ada", world.now_ms), ENTRY)
    group = await only(history)
    assert (group.id, group.count) == (boom().id, 5)
    assert await store.put(other.id, "merge", None, ENTRY)
    assert len(await history.failure_groups()) == 2


@pytest.mark.req("P8")
async def test_decisions_that_cannot_be_read_are_none(world: StoreWorld, history: HistoryStore) -> None:
    await history.add_failures(1, [boom()])
    key, group_id = world.shard.keys.failure_triage, (await only(history)).id
    for garbage in (b"\xc1", b"\x01", b"\x91\x01", b"\x94\x01\x01\x01\x01"):
        await world.redis.hset(key, mapping={f"{part}:{group_id}": garbage for part in "ar"})
        await world.redis.hset(key, f"m:{'0' * 16}", garbage[:1])
        group = await only(history)
        assert (group.id, group.resolution) == (group_id, None)
    await world.redis.delete(key)
