from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.definitions.definition import CatchUp, Definition, Kind, TimeTrigger, new_did
from jqmaster.domain.definitions.misfire import judge
from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.definitions.run import RunReason, job_id_of
from jqmaster.domain.definitions.schedule import parse_schedule
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import JobSpec

MINUTE_MS = 60_000
NOW_MS = 1_800_000_000_000
DID = "0123456789abcdef"
EVERY_MINUTE = TimeTrigger(parse_schedule({"every_minutes": 1}))


def definition(**trigger: Any) -> Definition:
    return Definition("nightly", DID, JobSpec("", "report", b"\xc0"), replace(EVERY_MINUTE, **trigger))


@pytest.mark.req("D6")
@given(after_ms=st.integers(NOW_MS - 10 * MINUTE_MS, NOW_MS + 10 * MINUTE_MS))
def test_instants_before_the_start_and_from_the_end_on_do_not_count(after_ms: int) -> None:
    made = definition(starts_at_ms=NOW_MS, ends_at_ms=NOW_MS + 3 * MINUTE_MS)
    due = [o.at_ms for o in made.due_after(after_ms)]
    assert due == [at for n in range(3) if (at := NOW_MS + n * MINUTE_MS) > after_ms]
    assert made.next_due_ms(after_ms) == (due[0] if due else None)


@pytest.mark.req("D6")
@given(jitter_ms=st.integers(1, 3_600_000), name=st.from_regex(r"[a-z]{1,20}", fullmatch=True))
def test_jitter_delays_all_instants_of_a_definition_alike(jitter_ms: int, name: str) -> None:
    plain = replace(definition(), name=name)
    shifted = replace(plain, trigger=replace(plain.of_time, jitter_ms=jitter_ms))
    # A new incarnation keeps its delay, too.
    assert replace(shifted, did=new_did()).delay_ms == shifted.delay_ms < jitter_ms
    assert plain.delay_ms == 0
    expected = [o.at_ms + shifted.delay_ms for o in islice(plain.due_after(NOW_MS), 3)]
    assert [o.at_ms for o in islice(shifted.due_after(NOW_MS + shifted.delay_ms), 3)] == expected


def test_different_definitions_get_different_parts_of_a_jitter() -> None:
    made = definition(jitter_ms=3_600_000)
    assert len({replace(made, name=f"d{n}").delay_ms for n in range(100)}) > 90


@pytest.mark.req("D6")
@pytest.mark.parametrize(
    ("change", "loc"),
    [
        ({"time_zone": "Nowhere"}, "time_zone"),
        ({"starts_at_ms": 5, "ends_at_ms": 5}, "ends_at"),
        ({"jitter_ms": -1}, "jitter_s"),
        ({"jitter_ms": 86_400_001}, "jitter_s"),
        ({"skip_late_after_ms": 0}, "skip_late_after_s"),
        ({"max_catch_up": 0}, "max_catch_up"),
        ({"max_catch_up": 1001}, "max_catch_up"),
    ],
)
def test_a_trigger_out_of_bounds_is_refused(change: dict[str, Any], loc: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        replace(EVERY_MINUTE, **change)
    assert refused.value.loc == (loc,)


@pytest.mark.parametrize(
    ("change", "loc"),
    [
        ({"name": "a b"}, "name"),
        ({"name": ""}, "name"),
        ({"did": "x"}, "did"),
        ({"description": "x" * 1001}, "description"),
        ({"reason": "x" * 501}, "reason"),
    ],
)
def test_a_definition_out_of_bounds_is_refused(change: dict[str, Any], loc: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        replace(definition(), **change)
    assert refused.value.loc == (loc,)


def test_its_trigger_tells_its_kind() -> None:
    assert definition().kind is Kind.TIME


@pytest.mark.req("D7")
@given(due_ms=st.integers(0, 4_000_000_000_000), other_ms=st.integers(0, 4_000_000_000_000))
def test_the_job_of_an_instant_has_one_id_that_sorts_by_it(due_ms: int, other_ms: int) -> None:
    one, other = job_id_of(DID, due_ms), job_id_of(DID, other_ms)
    assert is_id(one)
    assert one == job_id_of(DID, due_ms)
    assert (one == other) == (due_ms == other_ms)
    assert (one < other) == (due_ms < other_ms)
    assert one != job_id_of(new_did(), due_ms)


LATE, OK, MADE_UP = RunReason.LATE, RunReason.NONE, RunReason.CAUGHT_UP


@pytest.mark.req("D8")
@pytest.mark.parametrize(
    ("catch_up", "late_by", "newer", "reasons"),
    [
        (CatchUp.SKIP, [30, 20, 10], 0, [LATE, LATE, LATE]),
        (CatchUp.SKIP, [30, 20, 5, 1], 0, [LATE, LATE, OK, OK]),
        (CatchUp.LATEST, [30, 20, 10], 0, [LATE, LATE, MADE_UP]),
        (CatchUp.LATEST, [30, 20, 1], 0, [LATE, LATE, OK]),
        (CatchUp.LATEST, [30, 20, 10], 1, [LATE, LATE, LATE]),
        (CatchUp.ALL, [40, 30, 20, 10], 0, [LATE, LATE, MADE_UP, MADE_UP]),
        (CatchUp.ALL, [40, 30, 20, 1], 0, [LATE, LATE, MADE_UP, OK]),
        (CatchUp.ALL, [40, 30, 20, 10], 1, [LATE, LATE, LATE, MADE_UP]),
        (CatchUp.ALL, [40, 30, 20, 10], 2, [LATE] * 4),
        (CatchUp.ALL, [4, 3, 2, 1], 1000, [OK] * 4),
        (CatchUp.LATEST, [], 0, []),
    ],
)
def test_late_instants_follow_the_rule_of_their_definition(
    catch_up: CatchUp, late_by: list[int], newer: int, reasons: list[RunReason]
) -> None:
    trigger = replace(EVERY_MINUTE, catch_up=catch_up, max_catch_up=2)
    due = [NOW_MS - minutes * MINUTE_MS for minutes in late_by]
    assert judge(due, NOW_MS, trigger, newer=newer) == reasons


@pytest.mark.req("D8")
def test_an_instant_is_late_only_after_its_limit() -> None:
    trigger = replace(EVERY_MINUTE, catch_up=CatchUp.SKIP, skip_late_after_ms=300_000)
    assert judge([NOW_MS - 300_000], NOW_MS, trigger) == [OK]
    assert judge([NOW_MS - 300_001], NOW_MS, trigger) == [LATE]
    # The store's clock may have been set back since then.
    assert judge([NOW_MS + 5], NOW_MS, trigger) == [OK]
