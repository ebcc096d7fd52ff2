"""Each kind of limit: its bounds, its document, its stored form and its explanation."""

from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.constraints.gate_check import Holder, Rate
from jqmaster.domain.constraints.limit_kind import ConstraintError, LimitKind
from jqmaster.domain.constraints.limit_kinds import (
    BACKLOG,
    CLOSERS,
    CONCURRENCY,
    EXPLAINED,
    FAIRNESS,
    HOLD,
    KINDS,
    MAX_BACKLOG,
    MAX_PERIOD_MS,
    PAUSE,
    RATE,
    WEIGHT,
    brief,
    closing,
)
from jqmaster.domain.constraints.weight import MAX_UNITS, Weight
from tests.domain.why.test_verdict import GATE

VALUES: list[tuple[LimitKind[Any], Any]] = [
    (CONCURRENCY, 3),
    (RATE, Rate(10, 1_500)),
    (PAUSE, True),
    (BACKLOG, 100),
    (FAIRNESS, True),
    (WEIGHT, Weight(None, 1500, "MB")),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_constraint_without_the_limit_is_sound_and_says_nothing(kind: LimitKind[Any]) -> None:
    kind.check(kind.none, ())
    assert kind.brief(kind.document(kind.none)) == ""
    assert kind.unpack(kind.pack(kind.none)) == kind.none
    assert kind.parse(kind.none) == kind.none


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[kind.name for kind, _ in VALUES])
def test_a_value_survives_its_document_and_the_store(kind: LimitKind[Any], value: Any) -> None:
    kind.check(value, ())
    assert kind.parse(kind.document(value)) == value
    assert kind.unpack(kind.pack(value)) == value
    assert kind.at_gate(value) == value


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (CONCURRENCY, 0, "limits.concurrency: must be 1 or more"),
        (CONCURRENCY, MAX_UNITS + 1, "limits.concurrency: must be 1 to"),
        (RATE, Rate(0, 1_000), "limits.rate.limit: must be 1 or more"),
        (RATE, Rate(MAX_UNITS + 1, 1_000), "limits.rate.limit: must be 1 to"),
        (RATE, Rate(1, 0), "limits.rate.period_s: must be 0.001 to"),
        (RATE, Rate(1, MAX_PERIOD_MS + 1), "limits.rate.period_s: must be 0.001 to"),
        (BACKLOG, -1, "limits.max_backlog: must be 0 to"),
        (BACKLOG, MAX_BACKLOG + 1, "limits.max_backlog: must be 0 to"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_its_place(kind: LimitKind[Any], value: Any, place: str) -> None:
    with pytest.raises(ConstraintError, match=f"^{place}"):
        kind.check(value, ("limits",))


def test_an_absurd_period_stays_finite_and_is_refused() -> None:
    with pytest.raises(ConstraintError, match="period_s"):
        RATE.check(RATE.parse({"limit": 1, "period_s": 1e308}), ())


def test_an_override_takes_the_place_of_a_number_and_adds_to_a_pause() -> None:
    assert CONCURRENCY.merged(3, None) == 3
    assert CONCURRENCY.merged(3, 1) == 1
    assert RATE.merged(Rate(1, 1), Rate(2, 2)) == Rate(2, 2)
    assert PAUSE.merged(True, None)
    assert PAUSE.merged(None, True)
    assert not PAUSE.merged(None, False)


def test_a_summary_names_every_limit() -> None:
    document = {
        "concurrency": 2,
        "rate": {"limit": 5, "period_s": 1.5},
        "paused": True,
        "max_backlog": 9,
        "fair": True,
        "counts_awaiting": False,
    }
    assert brief(document) == "2 at once, 5 in 1.5 s, paused, 9 waiting, fair, awaiting jobs do not count"
    assert brief({"concurrency": 2, "counts_awaiting": True}) == "2 at once"


def test_scripts_read_nothing_of_a_limit_that_is_not_there() -> None:
    fields = {field: value for kind in KINDS for field, value in kind.script_fields(kind.none).items()}
    assert fields == {
        "concurrency": None, "rate_limit": None, "rate_period_ms": None, "is_paused": 0, "max_backlog": None,
        "is_fair": 0, "turn_weight": None, "least_turn_weight": None, "is_awaiting_free": 0, "weight_default": None,
    }  # fmt: skip
    assert RATE.script_fields(Rate(5, 1_000)) == {"rate_limit": 5, "rate_period_ms": 1_000}


def test_a_gate_without_limits_shows_that_it_has_none() -> None:
    shown = {name: value for kind in EXPLAINED for name, value in kind.shown(GATE).items()}
    assert shown == {
        "concurrency": None, "running": None, "rate": None, "starts": None, "paused": False, "held_until": None,
        "fair": False, "weight": None, "observed": None,
    }  # fmt: skip
    assert [closer.name for closer in CLOSERS if closer.closes(GATE)] == []


def test_a_gate_shows_its_figures() -> None:
    figures = {
        "concurrency": 2, "running": 2, "rate_limit": 5, "period_ms": 1_000, "starts": 4, "is_paused": 1,
        "held_until_ms": 1_800_000_000_000, "is_fair": 1,
    }  # fmt: skip
    gate = replace(GATE, is_closed=True, figures=figures)
    shown = {name: value for kind in EXPLAINED for name, value in kind.shown(gate).items()}
    assert shown == {
        "concurrency": 2, "running": 2, "rate": {"limit": 5, "period_s": 1.0}, "starts": 4, "paused": True,
        "held_until": "2027-01-15T08:00:00.000Z", "fair": True, "weight": None, "observed": None,
    }  # fmt: skip
    assert closing(gate) == (PAUSE, HOLD, CONCURRENCY)
    assert closing(replace(gate, is_closed=False)) == ()


def test_use_tells_the_limit_how_much_is_used_and_its_period() -> None:
    figures = {"concurrency": 2, "running": 1, "rate_limit": 5, "period_ms": 2_000, "starts": 4}
    gate = replace(GATE, figures=figures)
    assert CONCURRENCY.use(gate) == (2, 1, None)
    assert RATE.use(gate) == (5, 4, 2.0)
    assert RATE.use(GATE) == (None, None, None)
    assert PAUSE.use(gate) == (None, None, None)


def test_a_holder_whose_worker_is_not_known_is_shown_with_a_question_mark() -> None:
    gate = replace(
        GATE, is_closed=True, figures={"concurrency": 1, "running": 1}, holders=(Holder("j1", "", 1_000),)
    )
    assert CONCURRENCY.why(gate, 13_000, {}) == "1 of 1 slots taken: job j1 on worker ? for 12 s."
