"""Shares of turns, reserved slots and conditional overrides: bounds, and the parts that they add to a constraint."""

from typing import Any

import pytest

from jqmaster.domain.constraints.constraint import (
    MAX_CONDITIONS,
    ConditionalOverride,
    Constraint,
    GateLimits,
    Override,
    check_conditions_leave_slots,
    needs_rematch,
)
from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.domain.constraints.limit_kind import ConstraintError, LimitKind
from jqmaster.domain.constraints.limit_kinds import FAIRNESS, KINDS, RESERVE, Reservation, brief
from jqmaster.domain.constraints.parts import owners_of, parts_of
from jqmaster.domain.constraints.turns import MAX_SHARES, ProportionalTurns, TurnShare
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.matching.matcher import Matcher, parse_matcher
from jqmaster.domain.matching.paths import parse_path
from tests.domain.matching.test_matcher import job

pytestmark = pytest.mark.req("D30")

EVERY = parse_matcher({"field": "name", "op": "exists"})
MAIL = parse_matcher({"field": "name", "op": "glob", "value": "mail.*"})
TENANT = parse_path("argument.tenant")


def plan(name: str) -> Matcher:
    return parse_matcher({"field": "argument.plan", "op": "eq", "value": name})


def constraint(**fields: Any) -> Constraint:
    given: dict[str, Any] = {"name": "one", "cid": "000000aa", "matcher": EVERY, "concurrency": 10}
    return Constraint(**(given | fields))


def weighted(*weights: tuple[object, float], default: float = 1) -> ProportionalTurns:
    return ProportionalTurns(tuple(TurnShare(*one) for one in weights), default)


def condition(name: str = "pro", **limits: Any) -> ConditionalOverride:
    return ConditionalOverride(plan(name), GateLimits(**limits))


def reserved(*slots: tuple[str, int]) -> tuple[Reservation, ...]:
    return tuple(Reservation(plan(name), count) for name, count in slots)


@pytest.mark.parametrize(
    ("fields", "loc", "msg"),
    [
        ({"fair": weighted()}, ("fair",), "requires a key"),
        ({"key": TENANT, "fair": weighted(("a", 0))}, ("fair", "weights", 0, "weight"), "0.001 to 1000"),
        ({"key": TENANT, "fair": weighted(("a", 1001))}, ("fair", "weights", 0, "weight"), "0.001 to 1000"),
        ({"key": TENANT, "fair": weighted(default=float("nan"))}, ("fair", "default"), "0.001 to 1000"),
        ({"key": TENANT, "fair": weighted((1, 2), (1.0, 3))}, ("fair", "weights", 1, "value"), "same value"),
        ({"key": TENANT, "fair": weighted(("a" * 2000, 2))}, ("fair", "weights", 0, "value"), "longer"),
        (
            {"key": TENANT, "fair": weighted(*((n, 1) for n in range(MAX_SHARES + 1)))},
            ("fair", "weights"),
            "more than",
        ),
        (
            {"concurrency": None, "paused": False, "reserve": reserved(("pro", 1))},
            ("reserve",),
            "requires a concurrency",
        ),
        ({"reserve": reserved(("pro", 0))}, ("reserve", 0, "concurrency"), "1 to"),
        ({"reserve": reserved(("pro", 6), ("team", 4))}, ("reserve",), "reserves 10 of 10 slots"),
        ({"reserve": reserved(*(("a", 1),) * 4)}, ("reserve",), "more than 3"),
        ({"conditions": (condition(concurrency=1),)}, ("overrides",), "require a key"),
        (
            {"key": TENANT, "conditions": (condition(concurrency=0),)},
            ("overrides", "concurrency"),
            "1 or more",
        ),
        ({"key": TENANT, "conditions": (condition(), condition())}, ("overrides",), "same `match`"),
        (
            {"key": TENANT, "conditions": tuple(condition(str(n)) for n in range(MAX_CONDITIONS + 1))},
            ("overrides",),
            "with `match`",
        ),
    ],
)
def test_bounds(fields: dict[str, Any], loc: tuple[str | int, ...], msg: str) -> None:
    with pytest.raises(ConstraintError, match=msg.replace("(", r"\(")) as caught:
        constraint(**fields)
    assert caught.value.loc == loc


def test_a_matcher_of_a_reservation_is_refused_at_its_place() -> None:
    with pytest.raises(ConstraintError) as caught:
        RESERVE.parse([{"matcher": {"field": "nonsense", "op": "eq", "value": 1}, "concurrency": 1}])
    assert caught.value.loc[:3] == ("reserve", 0, "matcher")


def test_documents_and_stored_forms_keep_shares() -> None:
    cases: tuple[tuple[LimitKind[Any], Any], ...] = (
        (FAIRNESS, weighted(("a", 2.5), (None, 1), default=0.5)),
        (FAIRNESS, True),
        (FAIRNESS, False),
        (RESERVE, reserved(("pro", 2))),
        (RESERVE, ()),
    )
    for kind, value in cases:
        assert kind.parse(kind.document(value)) == value
        assert kind.restored(kind.stored(value)) == value
    assert FAIRNESS.stored(True) == {"fair": True}
    assert RESERVE.stored(()) == {}
    # A master of an earlier release reads equal turns.
    assert FAIRNESS.stored(weighted(("a", 2)))["fair"] is True
    assert FAIRNESS.restored({"fair": False, "fair_weights": [1, []]}) is False


def test_scripts_read_the_default_weight_and_the_least_one() -> None:
    turns = weighted(("a", 2), ("b", 0.5), default=3)
    assert FAIRNESS.script_fields(turns) == {"is_fair": 1, "turn_weight": 3, "least_turn_weight": 0.5}
    assert weighted(default=3).least == 3


def test_shares_in_a_few_words() -> None:
    documents = {kind.name: kind.none for kind in KINDS}
    fair = {"weights": [], "default": 1}
    assert brief({**documents, "fair": fair}) == "fair by share"
    assert (
        brief({**documents, "fair": True, "reserve": [{"concurrency": 2}, {"concurrency": 3}]})
        == "fair, 5 reserved"
    )


# --- conditions


def test_limits_of_a_value_precede_those_of_a_condition_which_precede_those_of_the_constraint() -> None:
    pro = condition(concurrency=50)
    one = constraint(
        key=TENANT,
        conditions=(pro, condition("team", paused=True)),
        overrides=(Override("acme", GateLimits(paused=True)), Override("small", GateLimits(concurrency=1))),
    )
    team = one.conditions[1].id
    assert one.limits_of(key_value("x")).concurrency == 10
    assert one.limits_of(key_value("x"), pro.id).concurrency == 50
    assert one.limits_of(key_value("x"), team) == GateLimits(10, paused=True)
    assert one.limits_of(key_value("acme"), pro.id) == GateLimits(50, paused=True)
    assert one.limits_of(key_value("small"), pro.id).concurrency == 1
    assert one.limits_of(None, "unknown").concurrency == 10


def test_the_first_matching_condition_applies() -> None:
    names = parse_matcher({"field": "argument.plan", "op": "exists"})
    one = constraint(
        key=TENANT, conditions=(condition(), ConditionalOverride(names, GateLimits(concurrency=1)))
    )
    assert one.condition_of(job({"plan": "pro"})) == one.conditions[0].id
    assert one.condition_of(job({"plan": "free"})) == one.conditions[1].id
    assert one.condition_of(job({})) == ""
    assert {"name", "argument"} <= one.reads


def test_gates_tell_the_condition_only_if_the_constraint_has_any() -> None:
    fields = job({"tenant": "acme", "plan": "pro"})
    plain = ConstraintSet(1, [constraint(key=TENANT)])
    assert [gate.condition for gate in plain.gates(fields)[1]] == [None]
    one = constraint(key=TENANT, conditions=(condition(concurrency=2),))
    assert [gate.condition for gate in ConstraintSet(1, [one]).gates(fields)[1]] == [one.conditions[0].id]


def test_another_matcher_of_a_condition_or_a_reservation_requires_matching_anew_and_a_number_does_not() -> (
    None
):
    one = constraint(key=TENANT, conditions=(condition(concurrency=4),), reserve=reserved(("pro", 2)))
    same = constraint(key=TENANT, conditions=(condition(concurrency=5),), reserve=reserved(("pro", 3)))
    assert not needs_rematch(one, same)
    for fields in (
        {"conditions": (condition("team", concurrency=4),)},
        {"conditions": ()},
        {"reserve": reserved(("team", 2))},
        {"reserve": ()},
    ):
        changed = constraint(
            **{"key": TENANT, "conditions": one.conditions, "reserve": one.reserve, **fields}
        )
        assert needs_rematch(one, changed)


def test_weights_are_counted_as_turns() -> None:
    fair, plain = constraint(key=TENANT, fair=weighted(("a", 2))), constraint(key=TENANT)
    assert needs_rematch(plain, fair)
    assert needs_rematch(fair, plain)
    assert not needs_rematch(fair, constraint(key=TENANT, fair=weighted(("a", 3))))


# --- parts


def test_a_condition_within_the_reserve_is_refused_when_it_is_put_but_one_of_an_earlier_release_works() -> (
    None
):
    kept = {"key": TENANT, "reserve": reserved(("pro", 5))}
    for conditions in ((condition("free", concurrency=6),), (condition("free", paused=True),), ()):
        check_conditions_leave_slots(constraint(**kept, conditions=conditions))
    check_conditions_leave_slots(constraint(key=TENANT, conditions=(condition("free", concurrency=1),)))
    one = constraint(**kept, conditions=(condition("free", concurrency=5),))
    with pytest.raises(ConstraintError, match="Raise the concurrency to at least 6") as caught:
        check_conditions_leave_slots(one)
    assert caught.value.loc == ("overrides",)
    assert [o.limits for o in parts_of(one)[1].conditions] == [GateLimits(paused=True)]


def test_a_constraint_without_reservations_has_no_other_parts() -> None:
    one = constraint()
    assert parts_of(one) == (one,)


def test_each_set_of_reservations_is_a_part_that_applies_to_the_other_jobs() -> None:
    one = constraint(matcher=MAIL, reserve=reserved(("pro", 3), ("team", 2)))
    main, *others = parts_of(one)
    assert main is one
    assert [part.concurrency for part in others] == [7, 8, 5]
    assert len({part.cid for part in parts_of(one)}) == 4
    met = {
        name: [part.matcher.matches(job({"plan": name}, name="mail.send")) for part in others]
        for name in ("pro", "team", "free")
    }
    assert met == {"pro": [False, True, False], "team": [True, False, False], "free": [True, True, True]}
    assert not any(part.matcher.matches(job({"plan": "free"}, name="other")) for part in others)
    assert owners_of((one,)) == dict.fromkeys((part.cid for part in parts_of(one)), one)


def test_the_parts_keep_their_identity_while_only_numbers_change() -> None:
    one, other = (constraint(reserve=reserved(("pro", count))) for count in (1, 2))
    assert parts_of(one)[1].cid == parts_of(other)[1].cid
    assert parts_of(one)[1].cid != parts_of(constraint(reserve=reserved(("team", 1))))[1].cid
    assert parts_of(one)[1].cid != parts_of(constraint(cid="000000bb", reserve=one.reserve))[1].cid


def test_the_limits_of_values_and_conditions_leave_the_reserved_slots_free() -> None:
    one = constraint(
        key=TENANT,
        reserve=reserved(("team", 3)),
        overrides=(
            Override("big", GateLimits(concurrency=20)),
            Override("small", GateLimits(concurrency=3)),
            Override("paused", GateLimits(paused=True)),
        ),
        conditions=(condition(concurrency=5), condition("off", paused=True)),
    )
    part = parts_of(one)[1]
    assert [(o.value, o.limits) for o in part.overrides] == [
        ("big", GateLimits(concurrency=17)),
        ("small", GateLimits(paused=True)),
    ]
    assert [o.limits for o in part.conditions] == [GateLimits(concurrency=2), GateLimits()]
    assert [o.id for o in part.conditions] == [o.id for o in one.conditions]


@pytest.mark.parametrize(
    ("excluded", "verdicts"),
    [
        (
            {"field": "name", "op": "eq", "value": "mail.urgent"},
            {"mail.urgent": False, "mail.send": True, "x": False},
        ),
        ({"field": "argument.plan", "op": "eq", "value": "pro"}, {"mail.send": None, "x": False}),
    ],
)
def test_names_decide_about_parts_where_they_can(
    excluded: dict[str, Any], verdicts: dict[str, bool | None]
) -> None:
    one = constraint(matcher=MAIL, reserve=(Reservation(parse_matcher(excluded), 1),))
    matcher = parts_of(one)[1].matcher
    assert {name: matcher.given_name(name) for name in verdicts} == verdicts


def test_a_part_whose_own_matcher_reads_more_than_the_name_asks_it() -> None:
    one = constraint(matcher=plan("free"), reserve=(Reservation(MAIL, 1), Reservation(plan("x"), 1)))
    part = parts_of(one)[1]
    found = part.matcher.for_name("other")
    assert not isinstance(found, bool)
    assert found(job({"plan": "free"}))
    assert not found(job({"plan": "pro"}))
    assert part.matcher.reads == {"name", "argument"}
