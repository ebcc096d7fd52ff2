from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.errors import StaleEpochError
from jqmaster.store.keys import Keys
from jqmaster.store.operations.looks import MANY_NAMES, Look, LookStore
from tests.support.admin import admin_of
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("S6")


async def look(world: StoreWorld) -> Look:
    return await LookStore(world.shard).look(world.epoch)


async def dump(world: StoreWorld) -> dict[bytes, Any]:
    redis = admin_of(world.shard.client)
    return {key: await redis.dump(key) async for key in redis.scan_iter(match=f"{world.shard.keys.tag}*")}


async def test_a_look_at_an_empty_shard_finds_nothing(world: StoreWorld) -> None:
    seen = await look(world)
    assert seen == Look(
        world.now_ms, jobs=-1, leases=-1, callbacks=-1, definitions=-1, event_groups=-1, batches=-1, gates=-1,
        results=-1, has_follow_ups=False, has_suspects=False, has_changed_gates=False, has_counted_gates=False,
        has_actions=False, has_notices=False, has_logs=False, is_ready=False, workers=0, silent_ms=-1,
        edition=seen.edition, finished={},
    )  # fmt: skip


async def test_a_look_tells_when_each_index_is_due_and_what_waits(world: StoreWorld) -> None:
    redis, k, now_ms = admin_of(world.shard.client), world.shard.keys, world.now_ms
    dues = {
        "jobs": (k.scheduled, k.retrying, k.expiring),
        "leases": (k.running,),
        "callbacks": (k.awaiting_callback,),
        "definitions": (k.definitions_due, k.definitions_due_on_days),
        "event_groups": (k.event_groups,),
        "batches": (k.batches_due,),
        "gates": (k.gates_due,),
        "results": (k.results,),
    }
    for field, keys in dues.items():
        for key in keys:
            await redis.zadd(key, {"later": now_ms + 9_000, "first": now_ms + 700})
            assert getattr(await look(world), field) == 700, key
            await redis.zadd(key, {"past": now_ms - 50})
            assert getattr(await look(world), field) == 0, key
            await redis.delete(key)
            assert getattr(await look(world), field) == -1, key
    waits = {
        "has_follow_ups": (k.follow_ups,),
        "has_suspects": (k.suspects,),
        "has_changed_gates": (k.reopened,),
        "has_counted_gates": (k.counted,),
        "has_actions": (k.running_actions,),
        "has_notices": (k.notices, k.notice_states),
        "has_logs": (k.log_times, k.log_waits),
    }
    for field, keys in waits.items():
        for key in keys:
            await redis.sadd(key, "one")
            assert getattr(await look(world), field), key
            await redis.delete(key)
            assert not getattr(await look(world), field), key


async def test_a_look_tells_the_keys_that_exist_from_the_others(world: StoreWorld) -> None:
    """It asks for many keys at once."""
    redis, k, now_ms = admin_of(world.shard.client), world.shard.keys, world.now_ms
    await redis.zadd(k.scheduled, {"a": now_ms + 100})
    await redis.zadd(k.gates_due, {"a": now_ms + 300})
    await redis.zadd(k.results, {"a": now_ms + 400})
    await redis.sadd(k.log_waits, "one")
    seen = await look(world)
    assert (seen.jobs, seen.leases, seen.batches, seen.gates, seen.results) == (100, -1, -1, 300, 400)
    assert (seen.has_logs, seen.has_actions, seen.is_ready, seen.workers) == (True, False, False, 0)
    await redis.delete(k.scheduled, k.gates_due, k.results, k.log_waits)


async def test_a_look_counts_finished_jobs_and_workers_and_finds_ready_jobs(world: StoreWorld) -> None:
    redis, k = admin_of(world.shard.client), world.shard.keys
    for n, state in enumerate(sorted(FINISHED)):
        await redis.zadd(k.finished(state), {f"job-{i}": world.now_ms - 1_000 - n - i for i in range(n + 1)})
    seen = await look(world)
    assert seen.finished == {state: (n + 1, 1_000 + 2 * n) for n, state in enumerate(sorted(FINISHED))}
    assert JobState.SUCCEEDED in seen.finished
    await redis.zadd(k.workers, {"a": world.now_ms - 300, "b": world.now_ms - 40})
    seen = await look(world)
    assert (seen.workers, seen.silent_ms) == (2, 300)
    await redis.hset(k.ready_counts, mapping={"none": 0, "lost": -1})
    assert not (await look(world)).is_ready
    await redis.hset(k.ready_counts, "some", 1)
    assert (await look(world)).is_ready
    await redis.hset(k.ready_counts, mapping={f"name-{n}": 0 for n in range(MANY_NAMES)})
    await redis.hset(k.ready_counts, "some", 0)
    assert (await look(world)).is_ready, "of this many names, some count as ready"
    await redis.delete(k.ready_counts, k.workers, *map(k.finished, FINISHED))


async def test_a_look_writes_nothing_and_serves_the_newest_leader_alone(world: StoreWorld) -> None:
    await world.enqueue()
    before = await dump(world)
    await look(world)
    assert await dump(world) == before
    with pytest.raises(StaleEpochError):
        await LookStore(world.shard).look("1:other")


async def test_a_key_of_a_wrong_type_is_due_and_hides_no_other(world: StoreWorld) -> None:
    redis, k = admin_of(world.shard.client), world.shard.keys
    for key in (k.scheduled, k.workers, k.ready_counts, k.rules, k.finished(JobState.FAILED)):
        await redis.delete(key)
        await redis.set(key, "what is this")
    await redis.zadd(k.running, {"job": world.now_ms + 5})
    seen = await look(world)
    assert (seen.jobs, seen.leases, seen.is_ready, seen.edition) == (0, 5, True, (0, 0, 0))
    assert seen.finished[JobState.FAILED][0] == 1
    assert seen.silent_ms > 0
    for key in (k.scheduled, k.workers, k.ready_counts, k.rules, k.finished(JobState.FAILED), k.running):
        await redis.delete(key)


async def found_facts(world: StoreWorld, looks: LookStore) -> bytes:
    ((_, data),) = await world.shard.client.run_joined([looks.call_for_entries()])
    assert isinstance(data, list), data
    now_ms, (facts,) = data
    assert now_ms == world.now_ms
    return bytes(facts)


async def test_a_shard_without_entries_is_known_again_until_it_has_one(world: StoreWorld) -> None:
    redis, k, looks = admin_of(world.shard.client), world.shard.keys, LookStore(world.shard)
    await looks.look(world.epoch)
    known = looks.facts_without_entries
    assert known
    assert await found_facts(world, looks) == known
    for key in looks.call_for_entries().keys[2:]:
        await redis.set(key, "whatever")
        assert await found_facts(world, looks) == b"", key
        await redis.delete(key)
    for field in ("version", "edition", "settled"):
        await redis.hset(k.rules, field, "9")
        assert await found_facts(world, looks) not in (b"", known), field
        await looks.look(world.epoch)
        known = looks.facts_without_entries
        assert await found_facts(world, looks) == known
    await redis.set(k.epoch, "99:other")
    assert await found_facts(world, looks) not in (b"", known)
    await redis.set(k.epoch, world.epoch)
    await redis.delete(k.rules)


async def test_a_shard_with_entries_is_known_only_by_a_whole_look(world: StoreWorld) -> None:
    redis, k, looks = admin_of(world.shard.client), world.shard.keys, LookStore(world.shard)
    await redis.zadd(k.scheduled, {"later": world.now_ms + 9_000})
    await looks.look(world.epoch)
    assert looks.facts_without_entries == b""
    await redis.delete(k.scheduled)


async def test_each_of_several_shards_is_judged_by_its_own_entries(world: StoreWorld) -> None:
    redis = admin_of(world.shard.client)
    shards = [replace(world.shard, keys=Keys(f"{world.shard.keys.tag[1:-2]}-{n}")) for n in range(4)]
    calls = [LookStore(shard).call_for_entries() for shard in shards]
    for n, shard in enumerate(shards):
        await redis.set(shard.keys.epoch, f"{n}:n")
    await redis.zadd(shards[2].keys.results, {"one": 1})
    ((_, data),) = await world.shard.client.run_joined(calls)
    assert isinstance(data, list), data
    assert data[1] == [b"0:n 0 0 0", b"1:n 0 0 0", b"", b"3:n 0 0 0"]
    await redis.delete(*(shard.keys.epoch for shard in shards), shards[2].keys.results)
