"""Excerpts of jobs for lists: the last error, the beginning of the argument, the worker's name, the progress."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgpack

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.jobs.job import Attempt, Job, JobState
from jqmaster.domain.jobs.progress import Progress
from jqmaster.store.jobs.progress import ProgressStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.workers.workers import WorkerStore

ExcerptPart = Literal["error", "argument", "worker", "progress"]

MAX_ERROR_CHARS: Final = 300
MAX_ARGUMENT_CHARS: Final = 200
MAX_MESSAGE_CHARS: Final = 200
# If the record of a job is longer than this, lists do not show its argument: reading it would cost too much for one
# line.
MAX_RECORD_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The excerpts of one job. None: the job has no such value, the caller may not see the value, or it was not
    requested."""

    error: str | None = None
    argument: str | None = None
    worker_name: str | None = None
    progress: Progress | None = None


class JobExcerpts:
    """Reads the excerpts of jobs. Raises what the store raises."""

    def __init__(self, records: RecordStore, workers: WorkerStore, progress: ProgressStore) -> None:
        self._records = records
        self._workers = workers
        self._progress = progress

    async def of(
        self, jobs: Sequence[Job], parts: Collection[ExcerptPart], access: ContentAccess
    ) -> dict[str, Excerpt]:
        """Return the excerpts by job ID."""
        errors = await self._errors(jobs, access) if "error" in parts else {}
        arguments = await self._arguments(jobs, access) if "argument" in parts else {}
        ids = sorted({job.worker_id for job in jobs if job.worker_id})
        workers = await self._workers.names_of(ids) if "worker" in parts else {}
        progress = await self._progress_of(jobs, access) if "progress" in parts else {}
        return {
            job.id: Excerpt(
                errors.get(job.id), arguments.get(job.id), workers.get(job.worker_id), progress.get(job.id)
            )
            for job in jobs
        }

    async def error(self, job_id: str, access: ContentAccess) -> str | None:
        """Return the last error of a job. None: the job has no error, or the caller may not see it."""
        found = await self._records.get_without_argument([job_id])
        return (await self._errors([*found.values()], access)).get(job_id)

    async def _errors(self, jobs: Sequence[Job], access: ContentAccess) -> dict[str, str]:
        failed = [job for job in jobs if job.state is JobState.FAILED or job.failures or job.losses]
        if access.redactor.has("argument", "headers", "error"):
            # Read the whole argument: its redacted values must be removed from the error, too.
            whole = await self._records.get_all([job.id for job in failed])
            failed = [whole[job.id] for job in failed if job.id in whole]
        ends = await self._records.last_ends([job.id for job in failed])
        return {
            job.id: text
            for job, end in zip(failed, ends, strict=True)
            if (text := _error_text(JobContent(access, job), end))
        }

    async def _progress_of(self, jobs: Sequence[Job], access: ContentAccess) -> dict[str, Progress]:
        told = {job.id: job for job in jobs if job.has_progress}
        if told and access.redactor.has("argument", "headers"):
            told = await self._records.get_all(list(told))
        found = await self._progress.of(told.values())
        return {
            job_id: replace(
                one, message=_cut(JobContent(access, told[job_id]).text(one.message) or "", MAX_MESSAGE_CHARS)
            )
            for job_id, one in found.items()
        }

    async def _arguments(self, jobs: Sequence[Job], access: ContentAccess) -> dict[str, str]:
        shown = [job.id for job in jobs if access.for_name(job.name).is_granted]
        found = await self._records.get_short(shown, MAX_RECORD_BYTES)
        return {
            job_id: text
            for job_id, job in found.items()
            if (text := _argument_text(JobContent(access, job).argument()))
        }


def _error_text(content: JobContent, end: Attempt | None) -> str | None:
    text = content.message(end) if end else None
    return _cut(text, MAX_ERROR_CHARS) if text else None


def _argument_text(argument: bytes | None) -> str | None:
    if argument is None:
        return None
    try:
        value = msgpack.unpackb(argument, strict_map_key=False, unicode_errors="replace", timestamp=3)
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    except Exception:  # an earlier release may have stored such an argument, and it must not break a list
        return None
    return None if value is None else _cut(text, MAX_ARGUMENT_CHARS)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float) else f"<{type(value).__name__}>"


def _cut(text: str, most: int) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= most else text[: most - 1] + "…"
