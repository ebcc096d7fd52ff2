"""due_logs.lua, take_log_piece.lua, drop_archived.lua, read_gone_log.lua, due_log_erasures.lua, end_log_erasures.lua,
forget_log_erasures.lua, note_late_log.lua and erase_gone_log.lua: logs on their way into the archive, and out of it."""

from dataclasses import replace

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import DamagedError, StaleEpochError
from jqmaster.store.health.repair import Repair
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.retention import Retention
from jqmaster.store.logs import archiving as module
from jqmaster.store.logs.archiving import (
    LATE_MS,
    GoneLog,
    LogArchivingStore,
    LogErasures,
    LogNotHere,
    LogsToArchive,
)
from jqmaster.store.logs.logs import SavedLines
from tests.store.logs.test_logs import WEEK_MS, lines, read, save, sizes, texts
from tests.support.store import TIMES, StoreWorld

pytestmark = pytest.mark.req("D17")

DAY_MS = 86_400_000
REF = "main/there/"


def store_of(world: StoreWorld) -> LogArchivingStore:
    return LogArchivingStore(world.shard)


async def over(world: StoreWorld, *texts: str) -> ClaimedJob:
    """Create a job that wrote these lines and succeeded."""
    worker, job = await world.running()
    if texts:
        await save(world, worker, job, lines(1, *texts))
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    return job


async def sweep(world: StoreWorld) -> int:
    world.pass_ms(1_000)
    limits: dict[JobState | None, Retention] = {JobState.SUCCEEDED: Retention(500, 9)}
    return (await world.retention.sweep_all(world.epoch, limits, archives_logs=True))[
        JobState.SUCCEEDED
    ].removed


async def moved(world: StoreWorld, job_id: str) -> list[str]:
    """Move the whole log away, and return its texts."""
    store, found = store_of(world), list[str]()
    while True:
        piece = await store.next_piece(world.epoch, job_id, REF)
        if piece is None:
            return found
        found += [entry.text for entry in piece.entries]
        if not await store.drop(world.epoch, piece):
            return found


async def test_logs_are_due_after_their_retention_the_oldest_first(world: StoreWorld) -> None:
    store = store_of(world)
    jobs = [await world.running() for _ in range(3)]
    for worker, job in jobs:
        await save(world, worker, job, lines(1, "a"))
        world.pass_ms(DAY_MS)
    ids = [job.job_id for _, job in jobs]
    assert await store.due(3 * DAY_MS, (0, 0)) == LogsToArchive([], ids[:1])
    assert await store.due(DAY_MS, (0, 0)) == LogsToArchive([], ids)
    assert await store.due(DAY_MS, (5, 2)) == LogsToArchive([], ids[2:])
    assert await world.logs.due_since_ms(DAY_MS) == world.now_ms - 2 * DAY_MS


async def test_the_log_of_a_job_that_is_removed_waits_for_the_archive(world: StoreWorld) -> None:
    with_log, without = await over(world, "a", "b"), await over(world)
    assert await sweep(world) == 2
    k, store = world.shard.keys, store_of(world)
    assert await world.logs.read(with_log.job_id, 0, watch=False) is None
    assert await store.due(WEEK_MS, (0, 0)) == LogsToArchive([with_log.job_id], [])
    assert await world.logs.due_since_ms(WEEK_MS) == world.now_ms
    assert await world.redis.exists(k.log(without.job_id)) == 0
    # Neither fsck nor repair takes it for a leftover of a job.
    assert await world.findings() == []
    async for step in Repair(world.shard, world.epoch, who="test", times=TIMES).steps():
        assert not step.repaired
    gone = await store.read_gone(with_log.job_id, 1)
    assert isinstance(gone, GoneLog)
    assert (gone.job.name, [entry.text for entry in gone.entries], gone.end) == ("work", ["b"], 2)
    assert await sizes(world) == 2 * 17
    # Once it is in the archive, nothing is left in the store.
    assert await moved(world, with_log.job_id) == ["a", "b"]
    assert await world.redis.exists(k.logged, k.log(with_log.job_id), k.log_waits, k.log_times) == 0
    assert await world.logs.total_bytes() == 0
    assert await store.read_gone(with_log.job_id, 0) == LogNotHere(0)


async def test_a_log_moves_piece_by_piece_and_goes_on_behind(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNKS_PER_READ", 2)
    worker, job = await world.running(argument={"a": 1})
    await save(world, worker, job, lines(1, "a"), lines(2, "b"), lines(3, "c"))
    store = store_of(world)
    piece = await store.next_piece(world.epoch, job.job_id, REF)
    assert piece
    assert (piece.job.id, piece.last, piece.chunks, [e.text for e in piece.entries]) == (
        job.job_id, 2, 2, ["a", "b"],
    )  # fmt: skip
    # Its destination is noted, but not shown yet.
    assert (await read(world, job.job_id)).facts.ref is None
    assert await store.drop(world.epoch, piece) is True
    assert (await read(world, job.job_id)).facts.archived == 2
    assert (await read(world, job.job_id)).facts.ref == REF
    # Lines that arrive meanwhile do not count as a change.
    piece = await store.next_piece(world.epoch, job.job_id, REF)
    assert piece
    assert await save(world, worker, job, lines(4, "d")) == SavedLines(kept=1)
    assert await store.drop(world.epoch, piece) is True
    assert await moved(world, job.job_id) == ["d"]
    assert await sizes(world) == 0
    assert (await read(world, job.job_id)).facts.archived == 4
    # The job may go on writing, and its numbers continue.
    assert await save(world, worker, job, lines(5, "e")) == SavedLines(kept=1)
    assert await texts(world, job.job_id) == [(5, 1, "e")]
    assert await moved(world, job.job_id) == ["e"]


async def test_nothing_is_dropped_that_changed_meanwhile(world: StoreWorld) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a"), lines(2, "b"))
    store, k = store_of(world), world.shard.keys
    piece = await store.next_piece(world.epoch, job.job_id, REF)
    assert piece
    # Another leader was faster.
    assert await store.drop(world.epoch, piece) is False
    async with world.unchanged():
        assert await store.drop(world.epoch, piece) is None
    await save(world, worker, job, lines(3, "c"), lines(4, "d"))
    piece = await store.next_piece(world.epoch, job.job_id, REF)
    assert piece
    # A limit dropped the first chunk.
    await world.redis.xtrim(k.logs(job.job_id), minid="4", approximate=False)
    async with world.unchanged():
        assert await store.drop(world.epoch, piece) is None
    await world.redis.hset(k.log(job.job_id), "size", 17)
    await world.redis.hset(k.log_totals, "size", 17)


async def test_only_the_leader_moves_logs(world: StoreWorld) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a"))
    store = store_of(world)
    piece = await store.next_piece(world.epoch, job.job_id, REF)
    assert piece
    async with world.unchanged():
        for call in (
            store.next_piece("0:x", job.job_id, REF),
            store.drop("0:x", piece),
            store.end_erasures("0:x", [job.job_id]),
        ):
            with pytest.raises(StaleEpochError):
                await call


async def test_a_log_without_lines_is_no_longer_due(world: StoreWorld) -> None:
    k, job_id = world.shard.keys, new_id()
    await world.redis.zadd(k.log_times, {job_id: 1})
    await world.redis.zadd(k.log_waits, {job_id: 1})
    assert await store_of(world).next_piece(world.epoch, job_id, REF) is None
    assert await world.redis.exists(k.log_times, k.log_waits) == 0


@pytest.mark.parametrize("harm", ["chunk", "number", "fields", "type", "size", "record"])
async def test_a_damaged_log_is_told_and_its_lines_still_go_in_the_end(world: StoreWorld, harm: str) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a"))
    k = world.shard.keys
    key = k.logs(job.job_id)
    bad: dict[str, dict[str, str]] = {
        "chunk": {"attempt": "1", "lines": "1", "size": "17", "base": "0", "chunk": "bytes"},
        "number": {"attempt": "x", "lines": "x", "size": "x", "base": "x", "chunk": "bytes"},
        "size": {"attempt": "1", "lines": "1", "size": "x", "base": "0", "chunk": "\x90"},
        "fields": {"attempt": "1"},
    }
    if harm == "type":
        await world.redis.delete(key)
        await world.redis.set(key, "text")
    elif harm == "record":
        await world.redis.hset(k.log(job.job_id), "record", "no record")
    else:
        await world.redis.delete(key)
        await world.redis.xadd(key, bad[harm], id="1-0")
    with pytest.raises(DamagedError, match=f"the log of job {job.job_id} cannot be read"):
        await store_of(world).next_piece(world.epoch, job.job_id, REF)
    # Reading and writing go on, and so does the sweep.
    assert await world.logs.read(job.job_id, 0, watch=False)
    await save(world, worker, job, lines(2, "b"))
    world.pass_ms(WEEK_MS)
    _, has_more = await world.logs.sweep(world.epoch, WEEK_MS)
    assert not has_more
    assert await sizes(world) == 0


@pytest.mark.parametrize("field", ["size", "last", "sent", "base", "dropped", "archived", "attempt"])
async def test_damaged_counts_of_one_log_hold_up_no_other(world: StoreWorld, field: str) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a"), lines(2, "b"))
    k = world.shard.keys
    await world.redis.hset(k.log(job.job_id), field, "damaged")
    await world.redis.hset(k.log_totals, "size", "damaged")
    assert await world.logs.total_bytes() == 0
    (await world.logs.read(job.job_id, 0, watch=True))
    await save(world, worker, job, lines(7, "c"))
    assert (await texts(world, job.job_id))[-1][2] == "c"
    world.pass_ms(WEEK_MS)
    assert (await world.logs.sweep(world.epoch, WEEK_MS))[1] is False
    assert await world.redis.exists(k.logs(job.job_id), k.log_times) == 0
    # The sum of all sizes also started again, and repair recounts it.
    async for _ in Repair(world.shard, world.epoch, who="test", times=TIMES).steps():
        pass
    assert await world.logs.total_bytes() == 0


async def test_logs_that_waited_too_long_go_as_they_would_without_an_archive(world: StoreWorld) -> None:
    gone = await over(world, "a", "b")
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "c"))
    await sweep(world)
    world.pass_ms(WEEK_MS)
    assert await world.logs.sweep(world.epoch, 2 * WEEK_MS, WEEK_MS + 1) == (0, False)
    world.pass_ms(1)
    assert await world.logs.sweep(world.epoch, 2 * WEEK_MS, WEEK_MS + 1) == (2, False)
    k = world.shard.keys
    assert await world.redis.exists(k.log(gone.job_id), k.log_waits) == 0
    assert len(await texts(world, job.job_id)) == 1
    # The same holds where nothing else names them any more.
    await world.redis.zadd(k.log_waits, {new_id(): 1})
    assert await world.logs.sweep(world.epoch, 2 * WEEK_MS, WEEK_MS) == (0, False)
    assert await world.redis.exists(k.log_waits) == 0


async def test_lines_that_make_room_are_no_more_waited_for(world: StoreWorld) -> None:
    gone = [await over(world, "x" * 280, "y" * 280) for _ in range(4)]
    await sweep(world)
    worker, job = await world.running()
    for n in range(1, 9):
        await save(world, worker, job, lines(n, "z" * 280))
    k = world.shard.keys
    assert await world.redis.exists(k.log(gone[0].job_id), k.logs(gone[0].job_id)) == 0
    assert await world.redis.zrange(k.log_waits, 0, -1) == [job.job_id.encode() for job in gone[1:]]
    assert await world.findings() == []


async def test_the_deletion_of_a_job_erases_its_log_in_the_archive(world: StoreWorld) -> None:
    jobs = [await over(world, "a") for _ in range(3)]
    store = store_of(world)
    await moved(world, jobs[0].job_id)
    # One log is being written just now, and one never existed.
    assert await store.next_piece(world.epoch, jobs[1].job_id, REF)
    for job in jobs:
        await world.operator_actions.delete(job.job_id)
    ids, now_ms = [job.job_id for job in jobs], world.now_ms
    assert await store.erasures() == LogErasures([(ids[0], now_ms), (ids[1], now_ms)], [])
    assert await store.read_gone(ids[0], 0) == LogNotHere(None)
    assert await store.read_gone(ids[2], 0) == LogNotHere(0)
    await store.end_erasures(world.epoch, [ids[0], new_id()])
    assert await store.erasures() == LogErasures([(ids[1], now_ms)], [])
    assert await store.read_gone(ids[0], 0) == LogNotHere(now_ms)
    await store.end_erasures(world.epoch, [ids[1]])
    k = world.shard.keys
    assert await world.redis.exists(k.log_erasures) == 0
    # An hour later, the store looks for them once more.
    world.pass_ms(LATE_MS - 1)
    assert await store.erasures() == LogErasures([], [])
    world.pass_ms(1)
    assert await store.erasures() == LogErasures([], [(ids[0], now_ms), (ids[1], now_ms)])
    await store.forget_erasures(world.epoch, ids)
    assert await store.erasures() == LogErasures([], [])
    assert await world.redis.exists(k.log_erased) == 0


async def test_a_piece_that_comes_late_is_to_be_removed_where_its_job_was_deleted(world: StoreWorld) -> None:
    store = store_of(world)
    claimed = [await over(world, "a") for _ in range(2)]
    jobs = [await world.get(job.job_id) for job in claimed]
    for job in claimed:
        await moved(world, job.job_id)
    assert not await store.note_late(jobs[0])
    world.pass_ms(1)
    await world.operator_actions.delete(jobs[0].id)
    assert await store.note_late(jobs[0])
    await store.end_erasures(world.epoch, [jobs[0].id])
    assert (await store.erasures()).first == []
    deleted_ms = world.now_ms
    world.pass_ms(1)
    # A later job with this ID does not count.
    async with world.unchanged():
        assert not await store.note_late(replace(jobs[0], created_at_ms=world.now_ms))
        assert not await store.note_late(jobs[1])
    assert await store.note_late(jobs[0])
    assert await store.erasures() == LogErasures([(jobs[0].id, deleted_ms)], [])


async def test_a_stale_leader_ends_no_erasure(world: StoreWorld) -> None:
    store, old = store_of(world), world.epoch
    await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await store.end_erasures(old, [new_id()])
        with pytest.raises(StaleEpochError):
            await store.forget_erasures(old, [new_id()])


async def test_the_log_of_a_job_that_is_gone_is_erased(world: StoreWorld) -> None:
    store = store_of(world)
    there, gone, archived = await over(world, "a"), await over(world, "b"), new_id()
    async with world.unchanged():
        assert not await store.erase_gone(there.job_id)
    await sweep(world)
    assert isinstance(await store.read_gone(gone.job_id, 0), GoneLog)
    for job_id in (gone.job_id, archived):
        assert await store.erase_gone(job_id)
        assert await store.read_gone(job_id, 0) == LogNotHere(None)
    assert {job_id for job_id, _ in (await store.erasures()).first} == {gone.job_id, archived}
    assert await world.redis.exists(world.shard.keys.log(gone.job_id)) == 0
    assert await world.findings() == []
