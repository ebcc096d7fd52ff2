import asyncio
import sys
from functools import partial

import pytest

from jqmaster.clock import TICK_S, DueTime, SharedRests, WakeFlag, until_tick_s, wait_for_event
from tests.support.clock import ManualClock
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("now_s", "seconds", "until_s"),
    [
        (100.003, 1.0, 101.0),
        (100.003, 0.5, 100.5),
        # A timer that fired early does not repeat the tick that it was meant for.
        (100.999, 1.0, 102.0),
        (100.3, 1.0, 101.0),
        # The interval is too short for ticks.
        (100.3, 0.2, 100.5),
    ],
)
def test_polls_sleep_to_the_same_instants(now_s: float, seconds: float, until_s: float) -> None:
    assert now_s + until_tick_s(now_s, seconds) == pytest.approx(until_s)


def test_a_poll_is_at_most_a_tick_early_and_hardly_late() -> None:
    for number in range(1000):
        slept_s = until_tick_s(100 + number / 777, 1.0)
        assert 1.0 - TICK_S < slept_s < 1.03


async def test_a_loop_rests_until_it_has_work_or_is_woken_and_one_timer_asks_all_of_them() -> None:
    rests, work, asked = SharedRests(), set[str](), list[str]()

    async def rest(name: str, event: asyncio.Event) -> None:
        def has_work() -> bool:
            asked.append(name)
            return name in work

        await rests.wait(event, has_work)
        assert not event.is_set()

    events = {name: asyncio.Event() for name in ("a", "b", "c")}
    resting = {name: asyncio.create_task(rest(name, event)) for name, event in events.items()}
    await wait_until(lambda: len(asked) >= 6, what="two ticks")
    assert asked[:6] == ["a", "b", "c"] * 2
    work.add("b")
    await resting["b"]
    # A message does not wait for a tick.
    events["c"].set()
    await asyncio.sleep(0)
    await resting["c"]
    assert not resting["a"].done()
    resting["a"].cancel()
    await asyncio.wait([resting["a"]])
    # Nobody rests, so nothing is asked.
    assert rests._timer is None


async def test_a_loop_whose_question_fails_begins_its_round_and_keeps_no_other_from_resting() -> None:
    rests = SharedRests()

    def fail() -> bool:
        raise KeyError("no such thing")

    other = asyncio.create_task(rests.wait(asyncio.Event(), lambda: False))
    await rests.wait(asyncio.Event(), fail)
    assert not other.done()
    other.cancel()
    await asyncio.wait([other])


async def test_a_loop_is_not_asked_before_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jqmaster.clock.ASK_S", 3600.0)
    clock = ManualClock()
    rests, asked, due = SharedRests(clock), list[str](), DueTime(clock.now_s + 2)
    event = asyncio.Event()

    def has_work() -> bool:
        asked.append("asked")
        return True

    rest = asyncio.ensure_future(rests.wait(event, has_work, due=due))
    await asyncio.sleep(0)
    rests._tick()
    assert (asked, event.is_set()) == ([], False)
    clock.now_s += 1
    # A loop that becomes due earlier needs no message.
    due.at_s = clock.now_s
    rests._tick()
    await rest
    assert asked == ["asked"]


async def test_loops_that_may_wait_run_less_often_and_not_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jqmaster.clock.ASK_S", 3600.0)
    rests, asked = SharedRests(), list[str]()

    def has_work(name: str) -> bool:
        asked.append(name)
        return False

    waits = [
        asyncio.ensure_future(rests.wait(asyncio.Event(), partial(has_work, name), every=every))
        for name, every in (("often", 1), ("seldom", 2), ("as seldom", 2))
    ]
    await asyncio.sleep(0)
    for _ in range(2):
        rests._tick()
    assert asked[:2] in (["often", "seldom"], ["often", "as seldom"])
    assert sorted(asked) == ["as seldom", "often", "often", "seldom"]
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_a_wake_flag_takes_little_memory_and_wakes_all_that_wait() -> None:
    event = WakeFlag()
    waiting = [asyncio.ensure_future(event.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    event.set()
    assert await asyncio.gather(*waiting[1:]) == [True, True]
    assert await event.wait()
    event.clear()
    assert not await wait_for_event(event, 0.0)
    # An event of asyncio has a deque of 760 bytes.
    assert sum(sys.getsizeof(value) for value in vars(event).values()) < 200
