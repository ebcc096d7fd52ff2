"""Reads constraints for operators: their limits, their usage, and the jobs to which they apply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.constraints.constraint import (
    CID_LENGTH,
    NO_CONDITION,
    Constraint,
    GateLimits,
    gate_id,
    key_of,
)
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.jobs.job import Job, JobSpec
from jqmaster.domain.matching.key_value import key_value
from jqmaster.errors import InvalidError, NotFoundError
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.constraints.documents import parse_key, parse_matcher_document, parse_weight, refusal
from jqmaster.service.constraints.preview import (
    MAX_TOP_KEYS,
    AskedUnits,
    OverrideTargets,
    Preview,
    Previews,
    Wanted,
)
from jqmaster.store.constraints.constraints import ConstraintSnapshot
from jqmaster.store.constraints.documents import StoredConstraint
from jqmaster.store.constraints.gates import GateStore
from jqmaster.store.constraints.usage import GateUsage, SlotUsage, UsageStore
from jqmaster.store.jobs.placement import fields_of

MAX_HOLDERS: Final = 50
# Maximum number of key values that a list of all constraints sums up, beginning with the constraints that have the
# fewest values.
MAX_LISTED_GATES: Final = 1_000


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """One value of a key, with its limits and usage. `own`: the limits of the value's override, or None if it has no
    override."""

    gate: GateUsage
    text: str
    limits: GateLimits
    own: GateLimits | None = None

    @property
    def value_id(self) -> str:
        return self.gate.gate_id[CID_LENGTH:]


@dataclass(frozen=True, slots=True)
class Usage:
    """The current usage of a constraint. None: the number was not counted, or was not summed up because the list has
    too many key values.

    * `held`: the number of `waiting` jobs at closed gates of this constraint, which holds them back.
    * `closed_keys`: the number of key values with a closed gate.
    * `next_opening_ms`: the next time at which a closed gate opens because time has passed.
    * `is_in_force`: whether every job has been matched against the current version of the constraint.
    * `is_exact`: False if the key has more values than were read.
    """

    waiting: int | None
    running: int | None
    starts: int | None
    shadow_delayed: int
    next_opening_ms: int | None
    is_in_force: bool
    keys: int | None
    held: int | None = None
    closed_keys: int | None = None
    is_exact: bool = True
    # The units of the running jobs, and of the jobs that started within the period of the rate, in thousandths. None:
    # the constraint counts jobs instead of units.
    running_units: int | None = None
    window_units: int | None = None


@dataclass(frozen=True, slots=True)
class Detail:
    """A constraint with its usage.

    * `only_gate`: the usage of the only gate of a constraint without a key. None: the constraint has a key.
    * `asked`: the usage at the requested key value. None: no value was requested.
    """

    stored: StoredConstraint
    usage: Usage
    only_gate: GateUsage | None
    top_keys: list[KeyUsage]
    asked: KeyUsage | None
    holders: list[SlotUsage]


@dataclass(frozen=True, slots=True)
class AppliedConstraint:
    """A constraint that applies to a job. `key_text`: the job's key value. None: the constraint has no key."""

    constraint: Constraint
    key_text: str | None
    limits: GateLimits


@dataclass(frozen=True, slots=True)
class AskedValue:
    """A requested value of a key. It has a class of its own because a bare None would be ambiguous: null is a valid
    value."""

    value: object


class ConstraintReader:
    """Reads constraints and their usage. Methods raise what the store raises."""

    def __init__(
        self,
        constraints: ConstraintCache,
        usage: UsageStore,
        gates: GateStore,
        previews: Previews,
    ) -> None:
        self._constraints = constraints
        self._usage = usage
        self._gates = gates
        self._previews = previews

    async def all(self) -> list[tuple[StoredConstraint, Usage]]:
        """Return all constraints, sorted by name, each with its usage. At most MAX_LISTED_GATES key values are summed
        up."""
        constraints = await self._constraints.reload()
        unsettled = await self._unsettled(constraints)
        cids = [stored.constraint.cid for stored in constraints.stored]
        counts = dict(zip(cids, await self._usage.counts(cids), strict=True))
        keyed = {
            s.constraint.cid: counts[s.constraint.cid][0] for s in constraints.stored if s.constraint.key
        }
        looked_at = _smallest(keyed, MAX_LISTED_GATES)
        wanted = [gate_id(s.constraint.cid, None) for s in constraints.stored if s.constraint.key is None]
        wanted += await self._usage.first_gates({cid: keyed[cid] for cid in looked_at})
        gates: dict[str, list[GateUsage]] = {}
        for gate in await self._usage.gates(wanted):
            gates.setdefault(gate.gate_id[:CID_LENGTH], []).append(gate)
        found = []
        for stored in constraints.stored:
            cid = stored.constraint.cid
            keys, delayed = counts[cid]
            in_force = unsettled is not None and cid not in unsettled
            if cid in keyed and cid not in looked_at:
                usage = Usage(None, None, None, delayed, None, in_force, keys, is_exact=False)
            else:
                usage = _usage(stored.constraint, gates.get(cid, []), delayed, in_force, keys)
            found.append((stored, usage))
        return found

    async def get(self, name: str, value: AskedValue | None, access: ContentAccess) -> Detail:
        """Return a constraint. `value`: a key value for which to return the usage, too. Raise NotFoundError,
        InvalidError for a value if the constraint has no key, and ForbiddenError for a value that the caller may not
        see."""
        constraints = await self._constraints.reload()
        stored = constraints.named(name)
        if stored is None:
            raise unknown_constraint(name)
        constraint = stored.constraint
        if value is not None and constraint.key is None:
            raise no_key(("query", "value"))
        if value is not None:
            access.check_path(constraint.key, ("query", "value"))
        unsettled = await self._unsettled(constraints)
        in_force = unsettled is not None and constraint.cid not in unsettled
        ((keys, delayed),) = await self._usage.counts([constraint.cid])
        asked = None
        if constraint.key is None:
            gates, total = await self._usage.gates([gate_id(constraint.cid, None)]), 1
        else:
            gate_ids, total = await self._usage.known_gates(constraint.cid)
            gates = await self._usage.gates(gate_ids)
            if value is not None:
                key = key_value(value.value)
                (gate,) = await self._usage.gates([gate_id(constraint.cid, key)])
                own = _own_limits(constraint).get(gate.gate_id)
                asked = KeyUsage(gate, key.text, constraint.limits_of(key, gate.condition), own)
        gates.sort(key=lambda gate: (-gate.waiting, -(gate.running or 0), gate.gate_id))
        usage = _usage(constraint, gates, delayed, in_force, keys, is_exact=len(gates) >= total)
        return Detail(
            stored,
            usage,
            gates[0] if constraint.key is None else None,
            [] if constraint.key is None else self._top_keys(constraint, gates),
            asked,
            await self._usage.holders([asked.gate] if asked else gates, MAX_HOLDERS),
        )

    async def matching(self, job: Job) -> list[str]:
        """Return the names of the enabled constraints that apply to an unfinished job, sorted."""
        constraints = await self._constraints.reload()
        return [constraint.name for constraint in constraints.constraint_set.matching(fields_of(job))]

    async def applying(self, spec: JobSpec, access: ContentAccess) -> list[AppliedConstraint]:
        """Return the constraints that would apply to a job that is not enqueued yet. Each comes with the limits for the
        job's key value. If the caller may not see the key value, return the limits that apply to values without an
        override."""
        fields = fields_of(spec)
        constraints = await self._constraints.reload()
        found = []
        for constraint in constraints.constraint_set.matching(fields):
            key = key_of(constraint, fields) if constraint.key else None
            text = access.key_text(constraint.key, key.text) if key else None
            is_shown = key is not None and text == key.text
            condition = constraint.condition_of(fields) if is_shown else NO_CONDITION
            limits = constraint.limits_of(key if is_shown else None, condition)
            found.append(AppliedConstraint(constraint, text, limits))
        return found

    async def preview(
        self,
        matcher: object,
        key: object,
        limit: int,
        access: ContentAccess,
        *,
        who: str,
        most_per_minute: int,
        overrides: Sequence[Mapping[str, Any]] = (),
        weight: object = None,
        least_limit: int | None = None,
    ) -> Preview:
        """Return the waiting jobs to which a constraint would apply, with the number of jobs for each override, and the
        weights of the jobs.

        * `weight`: the document of a weight.
        * `least_limit`: the smallest limit, in units.

        Raise InvalidError, OverloadedError, or ForbiddenError if the caller may not tell jobs apart by the matchers,
        the key or the weight."""
        parsed, path = parse_matcher_document(matcher), parse_key(key)
        targets = OverrideTargets.of(overrides)
        if overrides and path is None:
            raise no_key(("overrides",))
        access.check_matcher(parsed.document, ("matcher",))
        access.check_path(path, ("key",))
        for i, one in targets.conditions:
            access.check_matcher(one.document, ("overrides", i, "match"))
        asked = None
        if weight is not None:
            asked = AskedUnits(parse_weight(weight), least_limit)
            access.check_path(asked.weight.path, ("weight", "from"))
        wanted = Wanted(parsed, path, targets, asked)
        return await self._previews.run(wanted, limit, who=who, most_per_minute=most_per_minute)

    @staticmethod
    def _top_keys(constraint: Constraint, gates: Sequence[GateUsage]) -> list[KeyUsage]:
        special = {
            gate_id(constraint.cid, key): key
            for key in (key_value(override.value) for override in constraint.overrides)
        }
        own = _own_limits(constraint)
        return [
            KeyUsage(
                gate,
                gate.text,
                constraint.limits_of(special.get(gate.gate_id), gate.condition),
                own.get(gate.gate_id),
            )
            for gate in gates[:MAX_TOP_KEYS]
        ]

    async def _unsettled(self, constraints: ConstraintSnapshot) -> frozenset[str] | None:
        """Return the IDs of the constraints with a last change that is not fully in force yet. None: jobs are still
        being matched, so no constraint is fully in force."""
        edition = constraints.constraint_set.edition
        if constraints.settled_edition != edition or await self._usage.has_older_lanes(edition):
            return None
        return frozenset(cid for cid, _ in await self._gates.reopened())


def _own_limits(constraint: Constraint) -> dict[str, GateLimits]:
    """Return the limits of the overrides for single values, by gate ID."""
    return {
        gate_id(constraint.cid, key_value(override.value)): override.limits
        for override in constraint.overrides
    }


def _usage(
    constraint: Constraint,
    gates: Sequence[GateUsage],
    delayed: int,
    in_force: bool,
    keys: int,
    *,
    is_exact: bool = True,
) -> Usage:
    """Sum up the usage of these gates of a constraint."""
    holding = [gate for gate in gates if gate.waiting and not gate.is_open]
    openings = [gate.opens_at_ms for gate in gates if gate.opens_at_ms and gate.waiting]
    return Usage(
        waiting=sum(gate.waiting for gate in gates),
        running=_sum([gate.running for gate in gates]) if constraint.counted.slots else None,
        starts=_sum([gate.starts for gate in gates])
        if constraint.counted.starts and constraint.weight is None
        else None,
        shadow_delayed=delayed,
        next_opening_ms=min(openings, default=None),
        is_in_force=in_force,
        keys=None if constraint.key is None else keys,
        held=sum(gate.waiting for gate in holding),
        closed_keys=None if constraint.key is None else len(holding),
        is_exact=is_exact,
        running_units=_sum_or_none([gate.running_units for gate in gates]),
        window_units=_sum_or_none([gate.window_units for gate in gates]),
    )


def _sum(counts: Sequence[int | None]) -> int:
    return sum(count or 0 for count in counts)


def _sum_or_none(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _smallest(sizes: Mapping[str, int], room: int) -> frozenset[str]:
    """Return the names with the smallest sizes. Take as many names as fit, so that the sum of their sizes is at most
    `room`."""
    found = set()
    for cid, size in sorted(sizes.items(), key=lambda pair: pair[1]):
        room -= size
        if room < 0:
            break
        found.add(cid)
    return frozenset(found)


def no_key(loc: tuple[str | int, ...]) -> InvalidError:
    """Return the error for a request that gives a value although the constraint has no key."""
    return refusal(loc, "the constraint has no key, and so no values")


def unknown_constraint(name: str) -> NotFoundError:
    """Return the error for a constraint that does not exist."""
    return NotFoundError(f"no constraint {name[:100]}", code="unknown_constraint")
