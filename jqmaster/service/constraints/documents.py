"""Constraints as clients write and read them."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jqmaster.domain.constraint import (
    Constraint,
    ConstraintError,
    Limits,
    Mode,
    Override,
    Rate,
    check_key,
)
from jqmaster.domain.matcher import Loc, Matcher, MatcherError, Path, parse_matcher, parse_path
from jqmaster.errors import FieldError, InvalidError

# They have a meaning of their own in a path.
RESERVED_NAMES: Final = frozenset({".", "..", "preview"})
_DRAFT_CID: Final = "0" * 8
_ABSURD_S: Final = 1e12


def draft_of(name: str, fields: Mapping[str, Any]) -> Constraint:
    """A constraint of a checked request: `fields` are those of the document. Raise InvalidError naming the rule."""
    if name in RESERVED_NAMES:
        raise refusal(("name",), "is a path of its own, and so no name")
    with refusing():
        return Constraint(
            name=name,
            cid=_DRAFT_CID,
            matcher=parse_matcher_document(fields["matcher"]),
            enabled=fields["enabled"],
            mode=Mode(fields["mode"]),
            key=parse_key(fields["key"]),
            concurrency=fields["concurrency"],
            rate=_rate_of(fields["rate"]),
            paused=fields["paused"],
            max_backlog=fields["max_backlog"],
            fair=fields["fair"],
            overrides=tuple(Override(o["value"], limits_of(o)) for o in fields["overrides"]),
        )


def parse_matcher_document(document: object) -> Matcher:
    """Parse the document of a `matcher`. Raise InvalidError."""
    with refusing("matcher"):
        return parse_matcher(document)


def parse_key(text: object) -> Path | None:
    """Return the path of a `key`, None where there is none. Raise InvalidError."""
    if text is None:
        return None
    with refusing("key"):
        path = parse_path(text)
    with refusing():
        check_key(path)
    return path


def limits_of(fields: Mapping[str, Any]) -> Limits:
    """Return the limits of `{concurrency, rate, paused}`, of which only the types are checked."""
    return Limits(fields["concurrency"], _rate_of(fields["rate"]), bool(fields["paused"]))


def _rate_of(fields: Mapping[str, Any] | None) -> Rate | None:
    if fields is None:
        return None
    # An absurd value stays as it is and is refused with its reason; in milliseconds it might be infinite.
    return Rate(fields["limit"], round(max(-1.0, min(fields["period_s"], _ABSURD_S)) * 1000))


def describe(constraint: Constraint) -> dict[str, Any]:
    """Return the document of a constraint, as clients write and read it."""
    return {
        "name": constraint.name,
        "enabled": constraint.enabled,
        "mode": str(constraint.mode),
        "matcher": constraint.matcher.document,
        "key": None if constraint.key is None else str(constraint.key),
        "concurrency": constraint.concurrency,
        "rate": describe_rate(constraint.rate),
        "paused": bool(constraint.paused),
        "max_backlog": constraint.max_backlog,
        "fair": constraint.fair,
        "overrides": [describe_override(override) for override in constraint.overrides],
    }


def describe_override(override: Override) -> dict[str, Any]:
    """Return one of `overrides`."""
    return {"value": override.value, **describe_limits(override.limits)}


def describe_limits(limits: Limits) -> dict[str, Any]:
    return {
        "concurrency": limits.concurrency,
        "rate": describe_rate(limits.rate),
        "paused": limits.paused,
    }


def describe_rate(rate: Rate | None) -> dict[str, Any] | None:
    return None if rate is None else {"limit": rate.limit, "period_s": rate.period_ms / 1000}


@contextlib.contextmanager
def refusing(*prefix: str) -> Iterator[None]:
    """Turn refusals of the domain into refusals to the client, each part with its place below `prefix`."""
    try:
        yield
    except (MatcherError, ConstraintError) as error:
        raise refusal((*prefix, *error.loc), error.msg) from None


def refusal(loc: Loc, msg: str) -> InvalidError:
    """Return the refusal of a constraint because of the part at `loc`."""
    return InvalidError("the constraint is not valid", errors=[FieldError(loc, msg)])
