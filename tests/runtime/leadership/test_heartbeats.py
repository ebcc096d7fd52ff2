"""One loop sends the heartbeats of all shards on a store, and none of them suffers for another."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from jqmaster.domain.operations.master import ANSWER_LIVES_S, MasterRecord, Pace
from jqmaster.errors import DamagedError, StoreUnavailableError
from jqmaster.lifecycle import running
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership import heartbeats
from jqmaster.runtime.leadership.heartbeats import Heartbeats
from jqmaster.runtime.leadership.membership import Membership
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.masters import BeatAnswer, MasterStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.shard import Shard
from tests.support.admin import admin_of
from tests.support.clock import ManualClock
from tests.support.server import StoreServer
from tests.support.unique import unique
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("D29", "S6")

PACE = Pace(5.0)
SHARDS = 20


class Process:
    """A master that serves many shards of one store. `trips`: the kind of each of its round trips, and how many calls
    it had. `has_all`: whether the components of the shards have all that the answers name."""

    def __init__(self, client: StoreClient) -> None:
        self.client = client
        self.clock = ManualClock()
        self.beats = Heartbeats(client, self.clock)
        tag = unique("beating")
        self.shards = [Shard(client, Keys(f"{tag}-{number}")) for number in range(SHARDS)]
        self.answers: dict[int, list[BeatAnswer]] = {number: [] for number in range(SHARDS)}
        self.faults: list[dict[str, str]] = [{} for _ in range(SHARDS)]
        self.has_all = True
        self.members = [self._member(number) for number in range(SHARDS)]
        self.trips: list[tuple[str, int]] = []

    def _member(self, number: int) -> Membership:
        async def describe(started_at_ms: int) -> MasterRecord:
            return MasterRecord("me", "node", 1, "http://me", "1", started_at_ms)

        return Membership(
            MasterStore(self.shards[number]),
            self.clock,
            name=f"shard-{number}",
            beats=self.beats,
            pace=LiveValue(PACE),
            describe=describe,
            duty_faults=lambda: dict(self.faults[number]),
            faults=self.faults[number],
            on_answer=lambda answer, sent_at_s: self._on_answer(number, answer),
        )

    def _on_answer(self, number: int, answer: BeatAnswer) -> bool:
        self.answers[number].append(answer)
        return self.has_all

    async def counted(self, run: Callable[[Sequence[ScriptCall]], Awaitable[Any]], calls: Any) -> Any:
        self.trips.append((run.__name__, len(calls)))
        return await run(calls)

    async def lead(self) -> None:
        """Give this master the lock of every shard, and wait until every shard's answer is known."""
        for shard in self.shards:
            await admin_of(self.client).set(shard.keys.leader, "1:n:me")
        await self.told()
        await self.told()
        self.trips.clear()

    async def told(self) -> list[int]:
        """Wait for the answers to the next heartbeats, and return how many each shard has got."""
        # The store counts a heartbeat in the same millisecond as the last one as missing, and gets one in full.
        await asyncio.sleep(0.002)
        await self.clock.pass_s(PACE.beat_s)
        return [len(answers) for answers in self.answers.values()]

    async def sent_at_ms(self) -> list[int]:
        """Return the time of the last heartbeat in each shard."""
        looks = [await MasterStore(shard).look() for shard in self.shards]
        return [look.seen[0].last_seen_ms for look in looks]


@pytest.fixture
async def process(lone_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Process]:
    client = StoreClient(lone_server.url)
    one = Process(client)
    async with running([one.beats, *one.members]):
        await wait_until(lambda: len(one.beats._members) == SHARDS, what="all have registered")
        await one.clock.asleep()
        for name in ("run_joined", "run_shards"):
            monkeypatch.setattr(client, name, partial(one.counted, getattr(client, name)))
        yield one
    seen = [await MasterStore(shard).look() for shard in one.shards]
    assert [found.seen for found in seen] == [[]] * SHARDS, "it has left every shard"
    redis = admin_of(client)
    for key in [key async for key in redis.scan_iter("*beating*")]:
        await redis.delete(key)
    await client.close()


async def test_heartbeats_of_many_shards_share_a_round_trip(process: Process) -> None:
    # The first answers have to be learned.
    assert await process.told() == [2] * SHARDS
    assert process.trips == [("run_joined", SHARDS), ("run_shards", SHARDS)]
    seen = await MasterStore(process.shards[7]).look()
    assert [one.record.id for one in seen.seen] == ["me"]
    process.trips.clear()
    # Nobody leads, which the sub-leader must hear each time.
    assert await process.told() == [3] * SHARDS
    assert process.trips == [("run_joined", SHARDS)]


async def test_heartbeats_of_a_leader_that_change_nothing_reach_the_store_and_nobody_else(
    process: Process,
) -> None:
    await process.lead()
    for _ in range(3):
        before, answers = await process.sent_at_ms(), [len(one) for one in process.answers.values()]
        assert await process.told() == answers
        assert all(now > then for now, then in zip(await process.sent_at_ms(), before, strict=True))
        # Their answers count as current.
        now_s = process.clock.monotonic_s()
        assert {member.fresh.at_s - now_s for member in process.members} == {ANSWER_LIVES_S}
    assert process.trips == [("run_joined", SHARDS)] * 3


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        (("HSET", "settings", "version", "5"), {"versions": (5, 0, 0)}),
        (("HSET", "settings", "targets", "6"), {"versions": (0, 6, 0)}),
        (("HSET", "settings", "namespaces", "7"), {"versions": (0, 0, 7)}),
        (("HSET", "identity", "version", "8"), {"identity": 8}),
        (("SET", "generation", "another"), {"mark": "another"}),
        (("SET", "leader", "2:m:other"), {"leader": ("2:m:other", -1)}),
        (("DEL", "leader"), {"leader": None}),
    ],
)
async def test_whatever_changes_in_a_shard_is_in_its_next_answer(
    process: Process, command: tuple[str, ...], changed: dict[str, Any]
) -> None:
    await process.lead()
    verb, key, *args = command
    await admin_of(process.client).execute_command(verb, getattr(process.shards[4].keys, key), *args)
    told = [len(answers) for answers in process.answers.values()]
    assert await process.told() == [count + int(n == 4) for n, count in enumerate(told)]
    assert process.trips == [("run_joined", SHARDS), ("run_shards", 1)]
    answer = process.answers[4][-1]
    assert {name: getattr(answer, name) for name in changed} == changed


async def test_components_that_lack_something_hear_of_it_with_each_heartbeat(process: Process) -> None:
    await process.lead()
    process.has_all = False
    await admin_of(process.client).hset(process.shards[4].keys.identity, "version", "8")
    told = len(process.answers[4])
    for further in range(1, 4):
        fresh_s = process.members[4].fresh.at_s
        assert (await process.told())[4] == told + further
        assert process.members[4].fresh.at_s == fresh_s
    process.has_all = True
    assert (await process.told())[4] == told + 4
    assert (await process.told())[4] == told + 4


async def test_a_fault_that_begins_or_ends_is_told_with_the_next_heartbeat(process: Process) -> None:
    await process.lead()
    told = len(process.answers[4])
    process.members[4].tell()
    assert (await process.told())[4] == told + 1
    assert (await process.told())[4] == told + 1


async def test_the_last_heartbeat_of_another_leader_is_in_each_answer(process: Process) -> None:
    redis, keys = admin_of(process.client), process.shards[2].keys
    await redis.set(keys.leader, "1:n:other")
    for seen_ms in (1_000, 2_000, 3_000):
        await redis.zadd(keys.masters, {"other": seen_ms})
        await process.told()
        assert process.answers[2][-1].leader == ("1:n:other", seen_ms if seen_ms > 1_000 else -1)
    await redis.zrem(keys.masters, "other")


async def test_a_fault_is_in_the_entry_at_once_and_gone_when_it_ends(process: Process) -> None:
    await process.lead()
    for faults in ({"mail": "fails"}, {}):
        process.faults[6].clear()
        process.faults[6].update(faults)
        await process.told()
        (seen,) = (await MasterStore(process.shards[6]).look()).seen
        assert seen.record.duty_faults == faults


async def test_a_master_that_was_removed_registers_again_with_its_next_heartbeat(process: Process) -> None:
    await process.lead()
    await MasterStore(process.shards[8]).forget("me")
    await process.told()
    assert [one.record.url for one in (await MasterStore(process.shards[8]).look()).seen] == ["http://me"]


async def test_from_time_to_time_a_heartbeat_restores_the_entry_and_removes_silent_masters(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "FULL_EVERY", 4)
    await process.lead()
    redis, keys = admin_of(process.client), process.shards[8].keys
    await redis.hset(keys.master_info, "me", "damaged")
    await redis.zadd(keys.masters, {"silent": 1})
    for _ in range(4):
        await process.told()
    assert [one.record.id for one in (await MasterStore(process.shards[8]).look()).seen] == ["me"]
    assert process.trips.count(("run_shards", SHARDS)) == 1


async def test_a_shard_whose_key_faults_or_answer_cannot_be_handled_fails_alone(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("cannot be taken")

    def is_refused(*_: object) -> None:
        raise DamagedError("the answer is damaged")

    damaged = process.shards[3].keys.masters
    redis = admin_of(process.client)
    await redis.rename(damaged, f"{damaged}-aside")
    await redis.set(damaged, "damaged")
    monkeypatch.setattr(process.members[5], "_on_answer", fails)
    monkeypatch.setattr(process.members[7], "_on_answer", is_refused)
    monkeypatch.setattr(process.members[9], "_duty_faults", fails)
    assert await process.told() == [1 if number in (3, 5, 7, 9) else 2 for number in range(SHARDS)]
    await redis.delete(damaged)
    assert await process.told() == [{3: 2, 5: 1, 7: 1, 9: 1}.get(number, 3) for number in range(SHARDS)]
    await redis.delete(f"{damaged}-aside")


async def test_a_shard_that_leaves_gets_no_heartbeat_after_it(process: Process) -> None:
    """A heartbeat under way would register the master again."""
    going_on, run_joined = asyncio.Event(), process.client.run_joined

    async def slow(calls: Sequence[ScriptCall]) -> list[Any]:
        await going_on.wait()
        return await run_joined(calls)

    process.client.run_joined = slow  # type: ignore[method-assign]
    beating = asyncio.create_task(process.told())
    await wait_until(process.beats._is_free.locked, what="heartbeats are under way")
    leaving = asyncio.create_task(process.members[0].stop())
    await asyncio.sleep(0)
    going_on.set()
    await asyncio.gather(beating, leaving)
    assert (await MasterStore(process.shards[0]).look()).seen == []
    assert (await process.told())[1] == 3


async def test_a_store_that_is_away_gets_one_call_and_all_heartbeats_when_it_is_back(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def away(calls: object) -> None:
        nonlocal tries
        tries += 1
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(process.client, "run_joined", away)
        assert await process.told() == [1] * SHARDS
    assert tries == 1
    assert await process.told() == [2] * SHARDS
