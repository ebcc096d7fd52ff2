"""Parses and describes constraints in the form that clients write and read."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jqmaster.domain.constraints.constraint import (
    ConditionalOverride,
    Constraint,
    GateLimits,
    Mode,
    Override,
    check_conditions_leave_slots,
    check_key,
)
from jqmaster.domain.constraints.limit_kind import ConstraintError
from jqmaster.domain.constraints.limit_kinds import KINDS, PER_VALUE, WEIGHT
from jqmaster.domain.constraints.weight import Weight
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.matching.checks import Loc, MatcherError
from jqmaster.domain.matching.matcher import Matcher, parse_matcher
from jqmaster.domain.matching.paths import Path, parse_path
from jqmaster.errors import FieldError, InvalidError

# Names that have a special meaning in a URL path.
RESERVED_NAMES: Final = frozenset({".", "..", "preview"})
_DRAFT_CID: Final = "0" * 8


def draft_of(name: str, fields: Mapping[str, Any]) -> Constraint:
    """Return the constraint that a checked request describes. `fields`: the fields of the request. Raise InvalidError,
    which names the rule."""
    if name in RESERVED_NAMES:
        raise refusal(("name",), "is a path of the API, so it cannot be a name")
    with refusing():
        overrides, conditions = parse_overrides(fields["overrides"])
        constraint = Constraint(
            name=name,
            cid=_DRAFT_CID,
            matcher=parse_matcher_document(fields["matcher"]),
            enabled=fields["enabled"],
            mode=Mode(fields["mode"]),
            key=parse_key(fields["key"]),
            overrides=overrides,
            conditions=conditions,
            reason=fields.get("reason", ""),
            expires_at_ms=fields.get("expires_at"),
            # Parse only the kinds of limits that the document has: files and clients of older releases lack kinds that
            # were added later.
            **{kind.name: kind.parse(fields[kind.name]) for kind in KINDS if kind.name in fields},
        )
        check_conditions_leave_slots(constraint)
        return constraint


def parse_overrides(
    documents: Sequence[Mapping[str, Any]],
) -> tuple[tuple[Override, ...], tuple[ConditionalOverride, ...]]:
    """Return the overrides for single values and the overrides with a condition. Raise InvalidError."""
    overrides: list[Override] = []
    conditions: list[ConditionalOverride] = []
    for i, one in enumerate(documents):
        with refusing("overrides", i):
            limits = limits_of(one)
        matcher = condition_of(one, i)
        if matcher is None:
            overrides.append(Override(one["value"], limits))
        else:
            conditions.append(ConditionalOverride(matcher, limits))
    return tuple(overrides), tuple(conditions)


def condition_of(override: Mapping[str, Any], place: int) -> Matcher | None:
    """Return the condition of an override, or None if the override names a value. Raise InvalidError if the override
    has both or neither."""
    if override.get("match") is None:
        if "value" not in override:
            raise refusal(("overrides", place, "value"), "give value or match")
        return None
    if override.get("value") is not None:
        raise refusal(("overrides", place, "match"), "give value or match, not both")
    with refusing("overrides", place, "match"):
        return parse_matcher(override["match"])


def parse_matcher_document(document: object) -> Matcher:
    """Parse the document of a `matcher`. Raise InvalidError."""
    with refusing("matcher"):
        return parse_matcher(document)


def parse_key(text: object) -> Path | None:
    """Return the path of a `key`, or None if there is none. Raise InvalidError."""
    if text is None:
        return None
    with refusing("key"):
        path = parse_path(text)
    with refusing():
        check_key(path)
    return path


def parse_weight(document: object) -> Weight:
    """Return the weight that a document describes. The types in the document must have been checked. Raise
    InvalidError."""
    with refusing():
        weight = WEIGHT.parse(document)
        WEIGHT.check(weight, ())
    assert weight is not None
    return weight


def limits_of(fields: Mapping[str, Any]) -> GateLimits:
    """Return the limits that `fields` describe for one value of the key. The types of the fields must have been
    checked."""
    return GateLimits(**{kind.name: kind.at_gate(kind.parse(fields[kind.name])) for kind in PER_VALUE})


def describe(constraint: Constraint) -> dict[str, Any]:
    """Return a constraint in the form that clients write and read."""
    return {
        "name": constraint.name,
        "enabled": constraint.enabled,
        "mode": str(constraint.mode),
        "matcher": constraint.matcher.document,
        "key": None if constraint.key is None else str(constraint.key),
        **{kind.name: kind.document(getattr(constraint, kind.name)) for kind in KINDS},
        "overrides": [
            *(describe_override(override) for override in constraint.overrides),
            *(
                {"value": None, "match": one.matcher.document, **describe_limits(one.limits)}
                for one in constraint.conditions
            ),
        ],
        "reason": constraint.reason,
        "expires_at": None if constraint.expires_at_ms is None else iso_ms(constraint.expires_at_ms),
    }


def describe_override(override: Override) -> dict[str, Any]:
    """Return an override in the form that clients write and read."""
    return {"value": override.value, **describe_limits(override.limits)}


def describe_limits(limits: GateLimits) -> dict[str, Any]:
    """Return the limits of one value of the key in the form that clients write and read."""
    return {kind.name: kind.document(getattr(limits, kind.name)) for kind in PER_VALUE}


@contextlib.contextmanager
def refusing(*prefix: str | int) -> Iterator[None]:
    """Convert errors of the domain to InvalidError. The location in the error begins with `prefix`."""
    try:
        yield
    except (MatcherError, ConstraintError) as error:
        raise refusal((*prefix, *error.loc), error.msg) from None


def refusal(loc: Loc, msg: str) -> InvalidError:
    """Return the error that refuses a constraint because of the field at `loc`."""
    return InvalidError("the constraint is not valid", errors=[FieldError(loc, msg)])
