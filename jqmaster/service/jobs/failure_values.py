"""Counts values in the arguments and headers of the jobs of a failure group."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.matching.fields import MISSING, JobFields
from jqmaster.domain.matching.paths import Path
from jqmaster.service.jobs.failures import FailureReader
from jqmaster.service.jobs.reader import JobReader
from jqmaster.store.jobs.placement import fields_of
from jqmaster.store.jobs.records import RecordStore

# Maximum number of jobs that are examined, beginning with the latest.
MAX_JOBS: Final = 500
# Jobs with longer records are not examined.
MAX_RECORD_BYTES: Final = 16_384
# Maximum number of values that are returned.
MAX_VALUES: Final = 50
MAX_PATHS: Final = 30
_MAX_DEPTH: Final = 4
_MAX_TEXT: Final = 200
_HEAD: Final = 140


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Counts of jobs by value, as JSON, the most frequent first.

    * `examined`: the number of jobs that were read.
    * `without`: the number of examined jobs that have no value at the path.
    * `is_complete`: False if there may be further jobs or values.
    * `distinct`: the number of different values in the examined jobs. `values` has only the most frequent ones.
    * `paths`: paths at which the examined jobs have values.
    """

    values: list[tuple[str, int]]
    examined: int
    without: int
    is_complete: bool
    distinct: int
    paths: Sequence[str] = ()


class FailureValues:
    """Counts the values in the jobs of a failure group. Raises what the store raises."""

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
        of_group = JobFilter(state=JobState.FAILED, name=group.name, failure_group=group_id)
        wanted = await self._reader.of_group(of_group)
        found = (await self._jobs.page(wanted, limit=MAX_JOBS, cursor=None, order="newest")).page
        whole = await self._records.get_short([job.id for job in found.jobs], MAX_RECORD_BYTES)
        read, counts = path.reader(), Counter[str]()
        paths: dict[str, None] = {}
        for job in whole.values():
            fields = fields_of(_shown(job, access))
            if len(paths) < MAX_PATHS:
                paths |= dict.fromkeys(_paths_of(fields))
            value = read(fields)
            if value is not MISSING:
                counts[_text(value)] += 1
        is_complete = found.cursor is None and len(whole) == len(found.jobs) and len(counts) <= MAX_VALUES
        without = len(whole) - counts.total()
        # Long values are compared in full, and are shortened only for display.
        most = [(_cut(text), count) for text, count in counts.most_common(MAX_VALUES)]
        return ValueCounts(most, len(whole), without, is_complete, len(counts), sorted(paths)[:MAX_PATHS])


def _shown(job: Job, access: ContentAccess) -> Job:
    """Return the job with redacted values removed, because a value at the path may contain some."""
    content = JobContent(access, job)
    return replace(job, argument=content.argument() or b"", headers=content.headers())


def _paths_of(fields: JobFields) -> Iterator[str]:
    """Yield the paths of all values in the argument and the headers. For a map, yield the paths of its members instead
    of its own path."""
    rest: list[tuple[tuple[str | int, ...], object]] = [((), fields.argument)]
    while rest:
        parts, value = rest.pop()
        if isinstance(value, dict) and len(parts) < _MAX_DEPTH:
            rest += [((*parts, key), inner) for key, inner in value.items() if isinstance(key, str)]
        else:
            yield str(Path("argument", parts))
    yield from (str(Path("headers", (key,))) for key in fields.headers)


def _text(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = json.dumps(f"<{type(value).__name__}>")
    return text.encode("utf-8", "replace").decode()


def _cut(text: str) -> str:
    """Return the beginning and the end of a long text, because values at one path often have the same beginning."""
    return text if len(text) <= _MAX_TEXT else f"{text[:_HEAD]}…{text[_HEAD + 1 - _MAX_TEXT :]}"
