"""Paths to values of jobs and events, such as `name`, `headers.KEY` and `argument.a[0]`."""

import json
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.matching.checks import MAX_TEXT, Loc, MatcherError, check_text
from jqmaster.domain.matching.fields import FIELDS, MISSING, JobFields

MAX_PATH_SEGMENTS: Final = 16
# Fields with values that contain other values. A path can name these other values.
_NESTED: Final = frozenset({"argument", "payload"})
Reader = Callable[[JobFields], object]
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
        """Return the canonical spelling of this path, with quotes only where they are needed."""
        return self.root + "".join(map(_part_text, self.parts))

    def reader(self) -> Reader:
        """Return a function that reads the value at this path, or MISSING if there is none."""
        if self.root == "headers":
            return _header_reader(str(self.parts[0]))
        if self.root in _NESTED and self.parts:
            return _argument_reader(self.parts)
        if self.root == "payload":
            return operator.attrgetter("argument")
        return operator.attrgetter("timeout_s" if self.root == "timeout" else self.root)


def parse_path(text: object, loc: Loc = (), fields: Sequence[str] = FIELDS) -> Path:
    """Parse a path such as `name`, `headers.KEY` or `argument.a[0]["a.b"]`. Quoted keys are JSON strings. `fields`: the
    fields with which paths may begin. Raise MatcherError."""
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
            raise MatcherError(
                loc, f'not a path from character {at + 1} on; a step is .key, [0] or ["any key"]'
            )
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
    check_text(part, loc)
    return part


def _part_text(part: str | int) -> str:
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
            # Any other step is an integer of at least 0, because the parser makes no negative ones.
            elif type(value) is list and part < len(value):  # type: ignore[operator]
                value = value[part]  # type: ignore[index]
            else:
                return MISSING
        return value

    return read
