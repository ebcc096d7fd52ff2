"""The operators of conditions, such as `eq`, `in` and `glob`, as tests of one value."""

import operator
from collections.abc import Callable
from typing import Final

from jqmaster.domain.matching.checks import Loc, MatcherError, check_scalar
from jqmaster.domain.matching.fields import MISSING
from jqmaster.domain.matching.glob import compile_glob

MAX_IN_VALUES: Final = 1000
ValueTest = Callable[[object], bool]


def tags_test(op: str, value: object, loc: Loc, op_loc: Loc) -> ValueTest:
    """Return the test of a job's tags; any tag may match. Raise MatcherError."""
    if op in {"lt", "le", "gt", "ge"}:
        raise MatcherError(op_loc, "tags support only eq, ne, in, glob and exists")
    if op == "exists":
        is_wanted = _flag(value, loc)
        return lambda tags: bool(tags) is is_wanted
    if op == "ne":
        differs = value_test("ne", value, loc)
        # A tag never equals a value that is not text. So a test with such a value matches no tag, not even with `ne`.
        if not isinstance(value, str):
            return lambda _tags: False
        return lambda tags: all(map(differs, tags))  # type: ignore[call-overload]
    test = value_test(op, value, loc)
    return lambda tags: any(map(test, tags))  # type: ignore[call-overload]


def value_test(op: str, value: object, loc: Loc) -> ValueTest:
    """Return the test of a value that a path leads to, or of MISSING. Raise MatcherError."""
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


# Each test checks the exact type first, because Python treats True as 1, and MISSING would differ from every value.
# Python compares integers and floats exactly, whatever their size.
def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float


def _equal(value: object) -> ValueTest:
    if _is_number(value):
        return lambda found: (type(found) is int or type(found) is float) and found == value
    kind = type(value)
    return lambda found: type(found) is kind and found == value


def _different(value: object) -> ValueTest:
    if _is_number(value):
        return lambda found: (type(found) is int or type(found) is float) and found != value
    kind = type(value)
    return lambda found: type(found) is kind and found != value


def _one_of(values: object, loc: Loc) -> ValueTest:
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


def _ordered(op: str, value: object, loc: Loc) -> ValueTest:
    if not (_is_number(value) or isinstance(value, str)):
        raise MatcherError(loc, f"{op} requires a number or text")
    check_scalar(value, loc)
    compare: Callable[[object, object], bool] = getattr(operator, op)
    if isinstance(value, str):
        return lambda found: type(found) is str and compare(found, value)
    return lambda found: (type(found) is int or type(found) is float) and compare(found, value)


def _like(value: object, loc: Loc) -> ValueTest:
    if not isinstance(value, str):
        raise MatcherError(loc, "glob requires text")
    check_scalar(value, loc)
    try:
        fits = compile_glob(value)
    except ValueError as error:
        raise MatcherError(loc, str(error)) from None
    return lambda found: type(found) is str and fits(found)
