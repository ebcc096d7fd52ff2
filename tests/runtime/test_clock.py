import pytest

from jqmaster.clock import TICK_S, until_tick_s


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
