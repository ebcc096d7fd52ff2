"""One loop looks at all quiet shards on a store, and a shard that has changed looks for itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.workers.silence import CrowdRules
from jqmaster.errors import StoreUnavailableError
from jqmaster.lifecycle import running
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties import shard_look, shared_looks
from jqmaster.runtime.duties.grace import Grace, GracePolicy
from jqmaster.runtime.duties.shard_look import FollowedDuty, ShardLook
from jqmaster.runtime.duties.shared_looks import SharedLooks
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.operations.looks import Look, LookStore
from tests.runtime.duties.test_shard_look import Counting
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.server import StoreServer
from tests.support.unique import unique
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29", "S6"), real_time.LOOPS]

SHARDS = 6
# The first shards have entries, although they are quiet.
WITH_ENTRIES = 2
of_each_kind = pytest.mark.parametrize("number", [WITH_ENTRIES - 1, WITH_ENTRIES])
QUIET_S = 0.2


class Led:
    """A quiet shard that this process leads. `seen`: how many looks it got; `looked`: how many of them are its own."""

    def __init__(self, shard: Shard, epoch: str, shared: SharedLooks) -> None:
        self.shard = shard
        self.seen = self.looked = self.stale = self.blind = 0
        self.duty = Counting()
        self.duty.poll_s = 30.0
        self.store = LookStore(shard)
        look, clock = self.store.look, SystemClock()

        async def counted(epoch: str) -> Look:
            self.looked += 1
            return await look(epoch)

        self.store.look = counted  # type: ignore[method-assign]
        self.grace = Grace(clock, LiveValue(GracePolicy(17, 5, CrowdRules(5000, 0.3, 3))))
        self.look = ShardLook(
            Leadership(epoch, "me"),
            self.store,
            self.grace,
            clock,
            duties=[FollowedDuty(self.duty, lambda look: look.jobs, lambda look: look.has_logs)],
            on_look=self._on_look,
            on_blind=self._on_blind,
            lease_s=LiveValue(60.0),
            on_stale=self._on_stale,
            shared=shared,
        )

    def _on_look(self, look: Look) -> None:
        self.seen += 1

    def _on_stale(self) -> None:
        self.stale += 1

    def _on_blind(self) -> None:
        self.blind += 1


class Quiet:
    """All shards of a process, and what its store was asked."""

    def __init__(self, client: StoreClient) -> None:
        self.client = client
        self.redis = admin_of(client)
        self.shared = SharedLooks(client, SystemClock())
        self.led: list[Led] = []
        self.trips: list[int] = []

    async def counted(self, run: Callable[[Any], Awaitable[Any]], calls: Any) -> Any:
        self.trips.append(len(calls))
        return await run(calls)

    async def rounds(self, count: int) -> None:
        """Wait until each shard has got so many further looks."""
        before = [one.seen for one in self.led]

        def are_seen() -> bool:
            return all(one.seen >= then + count for one, then in zip(self.led, before, strict=True))

        await wait_until(are_seen, what=f"{count} looks at each shard")


@pytest.fixture
async def quiet(lone_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Quiet]:
    for module, name, seconds in (
        (shard_look, "QUIET_S", QUIET_S),
        (shard_look, "USUAL_S", QUIET_S / 4),
        (shard_look, "BUSY_S", QUIET_S / 8),
        (shared_looks, "ROUND_S", QUIET_S / 4),
    ):
        monkeypatch.setattr(module, name, seconds)
    client = StoreClient(lone_server.url)
    one, tag = Quiet(client), unique("overheard")
    client.together.shards = SHARDS
    for number in range(SHARDS):
        shard = Shard(client, Keys(f"{tag}-{number}"))
        lead = await LeadershipStore(shard).elect("me", "n", ttl_ms=60_000)
        assert lead
        one.led.append(Led(shard, lead.epoch, one.shared))
    for led in one.led[:WITH_ENTRIES]:
        await one.redis.zadd(led.shard.keys.scheduled, {"a late job": 1e13})
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running([one.shared]))
        for led in one.led:
            await stack.enter_async_context(running([led.duty, led.look]))
        await wait_until(lambda: len(one.shared._due_s) == SHARDS, what="every shard is quiet")
        for name in ("run_shards", "run_joined"):
            monkeypatch.setattr(client, name, partial(one.counted, getattr(client, name)))
        yield one
    for key in [key async for key in one.redis.scan_iter("*overheard*")]:
        await one.redis.delete(key)
    await client.close()


async def test_quiet_shards_share_calls_and_none_looks_for_itself(quiet: Quiet) -> None:
    looked = [one.looked for one in quiet.led]
    await quiet.rounds(4)
    assert [one.looked for one in quiet.led] == looked
    assert sum(quiet.trips) > len(quiet.trips)
    assert [one.duty.rounds for one in quiet.led] == [0] * SHARDS


@of_each_kind
async def test_a_shard_in_which_something_is_due_begins_its_duty_and_the_others_rest(
    quiet: Quiet, number: int
) -> None:
    looked = [one.looked for one in quiet.led]
    await quiet.redis.zadd(quiet.led[number].shard.keys.scheduled, {"a job": 1})
    await wait_until(lambda: quiet.led[number].duty.rounds, what="the duty begins")
    assert quiet.led[number].looked > looked[number]
    assert [one.looked for one in quiet.led[number + 1 :]] == looked[number + 1 :]


async def test_changed_constraints_of_a_shard_without_entries_are_seen(quiet: Quiet) -> None:
    led = quiet.led[WITH_ENTRIES]
    await quiet.redis.hset(led.shard.keys.rules, "edition", "7")
    await wait_until(lambda: led.look._seen and led.look._seen.edition == (0, 7, 0), what="they are seen")
    looked = led.looked
    await quiet.rounds(2)
    assert led.looked == looked, "it is quiet again"


async def test_a_shard_that_is_stirred_looks_for_itself_at_once_and_is_quiet_again_later(
    quiet: Quiet,
) -> None:
    looked = quiet.led[0].looked
    quiet.led[0].look.stir()
    await wait_until(lambda: quiet.led[0].looked > looked, what="a look of its own")
    await wait_until(lambda: len(quiet.shared._due_s) == SHARDS, what="it is quiet again")


@of_each_kind
async def test_a_leader_with_an_old_epoch_learns_it_and_the_others_go_on(quiet: Quiet, number: int) -> None:
    await quiet.redis.set(quiet.led[number].shard.keys.epoch, "99:other")
    await wait_until(lambda: quiet.led[number].stale, what="the lead is over")
    await wait_until(lambda: len(quiet.shared._due_s) == SHARDS - 1, what="it has left")
    assert [one.stale for one in quiet.led] == [int(n == number) for n in range(SHARDS)]


@of_each_kind
async def test_a_damaged_shard_concerns_no_other(
    quiet: Quiet, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(*_: object) -> bool:
        raise ValueError("cannot be read")

    led, others = quiet.led[number], [*quiet.led[:number], *quiet.led[number + 1 :]]
    monkeypatch.setattr(led.look, "take_time", fails)
    looked = [one.looked for one in others]
    before = led.looked
    await wait_until(lambda: led.looked > before + 1, what="looks of its own")
    await wait_until(lambda: led.look in quiet.shared._due_s, what="it is quiet again")
    seen = [one.seen for one in others]
    await wait_until(
        lambda: all(one.seen > then for one, then in zip(others, seen, strict=True)),
        what="they are looked at",
    )
    assert [one.looked for one in others] == looked


@pytest.mark.parametrize("is_refused", [True, False])
async def test_while_the_store_gives_no_answer_each_shard_looks_for_itself(
    quiet: Quiet, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    monkeypatch.setattr(shared_looks, "ANSWER_WITHIN_S", 0.1)

    async def away(calls: object) -> Any:
        if is_refused:
            raise StoreUnavailableError("away")
        await asyncio.Event().wait()

    looked = [one.looked for one in quiet.led]
    for name in ("run_shards", "run_joined"):
        monkeypatch.setattr(quiet.client, name, away)

    def have_looked() -> bool:
        return all(one.looked > then for one, then in zip(quiet.led, looked, strict=True))

    await wait_until(have_looked, what="each looks for itself")


async def test_a_store_whose_clock_was_set_back_is_noticed_by_a_quiet_leader(quiet: Quiet) -> None:
    led = quiet.led[3]
    sent_at_s = SystemClock().monotonic_s()
    led.grace.overhear(sent_at_s, 10_000_000, 0.0)
    led.grace.overhear(sent_at_s, 9_000_000, 0.0)
    assert led.grace.was_set_back
    looked = led.looked
    await wait_until(lambda: led.looked > looked, what="a look of its own, which begins the reaper")


@of_each_kind
async def test_a_step_of_the_stores_clock_forward_delays_nothing_that_is_due(
    quiet: Quiet, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    led = quiet.led[number]
    seen = led.look._seen
    assert seen
    looked, later, take_time = led.looked, led.look._overhears_until_ms, led.look.take_time
    # The clock steps over the instant at which an entry is due.
    assert later - seen.now_ms > 30_000
    monkeypatch.setattr(led.look, "take_time", lambda now_ms, *times: take_time(later, *times))
    await wait_until(lambda: led.looked > looked, what="a look of its own")
