"""put_fireworq.lua: queues and routings of the Fireworq gateway."""

import pytest

from jqmaster.domain.fireworq.queue import FireworqQueue
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.fireworq import fireworq
from jqmaster.store.fireworq.fireworq import FireworqDefinitions, FireworqStore, decode_queue
from jqmaster.store.identity.audit import AuditStore, encode_entry
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("J19")


def entry(action: str, target: str) -> bytes:
    return encode_entry(who="me", action=action, target=target, before=None, after={})


async def test_queues_and_routings_are_written_replaced_and_deleted(world: StoreWorld) -> None:
    store = FireworqStore(world.shard)
    assert await store.all() == FireworqDefinitions({}, {})
    await store.put_queue(FireworqQueue("b", 100, 10, 2.5, 5), entry("put", "b"))
    await store.put_queue(FireworqQueue("a"), entry("put", "a"))
    await store.put_queue(FireworqQueue("a", max_workers=3), entry("put", "a"))
    await store.put_routing("x/y", "b", entry("route", "x/y"))
    await store.put_routing("x/y", "a", entry("route", "x/y"))
    found = await store.all()
    assert list(found.queues.values()) == [
        FireworqQueue("a", max_workers=3),
        FireworqQueue("b", 100, 10, 2.5, 5),
    ]
    assert found.routings == {"x/y": "a"}
    await store.delete_queue("b", entry("delete", "b"))
    await store.delete_routing("x/y", entry("delete", "x/y"))
    found = await store.all()
    assert list(found.queues) == ["a"]
    assert found.routings == {}
    page = await AuditStore(world.shard).page(limit=20, cursor=None)
    assert [one.action for one in page.entries] == ["delete", "delete", "route", "route", "put", "put", "put"]


async def test_there_is_a_limit_on_both(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fireworq, "MAX_QUEUES", 1)
    monkeypatch.setattr(fireworq, "MAX_ROUTINGS", 1)
    store = FireworqStore(world.shard)
    await store.put_queue(FireworqQueue("a"), entry("put", "a"))
    await store.put_queue(FireworqQueue("a", 5), entry("put", "a"))
    await store.put_routing("x", "a", entry("put", "x"))
    async with world.unchanged():
        with pytest.raises(ConflictError):
            await store.put_queue(FireworqQueue("b"), entry("put", "b"))
        with pytest.raises(ConflictError):
            await store.put_routing("y", "a", entry("put", "y"))


async def test_a_queue_that_cannot_be_read_leaves_the_others_alone(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    store, key = FireworqStore(world.shard), world.shard.keys.fireworq_queues
    await store.put_queue(FireworqQueue("good", 100), entry("put", "good"))
    await store.put_routing("c", "good", entry("route", "c"))
    damages = {
        "a": b"\xc1",
        "b": codec.pack([1]),
        "c": codec.pack({"max_workers": "x"}),
        "d": b"",
        "e f": codec.pack({}),
    }
    for name, raw in damages.items():
        await world.shard.client.command("HSET", key, name, raw)
    await world.shard.client.command("HSET", world.shard.keys.fireworq_routings, b"\xff", b"\xfe")
    for _ in range(3):
        found = await store.all()
        assert found.queues == {"good": FireworqQueue("good", 100)}
        assert found.damaged == set(damages)
        assert found.has_queue("a")
        assert found.has_queue("good")
        assert not found.has_queue("no")
        assert found.routings["c"] == "good"
    # It is told once, not with every read.
    assert len(caplog.records) == len(damages)
    await store.put_queue(FireworqQueue("a", 5), entry("put", "a"))
    await store.delete_queue("b", entry("delete", "b"))
    assert (await store.all()).damaged == {"c", "d", "e f"}


def test_terms_of_a_later_release_are_ignored() -> None:
    raw = codec.pack({"max_workers": 3, "some_day": {"x": 1}})
    assert decode_queue("a", raw) == FireworqQueue("a", max_workers=3)
    with pytest.raises(DamagedError, match="queue a"):
        decode_queue("a", b"\xc1")
