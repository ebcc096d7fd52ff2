"""Figures of targets, and their sum over masters."""

from typing import Any

import pytest

from jqmaster.domain.targets.answer import DeliveryResult
from jqmaster.domain.targets.figures import KEPT_ANSWERS, LastAnswer, TargetFigures, summed

pytestmark = pytest.mark.req("M13")


def answer(at_ms: int, result: DeliveryResult = DeliveryResult.SUCCEEDED, took_ms: int = 10) -> LastAnswer:
    return LastAnswer(at_ms, "J", 1, result, 200, took_ms, "status 200", "body")


def test_figures_of_masters_are_summed() -> None:
    one, other = TargetFigures(), TargetFigures()
    for second in range(100):
        one.add(answer(second * 1000), was_sent=True)
        one.add(answer(second * 1000), was_sent=True)
    other.add(answer(99_500, DeliveryResult.UNREACHABLE), was_sent=False)
    whole = summed([one.packed(), other.packed()], 99_900)
    assert whole.results == {"succeeded": 200, "unreachable": 1}
    assert whole.took.count == 200
    assert whole.per_s == 2.0
    assert len(whole.last) == KEPT_ANSWERS
    assert whole.last[0] == answer(99_500, DeliveryResult.UNREACHABLE)


def test_figures_that_cannot_be_read_are_left_out() -> None:
    bad: list[Any] = [
        None,
        [],
        [{}, [], 0, [], [[1, 2]]],
        [{}, [], 0, [], [[1, "J", 1, "new", 200, 1, "", "", ""]]],
    ]
    assert summed(bad, 0).last == []
    assert summed([], 0).per_s == 0
