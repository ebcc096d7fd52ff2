"""What operators do with constraints: look at them, change them, and see what they do."""

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jqmaster.clock import Clock
from jqmaster.domain.constraint import (
    Constraint,
    ConstraintError,
    Limits,
    Mode,
    Override,
    Rate,
    check_key,
    gate_id,
    keeps_counts,
    needs_rematch,
    new_cid,
)
from jqmaster.domain.job import Job
from jqmaster.domain.key_value import KeyValue, canonical, key_value
from jqmaster.domain.matcher import (
    MISSING,
    Matcher,
    MatcherError,
    Path,
    check_scalar,
    parse_matcher,
    parse_path,
)
from jqmaster.errors import (
    FieldError,
    InvalidError,
    NotFoundError,
    OverloadedError,
    PreconditionFailedError,
    StoreUnavailableError,
)
from jqmaster.service.rules import RuleCache
from jqmaster.store import codec
from jqmaster.store.audit import encode_entry
from jqmaster.store.placement import fields_of
from jqmaster.store.rules import ETAG_LENGTH, Change, Rules, RuleStore, StoredConstraint
from jqmaster.store.usage import GateUsage, Holder, UsageStore, WaitingLane

# Each time somebody else changed the same constraint in between.
MAX_REPEATS: Final = 20
MAX_TOP_KEYS: Final = 20
MAX_HOLDERS: Final = 50
MAX_EXAMPLES: Final = 20
# A preview reads no more jobs than this, and no longer.
PREVIEW_MAX_JOBS: Final = 100_000
PREVIEW_MAX_S: Final = 2.0
# Whoever may look at constraints may ask for previews; they shall not keep the store from its work.
MAX_PREVIEWS: Final = 2
# They have a meaning of their own in a path.
RESERVED_NAMES: Final = frozenset({".", "..", "preview"})
# A larger document is not kept in the audit log, only how large it was.
MAX_AUDITED_BYTES: Final = 16 * 1024

_DRAFT_CID: Final = "0" * 8
_ABSURD_S: Final = 1e12


@dataclass(frozen=True, slots=True)
class Precondition:
    """What the caller demands of the constraint as it is. None: nothing; an empty set: nothing fits."""

    # One of these ETags; `*` stands for any.
    match: frozenset[str] | None = None
    # None of these ETags; `*`: there must be no such constraint.
    none_match: frozenset[str] | None = None

    def check(self, name: str, present: StoredConstraint | None) -> None:
        """Raises PreconditionFailedError."""
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
    """What a constraint does now; None: not counted, or in a list not summed up over the values of a key.

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
    holders: list[Holder]


@dataclass(frozen=True, slots=True)
class Preview:
    """Which waiting jobs a constraint would apply to. `without_key`: matching jobs that lack the key."""

    count: int
    without_key: int
    looked_at: int
    is_exact: bool
    examples: list[Job]
    keys: list[tuple[str, int]] | None
    distinct_keys: int | None


class ConstraintService:
    """`clock` bounds how long a preview may take."""

    def __init__(
        self,
        store: RuleStore,
        rules: RuleCache,
        usage: UsageStore,
        clock: Clock,
        store_time_ms: Callable[[], Awaitable[int]],
    ) -> None:
        self._store = store
        self._rules = rules
        self._usage = usage
        self._clock = clock
        self._store_time_ms = store_time_ms
        self._previews = 0

    # --- reading

    async def all(self) -> list[tuple[StoredConstraint, Usage]]:
        """Every constraint by name, with what is cheap to know of its use."""
        rules = await self._rules.reload()
        unsettled = await self._unsettled(rules)
        cids = [stored.constraint.cid for stored in rules.stored]
        unkeyed = [gate_id(s.constraint.cid, None) for s in rules.stored if s.constraint.key is None]
        gates = {gate.gate_id: gate for gate in await self._usage.gates(unkeyed)}
        found = []
        for stored, (keys, delayed) in zip(rules.stored, await self._usage.counts(cids), strict=True):
            cid = stored.constraint.cid
            gate = gates.get(gate_id(cid, None))
            in_force = unsettled is not None and cid not in unsettled
            if gate is None:
                usage = Usage(None, None, None, delayed, None, in_force, keys, is_exact=False)
            else:
                usage = Usage(
                    gate.waiting, gate.running, gate.starts, delayed, gate.opens_at_ms, in_force, None
                )
            found.append((stored, usage))
        return found

    async def get(self, name: str, value: "AskedValue | None" = None) -> Detail:
        """Raises NotFoundError; InvalidError for a value of a constraint that has no key."""
        rules = await self._rules.reload()
        stored = rules.named(name)
        if stored is None:
            raise _unknown(name)
        constraint = stored.constraint
        if value is not None and constraint.key is None:
            raise _no_key(("query", "value"))
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
        openings = [gate.opens_at_ms for gate in gates if gate.opens_at_ms and gate.waiting]
        usage = Usage(
            waiting=sum(gate.waiting for gate in gates),
            running=_sum([gate.running for gate in gates]) if constraint.counted.slots else None,
            starts=_sum([gate.starts for gate in gates]) if constraint.counted.starts else None,
            shadow_delayed=delayed,
            next_opening_ms=min(openings, default=None),
            is_in_force=in_force,
            keys=None if constraint.key is None else keys,
            is_exact=len(gates) >= total,
        )
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
        """Constraints whose change is not yet followed up; None: none is, for jobs are still being matched."""
        edition = rules.ruleset.edition
        if rules.settled_edition != edition or await self._usage.has_older_lanes(edition):
            return None
        return frozenset(cid for cid, _ in await self._store.reopened())

    async def matching(self, job: Job) -> list[str]:
        """Names of the enabled constraints that apply to an unfinished job, in order."""
        rules = await self._rules.reload()
        return [constraint.name for constraint in rules.ruleset.matching(fields_of(job))]

    async def preview(self, matcher: object, key: object, limit: int) -> Preview:
        """Which of the waiting jobs a constraint would apply to. Raises InvalidError, OverloadedError."""
        try:
            parsed = parse_matcher(matcher)
        except MatcherError as error:
            raise _refused(("matcher", *error.loc), error.msg) from None
        path = parse_key(key)
        if self._previews >= MAX_PREVIEWS:
            raise OverloadedError("other previews are under way", retry_after_s=PREVIEW_MAX_S)
        self._previews += 1
        try:
            return await _Scan(self._store, self._usage, self._clock, limit).run(parsed, path)
        finally:
            self._previews -= 1

    # --- changing

    async def put(
        self, name: str, draft: Constraint, who: str, demands: Precondition = ANYHOW
    ) -> tuple[StoredConstraint, bool]:
        """Makes it so; the constraint, and whether it is new. What changes nothing leaves no trace.

        Raises PreconditionFailedError, ConflictError when there are too many, StoreUnavailableError when others change
        it all the time.
        """

        def make(_: StoredConstraint | None) -> Constraint:
            return draft

        stored, old = await self._change(
            name, make, who=who, demands=demands, action="constraint.put", describe_part=_whole
        )
        return stored, old is None

    async def put_value(
        self, name: str, value: object, limits: Limits, who: str, demands: Precondition = ANYHOW
    ) -> StoredConstraint:
        """Sets what holds for one value of its key; no limit of its own and not paused: as for all values.

        Raises NotFoundError, InvalidError, and as `put`.
        """
        wanted = _canonical_scalar(value)

        def make(old: StoredConstraint | None) -> Constraint:
            if old is None:
                raise _unknown(name)
            return _with_override(old.constraint, wanted, value, limits)

        def part(constraint: Constraint | None) -> dict[str, Any]:
            found = next((o for o in constraint.overrides if canonical(o.value) == wanted), None) if constraint else None  # fmt: skip
            return describe_override(found or Override(value, Limits()))

        stored, _ = await self._change(
            name, make, who=who, demands=demands, action="constraint.value", describe_part=part
        )
        return stored

    async def delete(self, name: str, who: str, demands: Precondition = ANYHOW) -> None:
        """Its jobs are free at once. Raises NotFoundError, PreconditionFailedError."""
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
                before=_audited(_whole(present.constraint)),
                after=None,
            )
            change = Change(
                name, present.etag, None, present.constraint, is_rematched=False, audit_entry=entry
            )
            if await self._store.change(change):
                await self._rules.reload()
                return
        raise _too_busy(name)

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
        """The constraint as it now is, and as it was."""
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
                before=_audited(describe_part(old)) if old else None,
                after=_audited(describe_part(new)),
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


class _Scan:
    """One walk over what waits. Whole lanes are judged by the name alone where that decides."""

    def __init__(self, store: RuleStore, usage: UsageStore, clock: Clock, limit: int) -> None:
        self._store = store
        self._usage = usage
        self._clock = clock
        self._limit = limit
        self._ends_at_s = clock.monotonic_s() + PREVIEW_MAX_S
        self._seen: set[str] = set()
        self._count = 0
        self._without_key = 0
        self._is_exact = True
        self._examples: list[Job] = []
        self._keys: Counter[KeyValue] = Counter()

    async def run(self, matcher: Matcher, key: Path | None) -> Preview:
        reader = key.reader() if key else None
        with_argument = "argument" in matcher.reads or (key is not None and key.root == "argument")

        async def look_at(job_ids: Sequence[str]) -> None:
            fresh = [job_id for job_id in dict.fromkeys(job_ids) if job_id not in self._seen]
            self._seen.update(fresh)
            for job in await self._usage.jobs(fresh, with_argument=with_argument):
                fields = fields_of(job)
                if not matcher.matches(fields):
                    continue
                if reader is not None:
                    value = reader(fields)
                    if value is MISSING:
                        self._without_key += 1
                        continue
                    self._keys[key_value(value)] += 1
                self._count += 1
                if len(self._examples) < self._limit:
                    self._examples.append(job)

        await self._walk(matcher, look_at, needs_each=key is not None)
        return Preview(
            self._count,
            self._without_key,
            len(self._seen),
            self._is_exact,
            self._examples,
            None if key is None else [(k.text, n) for k, n in self._keys.most_common(MAX_TOP_KEYS)],
            None if key is None else len(self._keys),
        )

    async def _walk(
        self, matcher: Matcher, look_at: Callable[[Sequence[str]], Awaitable[None]], *, needs_each: bool
    ) -> None:
        async for lanes in self._usage.lanes():
            unread: list[WaitingLane] = []
            for lane in lanes:
                verdict = matcher.given_name(lane.name)
                if verdict is None or (verdict and needs_each):
                    unread.append(lane)
                elif verdict:
                    missing = self._limit - len(self._examples)
                    if missing > 0:
                        async for ids in self._usage.ready_in([lane], min(missing, MAX_EXAMPLES)):
                            self._examples += (await self._usage.jobs(ids, with_argument=False))[:missing]
                    self._count += lane.count
            async for ids in self._usage.ready_in(unread, PREVIEW_MAX_JOBS):
                if self._is_over():
                    return
                await look_at(ids)
            if self._is_over():
                return
        async for ids in self._store.waiting_for_time():
            if self._is_over():
                return
            await look_at(ids)

    def _is_over(self) -> bool:
        if len(self._seen) >= PREVIEW_MAX_JOBS or self._clock.monotonic_s() > self._ends_at_s:
            self._is_exact = False
            return True
        return False


# --- documents


def draft_of(name: str, fields: Mapping[str, Any]) -> Constraint:
    """A constraint of a checked request: `fields` are those of the document. Raises InvalidError naming the rule."""
    if name in RESERVED_NAMES:
        raise _refused(("name",), "is a path of its own, and so no name")
    try:
        return Constraint(
            name=name,
            cid=_DRAFT_CID,
            matcher=parse_matcher(fields["matcher"]),
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
    except MatcherError as error:
        raise _refused(("matcher", *error.loc), error.msg) from None
    except ConstraintError as error:
        raise _refused(error.loc, error.msg) from None


def parse_key(text: object) -> Path | None:
    """The path of a `key`, None where there is none. Raises InvalidError."""
    if text is None:
        return None
    try:
        path = parse_path(text)
        check_key(path)
    except MatcherError as error:
        raise _refused(("key", *error.loc), error.msg) from None
    except ConstraintError as error:
        raise _refused(error.loc, error.msg) from None
    return path


def limits_of(fields: Mapping[str, Any]) -> Limits:
    """Of `{concurrency, rate, paused}`, checked for its types only."""
    return Limits(fields["concurrency"], _rate_of(fields["rate"]), bool(fields["paused"]))


def _rate_of(fields: Mapping[str, Any] | None) -> Rate | None:
    if fields is None:
        return None
    # What is absurd stays so, and is refused with its rule; as milliseconds it might be infinite.
    return Rate(fields["limit"], round(max(-1.0, min(fields["period_s"], _ABSURD_S)) * 1000))


def describe(constraint: Constraint) -> dict[str, Any]:
    """The document of a constraint, as clients write and read it."""
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
    """One of `overrides`."""
    return {"value": override.value, **describe_limits(override.limits)}


def describe_limits(limits: Limits) -> dict[str, Any]:
    return {
        "concurrency": limits.concurrency,
        "rate": describe_rate(limits.rate),
        "paused": limits.paused,
    }


def describe_rate(rate: Rate | None) -> dict[str, Any] | None:
    return None if rate is None else {"limit": rate.limit, "period_s": rate.period_ms / 1000}


def _whole(constraint: Constraint | None) -> dict[str, Any] | None:
    return describe(constraint) if constraint else None


def _same(old: Constraint, new: Constraint) -> bool:
    # By their bytes: to Python 1 and True are equal.
    return codec.pack(describe(old)) == codec.pack(describe(new))


def _audited(document: dict[str, Any] | None) -> dict[str, Any] | None:
    if document is None or (size := len(codec.pack(document))) <= MAX_AUDITED_BYTES:
        return document
    return {**document, "matcher": None, "overrides": None, "omitted_bytes": size}


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
        raise _refused(loc, error.msg) from None


def _canonical_scalar(value: object) -> bytes:
    try:
        check_scalar(value, ("value",))
    except MatcherError as error:
        raise _refused(error.loc, error.msg) from None
    return canonical(value)


def _sum(counts: Sequence[int | None]) -> int:
    return sum(count or 0 for count in counts)


def _refused(loc: tuple[str | int, ...], msg: str) -> InvalidError:
    return InvalidError("the constraint is not valid", errors=[FieldError(loc, msg)])


def _no_key(loc: tuple[str | int, ...]) -> InvalidError:
    return _refused(loc, "the constraint has no key, and so no values")


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"no constraint {name[:100]}", code="unknown_constraint")


def _too_busy(name: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"constraint {name} changes faster than it can be followed", retry_after_s=1.0
    )
