"""Operators' decisions about groups of failures: who looks after a group, in which version it is resolved, and which
groups count as one."""

import logging
from typing import Any

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.jobs.failures import GroupedFailures
from jqmaster.domain.jobs.triage import AssignedPerson, Merge, Resolution
from jqmaster.errors import FieldError, invalid
from jqmaster.service.jobs.failures import FailureReader, ShownFailures, unknown_group
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.operations.failure_triage import FailureTriageStore, TriagePart

logger = logging.getLogger(__name__)


class FailureTriage:
    """Assigns, resolves, reopens, merges and splits groups of failures. Methods return the group as the caller may see
    it. They raise what the store raises, and NotFoundError if no group has the ID. Callers that may not see job content
    never get the ID of a group."""

    def __init__(self, store: FailureTriageStore, reader: FailureReader) -> None:
        self._store = store
        self._reader = reader

    async def assign(
        self, group_id: str, assignee: str | None, *, who: str, access: ContentAccess
    ) -> ShownFailures:
        """Assign the group to the person `assignee`. None: assign it to nobody."""
        group = await self._reader.existing(group_id)
        assignment = AssignedPerson(assignee, who, await self._store.now_ms()) if assignee else None
        before = group.assignment.assignee if group.assignment else None
        entry = _entry(group, who, "failure.assign", {"assignee": before}, {"assignee": assignee})
        return await self._put(group, "assignment", assignment, entry, access)

    async def resolve(self, group_id: str, version: str, *, who: str, access: ContentAccess) -> ShownFailures:
        """Mark the group as resolved in a version of the workers. `version`: if empty, the next version."""
        group = await self._reader.existing(group_id)
        known = tuple(seen.version for seen in group.versions)
        resolution = Resolution(who, await self._store.now_ms(), version, known)
        entry = _entry(
            group, who, "failure.resolve", _resolved(group), {"resolved": True, "version": version or None}
        )
        return await self._put(group, "resolution", resolution, entry, access)

    async def reopen(self, group_id: str, *, who: str, access: ContentAccess) -> ShownFailures:
        """Mark the group as not resolved."""
        group = await self._reader.existing(group_id)
        entry = _entry(group, who, "failure.reopen", _resolved(group), {"resolved": False, "version": None})
        return await self._put(group, "resolution", None, entry, access)

    async def merge(self, group_id: str, into: str, *, who: str, access: ContentAccess) -> ShownFailures:
        """Merge the group into `into`, a group of the same job name, and return the merged group. Raise InvalidError if
        the two cannot be merged."""
        group, target = await self._reader.existing(group_id), await self._reader.existing(into)
        if group.id == target.id:
            raise invalid([FieldError(("into",), "must be another group")])
        if group.name != target.name:
            raise invalid([FieldError(("into",), "must be a group of the same job name")])
        merge = Merge(target.id, who, await self._store.now_ms())
        entry = _entry(group, who, "failure.merge", {"into": None}, {"into": target.id})
        if not await self._store.put(group.id, "merge", merge, entry):
            raise unknown_group(group.id)
        return await self._shown(target.id, access)

    async def split(self, group_id: str, *, who: str, access: ContentAccess) -> ShownFailures:
        """Separate a merged group again, and return it."""
        target = await self._reader.existing(group_id)
        group = next((one for one in target.merged if one.id == group_id), target)
        entry = _entry(group, who, "failure.split", {"into": target.id}, {"into": None})
        if not await self._store.put(group_id, "merge", None, entry):
            raise unknown_group(group_id)
        return await self._shown(group_id, access)

    async def _shown(self, group_id: str, access: ContentAccess) -> ShownFailures:
        (shown,) = await self._reader.shown([await self._reader.existing(group_id)], access)
        return shown

    async def _put(
        self,
        group: GroupedFailures,
        part: TriagePart,
        decision: AssignedPerson | Resolution | None,
        entry: bytes,
        access: ContentAccess,
    ) -> ShownFailures:
        if not await self._store.put(group.id, part, decision, entry):
            raise unknown_group(group.id)
        return await self._shown(group.id, access)


def _entry(
    group: GroupedFailures, who: str, action: str, before: dict[str, Any], after: dict[str, Any]
) -> bytes:
    """Encode an audit entry. The entry leaves out the message of the failure, which not everybody may see."""
    kind = {"name": group.name, "cause": group.cause}
    return encode_entry(who=who, action=action, target=group.id, before=kind | before, after=kind | after)


def _resolved(group: GroupedFailures) -> dict[str, Any]:
    return {
        "resolved": group.resolution is not None,
        "version": (group.resolution.version or None) if group.resolution else None,
    }
