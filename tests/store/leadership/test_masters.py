"""beat_master.lua, repeat_heartbeats.lua, forget_master.lua, demote.lua, depose.lua, and what `look` returns of
them."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.operations.master import MasterRecord, SeenMaster
from jqmaster.errors import StaleEpochError
from jqmaster.store.health import generation
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.leadership import masters as registry
from jqmaster.store.leadership.leadership import Demotion, Leadership, Renewed
from jqmaster.store.leadership.masters import FORGET_MS, BeatAnswer, MasterStore
from tests.support.leads import renewed
from tests.support.store import StoreWorld

ENTRY = encode_entry(who="me", action="act", target="master-1", before={"epoch": 1}, after=None)


def record(master_id: str, **fields: Any) -> MasterRecord:
    given = {"node_id": "node-1", "pid": 7, "url": "http://10.0.0.1:1", "version": "1.2", "started_at_ms": 5}
    return MasterRecord(id=master_id, **{**given, **fields})


@pytest.fixture
def masters(world: StoreWorld) -> MasterStore:
    return MasterStore(world.shard)


async def ids(masters: MasterStore) -> set[str]:
    return {seen.record.id for seen in (await masters.look()).seen}


async def audited(world: StoreWorld) -> list[tuple[str, str, str]]:
    entries = (await AuditStore(world.shard).page(limit=10, cursor=None, target=None)).entries
    return [(e.who, e.action, e.target) for e in entries]


@pytest.mark.req("D1")
async def test_a_beat_registers_and_the_next_one_says_that_it_lives(
    world: StoreWorld, masters: MasterStore
) -> None:
    await masters.beat(record("m1"))
    first_ms = world.now_ms
    world.pass_ms(100)
    await masters.beat(record("m2", node_id="node-2"))
    found = await masters.look()
    assert found.seen == [
        SeenMaster(record("m1"), first_ms), SeenMaster(record("m2", node_id="node-2"), world.now_ms),
    ]  # fmt: skip
    assert (found.now_ms, found.leadership) == (world.now_ms, Leadership(world.epoch, "master-1"))
    assert found.leadership is not None
    assert found.epoch == found.leadership.number
    await masters.beat(record("m1"))
    assert (await masters.look()).get("m1") == SeenMaster(record("m1"), world.now_ms)
    assert (await masters.look()).get("m3") is None


async def test_without_a_leader_it_is_told_so(world: StoreWorld, masters: MasterStore) -> None:
    await world.leadership.resign(Leadership(world.epoch, "master-1"))
    found = await masters.look()
    assert (found.leadership, found.seen) == (None, [])
    assert found.epoch > 0


async def test_a_master_that_leaves_is_gone_and_nobody_else(masters: MasterStore, world: StoreWorld) -> None:
    await masters.beat(record("m1"))
    await masters.beat(record("m2"))
    await masters.forget("m1")
    assert await ids(masters) == {"m2"}
    async with world.unchanged():
        await masters.forget("m1")


async def test_the_dead_are_removed_by_the_beats_of_the_living(
    world: StoreWorld, masters: MasterStore
) -> None:
    await masters.beat(record("dead"))
    world.pass_ms(1)
    await masters.beat(record("silent"))
    world.pass_ms(FORGET_MS - 1)
    await masters.beat(record("living"))
    assert await ids(masters) == {"silent", "living"}
    # Its own silence does not remove it: this very heartbeat ends the silence.
    world.pass_ms(2 * FORGET_MS)
    await masters.beat(record("living"))
    assert await ids(masters) == {"living"}
    assert await world.redis.hlen(world.shard.keys.master_info) == 1


async def test_the_registry_is_bounded(
    world: StoreWorld, masters: MasterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_MASTERS", 3)
    for n in range(6):
        world.pass_ms(1)
        await masters.beat(record(f"m{n}"))
    assert await ids(masters) == {"m2", "m3", "m4", "m5"}


async def test_the_longest_silent_of_many_masters_go_and_the_leader_is_found(
    world: StoreWorld, masters: MasterStore
) -> None:
    """A heartbeat reads a hundred of them."""
    k, redis = world.shard.keys, world.redis
    await redis.zadd(k.masters, {f"m{n}": world.now_ms + n for n in range(250)})
    world.pass_ms(1_000)
    await masters.beat(record("master-1"))
    seen_ms = world.now_ms
    world.pass_ms(FORGET_MS - 850)
    assert (await masters.beat(record("m7"))).leader == (f"{world.epoch}:master-1", seen_ms)
    # 150 ms after the first of them had been silent for too long.
    world.pass_ms(FORGET_MS)
    left = await redis.zrange(k.masters, 0, -1)
    await masters.beat(record("m7"))
    assert await redis.zcard(k.masters) == len(left) - 100
    await redis.delete(k.masters)


async def test_an_entry_that_cannot_be_read_hides_no_other(world: StoreWorld, masters: MasterStore) -> None:
    redis, k = world.redis, world.shard.keys
    for n, garbage in enumerate((b"", b"\xc1", b"\x80", b"\x92\x01\x02", b"\x81\xa3pid\xa1x")):
        await masters.beat(record(f"bad{n}"))
        await redis.hset(k.master_info, f"bad{n}", garbage)
    await masters.beat(record("bare"))
    await redis.hdel(k.master_info, "bare")
    await masters.beat(record("good"))
    assert await ids(masters) == {"good"}


# --- demote


async def demote(world: StoreWorld, leadership: Leadership) -> Demotion:
    return await world.leadership.demote(leadership, fresh_ms=3_000, hold_ms=60_000, audit_entry=ENTRY)


@pytest.mark.req("D3", "D4", "D16")
async def test_a_demoted_leader_keeps_the_lock_until_it_gives_it_back_and_is_not_elected_again(
    world: StoreWorld, masters: MasterStore
) -> None:
    leadership = Leadership(world.epoch, "master-1")
    await masters.beat(record("master-1"))
    await masters.beat(record("m2"))
    async with world.published(world.shard.keys.wake_channel, "demoted:master-1"):
        assert await demote(world, leadership) is Demotion.TOLD
    assert await audited(world) == [("me", "act", "master-1")]
    assert await world.leadership.current() == leadership, "it ends its work first"
    async with world.unchanged():
        assert await renewed(world.leadership, leadership, ttl_ms=60_000) is Renewed.DEMOTED
    assert await world.leadership.resign(leadership)
    async with world.unchanged():
        assert await world.leadership.elect("master-1", "n", ttl_ms=60_000) is None
    other = await world.leadership.elect("m2", "n", ttl_ms=60_000)
    assert other
    assert other.number > leadership.number
    ttl_ms = await world.redis.pttl(world.shard.keys.demoted)
    assert 50_000 < ttl_ms <= 60_000, "and one day it may lead again"


@pytest.mark.req("D3")
async def test_only_who_leads_under_that_epoch_is_demoted(world: StoreWorld, masters: MasterStore) -> None:
    await masters.beat(record("m2"))
    old = Leadership(await world.reelect(), "master-1")
    async with world.unchanged():
        for stranger in (old, Leadership(world.epoch, "m2")):
            assert await demote(world, stranger) is Demotion.NOT_LEADER


@pytest.mark.req("D3")
async def test_a_leader_is_not_demoted_while_no_other_lives(world: StoreWorld, masters: MasterStore) -> None:
    leadership = Leadership(world.epoch, "master-1")
    async with world.unchanged():
        assert await demote(world, leadership) is Demotion.ALONE
    await masters.beat(record("m2"))
    world.pass_ms(3_001)
    await masters.beat(record("master-1"))
    async with world.unchanged():
        assert await demote(world, leadership) is Demotion.ALONE
    # The leader's own silence does not affect the others.
    world.pass_ms(3_001)
    await masters.beat(record("m2"))
    assert await demote(world, leadership) is Demotion.TOLD


# --- depose


async def depose(world: StoreWorld, silent: Leadership, seen_ms: int, by: str = "m2") -> Leadership | None:
    return await world.leadership.depose(
        silent, seen_ms, by, "nonce-2", ttl_ms=60_000, hold_ms=60_000, audit_entry=ENTRY
    )


@pytest.mark.req("D2", "D3", "D16")
async def test_a_silent_leader_is_deposed_at_once_and_can_do_nothing_more(
    world: StoreWorld, masters: MasterStore
) -> None:
    silent = Leadership(world.epoch, "master-1")
    await masters.beat(record("master-1"))
    seen_ms = world.now_ms
    job_id = await world.enqueue()
    worker_id = await world.worker()
    async with world.published(world.shard.keys.wake_channel, "demoted:master-1"):
        found = await depose(world, silent, seen_ms)
    assert found == Leadership(f"{silent.number + 1}:nonce-2", "m2")
    assert await world.leadership.current() == found
    assert await audited(world) == [("me", "act", "master-1")]
    async with world.unchanged():
        assert await renewed(world.leadership, silent, ttl_ms=60_000) is Renewed.LOST
        assert await world.leadership.resign(silent) is False
        with pytest.raises(StaleEpochError):
            await world.claims.claim(silent.epoch, worker_id, ("work",), 1)
    await world.leadership.resign(found)
    async with world.unchanged():
        assert await world.leadership.elect("master-1", "n", ttl_ms=60_000) is None
    assert await world.state(job_id) == "ready"


@pytest.mark.req("D3")
async def test_a_leader_that_gave_a_sign_of_life_since_is_not_deposed(
    world: StoreWorld, masters: MasterStore
) -> None:
    silent = Leadership(world.epoch, "master-1")
    await masters.beat(record("master-1"))
    seen_ms = world.now_ms
    world.pass_ms(1)
    await masters.beat(record("master-1"))
    async with world.unchanged():
        assert await depose(world, silent, seen_ms) is None
    await masters.forget("master-1")
    async with world.unchanged():
        assert await depose(world, silent, world.now_ms) is None


@pytest.mark.req("D3")
async def test_one_of_two_masters_that_depose_the_same_leader_takes_over(
    world: StoreWorld, masters: MasterStore
) -> None:
    silent = Leadership(world.epoch, "master-1")
    await masters.beat(record("master-1"))
    assert await depose(world, silent, world.now_ms, "m2")
    async with world.unchanged():
        assert await depose(world, silent, world.now_ms, "m3") is None


@pytest.mark.req("D3")
async def test_a_demoted_master_deposes_nobody(world: StoreWorld, masters: MasterStore) -> None:
    await masters.beat(record("master-1"))
    await masters.beat(record("m2"))
    leadership = Leadership(world.epoch, "master-1")
    assert await demote(world, leadership) is Demotion.TOLD
    await world.leadership.resign(leadership)
    second = await world.leadership.elect("m2", "n", ttl_ms=60_000)
    assert second
    async with world.unchanged():
        assert await depose(world, second, world.now_ms, "master-1") is None


async def test_a_master_tells_its_faults_and_says_nothing_of_them_if_there_are_none(
    world: StoreWorld, masters: MasterStore
) -> None:
    many = {f"duty-{n:03}": "x" * 2000 for n in range(100)}
    await masters.beat(record("m1", duty_faults=many))
    await masters.beat(record("m2"))
    faults = {seen.record.id: seen.record.duty_faults for seen in (await masters.look()).seen}
    assert faults["m2"] == {}
    kept = list(many)[: registry.MAX_FAULTS]
    assert faults["m1"] == dict.fromkeys(kept, "x" * registry.MAX_FAULT_CHARS)
    info = await world.shard.client.command("HGET", world.shard.keys.master_info, "m2")
    assert b"duty_faults" not in info


@pytest.mark.parametrize("faults", ["text", ["a"], 7])
async def test_an_entry_with_malformed_faults_is_left_out(
    world: StoreWorld, masters: MasterStore, faults: object
) -> None:
    await masters.beat(record("m1"))
    info = msgpack.unpackb(await world.shard.client.command("HGET", world.shard.keys.master_info, "m1"))
    packed = msgpack.packb(info | {"duty_faults": faults})
    await world.shard.client.command("HSET", world.shard.keys.master_info, "m1", packed)
    assert (await masters.look()).seen == []


@pytest.mark.req("S6")
async def test_the_answer_to_a_beat_tells_what_every_master_follows(
    world: StoreWorld, masters: MasterStore
) -> None:
    k, redis = world.shard.keys, world.redis
    before = await masters.beat(record("m1"))
    assert (before.now_ms, before.versions, before.identity) == (world.now_ms, (0, 0, 0), 0)
    assert before.mark == await generation.read(world.shard)
    await redis.hset(k.settings, mapping={"version": 3, "targets": 4, "namespaces": 6})
    await redis.hset(k.identity, "version", 5)
    await generation.mark(world.shard, "mark")
    assert await masters.beat(record("m1")) == BeatAnswer(
        world.now_ms, (3, 4, 6), 5, await generation.read(world.shard), (f"{world.epoch}:master-1", -1)
    )
    await masters.beat(record("master-1"))
    seen_ms = world.now_ms
    world.pass_ms(300)
    assert (await masters.beat(record("m1"))).leader == (f"{world.epoch}:master-1", seen_ms)
    await world.leadership.resign(Leadership(world.epoch, "master-1"))
    assert (await masters.beat(record("m1"))).leader is None
    # A master with such a store must still be able to say that it lives.
    for key in (k.settings, k.identity):
        await redis.delete(key)
        await redis.set(key, "of a wrong type")
    answer = await masters.beat(record("m1"))
    assert (answer.versions, answer.identity) == ((0, 0, 0), 0)
    await redis.delete(k.settings, k.identity)


async def repeated(world: StoreWorld, masters: MasterStore, master_id: str) -> tuple[bytes, int]:
    """Repeat a heartbeat a little later. Return the facts about the shard, and the time of the leader's last
    heartbeat."""
    world.pass_ms(1)
    ((_, data),) = await world.shard.client.run_joined([masters.repeated(master_id)])
    assert isinstance(data, list), data
    now_ms, (facts,), (seen_ms,) = data
    assert now_ms == world.now_ms
    return facts, seen_ms


@pytest.mark.req("D1", "S6")
async def test_a_repeated_heartbeat_says_that_the_master_lives_and_returns_the_same_until_something_changes(
    world: StoreWorld, masters: MasterStore
) -> None:
    await masters.beat(record("master-1"))
    before = await repeated(world, masters, "master-1")
    assert before[1] == -2, "it holds the lock itself"
    assert await repeated(world, masters, "master-1") == before
    assert (await masters.look()).seen == [SeenMaster(record("master-1"), world.now_ms)]
    k, seen = world.shard.keys, {before[0]}
    for command in (
        ("HSET", k.settings, "version", "1"),
        ("HSET", k.settings, "targets", "1"),
        ("HSET", k.settings, "namespaces", "1"),
        ("HSET", k.identity, "version", "1"),
        ("DEL", k.settings),
        ("SET", k.generation, "another"),
        ("SET", k.leader, "1:n:m2"),
        ("DEL", k.leader),
    ):
        await world.redis.execute_command(*command)
        facts, _ = await repeated(world, masters, "master-1")
        assert facts not in seen, command
        seen.add(facts)
    await world.redis.delete(k.identity, k.generation)


async def test_a_repeated_heartbeat_tells_when_the_leader_sent_its_last_one(
    world: StoreWorld, masters: MasterStore
) -> None:
    await masters.beat(record("m2"))
    assert (await repeated(world, masters, "m2"))[1] == -1, "the leader has sent none"
    await masters.beat(record("master-1"))
    seen_ms = world.now_ms
    assert (await repeated(world, masters, "m2"))[1] == seen_ms
    await world.leadership.resign(Leadership(world.epoch, "master-1"))
    assert (await repeated(world, masters, "m2"))[1] == -1


async def test_a_repeated_heartbeat_adds_no_master_and_passes_over_damaged_keys(
    world: StoreWorld, masters: MasterStore
) -> None:
    k = world.shard.keys
    async with world.unchanged():
        assert (await repeated(world, masters, "m1"))[0] == b""
    await masters.beat(record("m1"))
    for key in (k.settings, k.identity):
        await world.redis.set(key, "damaged")
    facts, _ = await repeated(world, masters, "m1")
    assert facts
    await world.redis.rename(k.masters, k.settings)
    await world.redis.set(k.masters, "damaged")
    async with world.unchanged():
        assert await repeated(world, masters, "m1") == (b"", -1)
    await world.redis.delete(k.settings, k.identity, k.masters, k.master_info)
