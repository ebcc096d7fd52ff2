import fnmatch
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.matching.checks import MatcherError
from jqmaster.domain.matching.fields import MISSING, JobFields
from jqmaster.domain.matching.glob import MAX_SEARCHED_WILDCARD_PART, compile_glob
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import Path, parse_path

pytestmark = pytest.mark.req("J13")


def job(argument: object = None, /, **fields: Any) -> JobFields:
    given: dict[str, Any] = {
        "name": "mail.send",
        "priority": 0,
        "tags": (),
        "max_retry": 5,
        "timeout_s": 30.0,
        "keep_result": False,
        "headers": {},
        "argument": b"",
        "decode": lambda _: argument,
    }
    return JobFields(**(given | fields))


def leaf(field: str, op: str, value: object) -> dict[str, object]:
    return {"field": field, "op": op, "value": value}


def holds(field: str, op: str, value: object, argument: object = None, **fields: Any) -> bool:
    return parse_matcher(leaf(field, op, value)).matches(job(argument, **fields))


# --- an oracle: the same meaning in other code


def same_kind(one: object, other: object) -> bool:
    def kind(value: object) -> str:
        if isinstance(value, bool):
            return "bool"
        return "number" if isinstance(value, int | float) else type(value).__name__

    return kind(one) == kind(other)


def look_up(field: str, fields: JobFields) -> list[Any]:
    """Return the value in a list, or an empty list if there is none."""
    root, _, rest = field.partition(".")
    if root == "headers":
        return [fields.headers[rest]] if rest in fields.headers else []
    if not field.startswith("argument"):
        return [fields.timeout_s if field == "timeout" else getattr(fields, field)]
    found = [fields.argument] if fields.argument is not MISSING else []
    steps = field.removeprefix("argument").replace("[", ".[").split(".")[1:]
    for step in steps:
        index = int(step[1:-1]) if step.startswith("[") else None
        if index is None:
            found = [one[step] for one in found if isinstance(one, dict) and step in one]
        else:
            found = [one[index] for one in found if isinstance(one, list) and index < len(one)]
    return found


def compare(op: str, one: Any, value: Any) -> bool:
    if op == "in":
        return any(compare("eq", one, other) for other in value)
    if not same_kind(one, value):
        return False
    if op == "glob":
        return fnmatch.fnmatchcase(one, value)
    return {
        "eq": lambda: one == value,
        "ne": lambda: one != value,
        "lt": lambda: one < value,
        "le": lambda: one <= value,
        "gt": lambda: one > value,
        "ge": lambda: one >= value,
    }[op]()


def oracle(document: Any, fields: JobFields) -> bool:
    match document:
        case {"all": members}:
            return not [member for member in members if not oracle(member, fields)]
        case {"any": members}:
            return bool([member for member in members if oracle(member, fields)])
        case {"not": member}:
            return not oracle(member, fields)
    field, op, value = document["field"], document["op"], document.get("value", True)
    if field == "tags":
        tags = list(fields.tags)
        if op == "exists":
            return (len(tags) > 0) == value
        if op == "ne":
            return isinstance(value, str) and value not in tags
        return any(compare(op, tag, value) for tag in tags)
    found = look_up(field, fields)
    if op == "exists":
        return (found != []) == value
    return any(compare(op, one, value) for one in found)


# --- few values, so that matchers and jobs meet

TEXTS = st.sampled_from(["", "a", "ab", "b", "mail.send", "mail.read", "[x]", "é", "a\nb"])
NUMBERS = st.sampled_from(
    [0, -1, 1, 1.0, 0.1, 5, 30, 30.5, 2**53, 2**53 + 1, float(2**53), 2**64 - 1, -(2**63), 1e300]
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS | st.sampled_from([b"", b"a", b"ab"])
GLOBS = st.sampled_from(["*", "a*", "*b", "mail.*", "?", "[a-b]", "[!a]*", "*.s*d", "[[]x]", "", "a?b"])
FIELDS = st.sampled_from(
    [
        "name",
        "name",
        "priority",
        "max_retry",
        "timeout",
        "keep_result",
        "tags",
        "headers.a",
        "argument",
        "argument.a",
        "argument.b",
        "argument.a.b",
        "argument.a[0]",
        "argument[1].b",
        "argument.a[0][1]",
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.just(math.nan),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=6,
)
JOBS = st.builds(
    job,
    VALUES,
    name=st.sampled_from(["mail.send", "mail.read", "a", "ab"]),
    priority=st.integers(-1, 1),
    tags=st.lists(TEXTS, max_size=2),
    max_retry=st.sampled_from([0, 5]),
    timeout_s=st.sampled_from([0.1, 30.0, 30.5]),
    keep_result=st.booleans(),
    headers=st.dictionaries(st.sampled_from("ab"), TEXTS, max_size=2),
)


@st.composite
def leaves(draw: st.DrawFn) -> dict[str, object]:
    field = draw(FIELDS)
    ops = ["eq", "ne", "in", "glob", "exists"] + (["lt", "le", "gt", "ge"] if field != "tags" else [])
    op = draw(st.sampled_from(ops))
    values: dict[str, st.SearchStrategy[Any]] = {
        "eq": SCALARS,
        "ne": SCALARS,
        "in": st.lists(SCALARS, min_size=1, max_size=4),
        "glob": GLOBS,
        "exists": st.booleans(),
    }
    return leaf(field, op, draw(values.get(op, NUMBERS | TEXTS)))


MATCHERS: st.SearchStrategy[Any] = st.recursive(
    leaves(),
    lambda inner: (
        st.builds(lambda members: {"all": members}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda members: {"any": members}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda member: {"not": member}, inner)
    ),
    max_leaves=5,
).filter(lambda document: depth(document) <= 5)


def depth(document: Any) -> int:
    members = document.get("all") or document.get("any") or ([document["not"]] if "not" in document else [])
    return 1 + max(map(depth, members), default=0)


@given(document=MATCHERS, fields=JOBS)
def test_a_matcher_means_what_the_oracle_says(document: Any, fields: JobFields) -> None:
    assert parse_matcher(document).matches(fields) is oracle(document, fields)


@given(document=MATCHERS, fields=JOBS)
def test_not_is_the_complement(document: Any, fields: JobFields) -> None:
    assert parse_matcher({"not": document}).matches(fields) is not parse_matcher(document).matches(fields)


@given(members=st.lists(MATCHERS, min_size=1, max_size=3), fields=JOBS)
def test_de_morgan(members: list[Any], fields: JobFields) -> None:
    def verdict(document: object) -> bool:
        return parse_matcher(document).matches(fields)

    negated = [{"not": member} for member in members]
    assert verdict({"not": {"all": members}}) is verdict({"any": negated})
    assert verdict({"not": {"any": members}}) is verdict({"all": negated})


@given(document=MATCHERS, fields=JOBS)
def test_a_decision_by_name_is_that_for_every_job_of_the_name(document: Any, fields: JobFields) -> None:
    matcher = parse_matcher(document)
    verdict = matcher.given_name(fields.name)
    assert verdict in (None, matcher.matches(fields))
    decides = matcher.for_name(fields.name)
    assert (decides if isinstance(decides, bool) else decides(fields)) is matcher.matches(fields)
    if matcher.reads == {"name"}:
        assert verdict is not None


@given(document=MATCHERS)
def test_a_document_is_read_back_as_it_was(document: Any) -> None:
    matcher = parse_matcher(document)
    again = parse_matcher(matcher.document)
    assert again == matcher
    assert hash(again) == hash(matcher)
    assert repr(again.document) == repr(matcher.document) == repr(document)


@given(document=MATCHERS, fields=JOBS)
def test_the_argument_is_decoded_once_and_only_when_it_is_read(document: Any, fields: JobFields) -> None:
    calls: list[bytes] = []
    argument = fields.argument

    def decode(data: bytes) -> object:
        calls.append(data)
        return argument

    matcher = parse_matcher(document)
    one = job(argument=b"packed", decode=decode, name=fields.name, tags=fields.tags, headers=fields.headers)
    matcher.matches(one)
    matcher.matches(one)
    assert calls in ([], [b"packed"])
    assert "argument" in matcher.reads or not calls


def test_one_member_that_decides_spares_the_others() -> None:
    fails = leaf("argument.a", "eq", 1)
    matcher = parse_matcher({"all": [leaf("name", "eq", "other"), fails]})
    calls: list[bytes] = []
    assert not matcher.matches(job(argument=b"", decode=calls.append))
    assert calls == []
    assert matcher.given_name("mail.send") is False
    assert matcher.given_name("other") is None
    assert parse_matcher({"any": [fails, leaf("name", "glob", "mail.*")]}).given_name("mail.send") is True
    assert parse_matcher({"not": leaf("name", "eq", "a")}).given_name("a") is False
    assert matcher.reads == {"name", "argument"}


def raises(_: bytes) -> object:
    raise RuntimeError("not decodable")


def test_an_argument_that_cannot_be_decoded_is_missing() -> None:
    assert not holds("argument", "exists", True, decode=raises)
    assert holds("argument", "exists", False, decode=raises)
    assert not holds("argument.a", "ne", 1, decode=raises)


@pytest.mark.parametrize(
    ("op", "value", "found", "expected"),
    [
        ("eq", 1, 1.0, True),
        ("eq", 1, True, False),
        ("eq", True, 1, False),
        ("eq", True, True, True),
        ("eq", 2**53 + 1, float(2**53), False),
        ("lt", 2**53 + 1, float(2**53), True),
        ("eq", 2**53, float(2**53), True),
        ("eq", None, None, True),
        ("eq", None, 0, False),
        ("ne", None, 0, False),
        ("eq", "a", b"a", False),
        ("eq", b"a", b"a", True),
        ("ne", b"a", "a", False),
        ("ne", "a", "b", True),
        ("ne", "a", 1, False),
        ("ne", 1, True, False),
        ("ne", 1, 2.5, True),
        ("ne", 1, [1], False),
        ("in", [1, "a", None], None, True),
        ("in", [1, "a"], True, False),
        ("in", [True, "a"], 1, False),
        ("in", [1], 1.0, True),
        ("in", ["a"], ["a"], False),
        ("gt", 0, True, False),
        ("gt", 0, math.inf, True),
        ("ge", 0, math.nan, False),
        ("ge", "b", "a", False),
        ("ge", "b", "ba", True),
        ("ge", "1", 2, False),
        ("glob", "*", "", True),
        ("glob", "*", 1, False),
        ("glob", "*", b"a", False),
        ("glob", "A*", "ab", False),
        ("glob", "ab*ba", "aba", False),
        ("exists", True, None, True),
    ],
)
def test_values_compare_within_their_kind(op: str, value: object, found: object, expected: bool) -> None:
    assert holds("argument.a", op, value, {"a": found}) is expected


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge", "glob"])
@pytest.mark.parametrize("argument", [None, {}, {"a": 1}, {"a": {}}, {b"a": {"b": "x"}}, [{"b": "x"}], "x"])
def test_a_missing_path_matches_nothing(op: str, argument: object) -> None:
    assert not holds("argument.a.b", op, "x", argument)
    assert holds("argument.a.b", "exists", False, argument)
    assert not parse_matcher({"field": "argument.a.b", "op": "exists"}).matches(job(argument))


@pytest.mark.parametrize(
    ("op", "value", "tags", "expected"),
    [
        ("eq", "a", ["b", "a"], True),
        ("eq", "a", [], False),
        ("ne", "a", ["b", "a"], False),
        ("ne", "a", ["b"], True),
        ("ne", "a", [], True),
        ("ne", 1, ["b"], False),
        ("ne", None, [], False),
        ("in", ["x", "b"], ["b", "a"], True),
        ("in", ["x"], ["b", "a"], False),
        ("glob", "b*", ["a", "bc"], True),
        ("exists", True, [], False),
        ("exists", False, [], True),
        ("exists", True, ["a"], True),
    ],
)
def test_tags_match_when_any_does(op: str, value: object, tags: list[str], expected: bool) -> None:
    assert holds("tags", op, value, tags=tags) is expected


def test_fields_of_the_job_are_read() -> None:
    one = job(
        {"rows": [{"host": "h"}], "a.b": {"": 7}},
        priority=-3,
        max_retry=0,
        timeout_s=0.1,
        keep_result=True,
        headers={"x.id": "1"},
    )
    for field, value in [
        ("name", "mail.send"),
        ("priority", -3),
        ("max_retry", 0),
        ("timeout", 0.1),
        ("keep_result", True),
        ('headers["x.id"]', "1"),
        ("argument.rows[0].host", "h"),
        ('argument["a.b"][""]', 7),
    ]:
        assert parse_matcher(leaf(field, "eq", value)).matches(one), field
    assert not parse_matcher(leaf("argument.rows[1].host", "exists", True)).matches(one)


# --- paths


@given(parts=st.lists(st.text(max_size=8) | st.integers(0, 10**9 - 1), max_size=16))
def test_any_path_has_one_spelling(parts: list[str | int]) -> None:
    path = Path("argument", tuple(parts))
    assert parse_path(str(path)) == path


def test_quotes_that_are_not_needed_go() -> None:
    assert str(parse_path('argument["host"]["a.b"][007]')) == 'argument.host["a.b"][7]'
    assert parse_matcher(leaf('argument["a"]', "eq", 1)) == parse_matcher(leaf("argument.a", "eq", 1))


@pytest.mark.parametrize(
    ("text", "msg"),
    [
        (5, "must be text"),
        ("", "unknown field ''"),
        ("arguments", "unknown field 'arguments'"),
        ("state", "unknown field 'state'"),
        ("argument.", "not a path from character 9"),
        ("argument..a", "not a path from character 9"),
        ("argument.a[", "not a path from character 11"),
        ("argument[-1]", "negative"),
        ("argument[1.5]", "not a path"),
        ("argument[١]", "not a path"),
        ("argument[9999999999]", "not a path"),
        ("argument[a]", "not a path"),
        ("argument.a b", "not a path from character 11"),
        ('argument["a]', "not a path"),
        ('argument["\\x"]', "not a JSON string"),
        ('argument["\\ud800"]', "not Unicode text"),
        ("name.a", "name has no parts"),
        ("tags[0]", "tags has no parts"),
        ("headers", "must have one key"),
        ("headers.a.b", "must have one key"),
        ("headers[0]", "must have one key"),
        ("argument" + ".a" * 17, "more than 16 segments"),
        ("argument." + "a" * 1024, "longer than 1024"),
    ],
)
def test_a_path_that_is_none_is_refused(text: object, msg: str) -> None:
    with pytest.raises(MatcherError) as refused:
        parse_matcher({"not": {"field": text, "op": "exists"}})
    assert refused.value.loc == ("not", "field")
    assert msg in refused.value.msg
    assert str(refused.value) == f"not.field: {refused.value.msg}"


# --- what is refused

NAME = leaf("name", "eq", "a")


def nested(levels: int) -> object:
    document: object = NAME
    for _ in range(levels - 1):
        document = {"not": document}
    return document


@pytest.mark.parametrize(
    ("document", "loc", "msg"),
    [
        ({}, (), "an empty matcher"),
        (None, (), "must be a map"),
        ([], (), "must be a map"),
        ({"all": []}, ("all",), "an empty matcher"),
        ({"any": []}, ("any",), "an empty matcher"),
        ({"not": {}}, ("not",), "an empty matcher"),
        ({"all": [NAME, {}]}, ("all", 1), "an empty matcher"),
        ({"all": NAME}, ("all",), "must be a list"),
        ({"any": "name"}, ("any",), "must be a list"),
        ({"all": [NAME], "any": [NAME]}, (), "one of all and any"),
        ({"not": NAME, "field": "name"}, (), "one of not and field"),
        ({"all": [NAME], "op": "eq"}, ("op",), "unknown key"),
        ({"none": [NAME]}, ("none",), "unknown key"),
        (NAME | {"values": 1}, ("values",), "unknown key"),
        (NAME | {b"x": 1}, ("b'x'",), "unknown key"),
        ({"x" * 1000: 1}, ("x" * 64,), "unknown key"),
        ({"op": "eq", "value": 1}, ("field",), "required"),
        ({"field": "name", "value": 1}, ("op",), "required"),
        ({"field": "name", "op": "eq"}, ("value",), "eq requires a value"),
        ({"field": "name", "op": "glob"}, ("value",), "glob requires a value"),
        (leaf("name", "regex", "a"), ("op",), "unknown op"),
        (leaf("name", 5, "a"), ("op",), "unknown op"),  # type: ignore[arg-type]
        (leaf("name", ["eq"], "a"), ("op",), "unknown op"),  # type: ignore[arg-type]
        (leaf("tags", "lt", "a"), ("op",), "tags support"),
        (leaf("name", "eq", ["a"]), ("value",), "must be null, a boolean"),
        (leaf("name", "ne", {}), ("value",), "must be null, a boolean"),
        (leaf("name", "in", "abc"), ("value",), "requires a list"),
        (leaf("name", "in", []), ("value",), "1 to 1000"),
        (leaf("name", "in", ["a"] * 1001), ("value",), "1 to 1000"),
        (leaf("name", "in", ["a", ["b"]]), ("value", 1), "must be null, a boolean"),
        (leaf("name", "in", [math.nan]), ("value", 0), "not a finite number"),
        (leaf("priority", "eq", math.nan), ("value",), "not a finite number"),
        (leaf("priority", "lt", math.inf), ("value",), "not a finite number"),
        (leaf("priority", "lt", 2**64), ("value",), "64 bits"),
        (leaf("priority", "eq", -(2**63) - 1), ("value",), "64 bits"),
        (leaf("priority", "lt", True), ("value",), "number or text"),
        (leaf("priority", "ge", None), ("value",), "number or text"),
        (leaf("priority", "ge", b"a"), ("value",), "number or text"),
        (leaf("name", "glob", 1), ("value",), "glob requires text"),
        (leaf("name", "glob", "*" + "?" * 33 + "*"), ("value",), "between two"),
        (leaf("name", "exists", 1), ("value",), "true or false"),
        (leaf("tags", "exists", None), ("value",), "true or false"),
        (leaf("name", "eq", "a" * 1025), ("value",), "longer than 1024"),
        (leaf("name", "glob", "a" * 1025), ("value",), "longer than 1024"),
        (leaf("name", "eq", b"a" * 1025), ("value",), "longer than 1024"),
        (leaf("name", "eq", "\ud800"), ("value",), "not Unicode"),
        (nested(9), ("not",) * 8, "nested deeper than 8"),
        ({"all": [NAME] * 100}, ("all", 99), "more than 100"),
        ({"any": [{"all": [NAME] * 50}] * 2}, ("any", 1, "all", 47), "more than 100"),
    ],
)  # fmt: skip
def test_the_refused_part_and_the_rule_are_named(
    document: object, loc: tuple[str | int, ...], msg: str
) -> None:
    with pytest.raises(MatcherError) as refused:
        parse_matcher(document)
    assert refused.value.loc == loc
    assert msg in refused.value.msg


@pytest.mark.parametrize(
    "document",
    [
        nested(8),
        {"all": [NAME] * 99},
        leaf("argument" + "[0]" * 16, "exists", False),
        leaf("name", "in", [str(i) for i in range(1000)]),
        leaf("name", "eq", "é" * 1024),
        leaf("priority", "in", [2**64 - 1, -(2**63)]),
    ],
)
def test_the_bounds_themselves_are_allowed(document: object) -> None:
    parse_matcher(document).matches(job())


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["all", "any", "not", "field", "op", "value"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)  # fmt: skip


@given(document=JSON)
def test_nothing_but_a_refusal_comes_of_nonsense(document: Any) -> None:
    try:
        matcher = parse_matcher(document)
    except MatcherError:
        return
    assert json.dumps(matcher.document)


# --- glob


@given(
    pattern=st.text("ab*?[]!-^\\\n.", max_size=12),
    value=st.text("ab[]!-^*\\\n.", max_size=12),
)
def test_a_glob_is_that_of_fnmatch(pattern: str, value: str) -> None:
    assert compile_glob(pattern)(value) is fnmatch.fnmatchcase(value, pattern)


@given(data=st.data(), pattern=st.text("ab*?", max_size=12))
def test_a_glob_finds_what_it_was_made_from(data: st.DataObject, pattern: str) -> None:
    value = "".join(
        data.draw({"*": st.text("ab", max_size=3), "?": st.sampled_from("ab")}.get(char, st.just(char)))
        for char in pattern
    )
    assert compile_glob(pattern)(value)


class CountedText(str):
    """Text that counts how often it is searched."""

    looks = 0

    def find(self, *args: Any) -> int:
        self.looks += 1
        return super().find(*args)


def test_no_star_is_tried_twice() -> None:
    """A search that returns to a star would look about 3^20 times."""
    fits = compile_glob("*a" * 20 + "*c*b")
    value = CountedText("a" * 60 + "b")
    assert not fits(value)
    assert value.looks == 21


def test_a_searched_part_with_wildcards_is_bounded() -> None:
    part = "?" * (MAX_SEARCHED_WILDCARD_PART - 1) + "[a*]"
    assert compile_glob(f"*{part}*")("a" * 32)
    assert not compile_glob(f"*{part}*")("a" * 31)
    with pytest.raises(ValueError, match="at most 32"):
        compile_glob(f"*{part}?*")
    assert compile_glob("?" * 1000 + "*")("b" * 1000)
    assert compile_glob("*" + "b" * 1000 + "*")("a" + "b" * 1000)
