"""One loop sends the heartbeats of all shards on a store, and none of them suffers for another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import DamagedError, StoreUnavailableError
from jqmaster.lifecycle import running
from jqmaster.live_value import LiveValue
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
    """A master that serves many shards of one store. `trips`: how many calls each of its round trips had."""

    def __init__(self, client: StoreClient) -> None:
        self.client = client
        self.clock = ManualClock()
        self.beats = Heartbeats(client, self.clock)
        tag = unique("beating")
        self.shards = [Shard(client, Keys(f"{tag}-{number}")) for number in range(SHARDS)]
        self.answers: dict[int, list[BeatAnswer]] = {number: [] for number in range(SHARDS)}
        self.members = [self._member(number) for number in range(SHARDS)]
        self.trips: list[int] = []

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
            duty_faults=dict,
            on_answer=lambda answer, sent_at_s: self.answers[number].append(answer),
        )

    async def told(self) -> list[int]:
        """Wait for the answers to the next heartbeats, and return how many each shard has got."""
        await self.clock.pass_s(PACE.beat_s)
        return [len(answers) for answers in self.answers.values()]


@pytest.fixture
async def process(lone_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Process]:
    client = StoreClient(lone_server.url)
    one = Process(client)
    run_shards = client.run_shards

    async def counting(calls: Sequence[ScriptCall]) -> list[Any]:
        one.trips.append(len(calls))
        return await run_shards(calls)

    async with running([one.beats, *one.members]):
        await wait_until(lambda: len(one.beats._members) == SHARDS, what="all have registered")
        await one.clock.asleep()
        monkeypatch.setattr(client, "run_shards", counting)
        yield one
    seen = [await MasterStore(shard).look() for shard in one.shards]
    assert [found.seen for found in seen] == [[]] * SHARDS, "it has left every shard"
    redis = admin_of(client)
    for key in [key async for key in redis.scan_iter("*beating*")]:
        await redis.delete(key)
    await client.close()


async def test_heartbeats_of_many_shards_share_a_round_trip(process: Process) -> None:
    assert await process.told() == [2] * SHARDS
    assert process.trips == [SHARDS]
    seen = await MasterStore(process.shards[7]).look()
    assert [one.record.id for one in seen.seen] == ["me"]


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
    going_on, run_shards = asyncio.Event(), process.client.run_shards

    async def slow(calls: Sequence[ScriptCall]) -> list[Any]:
        await going_on.wait()
        return await run_shards(calls)

    process.client.run_shards = slow  # type: ignore[method-assign]
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
        patch.setattr(process.client, "run_shards", away)
        assert await process.told() == [1] * SHARDS
    assert tries == 1
    assert await process.told() == [2] * SHARDS
