"""Texts of a flow's jobs: labels that tell jobs of one name apart, and the errors of failed jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgpack

from jqmaster.domain.content.content import HIDDEN, ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.domain.jobs.labels import LabelFacts, labels
from jqmaster.service.jobs.excerpts import JobExcerpts
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.pages import MAX_PER_CALL, pages

# A job record that is longer than this is not read, so the label of the job does not use its argument.
MAX_RECORD_BYTES: Final = 1024
# Maximum number of jobs whose errors are read.
MAX_ERRORS: Final = 100


@dataclass(frozen=True, slots=True)
class FlowTexts:
    """Texts by job ID, as far as the caller may see them."""

    labels: Mapping[str, str]
    errors: Mapping[str, str]


class FlowTextReader:
    """Reads the texts of a flow's jobs. Raises what the store raises."""

    def __init__(self, records: RecordStore, excerpts: JobExcerpts) -> None:
        self._records = records
        self._excerpts = excerpts

    async def of(self, jobs: Sequence[Job], access: ContentAccess) -> FlowTexts:
        """Return labels for jobs that share a name, and the errors of the first failed jobs."""
        failed = sorted(
            (job for job in jobs if job.state is JobState.FAILED), key=lambda job: job.finished_at_ms
        )
        found = await self._excerpts.of(failed[:MAX_ERRORS], ["error"], access)
        errors = {job_id: one.error for job_id, one in found.items() if one.error}
        return FlowTexts(await self._labels(jobs, access), errors)

    async def _labels(self, jobs: Sequence[Job], access: ContentAccess) -> dict[str, str]:
        counts: dict[str, int] = {}
        for job in jobs:
            counts[job.name] = counts.get(job.name, 0) + 1
        alike = [job for job in jobs if counts[job.name] > 1]
        shown = [job.id for job in alike if access.for_name(job.name).is_granted]
        whole: dict[str, Job] = {}
        for page in pages(shown, MAX_PER_CALL):
            whole |= await self._records.get_short(page, MAX_RECORD_BYTES)
        return labels([_facts(job, whole.get(job.id), access) for job in alike])


def _facts(job: Job, whole: Job | None, access: ContentAccess) -> LabelFacts:
    """Return the facts about a job. `whole`: the job with its argument. None: it was not read."""
    content = JobContent(access, whole or job)
    key = content.unique_key() if whole else None
    return LabelFacts(
        job.id,
        job.name,
        None if key == HIDDEN else key,
        _decoded(content.argument()) if whole else None,
        job.tags,
    )


def _decoded(argument: bytes | None) -> object:
    if argument is None:
        return None
    try:
        return msgpack.unpackb(argument, strict_map_key=False, unicode_errors="replace", timestamp=3)
    except Exception:  # an earlier release may have stored such a value, and it must not break a flow
        return None
