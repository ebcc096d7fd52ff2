"""Uniqueness keys that were left behind are found and removed."""

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.unique import Unique
from jqmaster.store.health.fsck import check
from jqmaster.store.health.repair import Repair
from tests.support.store import TIMES, StoreWorld
from tests.support.unique import bring_to, unique

pytestmark = pytest.mark.req("S7")
WINDOW_MS = 60_000


async def rules_of(world: StoreWorld) -> list[tuple[str, str, str]]:
    return [(f.rule, f.key, f.detail) async for f in check(world.shard.client, world.shard.keys)]


async def repaired(world: StoreWorld) -> list[str]:
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    return [finding.key async for step in repair.steps() for finding in step.repaired]


async def left_behind(world: StoreWorld, rule: Unique, harm: str) -> str:
    """Leave behind a key that names a missing job, as a former release does, or another wrong key, and return it."""
    spec = world.spec(unique=rule)
    await bring_to(world, spec, "succeeded")
    k = world.shard.keys
    key = k.unique(rule.digest)
    value = await world.redis.get(key)
    if harm == "gone":
        await world.operator_actions.delete(spec.id)
        await world.redis.set(key, value)
        return key
    other = world.spec(unique=unique("other") if harm == "other key" else None)
    await world.acceptance.enqueue([other])
    await world.redis.set(key, b"?" if harm == "unreadable" else other.id.encode() + value[36:])
    return key


@pytest.mark.parametrize(
    ("harm", "detail"),
    [
        ("gone", "names a job that is gone"),
        ("no key", "names a job without a key"),
        ("other key", "names a job with another key"),
        ("unreadable", "cannot be read"),
    ],
)
async def test_a_key_that_is_left_behind_is_found_and_removed(
    world: StoreWorld, harm: str, detail: str
) -> None:
    key = await left_behind(world, unique(), harm)
    assert await rules_of(world) == [("unique", key, detail)]
    assert await repaired(world) == [key]
    assert await rules_of(world) == []
    assert not await world.redis.exists(key)
    assert await repaired(world) == []


async def test_the_window_of_a_job_that_is_gone_goes_on_until_its_end(world: StoreWorld) -> None:
    key = await left_behind(world, unique(scope="window", ttl_ms=WINDOW_MS), "gone")
    assert await repaired(world) == [key]
    assert 0 < await world.redis.pttl(key) <= WINDOW_MS
    assert await rules_of(world) == []


async def test_keys_of_jobs_in_every_state_are_sound(world: StoreWorld) -> None:
    for n, state in enumerate(("scheduled", "succeeded", "failed", "canceled", "gone")):
        for scope in ("until_start", "until_finished", "window"):
            rule = unique(f"{n}{scope}", scope, ttl_ms=WINDOW_MS if scope == "window" else 0)
            delay_ms = 9_000_000 if state == "scheduled" else None
            await bring_to(world, world.spec(unique=rule, delay_ms=delay_ms), state)
    assert await rules_of(world) == []
    assert await repaired(world) == []
    assert (await world.inspector.counts())[JobState.SCHEDULED] == 3
