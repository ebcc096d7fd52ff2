"""Parts of a constraint: the constraint itself, and the limits that keep its reserved slots free.

A reservation is a limit for all other jobs. If 10 of 50 slots are reserved for jobs of plan `pro`, jobs of other plans
may use 40.

Each set of reservations has one part. It selects the jobs for which no reservation of the set is meant. It limits them
to the slots that the set leaves free. A job passes the gates of all parts that apply to it, like the gates of several
constraints.
"""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import combinations
from typing import Final

from jqmaster.domain.constraints.constraint import (
    CID_LENGTH,
    ConditionalOverride,
    Constraint,
    GateLimits,
    Override,
)
from jqmaster.domain.constraints.limit_kinds import Reservation
from jqmaster.domain.matching.fields import JobFields
from jqmaster.domain.matching.matcher import Matcher, Matches

# The ID of a part begins with this many digits of its constraint's ID. They tell scripts the kind of the constraint.
_KEPT: Final = 2


def parts_of(constraint: Constraint) -> tuple[Constraint, ...]:
    """Return the constraint and its other parts. Each has its own `cid`, under which its slots are counted."""
    return (constraint, *_reserving(constraint)) if constraint.reserve else (constraint,)


def owners_of(constraints: tuple[Constraint, ...]) -> dict[str, Constraint]:
    """Return a map from the `cid` of each part to its constraint."""
    return {part.cid: one for one in constraints for part in parts_of(one)}


def _reserving(constraint: Constraint) -> Iterator[Constraint]:
    for size in range(1, len(constraint.reserve) + 1):
        for chosen in combinations(constraint.reserve, size):
            yield _without(constraint, chosen)


def _without(constraint: Constraint, chosen: tuple[Reservation, ...]) -> Constraint:
    """Return the part of the constraint that limits jobs to which none of these reservations applies."""
    reserved = sum(one.concurrency for one in chosen)
    # Leave numbers out of the digest, so that slots in use still count after the numbers have changed.
    matchers = repr([one.matcher.document for one in chosen])
    digest = blake2b(f"{constraint.cid}{matchers}".encode(), digest_size=(CID_LENGTH - _KEPT) // 2)
    return replace(
        constraint,
        cid=constraint.cid[:_KEPT] + digest.hexdigest(),
        matcher=_neither(constraint.matcher, chosen),
        concurrency=(constraint.concurrency or 0) - reserved,
        rate=None,
        paused=None,
        max_backlog=None,
        fair=False,
        reserve=(),
        overrides=tuple(
            Override(one.value, limits)
            for one in constraint.overrides
            if (limits := _less(one.limits, reserved)) is not None
        ),
        conditions=tuple(
            # New conditional overrides leave slots for other jobs. A conditional override from an earlier release may
            # leave none. Then other jobs with its values are paused, and overrides of these values cannot undo that.
            ConditionalOverride(one.matcher, _less(one.limits, reserved) or GateLimits())
            for one in constraint.conditions
        ),
    )


def _less(limits: GateLimits, reserved: int) -> GateLimits | None:
    """Return the limits that a reservation leaves to other jobs. None: the value of the key does not have its own
    concurrency."""
    if limits.concurrency is None:
        return None
    left = limits.concurrency - reserved
    return GateLimits(concurrency=left) if left > 0 else GateLimits(paused=True)


def _neither(matcher: Matcher, chosen: tuple[Reservation, ...]) -> Matcher:
    """Return a matcher of the jobs that `matcher` selects and for which no reservation is meant.

    It combines parsed matchers, because a combined document might exceed the maximum depth of matchers.
    """
    excluded = tuple(one.matcher for one in chosen)
    return Matcher(
        {"all": [matcher.document, {"not": {"any": [one.document for one in excluded]}}]},
        matcher.reads.union(*(one.reads for one in excluded)),
        lambda fields: matcher.matches(fields) and not any(one.matches(fields) for one in excluded),
        lambda name: _for_name(matcher, excluded, name),
    )


def _for_name(matcher: Matcher, excluded: tuple[Matcher, ...], name: str) -> bool | Matches:
    """Return the verdict for all jobs of a name, or the function that decides for each."""
    own = matcher.for_name(name)
    others = [one.for_name(name) for one in excluded]
    if own is False or True in others:
        return False
    open_questions = [other for other in others if not isinstance(other, bool)]
    if own is True and not open_questions:
        return True

    def matches(fields: JobFields) -> bool:
        return (own is True or own(fields)) and not any(other(fields) for other in open_questions)

    return matches
