import pytest

from worker_sdk.masters.masters import Masters

A, B, C = "http://a:1", "http://b:1", "http://c:1"


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def masters(now: list[float]) -> Masters:
    return Masters([A, B, C], now_s=lambda: now[0])


def test_each_that_fails_passes_the_turn_on_by_one(masters: Masters) -> None:
    assert masters.current == A
    masters.failed(A)
    assert masters.current == B
    masters.failed(A)  # another thread with the same news
    assert masters.current == B
    masters.failed(B)
    masters.failed(C)
    assert masters.current == A


def test_one_that_was_silent_is_asked_after_the_others_for_a_while(
    masters: Masters, now: list[float]
) -> None:
    masters.failed(A, was_silent=True)
    masters.failed(B)
    masters.failed(C)
    assert masters.current == B
    masters.failed(B)
    now[0] += 5.0
    masters.failed(C)
    assert masters.current == A


def test_when_all_were_silent_the_turn_goes_round(masters: Masters) -> None:
    asked = []
    for _ in range(4):
        asked.append(masters.current)
        masters.failed(masters.current, was_silent=True)
    assert asked == [A, B, C, A]


def test_one_that_is_away_is_not_asked_again_while_others_may_have_recovered(
    masters: Masters, now: list[float]
) -> None:
    masters.failed(A, avoided_s=60.0)
    masters.failed(B, avoided_s=60.0)
    assert masters.current == C
    now[0] += 10.0
    asked = []
    for _ in range(4):
        masters.failed(masters.current, avoided_s=0.0 if masters.current == C else 60.0)
        asked.append(masters.current)
    assert asked == [A, C, B, C]


def test_one_that_answers_that_it_cannot_is_asked_again_before_those_that_are_avoided(
    masters: Masters,
) -> None:
    masters.failed(A, avoided_s=60.0)
    masters.failed(B, avoided_s=60.0)
    masters.failed(C, has_answered=True)
    assert masters.current == C


def test_one_alone_is_asked_whatever_it_does() -> None:
    alone = Masters(A)
    alone.failed(A, was_silent=True)
    assert alone.current == A
