"""Which events start a definition, and which argument they produce."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.definitions.definition import Definition, Overlap
from jqmaster.domain.definitions.event_trigger import (
    Collect,
    Debounce,
    EventTrigger,
    parse_collect,
    parse_debounce,
)
from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.definitions.template import parse_template
from jqmaster.domain.events.event import Event
from jqmaster.domain.events.index import EventIndex
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.matching.checks import MatcherError
from jqmaster.domain.matching.fields import EVENT_FIELDS
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path

EVENT_ID = "0198c3f4-5e69-7b8c-9d0e-1f2a3b4c5d6e"
EVENT = Event(
    EVENT_ID,
    "order.paid",
    msgpack.packb({"order": {"id": 7, "lines": [{"sku": "a"}, {"sku": "b"}]}, "none": None, 5: "x"}),
    source="/shop",
    subject="7",
    occurred_at_ms=1_800_000_000_000,
)


def definition(name: str, event_type: str, **fields: Any) -> Definition:
    return Definition(name, "0" * 16, JobSpec("", "work", b"\xc0"), EventTrigger(event_type, **fields))


@pytest.mark.req("D6")
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({"from": "payload.order.id"}, 7),
        ({"from": 'payload.order["lines"][1].sku'}, "b"),
        ({"from": "payload.order.lines[2].sku"}, None),
        ({"from": "payload.none"}, None),
        ({"id": {"from": "payload.order.id"}, "kind": "paid", "n": [1, {"from": "event_type"}]},
         {"id": 7, "kind": "paid", "n": [1, "order.paid"]}),
        ({"from": "source"}, "/shop"),
        ({"from": "subject"}, "7"),
        ({"from": "event_id"}, EVENT_ID),
        ({"from": "occurred_at"}, "2027-01-15T08:00:00.000Z"),
        ({"a": [1, 2], "b": b"x"}, {"a": [1, 2], "b": b"x"}),
        ([], []),
        (5, 5),
    ],
)  # fmt: skip
def test_a_template_makes_the_argument(template: Any, expected: Any) -> None:
    argument = parse_template(template).argument(EVENT.fields, EVENT.payload)
    assert msgpack.unpackb(argument) == expected


def test_the_payload_itself_passes_byte_for_byte() -> None:
    odd = b"\xd9\x01a"
    event = Event(new_id(), "a", odd)
    assert parse_template({"from": "payload"}).argument(event.fields, odd) == odd


def test_a_payload_that_cannot_be_decoded_has_no_parts() -> None:
    event = Event(new_id(), "a", b"\xa1\xff")
    assert parse_template({"from": "payload.a"}).argument(event.fields, event.payload) == b"\xc0"


@pytest.mark.parametrize(
    ("template", "loc"),
    [
        ({"from": "argument.a"}, ("argument", "from")),
        ({"from": 5}, ("argument", "from")),
        ({"from": "payload", "to": 1}, ("argument",)),
        ({"a": [{"from": "payload.["}]}, ("argument", "a", 0, "from")),
        ([0] * 1000, ("argument", 999)),
    ],
)
def test_a_faulty_template_is_refused_at_its_place(template: Any, loc: tuple[Any, ...]) -> None:
    with pytest.raises(DefinitionError) as refused:
        parse_template(template)
    assert refused.value.loc == loc


def test_a_template_is_nested_only_so_deep() -> None:
    deep: Any = 1
    for _ in range(16):
        deep = [deep]
    with pytest.raises(DefinitionError, match="nested deeper"):
        parse_template(deep)


def test_templates_are_equal_if_they_say_the_same() -> None:
    assert parse_template({"a": 1}) == parse_template({"a": 1})
    assert parse_template({"a": 1}) != parse_template({"a": True})


@pytest.mark.req("D6")
def test_the_index_finds_definitions_by_type_and_matcher() -> None:
    large = parse_matcher({"field": "payload.order.id", "op": "gt", "value": 5}, EVENT_FIELDS)
    small = parse_matcher({"field": "payload.order.id", "op": "lt", "value": 5}, EVENT_FIELDS)
    missing = parse_matcher({"field": "payload.total", "op": "ne", "value": 5}, EVENT_FIELDS)
    from_shop = parse_matcher({"field": "source", "op": "eq", "value": "/shop"}, EVENT_FIELDS)
    index = EventIndex(
        "1",
        [
            definition("e", "order.paid"),
            definition("d", "order.*", matcher=large),
            definition("c", "order.*", matcher=small),
            definition("b", "*", matcher=missing),
            definition("a", "*", matcher=from_shop),
            definition("f", "user.*"),
        ],
    )
    assert [one.name for one in index.matching(EVENT.fields)] == ["a", "d", "e"]
    assert index.of_type("order.paid") is index.of_type("order.paid")
    assert [one.name for one in index.of_type("user.made")] == ["a", "b", "f"]


def test_the_index_remembers_a_bounded_number_of_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jqmaster.domain.events.index.MAX_TYPES", 2)
    index = EventIndex("1", [definition("a", "*")])
    for n in range(5):
        assert len(index.of_type(str(n))) == 1
        assert len(index._by_type) <= 2


@pytest.mark.parametrize("field", ["argument.a", "name", "payload[", "source.a"])
def test_matchers_of_events_read_only_events(field: str) -> None:
    with pytest.raises(MatcherError):
        parse_matcher({"field": field, "op": "exists"}, EVENT_FIELDS)


@pytest.mark.parametrize(
    ("make", "loc"),
    [
        (lambda: EventTrigger("a b"), ("event_type",)),
        (lambda: EventTrigger(""), ("event_type",)),
        (lambda: EventTrigger("x" * 201), ("event_type",)),
        (lambda: EventTrigger("*" + "?" * 33 + "*"), ("event_type",)),
        (lambda: Debounce(99), ("debounce", "wait_s")),
        (lambda: Debounce(1000, 900), ("debounce", "max_s")),
        (lambda: Debounce(1000, 25 * 3600 * 1000), ("debounce", "max_s")),
        (lambda: Collect(0, 1000), ("collect", "max")),
        (lambda: Collect(1001, 1000), ("collect", "max")),
        (lambda: Collect(1, 1), ("collect", "within_s")),
        (lambda: EventTrigger("a", debounce=Debounce(1000), collect=Collect(1, 1000)), ("collect",)),
        (lambda: parse_debounce({"wait_s": 1, "max_s": None, "key": "argument.a"}), ("debounce", "key")),
        (lambda: parse_collect({"max": 1, "within_s": 1, "key": "payload["}), ("collect", "key")),
    ],
)
def test_a_faulty_trigger_is_refused_at_its_place(make: Any, loc: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as refused:
        make()
    assert refused.value.loc == loc


def test_events_are_gathered_by_the_value_of_their_key() -> None:
    trigger = EventTrigger("*", collect=Collect(5, 1000, parse_path("payload.order.id", fields=EVENT_FIELDS)))
    same = EventTrigger("*", collect=Collect(5, 1000))
    slot = trigger.slot("d", EVENT.fields)
    assert slot == trigger.slot("d", EVENT.fields) != trigger.slot("d", Event(new_id(), "a", b"\xc0").fields)
    assert slot.startswith("d:collect:")
    assert same.slot("d", EVENT.fields) == "d:collect"
    assert EventTrigger("*", debounce=Debounce(1000)).slot("d", EVENT.fields) == "d:debounce"


def test_events_with_the_same_source_and_key_are_the_same() -> None:
    def digest(source: str, key: str) -> str:
        return Event(new_id(), "a", b"\xc0", key, source).dedupe_digest

    assert digest("", "") == ""
    assert digest("a", "b") == digest("a", "b")
    assert (
        len({digest("a", "b"), digest("", "ab"), digest("ab", ""), digest("a", "c"), digest("1\na", "b")})
        == 5
    )


def test_queue_is_for_instants() -> None:
    with pytest.raises(DefinitionError) as refused:
        Definition("a", "0" * 16, JobSpec("", "work", b"\xc0"), EventTrigger("a"), overlap=Overlap.QUEUE)
    assert refused.value.loc == ("overlap",)


def test_the_rules_of_gathering_are_read_and_refused_with_their_place() -> None:
    assert parse_debounce(None) is None
    assert parse_collect(None) is None
    debounce = parse_debounce({"wait_s": 0.5, "max_s": None, "key": "payload.order.id"})
    assert debounce == Debounce(500, None, parse_path("payload.order.id", (), EVENT_FIELDS))
    assert parse_debounce({"wait_s": 0.5, "max_s": 2, "key": None}) == Debounce(500, 2_000, None)
    with pytest.raises(DefinitionError) as refused:
        parse_collect({"max": 5, "within_s": 1, "key": "nonsense["})
    assert refused.value.loc[:2] == ("collect", "key")
