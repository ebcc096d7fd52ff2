"""A backup holds a shard as it was at one instant, and a restore brings all of it back."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.operations.incidents import incidents_of
from jqmaster.domain.operations.timeline import (
    KnownState,
    LostWorker,
    QueueSeen,
    TimelineEntry,
    TimelineKind,
)
from jqmaster.errors import ConflictError, ForbiddenError
from jqmaster.store.backup import copying, loading
from jqmaster.store.backup.copying import Copier, Cut
from jqmaster.store.backup.hold import held
from jqmaster.store.backup.tracked import TrackedConnection, tracked
from jqmaster.store.backup.values import TYPES, Record
from jqmaster.store.keys import KEYS, Keys, row_of
from jqmaster.store.link.access import StoreAccess
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.operations.timeline import TimelineStore
from tests.support.admin import forget_keys
from tests.support.server import StoreServer
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D31")


async def copied(url: str, shard: str, *, longest_pause_ms: int = 4_000) -> tuple[Cut, list[Record]]:
    records: list[Record] = []
    keys = Keys(shard)
    async with tracked(url, StoreAccess(), keys.tag, timeout_s=10) as store:
        cut = await Copier(store, keys, records.append, longest_pause_ms=longest_pause_ms).copy()
    return cut, records


@pytest.fixture
async def other(lone_server: StoreServer) -> AsyncIterator[Shard]:
    async with empty_shard(lone_server) as shard:
        yield shard


@contextlib.asynccontextmanager
async def empty_shard(lone_server: StoreServer) -> AsyncIterator[Shard]:
    client = StoreClient(lone_server.url, connections=2)
    shard = Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))
    yield shard
    await forget_keys(shard)
    await client.close()


@pytest.fixture
async def source(lone_server: StoreServer) -> AsyncIterator[StoreWorld]:
    client = StoreClient(lone_server.url, connections=4)
    shard = Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))
    async with StoreWorld.on(shard) as one:
        yield one
    await forget_keys(shard)
    await client.close()


def shard_of(world: StoreWorld) -> str:
    return world.shard.keys.tag[1:-2]


def by_name(contents: dict[str, Any], tag: str) -> dict[str, Any]:
    """Return the data that a restore must bring back, by keys without their tag."""
    found = {}
    for name, value in contents.items():
        row = row_of(name.removeprefix(tag).encode())
        assert row
        if row.name not in loading.LEFT_OUT:
            found[name.removeprefix(tag)] = value
    return found


async def test_every_kind_of_value_comes_back_as_it_was(lone_server: StoreServer, other: Shard) -> None:
    async with empty_shard(lone_server) as shard:
        await check_every_kind(lone_server, StoreWorld(shard), other)


async def check_every_kind(lone_server: StoreServer, source: StoreWorld, other: Shard) -> None:
    values: dict[str, tuple[Any, ...]] = {
        "string": ("SET", b"\x00\xff" * 100),
        "list": ("RPUSH", *(f"entry {n}" for n in range(2_500))),
        "hash": ("HSET", *(text for n in range(1_500) for text in (f"f{n}", b"\xfe%d" % n))),
        "set": ("SADD", *(f"member {n}" for n in range(1_500))),
        "sorted set": ("ZADD", *(part for n in range(2_500) for part in (n + 0.125, f"m{n}"))),
        "stream": ("XADD", "7-1", "field", b"\xfd"),
    }
    used = {}
    for info in KEYS:
        key = f"{source.shard.keys.tag}{info.stem}" + "".join(f":{part}" for part in info.of)
        command, *rest = values[info.type]
        await source.redis.delete(key)
        await source.redis.execute_command(command, key, *rest)
        if info.type == "stream":
            for n in range(250):
                await source.redis.execute_command("XADD", key, f"{8 + n}-0", "n", n)
        used[key] = info
    await source.redis.pexpire(source.shard.keys.result("expires"), 500_000)
    await source.redis.set(source.shard.keys.result("expires"), "x", px=500_000)
    # Its mark would have the backup refused.
    await source.redis.delete(source.shard.keys.restoring)
    before = await source.contents()
    _, records = await copied(lone_server.backup_url, shard_of(source))
    async with held(other) as hold:
        await loading.load(hold, records)
    after = StoreWorld(other)
    found = by_name(await after.contents(), other.keys.tag)
    expected = by_name(before, source.shard.keys.tag)
    # The leases of that time are over.
    assert set(dict(await source.redis.zrange(other.keys.running, 0, -1, withscores=True)).values()) == {1.0}
    for one in (found, expected):
        del one["running"]
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []
    assert 0 < await source.redis.pttl(other.keys.result("expires")) <= 500_000
    assert {TYPES[record.kind] for record in records} == set(TYPES)


async def test_a_copy_under_writes_has_all_of_one_instant(
    lone_server: StoreServer, source: StoreWorld
) -> None:
    """Every call writes two keys. A copy that has one of a pair and not the other is of no instant."""
    keys, writes, is_over = source.shard.keys, 0, False

    async def write() -> None:
        nonlocal writes
        while not is_over:
            writes += 1
            await source.redis.execute_command(
                "MSET", keys.result(f"a{writes % 50}"), writes, keys.job(f"b{writes % 50}"), writes
            )

    await source.enqueue_many(600)
    writers = [asyncio.create_task(write()) for _ in range(3)]
    try:
        for _ in range(3):
            began = writes
            _, records = await copied(lone_server.backup_url, shard_of(source))
            held = {record.key: record.values for record in records}
            pairs = [(held.get(b"result:a%d" % n), held.get(b"job:b%d" % n)) for n in range(50)]
            assert all(first == second for first, second in pairs)
            assert max(int(first[0]) for first, _ in pairs if first) >= began
    finally:
        is_over = True
        await asyncio.gather(*writers)
    for n in range(50):
        await source.redis.delete(keys.result(f"a{n}"), keys.job(f"b{n}"))


async def test_keys_removed_or_changed_during_the_copy_are_so_in_the_copy(
    lone_server: StoreServer, source: StoreWorld, other: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, gone = await source.enqueue(), await source.enqueue()
    copy_changed = Copier._copy_changed
    since: list[str] = []

    async def meanwhile(self: Copier) -> None:
        if not since:
            since.append(await source.enqueue())
            await source.operator_actions.delete(gone)
        await copy_changed(self)

    monkeypatch.setattr(Copier, "_copy_changed", meanwhile)
    cut, records = await copied(lone_server.backup_url, shard_of(source))
    assert cut.jobs["ready"] == 2
    async with held(other) as hold:
        await loading.load(hold, records)
    found = StoreWorld(other)
    assert [await found.records.get(job) is not None for job in (kept, gone, *since)] == [True, False, True]
    assert await found.findings() == []


async def test_writes_that_come_in_spite_of_the_pause_spoil_the_copy(
    lone_server: StoreServer, source: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = TrackedConnection.ask

    async def no_pause(self: TrackedConnection, *commands: Any) -> Any:
        if commands[0][:2] == ("CLIENT", "PAUSE"):
            return [b"OK"]
        if commands[0][0] == "HVALS" or commands[0][:2] == ("GET", self._tag.decode() + "generation"):
            await source.enqueue()
        return await ask(self, *commands)

    monkeypatch.setattr(TrackedConnection, "ask", no_pause)
    with pytest.raises(ConflictError, match="longest-pause-ms"):
        await copied(lone_server.backup_url, shard_of(source))


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_data_that_are_being_restored_are_not_copied(
    lone_server: StoreServer, source: StoreWorld, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    copy_all = Copier._copy_all

    async def begins(self: Copier) -> None:
        await copy_all(self)
        await loading.begin(source.shard, "a backup")

    if when == "before":
        await loading.begin(source.shard, "a backup")
    else:
        monkeypatch.setattr(Copier, "_copy_all", begins)
    with pytest.raises(ConflictError, match=r"has begun and not ended: .* before you take a backup"):
        await copied(lone_server.backup_url, shard_of(source))
    await loading.end(source.shard)


async def test_a_pause_that_is_too_short_copies_nothing_as_whole(
    lone_server: StoreServer, source: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await source.enqueue_many(50)
    monkeypatch.setattr(copying, "_USABLE_PART", 0.0)
    begun = 0

    async def change(self: Copier) -> None:
        nonlocal begun
        begun += 1
        await source.enqueue()

    monkeypatch.setattr(Copier, "_copy_changed", change)
    with pytest.raises(ConflictError, match="quieter time"):
        await copied(lone_server.backup_url, shard_of(source))
    assert begun == 4
    # Writes go on at once.
    await source.enqueue()


async def test_a_user_without_the_rights_is_told_which_file_has_them(
    lone_server: StoreServer, source: StoreWorld
) -> None:
    with pytest.raises(ForbiddenError, match=r"CLIENT TRACKING.*valkey-backup\.acl"):
        await copied(lone_server.url, shard_of(source))


async def test_keys_of_other_shards_and_unknown_keys_are_left_out(
    lone_server: StoreServer, source: StoreWorld, other: Shard
) -> None:
    await source.enqueue()
    await source.redis.set(f"{source.shard.keys.tag}of_next_year:1", "x")
    await source.redis.set(other.keys.result("foreign"), "x")
    cut, records = await copied(lone_server.backup_url, shard_of(source))
    assert cut.unknown == 1
    assert not [record for record in records if b"foreign" in record.key or b"next_year" in record.key]
    await source.redis.delete(f"{source.shard.keys.tag}of_next_year:1")


async def test_a_restored_timeline_ends_what_was_not_over(
    lone_server: StoreServer, source: StoreWorld, other: Shard
) -> None:
    lost = {"w1": LostWorker("node-1:7", 3)}
    marks = KnownState(("m1", "rack-1:7"), lost=lost, old_since_ms=17, old_name="mail")
    entries = [
        TimelineEntry(TimelineKind.WORKER_LOST, 20, "w1", label="node-1:7", count=3),
        TimelineEntry(TimelineKind.BACKLOG_OLD, 30, "mail", since_ms=17, label="job-1", count=40),
    ]
    await TimelineStore(source.shard).note(source.epoch, marks, entries)
    _, records = await copied(lone_server.backup_url, shard_of(source))
    async with held(other) as hold:
        await loading.load(hold, records)
    restored = TimelineStore(other)
    (incident,) = incidents_of(await restored.entries())
    assert incident.ended_ms is None
    # No worker has registered, and no job that may start waits.
    known = await restored.known()
    assert known
    _, more = known.compare(QueueSeen(60_000, ("m2", "rack-2:7")))
    (incident,) = incidents_of([*await restored.entries(), *(replace(one, id="9-9") for one in more)])
    assert incident.ended_ms == 60_000
