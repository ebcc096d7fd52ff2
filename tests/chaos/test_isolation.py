"""Reports on isolated primaries, and the outcomes that fail a run."""

from collections.abc import Callable

import pytest

from tests.chaos.isolation import Push, Round, judge


def sound() -> Round:
    """Return an isolation in which the fault hit and nothing was lost: cut off at 10 s, promoted at 13."""
    return Round(
        cut_s=10.0,
        promoted_s=13.0,
        healed_s=15.0,
        demoted_s=30.0,
        pushes=[
            Push("before", True, 9.0, 9.1, "accepted"),
            Push("there", True, 10.1, 12.6, "unknown"),
            Push("refused", True, 16.0, 16.1, "refused"),
            Push("after", False, 13.5, 14.0, "accepted"),
        ],
        written_there={"there"},
        dropped={"there"},
    )


def broken(one: Round) -> list[str]:
    _, bounds = judge([one])
    return [text for holds, text in bounds if not holds]


def test_a_sound_round_holds_and_its_times_are_told() -> None:
    shown, bounds = judge([sound(), sound()])
    assert all(holds for holds, _ in bounds)
    assert (shown["accepted"], shown["unknown"], shown["refused"]) == (4, 2, 2)
    assert shown["promoted_after_s"] == {"p50": 3.0, "max": 3.0}
    assert shown["resumed_after_s"] == {"p50": 1.0, "max": 1.0}
    assert shown["demoted_after_s"] == {"p50": 15.0, "max": 15.0}


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda one: one.lost.add("before"), "nothing accepted is lost"),
        (
            lambda one: one.pushes.append(Push("x", True, 10.2, 10.3, "accepted")),
            "the isolated primary's master accepts nothing",
        ),
        (lambda one: one.refused_and_kept.add("refused"), "what was refused did not happen"),
        (lambda one: one.unresolved.add("there"), "what was unknown is accepted when it is repeated"),
        (
            lambda one: setattr(one.pushes[-1], "answered_s", 18.1),
            "the others accept within 5 s of the promotion",
        ),
        (
            lambda one: one.pushes.pop(),
            "the others accept within 5 s of the promotion",
        ),
        (
            lambda one: one.dropped.clear(),
            "each time something was written to the isolated primary and dropped by it, or nothing was shown",
        ),
    ],
)
def test_each_promise_that_is_broken_is_told(spoil: Callable[[Round], object], told: str) -> None:
    one = sound()
    spoil(one)
    assert broken(one) == [told]


def test_a_master_that_asks_the_sentinels_may_accept_when_the_cut_is_over() -> None:
    one = sound()
    one.pushes.append(Push("x", True, 16.0, 16.1, "accepted"))
    assert broken(one) == ["the isolated primary's master accepts nothing"]
    one.asks_sentinels = True
    assert broken(one) == []
    one.pushes.append(Push("y", True, 14.0, 14.1, "accepted"))
    assert broken(one) == ["the isolated primary's master accepts nothing"]


def test_no_round_is_no_proof() -> None:
    _, bounds = judge([])
    assert not all(holds for holds, _ in bounds)
