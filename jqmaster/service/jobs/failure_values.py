"""The values of the argument or of a header that the jobs of a group of failures have."""

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.matching.fields import MISSING
from jqmaster.domain.matching.paths import Path
from jqmaster.service.jobs.failures import FailureReader
from jqmaster.service.jobs.reader import JobReader
from jqmaster.store.jobs.placement import fields_of
from jqmaster.store.jobs.records import RecordStore

# At most this many of the latest jobs are examined.
MOST_JOBS: Final = 500
# Jobs with longer records are not examined.
MAX_RECORD_BYTES: Final = 16_384
# At most this many values are given.
MOST_VALUES: Final = 50
_MAX_TEXT: Final = 200


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Counts of jobs by value, as JSON, the most frequent first. `examined`: the number of jobs that were read;
    `without`: how many of them have no such value; `is_complete`: False if there may be further jobs or values."""

    values: list[tuple[str, int]]
    examined: int
    without: int
    is_complete: bool


class FailureValues:
    """Raises what the store raises."""

    def __init__(self, reader: FailureReader, jobs: JobReader, records: RecordStore) -> None:
        self._reader = reader
        self._jobs = jobs
        self._records = records

    async def of(self, group_id: str, path: Path, access: ContentAccess) -> ValueCounts:
        """Return the values at `path` of the latest jobs of a group. Raise NotFoundError if no group has the ID, and
        ForbiddenError if the caller may not see these values."""
        access.check_failure_group(("path", "group_id"))
        access.check_path(path, ("query", "path"))
        group = await self._reader.existing(group_id)
        wanted = JobFilter(state=JobState.FAILED, name=group.name, failure_group=group_id)
        found = (await self._jobs.page(wanted, limit=MOST_JOBS, cursor=None, order="newest")).page
        whole = await self._records.get_short([job.id for job in found.jobs], MAX_RECORD_BYTES)
        read, counts = path.reader(), Counter[str]()
        for job in whole.values():
            value = read(fields_of(_shown(job, access)))
            if value is not MISSING:
                counts[_text(value)] += 1
        is_complete = found.cursor is None and len(whole) == len(found.jobs) and len(counts) <= MOST_VALUES
        without = len(whole) - counts.total()
        return ValueCounts(counts.most_common(MOST_VALUES), len(whole), without, is_complete)


def _shown(job: Job, access: ContentAccess) -> Job:
    """Return the job as the caller may see it: a value at the path may contain others that are redacted."""
    content = JobContent(access, job)
    return replace(job, argument=content.argument() or b"", headers=content.headers())


def _text(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = json.dumps(f"<{type(value).__name__}>")
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
