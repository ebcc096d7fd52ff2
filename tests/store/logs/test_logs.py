"""save_logs.lua, read_logs.lua and sweep_logs.lua: log lines of jobs."""

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.logs.lines import LogChunk, LogLine, chunks
from jqmaster.domain.logs.page import LATE_MS, NO_LOG, LogSlice
from jqmaster.errors import StaleEpochError
from jqmaster.store.health.repair import Repair
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from jqmaster.store.logs.logs import LATE_MS as LATE_CLAIM_MS
from jqmaster.store.logs.logs import OVER_MS, ClaimLines, SavedLines, entries_of
from tests.store.jobs.test_reclaim import LOST
from tests.store.jobs.test_settle import HANDED_BACK
from tests.support.store import TIMES, StoreWorld

pytestmark = pytest.mark.req("D17")

FAILED_ONCE = Decision(JobState.READY, "failure", is_counted=True)
WEEK_MS = 7 * 86_400_000


def lines(first: int, *texts: str) -> list[LogChunk]:
    return list(chunks(LogLine(first + n, 5, 1, text) for n, text in enumerate(texts)))


async def save(world: StoreWorld, worker: str, job: ClaimedJob, *given: list[LogChunk]) -> SavedLines:
    of_claim = [chunk for some in given for chunk in some]
    (saved,) = await world.logs.save(worker, [ClaimLines(job.job_id, job.token, of_claim)])
    return saved


async def read(world: StoreWorld, job_id: str, after: int = 0) -> LogSlice:
    found = await world.logs.read(job_id, after, watch=False)
    assert found is not None
    return found


async def texts(world: StoreWorld, job_id: str, after: int = 0) -> list[tuple[int, int, str]]:
    return [(entry.seq, entry.attempt, entry.text) for entry in (await read(world, job_id, after)).entries]


async def claimed(world: StoreWorld, worker: str) -> ClaimedJob:
    claim = await world.claims.claim(world.epoch, worker, ["work"], 1)
    assert isinstance(claim, Claim)
    (job,) = claim.jobs
    return job


async def sizes(world: StoreWorld) -> int:
    """Return the sum of all sizes, which must match the chunks."""
    k, total = world.shard.keys, 0
    for job_id in await world.redis.smembers(k.logged):
        size = int(await world.redis.hget(k.log(job_id.decode()), "size") or 0)
        chunks_of = await world.redis.xrange(k.logs(job_id.decode()))
        assert size == sum(int(fields[b"size"]) for _, fields in chunks_of)
        assert (await world.redis.zscore(k.log_times, job_id) is not None) is (size > 0)
        total += size
    assert await world.logs.total_bytes() == total
    return total


async def test_lines_are_kept_in_order_and_read_from_any_place(world: StoreWorld) -> None:
    worker, job = await world.running()
    assert (await read(world, job.job_id)).facts == NO_LOG
    assert await save(world, worker, job, lines(1, "a", "b")) == SavedLines(kept=2)
    assert await save(world, worker, job, lines(3, "c"), lines(4, "d")) == SavedLines(kept=2)
    assert await texts(world, job.job_id) == [(1, 1, "a"), (2, 1, "b"), (3, 1, "c"), (4, 1, "d")]
    assert await texts(world, job.job_id, 1) == [(2, 1, "b"), (3, 1, "c"), (4, 1, "d")]
    found = await world.logs.read(job.job_id, 4, watch=True)
    assert found is not None
    assert (found.entries, found.end, found.is_full, found.is_over) == ([], 4, False, False)
    assert (found.facts.last, found.facts.dropped) == (4, 0)
    assert await sizes(world) == 4 * 17
    assert await world.logs.read(new_id(), 0, watch=False) is None


async def test_a_call_that_is_repeated_keeps_nothing_twice(world: StoreWorld) -> None:
    worker, job = await world.running()
    given = lines(1, "a", "b")
    assert await save(world, worker, job, given) == SavedLines(kept=2)
    async with world.unchanged():
        assert await save(world, worker, job, given) == SavedLines()
        # A chunk that is already there in part is reported, and nothing of it is stored.
        assert await save(world, worker, job, lines(2, "b", "c")) == SavedLines(behind=2)
    assert await save(world, worker, job, given, lines(3, "c")) == SavedLines(kept=1)
    assert [text for *_, text in await texts(world, job.job_id)] == ["a", "b", "c"]


async def test_numbers_that_the_worker_left_out_are_lines_that_are_missing(world: StoreWorld) -> None:
    worker, job = await world.running()
    assert await save(world, worker, job, lines(3, "c")) == SavedLines(kept=1, left_out=2)
    assert await save(world, worker, job, lines(10, "j")) == SavedLines(kept=1, left_out=6)
    assert [seq for seq, *_ in await texts(world, job.job_id)] == [3, 10]
    assert (await read(world, job.job_id)).facts.dropped == 8


@pytest.mark.req("M3", "M4")
async def test_a_stale_claim_adds_nothing(world: StoreWorld) -> None:
    worker, job = await world.running()
    stranger = await world.worker()
    async with world.unchanged():
        (saved,) = await world.logs.save(worker, [ClaimLines(job.job_id, "0" * 32, lines(1, "a"))])
        assert saved.is_stale
        assert (await save(world, stranger, job, lines(1, "a"))).is_stale
        (saved,) = await world.logs.save(worker, [ClaimLines(new_id(), job.token, lines(1, "a"))])
        assert saved.is_stale


async def test_the_last_lines_may_come_after_the_result(world: StoreWorld) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a"))
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    assert await save(world, worker, job, lines(2, "last")) == SavedLines(kept=1)
    found = await read(world, job.job_id)
    assert (found.state, found.is_over) == (JobState.SUCCEEDED, False)
    world.pass_ms(LATE_MS)
    assert (await read(world, job.job_id)).is_over
    world.pass_ms(OVER_MS)
    async with world.unchanged():
        assert (await save(world, worker, job, lines(3, "too late"))).is_stale


async def test_a_job_without_lines_is_over_a_little_later_too(world: StoreWorld) -> None:
    worker, job = await world.running()
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    assert not (await read(world, job.job_id)).is_over
    world.pass_ms(LATE_MS)
    assert (await read(world, job.job_id)).is_over


async def test_lines_of_the_claim_before_are_taken_for_a_while(world: StoreWorld) -> None:
    worker, job = await world.running()
    silent = await world.running()
    await save(world, worker, job, lines(1, "a"))
    await world.fail(worker, job, HANDED_BACK)
    await world.fail(silent[0], silent[1], HANDED_BACK)
    other = await world.worker()
    again = await claimed(world, other)
    assert again.job_id == job.job_id
    assert await save(world, worker, job, lines(2, "late")) == SavedLines(kept=1)
    assert await texts(world, job.job_id) == [(1, 1, "a"), (2, 1, "late")]
    # They may be its first lines.
    assert (await claimed(world, other)).job_id == silent[1].job_id
    assert await save(world, silent[0], silent[1], lines(1, "x")) == SavedLines(kept=1)
    world.pass_ms(LATE_CLAIM_MS)
    assert (await save(world, worker, job, lines(3, "too late"))).is_stale
    # The numbers continue over all attempts.
    assert await save(world, other, again, lines(1, "new")) == SavedLines(kept=1)
    assert await texts(world, job.job_id, 1) == [(2, 1, "late"), (3, 2, "new")]
    world.now_ms -= LATE_CLAIM_MS
    assert await save(world, worker, job, lines(3, "in time")) == SavedLines(kept=1)


@pytest.mark.parametrize("next_begins", ["not", "offered in vain", "silent", "first", "on the same worker"])
async def test_the_first_lines_of_a_failed_attempt_come_late_and_are_kept(
    world: StoreWorld, next_begins: str
) -> None:
    """No master took lines while the attempt failed. The next one may have written lines by then."""
    worker, job = await world.running(max_retry=3)
    await world.fail(worker, job, FAILED_ONCE)
    world.pass_ms(10)
    other = worker if next_begins == "on the same worker" else await world.worker()
    if next_begins != "not":
        again = await claimed(world, other)
    if next_begins == "offered in vain":
        await world.leases.return_offers(world.epoch, other, [(again.job_id, again.token)])
    expected = []
    if next_begins in ("first", "on the same worker"):
        await save(world, other, again, lines(1, "new 1"))
        expected = ["new 1"]
    assert await save(world, worker, job, lines(1, "old 1", "old 2")) == SavedLines(kept=2)
    # The answer was lost.
    assert await save(world, worker, job, lines(1, "old 1", "old 2")) == SavedLines()
    if expected:
        assert await save(world, other, again, lines(2, "new 2")) == SavedLines(kept=1)
        assert await save(world, other, again, lines(2, "new 2")) == SavedLines()
        assert await save(world, worker, job, lines(4, "old 4")) == SavedLines(kept=1, left_out=1)
        assert [t for _, _, t in await texts(world, job.job_id)] == [
            "new 1", "old 1", "old 2", "new 2", "old 4",
        ]  # fmt: skip
        assert [a for _, a, _ in await texts(world, job.job_id)] == [2, 1, 1, 2, 1]
        numbers = [n for n, _, _ in await texts(world, job.job_id)]
        assert numbers == sorted(set(numbers))
    else:
        assert await texts(world, job.job_id) == [(1, 1, "old 1"), (2, 1, "old 2")]
    await sizes(world)
    stranger = await world.worker()
    assert (await save(world, stranger, job, lines(9, "x"))).is_stale
    world.pass_ms(LATE_CLAIM_MS)
    assert (await save(world, worker, job, lines(9, "too late"))).is_stale or next_begins == "not"


async def test_a_claim_that_was_lost_adds_nothing(world: StoreWorld) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a"))
    world.pass_ms(60_000)
    assert await world.leases.reclaim(
        world.epoch, [world.settlement(await world.get(job.job_id), job.token, LOST)]
    ) == [True]
    async with world.unchanged():
        assert (await save(world, worker, job, lines(2, "zombie"))).is_stale


async def test_the_oldest_lines_of_a_job_make_room_for_new_ones(world: StoreWorld) -> None:
    worker, job = await world.running()
    for n in range(1, 9):
        saved = await save(world, worker, job, lines(n, f"{n}" * 284))
        assert saved == SavedLines(kept=1, made_room=1 if n > 6 else 0)
    assert [seq for seq, *_ in await texts(world, job.job_id)] == [3, 4, 5, 6, 7, 8]
    facts = (await read(world, job.job_id)).facts
    assert (facts.last, facts.dropped, facts.size) == (8, 2, 1_800)
    assert await sizes(world) == 1_800


async def test_the_oldest_lines_of_all_jobs_make_room_for_new_ones(world: StoreWorld) -> None:
    jobs = [await world.running() for _ in range(4)]
    for worker, job in jobs:
        for n in range(1, 5):
            await save(world, worker, job, lines(n, "x" * 284))
        world.pass_ms(1)
    assert await sizes(world) == 3_900
    kept = [len(await texts(world, job.job_id)) for _, job in jobs]
    assert kept == [1, 4, 4, 4]
    worker, job = jobs[3]
    await save(world, worker, job, lines(5, "y" * 284))
    assert await texts(world, jobs[0][1].job_id) == []
    assert (await read(world, jobs[0][1].job_id)).facts.dropped == 4
    assert await sizes(world) == 3_900


async def test_old_lines_are_swept_and_said_to_be_missing(world: StoreWorld) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a", "b"))
    assert await world.logs.sweep(world.epoch, WEEK_MS) == (0, False)
    world.pass_ms(WEEK_MS)
    assert await world.logs.sweep(world.epoch, WEEK_MS) == (2, False)
    assert (await read(world, job.job_id)).facts.dropped == 2
    assert await sizes(world) == 0
    # The job may go on writing.
    assert await save(world, worker, job, lines(3, "c")) == SavedLines(kept=1)
    assert [seq for seq, *_ in await texts(world, job.job_id)] == [3]
    # The leftovers of a job that somebody removed from the store go, too.
    await world.redis.zadd(world.shard.keys.log_times, {new_id(): 1})
    assert await world.logs.sweep(world.epoch, WEEK_MS) == (0, False)
    assert await world.redis.zcard(world.shard.keys.log_times) == 1
    with pytest.raises(StaleEpochError):
        await world.logs.sweep("0:x", 0)


async def test_a_sweep_is_bounded(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jqmaster.store.logs.logs.CHUNKS_PER_SWEEP", 2)
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a"), lines(2, "b"), lines(3, "c"))
    world.pass_ms(WEEK_MS)
    assert await world.logs.sweep(world.epoch, WEEK_MS) == (2, True)
    assert await world.logs.sweep(world.epoch, WEEK_MS) == (1, False)


async def test_a_log_goes_with_its_job(world: StoreWorld) -> None:
    jobs = [await world.running() for _ in range(3)]
    for worker, job in jobs:
        await save(world, worker, job, lines(1, "a"))
        assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    await world.operator_actions.delete(jobs[0][1].job_id)
    assert await world.redis.scard(world.shard.keys.logged) == 2
    world.pass_ms(1_000)
    assert await world.retention.sweep(world.epoch, JobState.SUCCEEDED, retention_ms=500, max_jobs=9) == 2
    k = world.shard.keys
    assert await world.redis.exists(k.logged, k.log_times, *(k.log(job.job_id) for _, job in jobs)) == 0
    assert await world.logs.total_bytes() == 0


async def test_damaged_keys_begin_anew(world: StoreWorld) -> None:
    worker, job = await world.running()
    k = world.shard.keys
    await world.redis.set(k.log(job.job_id), b"damaged")
    assert (await read(world, job.job_id)).facts == NO_LOG
    assert await save(world, worker, job, lines(1, "a")) == SavedLines(kept=1)
    await world.redis.delete(k.logs(job.job_id))
    await world.redis.set(k.logs(job.job_id), b"damaged")
    assert await texts(world, job.job_id) == []
    world.pass_ms(WEEK_MS)
    await world.logs.sweep(world.epoch, WEEK_MS)
    assert await sizes(world) == 0
    assert entries_of(b"1", b"0", b"damaged") == []


async def test_a_log_of_a_job_that_is_gone_is_found_and_removed(world: StoreWorld) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "a"))
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    k = world.shard.keys
    await world.redis.delete(k.job(job.job_id))
    await world.redis.zrem(k.succeeded, job.job_id)
    assert {finding.rule for finding in await world.findings()} == {"history"}
    async for _ in Repair(world.shard, world.epoch, who="test", times=TIMES).steps():
        pass
    assert await world.redis.exists(k.log(job.job_id), k.logs(job.job_id), k.logged) == 0
    assert await world.logs.total_bytes() == 0
