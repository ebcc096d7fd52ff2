import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from jqmaster.clock import Clock, SystemClock, wait_for_event
from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.lifecycle import Component
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.leader import Leader
from jqmaster.runtime.leadership.renewals import RENEWALS_PER_TTL, TRUST, HeldLock, Renewals
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import LeaderResigned, MasterDemoted, WakeMessage
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.clock import ManualClock
from tests.support.listening import OwnListener
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


class Log:
    """The leaders of all masters of a test, over time."""

    def __init__(self) -> None:
        self.leading: list[str] = []
        self.epochs: list[int] = []
        self.most = 0


class Duty:
    def __init__(self, log: Log, leadership: Leadership, stop_s: float) -> None:
        self._log = log
        self._leadership = leadership
        self._stop_s = stop_s

    async def start(self) -> None:
        self._log.leading.append(self._leadership.master_id)
        self._log.epochs.append(self._leadership.number)
        self._log.most = max(self._log.most, len(self._log.leading))

    async def stop(self) -> None:
        self._log.leading.remove(self._leadership.master_id)
        await asyncio.sleep(self._stop_s)


class Electorate:
    def __init__(self, url: str, shard: str, stack: contextlib.AsyncExitStack) -> None:
        self.url = url
        self.shard = shard
        self.log = Log()
        self._stack = stack

    async def store(self, timeout_s: float = 5) -> LeadershipStore:
        client = StoreClient(self.url, connections=4, timeout_s=timeout_s)
        self._stack.push_async_callback(client.close)
        return LeadershipStore(Shard.bound(client, Keys(self.shard)))

    async def leader(
        self,
        name: str,
        *,
        ttl_s: float = 0.6,
        pace: LiveValue[Pace] | None = None,
        listens: bool = False,
        stop_s: float = 0.0,
        goes_first: bool = True,
        clock: Clock | None = None,
    ) -> Leader:
        store = await self.store()

        def make_duties(leadership: Leadership) -> Sequence[Component]:
            return [Duty(self.log, leadership, stop_s)]

        renewals = Renewals(store._shard.client, clock or SystemClock())
        await renewals.start()
        self._stack.push_async_callback(renewals.stop)
        leader = Leader(
            store,
            clock or SystemClock(),
            master_id=name,
            pace=pace or LiveValue(Pace(ttl_s)),
            renewals=renewals,
            make_duties=make_duties,
            goes_first=lambda: goes_first,
        )
        if listens:
            ready = asyncio.Event()

            def wake(message: WakeMessage) -> None:
                if isinstance(message, LeaderResigned | MasterDemoted):
                    leader.wake(message)

            listener = OwnListener(
                store._shard, on_wake=wake, on_finished=lambda job_id: None, on_gap=ready.set
            )
            await listener.start()
            self._stack.push_async_callback(listener.stop)
            await ready.wait()
        await leader.start()
        self._stack.push_async_callback(leader.stop)
        return leader


@pytest.fixture
async def electorate(store_server: StoreServer) -> AsyncIterator[Electorate]:
    async with contextlib.AsyncExitStack() as stack:
        yield Electorate(store_server.url, f"l{uuid.uuid4().hex[:10]}", stack)


@pytest.fixture
async def own_store() -> AsyncIterator[StoreServer]:
    server = StoreServer()
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.stop)


@pytest.mark.req("D1")
async def test_one_of_several_leads_and_keeps_the_lead(
    electorate: Electorate, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals = 0
    renewed = HeldLock.renewed

    def counted(lock: HeldLock) -> None:
        nonlocal renewals
        renewals += 1
        renewed(lock)

    monkeypatch.setattr(HeldLock, "renewed", counted)
    # The lock lives for three seconds: a busy machine must not lose it.
    leaders = [await electorate.leader(f"m{n}", ttl_s=3) for n in range(3)]
    await wait_until(lambda: electorate.log.leading)
    holder = await (await electorate.store()).current()
    assert holder
    # This is longer than the life of the lock, which therefore lives by its renewals.
    await wait_until(lambda: renewals > RENEWALS_PER_TTL)
    assert await (await electorate.store()).current() == holder
    assert [leader.leadership for leader in leaders if leader.leadership] == [holder]
    assert (electorate.log.epochs, electorate.log.most) == ([holder.number], 1)


@pytest.mark.req("D3", "D4")
async def test_told_to_step_down_it_stops_its_duties_and_gives_the_lock_back(electorate: Electorate) -> None:
    first = await electorate.leader("m1", ttl_s=30)
    await wait_until(lambda: first.leadership)
    second = await electorate.leader("m2", ttl_s=30, listens=True)
    began_s = asyncio.get_running_loop().time()
    first.step_down()
    await wait_until(lambda: second.leadership)
    # The resigning leader said so: its lock would have lasted for half a minute.
    assert asyncio.get_running_loop().time() - began_s < 9
    assert (first.leadership, electorate.log.leading, electorate.log.most) == (None, ["m2"], 1)
    assert electorate.log.epochs == sorted(set(electorate.log.epochs))


@pytest.mark.req("D1")
async def test_a_master_that_stops_hands_over_at_once(electorate: Electorate) -> None:
    first = await electorate.leader("m1", ttl_s=30)
    await wait_until(lambda: first.leadership)
    second = await electorate.leader("m2", ttl_s=30, listens=True)
    await first.stop()
    await wait_until(lambda: second.leadership, timeout_s=9)
    assert electorate.log.most == 1


@pytest.mark.req("D4")
async def test_nobody_takes_it_for_the_leader_while_its_duties_still_stop(electorate: Electorate) -> None:
    leader = await electorate.leader("m1", stop_s=0.3)
    await wait_until(lambda: leader.leadership)
    leader.step_down()
    await wait_until(lambda: not electorate.log.leading)
    assert leader.leadership is None


@pytest.mark.req("D4")
async def test_it_stops_when_another_holds_the_lock(electorate: Electorate) -> None:
    leader = await electorate.leader("m1", ttl_s=0.6)
    await wait_until(lambda: leader.leadership)
    store = await electorate.store()
    redis, keys = admin_of(store._shard.client), store._shard.keys
    await redis.set(keys.leader, "99:other:m9", px=60_000)
    await wait_until(lambda: not electorate.log.leading)
    assert await redis.get(keys.leader) == b"99:other:m9", "the lock of another is left alone"
    assert leader.leadership is None


@pytest.mark.req("D1", "D2")
async def test_a_lock_that_was_lost_is_won_again_under_a_greater_epoch(electorate: Electorate) -> None:
    leader = await electorate.leader("m1")
    await wait_until(lambda: leader.leadership)
    store = await electorate.store()
    await admin_of(store._shard.client).delete(store._shard.keys.leader)
    await wait_until(lambda: len(electorate.log.epochs) == 2)
    assert electorate.log.epochs[0] < electorate.log.epochs[1]


@pytest.mark.req("D4")
async def test_a_store_that_hangs_ends_the_lead_before_the_lock_could_go(own_store: StoreServer) -> None:
    """Trust counts from the sending of the last answered renewal."""
    async with contextlib.AsyncExitStack() as stack:
        electorate = Electorate(own_store.url, "l", stack)
        ttl_s = 4.0
        leader = await electorate.leader("m1", ttl_s=ttl_s)
        await wait_until(lambda: leader.leadership)
        loop = asyncio.get_running_loop()
        own_store.signal(signal.SIGSTOP)
        stopped_s = loop.time()
        await wait_until(lambda: not electorate.log.leading)
        # The last answered renewal was sent before the store stopped.
        assert loop.time() - stopped_s <= ttl_s
        assert leader.leadership is None
        own_store.signal(signal.SIGCONT)
        await wait_until(lambda: leader.leadership)
        assert electorate.log.most == 1
        assert electorate.log.epochs[0] < electorate.log.epochs[-1]


@pytest.mark.req("D4")
async def test_a_store_that_refuses_ends_the_lead_before_the_lock_could_go(
    electorate: Electorate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal comes at once; the wait before the next try must not outlast the trust."""
    pauses: list[float] = []

    async def recorded(event: asyncio.Event, most_s: float) -> bool:
        pauses.append(most_s)
        return await wait_for_event(event, most_s)

    async def refuses(calls: object) -> None:
        raise StoreUnavailableError("refused")

    ttl_s = 1.5
    leader = await electorate.leader("m1", ttl_s=ttl_s)
    await wait_until(lambda: leader.leadership)
    monkeypatch.setattr(leader._store._shard.client, "run_joined", refuses)
    monkeypatch.setattr("jqmaster.runtime.leadership.renewals.wait_for_event", recorded)
    await wait_until(lambda: not electorate.log.leading)
    monkeypatch.undo()
    assert sum(pauses) <= ttl_s * TRUST + 0.01
    assert min(pauses) < ttl_s / RENEWALS_PER_TTL


async def test_a_store_that_is_away_at_first_is_waited_for(
    electorate: Electorate, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def away(*args: object, **options: object) -> None:
        nonlocal tries
        tries += 1
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(LeadershipStore, "elect", away)
        leader = await electorate.leader("m1")
        await wait_until(lambda: tries >= 2)
        assert leader.leadership is None
    await wait_until(lambda: leader.leadership)


@pytest.mark.req("D1", "D5")
async def test_under_constant_change_never_two_lead(electorate: Electorate) -> None:
    leaders = [await electorate.leader(f"m{n}", ttl_s=0.5, listens=True) for n in range(3)]
    for changes in range(1, 6):
        await wait_until(
            lambda changes=changes: len(electorate.log.epochs) >= changes and electorate.log.leading
        )
        for leader in leaders:
            if leader.leadership:
                leader.step_down()
    await wait_until(lambda: len(electorate.log.epochs) >= 6)
    assert electorate.log.most == 1
    assert electorate.log.epochs == sorted(set(electorate.log.epochs))


async def registered(store: LeadershipStore, *names: str) -> dict[str, int]:
    """Register masters and return when each was seen."""
    masters = MasterStore(store._shard)
    for name in names:
        await masters.beat(MasterRecord(name, "node", 1, f"http://{name}", "1", 1))
    return {seen.record.id: seen.last_seen_ms for seen in (await masters.look()).seen}


@pytest.mark.req("D3", "D4")
async def test_a_demoted_leader_leaves_the_lead_to_another(electorate: Electorate) -> None:
    first = await electorate.leader("m1", ttl_s=30, listens=True)
    await wait_until(lambda: first.leadership)
    second = await electorate.leader("m2", ttl_s=30, listens=True)
    store = await electorate.store()
    await registered(store, "m1", "m2")
    leadership = first.leadership
    assert leadership
    await store.demote(leadership, fresh_ms=60_000, hold_ms=30_000, audit_entry=b"")
    await wait_until(lambda: second.leadership, timeout_s=9)
    assert first.leadership is None
    assert electorate.log.most == 1
    assert len(electorate.log.epochs) == 2, "the first one did not even try again"


@pytest.mark.req("D3", "D4")
async def test_a_leader_that_does_not_hear_of_its_demotion_learns_of_it_when_it_renews(
    electorate: Electorate,
) -> None:
    first = await electorate.leader("m1", ttl_s=1.5)
    await wait_until(lambda: first.leadership)
    second = await electorate.leader("m2", ttl_s=30, listens=True)
    store = await electorate.store()
    await registered(store, "m1", "m2")
    assert first.leadership
    await store.demote(first.leadership, fresh_ms=60_000, hold_ms=30_000, audit_entry=b"")
    await wait_until(lambda: second.leadership, timeout_s=9)
    assert electorate.log.most == 1


@pytest.mark.req("D1")
async def test_an_election_whose_answer_was_lost_counts(
    electorate: Electorate, monkeypatch: pytest.MonkeyPatch
) -> None:
    elect, elected = LeadershipStore.elect, []

    async def unheard(store: LeadershipStore, *args: Any, **options: Any) -> Leadership | None:
        elected.append(await elect(store, *args, **options))
        raise OutcomeUnknownError("the answer was lost")

    monkeypatch.setattr(LeadershipStore, "elect", unheard)
    first = await electorate.leader("m1", ttl_s=60)
    await wait_until(lambda: first.leadership)
    assert elected == [first.leadership]
    second = await electorate.leader("m2", ttl_s=60)
    await wait_until(lambda: len(elected) == 2)
    assert (elected[1], second.leadership) == (None, None)


@pytest.mark.req("D3")
async def test_a_silent_leaders_lock_is_taken_before_it_runs_out(electorate: Electorate) -> None:
    store = await electorate.store()
    silent = await store.elect("dead", "n", ttl_ms=60_000)
    assert silent
    seen = await registered(store, "dead")
    leader = await electorate.leader("m1", ttl_s=30)
    began_s = asyncio.get_running_loop().time()
    leader.take_over(silent, seen["dead"])
    await wait_until(lambda: leader.leadership)
    assert asyncio.get_running_loop().time() - began_s < 9
    assert electorate.log.epochs[0] > silent.number


@pytest.mark.req("D3")
async def test_a_leader_that_was_seen_since_keeps_its_lock(electorate: Electorate) -> None:
    store = await electorate.store()
    living = await store.elect("living", "n", ttl_ms=60_000)
    assert living
    seen = await registered(store, "living")
    leader = await electorate.leader("m1", ttl_s=1)
    leader.take_over(living, seen["living"] - 1)
    await wait_until(lambda: leader._silent is None)
    # Another election or two pass: the wrong belief was dropped when it was first used.
    await asyncio.sleep(0.7)
    assert (leader.leadership, await store.current()) == (None, living)


@pytest.mark.req("D3")
async def test_when_a_leader_resigns_the_sub_leader_has_a_head_start(
    electorate: Electorate, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 0
    elect = LeadershipStore.elect

    async def counted(store: LeadershipStore, *args: Any, **options: Any) -> Leadership | None:
        nonlocal refused
        leadership = await elect(store, *args, **options)
        refused += leadership is None
        return leadership

    first = await electorate.leader("m1", ttl_s=30)
    await wait_until(lambda: first.leadership)
    monkeypatch.setattr(LeadershipStore, "elect", counted)
    others = [await electorate.leader(f"m{n}", ttl_s=30, listens=True, goes_first=n == 3) for n in (2, 3, 4)]
    await wait_until(lambda: refused == 3)
    await first.stop()
    await wait_until(lambda: any(one.leadership for one in others), timeout_s=9)
    assert electorate.log.leading == ["m3"]


@pytest.mark.req("D4")
async def test_trust_in_the_lock_is_counted_from_when_its_renewal_was_sent(electorate: Electorate) -> None:
    clock, ttl_s = ManualClock(), 30.0
    leader = await electorate.leader("m1", ttl_s=ttl_s, clock=clock)
    assert not leader.is_trusted()
    await wait_until(lambda: leader.leadership)
    clock.jump(ttl_s * TRUST - 0.01)
    assert leader.is_trusted()
    # This is as after a SIGSTOP: nothing in this process ran, yet time passed.
    clock.jump(0.02)
    assert leader.leadership
    assert not leader.is_trusted()


@pytest.mark.req("D4", "D15")
async def test_a_longer_life_of_the_lock_counts_from_the_renewal_that_asked_for_it(
    electorate: Electorate,
) -> None:
    clock, ttl_s = ManualClock(), 2.0
    pace = LiveValue(Pace(ttl_s))
    leader = await electorate.leader("m1", pace=pace, clock=clock)
    await wait_until(lambda: leader.leadership)
    pace.current = Pace(30.0)
    # The store was told two seconds: a longer trust is not allowed yet.
    clock.jump(ttl_s * TRUST + 0.01)
    assert not leader.is_trusted()


@pytest.mark.req("D15")
async def test_a_leader_keeps_the_lead_while_the_life_of_its_lock_changes(electorate: Electorate) -> None:
    pace = LiveValue(Pace(0.6))
    leader = await electorate.leader("m1", pace=pace)
    await wait_until(lambda: leader.leadership)
    held, store = leader.leadership, await electorate.store()
    for ttl_s, least_ms in ((4.0, 2_000), (0.6, 0)):
        pace.current = Pace(ttl_s)

        async def told(least_ms: int = least_ms, most_ms: float = ttl_s * 1000) -> bool:
            left_ms = await admin_of(store._shard.client).pttl(store._shard.keys.leader)
            return least_ms < left_ms <= most_ms

        await wait_until(told, timeout_s=20)
        assert leader.leadership == held
