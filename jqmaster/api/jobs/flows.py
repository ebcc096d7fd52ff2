"""Flows over HTTP."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import whole_number
from jqmaster.api.http.searches import search
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.flow_path import critical_path, failures
from jqmaster.domain.jobs.job import Cause
from jqmaster.service.jobs.flow_texts import FlowTexts
from jqmaster.service.jobs.flows import MAX_JOBS, FlowGraph, FlowNode

LIMIT: Final[dict[str, Any]] = {
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": MAX_JOBS, "default": 500},
        "description": "Maximum number of jobs.",
    }
}


@search
async def of_job(call: Call) -> Reply:
    return await _answer(call, await call.services.flows.reader.of_job(call.path["job_id"], _limit(call)))


@search
async def of_batch(call: Call) -> Reply:
    batch = await call.services.batches.find(call.path["batch_id"])
    return await _answer(call, await call.services.flows.reader.of_batch(batch.id, _limit(call)))


def _limit(call: Call) -> int:
    return whole_number(call.query("limit"), "limit", default=500, least=1, most=MAX_JOBS)


async def _answer(call: Call, flow: FlowGraph) -> Reply:
    """Return a `FlowView`."""
    texts = await call.services.flows.texts.of([one.job for one in flow.jobs if one.job], call.content)
    jobs = {one.id: one.job for one in flow.jobs if one.job}
    before = {one.id: one.after for one in flow.jobs}
    view = {
        "jobs": [_job_view(one, texts) for one in flow.jobs],
        "is_complete": flow.is_complete,
        "failures": failures(jobs, before),
        "critical_path": critical_path(jobs, before),
    }
    return Reply(200, view)


def _job_view(one: FlowNode, texts: FlowTexts) -> dict[str, Any]:
    """Return a `FlowJob`, as a map."""
    job = one.job
    return {
        "id": one.id,
        "name": job.name if job else None,
        "label": texts.labels.get(one.id),
        "state": str(job.state) if job else None,
        "cause": job.cause.name.lower() if job and job.cause is not Cause.NONE else None,
        "error": texts.errors.get(one.id),
        "batch": job.batch if job else None,
        "after": one.after,
        "when": str(job.after.when) if job and job.after else None,
        "attempt": job.attempt if job else 0,
        "created_at": iso_ms(job.created_at_ms) if job else None,
        "started_at": iso_ms(job.started_at_ms) if job and job.started_at_ms else None,
        "finished_at": iso_ms(job.finished_at_ms) if job and job.finished_at_ms else None,
        "more_before": one.more_before,
        "more_behind": one.more_behind,
    }
