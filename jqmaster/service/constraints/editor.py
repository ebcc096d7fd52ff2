"""Changes constraints for operators."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from jqmaster.domain.constraints.constraint import (
    Constraint,
    GateLimits,
    Override,
    check_key_value,
    keeps_counts,
    needs_rematch,
    new_cid,
    read_key,
)
from jqmaster.domain.constraints.limit_kind import ConstraintError
from jqmaster.domain.constraints.turns import ProportionalTurns
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.jobs.job import Job
from jqmaster.domain.matching.fields import MISSING
from jqmaster.domain.matching.key_value import canonical
from jqmaster.errors import NotFoundError, PreconditionFailedError, after_it_was_done
from jqmaster.lifecycle import EntriesApart
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.constraints.documents import (
    describe,
    describe_override,
    draft_of,
    refusal,
    refusing,
)
from jqmaster.service.constraints.key_values import KeyValues, ValueId
from jqmaster.service.constraints.reader import AskedValue, no_key, unknown_constraint
from jqmaster.service.named_objects import ANYHOW, Precondition, Tries
from jqmaster.store import codec
from jqmaster.store.constraints.constraints import Change, ConstraintStore
from jqmaster.store.constraints.documents import StoredConstraint
from jqmaster.store.constraints.usage import UsageStore
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.placement import fields_of
from jqmaster.store.named_documents import new_etag

# Maximum size of a document in the audit log. For a larger document, the audit log has only the size.
MAX_AUDITED_BYTES: Final = 16 * 1024


class ConstraintEditor:
    """Creates, changes and removes constraints. `audience`: the most content that readers of the audit log may see.
    Methods raise what the store raises."""

    def __init__(
        self,
        store: ConstraintStore,
        constraints: ConstraintCache,
        usage: UsageStore,
        store_time_ms: Callable[[], Awaitable[int]],
        values: KeyValues,
        *,
        audience: LiveValue[ContentAccess],
    ) -> None:
        self._store = store
        self._constraints = constraints
        self._usage = usage
        self._store_time_ms = store_time_ms
        self._apart = EntriesApart("constraint_expiry")
        self._values = values
        self._audience = audience

    async def put(
        self,
        name: str,
        fields: Mapping[str, Any],
        who: str,
        access: ContentAccess,
        demands: Precondition = ANYHOW,
    ) -> tuple[StoredConstraint, bool]:
        """Create or replace the constraint. Return the constraint, and whether it is new. If nothing would change,
        write nothing. `fields`: the fields of the request. A hidden part that the caller sends back as it was shown
        keeps its value.

        Raise one of these errors:

        * InvalidError,
        * PreconditionFailedError,
        * ForbiddenError for content by which the caller may not distinguish jobs,
        * ConflictError if there are too many constraints,
        * OverloadedError if other callers keep changing the constraint.
        """

        def make(old: StoredConstraint | None) -> Constraint:
            old_one = old.constraint if old else None
            draft = draft_of(name, _uncovered(fields, old_one, access) if old_one else fields)
            _check_content(draft, old_one, access)
            return draft

        stored, old = await self._change(
            name, make, who=who, demands=demands, action="constraint.put", describe_part=_described
        )
        return stored, old is None

    async def put_value(
        self,
        name: str,
        addressed: AskedValue | ValueId | str,
        limits: GateLimits,
        who: str,
        access: ContentAccess,
        *,
        demands: Precondition = ANYHOW,
    ) -> StoredConstraint:
        """Set the override for one value of the constraint's key. If the new override neither limits nor pauses jobs,
        remove it. `addressed`: the value, its ID, or the ID of a job that has the value. A caller who may not see the
        value names a job.

        Raise NotFoundError, ForbiddenError for a value that the caller may not see, and what `put` raises.
        """
        if isinstance(addressed, ValueId):
            addressed = AskedValue(await self._value(name, addressed, access))
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
                raise unknown_constraint(name)
            if old.constraint.key is None:
                raise no_key(("value",))
            value = value_of(old.constraint)
            return _with_override(old.constraint, _canonical_value(value), value, limits)

        def part(constraint: Constraint | None) -> dict[str, Any] | None:
            if constraint is None:
                return None
            value = value_of(constraint)
            wanted = canonical(value)
            found = next((o for o in constraint.overrides if canonical(o.value) == wanted), None)
            return {"key": str(constraint.key), **describe_override(found or Override(value, GateLimits()))}

        stored, _ = await self._change(
            name, make, who=who, demands=demands, action="constraint.value", describe_part=part
        )
        return stored

    async def _value(self, name: str, wanted: ValueId, access: ContentAccess) -> object:
        stored = await self._present(name)
        if stored is None:
            raise unknown_constraint(name)
        if stored.constraint.key is None:
            raise no_key(("value_id",))
        access.check_path(stored.constraint.key, ("value_id",))
        return await self._values.find(stored.constraint, wanted)

    async def delete_expired(self, who: str) -> int | None:
        """Delete the expired constraints. Return when the next constraint expires. None: no constraint will expire."""
        expiring = [
            (stored.constraint.expires_at_ms, stored)
            for stored in (await self._constraints.reload()).stored
            if stored.constraint.expires_at_ms is not None
        ]
        now_ms = await self._store_time_ms() if expiring else 0
        for at_ms, stored in expiring:
            if at_ms <= now_ms:
                with (
                    self._apart.alone(stored.constraint.name),
                    contextlib.suppress(NotFoundError, PreconditionFailedError),
                ):
                    # Do not delete a constraint if somebody has changed its expiry since it was read.
                    await self.delete(
                        stored.constraint.name, who, Precondition(match=frozenset({stored.etag}))
                    )
        return min((at_ms for at_ms, _ in expiring if at_ms > now_ms), default=None)

    async def delete(self, name: str, who: str, demands: Precondition = ANYHOW) -> None:
        """Delete the constraint. From then on, it holds back no job. Raise NotFoundError, PreconditionFailedError."""
        tries = Tries("constraint", name)
        while True:
            present = await tries.read(self._present, demands)
            if present is None:
                raise unknown_constraint(name)
            entry = encode_entry(
                who=who,
                action="constraint.delete",
                target=name,
                before=self._audited(_described(present.constraint)),
                after=None,
            )
            change = Change(
                name, present.etag, None, present.constraint, is_rematched=False, audit_entry=entry
            )
            if await self._store.change(change):
                with after_it_was_done():
                    await self._constraints.reload()
                return

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
        """Replace the constraint by what `make` returns for it. Return the new version and the version before the
        change."""
        tries = Tries("constraint", name)
        while True:
            present = await tries.read(self._present, demands)
            new = make(present)
            old = present.constraint if present else None
            if present and old and _same(old, new):
                return present, present
            new = replace(new, cid=old.cid if old and keeps_counts(old, new) else _new_cid(new))
            now_ms = await self._store_time_ms()
            stored = StoredConstraint(
                new,
                new_etag(),
                present.created_at_ms if present else now_ms,
                now_ms,
                present.created_by if present else who,
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
                with after_it_was_done():
                    await self._constraints.reload()
                return stored, present

    async def _present(self, name: str) -> StoredConstraint | None:
        return (await self._constraints.reload()).named(name)

    def _audited(self, document: dict[str, Any] | None) -> dict[str, Any] | None:
        if document is None:
            return None
        document = self._audience.current.constraint(document)
        if (size := len(codec.pack(document))) <= MAX_AUDITED_BYTES:
            return document
        return {**document, "matcher": None, "overrides": None, "fair": None, "omitted_bytes": size}

    async def _job(self, job_id: str) -> Job:
        found = await self._usage.jobs([job_id], with_argument=True)
        if not found:
            raise NotFoundError(f"no job {job_id[:64]}", code="unknown_job")
        return found[0]


def _described(constraint: Constraint | None) -> dict[str, Any] | None:
    return describe(constraint) if constraint else None


def _same(old: Constraint, new: Constraint) -> bool:
    # Compare the encoded bytes, because Python treats 1 and True as equal.
    return codec.pack(describe(old)) == codec.pack(describe(new))


def _uncovered(fields: Mapping[str, Any], old: Constraint, access: ContentAccess) -> dict[str, Any]:
    """Return the fields of a request. If the caller has sent back a hidden value as it was shown, put the original
    value in its place."""
    present = describe(old)
    shown = access.constraint(present)
    uncovered = dict(fields)
    for part in ("matcher", "overrides", "fair", "reserve"):
        if shown[part] != present[part] and _as_shown(fields[part]) == shown[part]:
            uncovered[part] = present[part]
    return uncovered


def _as_shown(part: object) -> object:
    """Return a part of a request in the form in which it is shown: an override without a condition has no `match`."""
    if not isinstance(part, list):
        return part
    return [{name: value for name, value in one.items() if name != "match" or value} for one in part]


def _check_content(draft: Constraint, old: Constraint | None, access: ContentAccess) -> None:
    """Raise ForbiddenError if a changed part of `draft` distinguishes jobs by content that the caller may not see."""
    if old is None or draft.matcher != old.matcher:
        access.check_matcher(draft.matcher.document, ("matcher",))
    if old is None or draft.key != old.key:
        access.check_path(draft.key, ("key",))
    elif draft.overrides != old.overrides:
        access.check_path(draft.key, ("overrides",))
    elif draft.fair != old.fair and isinstance(draft.fair, ProportionalTurns) and draft.fair.shares:
        access.check_path(draft.key, ("fair", "weights"))
    for field in ("conditions", "reserve"):
        if old is None or getattr(draft, field) != getattr(old, field):
            for one in getattr(draft, field):
                place = "overrides" if field == "conditions" else field
                access.check_matcher(one.matcher.document, (place,))
    if draft.weight and (old is None or draft.weight != old.weight):
        access.check_path(draft.weight.path, ("weight", "from"))


def _new_cid(constraint: Constraint) -> str:
    return new_cid(is_weighted=constraint.weight is not None)


def _with_override(constraint: Constraint, wanted: bytes, value: object, limits: GateLimits) -> Constraint:
    if constraint.key is None:
        raise no_key(("value",))
    overrides = list(constraint.overrides)
    at = next((i for i, o in enumerate(overrides) if canonical(o.value) == wanted), len(overrides))
    overrides[at : at + 1] = [] if limits == GateLimits() else [Override(value, limits)]
    # A constraint without any limit is not valid. If the last override is removed and no limit is left, set
    # `paused=False`. It keeps the constraint valid and has no effect.
    paused = False if constraint.paused is None else constraint.paused
    try:
        return replace(constraint, overrides=tuple(overrides), paused=paused)
    except ConstraintError as error:
        # Name the field as in the request: `rate.limit` instead of `overrides.N.rate.limit`.
        loc = error.loc[2:] if len(error.loc) > 2 else error.loc
        raise refusal(loc, error.msg) from None


def _canonical_value(value: object) -> bytes:
    with refusing():
        check_key_value(value, ("value",))
    return canonical(value)
