"""A task's schema accepts what the task accepts, as judged by a master and by the worker's codec."""

import datetime as dt
import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgpack
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jqmaster.service.workers.schemas import ArgumentSchema, as_json
from worker_sdk import InvalidArgument, Tasks
from worker_sdk.tasks.contract import contract_of
from worker_sdk.wire import encode

pytestmark = pytest.mark.req("J18", "S8")


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(msgspec.Struct, tag="cat"):
    lives: int = 9


class Dog(msgspec.Struct, tag="dog", forbid_unknown_fields=True):
    name: str


class Point(msgspec.Struct, array_like=True):
    x: int
    y: int = 0


class Range(NamedTuple):
    low: int
    high: int = 10


class Patch(TypedDict, total=False):
    title: str
    stars: int


@dataclass
class Node:
    label: str
    at: dt.datetime | None = None
    children: "list[Node]" = field(default_factory=list)


class Person(pydantic.BaseModel):
    name: str
    born: dt.date | None = None
    balance: Decimal = Decimal(0)
    keys: set[int] = set()
    photo: Annotated[bytes, pydantic.Field(max_length=8)] = b""
    pause: dt.timedelta = dt.timedelta()
    friends: "list[Person]" = []


AWARE = st.datetimes(
    timezones=st.just(dt.UTC), min_value=dt.datetime(1970, 1, 2), max_value=dt.datetime(9000, 1, 1)
)
INTEGERS = st.integers(-(2**63), 2**64 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NODES = st.recursive(
    st.builds(Node, TEXTS, st.none() | AWARE, st.just([])),
    lambda inner: st.builds(Node, TEXTS, st.none(), st.lists(inner, max_size=2)),
    max_leaves=4,
)
PEOPLE = st.builds(
    Person, name=TEXTS, born=st.none() | st.dates(),
    balance=st.decimals(allow_nan=False, allow_infinity=False, places=2),
    keys=st.sets(INTEGERS, max_size=3), photo=st.binary(max_size=8),
    pause=st.timedeltas(dt.timedelta(), dt.timedelta(days=9)), friends=st.just([]),
)  # fmt: skip

BY_MSGSPEC: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (None, st.none()),
    (bool, st.booleans()),
    (int, INTEGERS),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, TEXTS),
    (bytes, st.binary(max_size=8)),
    (Annotated[bytes, msgspec.Meta(max_length=3)], st.binary(max_size=3)),
    (Annotated[int, msgspec.Meta(ge=0, lt=10)], st.integers(0, 9)),
    (Annotated[str, msgspec.Meta(min_length=2, pattern="^[a-z]+$")], st.text("abc", min_size=2)),
    (Annotated[str, msgspec.Meta(pattern="^(?!x)")], st.text("abc")),
    (dt.datetime, AWARE),
    (Annotated[dt.datetime, msgspec.Meta(tz=True)], AWARE),
    (dt.date, st.dates()),
    (dt.time, st.times()),
    (Annotated[dt.time, msgspec.Meta(tz=False)], st.times()),
    (dt.timedelta, st.timedeltas(dt.timedelta(), dt.timedelta(days=9))),
    (uuid.UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Size, st.sampled_from(Size)),
    (Colour, st.sampled_from(Colour)),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (int | str | None, INTEGERS | TEXTS | st.none()),
    (list[int], st.lists(INTEGERS, max_size=3)),
    (set[str], st.sets(TEXTS, max_size=3)),
    (tuple[int, str], st.tuples(INTEGERS, TEXTS)),
    (tuple[float, ...], st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3).map(tuple)),
    (dict[str, int], st.dictionaries(TEXTS, INTEGERS, max_size=3)),
    (dict[int, str], st.dictionaries(INTEGERS, TEXTS, max_size=3)),
    (dict[uuid.UUID, int], st.dictionaries(st.uuids(), INTEGERS, max_size=2)),
    (dict[Colour, int], st.dictionaries(st.sampled_from(Colour), INTEGERS)),
    (Node, NODES),
    (Patch, st.fixed_dictionaries({}, optional={"title": TEXTS, "stars": INTEGERS})),
    (Point, st.builds(Point, INTEGERS, INTEGERS)),
    (Range, st.builds(Range, INTEGERS, INTEGERS)),
    (Cat, st.builds(Cat, INTEGERS)),
    (Cat | Dog, st.builds(Cat, INTEGERS) | st.builds(Dog, TEXTS)),
    (list[Node | None], st.lists(st.none() | NODES, max_size=2)),
    (Any, st.none() | INTEGERS | TEXTS | AWARE | st.binary(max_size=3)),
]  # fmt: skip
BY_PYDANTIC: list[tuple[Any, st.SearchStrategy[Any], Any]] = [
    (Person, PEOPLE, "text"),
    (list[Person], st.lists(PEOPLE, max_size=2), [5]),
    (dict[str, Person | None], st.dictionaries(TEXTS, st.none() | PEOPLE, max_size=2), {"x": []}),
    (Annotated[int, pydantic.Field(gt=0)], st.integers(1, 99), []),
    (pydantic.HttpUrl, st.just(pydantic.HttpUrl("https://a.example/ü?x=1")), 5),
]

# Values of jobs pushed as JSON. A schema does not distinguish 1 from 1.0.
FORMATTED = st.one_of(
    st.dates().map(str),
    AWARE.map(dt.datetime.isoformat),
    st.datetimes().map(dt.datetime.isoformat),
    st.times().map(str),
    st.uuids().map(str),
    st.sampled_from(
        ["AP8=", "AP8", "PT5S", "1.5", "abc", "red", "a", "P1D", "10:00:00+02:00", "-0", "01", "xy"]
    ),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-12, 12)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: not value.is_integer())
    | TEXTS
    | FORMATTED
)
NAMES = TEXTS | st.sampled_from(
    ["title", "stars", "label", "at", "children", "type", "name", "lives", "red", "1", "-0", "01"]
)
JSON = st.recursive(
    LEAVES
    | st.sampled_from([{"type": "cat"}, {"type": "dog", "name": "Rex"}, {"label": "x", "children": []}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


class Both:
    """Return the codec of a task with one parameter of the type, and its schema as a master reads it."""

    def __init__(self, kind: Any, **default: Any) -> None:
        def function(value: Any) -> None: ...

        function.__annotations__["value"] = kind
        function.__defaults__ = tuple(default.values()) or None
        self.task = Tasks().task("work")(function)
        self.schema: Mapping[str, Any] = contract_of(self.task)["argument_schema"]
        self._judge = ArgumentSchema(self.schema)

    def fits(self, argument: Any) -> bool:
        return not self._judge.misfits(as_json(encode(argument)))

    def is_decoded(self, argument: Any) -> bool:
        try:
            self.task.codec.decode_arguments(
                msgpack.unpackb(encode(argument), timestamp=3, strict_map_key=False)
            )
        except InvalidArgument:
            return False
        return True


MSGSPEC = [Both(kind) for kind, _ in BY_MSGSPEC]
PYDANTIC = [Both(kind) for kind, _, _ in BY_PYDANTIC]


@settings(deadline=None)
@given(st.data())
def test_values_that_the_codec_encodes_fit(data: st.DataObject) -> None:
    for both, (kind, values) in zip(
        MSGSPEC + PYDANTIC, BY_MSGSPEC + [one[:2] for one in BY_PYDANTIC], strict=True
    ):
        value = data.draw(values)
        argument = both.task.codec.encode_arguments({"value": value})
        assert both.fits(argument), (kind, value)
        assert both.is_decoded(argument), (kind, value)


@settings(deadline=None)
@given(JSON)
def test_both_accept_the_same_json(value: Any) -> None:
    for both, (kind, _) in zip(MSGSPEC, BY_MSGSPEC, strict=True):
        # The schema omits patterns that masters cannot match.
        if "(?!x)" not in str(kind):
            assert both.fits({"value": value}) == both.is_decoded({"value": value}), (kind, both.schema)


@pytest.mark.parametrize(("both", "case"), list(zip(PYDANTIC, BY_PYDANTIC, strict=True)))
def test_both_refuse_values_of_a_wrong_type(both: Both, case: tuple[Any, Any, Any]) -> None:
    argument = {"value": case[2]}
    assert not both.fits(argument)
    assert not both.is_decoded(argument)


@pytest.mark.parametrize(
    ("default", "argument"),
    [({}, {}), ({}, None), ({}, {"value": 1, "more": 1}), ({}, 5), ({"value": 1}, None), ({"value": 1}, {}),
     ({"value": 1}, [])],
)  # fmt: skip
def test_parameters_are_required_optional_or_unknown_for_both(default: dict[str, int], argument: Any) -> None:
    both = Both(int, **default)
    assert (
        both.fits(argument) == both.is_decoded(argument) == (bool(default) and not isinstance(argument, list))
    )
