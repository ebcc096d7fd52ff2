"""Replay past runs under a constraint."""

import dataclasses

import pytest

from jqmaster.domain.constraints.constraint import Constraint, GateLimits, Override
from jqmaster.domain.constraints.gate_check import Rate
from jqmaster.domain.constraints.replay import MAX_TOP_KEYS, STEP_MS, PastRun, replay
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path

pytestmark = pytest.mark.req("J13")

HOUR_MS = 3_600_000
WORK = parse_matcher({"field": "name", "op": "eq", "value": "work"})
ONE = Constraint("draft", "0" * 8, WORK, concurrency=1)


def test_jobs_that_fit_are_not_held() -> None:
    told = replay(ONE, [PastRun(1_000, 2_000), PastRun(2_000, 3_000)], 0, HOUR_MS)
    assert (told.started, told.held, told.held_now, told.most_held) == (2, 0, 0, 0)
    assert (told.p95_ms, told.longest_ms, told.keys, told.distinct_keys) == (None, None, None, None)


def test_a_job_that_finds_no_slot_waits_for_the_one_before_it_and_runs_as_long_as_it_did() -> None:
    runs = [PastRun(0, 10_000), PastRun(1_000, 6_000), PastRun(2_000, 3_000)]
    told = replay(ONE, runs, 0, HOUR_MS)
    # The second run starts at 10 s instead of 1 s, the third at 15 s instead of 2 s.
    assert (told.started, told.held, told.most_held) == (3, 2, 2)
    assert (told.p95_ms, told.longest_ms) == (13_000, 13_000)


def test_a_rate_lets_so_many_start_in_any_period() -> None:
    rate = dataclasses.replace(ONE, concurrency=None, rate=Rate(2, 10_000))
    told = replay(rate, [PastRun(n * 1_000, n * 1_000 + 1) for n in range(4)], 0, HOUR_MS)
    # The third run waits from 2 s to 10 s, the fourth from 3 s to 11 s.
    assert (told.held, told.most_held, told.longest_ms) == (2, 2, 8_000)


def test_a_job_that_still_runs_holds_its_slot_until_now() -> None:
    told = replay(ONE, [PastRun(0, None), PastRun(60_000, 61_000)], 0, 100_000)
    assert (told.held, told.held_now, told.longest_ms) == (1, 1, 40_000)


def test_a_pause_holds_all_jobs() -> None:
    told = replay(dataclasses.replace(ONE, paused=True), [PastRun(0, 10), PastRun(500, 510)], 0, 1_000)
    assert (told.held, told.held_now, told.longest_ms) == (2, 2, 1_000)


def test_jobs_that_started_before_hold_slots_and_are_not_held() -> None:
    runs = [PastRun(0, 90_000), PastRun(10, 70_000), PastRun(61_000, 62_000)]
    told = replay(ONE, runs, 60_000, HOUR_MS)
    assert (told.started, told.held, told.longest_ms) == (1, 1, 29_000)


def test_each_value_of_the_key_has_its_own_limits() -> None:
    slow, free = key_value("slow"), key_value("free")
    keyed = dataclasses.replace(
        ONE, key=parse_path("argument.host"), overrides=(Override("free", GateLimits(concurrency=2)),)
    )
    runs = [PastRun(n, 10_000 + n, key) for key in (slow, free) for n in range(2)]
    told = replay(keyed, runs, 0, HOUR_MS)
    assert (told.started, told.held, told.distinct_keys) == (4, 1, 2)
    assert told.keys is not None
    assert [(one.value.text, one.started, one.held, one.longest_ms) for one in told.keys] == [
        ("slow", 2, 1, 9_999),
        ("free", 2, 0, 0),
    ]


def test_only_the_values_with_the_most_held_jobs_are_told() -> None:
    keyed = dataclasses.replace(ONE, key=parse_path("argument.n"))
    runs = [PastRun(n, 10_000, key_value(n)) for n in range(MAX_TOP_KEYS + 5)]
    told = replay(keyed, runs, 0, HOUR_MS)
    assert told.keys is not None
    assert (len(told.keys), told.distinct_keys) == (MAX_TOP_KEYS, MAX_TOP_KEYS + 5)


def test_the_points_tell_each_minute() -> None:
    runs = [PastRun(0, 90_000), PastRun(30_000, 31_000), PastRun(150_000, 151_000)]
    told = replay(ONE, runs, 0, 3 * STEP_MS)
    assert [(point.at_ms, point.started, point.held) for point in told.points] == [
        (0, 2, 1),
        (STEP_MS, 0, 1),
        (2 * STEP_MS, 1, 0),
    ]


def test_nothing_ran() -> None:
    told = replay(ONE, [], 0, STEP_MS)
    assert (told.started, told.held, len(told.points)) == (0, 0, 1)
