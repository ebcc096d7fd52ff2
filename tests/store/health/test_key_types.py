"""Keys that another program wrote: under names of ours, and under names that are nobody's."""

import pytest

from jqmaster.store.health import key_types
from jqmaster.store.health.findings import Finding
from jqmaster.store.health.fsck import check
from jqmaster.store.health.key_types import compare_keys, wrong_types
from jqmaster.store.keys import KEYS, Key, Keys
from tests.support.admin import admin_of
from tests.support.each import for_each
from tests.support.store import StoreWorld

COMPLETED = [row.name for row in KEYS if row.of]
FIXED = [row.name for row in vars(Keys).values() if isinstance(row, Key)]


@for_each("name", FIXED)
async def test_a_fixed_key_of_a_wrong_type_is_named_and_ends_no_check(world: StoreWorld, name: str) -> None:
    key = getattr(world.shard.keys, name)
    admin = admin_of(world.shard.client)
    await admin.delete(key)
    if vars(Keys)[name].type == "string":
        await admin.lpush(key, "foreign")
    else:
        await admin.set(key, "foreign")
    try:
        ((found, detail),) = await wrong_types(world.shard.client, world.shard.keys)
        assert found == key
        assert "another program wrote it" in detail
        findings = [one async for one in check(world.shard.client, world.shard.keys)]
        assert ("type", key) in {(one.rule, one.key) for one in findings}
    finally:
        await admin.delete(key)
    assert await wrong_types(world.shard.client, world.shard.keys) == []


async def findings_with(world: StoreWorld, *names: str) -> list[Finding]:
    """Return the findings of fsck while there are these keys besides sound ones; check that it leaves them."""
    admin, k = admin_of(world.shard.client), world.shard.keys
    foreign = [k.tag + name for name in names]
    await world.enqueue()
    for key in foreign:
        await admin.set(key, "foreign")
    try:
        async with world.unchanged():
            return [one async for one in check(world.shard.client, k)]
    finally:
        await admin.delete(k.tag, *foreign)


@for_each("name", COMPLETED)
async def test_a_key_of_a_family_with_another_type_is_named_and_ends_no_check(
    world: StoreWorld, name: str
) -> None:
    admin, k = admin_of(world.shard.client), world.shard.keys
    row = vars(Keys)[name]
    key = k.tag + ":".join([row.stem, *("1" for _ in row.of)])
    await (admin.set(key, "foreign") if row.type != "string" else admin.lpush(key, "foreign"))
    try:
        found = [one async for one in check(world.shard.client, k)]
    finally:
        await admin.delete(key)
    assert key in {one.key for one in found} | {k.tag + one.key for one in found}, found


async def test_a_key_of_no_family_is_named_and_left(world: StoreWorld) -> None:
    names = ("whatever", "jobs:1", "settings:of-another", "job", "minute:")
    found = await findings_with(world, *names)
    assert {(one.rule, one.key) for one in found} == {
        ("foreign", world.shard.keys.tag + name) for name in names
    }
    assert all("belongs to no family of keys" in one.detail for one in found)


async def test_keys_of_others_are_none_of_our_business(world: StoreWorld) -> None:
    admin, name = admin_of(world.shard.client), world.shard.keys.tag[1:-2]
    # On a Cluster, the braces bring it to the node that holds the shard.
    other = f"{name}:other:{{{name}}}"
    await admin.set(other, "x")
    try:
        assert await findings_with(world) == []
    finally:
        await admin.delete(other)


async def test_many_foreign_keys_are_counted_and_some_are_named(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_types, "MAX_NAMED", 2)
    found = await findings_with(world, *(f"foreign:{n}" for n in range(5)))
    assert [one.rule for one in found] == ["foreign"] * 3
    assert found[-1] == Finding("foreign", f"{world.shard.keys.tag}*", "3 more keys like those above")


async def test_a_comparison_tells_how_far_it_is_and_may_stop_early(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.enqueue_many(30)
    monkeypatch.setattr(key_types, "PAGE", 5)
    told: list[int] = []
    compared = await compare_keys(world.shard.client, world.shard.keys, on_page=told.append)
    assert compared.is_whole
    assert told == sorted(told)
    assert told[-1] == compared.looked_at >= 30
    compared = await compare_keys(world.shard.client, world.shard.keys, most_pages=1)
    assert not compared.is_whole
    assert compared.looked_at < 30


def test_a_key_that_a_scan_gives_twice_counts_once() -> None:
    faults = key_types.KeysAtFault()
    faults.add("a", "x")
    faults.add("a", "x")
    assert (faults.count, faults.unnamed) == (1, 0)
