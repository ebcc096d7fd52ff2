"""Operators' use cases of constraints: read them, change them, and see their usage."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jqmaster.clock import Clock
from jqmaster.domain.constraint import (
    CID_LENGTH,
    Constraint,
    Limits,
    Override,
    gate_id,
    keeps_counts,
    key_of,
    needs_rematch,
    new_cid,
    read_key,
)
from jqmaster.domain.content import ContentAccess
from jqmaster.domain.job import Job, JobSpec
from jqmaster.domain.key_value import canonical, key_value
from jqmaster.domain.limit_kinds import ConstraintError
from jqmaster.domain.matcher import MISSING, check_scalar
from jqmaster.errors import InvalidError, NotFoundError, PreconditionFailedError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import RuleCache
from jqmaster.service.constraints.documents import (
    describe,
    describe_override,
    draft_of,
    parse_key,
    parse_matcher_document,
    refusal,
    refusing,
)
from jqmaster.service.constraints.preview import MAX_TOP_KEYS, Preview, Previews
from jqmaster.store import codec
from jqmaster.store.constraints.constraints import ETAG_LENGTH, Change, Rules, RuleStore, StoredConstraint
from jqmaster.store.constraints.usage import GateUsage, SlotUsage, UsageStore
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.placement import fields_of

# Each time somebody else changed the same constraint in between.
MAX_REPEATS: Final = 20
MAX_HOLDERS: Final = 50
# In a list, of those constraints with a key that have the fewest values.
MAX_LISTED_GATES: Final = 1_000
# A larger document is not kept in the audit log, only how large it was.
MAX_AUDITED_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Precondition:
    """A precondition on the current constraint. None: no condition; an empty set: it never holds."""

    # One of these ETags; `*` stands for any.
    match: frozenset[str] | None = None
    # None of these ETags; `*`: there must be no such constraint.
    none_match: frozenset[str] | None = None

    def check(self, name: str, present: StoredConstraint | None) -> None:
        """Raise PreconditionFailedError unless the precondition holds."""
        etag = present.etag if present else None
        if self.match is not None and (etag is None or not self.match & {etag, "*"}):
            what = "was deleted, or never was" if etag is None else "was changed by somebody else"
            raise PreconditionFailedError(f"constraint {name} {what}; read it again")
        if self.none_match is not None and etag is not None and self.none_match & {etag, "*"}:
            raise PreconditionFailedError(f"constraint {name} exists", code="constraint_exists")


ANYHOW: Final = Precondition()


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """One value of a key: what holds for it, and its use."""

    gate: GateUsage
    text: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class Usage:
    """Current usage of a constraint. None: not counted, or not summed up in a list with too many key values.

    `next_opening_ms`: the first instant at which one of its closed gates opens by time alone. `is_in_force`: every job
    has been matched with the constraint as it is. `is_exact` False: it has more values than were looked at.
    """

    waiting: int | None
    running: int | None
    starts: int | None
    shadow_delayed: int
    next_opening_ms: int | None
    is_in_force: bool
    keys: int | None
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Detail:
    """A constraint with its use; `asked` is that of the value that was asked for."""

    stored: StoredConstraint
    usage: Usage
    held_until_ms: int | None
    top_keys: list[KeyUsage]
    asked: KeyUsage | None
    holders: list[SlotUsage]


@dataclass(frozen=True, slots=True)
class AppliedConstraint:
    """A constraint as it is for one job; `key_text` None: it has no key."""

    constraint: Constraint
    key_text: str | None
    limits: Limits


class ConstraintService:
    """`clock` bounds how long a preview may take. `audience`: what readers of the audit log may see at most."""

    def __init__(
        self,
        store: RuleStore,
        rules: RuleCache,
        usage: UsageStore,
        clock: Clock,
        store_time_ms: Callable[[], Awaitable[int]],
        *,
        audience: LiveValue[ContentAccess],
    ) -> None:
        self._audience = audience
        self._store = store
        self._rules = rules
        self._usage = usage
        self._previews = Previews(store, usage, clock)
        self._store_time_ms = store_time_ms

    # --- reading

    async def all(self) -> list[tuple[StoredConstraint, Usage]]:
        """Return every constraint by name, with its usage, summed over at most MAX_LISTED_GATES key values."""
        rules = await self._rules.reload()
        unsettled = await self._unsettled(rules)
        cids = [stored.constraint.cid for stored in rules.stored]
        counts = dict(zip(cids, await self._usage.counts(cids), strict=True))
        keyed = {s.constraint.cid: counts[s.constraint.cid][0] for s in rules.stored if s.constraint.key}
        looked_at = _smallest(keyed, MAX_LISTED_GATES)
        wanted = [gate_id(s.constraint.cid, None) for s in rules.stored if s.constraint.key is None]
        wanted += await self._usage.first_gates({cid: keyed[cid] for cid in looked_at})
        gates: dict[str, list[GateUsage]] = {}
        for gate in await self._usage.gates(wanted):
            gates.setdefault(gate.gate_id[:CID_LENGTH], []).append(gate)
        found = []
        for stored in rules.stored:
            cid = stored.constraint.cid
            keys, delayed = counts[cid]
            in_force = unsettled is not None and cid not in unsettled
            if cid in keyed and cid not in looked_at:
                usage = Usage(None, None, None, delayed, None, in_force, keys, is_exact=False)
            else:
                usage = _usage(stored.constraint, gates.get(cid, []), delayed, in_force, keys)
            found.append((stored, usage))
        return found

    async def get(self, name: str, value: "AskedValue | None", access: ContentAccess) -> Detail:
        """Return a constraint. Raise NotFoundError; InvalidError for a value if it has no key; ForbiddenError for one that the
        caller may not see."""
        rules = await self._rules.reload()
        stored = rules.named(name)
        if stored is None:
            raise _unknown(name)
        constraint = stored.constraint
        if value is not None and constraint.key is None:
            raise _no_key(("query", "value"))
        if value is not None:
            access.check_path(constraint.key, ("query", "value"))
        unsettled = await self._unsettled(rules)
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
                asked = KeyUsage(gate, key.text, constraint.limits_of(key))
        gates.sort(key=lambda gate: (-gate.waiting, -(gate.running or 0), gate.gate_id))
        usage = _usage(constraint, gates, delayed, in_force, keys, is_exact=len(gates) >= total)
        return Detail(
            stored,
            usage,
            gates[0].held_until_ms if constraint.key is None else None,
            [] if constraint.key is None else self._top_keys(constraint, gates),
            asked,
            await self._usage.holders([asked.gate] if asked else gates, MAX_HOLDERS),
        )

    @staticmethod
    def _top_keys(constraint: Constraint, gates: Sequence[GateUsage]) -> list[KeyUsage]:
        special = {
            gate_id(constraint.cid, key): constraint.limits_of(key)
            for key in (key_value(override.value) for override in constraint.overrides)
        }
        own = constraint.limits_of(None)
        return [KeyUsage(gate, gate.text, special.get(gate.gate_id, own)) for gate in gates[:MAX_TOP_KEYS]]

    async def _unsettled(self, rules: Rules) -> frozenset[str] | None:
        """Return the constraints whose change is not followed up yet; None: none is, because jobs are still being matched."""
        edition = rules.ruleset.edition
        if rules.settled_edition != edition or await self._usage.has_older_lanes(edition):
            return None
        return frozenset(cid for cid, _ in await self._store.reopened())

    async def matching(self, job: Job) -> list[str]:
        """Names of the enabled constraints that apply to an unfinished job, in order."""
        rules = await self._rules.reload()
        return [constraint.name for constraint in rules.ruleset.matching(fields_of(job))]

    async def applying(self, spec: JobSpec, access: ContentAccess) -> list[AppliedConstraint]:
        """Return the constraints that would apply to a job that is not enqueued yet, in order, with the limits for its key value; of a
        value that the caller may not see, with what holds for all."""
        fields = fields_of(spec)
        rules = await self._rules.reload()
        found = []
        for constraint in rules.ruleset.matching(fields):
            key = key_of(constraint, fields) if constraint.key else None
            text = access.key_text(constraint.key, key.text) if key else None
            is_shown = key is not None and text == key.text
            limits = constraint.limits_of(key if is_shown else None)
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
    ) -> Preview:
        """Which of the waiting jobs a constraint would apply to. Raise InvalidError, OverloadedError, ForbiddenError for
        what the caller may not tell jobs apart by."""
        parsed, path = parse_matcher_document(matcher), parse_key(key)
        access.check_matcher(parsed.document, ("matcher",))
        access.check_path(path, ("key",))
        return await self._previews.run(parsed, path, limit, who=who, most_per_minute=most_per_minute)

    # --- changing

    async def put(
        self,
        name: str,
        fields: Mapping[str, Any],
        who: str,
        access: ContentAccess,
        demands: Precondition = ANYHOW,
    ) -> tuple[StoredConstraint, bool]:
        """Create or replace the constraint; return it, and whether it is new. A request that changes nothing writes nothing. `fields` are those of
        the document; a part that was shown covered, and is sent back so, stays as it is.

        Raises InvalidError, ForbiddenError for what the caller may not tell jobs apart by, PreconditionFailedError,
        ConflictError when there are too many, StoreUnavailableError when others change it all the time.
        """

        def make(old: StoredConstraint | None) -> Constraint:
            old_one = old.constraint if old else None
            draft = draft_of(name, _uncovered(fields, old_one, access) if old_one else fields)
            _check_content(draft, old_one, access)
            return draft

        stored, old = await self._change(
            name, make, who=who, demands=demands, action="constraint.put", describe_part=_whole
        )
        return stored, old is None

    async def put_value(
        self,
        name: str,
        addressed: "AskedValue | str",
        limits: Limits,
        who: str,
        access: ContentAccess,
        *,
        demands: Precondition = ANYHOW,
    ) -> StoredConstraint:
        """Set the override for one value of its key, or remove it if it neither limits nor pauses. `addressed`: the
        value, or the ID of a job that has it, for a caller who may not see it.

        Raises NotFoundError, InvalidError, ForbiddenError for a value that the caller may not see, and as `put`.
        """
        job = await self._job(addressed) if isinstance(addressed, str) else None

        def value_of(constraint: Constraint) -> object:
            if isinstance(addressed, AskedValue):
                access.check_path(constraint.key, ("value",))
                return addressed.value
            value = read_key(constraint, fields_of(job)) if job else MISSING
            if value is MISSING:
                raise refusal(("job_id",), "the job has no value of the key")
            return value

        def make(old: StoredConstraint | None) -> Constraint:
            if old is None:
                raise _unknown(name)
            if old.constraint.key is None:
                raise _no_key(("value",))
            value = value_of(old.constraint)
            return _with_override(old.constraint, _canonical_scalar(value), value, limits)

        def part(constraint: Constraint | None) -> dict[str, Any] | None:
            if constraint is None:
                return None
            value = value_of(constraint)
            wanted = canonical(value)
            found = next((o for o in constraint.overrides if canonical(o.value) == wanted), None)
            return {"key": str(constraint.key), **describe_override(found or Override(value, Limits()))}

        stored, _ = await self._change(
            name, make, who=who, demands=demands, action="constraint.value", describe_part=part
        )
        return stored

    async def delete(self, name: str, who: str, demands: Precondition = ANYHOW) -> None:
        """Its jobs are free at once. Raise NotFoundError, PreconditionFailedError."""
        for _ in range(MAX_REPEATS):
            rules = await self._rules.reload()
            present = rules.named(name)
            demands.check(name, present)
            if present is None:
                raise _unknown(name)
            entry = encode_entry(
                who=who,
                action="constraint.delete",
                target=name,
                before=self._audited(_whole(present.constraint)),
                after=None,
            )
            change = Change(
                name, present.etag, None, present.constraint, is_rematched=False, audit_entry=entry
            )
            if await self._store.change(change):
                await self._rules.reload()
                return
        raise _too_busy(name)

    def _audited(self, document: dict[str, Any] | None) -> dict[str, Any] | None:
        if document is None:
            return None
        document = self._audience.current.constraint(document)
        if (size := len(codec.pack(document))) <= MAX_AUDITED_BYTES:
            return document
        return {**document, "matcher": None, "overrides": None, "omitted_bytes": size}

    async def _job(self, job_id: str) -> Job:
        found = await self._usage.jobs([job_id], with_argument=True)
        if not found:
            raise NotFoundError(f"no job {job_id[:64]}", code="unknown_job")
        return found[0]

    async def _change(
        self,
        name: str,
        make: Callable[[StoredConstraint | None], Constraint],
        *,
        who: str,
        demands: Precondition,
        action: str,
        describe_part: Callable[[Constraint | None], dict[str, Any] | None],
    ) -> tuple[StoredConstraint, StoredConstraint | None]:
        """Return the constraint as it now is, and as it was."""
        for _ in range(MAX_REPEATS):
            rules = await self._rules.reload()
            present = rules.named(name)
            demands.check(name, present)
            new = make(present)
            old = present.constraint if present else None
            if present and old and _same(old, new):
                return present, present
            new = replace(new, cid=old.cid if old and keeps_counts(old, new) else new_cid())
            now_ms = await self._store_time_ms()
            stored = StoredConstraint(
                new, os.urandom(ETAG_LENGTH // 2).hex(), present.created_at_ms if present else now_ms, now_ms
            )
            entry = encode_entry(
                who=who,
                action=action,
                target=name,
                before=self._audited(describe_part(old)) if old else None,
                after=self._audited(describe_part(new)),
            )
            change = Change(
                name, present.etag if present else "", stored, old, needs_rematch(old, new), entry
            )
            if await self._store.change(change):
                await self._rules.reload()
                return stored, present
        raise _too_busy(name)


@dataclass(frozen=True, slots=True)
class AskedValue:
    """A value of a key; a class of its own because null is a value."""

    value: object


def _whole(constraint: Constraint | None) -> dict[str, Any] | None:
    return describe(constraint) if constraint else None


def _same(old: Constraint, new: Constraint) -> bool:
    # By their bytes: to Python 1 and True are equal.
    return codec.pack(describe(old)) == codec.pack(describe(new))


def _uncovered(fields: Mapping[str, Any], old: Constraint, access: ContentAccess) -> dict[str, Any]:
    """Return the fields, with the original values in place of covered ones that the caller sends back."""
    present = describe(old)
    shown = access.constraint(present)
    uncovered = dict(fields)
    for part in ("matcher", "overrides"):
        if shown[part] != present[part] and fields[part] == shown[part]:
            uncovered[part] = present[part]
    return uncovered


def _check_content(draft: Constraint, old: Constraint | None, access: ContentAccess) -> None:
    """Raise ForbiddenError if a new part of `draft` distinguishes jobs by content that the caller may not see."""
    if old is None or draft.matcher != old.matcher:
        access.check_matcher(draft.matcher.document, ("matcher",))
    if old is None or draft.key != old.key:
        access.check_path(draft.key, ("key",))
    elif draft.overrides != old.overrides:
        access.check_path(draft.key, ("overrides",))


def _with_override(constraint: Constraint, wanted: bytes, value: object, limits: Limits) -> Constraint:
    if constraint.key is None:
        raise _no_key(("value",))
    overrides = list(constraint.overrides)
    at = next((i for i, o in enumerate(overrides) if canonical(o.value) == wanted), len(overrides))
    overrides[at : at + 1] = [] if limits == Limits() else [Override(value, limits)]
    # The last override of a constraint that has nothing else leaves it, open to all: it would be no constraint else.
    paused = False if constraint.paused is None else constraint.paused
    try:
        return replace(constraint, overrides=tuple(overrides), paused=paused)
    except ConstraintError as error:
        # `overrides.N.rate.limit` is the request's `rate.limit`.
        loc = error.loc[2:] if len(error.loc) > 2 else error.loc
        raise refusal(loc, error.msg) from None


def _canonical_scalar(value: object) -> bytes:
    with refusing():
        check_scalar(value, ("value",))
    return canonical(value)


def _usage(
    constraint: Constraint,
    gates: Sequence[GateUsage],
    delayed: int,
    in_force: bool,
    keys: int,
    *,
    is_exact: bool = True,
) -> Usage:
    """Return the sums over these gates of a constraint."""
    openings = [gate.opens_at_ms for gate in gates if gate.opens_at_ms and gate.waiting]
    return Usage(
        waiting=sum(gate.waiting for gate in gates),
        running=_sum([gate.running for gate in gates]) if constraint.counted.slots else None,
        starts=_sum([gate.starts for gate in gates]) if constraint.counted.starts else None,
        shadow_delayed=delayed,
        next_opening_ms=min(openings, default=None),
        is_in_force=in_force,
        keys=None if constraint.key is None else keys,
        is_exact=is_exact,
    )


def _sum(counts: Sequence[int | None]) -> int:
    return sum(count or 0 for count in counts)


def _smallest(sizes: Mapping[str, int], room: int) -> frozenset[str]:
    """Return as many of these as fit together, smallest first."""
    found = set()
    for cid, size in sorted(sizes.items(), key=lambda pair: pair[1]):
        room -= size
        if room < 0:
            break
        found.add(cid)
    return frozenset(found)


def _no_key(loc: tuple[str | int, ...]) -> InvalidError:
    return refusal(loc, "the constraint has no key, and so no values")


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"no constraint {name[:100]}", code="unknown_constraint")


def _too_busy(name: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"constraint {name} changes faster than it can be followed", retry_after_s=1.0
    )
