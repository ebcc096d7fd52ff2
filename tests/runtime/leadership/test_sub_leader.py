"""The sub-leader takes over only on two witnesses: the store, and the leader itself."""

from collections.abc import AsyncIterator

import pytest

from jqmaster.clock import DueTime
from jqmaster.domain.namespaces.namespace import DEFAULT, Namespace
from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership import sub_leader
from jqmaster.runtime.leadership.lead_preference import LeadPreference, NamespacePreference
from jqmaster.runtime.leadership.leader import Leader
from jqmaster.runtime.leadership.live_masters import LiveMasters
from jqmaster.runtime.leadership.sub_leader import SubLeader
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.leadership.masters import BeatAnswer, MasterStore
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld

pytestmark = real_time.LOOPS

PACE = Pace(5.0)


class Candidate(Leader):
    """Records what it is asked, and leads only if the test says so."""

    def __init__(self) -> None:
        self.leadership: Leadership | None = None
        self.lead_over = DueTime()
        self.stood = 0
        self.taken: list[tuple[str, int]] = []

        self.refusal = ""

    def campaign_now(self) -> None:
        self.stood += 1

    def take_over(self, silent: Leadership, seen_ms: int) -> None:
        self.taken.append((silent.master_id, seen_ms))


class Watching:
    """`me` watches `master-1`, which leads in the world. Store time and the watcher's clock move together."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock(tied=lambda s: world.pass_ms(round(s * 1000)))
        self.masters = MasterStore(world.shard)
        self.candidate = Candidate()
        self.asked: list[str] = []
        self.does_answer = False
        self.namespaces = {DEFAULT: Namespace(DEFAULT, world.shard.keys.shard)}
        living = LiveMasters(self.clock, LiveValue(PACE))
        self.order = NamespacePreference(LeadPreference(lambda: self.namespaces, living))

        async def answers(master: MasterRecord) -> bool:
            self.asked.append(master.id)
            return self.does_answer

        self.sub_leader = SubLeader(
            self.masters,
            self.candidate,
            self.clock,
            master_id="me",
            pace=LiveValue(PACE),
            answers=answers,
            order=self.order,
        )

    async def beat(
        self, master_id: str, node_id: str = "node-1", started_at_ms: int = 1, **faults: str
    ) -> BeatAnswer:
        url = f"http://{master_id}:1"
        record = MasterRecord(master_id, node_id, 1, url, "1", started_at_ms, duty_faults=faults)
        return await self.masters.beat(record)

    def add_namespace(self) -> None:
        """Add another namespace, so that the masters have an order."""
        self.namespaces = {**self.namespaces, "shop": Namespace("shop", "shop")}

    def in_order(self, *others: str) -> list[str]:
        """Return these masters and `me` in the order in which they should lead."""
        return list(self.order.of({"me", *others}))

    async def pass_s(self, seconds: float, *alive: str) -> None:
        """Pass time in which these masters beat as often as they should."""
        for _ in range(round(seconds / PACE.beat_s)):
            for master_id in alive:
                await self.beat(master_id)
            await self.clock.pass_s(PACE.beat_s)


@pytest.fixture
async def watching(world: StoreWorld) -> AsyncIterator[Watching]:
    one = Watching(world)
    await one.beat("master-1")
    await one.beat("me")
    await one.sub_leader.start()
    yield one
    await one.sub_leader.stop()


@pytest.mark.req("D3")
async def test_a_leader_that_beats_is_never_asked(watching: Watching) -> None:
    await watching.pass_s(60, "master-1", "me")
    assert (watching.asked, watching.candidate.taken) == ([], [])
    assert watching.sub_leader.is_standby


@pytest.mark.req("D3")
async def test_a_dead_leader_is_replaced_within_three_seconds(watching: Watching) -> None:
    await watching.pass_s(10, "master-1", "me")
    seen_ms = watching.world.now_ms - round(PACE.beat_s * 1000)
    await watching.pass_s(1, "me")
    assert watching.candidate.taken == []
    await watching.pass_s(2, "me")
    assert watching.candidate.taken[0] == ("master-1", seen_ms)
    assert watching.asked[0] == "master-1"


@pytest.mark.req("D3")
async def test_a_leader_that_is_silent_in_the_store_but_answers_keeps_its_lock(watching: Watching) -> None:
    watching.does_answer = True
    await watching.pass_s(30, "me")
    assert watching.asked
    assert watching.candidate.taken == []
    watching.does_answer = False
    await watching.pass_s(1, "me")
    assert watching.candidate.taken


@pytest.mark.req("D3")
async def test_only_who_stands_by_acts(watching: Watching) -> None:
    await watching.beat("other", node_id="node-2", started_at_ms=9)
    for _ in range(10):
        await watching.beat("other", node_id="node-2", started_at_ms=9)
        await watching.pass_s(1, "me")
    assert (watching.asked, watching.candidate.taken) == ([], [])
    assert not watching.sub_leader.is_standby
    # The other sub-leader dies as well: now it is this one's turn.
    await watching.pass_s(PACE.fresh_ms / 1000 + 1, "me")
    assert watching.candidate.taken


@pytest.mark.req("D3")
async def test_a_lock_that_is_free_is_stood_for_at_once(watching: Watching) -> None:
    await watching.pass_s(1, "master-1", "me")
    assert watching.candidate.stood == 0
    await watching.world.leadership.resign(Leadership(watching.world.epoch, "master-1"))
    await watching.clock.pass_s(PACE.look_s)
    assert watching.candidate.stood


@pytest.mark.req("D3")
async def test_a_lock_that_is_free_is_left_to_the_sub_leader_first(watching: Watching) -> None:
    await watching.beat("other", node_id="node-2", started_at_ms=9)
    await watching.pass_s(1, "master-1", "me")
    await watching.world.leadership.resign(Leadership(watching.world.epoch, "master-1"))
    await watching.clock.pass_s(PACE.look_s)
    assert watching.candidate.stood == 0
    await watching.clock.pass_s(PACE.look_s)
    assert watching.candidate.stood


async def test_a_leader_watches_nobody(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    await watching.pass_s(1, "master-1", "me")
    watching.candidate.leadership = Leadership("1:n", "me")
    for _ in range(10):
        watching.clock.jump(1.0)
        await watching.beat("me")
        await watching.sub_leader._round()
    assert (watching.asked, watching.candidate.taken, watching.sub_leader.is_standby) == ([], [], False)


async def test_the_lock_tells_of_a_leader_that_is_not_registered(watching: Watching) -> None:
    await watching.masters.forget("master-1")
    await watching.pass_s(30, "me")
    assert (watching.asked, watching.candidate.taken) == ([], [])


@pytest.mark.req("D3")
@pytest.mark.parametrize("step_ms", [7_200_000, -7_200_000])
async def test_a_step_of_the_stores_clock_makes_nobody_look_dead(watching: Watching, step_ms: int) -> None:
    await watching.pass_s(3, "master-1", "me")
    watching.world.pass_ms(step_ms)
    await watching.pass_s(10, "master-1", "me")
    assert (watching.asked, watching.candidate.taken) == ([], [])
    # It does not hide a dead leader, either: the watcher measures silence by its own clock.
    await watching.pass_s(4, "me")
    assert watching.candidate.taken


@pytest.mark.req("D3")
async def test_after_an_outage_of_the_store_a_living_leader_is_asked_before_it_is_taken_for_dead(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise StoreUnavailableError("away")

    watching.does_answer = True
    await watching.pass_s(3, "master-1", "me")
    with monkeypatch.context() as patch:
        patch.setattr(watching.masters, "look", away)
        await watching.clock.pass_s(30)
    await watching.beat("me")
    await watching.clock.pass_s(PACE.look_s)
    await watching.pass_s(5, "master-1", "me")
    assert watching.candidate.taken == []


@pytest.mark.req("D3")
async def test_another_leader_is_watched_anew(watching: Watching) -> None:
    await watching.pass_s(1, "me")
    await watching.world.leadership.resign(Leadership(watching.world.epoch, "master-1"))
    assert await watching.world.leadership.elect("m3", "n", ttl_ms=600_000)
    await watching.pass_s(1, "me", "m3")
    await watching.pass_s(1, "me")
    assert watching.candidate.taken == []
    await watching.pass_s(2, "me")
    assert watching.candidate.taken[0][0] == "m3"


async def test_it_knows_what_fails_at_the_leader_alone(watching: Watching) -> None:
    await watching.beat("master-1", notices="notices fails")
    await watching.beat("me", log_archive="log_archive fails")
    await watching.clock.pass_s(PACE.look_s)
    assert watching.sub_leader.leader_faults == {"notices": "notices fails (at the leader, master master-1)"}
    await watching.beat("master-1")
    await watching.clock.pass_s(PACE.look_s)
    assert watching.sub_leader.leader_faults == {}
    await watching.beat("master-1", notices="notices fails")
    await watching.clock.pass_s(PACE.look_s)
    watching.candidate.leadership = Leadership("1-me", "me")
    await watching.sub_leader._round()
    assert watching.sub_leader.leader_faults == {}


@pytest.mark.req("D29")
async def test_the_first_master_in_order_stands_by_for_several_namespaces(watching: Watching) -> None:
    watching.add_namespace()
    for number in range(20):
        # The longest running would stand by in an installation with one namespace.
        await watching.beat(f"m{number}", started_at_ms=-number)
        await watching.pass_s(1, "master-1", "me")
        alive = [f"m{number}", "master-1"]
        is_first = next(one for one in watching.in_order(*alive) if one != "master-1") == "me"
        assert watching.sub_leader.is_standby is is_first
        await watching.masters.forget(f"m{number}")


@pytest.mark.req("D29")
async def test_a_free_lock_is_taken_in_order(watching: Watching) -> None:
    """The first takes it at once, the second at its next check, and all others when it was free for its lifetime."""
    watching.add_namespace()
    waits_s: dict[int, float] = {}
    for number in range(60):
        others = [f"a{number}", f"b{number}"]
        rank = watching.in_order(*others).index("me")
        if rank in waits_s:
            continue
        # The leader is the only other one until the lock is free, so nobody stands by.
        await watching.pass_s(PACE.fresh_ms / 1000 + 1, "master-1")
        for one in others:
            await watching.beat(one)
        watching.sub_leader.is_standby = False
        await watching.world.leadership.resign(Leadership(watching.world.epoch, "master-1"))
        watching.candidate.stood = 0
        for checks in range(1, 30):
            for one in others:
                await watching.beat(one)
            await watching.clock.pass_s(PACE.look_s)
            if watching.candidate.stood:
                waits_s[rank] = (checks - 1) * PACE.look_s
                break
        for one in others:
            await watching.masters.forget(one)
        elected = await watching.world.leadership.elect("master-1", "n", ttl_ms=600_000)
        assert elected
        watching.world.epoch = elected.epoch
        if len(waits_s) == 3:
            break
    assert waits_s[0] == 0
    assert waits_s[1] == PACE.look_s
    assert PACE.ttl_s <= waits_s[2] <= PACE.ttl_s + PACE.beat_s


@pytest.mark.req("D29", "M10")
async def test_a_refused_election_counts_no_longer_once_the_store_takes_a_heartbeat(
    watching: Watching,
) -> None:
    """A master that is not the first in order stands again only once nobody leads."""
    watching.candidate.refusal = "the store refuses: LOADING"
    watching.sub_leader.take(await watching.beat("me"), watching.clock.monotonic_s())
    assert watching.candidate.refusal == ""


@pytest.mark.req("D29")
async def test_only_the_first_stands_for_election_unasked(watching: Watching) -> None:
    assert watching.sub_leader.may_stand
    watching.add_namespace()
    # Nobody else is known.
    assert watching.sub_leader.may_stand
    await watching.beat("other")
    watching.order._order.living.take(await watching.masters.look())
    first, *_ = watching.in_order("master-1", "other")
    assert watching.sub_leader.may_stand is (first == "me")


@pytest.mark.req("D29", "S6")
async def test_while_heartbeats_tell_of_new_ones_of_the_leader_the_store_is_asked_little_else(
    watching: Watching,
) -> None:
    one = watching.sub_leader
    await watching.beat("master-1")
    one.take(await watching.beat("me"), watching.clock.now_s)
    await one._round()
    assert one._is_calm()
    # The leader's next heartbeat keeps the calm, its silence ends it.
    watching.clock.jump(1.0)
    await watching.beat("master-1")
    one.take(await watching.beat("me"), watching.clock.now_s)
    watching.clock.jump(1.0)
    assert one._is_calm()
    one.take(await watching.beat("me"), watching.clock.now_s)
    watching.clock.jump(0.6)
    assert not one._is_calm()
    # Once in a while it looks all the same, for what heartbeats do not tell.
    watching.clock.jump(sub_leader.CALM_LOOK_S)
    await watching.beat("master-1")
    one.take(await watching.beat("me"), watching.clock.now_s)
    assert not one._is_calm()
    # A free lock is looked at at once.
    await one._round()
    assert one._is_calm()
    await watching.world.leadership.resign(Leadership(watching.world.epoch, "master-1"))
    one.take(await watching.beat("me"), watching.clock.now_s)
    assert not one._is_calm()


@pytest.mark.req("D29", "D3")
async def test_a_leader_that_falls_silent_in_the_calm_is_noticed_as_soon_as_by_looks(
    watching: Watching,
) -> None:
    """Its last heartbeat counts from when it was sent, and not from when an answer told of it."""
    one = watching.sub_leader
    one.take(await watching.beat("me"), watching.clock.now_s)
    await watching.beat("master-1")
    sent_s = watching.clock.now_s
    watching.clock.jump(0.9)
    one.take(await watching.beat("me"), watching.clock.now_s)
    assert one._since_s == pytest.approx(sent_s)
    watching.clock.jump(PACE.suspect_after_s - 0.9)
    await one._round()
    assert watching.asked == ["master-1"]
    assert [taken for taken, _ in watching.candidate.taken] == ["master-1"]


async def test_a_step_of_the_stores_clock_makes_no_silence_longer_than_between_two_heartbeats(
    watching: Watching,
) -> None:
    one = watching.sub_leader
    one.take(await watching.beat("me"), watching.clock.now_s)
    asked_s = watching.clock.now_s
    watching.clock.jump(0.5)
    await watching.beat("master-1")
    watching.world.pass_ms(3_600_000)
    watching.clock.jump(0.5)
    one.take(await watching.beat("me"), watching.clock.now_s)
    assert one._since_s == asked_s
