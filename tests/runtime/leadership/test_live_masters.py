"""A process judges by its own clock which masters of the installation are alive."""

import pytest

from jqmaster.domain.operations.master import MasterRecord, Pace, SeenMaster
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.live_masters import LiveMasters
from jqmaster.store.leadership.masters import MasterRegistry
from tests.support.clock import ManualClock

pytestmark = pytest.mark.req("D29")
PACE = Pace(5.0)


class Looking:
    """A process that looks once a second at masters that send heartbeats once a second."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.living = LiveMasters(self.clock, LiveValue(PACE))
        self.now_ms = 1_000_000
        self.beats: dict[str, int] = {}

    def look(self) -> None:
        seen = [
            SeenMaster(MasterRecord(one, "node", 1, "http://m", "1", 1), beat_ms)
            for one, beat_ms in self.beats.items()
        ]
        self.living.take(MasterRegistry(self.now_ms, None, None, 1, seen))

    def pass_s(self, seconds: int, *alive: str, looks: bool = True) -> None:
        for _ in range(seconds):
            self.now_ms += 1000
            self.clock.jump(1)
            self.beats |= dict.fromkeys(alive, self.now_ms)
            if looks:
                self.look()


@pytest.fixture
def looking() -> Looking:
    return Looking()


def test_a_master_that_falls_silent_is_not_alive_after_three_beats(looking: Looking) -> None:
    looking.pass_s(2, "a", "b")
    assert looking.living.ids == {"a", "b"}
    looking.pass_s(2, "a")
    assert looking.living.ids == {"a", "b"}
    looking.pass_s(2, "a")
    assert looking.living.ids == {"a"}
    assert looking.living.alive_s("b") == 0


def test_a_master_that_was_silent_counts_as_alive_anew(looking: Looking) -> None:
    looking.pass_s(20, "a", "b")
    assert looking.living.alive_s("b") == 19
    looking.pass_s(5, "a")
    looking.pass_s(3, "a", "b")
    assert (looking.living.alive_s("a"), looking.living.alive_s("b")) == (27, 2)


def test_a_master_that_was_dead_before_the_first_look_is_not_alive(looking: Looking) -> None:
    looking.beats = {"dead": looking.now_ms - 30_000, "alive": looking.now_ms - 500}
    looking.look()
    assert looking.living.ids == {"alive"}


def test_an_outage_of_the_store_makes_nobody_look_dead(looking: Looking) -> None:
    looking.pass_s(12, "a", "b")
    looking.pass_s(60, looks=False)
    looking.look()
    assert looking.living.ids == {"a", "b"}
    assert looking.living.alive_s("a") >= 11
    # It does not hide a dead one for long, either.
    looking.pass_s(4, "a")
    assert looking.living.ids == {"a"}


@pytest.mark.parametrize("step_ms", [7_200_000, -7_200_000])
def test_a_step_of_the_stores_clock_makes_nobody_look_dead(looking: Looking, step_ms: int) -> None:
    looking.pass_s(12, "a", "b")
    looking.now_ms += step_ms
    looking.look()
    assert looking.living.ids == {"a", "b"}
    looking.pass_s(2, "a", "b")
    assert looking.living.alive_s("a") == 13


def test_a_master_that_left_in_order_is_gone_at_once(looking: Looking) -> None:
    looking.pass_s(2, "a", "b")
    del looking.beats["b"]
    looking.look()
    assert looking.living.ids == {"a"}
