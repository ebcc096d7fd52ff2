"""A master announces that it lives, and leaves when it ends."""

from collections.abc import AsyncIterator

import pytest

from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.lifecycle import running
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.heartbeats import Heartbeats
from jqmaster.runtime.leadership.membership import Membership
from jqmaster.store.leadership.masters import BeatAnswer, MasterStore
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld

PACE = Pace(5.0)


class Joining:
    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock(tied=lambda s: world.pass_ms(round(s * 1000)))
        self.store = MasterStore(world.shard)
        self.beats = Heartbeats(world.shard.client, self.clock)
        self.faults: dict[str, str] = {}
        self.answers: list[tuple[BeatAnswer, float]] = []
        self.membership = Membership(
            self.store,
            self.clock,
            name="jq",
            beats=self.beats,
            pace=LiveValue(PACE),
            describe=self._describe,
            duty_faults=lambda: self.faults,
            on_answer=self._on_answer,
        )

    def _on_answer(self, answer: BeatAnswer, sent_at_s: float) -> bool:
        self.answers.append((answer, sent_at_s))
        return True

    async def _describe(self, started_at_ms: int) -> MasterRecord:
        return MasterRecord("me", "node", 1, "http://me", "1", started_at_ms)

    async def seen_ms(self) -> int | None:
        found = (await self.store.look()).get("me")
        return found.last_seen_ms if found else None


@pytest.fixture
async def joining(world: StoreWorld) -> AsyncIterator[Joining]:
    one = Joining(world)
    async with running([one.beats, one.membership]):
        await one.clock.asleep()
        yield one


@pytest.mark.req("D1")
async def test_it_is_known_at_once_and_seen_at_every_beat(joining: Joining) -> None:
    started_ms = joining.world.now_ms
    for _ in range(3):
        assert await joining.seen_ms() == joining.world.now_ms
        await joining.clock.pass_s(PACE.beat_s)
    found = (await joining.store.look()).get("me")
    assert found
    assert found.record.started_at_ms == started_ms


@pytest.mark.req("D1")
async def test_it_leaves_when_it_ends(joining: Joining) -> None:
    await joining.membership.stop()
    assert await joining.seen_ms() is None


async def test_a_forgotten_master_is_back_with_the_next_beat(joining: Joining) -> None:
    await joining.store.forget("me")
    await joining.clock.pass_s(PACE.beat_s)
    assert await joining.seen_ms() == joining.world.now_ms


async def test_beats_go_on_after_an_outage_and_the_end_does_not_wait_for_the_store(
    joining: Joining, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*args: object) -> None:
        raise StoreUnavailableError("away")

    async def unknown(*args: object) -> None:
        raise OutcomeUnknownError("who knows")

    with monkeypatch.context() as patch:
        patch.setattr(joining.world.shard.client, "run_each", away)
        await joining.clock.pass_s(30)
    await joining.clock.pass_s(PACE.beat_s)
    assert await joining.seen_ms() == joining.world.now_ms
    with monkeypatch.context() as patch:
        patch.setattr(joining.store, "forget", unknown)
        await joining.membership.stop()


async def test_a_master_that_never_reached_the_store_has_nothing_to_leave(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise StoreUnavailableError("away")

    one = Joining(world)
    monkeypatch.setattr(one.store, "look", away)
    await one.membership.start()
    await one.clock.asleep()
    await one.membership.stop()


async def test_each_beat_tells_what_fails_now(joining: Joining) -> None:
    for faults in ({"notices.rounds": "notices.rounds fails"}, {}):
        joining.faults = faults
        await joining.clock.pass_s(PACE.beat_s)
        found = (await joining.store.look()).get("me")
        assert found is not None
        assert found.record.duty_faults == faults


@pytest.mark.req("S6")
async def test_each_answer_is_passed_on_with_the_time_at_which_the_beat_was_sent(joining: Joining) -> None:
    answers, clock = joining.answers, joining.clock
    assert [(answer.now_ms, sent_s) for answer, sent_s in answers] == [(joining.world.now_ms, clock.now_s)]
    await clock.pass_s(PACE.beat_s)
    assert len(answers) == 2
    assert answers[1][1] == pytest.approx(answers[0][1] + PACE.beat_s)
