"""The stored form of a job that is to be enqueued later: of a definition, or of a batch's callback."""

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from jqmaster.domain.job import DEFAULT_RETRY, JobSpec, RetryPolicy


def job_document(job: JobSpec) -> dict[str, Any]:
    """Return what is stored of a job. Equal jobs have equal documents, member by member in the same order."""
    return {
        "name": job.name,
        "argument": job.argument,
        "priority": job.priority,
        "max_retry": job.max_retry,
        "keep_result": job.keep_result,
        "timeout_ms": job.timeout_ms,
        "delay_ms": job.delay_ms,
        "retry": None if job.retry == DEFAULT_RETRY else astuple(job.retry),
        "rerun_lost": job.rerun_lost,
        "tags": job.tags,
        "headers": dict(sorted(job.headers.items())),
        # Left out where there are none: documents of jobs without labels stay as they were.
        **({"requires": dict(sorted(job.requires.items()))} if job.requires else {}),
    }


def read_job_document(document: Mapping[str, Any]) -> JobSpec:
    """Return the job of a document, without an ID. Raise KeyError, TypeError or ValueError where it cannot be read."""
    retry = document["retry"]
    return JobSpec(
        id="",
        name=document["name"],
        argument=document["argument"],
        priority=document["priority"],
        max_retry=document["max_retry"],
        keep_result=document["keep_result"],
        timeout_ms=document["timeout_ms"],
        # Definitions of earlier releases were stored without it.
        delay_ms=document.get("delay_ms"),
        retry=DEFAULT_RETRY if retry is None else RetryPolicy(*retry),
        rerun_lost=document["rerun_lost"],
        tags=tuple(document["tags"]),
        headers=document["headers"],
        requires=document.get("requires") or None,
    )
