"""Times in which nothing may be taken from anybody, on a clock that the test moves."""

import asyncio
from collections.abc import Callable

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.workers.silence import CrowdRules
from jqmaster.domain.workers.worker import Worker, WorkerSpec
from jqmaster.errors import StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties import grace as module
from jqmaster.runtime.duties.grace import Grace, GracePolicy
from tests.support import real_time
from tests.support.clock import ManualClock

GRACE_S, TRUST_S = 17.0, 5.0

pytestmark = [pytest.mark.req("D12"), real_time.LOOPS]


class Asking:
    """A grace whose first period is over, and a store that answers as the test says."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.grace = Grace(self.clock, LiveValue(GracePolicy(GRACE_S, TRUST_S, CrowdRules(5_000, 0.3, 3))))
        self.store_ms = 1_800_000_000_000
        self.clock._tied = self.store_moves

    def store_moves(self, seconds: float) -> None:
        self.store_ms += round(seconds * 1000)

    async def ask(self, during: Callable[[], None] = lambda: None) -> None:
        async def read() -> int:
            during()
            return self.store_ms

        await self.grace.ask(read, lambda answer: answer)

    async def fail(self) -> None:
        async def read() -> int:
            raise StoreUnavailableError("away")

        with pytest.raises(StoreUnavailableError):
            await self.grace.ask(read, lambda answer: answer)

    async def pause(self, seconds: float, *, late_s: float = 0.0) -> None:
        """Pause, and let the loop return late."""
        pausing = asyncio.ensure_future(self.grace.pause(seconds))
        await self.clock.asleep()
        self.clock.jump(late_s)
        await asyncio.sleep(0)
        # Nobody sleeps after this.
        self.clock.jump(seconds)
        for _, _, sleeper in self.clock._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)
        await pausing


@pytest.fixture
async def asking() -> Asking:
    one = Asking()
    assert not one.grace.is_over, "a leadership has just begun"
    await one.ask()
    for _ in range(40):
        await one.pause(0.5)
        await one.ask()
    assert one.grace.is_over
    return one


async def test_it_ends_after_its_time(asking: Asking) -> None:
    one = Grace(asking.clock, LiveValue(GracePolicy(GRACE_S, TRUST_S, CrowdRules(5_000, 0.3, 3))))
    asking.clock.jump(GRACE_S - 0.1)
    assert not one.is_over
    asking.clock.jump(0.1)
    assert one.is_over


@pytest.mark.parametrize(("failures", "is_outage"), [(1, False), (2, False), (3, True), (100, True)])
async def test_a_store_that_does_not_serve_for_longer_than_a_second_was_away(
    asking: Asking, failures: int, is_outage: bool
) -> None:
    for _ in range(failures):
        await asking.fail()
        await asking.pause(0.5)
    await asking.ask()
    assert asking.grace.is_over is not is_outage
    asking.clock.jump(GRACE_S)
    assert asking.grace.is_over


async def test_hiccups_do_not_add_up(asking: Asking) -> None:
    for _ in range(20):
        await asking.fail()
        await asking.pause(0.5)
        await asking.ask()
    assert asking.grace.is_over


async def test_a_store_that_answers_late_was_away(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store stood still and held the call."""
    monkeypatch.setattr(module, "TICK_S", 0.01)

    async def read() -> int:
        for _ in range(200):
            asking.clock.jump(0.01)
            await asyncio.sleep(0.011)
            if asking.store_ms % 10_000 < 0:
                break
        return asking.store_ms

    await asking.grace.ask(read, lambda answer: answer)
    assert not asking.grace.is_over


@pytest.mark.parametrize("stall_s", [1.5, 4.5])
async def test_an_own_stall_is_no_outage(asking: Asking, stall_s: float) -> None:
    """Otherwise a busy master would never take anything back."""
    await asking.pause(0.5, late_s=stall_s)
    await asking.ask()
    await asking.pause(0.5)
    # The same holds for a stall between query and answer.
    await asking.ask(during=lambda: asking.clock.jump(stall_s))
    await asking.pause(0.5)
    await asking.ask()
    assert asking.grace.is_over


async def test_after_a_stall_in_which_another_may_have_led_it_is_as_after_an_election(asking: Asking) -> None:
    await asking.pause(0.5, late_s=TRUST_S + 0.2)
    await asking.ask()
    assert not asking.grace.is_over


@pytest.mark.parametrize("step_ms", [-3_600_000, -1_200, 1_200, 7_200_000])
async def test_a_step_of_the_stores_clock(asking: Asking, step_ms: int) -> None:
    asking.store_ms += step_ms
    await asking.ask()
    assert not asking.grace.is_over


async def test_a_stall_while_the_store_answers_is_no_step_of_its_clock(asking: Asking) -> None:
    """The store's time belongs to some instant between query and answer."""
    asking.store_ms -= 1_500

    async def read() -> int:
        answer = asking.store_ms + 1_500
        asking.clock.jump(1.5)
        return answer

    await asking.grace.ask(read, lambda answer: answer)
    assert asking.grace.is_over


def silent_workers(count: int, now_ms: int, seen_ago_ms: int) -> list[Worker]:
    spec = WorkerSpec(None, ("a",), 1, "n", 1, {}, "1", "s" * 32)
    return [Worker(new_id(), spec, 1, now_ms - seen_ago_ms, False, False, 0) for _ in range(count)]


async def test_a_crowd_that_was_silent_before_the_leadership_raises_no_alarm(
    asking: Asking, caplog: pytest.LogCaptureFixture
) -> None:
    stop_ms = round(GRACE_S * 1000) + 3_600_000
    asking.grace.look(silent_workers(5, asking.store_ms, stop_ms), asking.store_ms)
    assert asking.grace.is_over
    assert "fell silent" not in caplog.text
    asking.grace.look(silent_workers(5, asking.store_ms, 6_000), asking.store_ms)
    assert not asking.grace.is_over, "others that fall silent later count"


async def test_a_crowd_that_falls_silent_begins_it_once(asking: Asking) -> None:
    asking.grace.look(silent_workers(2, asking.store_ms, 6_000), asking.store_ms)
    assert asking.grace.is_over
    workers = silent_workers(3, asking.store_ms, 6_000)
    asking.grace.look(workers, asking.store_ms)
    assert not asking.grace.is_over
    asking.clock.jump(GRACE_S)
    asking.grace.look(workers, asking.store_ms)
    assert asking.grace.is_over, "they stay silent: now their leases count"
