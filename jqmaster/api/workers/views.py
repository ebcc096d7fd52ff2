"""Workers as clients see them, and jobs as workers get them."""

from collections.abc import Sequence
from typing import Any, get_args

from jqmaster.api.encoding.answers import RawMsgpack
from jqmaster.domain.challenges.challenge import callback_fields
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import Job
from jqmaster.domain.workers.slot_rule import SlotRule
from jqmaster.domain.workers.worker import Worker, WorkerState
from jqmaster.domain.workers.worker_figures import Figures, GroupedWorkers
from jqmaster.store.workers.polls import Offer


def worker_view(
    worker: Worker, figures: Figures, *, now_ms: int, stale_ms: int, breaker: str | None
) -> dict[str, Any]:
    """Return a `WorkerView`."""
    spec = worker.spec
    return {
        "id": worker.id,
        "url": spec.url,
        "names": list(spec.names),
        "max_jobs": spec.max_jobs,
        "own_max_jobs": worker.own_max_jobs or spec.max_jobs,
        "busy": worker.busy,
        "load": worker.busy / spec.max_jobs,
        "role": "pull" if spec.url is None else "push",
        "node_id": spec.node_id,
        "pid": spec.pid,
        "labels": dict(spec.labels),
        "version": spec.version,
        "registered_at": iso_ms(worker.registered_at_ms),
        "last_seen_at": iso_ms(worker.last_seen_ms),
        "state": worker.state(now_ms, stale_ms),
        "detached_by": worker.detached_by,
        "built_in": spec.is_built_in,
        "breaker": breaker,
        "figures": worker_figures(figures),
    }


def worker_detail(
    worker: Worker,
    held: Sequence[Job],
    figures: Figures,
    *,
    now_ms: int,
    stale_ms: int,
    breaker: str | None,
) -> dict[str, Any]:
    """Return a `WorkerDetail`."""
    return worker_view(worker, figures, now_ms=now_ms, stale_ms=stale_ms, breaker=breaker) | {
        "jobs": [
            {
                "job_id": job.id,
                "name": job.name,
                "attempt": job.attempt,
                "started_at": iso_ms(job.started_at_ms),
            }
            for job in held
        ]
    }


def slot_rule(rule: SlotRule) -> dict[str, Any]:
    """Return a `SlotRuleView`."""
    return {
        "id": rule.id,
        "node_id": rule.node_id,
        "labels": dict(rule.labels),
        "max_jobs": rule.max_jobs,
        "set_by": rule.set_by,
        "set_at": iso_ms(rule.set_at_ms),
    }


def worker_figures(figures: Figures) -> dict[str, Any]:
    """Return `WorkerFigures`."""
    share = figures.failed_share
    return {
        "since": iso_ms(figures.since_ms),
        "succeeded": figures.counts.succeeded,
        "failed": figures.counts.failed,
        "failed_share": None if share is None else round(share, 4),
        "attempts_per_s": round(figures.per_s, 3),
        "run": figures.counts.run.distribution(),
        "marks": list(figures.marks),
    }


def worker_group(group: GroupedWorkers, *, now_ms: int, stale_ms: int) -> dict[str, Any]:
    """Return a `WorkerGroup`."""
    states = dict.fromkeys(get_args(WorkerState), 0)
    for worker in group.workers:
        states[worker.state(now_ms, stale_ms)] += 1
    return {
        "value": group.value,
        "label": group.label,
        "workers": states,
        "max_jobs": sum(worker.spec.max_jobs for worker in group.workers),
        "busy": sum(worker.busy for worker in group.workers),
        "figures": worker_figures(group.figures),
    }


def dispatch(offer: Offer) -> dict[str, Any]:
    """Return a `Dispatch`. Its argument has exactly the bytes that the pusher sent."""
    job, record = offer.job, offer.job.record
    fields: dict[str, Any] = {
        "job_id": job.job_id,
        "attempt": record.attempt,
        "token": job.token,
        "fence": job.fence,
        "phase": "callback" if record.has_callback else "run",
        "name": record.name,
        "argument": RawMsgpack(record.argument),
        "timeout": record.timeout_ms / 1000,
        "not_after_ms": offer.not_after_ms,
        "lease_until_ms": offer.lease_until_ms,
        "headers": record.headers,
    }
    if job.checkpoint is not None:
        fields["checkpoint"] = job.checkpoint
    if record.batch is not None:
        fields["batch"] = record.batch
    if job.inputs is not None:
        fields["inputs"] = [
            {
                "job_id": one.job_id,
                "state": one.state and str(one.state),
                "result": one.result and RawMsgpack(one.result),
                "omitted": None if one.result else str(one.omitted),
            }
            for one in job.inputs
        ]
    if record.has_callback:
        fields |= callback_fields(job.callbacks)
    return fields
