"""Groups of failures, as one caller may see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.content.redact import REDACTED
from jqmaster.domain.jobs.error_type import error_type_of
from jqmaster.domain.jobs.failure_group import failure_group_id
from jqmaster.domain.jobs.failures import GroupedFailures, Ignore
from jqmaster.domain.jobs.job import Attempt
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.jobs.merged_failures import joined
from jqmaster.domain.jobs.stack_frame import StackFrame, frame_of
from jqmaster.errors import NotFoundError
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.pages import pages
from jqmaster.store.operations.history import MAX_GROUPS, HistoryStore

# Number of jobs that are read at once, with their arguments.
_JOBS_PER_READ: Final = 20


@dataclass(frozen=True, slots=True)
class ShownFailures:
    """A failure group with its text.

    * `is_hidden`: the text is replaced, because the caller may not see it.
    * `frame`: the place in the code where the group's example job failed. None: it is unknown, or the caller may not
      see it.
    * `shows_merged`: whether the caller may see the texts of the groups that were merged into this group.
    """

    group: GroupedFailures
    message: str
    is_hidden: bool
    error_type: str | None
    frame: StackFrame | None = None
    shows_merged: bool = False


class FailureReader:
    """Reads groups of failures. A group itself stores only its text. Details come from its latest job, the example job.

    All methods raise what `StoreClient.run` raises.
    """

    def __init__(self, history: HistoryStore, records: RecordStore) -> None:
        self._history = history
        self._records = records
        # The key is the ID of a group's example job with the time of the job's failure. If the job fails again, the key
        # is another one.
        self._types: dict[tuple[str, int], str | None] = {}
        self._frames: dict[tuple[str, int], StackFrame | None] = {}

    async def groups(self, access: ContentAccess) -> list[GroupedFailures]:
        """Return all groups, the latest first, without texts that the caller may not see. If the caller may not see job
        content, groups with the same name, cause and error type are merged. The ID of a merged group is not a digest of
        a text, so it reveals no text."""
        groups = await self._history.failure_groups()
        if access.error_text_cover is None:
            return groups
        groups = [replace(group, message="") for group in groups]
        return groups if access.is_granted else _merged(groups, await self._types_of(groups))

    async def existing(self, group_id: str) -> GroupedFailures:
        """Return the group, regardless of what the caller may see. Raise NotFoundError if no group has the ID."""
        groups = await self._history.failure_groups()
        # The ID may come from an older notice, and its group may have been merged into another group since. Return that
        # other group.
        group = next((g for g in groups if any(one.id == group_id for one in (g, *g.merged))), None)
        if group is None:
            raise unknown_group(group_id)
        return group

    async def of_group(self, wanted: JobFilter) -> JobFilter:
        """Return the filter, extended by the groups that were merged into its failure group."""
        if wanted.failure_group is None:
            return wanted
        try:
            group = await self.existing(wanted.failure_group)
        except NotFoundError:
            return wanted
        if not group.merged:
            return wanted
        return replace(wanted, failure_group=group.id, merged_groups=tuple(one.id for one in group.merged))

    async def shown(self, groups: Sequence[GroupedFailures], access: ContentAccess) -> list[ShownFailures]:
        """Return these groups with the texts and details that the caller may see."""
        known = await self._types_of(groups)
        types = known if access.shows_error_type else {}
        shows_frames = access.is_granted and not access.redactor.meets("error", ("traceback",))
        cover = access.error_text_cover
        texts = {} if cover else await self._texts(groups, access)
        # If anything is redacted, hide the texts of merged groups, because these texts may contain unknown redacted
        # values.
        shows_merged = not cover and not access.redactor.has("argument", "headers", "error")
        found = []
        for group in groups:
            text = texts.get(group.id, cover or REDACTED)
            frame = self._frames.get(_key(group)) if shows_frames else None
            found.append(
                ShownFailures(group, text, group.id not in texts, types.get(_key(group)), frame, shows_merged)
            )
        return found

    async def _types_of(self, groups: Sequence[GroupedFailures]) -> Mapping[tuple[str, int], str | None]:
        unknown = [group for group in groups if group.example_job_id and _key(group) not in self._types]
        if unknown:
            if len(self._types) + len(unknown) > 2 * MAX_GROUPS:
                self._types.clear()
                self._frames.clear()
            ends = await self._records.last_ends([group.example_job_id for group in unknown])
            for group, end in zip(unknown, ends, strict=True):
                self._types[_key(group)] = error_type_of(end.error, end.message) if end else None
                self._frames[_key(group)] = frame_of(end.error) if end else None
        return self._types

    async def _texts(self, groups: Sequence[GroupedFailures], access: ContentAccess) -> dict[str, str]:
        """Return the texts by group ID, without the redacted values of the group's example job. If the example job is
        gone and something is redacted, leave the group out: nothing tells which values to remove from its text."""
        if not access.redactor.has("argument", "headers", "error"):
            return {group.id: group.message for group in groups}
        texts = {}
        for chunk in pages(groups, _JOBS_PER_READ):
            ids = [group.example_job_id for group in chunk if group.example_job_id]
            jobs = await self._records.get_all(ids)
            ends: dict[str, Attempt | None] = dict(zip(ids, await self._records.last_ends(ids), strict=True))
            for group in chunk:
                if job := jobs.get(group.example_job_id):
                    content = JobContent(access, job)
                    texts[group.id] = content.group_text(group.message, ends.get(group.example_job_id))
        return texts


def unknown_group(group_id: str) -> NotFoundError:
    return NotFoundError(f"there is no group of failures {group_id[:64]}", code="unknown_failure_group")


def _key(group: GroupedFailures) -> tuple[str, int]:
    return group.example_job_id, group.last_seen_ms


def _merged(
    groups: Sequence[GroupedFailures], types: Mapping[tuple[str, int], str | None]
) -> list[GroupedFailures]:
    """Merge groups that have the same name, cause and error type. Keep the order of the groups."""
    merged: dict[str, GroupedFailures] = {}
    for group in groups:
        merged_id = failure_group_id(group.name, group.cause, types.get(_key(group)) or "")
        first = merged.get(merged_id)
        if first is None:
            merged[merged_id] = replace(group, id=merged_id)
        else:
            merged[merged_id] = _both(first, group)
    return list(merged.values())


def _both(first: GroupedFailures, other: GroupedFailures) -> GroupedFailures:
    """Merge two groups that the caller may not tell apart. The result counts as ignored only while both groups are
    ignored. `first`: the group with the later failure."""
    # Leave out operators' decisions, because each concerns only one of the two groups.
    return replace(
        joined(first, other),
        ignore=_ignore_of_both(first, other),
        assignment=None,
        resolution=None,
        merged=(),
    )


def _ignore_of_both(first: GroupedFailures, other: GroupedFailures) -> Ignore | None:
    if first.ignore is None or other.ignore is None:
        return None
    for group in (first, other):
        if group.changed(0):
            return group.ignore
    ignores = (first.ignore, other.ignore)
    ending = [ignore for ignore in ignores if ignore.until_ms]
    return min(ending, key=lambda i: i.until_ms) if ending else max(ignores, key=lambda i: i.at_ms)
