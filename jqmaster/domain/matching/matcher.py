"""A JobMatcher: which jobs a condition selects. Parsed once, compiled to closures, evaluated for each job."""

import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jqmaster.domain.matching.glob import compile_glob

MAX_DEPTH: Final = 8
MAX_NODES: Final = 100
MAX_IN_VALUES: Final = 1000
MAX_TEXT: Final = 1024
MAX_PATH_SEGMENTS: Final = 16

FIELDS: Final = ("name", "priority", "tags", "max_retry", "timeout", "keep_result", "headers", "argument")
# The fields of an event that matchers and keys of definitions may read.
EVENT_FIELDS: Final = ("event_type", "source", "subject", "payload")
# The fields whose values have parts.
_NESTED: Final = frozenset({"argument", "payload"})
OPS: Final = ("eq", "ne", "in", "lt", "le", "gt", "ge", "glob", "exists")

Loc = tuple[str | int, ...]


class _Missing:
    pass


# The result of a path that does not exist. null is a value; this is not.
MISSING: Final = _Missing()
_UNREAD: Final = _Missing()


class MatcherError(ValueError):
    """A matcher or path that is refused: `loc` leads to the part of the document, `msg` names the rule."""

    def __init__(self, loc: Loc, msg: str) -> None:
        super().__init__(f"{'.'.join(map(str, loc))}: {msg}" if loc else msg)
        self.loc = loc
        self.msg = msg


class JobFields:
    """The fields of a job that matchers and keys may read.

    `decode` makes values of the packed argument: None, bool, int, float, str, bytes, list and dict. It is called when
    a field of the argument is first read, and once; whatever it raises, the argument is then as if there were none.
    `queue`: see `Lane`; no matcher reads it.
    """

    __slots__ = (
        "_argument",
        "_decode",
        "_packed",
        "headers",
        "keep_result",
        "max_retry",
        "name",
        "priority",
        "queue",
        "tags",
        "timeout_s",
    )

    def __init__(
        self,
        *,
        name: str,
        priority: int,
        tags: Sequence[str],
        max_retry: int,
        timeout_s: float,
        keep_result: bool,
        headers: Mapping[str, str],
        argument: bytes,
        decode: Callable[[bytes], object],
        queue: str = "",
    ) -> None:
        self.name = name
        self.queue = queue or name
        self.priority = priority
        self.tags = tags
        self.max_retry = max_retry
        self.timeout_s = timeout_s
        self.keep_result = keep_result
        self.headers = headers
        self._packed = argument
        self._decode = decode
        self._argument: object = _UNREAD

    @property
    def argument(self) -> object:
        """Return the decoded argument; MISSING where it cannot be decoded."""
        value = self._argument
        if value is _UNREAD:
            try:
                value = self._decode(self._packed)
            except Exception:  # of whichever decoder; one odd argument must not refuse the push it is in
                value = MISSING
            self._argument = value
        return value


class EventFields(JobFields):
    """The fields of an event, in the place of those of a job. The payload is read as an argument is."""

    __slots__ = ("event_id", "event_type", "occurred_at", "source", "subject")

    def __init__(
        self,
        *,
        event_id: str,
        event_type: str,
        source: str,
        subject: str,
        occurred_at: str | None,
        payload: bytes,
        decode: Callable[[bytes], object],
    ) -> None:
        super().__init__(
            name="", priority=0, tags=(), max_retry=0, timeout_s=0.0, keep_result=False, headers={}, argument=payload,
            decode=decode,
        )  # fmt: skip
        self.event_id = event_id
        self.event_type = event_type
        self.source = source
        self.subject = subject
        self.occurred_at = occurred_at


Reader = Callable[[JobFields], object]
Matches = Callable[[JobFields], bool]

_ROOT: Final = re.compile(r"[A-Za-z0-9_]*")
_PLAIN: Final = re.compile(r'[^.\[\]"\\\s]+')
_STEP: Final = re.compile(
    rf'\.(?P<plain>{_PLAIN.pattern})|\[(?P<index>[0-9]{{1,9}})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Path:
    """The place of a value: a field of the job and, for headers and the argument, the steps below it."""

    root: str
    parts: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        """Return the one spelling of this path: quotes only where they are needed."""
        return self.root + "".join(map(_spelled, self.parts))

    def reader(self) -> Reader:
        """Return a function that reads the value, or MISSING if there is none."""
        if self.root == "headers":
            return _header_reader(str(self.parts[0]))
        if self.root in _NESTED and self.parts:
            return _argument_reader(self.parts)
        if self.root == "payload":
            return operator.attrgetter("argument")
        return operator.attrgetter("timeout_s" if self.root == "timeout" else self.root)


def parse_path(text: object, loc: Loc = (), fields: Sequence[str] = FIELDS) -> Path:
    """`name`, `headers.KEY`, `argument.a[0]["a.b"]`. Quoted keys are JSON strings. `fields`: those that paths may begin
    with. Raise MatcherError."""
    if not isinstance(text, str):
        raise MatcherError(loc, f"must be text, such as {fields[0]} or {fields[-1]}.host")
    if len(text) > MAX_TEXT:
        raise MatcherError(loc, f"longer than {MAX_TEXT} characters")
    root = _ROOT.match(text)[0]  # type: ignore[index]  # matches the empty text too
    if root not in fields:
        raise MatcherError(loc, f"unknown field {root[:64]!r}; expected one of {', '.join(fields)}")
    at, parts = len(root), list[str | int]()
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            if text.startswith("[-", at):
                raise MatcherError(loc, "an index must not be negative")
            raise MatcherError(loc, f'not a path from character {at + 1} on; it has .key, [0] or ["any key"]')
        parts.append(_part(step, loc))
        at = step.end()
    if len(parts) > MAX_PATH_SEGMENTS:
        raise MatcherError(loc, f"more than {MAX_PATH_SEGMENTS} segments")
    if root == "headers":
        if len(parts) != 1 or not isinstance(parts[0], str):
            raise MatcherError(loc, "headers must have one key: headers.KEY")
    elif root not in _NESTED and parts:
        raise MatcherError(loc, f"{root} has no parts")
    return Path(root, tuple(parts))


def _part(step: re.Match[str], loc: Loc) -> str | int:
    if step["index"] is not None:
        return int(step["index"])
    if step["plain"] is not None:
        part: str = step["plain"]
    else:
        try:
            part = json.loads(step["quoted"], strict=False)
        except ValueError:
            raise MatcherError(loc, "a quoted key is not a JSON string") from None
    _check_text(part, loc)
    return part


def _spelled(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _PLAIN.fullmatch(part) else f"[{json.dumps(part, ensure_ascii=False)}]"


def _header_reader(key: str) -> Reader:
    return lambda fields: fields.headers.get(key, MISSING)


def _argument_reader(parts: tuple[str | int, ...]) -> Reader:
    first, *others = parts
    if not others and isinstance(first, str):

        def read_member(fields: JobFields) -> object:
            value = fields.argument
            return value.get(first, MISSING) if type(value) is dict else MISSING

        return read_member

    def read(fields: JobFields) -> object:
        value = fields.argument
        for part in parts:
            if type(part) is str:
                if type(value) is not dict:
                    return MISSING
                value = value.get(part, MISSING)
            # The parser made the others integers from 0 on.
            elif type(value) is list and part < len(value):  # type: ignore[operator]
                value = value[part]  # type: ignore[index]
            else:
                return MISSING
        return value

    return read


@dataclass(frozen=True, slots=True, eq=False)
class Matcher:
    """A parsed matcher. Two are equal when their documents say the same in the same order.

    A path that leads nowhere and a value of another type match nothing, not even `ne`; `exists` with false is how to
    ask for a missing path. Numbers compare exactly; a boolean is not a number, and binary is not text. `tags` match
    when any tag does, `ne` when none is equal.
    """

    # Fields spelled in their one form, exists with its value, all else as given.
    document: dict[str, object]
    # The fields of FIELDS that are looked at.
    reads: frozenset[str]
    matches: Matches
    # The verdict for all jobs of a name or, where it depends on more, what decides for each of them.
    for_name: Callable[[str], bool | Matches]

    def given_name(self, name: str) -> bool | None:
        """Return the verdict for all jobs of that name; None where it depends on more."""
        verdict = self.for_name(name)
        return verdict if isinstance(verdict, bool) else None

    def __eq__(self, other: object) -> bool:
        # Not by the documents themselves: to Python 1 and True are equal.
        return isinstance(other, Matcher) and repr(self.document) == repr(other.document)

    def __hash__(self) -> int:
        return hash(repr(self.document))


def parse_matcher(document: object, fields: Sequence[str] = FIELDS) -> Matcher:
    """`{all: […]} | {any: […]} | {not: …} | {field, op, value}`, decoded. `fields`: those that it may read. Raise
    MatcherError."""
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
    """Join the verdicts of `nodes`: the first that decides ends the search."""
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


# --- conditions

_Test = Callable[[object], bool]


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
    test = _tags_test(op, value, at, (*loc, "op")) if path.root == "tags" else _value_test(op, value, at)

    def matches(fields: JobFields) -> bool:
        return test(read(fields))

    for_name: Callable[[str], bool | Matches] = test if path.root == "name" else lambda _name: matches
    return _Node(
        {"field": str(path), "op": op, "value": list(value) if isinstance(value, list | tuple) else value},
        frozenset((path.root,)),
        matches,
        for_name,
    )


def _tags_test(op: str, value: object, loc: Loc, op_loc: Loc) -> _Test:
    if op in {"lt", "le", "gt", "ge"}:
        raise MatcherError(op_loc, "tags support only eq, ne, in, glob and exists")
    if op == "exists":
        is_wanted = _flag(value, loc)
        return lambda tags: bool(tags) is is_wanted
    if op == "ne":
        differs = _value_test("ne", value, loc)
        # All tags are text, so no tag can differ from a value of another type.
        if not isinstance(value, str):
            return lambda _tags: False
        return lambda tags: all(map(differs, tags))  # type: ignore[call-overload]
    test = _value_test(op, value, loc)
    return lambda tags: any(map(test, tags))  # type: ignore[call-overload]


def _value_test(op: str, value: object, loc: Loc) -> _Test:
    match op:
        case "exists":
            is_wanted = _flag(value, loc)
            return lambda found: (found is not MISSING) is is_wanted
        case "eq":
            check_scalar(value, loc)
            return _equal(value)
        case "ne":
            check_scalar(value, loc)
            return _different(value)
        case "in":
            return _one_of(value, loc)
        case "glob":
            return _like(value, loc)
    return _ordered(op, value, loc)


def _flag(value: object, loc: Loc) -> bool:
    if not isinstance(value, bool):
        raise MatcherError(loc, "exists requires true or false")
    return value


def check_scalar(value: object, loc: Loc) -> None:
    """Raise MatcherError unless a value of a job can be compared with this one."""
    match value:
        case None | bool():
            return
        case int():
            if not -(2**63) <= value < 2**64:
                raise MatcherError(loc, "an integer exceeds 64 bits")
        case float():
            if not math.isfinite(value):
                raise MatcherError(loc, "not a finite number")
        case str():
            _check_text(value, loc)
        case bytes():
            if len(value) > MAX_TEXT:
                raise MatcherError(loc, f"longer than {MAX_TEXT} bytes")
        case _:
            raise MatcherError(loc, "must be null, a boolean, a number, text or binary")


def _check_text(text: str, loc: Loc) -> None:
    if len(text) > MAX_TEXT:
        raise MatcherError(loc, f"longer than {MAX_TEXT} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MatcherError(loc, "not Unicode text: half of a surrogate pair") from None


# Each test asks for the exact type first: to Python True is 1, and a MISSING would be different from everything.
# Integers and floats it compares exactly, whatever their size.


def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float


def _equal(value: object) -> _Test:
    if _is_number(value):
        return lambda found: (type(found) is int or type(found) is float) and found == value
    kind = type(value)
    return lambda found: type(found) is kind and found == value


def _different(value: object) -> _Test:
    if _is_number(value):
        return lambda found: (type(found) is int or type(found) is float) and found != value
    kind = type(value)
    return lambda found: type(found) is kind and found != value


def _one_of(values: object, loc: Loc) -> _Test:
    if not isinstance(values, list | tuple):
        raise MatcherError(loc, "in requires a list of values")
    if not 1 <= len(values) <= MAX_IN_VALUES:
        raise MatcherError(loc, f"in requires 1 to {MAX_IN_VALUES} values")
    by_kind: dict[type, set[object]] = {}
    numbers: set[object] = set()
    for i, value in enumerate(values):
        check_scalar(value, (*loc, i))
        (numbers if _is_number(value) else by_kind.setdefault(type(value), set())).add(value)
    if numbers:
        by_kind[int] = by_kind[float] = numbers

    def test(found: object) -> bool:
        wanted = by_kind.get(type(found))
        return wanted is not None and found in wanted

    return test


def _ordered(op: str, value: object, loc: Loc) -> _Test:
    if not (_is_number(value) or isinstance(value, str)):
        raise MatcherError(loc, f"{op} requires a number or text")
    check_scalar(value, loc)
    compare: Callable[[object, object], bool] = getattr(operator, op)
    if isinstance(value, str):
        return lambda found: type(found) is str and compare(found, value)
    return lambda found: (type(found) is int or type(found) is float) and compare(found, value)


def _like(value: object, loc: Loc) -> _Test:
    if not isinstance(value, str):
        raise MatcherError(loc, "glob requires text")
    check_scalar(value, loc)
    try:
        fits = compile_glob(value)
    except ValueError as error:
        raise MatcherError(loc, str(error)) from None
    return lambda found: type(found) is str and fits(found)
