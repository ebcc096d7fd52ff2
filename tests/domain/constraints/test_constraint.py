import json
import math
import unicodedata
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.constraints.constraint import (
    Constraint,
    GateLimits,
    Mode,
    Override,
    gate_id,
    keeps_counts,
    key_of,
    needs_rematch,
    new_cid,
)
from jqmaster.domain.constraints.gate_check import Rate
from jqmaster.domain.constraints.limit_kind import ConstraintError
from jqmaster.domain.matching.key_value import MAX_KEY_TEXT, KeyValue, canonical, key_value
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from tests.domain.matching.test_matcher import job

pytestmark = pytest.mark.req("J13")

MAIL = parse_matcher({"field": "name", "op": "glob", "value": "mail.*"})
HOST = parse_path("argument.host")
ANY_CID = "000000aa"


def constraint(**fields: Any) -> Constraint:
    given: dict[str, Any] = {"name": "mail", "cid": ANY_CID, "matcher": MAIL, "concurrency": 2}
    return Constraint(**(given | fields))


def override(value: object, **limits: Any) -> Override:
    return Override(value, GateLimits(**limits))


# --- bounds


@pytest.mark.parametrize(
    ("fields", "loc", "msg"),
    [
        ({"name": ""}, ("name",), "1 to 100"),
        ({"name": "a" * 101}, ("name",), "1 to 100"),
        ({"name": "a b"}, ("name",), "1 to 100"),
        ({"name": "a/b"}, ("name",), "1 to 100"),
        ({"name": "a\n"}, ("name",), "1 to 100"),
        ({"name": "é"}, ("name",), "1 to 100"),
        ({"cid": "00"}, ("cid",), "8"),
        ({"cid": "0" * 7 + "G"}, ("cid",), "8"),
        ({"reason": "x" * 501}, ("reason",), "longer than 500"),
        ({"concurrency": 0}, ("concurrency",), "set paused"),
        ({"concurrency": -1}, ("concurrency",), "1 to 1000000"),
        ({"concurrency": 1_000_001}, ("concurrency",), "1 to 1000000"),
        ({"rate": Rate(0, 1000)}, ("rate", "limit"), "set paused"),
        ({"rate": Rate(-1, 1000)}, ("rate", "limit"), "1 to 100000"),
        ({"rate": Rate(100_001, 1000)}, ("rate", "limit"), "1 to 100000"),
        ({"rate": Rate(1, 0)}, ("rate", "period_s"), "0.001 to 2678400"),
        ({"rate": Rate(1, 31 * 86_400_000 + 1)}, ("rate", "period_s"), "0.001 to 2678400"),
        ({"max_backlog": -1}, ("max_backlog",), "0 to 100000000"),
        ({"max_backlog": 100_000_001}, ("max_backlog",), "0 to 100000000"),
        ({"concurrency": None}, (), "has no limit"),
        ({"fair": True}, ("fair",), "requires a key"),
        ({"concurrency": None, "counts_awaiting": False}, ("counts_awaiting",), "requires a concurrency"),
        (
            {"concurrency": None, "rate": Rate(1, 1000), "counts_awaiting": False},
            ("counts_awaiting",),
            "requires a concurrency",
        ),
        ({"overrides": (override("a", paused=True),)}, ("overrides",), "require a key"),
        ({"key": parse_path("tags")}, ("key",), "many tags"),
        (
            {"key": HOST, "overrides": tuple(override(i) for i in range(1001))},
            ("overrides",),
            "more than 1000",
        ),
        (
            {"key": HOST, "overrides": (override("a"), override(1), override(1.0))},
            ("overrides", 2, "value"),
            "the same value as overrides.1",
        ),
        (
            {"key": HOST, "overrides": (override([{1, 2}]),)},
            ("overrides", 0, "value"),
            "must be null, a boolean",
        ),
        (
            {"key": HOST, "overrides": (override(["x" * 1000] * 5),)},
            ("overrides", 0, "value"),
            "a list or map longer than 4096 bytes",
        ),
        (
            {"key": HOST, "overrides": (override("a" * 1025),)},
            ("overrides", 0, "value"),
            "longer than 1024",
        ),
        (
            {"key": HOST, "overrides": (override("a"), override("b", concurrency=0))},
            ("overrides", 1, "concurrency"),
            "set paused",
        ),
        (
            {"key": HOST, "overrides": (override("a", rate=Rate(1, 0)),)},
            ("overrides", 0, "rate", "period_s"),
            "0.001",
        ),
    ],
)
def test_a_limit_that_is_none_is_refused(
    fields: dict[str, Any], loc: tuple[str | int, ...], msg: str
) -> None:
    with pytest.raises(ConstraintError) as refused:
        constraint(**fields)
    assert refused.value.loc == loc
    assert msg in refused.value.msg
    assert refused.value.msg in str(refused.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a" * 100},
        {"name": "A.z_0:9-"},
        {"concurrency": 1_000_000},
        {"rate": Rate(100_000, 1)},
        {"rate": Rate(1, 31 * 86_400_000)},
        {"max_backlog": 0, "concurrency": None},
        {"max_backlog": 100_000_000},
        {"paused": False, "concurrency": None},
        {"paused": True, "concurrency": None},
        {"fair": True, "key": HOST, "concurrency": None},
        {"overrides": (override("a", concurrency=1),), "key": HOST, "concurrency": None},
        {"overrides": tuple(override(v) for v in (1, True, "1", b"1", None, 1.5)), "key": HOST},
        {"overrides": tuple(override(i) for i in range(1000)), "key": HOST},
        {"mode": Mode.SHADOW},
    ],
)
def test_the_bounds_themselves_are_allowed(fields: dict[str, Any]) -> None:
    assert constraint(**fields) == constraint(**fields)


def test_an_override_changes_only_what_it_names() -> None:
    one = constraint(
        key=HOST,
        rate=Rate(5, 1000),
        overrides=(
            override(1, concurrency=9),
            override("slow", rate=Rate(1, 60_000)),
            override(None, paused=True),
        ),
    )
    own = GateLimits(2, Rate(5, 1000), False)
    assert one.limits_of(None) == one.limits_of(key_value("other")) == one.limits_of(key_value(True)) == own
    assert one.limits_of(key_value(1.0)) == replace(own, concurrency=9)
    assert one.limits_of(key_value("slow")) == replace(own, rate=Rate(1, 60_000))
    assert one.limits_of(key_value(None)) == replace(own, paused=True)
    assert replace(one, paused=True).limits_of(key_value(1)) == GateLimits(9, Rate(5, 1000), True)


# --- incarnations


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, False),
        ({}, {"concurrency": 3, "paused": True, "max_backlog": 5, "mode": Mode.SHADOW}, False),
        ({"rate": Rate(1, 1000)}, {"rate": Rate(2, 500)}, False),
        ({}, {"rate": Rate(1, 1000)}, True),
        ({"rate": Rate(1, 1000)}, {}, False),
        ({"paused": False}, {"paused": False, "concurrency": None}, False),
        ({}, {"key": HOST}, True),
        ({"key": HOST}, {"key": HOST, "fair": True}, True),
        ({"key": HOST}, {"key": parse_path("argument.tenant")}, True),
        ({"key": HOST}, {"key": parse_path('argument["host"]')}, False),
        ({"key": HOST}, {"key": HOST, "overrides": (override("a", concurrency=1),)}, False),
        ({"key": HOST}, {"key": HOST, "overrides": (override("a", rate=Rate(1, 1)),)}, True),
        (
            {"key": HOST, "concurrency": None, "overrides": (override("a", concurrency=1),)},
            {"key": HOST, "concurrency": 5},
            False,
        ),
        ({"enabled": False}, {"enabled": True}, True),
        ({"enabled": True}, {"enabled": False}, False),
        ({"enabled": False}, {"enabled": False}, False),
    ],
)
def test_jobs_are_matched_again_when_gates_or_what_they_count_change(
    before: dict[str, Any], after: dict[str, Any], expected: bool
) -> None:
    assert needs_rematch(constraint(**before), constraint(**after)) is expected


def test_a_new_constraint_needs_a_match_and_one_that_goes_none() -> None:
    assert needs_rematch(None, constraint())
    assert not needs_rematch(None, constraint(enabled=False))
    assert not needs_rematch(constraint(), None)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"concurrency": 9, "matcher": parse_matcher({"field": "name", "op": "eq", "value": "x"})}, True),
        ({}, {"key": HOST}, False),
        ({"enabled": False}, {}, False),
        ({}, {"enabled": False}, False),
    ],
)
def test_counts_are_kept_while_the_gates_are_the_same(
    before: dict[str, Any], after: dict[str, Any], expected: bool
) -> None:
    assert keeps_counts(constraint(**before), constraint(**after)) is expected


def test_another_matcher_needs_another_match() -> None:
    def one(value: object) -> Constraint:
        return constraint(matcher=parse_matcher({"field": "argument.a", "op": "eq", "value": value}))

    assert not needs_rematch(one(1), one(1))
    assert needs_rematch(one(1), one(2))
    assert needs_rematch(one(1), one(True))


def test_each_incarnation_has_a_name_of_its_own() -> None:
    cids = {new_cid() for _ in range(100)}
    assert len(cids) == 100
    assert all(constraint(cid=cid) for cid in cids)


# --- key values

KEYS: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.builds(msgpack.ExtType, st.integers(0, 3), st.binary(max_size=2)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2) | st.binary(max_size=2) | st.integers(-2, 2), inner, max_size=3)
    ),
    max_leaves=8,
)
SMALL: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, -0.0, 0.5, math.nan, "", "1", "i1;", b"", b"1", "s1:1"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", b"a", 1]), inner, max_size=2)
    ),
    max_leaves=4,
)
# Texts that look like the encodings of other values, and those values.
JSON_LIKE: st.SearchStrategy[Any] = st.one_of(
    st.text('019-.eE"[]{}:, nulltrefasi\\x\n', max_size=6),
    st.recursive(
        st.none() | st.booleans() | st.integers(-20, 20) | st.sampled_from([0.5, "1", "a", "null"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("a1"), inner, max_size=2),
        max_leaves=3,
    ),
)


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same key value, without comparing bytes."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or (one != one and other != other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return set(map(repr, one)) == set(map(repr, other)) and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@given(one=SMALL, other=SMALL)
def test_bytes_are_equal_exactly_when_values_are(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) is same(one, other)


@given(value=KEYS)
def test_a_key_value_survives_the_wire(value: Any) -> None:
    again = msgpack.unpackb(msgpack.packb(value), strict_map_key=False)
    assert canonical(again) == canonical(value)


@given(members=st.dictionaries(st.text(max_size=3), KEYS, max_size=4), data=st.data())
def test_the_order_of_a_map_is_none(members: dict[str, Any], data: st.DataObject) -> None:
    shuffled = dict(data.draw(st.permutations(list(members.items()))))
    assert canonical(shuffled) == canonical(members)


@given(value=KEYS | st.text(max_size=200) | st.binary(max_size=200))
def test_the_text_is_short_and_harmless(value: Any) -> None:
    text = key_value(value).text
    assert len(text) <= MAX_KEY_TEXT
    assert not [char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("example.org", "example.org"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]:80", "[::1]:80"),
        ("{user}", "{user}"),
        ("two words", "two words"),
        ("truest", "truest"),
        ("", '""'),
        (" a", '" a"'),
        ("1", '"1"'),
        ("-1.5e3", '"-1.5e3"'),
        ("null", '"null"'),
        ("NaN", '"NaN"'),
        ("true", '"true"'),
        ("[1]", '"[1]"'),
        ("{}", '"{}"'),
        ("nan", '"nan"'),
        ("-inf", '"-inf"'),
        ("0x01", '"0x01"'),
        ('say "a"', '"say \\"a\\""'),
        ("a\nb\x1b[0m", '"a\\nb\\u001b[0m"'),
        ("a\\nb", "a\\nb"),
        ("right\u202eleft", '"right\\u202eleft"'),
        ("\U000e0001", '"\\udb40\\udc01"'),
        ("a" * 128, "a" * 128),
        ("a" * 129, "a" * 127 + "…"),
        ("1" * 129, '"' + "1" * 126 + "…"),
        ("[1" + ",1" * 100, '"[1' + ",1" * 62 + "…"),
        ("\0" * 64, '"' + ("\\u0000" * 64)[:126] + "…"),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (7.0, "7"),
        (2.5, "2.5"),
        (1e300, "1e+300"),
        (math.nan, "nan"),
        (b"\x01\xff", "0x01ff"),
        (["a", 1, None, 2.0, b"\x01"], '["a",1,null,2,{"$bin":"AQ=="}]'),
        ([1] * 100, ("[" + "1," * 100)[:127] + "…"),
        ({"b": 1, "a": [{}]}, '{"a":[{}],"b":1}'),
        ({1: "a"}, '{1:"a"}'),
    ],
)
def test_people_read_key_values(value: object, text: str) -> None:
    assert key_value(value).text == text


@given(one=SMALL | JSON_LIKE, other=SMALL | JSON_LIKE)
def test_different_key_values_look_different(one: Any, other: Any) -> None:
    first, second = key_value(one), key_value(other)
    assert (first.text == second.text) is (first.canonical == second.canonical)


@given(value=JSON_LIKE)
def test_the_shown_form_of_a_key_value_can_be_queried(value: Any) -> None:
    text = key_value(value).text
    try:
        read = json.loads(text)
    except ValueError:
        read = text
    assert canonical(read) == canonical(value)


@pytest.mark.parametrize("value", ["x" * 262_144, b"x" * 262_144, list(range(100_000)), 2**64 - 1, -(2**63)])
def test_a_huge_value_is_one_gate_like_others(value: object) -> None:
    assert len(gate_id(ANY_CID, key_value(value))) == 24
    assert len(key_value(value).text) <= MAX_KEY_TEXT


def test_a_missing_key_is_none_and_null_is_a_value() -> None:
    one = constraint(key=HOST)
    assert key_of(one, job({})) is None
    assert key_of(one, job([1])) is None
    assert key_of(one, job({"host": None})) == KeyValue(b"n", "null")
    assert key_of(one, job({"host": "h"})) == key_value("h")
    assert key_of(constraint(key=parse_path("name")), job()) == key_value("mail.send")
    assert key_of(constraint(key=parse_path("headers.t")), job(headers={"t": "x"})) == key_value("x")


def test_a_gate_is_that_of_its_incarnation_and_value() -> None:
    ids = {gate_id(cid, key) for cid in ("0" * 8, "1" * 8) for key in (None, *map(key_value, "ab"))}
    assert len(ids) == 6
    assert all(len(one) == 24 and int(one, 16) >= 0 for one in ids)
    assert gate_id("0" * 8, key_value(1)) == gate_id("0" * 8, key_value(1.0))
