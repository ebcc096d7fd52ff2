"""The stored form of a job that a definition or a batch will enqueue later."""

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, Final

from jqmaster.domain.jobs.job import DEFAULT_RETRY, STORED_TERMS, JobSpec, RetryPolicy

# Documents of jobs from earlier releases do not have these terms.
_LATER: Final = frozenset({"delay_ms", "requires", "expires_ms"})


def job_document(job: JobSpec) -> dict[str, Any]:
    """Return the document of a job. Equal jobs have equal documents, with the members in the same order."""
    document: dict[str, Any] = {term: getattr(job, term) for term in STORED_TERMS}
    document["retry"] = None if job.retry == DEFAULT_RETRY else astuple(job.retry)
    document["headers"] = dict(sorted(job.headers.items()))
    # Leave these terms out if they are unset, so that documents of such jobs stay as in earlier releases.
    del document["requires"], document["expires_ms"]
    if job.requires:
        document["requires"] = dict(sorted(job.requires.items()))
    if job.expires_ms is not None:
        document["expires_ms"] = job.expires_ms
    return document


def read_job_document(document: Mapping[str, Any]) -> JobSpec:
    """Return the job of a document, without an ID. Raise KeyError, TypeError or ValueError if the document cannot be
    read."""
    terms = {term: document[term] for term in STORED_TERMS if term not in _LATER}
    terms["retry"] = DEFAULT_RETRY if terms["retry"] is None else RetryPolicy(*terms["retry"])
    terms["tags"] = tuple(terms["tags"])
    return JobSpec(
        id="",
        **terms,
        delay_ms=document.get("delay_ms"),
        requires=document.get("requires") or None,
        expires_ms=document.get("expires_ms"),
    )
