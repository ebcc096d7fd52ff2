from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.constraints import constraint_set as constraint_set_module
from jqmaster.domain.constraints.constraint import Mode, gate_id, key_of, new_cid
from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from tests.domain.constraints.test_constraint import HOST, constraint
from tests.domain.matching.test_matcher import JOBS, MATCHERS, job

pytestmark = pytest.mark.req("J13")

CONSTRAINTS = st.lists(
    st.builds(
        lambda document, key, enabled, mode: constraint(
            cid=new_cid(),
            matcher=parse_matcher(document),
            key=key and parse_path(key),
            enabled=enabled,
            mode=mode,
        ),
        MATCHERS,
        st.sampled_from([None, None, "name", "argument.a", "headers.a"]),
        st.sampled_from([True, True, True, False]),
        st.sampled_from(Mode),
    ),
    max_size=5,
)


@given(constraints=CONSTRAINTS, jobs=st.lists(JOBS, min_size=1, max_size=4))
def test_a_job_passes_the_gate_of_each_constraint_that_applies(constraints: Any, jobs: Any) -> None:
    constraint_set = ConstraintSet(1, constraints)
    for fields in jobs:
        applying = [
            one
            for one in constraints
            if one.enabled
            and one.matcher.matches(fields)
            and (one.key is None or key_of(one, fields) is not None)
        ]
        assert constraint_set.matching(fields) == applying
        shared, keyed = constraint_set.gates(fields)
        assert list(shared) == sorted(shared)
        assert list(keyed) == sorted(keyed)
        assert {gate.cid for gate in shared} == {one.cid for one in applying if one.key is None}
        assert {(gate.cid, gate.id, gate.text) for gate in keyed} == {
            (one.cid, gate_id(one.cid, key), key.text)
            for one in applying
            if one.key is not None and (key := key_of(one, fields))
        }
        assert all(gate.is_keyed for gate in keyed)
        assert all(
            not gate.is_keyed and gate.text == "" and gate.id == gate_id(gate.cid, None) for gate in shared
        )


@given(constraints=CONSTRAINTS, one=JOBS, other=JOBS)
def test_a_name_that_decides_decides_for_every_job(constraints: Any, one: Any, other: Any) -> None:
    constraint_set = ConstraintSet(1, constraints)
    other.name = one.name
    if constraint_set.plan(one.name).is_decided:
        assert constraint_set.gates(one) == constraint_set.gates(other)
        assert constraint_set.gates(one)[1] == ()


def test_only_what_the_name_leaves_open_is_evaluated() -> None:
    by_name = constraint(cid="1" * 8)
    by_field = constraint(
        cid="2" * 8,
        matcher=parse_matcher(
            {
                "all": [
                    {"field": "name", "op": "eq", "value": "mail.send"},
                    {"field": "argument.a", "op": "eq", "value": 1},
                ]
            }
        ),
    )
    keyed = constraint(
        cid="3" * 8, matcher=parse_matcher({"field": "name", "op": "eq", "value": "web"}), key=HOST
    )
    off = constraint(
        cid="4" * 8, enabled=False, matcher=parse_matcher({"field": "priority", "op": "lt", "value": 0})
    )
    constraint_set = ConstraintSet(1, [by_name, by_field, keyed, off])
    assert constraint_set.reads == {"name", "argument"}
    assert constraint_set.plan("other").is_decided
    assert constraint_set.plan("mail.read").is_decided
    assert not constraint_set.plan("mail.send").is_decided
    assert not constraint_set.plan("web").is_decided
    assert ConstraintSet(2, []).plan("any").is_decided
    reads: list[bytes] = []
    constraint_set.gates(job(name="mail.read", decode=reads.append))
    assert reads == []
    constraint_set.gates(job(name="mail.send", decode=reads.append))
    assert reads == [b""]


def test_the_memory_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_set_module, "MAX_KNOWN_NAMES", 3)
    constraint_set = ConstraintSet(1, [constraint()])
    for i in range(10):
        assert len(constraint_set.gates(job(name=f"mail.{i}"))[0]) == 1
        assert len(constraint_set._plans) <= 3


def test_gates_of_values_that_recur_are_known_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_set_module, "MAX_KNOWN_GATES", 3)
    one, two = (
        constraint(name="one", cid=new_cid(), key=HOST),
        constraint(name="two", cid=new_cid(), key=HOST),
    )
    constraint_set = ConstraintSet(1, [one, two])
    values: list[object] = ["a", "b", "a", "1", 1, True, None, "c", "a", b"a", "x" * 1000, "y" * 1000, "b"]
    for value in values:
        fields = job({"host": value})
        expected = sorted(gate_id(limit.cid, key_of(limit, fields)) for limit in (one, two))
        for _ in range(2):
            _, keyed = constraint_set.gates(fields)
            assert [gate.id for gate in keyed] == expected
            assert {gate.cid for gate in keyed} == {one.cid, two.cid}
        assert len(constraint_set._gates) <= 3
        # Long values are not kept.
        assert all(len(text) < 1000 for _, text in constraint_set._gates)


def test_a_place_is_the_lane_in_two_parts() -> None:
    constraint_set = ConstraintSet(1, [constraint(cid=new_cid()), constraint(cid=new_cid(), key=HOST)])
    for argument in ({"host": "a"}, {"host": 7}, {}):
        base, keyed = constraint_set.place_of(job(argument))
        assert base.keyed == ()
        lane = constraint_set.lane_of(job(argument))
        assert (lane.base_id, lane.keyed) == (base.base_id, tuple(keyed))
        assert lane == (base.with_keyed(keyed) if keyed else base)
