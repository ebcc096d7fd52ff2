"""Constraints: a limit on the jobs that a matcher selects, and its gates."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from jqmaster.domain.constraints.gate_check import Rate
from jqmaster.domain.constraints.limit_kind import ConstraintError
from jqmaster.domain.constraints.limit_kinds import (
    AWAITING_COUNTS,
    CONCURRENCY,
    KINDS,
    PER_VALUE,
    RATE,
    RESERVE,
    WEIGHT,
    Reservation,
)
from jqmaster.domain.constraints.turns import ProportionalTurns
from jqmaster.domain.constraints.weight import Weight, weight_of
from jqmaster.domain.matching.checks import Loc, MatcherError, check_scalar
from jqmaster.domain.matching.fields import MISSING, JobFields
from jqmaster.domain.matching.key_value import KeyValue, canonical, key_value
from jqmaster.domain.matching.matcher import Matcher
from jqmaster.domain.matching.paths import Path, Reader

NAME_PATTERN: Final = r"^[A-Za-z0-9_.:\-]{1,100}$"
MAX_OVERRIDES: Final = 1000
# Maximum number of overrides with a condition. Each job to which the constraint applies is tested against these
# conditions, until it meets one.
MAX_CONDITIONS: Final = 20
MAX_REASON: Final = 500
# The names of pauses begin with this.
PAUSE_PREFIX: Final = "pause-"
# Maximum canonical length of a list or map in an override, because every master keeps all overrides in memory.
MAX_COMPOSITE_BYTES: Final = 4096
NO_KEY: Final = "0" * 16

# Copy this object for each digest: creating one would take a third longer.
_DIGEST: Final = blake2b(digest_size=8)
_NAME: Final = re.compile(NAME_PATTERN.replace("$", r"\Z"))
CID_LENGTH: Final = 8
_CID: Final = re.compile(rf"[0-9a-f]{{{CID_LENGTH}}}")
# New IDs begin with this if and only if the constraint has a weight. So scripts can tell from a gate's ID whether jobs
# have charges there.
WEIGHTED_CID: Final = "ff"


class Mode(StrEnum):
    ENFORCE = "enforce"
    # The constraint delays no job, but counts the jobs that it would have delayed.
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True)
class GateLimits:
    """The limits of one gate: a field for each kind in PER_VALUE. None: no limit of that kind."""

    concurrency: int | None = None
    rate: Rate | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """Other limits for one value of the key. None: the limit of the constraint applies. An override cannot lift a pause
    of the constraint."""

    value: object
    limits: GateLimits


@dataclass(frozen=True, slots=True)
class ConditionalOverride:
    """Other limits for some values of the key, such as customers with a certain plan. They apply to the values of jobs
    that `matcher` selects.

    If the jobs of one value differ, the job that was placed last decides. An override of the value itself takes
    precedence, limit by limit.
    """

    matcher: Matcher
    limits: GateLimits

    @property
    def id(self) -> str:
        """Return 8 hexadecimal digits, which stay the same as long as the matcher does not change."""
        return blake2b(repr(self.matcher.document).encode(), digest_size=4).hexdigest()


# Stands for the condition at a gate whose jobs meet no condition.
NO_CONDITION: Final = ""


# --- constraints


class Counted(NamedTuple):
    """The facts that the store keeps about jobs that pass the gates of a constraint."""

    slots: bool
    starts: bool


@dataclass(frozen=True, slots=True)
class Constraint:
    """A limit on the jobs that `matcher` selects. With a `key`, each value of the key has its own limit.

    Slots and starts are counted under `cid`. A constraint gets a new `cid` each time that it is created.

    `paused` None: the value was not given. False: the constraint is prepared for a pause. In both cases, jobs may pass.
    A faulty constraint raises ConstraintError.
    """

    name: str
    cid: str
    matcher: Matcher
    enabled: bool = True
    mode: Mode = Mode.ENFORCE
    key: Path | None = None
    concurrency: int | None = None
    rate: Rate | None = None
    paused: bool | None = None
    max_backlog: int | None = None
    fair: bool | ProportionalTurns = False
    # Whether a job keeps its slot after another system has taken over its work.
    counts_awaiting: bool = True
    reserve: tuple[Reservation, ...] = ()
    # The weights of jobs. Concurrency and rate count their units. None: concurrency and rate count jobs.
    weight: Weight | None = None
    overrides: tuple[Override, ...] = ()
    # In order of precedence: the first one whose matcher selects a job applies to that job.
    conditions: tuple[ConditionalOverride, ...] = ()
    # Why the constraint exists, for people.
    reason: str = ""
    # The instant at which the leader deletes the constraint; None if it stays.
    expires_at_ms: int | None = None
    _by_value: Mapping[bytes, GateLimits] = field(init=False, repr=False, compare=False)
    _by_condition: Mapping[str, GateLimits] = field(init=False, repr=False, compare=False)
    _read_key: Reader = field(init=False, repr=False, compare=False)
    _read_weight: Reader | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_own(self)
        by_value: dict[bytes, GateLimits] = {}
        first: dict[bytes, int] = {}
        for i, override in enumerate(self.overrides):
            value = _check_override(override, ("overrides", i))
            if value in first:
                raise ConstraintError(
                    ("overrides", i, "value"), f"the same value as overrides.{first[value]}"
                )
            first[value] = i
            by_value[value] = override.limits
        object.__setattr__(self, "_by_value", by_value)
        object.__setattr__(self, "_by_condition", _checked_conditions(self.conditions))
        object.__setattr__(self, "_read_key", (self.key or Path("name")).reader())
        path = self.weight.path if self.weight else None
        object.__setattr__(self, "_read_weight", path.reader() if path else None)

    @property
    def reads(self) -> frozenset[str]:
        """Return the fields of a job that determine its gates, and its weight at them."""
        conditions = [one.matcher for one in self.conditions]
        matchers = [self.matcher, *conditions, *(one.matcher for one in self.reserve)]
        paths = (self.key, self.weight.path if self.weight else None)
        roots = {path.root for path in paths if path}
        return frozenset[str]().union(*(matcher.reads for matcher in matchers), roots)

    @property
    def key_reader(self) -> Reader:
        """Return the function that reads a job's value of the key; MISSING where it has none."""
        return self._read_key

    @property
    def reads_weight(self) -> bool:
        """Return whether jobs may have their own weights."""
        return self._read_weight is not None

    def own_weight(self, fields: JobFields) -> int | None:
        """Return the weight of a job in thousandths, or None if it has the default weight."""
        return None if self._read_weight is None else weight_of(self._read_weight(fields))

    @property
    def counted(self) -> Counted:
        by_condition = [one.limits for one in self.conditions]
        counted = {
            kind.counts
            for limits in (self, *(one.limits for one in self.overrides), *by_condition)
            for kind in PER_VALUE
            if getattr(limits, kind.name) is not None
        }
        return Counted("slots" in counted, "starts" in counted)

    def limits_of(self, key: KeyValue | None, condition: str = NO_CONDITION) -> GateLimits:
        """Return the limits at the gate for `key`, for jobs that meet `condition`. `key` None: the constraint has no
        key, and so only one gate."""
        limits = self._own_limits()
        if by_condition := self._by_condition.get(condition):
            limits = _merged(by_condition, limits)
        by_value = self._by_value.get(key.canonical) if key else None
        return _merged(by_value, limits) if by_value else limits

    def condition_of(self, fields: JobFields) -> str:
        """Return the ID of the first conditional override whose matcher selects the job."""
        found = (one.id for one in self.conditions if one.matcher.matches(fields))
        return next(found, NO_CONDITION)

    def _own_limits(self) -> GateLimits:
        return GateLimits(**{kind.name: kind.at_gate(getattr(self, kind.name)) for kind in PER_VALUE})


def _merged(limits: GateLimits, own: GateLimits) -> GateLimits:
    return GateLimits(
        **{kind.name: kind.merged(getattr(own, kind.name), getattr(limits, kind.name)) for kind in PER_VALUE}
    )


def _check_own(constraint: Constraint) -> None:
    if not _NAME.match(constraint.name):
        raise ConstraintError(("name",), "must be 1 to 100 of A-Z a-z 0-9 _ . : -")
    if not _CID.fullmatch(constraint.cid):
        raise ConstraintError(("cid",), "must be 8 hexadecimal digits")
    if len(constraint.reason) > MAX_REASON:
        raise ConstraintError(("reason",), f"longer than {MAX_REASON} characters")
    given = [kind for kind in KINDS if getattr(constraint, kind.name) is not kind.none]
    for kind in given:
        kind.check(getattr(constraint, kind.name), ())
    if constraint.key is None:
        for kind in given:
            if kind.needs_key:
                raise ConstraintError((kind.name,), kind.needs_key)
        if constraint.overrides or constraint.conditions:
            raise ConstraintError(("overrides",), "require a key, because each override names a value of it")
    else:
        check_key(constraint.key)
    _check_weight(constraint)
    if not (constraint.counts_awaiting or constraint.counted.slots):
        raise ConstraintError((AWAITING_COUNTS.name,), AWAITING_COUNTS.needs)
    _check_shares(constraint)
    if len(constraint.overrides) > MAX_OVERRIDES:
        raise ConstraintError(("overrides",), f"more than {MAX_OVERRIDES}")
    if not (given or constraint.overrides or constraint.conditions):
        *names, last = (kind.name for kind in KINDS)
        raise ConstraintError((), f"has no limit: give {', '.join(names)} or {last}")


def _check_shares(constraint: Constraint) -> None:
    if isinstance(constraint.fair, ProportionalTurns):
        for i, one in enumerate(constraint.fair.shares):
            check_key_value(one.value, ("fair", "weights", i, "value"))
    if not constraint.reserve:
        return
    if constraint.concurrency is None:
        raise ConstraintError((RESERVE.name,), RESERVE.needs)
    if constraint.weight is not None:
        raise ConstraintError((RESERVE.name,), "reserves slots, but a constraint with a weight counts units")
    reserved = sum(one.concurrency for one in constraint.reserve)
    if reserved >= constraint.concurrency:
        raise ConstraintError(
            (RESERVE.name,),
            f"reserves {reserved} of {constraint.concurrency} slots; leave at least one for other jobs",
        )


def check_conditions_leave_slots(constraint: Constraint) -> None:
    """Raise ConstraintError if a conditional override leaves no slot for jobs without a reservation.

    Only new and changed constraints are checked. Constraints that an earlier release stored stay in force unchanged.
    """
    reserved = sum(one.concurrency for one in constraint.reserve)
    for condition in constraint.conditions if reserved else ():
        most = condition.limits.concurrency
        if most is not None and most <= reserved:
            raise ConstraintError(
                ("overrides",),
                f"an override with `match` has a concurrency of {most}, but `reserve` keeps "
                f"{reserved} slots of each value. Raise the concurrency to at least {reserved + 1}. Otherwise, other "
                "jobs of its values can never start",
            )


def _checked_conditions(conditions: Sequence[ConditionalOverride]) -> dict[str, GateLimits]:
    """Check the conditional overrides, and return their limits by ID. Raise ConstraintError."""
    if len(conditions) > MAX_CONDITIONS:
        raise ConstraintError(("overrides",), f"more than {MAX_CONDITIONS} with `match`")
    found: dict[str, GateLimits] = {}
    for one in conditions:
        for kind in PER_VALUE:
            kind.check(getattr(one.limits, kind.name), ("overrides",))
        if one.id in found:
            raise ConstraintError(("overrides",), "two have the same `match`")
        found[one.id] = one.limits
    return found


def _check_weight(constraint: Constraint) -> None:
    if constraint.weight is not None:
        if not any(constraint.counted):
            raise ConstraintError((WEIGHT.name,), WEIGHT.needs)
        return
    CONCURRENCY.check_jobs(constraint.concurrency, ())
    RATE.check_jobs(constraint.rate, ())
    for i, override in enumerate(constraint.overrides):
        CONCURRENCY.check_jobs(override.limits.concurrency, ("overrides", i))
        RATE.check_jobs(override.limits.rate, ("overrides", i))
    for one in constraint.conditions:
        CONCURRENCY.check_jobs(one.limits.concurrency, ("overrides",))
        RATE.check_jobs(one.limits.rate, ("overrides",))


def check_key(key: Path) -> None:
    """Raise ConstraintError if `key` cannot be the key of a constraint."""
    if key.root == "tags":
        raise ConstraintError(("key",), "cannot be tags: a job has many tags, but needs one value of the key")


def _check_override(override: Override, loc: Loc) -> bytes:
    """Check an override, and return the canonical bytes of its key value. Raise ConstraintError."""
    check_key_value(override.value, (*loc, "value"))
    for kind in PER_VALUE:
        kind.check(getattr(override.limits, kind.name), loc)
    return canonical(override.value)


def check_key_value(value: object, loc: Loc) -> None:
    """Raise ConstraintError if no override may name this value. It must be a scalar, or a list or map of scalars."""
    for part in _scalars(value):
        try:
            check_scalar(part, loc)
        except MatcherError as error:
            raise ConstraintError(error.loc, error.msg) from None
    if isinstance(value, list | dict) and len(canonical(value)) > MAX_COMPOSITE_BYTES:
        raise ConstraintError(loc, f"a list or map longer than {MAX_COMPOSITE_BYTES} bytes")


def _scalars(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for member in value:
            yield from _scalars(member)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from _scalars(member)
    else:
        yield value


def new_cid(*, is_weighted: bool = False) -> str:
    """Return a new `cid`. `is_weighted`: whether the constraint has a weight."""
    if is_weighted:
        return WEIGHTED_CID + os.urandom(3).hex()
    while (cid := os.urandom(4).hex()).startswith(WEIGHTED_CID):
        pass
    return cid


def keeps_counts(old: Constraint, new: Constraint) -> bool:
    """Return whether slots and starts counted for `old` also count for `new`. They do if both have the same gates, and
    count the same unit."""
    return old.enabled and new.enabled and old.key == new.key and _unit(old) == _unit(new)


def needs_rematch(old: Constraint | None, new: Constraint | None) -> bool:
    """Return whether jobs must be matched again after `old` was replaced by `new`. Removing or disabling a constraint
    requires this only if the constraint changed the order of jobs.
    """
    if _orders(old) != _orders(new):
        return True
    if new is None or not new.enabled:
        return False
    if old is None or not keeps_counts(old, new) or _selectors(old) != _selectors(new):
        return True
    if old.weight and new.weight and old.weight.path != new.weight.path:
        return True
    return any(now and not before for before, now in zip(old.counted, new.counted, strict=True))


def _unit(constraint: Constraint) -> str | None:
    return constraint.weight.unit if constraint.weight else None


def _orders(constraint: Constraint | None) -> bool:
    return (
        constraint is not None
        and constraint.enabled
        and constraint.fair is not False
        and constraint.mode is Mode.ENFORCE
    )


def _selectors(constraint: Constraint) -> tuple[object, ...]:
    """Return the matchers that decide which gates a job passes, and which limits these gates have."""
    conditions = tuple(one.matcher for one in constraint.conditions)
    return constraint.matcher, conditions, tuple(one.matcher for one in constraint.reserve)


# --- gates


class Gate(NamedTuple):
    """One constraint at one value of its key.

    * `text`: that value as people read it. Empty: there is no key.
    * `condition`: the conditional override that jobs of this value meet. None: the constraint has no such overrides.
    """

    id: str
    cid: str
    text: str
    is_keyed: bool
    condition: str | None = None


def key_of(constraint: Constraint, fields: JobFields) -> KeyValue | None:
    """Return the job's value of the key of `constraint`. None: the job has none, so the constraint does not apply."""
    value = constraint._read_key(fields)
    return None if value is MISSING else key_value(value)


def keyed_gate(constraint: Constraint, value: object) -> Gate:
    """Return the gate of a constraint at a decoded value of its key."""
    key = key_value(value)
    return Gate(gate_id(constraint.cid, key), constraint.cid, key.text, True)


def read_key(constraint: Constraint, fields: JobFields) -> object:
    """Return the job's value at the key path of `constraint`; MISSING if the job has no such value."""
    return constraint._read_key(fields)


def value_id(key: KeyValue) -> str:
    """Return 16 hexadecimal digits that identify this value of a key."""
    digest = _DIGEST.copy()
    digest.update(key.canonical)
    return digest.hexdigest()


def gate_id(cid: str, key: KeyValue | None) -> str:
    """Return `cid` and 16 hexadecimal digits. Scripts find the constraint of a gate by the `cid`."""
    return cid + (NO_KEY if key is None else value_id(key))
