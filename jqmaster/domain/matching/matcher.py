"""Matchers: conditions that select jobs or events. They are parsed once, compiled to closures, and evaluated for each
job."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jqmaster.domain.matching.checks import Loc, MatcherError
from jqmaster.domain.matching.fields import FIELDS, JobFields
from jqmaster.domain.matching.paths import parse_path
from jqmaster.domain.matching.value_tests import tags_test, value_test

MAX_DEPTH: Final = 8
MAX_NODES: Final = 100

OPS: Final = ("eq", "ne", "in", "lt", "le", "gt", "ge", "glob", "exists")
Matches = Callable[[JobFields], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Matcher:
    """A parsed matcher. Two matchers are equal if their documents are equal and in the same order.

    A path that leads nowhere matches nothing, not even with `ne`. The same holds for a value of another type. To match
    a missing path, use `exists` with false.

    Numbers compare exactly. A boolean is not a number, and binary is not text. `tags` match if any tag does. With `ne`,
    they match if no tag is equal.
    """

    # The document of the matcher, with fields in canonical spelling and an explicit value for `exists`.
    document: dict[str, object]
    # The fields that the matcher reads.
    reads: frozenset[str]
    matches: Matches
    # For a name, returns either the verdict for all its jobs, or a function that decides for each job.
    for_name: Callable[[str], bool | Matches]

    def given_name(self, name: str) -> bool | None:
        """Return the verdict for all jobs of that name, or None if it depends on other fields."""
        verdict = self.for_name(name)
        return verdict if isinstance(verdict, bool) else None

    def __eq__(self, other: object) -> bool:
        # Compare the texts of the documents, because Python treats 1 and True as equal.
        return isinstance(other, Matcher) and repr(self.document) == repr(other.document)

    def __hash__(self) -> int:
        return hash(repr(self.document))


def parse_matcher(document: object, fields: Sequence[str] = FIELDS) -> Matcher:
    """Parse a decoded document: `{all: […]} | {any: […]} | {not: …} | {field, op, value}`. `fields`: the fields that it
    may read. Raise MatcherError."""
    node = _MatcherParser(fields).node(document, (), 1)
    return Matcher(node.document, node.reads, node.matches, node.for_name)


class _Node(NamedTuple):
    document: dict[str, object]
    reads: frozenset[str]
    matches: Matches
    for_name: Callable[[str], bool | Matches]


class _MatcherParser:
    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = fields
        self._nodes = 0

    def node(self, document: object, loc: Loc, depth: int) -> _Node:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise MatcherError(loc, f"more than {MAX_NODES} conditions")
        if depth > MAX_DEPTH:
            raise MatcherError(loc, f"nested deeper than {MAX_DEPTH}")
        if not isinstance(document, dict):
            raise MatcherError(loc, "must be a map with all, any or not, or with field, op and value")
        if not document:
            raise MatcherError(loc, "an empty matcher")
        kinds = [kind for kind in ("all", "any", "not", "field") if kind in document]
        if len(kinds) > 1:
            raise MatcherError(loc, f"must have only one of {' and '.join(kinds)}")
        kind = kinds[0] if kinds else "field"
        known = {"field", "op", "value"} if kind == "field" else {kind}
        for key in document:
            if key not in known:
                raise MatcherError((*loc, (key if isinstance(key, str) else repr(key))[:64]), "unknown key")
        if kind == "field":
            return _leaf(document, loc, self._fields)
        if kind == "not":
            return _negated(self.node(document["not"], (*loc, "not"), depth + 1))
        members = document[kind]
        if not isinstance(members, list | tuple):
            raise MatcherError((*loc, kind), "must be a list of matchers")
        if not members:
            raise MatcherError((*loc, kind), "an empty matcher")
        nodes = [self.node(member, (*loc, kind, i), depth + 1) for i, member in enumerate(members)]
        return _joined(kind, nodes)


def _negated(node: _Node) -> _Node:
    def for_name(name: str) -> bool | Matches:
        verdict = node.for_name(name)
        return not verdict if isinstance(verdict, bool) else _not(verdict)

    return _Node({"not": node.document}, node.reads, _not(node.matches), for_name)


def _not(matches: Matches) -> Matches:
    return lambda fields: not matches(fields)


def _joined(kind: str, nodes: list[_Node]) -> _Node:
    """Join the verdicts of `nodes`. The first one that decides ends the search."""
    decisive = kind == "any"
    join = _any if decisive else _all

    def for_name(name: str) -> bool | Matches:
        verdicts = [node.for_name(name) for node in nodes]
        if decisive in verdicts:
            return decisive
        open_ones = tuple(verdict for verdict in verdicts if not isinstance(verdict, bool))
        return join(open_ones) if open_ones else not decisive

    return _Node(
        {kind: [node.document for node in nodes]},
        frozenset[str]().union(*(node.reads for node in nodes)),
        join(tuple(node.matches for node in nodes)),
        for_name,
    )


def _all(members: tuple[Matches, ...]) -> Matches:
    if len(members) == 1:
        return members[0]

    def match_all(fields: JobFields) -> bool:
        for matches in members:  # noqa: SIM110  # a generator takes twice the time
            if not matches(fields):
                return False
        return True

    return match_all


def _any(members: tuple[Matches, ...]) -> Matches:
    if len(members) == 1:
        return members[0]

    def match_any(fields: JobFields) -> bool:
        for matches in members:  # noqa: SIM110
            if matches(fields):
                return True
        return False

    return match_any


def _leaf(document: dict[str, object], loc: Loc, fields: Sequence[str]) -> _Node:
    for key in ("field", "op"):
        if key not in document:
            raise MatcherError((*loc, key), "required")
    path = parse_path(document["field"], (*loc, "field"), fields)
    op = document["op"]
    if not isinstance(op, str) or op not in OPS:
        raise MatcherError((*loc, "op"), f"unknown op; expected one of {', '.join(OPS)}")
    at: Loc = (*loc, "value")
    if "value" not in document and op != "exists":
        raise MatcherError(at, f"{op} requires a value")
    value = document.get("value", True)
    read = path.reader()
    test = tags_test(op, value, at, (*loc, "op")) if path.root == "tags" else value_test(op, value, at)

    def matches(fields: JobFields) -> bool:
        return test(read(fields))

    for_name: Callable[[str], bool | Matches] = test if path.root == "name" else lambda _name: matches
    return _Node(
        {"field": str(path), "op": op, "value": list(value) if isinstance(value, list | tuple) else value},
        frozenset((path.root,)),
        matches,
        for_name,
    )
