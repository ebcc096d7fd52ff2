from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.constraints import constraint_set as constraint_set_module
from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from tests.domain.constraints.test_constraint import HOST, constraint
from tests.domain.constraints.test_constraint_set import CONSTRAINTS
from tests.domain.matching.test_matcher import JOBS, job

pytestmark = pytest.mark.req("J13")

ODD = parse_matcher({"field": "argument.odd", "op": "eq", "value": True})


@given(constraints=CONSTRAINTS, jobs=st.lists(JOBS, min_size=1, max_size=6))
def test_jobs_share_a_lane_exactly_when_they_share_name_and_gates(constraints: Any, jobs: Any) -> None:
    constraint_set = ConstraintSet(7, constraints)
    # The second pass uses the cached lanes.
    seen = [(one, constraint_set.lane_of(one)) for one in [*jobs, *jobs]]
    for one, lane in seen:
        assert (lane.shared, lane.keyed) == constraint_set.gates(one)
        assert (lane.name, lane.edition) == (one.name, 7)
        assert len(lane.id) == 8
        assert len(lane.group) == 16
        assert lane == ConstraintSet(7, constraints).lane_of(one)
        for other, its in seen:
            same_group = one.name == other.name and lane.shared == its.shared
            assert (lane.group == its.group) is same_group
            assert (lane.id == its.id) is (same_group and lane.keyed == its.keyed)


@given(constraints=CONSTRAINTS, fields=JOBS)
def test_the_lane_of_a_name_is_that_of_its_jobs(constraints: Any, fields: Any) -> None:
    constraint_set = ConstraintSet(1, constraints)
    lane = constraint_set.lane_of_queue(fields.name)
    assert (lane is not None) is constraint_set.plan(fields.name).is_decided
    assert lane is None or lane is constraint_set.lane_of(fields)


def test_without_constraints_a_name_is_a_lane() -> None:
    constraint_set = ConstraintSet(1, [])
    one = constraint_set.lane_of_queue("mail.send")
    assert one is not None
    assert (one.shared, one.keyed) == ((), ())
    assert constraint_set.lane_of(job(name="mail.send")) is one
    assert constraint_set.lane_of(job(name="mail.read")).id != one.id


def test_each_edition_has_lanes_of_its_own() -> None:
    one, other = (ConstraintSet(edition, [constraint()]).lane_of(job()) for edition in (1, 2))
    assert one.id != other.id
    assert one.group != other.group
    assert one.shared == other.shared


def test_lanes_of_one_group_differ_in_their_key() -> None:
    constraint_set = ConstraintSet(1, [constraint(cid="1" * 8), constraint(cid="2" * 8, key=HOST)])
    one, other, again, without = (
        constraint_set.lane_of(job(argument))
        for argument in ({"host": "a"}, {"host": "b"}, {"host": "a"}, {})
    )
    assert one == again
    assert one.id != other.id
    assert one.group == other.group == without.group
    assert [gate.text for gate in one.keyed] == ["a"]
    assert without.keyed == ()
    assert [gate.cid for gate in without.shared] == ["1" * 8]


def test_two_keys_are_two_gates_in_the_order_of_their_ids() -> None:
    keys = [constraint(cid=cid * 8, key=parse_path(path)) for cid, path in [("1", "name"), ("2", "priority")]]
    lanes = [ConstraintSet(1, order).lane_of(job()) for order in (keys, keys[::-1])]
    assert lanes[0] == lanes[1]
    assert len(lanes[0].keyed) == 2


def test_the_memory_of_lanes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_set_module, "MAX_KNOWN_LANES", 3)
    constraint_set = ConstraintSet(1, [constraint(matcher=ODD)])
    for i in range(10):
        constraint_set.lane_of(job({"odd": i % 2 == 1}, name=f"mail.{i}"))
        assert len(constraint_set._lanes) <= 3
