"""Weights of jobs, and constraints that count units."""

import math
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.constraints.constraint import (
    Constraint,
    GateLimits,
    Override,
    keeps_counts,
    needs_rematch,
    new_cid,
)
from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.domain.constraints.gate_check import GateCheck, Holder, Rate
from jqmaster.domain.constraints.limit_kind import ConstraintError
from jqmaster.domain.constraints.limit_kinds import CONCURRENCY, OBSERVATION, RATE, WEIGHT, brief, closing
from jqmaster.domain.constraints.replay import PastRun, replay
from jqmaster.domain.constraints.weight import (
    MAX_UNITS,
    Weight,
    exact_thousandths,
    thousandths,
    units,
    units_text,
    weight_of,
)
from jqmaster.domain.matching.fields import MISSING, JobFields
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path

pytestmark = pytest.mark.req("D30")

WORK = parse_matcher({"field": "name", "op": "eq", "value": "work"})
TOKENS = Weight(parse_path("argument.tokens"), 1000, "tokens")
ONE = Constraint("limit", "ff000001", WORK, concurrency=10, weight=TOKENS)
HOUR_MS = 3_600_000


def fields(argument: object, name: str = "work") -> JobFields:
    return JobFields(
        name=name, queue=name, priority=0, tags=(), max_retry=0, timeout_s=1, keep_result=False, headers={},
        argument=b"", decode=lambda _: argument,
    )  # fmt: skip


def test_numbers_become_thousandths_and_none_is_too_little() -> None:
    found = {value: thousandths(value) for value in (0, 3, 0.001, 1.1, 2.0001, 1e-9, 2**63, 1e30, math.inf)}
    most = MAX_UNITS * 1000
    assert list(found.values()) == [0, 3000, 1, 1100, 2001, 1, most, most, most]
    assert [thousandths(bad) for bad in (True, "3", None, -1, -0.5, math.nan, [1])] == [None] * 7
    assert (weight_of(MISSING), weight_of(2)) == (None, 2000)


def test_a_default_has_three_decimals_at_most() -> None:
    assert [exact_thousandths(one) for one in (0, 1.5, 0.125, MAX_UNITS)] == [0, 1500, 125, MAX_UNITS * 1000]
    assert [exact_thousandths(bad) for bad in (0.0001, MAX_UNITS + 1, -1, math.nan, True, "1")] == [None] * 6
    assert (units(1500), units(2000), units_text(41_200_000), units_text(500)) == (1.5, 2, "41,200", "0.5")


@pytest.mark.parametrize(
    ("changes", "loc", "words"),
    [
        ({"concurrency": None}, ("weight",), "requires a concurrency or a rate"),
        ({"weight": replace(TOKENS, unit="a b")}, ("weight", "unit"), "begin with a letter"),
        ({"weight": replace(TOKENS, path=parse_path("tags"))}, ("weight", "from"), "tags is not a number"),
        ({"concurrency": MAX_UNITS + 1}, ("concurrency",), "with a weight"),
        ({"weight": None, "concurrency": 1_000_001}, ("concurrency",), "must be 1 to 1000000"),
        ({"weight": None, "rate": Rate(100_001, 1000)}, ("rate", "limit"), "must be 1 to 100000"),
        ({"rate": Rate(MAX_UNITS + 1, 1000)}, ("rate", "limit"), "with a weight"),
    ],
)
def test_a_weight_that_does_not_fit_is_refused(
    changes: dict[str, Any], loc: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConstraintError, match=words) as refused:
        replace(ONE, **{"paused": False, **changes})
    assert refused.value.loc == loc


def test_a_value_of_the_key_has_the_bounds_of_its_constraint() -> None:
    key = parse_path("argument.host")
    large = Override("x", GateLimits(concurrency=2_000_000))
    assert replace(ONE, key=key, overrides=(large,)).overrides == (large,)
    with pytest.raises(ConstraintError) as refused:
        replace(ONE, key=key, overrides=(large,), weight=None)
    assert refused.value.loc == ("overrides", 0, "concurrency")


def test_documents_and_stored_forms_come_back() -> None:
    for weight in (TOKENS, Weight(None, 1500, "MB"), None):
        assert WEIGHT.parse(WEIGHT.document(weight)) == weight == WEIGHT.unpack(WEIGHT.pack(weight))
    assert WEIGHT.document(TOKENS) == {"from": "argument.tokens", "default": 1, "unit": "tokens"}
    for bad, place in ((0.0001, "default"), (-1, "default")):
        with pytest.raises(ConstraintError) as refused:
            WEIGHT.parse({"from": None, "default": bad, "unit": "x"})
        assert refused.value.loc == ("weight", place)
    with pytest.raises(ConstraintError) as refused:
        WEIGHT.parse({"from": "nothing.here", "default": 1, "unit": "x"})
    assert refused.value.loc == ("weight", "from")


def test_limits_are_named_in_units() -> None:
    weight = {"from": "argument.tokens", "default": 1, "unit": "tokens"}
    document = {"concurrency": 5, "rate": {"limit": 100, "period_s": 60}, "weight": weight}
    assert brief(document) == "5 tokens at once, 100 tokens in 60 s, by argument.tokens"
    assert brief({"concurrency": 5, "weight": {**weight, "from": None, "default": 2.5}}) == (
        "5 tokens at once, 2.5 each"
    )


def test_jobs_have_weights_where_constraints_read_them() -> None:
    other = replace(
        ONE, name="other", cid="ff000002", matcher=parse_matcher({"field": "argument.x", "op": "exists"})
    )
    flat = replace(ONE, name="flat", cid="ff000003", weight=Weight(None, 5000, "MB"))
    rules = ConstraintSet(1, [ONE, other, flat])
    assert rules.weights_of(fields({"tokens": 3})) == {ONE.cid: 3000}
    assert rules.weights_of(fields({"tokens": 0.5, "x": 1})) == {ONE.cid: 500, other.cid: 500}
    assert rules.weights_of(fields({"tokens": "3"})) == {}
    assert rules.lane_of_queue("work") is None
    assert "argument" in rules.reads
    assert ConstraintSet(1, [flat]).lane_of_queue("work") is not None


def test_another_path_matches_anew_and_another_unit_counts_anew() -> None:
    moved = replace(ONE, weight=replace(TOKENS, path=None))
    assert (keeps_counts(ONE, moved), needs_rematch(ONE, moved)) == (True, True)
    renamed = replace(ONE, weight=replace(TOKENS, unit="MB"))
    assert (keeps_counts(ONE, renamed), needs_rematch(ONE, renamed)) == (False, True)
    assert not keeps_counts(ONE, replace(ONE, weight=None))
    heavier = replace(ONE, weight=replace(TOKENS, default=2000))
    assert (keeps_counts(ONE, heavier), needs_rematch(ONE, heavier)) == (True, False)
    assert new_cid(is_weighted=True).startswith("ff")
    assert not any(new_cid().startswith("ff") for _ in range(2000))


# --- why


def gate(**figures: int) -> GateCheck:
    return GateCheck(
        "ff000001" + "0" * 16, "", 1, True, False, {"weight_default": 1000, **figures},
        (Holder("job-1", "worker-1", 0),), "tokens", "argument.tokens",
    )  # fmt: skip


def test_a_window_without_room_says_for_what_it_opens() -> None:
    full = gate(
        window_most=100_000_000,
        window_left=1_800_000,
        period_ms=60_000,
        weight=3_000_000,
        is_weight_found=1,
        due_ms=8_000,
    )
    assert closing(full) == (RATE,)
    text = RATE.why(full, 1_000, {})
    assert text.startswith("98,200 of 100,000 tokens in this minute; opens for this job's 3,000 in 7")
    assert RATE.use(full) == (100_000, 98_200, 60.0)
    assert RATE.shown(full) == {"rate": {"limit": 100_000, "period_s": 60.0}, "starts": None}
    assert WEIGHT.shown(full)["weight"] == {
        "unit": "tokens", "job": 3000, "is_default": False, "running": None, "in_window": 98_200, "is_too_heavy": False,
    }  # fmt: skip


def test_running_units_name_their_holders_and_a_job_without_a_number() -> None:
    full = gate(running_most=10_000, running_left=500, noted=2_000)
    assert closing(full) == (CONCURRENCY,)
    text = CONCURRENCY.why(full, 12_000, {})
    assert text.startswith("9.5 of 10 tokens taken by running jobs: job job-1 on worker worker-1 for 12")
    assert "the 2 of a job before this one and this job's 1" in text
    assert "the default, because it has no number at argument.tokens" in text
    assert CONCURRENCY.use(full) == (10, 10, None)
    assert CONCURRENCY.shown(full) == {"concurrency": 10, "running": None}


def test_a_job_heavier_than_the_limit_is_named() -> None:
    heavy = gate(running_most=10_000, running_left=9_000, weight=11_000, is_weight_found=1)
    assert closing(heavy) == (CONCURRENCY,)
    assert "more than the whole limit" in CONCURRENCY.why(heavy, 0, {})
    assert WEIGHT.shown(heavy)["weight"]["is_too_heavy"]
    alone = replace(heavy, figures={**heavy.figures, "running_left": 10_000}, is_closed=False)
    assert closing(alone) == ()
    period = gate(window_most=1000, window_left=0, period_ms=7_000)
    assert "in the last 7" in RATE.why(period, 0, {})


def test_an_observation_is_told_with_its_end() -> None:
    seen = gate(observed_left=500, observed_until_ms=61_000)
    assert closing(seen) == (OBSERVATION,)
    assert "admits 0.5 more tokens until 1970-01-01T00:01:01" in OBSERVATION.why(seen, 1_000, {})
    assert OBSERVATION.shown(seen) == {"observed": {"remaining": 0.5, "until": "1970-01-01T00:01:01.000Z"}}
    jobs = GateCheck(
        "00000001" + "0" * 16, "", 1, True, False, {"observed_left": 0, "observed_until_ms": 9}, ()
    )
    assert closing(jobs) == (OBSERVATION,)
    assert "0 more starts" in OBSERVATION.why(jobs, 0, {})
    none = GateCheck("00000001" + "0" * 16, "", 1, True, False, {}, ())
    assert (OBSERVATION.shown(none), WEIGHT.shown(none)) == ({"observed": None}, {"weight": None})


# --- replay


def test_a_replay_counts_units() -> None:
    runs = [
        PastRun(0, 10_000, weight=6_000),
        PastRun(1_000, 3_000, weight=5_000),
        PastRun(2_000, 2_500, weight=4_000),
    ]
    told = replay(ONE, runs, 0, HOUR_MS)
    # The second run waits for the first, and the third starts with the second.
    assert (told.held, told.longest_ms) == (2, 9_000)
    assert (told.started_units, told.held_units, told.most_held_units) == (15_000, 9_000, 9_000)
    first, second = told.points[:2]
    assert (first.started_units, first.held_units, second.started_units) == (15_000, 9_000, 0)
    rate = replace(ONE, concurrency=None, rate=Rate(10, 60_000))
    told = replay(rate, [*runs, PastRun(100_000, None, weight=50_000)], 0, HOUR_MS)
    # The second run leaves the window at 120 s. The last one is heavier than the limit and waits for an empty window.
    assert (told.held, told.longest_ms) == (3, 59_000)
    assert replay(replace(ONE, paused=True), runs[:1], 0, 20_000).held_now == 1
    before = replay(
        ONE, [PastRun(0, None, weight=10_000), PastRun(6_000, 7_000, weight=1_000)], 5_000, 20_000
    )
    assert (before.held, before.held_now) == (1, 1)
