"""note_timeline.lua and acknowledge_incident.lua: what happened to masters, workers and the store."""

from dataclasses import replace

import pytest

from jqmaster.domain.operations.timeline import (
    KnownState,
    LeaderCause,
    LostWorker,
    TimelineEntry,
    TimelineKind,
)
from jqmaster.errors import StaleEpochError
from jqmaster.store import codec
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.operations import timeline as timeline_store
from jqmaster.store.operations.timeline import TimelineStore
from tests.support.store import StoreWorld

MARKS = KnownState(
    ("m1", "rack-1:7"), frozenset({"1", "2"}), {"w1": LostWorker("node-1:7", 3)}, 17, 18, "mail"
)
LEADER = TimelineEntry(
    TimelineKind.LEADER_CHANGED, 1_000, "m1", label="rack-1:7", before="rack-2:7", by="ada",
    cause=LeaderCause.DEMOTED,
)  # fmt: skip
LOST = TimelineEntry(TimelineKind.WORKER_LOST, 2_000, "w1", since_ms=1_500, label="node-1:7", count=3)
ENTRY = encode_entry(who="ada", action="incident.acknowledge", target="1-0", before=None, after=None)


async def test_entries_and_marks_are_read_as_they_were_written(world: StoreWorld) -> None:
    timeline = TimelineStore(world.shard)
    assert (await timeline.known(), await timeline.entries()) == (None, [])
    await timeline.note(world.epoch, MARKS, [LEADER])
    await timeline.note(world.epoch, MARKS, [LOST])
    assert await timeline.known() == MARKS
    entries = await timeline.entries()
    assert [replace(one, id="") for one in entries] == [LEADER, LOST]
    assert entries[0].id < entries[1].id


async def test_a_former_leader_writes_nothing(world: StoreWorld) -> None:
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await TimelineStore(world.shard).note("1:old", MARKS, [LOST])


async def test_an_incident_is_acknowledged_with_its_audit_entry(world: StoreWorld) -> None:
    timeline = TimelineStore(world.shard)
    await timeline.note(world.epoch, MARKS, [LOST])
    (lost,) = await timeline.entries()
    person = TimelineEntry(TimelineKind.ACKNOWLEDGED, 3_000, lost.id, label="on it", by="ada")
    assert await timeline.acknowledge(lost.id, person, ENTRY)
    assert [replace(one, id="") for one in (await timeline.entries())[1:]] == [person]
    page = await AuditStore(world.shard).page(limit=5, cursor=None)
    assert [one.action for one in page.entries] == ["incident.acknowledge"]
    async with world.unchanged():
        assert not await timeline.acknowledge("1-1", person, ENTRY)


async def test_people_who_acknowledge_much_push_out_nothing_that_happened(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_store, "MAX_TIMELINE", 1)
    timeline, k = TimelineStore(world.shard), world.shard.keys
    await timeline.note(world.epoch, MARKS, [LOST])
    (lost,) = await timeline.entries()
    person = TimelineEntry(TimelineKind.ACKNOWLEDGED, 3_000, lost.id, label="on it", by="ada")
    for _ in range(300):
        assert await timeline.acknowledge(lost.id, person, ENTRY)
    assert await world.redis.xlen(k.timeline) == 1
    # A stream is cut by whole nodes.
    assert await world.redis.xlen(k.timeline_acknowledged) < 300
    monkeypatch.undo()
    entries = await timeline.entries()
    assert (entries[0], entries[1].kind) == (lost, TimelineKind.ACKNOWLEDGED)


async def test_acknowledgements_of_an_earlier_master_are_read_too(world: StoreWorld) -> None:
    timeline, k = TimelineStore(world.shard), world.shard.keys
    await timeline.note(world.epoch, MARKS, [LOST])
    (lost,) = await timeline.entries()
    person = TimelineEntry(TimelineKind.ACKNOWLEDGED, 3_000, lost.id, label="on it", by="ada")
    assert await timeline.acknowledge(lost.id, person, ENTRY)
    ((_, fields),) = await world.redis.xrange(k.timeline_acknowledged)
    await world.redis.xadd(k.timeline, fields)
    assert [one.kind for one in await timeline.entries()].count(TimelineKind.ACKNOWLEDGED) == 2


async def test_entries_of_a_newer_release_and_damaged_ones_are_left_out(world: StoreWorld) -> None:
    timeline, key = TimelineStore(world.shard), world.shard.keys.timeline
    newer = codec.pack({"kind": "sun_storm", "at_ms": 1, "subject": ""})
    damaged = [
        {"kind": "worker_lost", "at_ms": 1, "subject": "w1", **one}
        for one in ({"since_ms": "before"}, {"count": [3]}, {"at_ms": float("inf")})
    ]
    for raw in (newer, b"\xc1", codec.pack([]), *map(codec.pack, damaged)):
        await world.redis.xadd(key, {"entry": raw})
    await world.redis.xadd(key, {"other": "1"})
    await timeline.note(world.epoch, MARKS, [LOST])
    assert [one.kind for one in await timeline.entries()] == [TimelineKind.WORKER_LOST]


@pytest.mark.parametrize("damaged", [b"\xc1", b"\x01", codec.pack({"leader": ["m1", "x"]})])
async def test_marks_that_cannot_be_read_begin_anew(world: StoreWorld, damaged: bytes) -> None:
    await world.redis.set(world.shard.keys.timeline_marks, damaged)
    assert await TimelineStore(world.shard).known() is None
