"""Operators' actions to ignore a group of failures, and to stop ignoring it."""

import logging
from typing import Any, Final

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.failures import GroupedFailures, Ignore
from jqmaster.service.jobs.failures import FailureReader, ShownFailures, unknown_group
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.operations.history import HistoryStore

logger = logging.getLogger(__name__)

MAX_REASON: Final = 500
MAX_IGNORE_S: Final = 366 * 86_400


class FailureActions:
    """Ignores groups of failures. Methods raise what the store raises, and NotFoundError if no group has the ID.
    Callers that may not see job content never get the ID of a group."""

    def __init__(self, history: HistoryStore, reader: FailureReader) -> None:
        self._history = history
        self._reader = reader

    async def ignore(
        self, group_id: str, *, duration_s: float | None, reason: str, who: str, access: ContentAccess
    ) -> ShownFailures:
        """Ignore the group for `duration_s`. None: ignore it until the group changes (see `FailureGroup.changed`)."""
        group = await self._reader.existing(group_id)
        group_id = group.id
        now_ms = await self._history.now_ms()
        until_ms = 0 if duration_s is None else now_ms + round(duration_s * 1000)
        ignore = group.ignored(who=who, now_ms=now_ms, until_ms=until_ms, reason=reason)
        entry = encode_entry(
            who=who,
            action="failure.ignore",
            target=group_id,
            before=_standing(group, group.ignore),
            after=_standing(group, ignore),
        )
        if not await self._history.ignore(group_id, ignore, entry):
            raise unknown_group(group_id)
        logger.warning("failures %s of %s are ignored, by %s", group_id, group.name, who)
        return await self._shown(group_id, access)

    async def unignore(self, group_id: str, *, who: str, access: ContentAccess) -> ShownFailures:
        """Stop ignoring the group."""
        group = await self._reader.existing(group_id)
        group_id = group.id
        entry = encode_entry(
            who=who,
            action="failure.unignore",
            target=group_id,
            before=_standing(group, group.ignore),
            after=_standing(group, None),
        )
        if not await self._history.unignore(group_id, entry):
            raise unknown_group(group_id)
        return await self._shown(group_id, access)

    async def _shown(self, group_id: str, access: ContentAccess) -> ShownFailures:
        (shown,) = await self._reader.shown([await self._reader.existing(group_id)], access)
        return shown


def _standing(group: GroupedFailures, ignore: Ignore | None) -> dict[str, Any]:
    """Return the facts for an audit entry. They leave out the message of the failure, which not everybody may see."""
    return {
        "name": group.name,
        "cause": group.cause,
        "ignored": ignore is not None,
        "until": iso_ms(ignore.until_ms) if ignore and ignore.until_ms else None,
        "reason": ignore.reason if ignore else "",
    }
