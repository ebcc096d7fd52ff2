"""The check of limits in units finds sums that exceed them, and accepts those that may."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.history import EndedAttempt
from tests.chaos.spend_load import HEAVY, PERIOD_S, SPEND, Edit, draw_spend, limit_document, weights_of
from tests.chaos.test_checker import Story, told

pytestmark = pytest.mark.req("D30")


def limits(s: Story, concurrency: int = 10, rate: int = 100, *, at_s: float = 0.5, **said: Any) -> None:
    s.h.edits.append(Edit(at_s, at_s + 0.1, **{"is_done": True, **said}, concurrency=concurrency, rate=rate))


def spent(
    s: Story,
    job_id: str,
    cost: float,
    start_s: float,
    end_s: float,
    *,
    used: float | None = None,
    worker: int = 1,
    fence: int = 0,
) -> None:
    argument = {"n": 7, "cost": cost, "used": used}
    s.push(job_id, 0.7, name=SPEND, argument=argument)
    claim = s.run(job_id, start_s, end_s, worker=worker, fence=fence or int(start_s * 1000))
    s.end(job_id, claim=claim, name=SPEND, argument=argument)


def found(tell: Callable[[Story], None]) -> list[str]:
    return [str(one) for one in check(told(tell)).violations if one.name == "units beyond the limit"]


# --- good ones


def as_many_as_the_limit(s: Story) -> None:
    limits(s)
    spent(s, "a", 6, 2.0, 4.0)
    spent(s, "b", 4, 2.5, 4.0)
    spent(s, "c", 6, 4.5, 5.0)


def heavier_than_the_limit_and_alone(s: Story) -> None:
    limits(s, rate=50)
    spent(s, "a", HEAVY, 2.0, 4.0)
    spent(s, "b", 50, 4.0 + PERIOD_S, 5.0 + PERIOD_S)


def more_than_estimated_by_jobs_that_ran_at_once(s: Story) -> None:
    limits(s, rate=10)
    spent(s, "a", 5, 2.0, 4.0, used=9)
    spent(s, "b", 5, 2.5, 4.0, used=9)


def less_than_estimated_makes_room(s: Story) -> None:
    limits(s, rate=10)
    spent(s, "a", 9, 1.0, 1.5, used=2)
    spent(s, "b", 8, 1.8 + PERIOD_S - 5, 30.0)


def a_limit_that_was_lowered_while_jobs_ran(s: Story) -> None:
    limits(s)
    spent(s, "a", 6, 2.0, 30.0)
    limits(s, 2, at_s=5.0)
    spent(s, "b", 4, 8.0, 9.0)  # it may have been claimed before


def a_change_that_a_stopped_master_made_late(s: Story) -> None:
    limits(s, 5)
    limits(s, 10, at_s=2.0, is_done=False)
    limits(s, 5, at_s=4.0)
    spent(s, "a", 6, 18.0, 19.9)
    spent(s, "b", 4, 18.5, 19.9)


def a_lost_report(s: Story) -> None:
    limits(s, rate=10)
    argument = {"n": 7, "cost": 4, "used": 9}
    s.push("a", 0.7, name=SPEND, argument=argument)
    s.run("a", 1.0, 1.5, fence=1000, ending="failure")
    s.run("a", 25.0, 25.5, fence=25_000, ending="failure", attempt=2)
    s.end("a", "failed", name=SPEND, argument=argument, attempts=(EndedAttempt(1, "lost"),))


def windows_around_a_clock_that_was_set(s: Story) -> None:
    limits(s, rate=10)
    s.fault("clock step", "store", 3.0, 4.0)
    spent(s, "a", 6, 2.0, 2.5)
    spent(s, "b", 6, 5.0, 5.5)


def _after_a_step_back(s: Story, apart_s: float) -> None:
    """Two jobs start long after the step. The fence of the first one is still ahead of the store's clock."""
    limits(s, rate=10)
    s.fault("clock step", "store", 1.0, 2.0)
    spent(s, "a", 6, 80.0, 80.5, fence=80_000)
    spent(s, "b", 6, 80.0 + apart_s, 80.5 + apart_s, fence=100_000)


def fences_that_are_ahead_after_a_step_back(s: Story) -> None:
    _after_a_step_back(s, PERIOD_S + 5)


def too_much_after_a_step_back(s: Story) -> None:
    _after_a_step_back(s, PERIOD_S - 5)


def _called_late(s: Story, *, used: float | None) -> None:
    """The first two jobs call 18 s after their claim, and the third one calls at once, a period after their claim."""
    limits(s, rate=10)
    spent(s, "a", 5, 20.0, 20.5, used=used, fence=2_000)
    spent(s, "b", 5, 20.0, 20.5, used=used, fence=2_001)
    spent(s, "c", 6, 18.0 + PERIOD_S, 19.0 + PERIOD_S)


def late_calls_that_were_not_told(s: Story) -> None:
    _called_late(s, used=None)


def late_calls_that_were_told(s: Story) -> None:
    _called_late(s, used=5)


GOOD = [
    late_calls_that_were_not_told,
    fences_that_are_ahead_after_a_step_back,
    as_many_as_the_limit,
    heavier_than_the_limit_and_alone,
    more_than_estimated_by_jobs_that_ran_at_once,
    less_than_estimated_makes_room,
    a_limit_that_was_lowered_while_jobs_ran,
    a_change_that_a_stopped_master_made_late,
    a_lost_report,
    windows_around_a_clock_that_was_set,
]


@pytest.mark.parametrize("tell", GOOD, ids=lambda case: case.__name__)
def test_sums_that_may_be_are_accepted(tell: Callable[[Story], None]) -> None:
    assert found(tell) == []


# --- bad ones


def too_much_at_once(s: Story) -> None:
    limits(s)
    spent(s, "a", 6, 2.0, 4.0)
    spent(s, "b", 5, 2.5, 4.0)


def beside_a_heavy_one(s: Story) -> None:
    limits(s)
    spent(s, "a", HEAVY, 2.0, 4.0)
    spent(s, "b", 0.5, 2.5, 4.0)


def too_much_in_a_period(s: Story) -> None:
    limits(s, rate=10)
    spent(s, "a", 6, 2.0, 2.5)
    spent(s, "b", 5, 2.0 + PERIOD_S - 1, 40.0)


def what_was_used_was_forgotten(s: Story) -> None:
    limits(s, rate=10)
    spent(s, "a", 2, 1.0, 1.5, used=8)
    spent(s, "b", 5, 1.0 + PERIOD_S - 2, 40.0)


def after_the_limit_was_lowered(s: Story) -> None:
    limits(s)
    limits(s, 5, at_s=3.0)
    spent(s, "a", 4, 15.0, 17.0)
    spent(s, "b", 4, 15.5, 17.0)


BAD = [
    late_calls_that_were_told,
    too_much_at_once,
    beside_a_heavy_one,
    too_much_in_a_period,
    what_was_used_was_forgotten,
    after_the_limit_was_lowered,
    too_much_after_a_step_back,
]


@pytest.mark.parametrize("tell", BAD, ids=lambda case: case.__name__)
def test_a_sum_beyond_the_limit_is_reported(tell: Callable[[Story], None]) -> None:
    assert len(found(tell)) == 1


# --- the load


def test_the_load_has_jobs_of_all_kinds_and_the_bounds_of_their_weights() -> None:
    rng = random.Random(1)
    arguments = [draw_spend(rng, n)["argument"] for n in range(500)]
    assert {"cost" in argument for argument in arguments} == {True, False}
    assert {argument["used"] is None for argument in arguments} == {True, False}
    for argument in arguments:
        least, most = weights_of(argument)
        assert 0 <= least <= most <= HEAVY
    assert weights_of({"n": 1}) == (1, 3)
    assert limit_document(5, 10, "price", 3)["weight"] == {
        "from": "argument.price",
        "default": 3,
        "unit": "tokens",
    }
