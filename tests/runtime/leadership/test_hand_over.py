"""A master gives leads to the masters that should have them, slowly and only to those that can take them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

import pytest

from jqmaster.domain.namespaces.namespace import DEFAULT, Namespace
from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.hand_over import SETTLED_S, HandOver, LedNamespace
from jqmaster.runtime.leadership.lead_preference import LeadPreference
from jqmaster.runtime.leadership.leader import Leader
from jqmaster.runtime.leadership.live_masters import LiveMasters
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.leadership.masters import MasterRegistry, MasterStore
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld

pytestmark = [pytest.mark.req("D29"), real_time.LOOPS]
PACE = Pace(5.0)
NAMES = (DEFAULT, *(f"team-{n}" for n in range(5)))


class Resigning(Leader):
    """Leads until it is told to step down."""

    def __init__(self) -> None:
        self.leadership: Leadership | None = Leadership("1:n", "me")

    def step_down(self) -> None:
        self.leadership = None


class Spaces(NamedTuple):
    masters: Mapping[str, MasterStore]
    leaders: Mapping[str, Resigning]


class Handing:
    """`me` leads all namespaces of an installation; `other` is the better owner of some. Each namespace is a shard of
    the same store."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock(tied=lambda s: world.pass_ms(round(s * 1000)))
        shards = {
            name: world.shard
            if name == DEFAULT
            else Shard(world.shard.client, Keys(f"{world.shard.keys.shard}-{name}"), now=world.shard.now)
            for name in NAMES
        }
        self.spaces = Spaces(
            {name: MasterStore(shard) for name, shard in shards.items()},
            {name: Resigning() for name in NAMES},
        )
        self.namespaces = {name: Namespace(name, shard.keys.shard) for name, shard in shards.items()}
        self.order = LeadPreference(lambda: self.namespaces, LiveMasters(self.clock, LiveValue(PACE)))
        self.hand_over = HandOver(
            self.spaces.masters[DEFAULT],
            self.order,
            self.clock,
            master_id="me",
            led=self.led,
        )

    def led(self) -> dict[str, LedNamespace]:
        return {
            name: LedNamespace(leader, self.spaces.masters[name])
            for name, leader in self.spaces.leaders.items()
            if leader.leadership
        }

    @property
    def others(self) -> set[str]:
        """Return the namespaces that the other master should lead."""
        return {name for name in NAMES if self.order.of(name, ["me", "other"])[0] == "other"}

    async def beat(self, master_id: str, *names: str) -> None:
        for name in names or NAMES:
            await self.spaces.masters[name].beat(MasterRecord(master_id, "node", 1, "http://m:1", "1", 1))

    async def pass_s(self, seconds: float, **alive: tuple[str, ...]) -> list[int]:
        """Pass time in which these masters send heartbeats to these namespaces (none: to all). Return how many leads
        were handed over in each second."""
        counts = []
        for _ in range(round(seconds)):
            before = len(self.led())
            for master_id, names in alive.items():
                await self.beat(master_id, *names)
            await self.clock.pass_s(1.0)
            counts.append(before - len(self.led()))
        return counts


@pytest.fixture
async def handing(world: StoreWorld) -> AsyncIterator[Handing]:
    one = Handing(world)
    await one.beat("me")
    await one.hand_over.start()
    yield one
    await one.hand_over.stop()
    for masters in one.spaces.masters.values():
        for master_id in ("me", "other"):
            await masters.forget(master_id)


async def test_a_master_alone_keeps_all_leads(handing: Handing) -> None:
    await handing.pass_s(15, me=())
    assert len(handing.led()) == len(NAMES)


async def test_a_better_owner_gets_its_leads_when_it_has_been_alive_for_ten_seconds(handing: Handing) -> None:
    await handing.pass_s(3, me=())
    others = handing.others
    assert len(others) == 3
    assert sum(await handing.pass_s(SETTLED_S, me=(), other=())) == 0
    counts = await handing.pass_s(20, me=(), other=())
    assert set(NAMES) - handing.led().keys() == others
    # Both masters take turns, so that all together hand over at most two leads a second.
    assert max(counts) == 1


async def test_a_master_that_does_not_reach_a_store_gets_no_lead_there(handing: Handing) -> None:
    await handing.pass_s(1, me=(), other=())
    unreached = min(handing.others - {DEFAULT})
    reached = tuple(name for name in NAMES if name != unreached)
    await handing.pass_s(30, me=(), other=reached)
    assert set(NAMES) - handing.led().keys() == handing.others - {unreached}
    # It gets it when it has reached the store for ten seconds.
    assert sum(await handing.pass_s(SETTLED_S - 1, me=(), other=())) == 0
    assert sum(await handing.pass_s(10, me=(), other=())) == 1


async def test_a_master_that_comes_and_goes_gets_no_lead(handing: Handing) -> None:
    for _ in range(3):
        await handing.pass_s(8, me=(), other=())
        await handing.pass_s(5, me=())
    assert len(handing.led()) == len(NAMES)


async def test_nobody_hands_over_while_the_store_of_the_installation_is_away(
    handing: Handing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise StoreUnavailableError("away")

    await handing.pass_s(8, me=(), other=())
    with monkeypatch.context() as patch:
        patch.setattr(handing.spaces.masters[DEFAULT], "look", away)
        await handing.pass_s(15, me=(), other=())
        assert len(handing.led()) == len(NAMES)
    await handing.pass_s(30, me=(), other=())
    assert set(NAMES) - handing.led().keys() == handing.others


async def test_an_installation_with_one_namespace_has_no_order_and_looks_at_nothing(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, looks = Handing(world), 0
    look = one.spaces.masters[DEFAULT].look

    async def counted() -> MasterRegistry:
        nonlocal looks
        looks += 1
        return await look()

    monkeypatch.setattr(one.spaces.masters[DEFAULT], "look", counted)
    several, one.namespaces = one.namespaces, {DEFAULT: one.namespaces[DEFAULT]}
    assert one.order.of(DEFAULT, ["me", "other"]) == ()
    await one.hand_over.start()
    await asyncio.sleep(0)
    one.clock.jump(60)
    one.namespaces = several
    assert looks == 0
    # A second namespace begins the looks at once.
    one.hand_over.wake()
    await one.clock.asleep()
    assert looks == 1
    await one.hand_over.stop()
