"""Counts of workers: by minute, each call of a master once, and kept for ten minutes."""

import msgpack

from jqmaster.domain.operations.tally import WorkerCounts
from jqmaster.store.operations.history import KEEP_WORKERS_MS, STEP_MS, HistoryStore
from tests.support.store import StoreWorld


def counted(succeeded: int, failed: int, *runs_ms: int) -> WorkerCounts:
    counts = WorkerCounts(succeeded, failed)
    counts.run.add_all(runs_ms)
    return counts


def values(found: dict[str, WorkerCounts]) -> dict[str, tuple[int, int, int, list[tuple[int | None, int]]]]:
    return {
        worker_id: (one.succeeded, one.failed, one.run.max_ms, one.run.buckets())
        for worker_id, one in found.items()
    }


async def test_two_masters_add_up_by_minute_and_a_repeated_call_counts_once(world: StoreWorld) -> None:
    first, second = (HistoryStore(world.shard, master_id=f"master-{n}") for n in range(2))
    minute = world.now_ms // STEP_MS["minute"]
    assert await first.add_worker_counts(1, [("a", counted(2, 1, 5, 900)), ("b", counted(1, 0, 7))])
    async with world.unchanged():
        assert not await first.add_worker_counts(1, [("a", counted(2, 1, 5, 900))])
    assert await second.add_worker_counts(1, [("a", counted(3, 0, 5))])
    world.pass_ms(STEP_MS["minute"])
    assert await first.add_worker_counts(2, [("a", counted(0, 4))])
    assert values(await first.worker_counts(minute)) == {
        "a": (5, 1, 900, [(6, 2), (1024, 1)]),
        "b": (1, 0, 7, [(8, 1)]),
    }
    assert values(await first.worker_counts(minute + 1)) == {"a": (0, 4, 0, [])}
    assert await first.worker_counts(minute + 2) == {}


async def test_they_are_kept_for_ten_minutes(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    await history.add_worker_counts(1, [("a", counted(1, 0))])
    key = world.shard.keys.worker_minute(world.now_ms // STEP_MS["minute"])
    assert 0 < await world.redis.pttl(key) <= KEEP_WORKERS_MS


async def test_an_unreadable_record_is_no_count(world: StoreWorld) -> None:
    history = HistoryStore(world.shard, master_id="master-1")
    minute = world.now_ms // STEP_MS["minute"]
    await history.add_worker_counts(1, [("a", counted(1, 0, 5))])
    key = world.shard.keys.worker_minute(minute)
    broken = [
        b"\xc1",
        msgpack.packb([1]),
        msgpack.packb({"b": [1]}),
        msgpack.packb({"b": [1, 0, 5, [999, 1]]}),
    ]
    for n, garbage in enumerate(broken):
        await world.redis.hset(key, f"x{n}", garbage)
    assert values(await history.worker_counts(minute)) == {"a": (1, 0, 5, [(6, 1)])}
    await world.redis.delete(key)
    await world.redis.set(key, b"of another type", px=60_000)
    assert await history.worker_counts(minute) == {}
    await world.redis.delete(key)
