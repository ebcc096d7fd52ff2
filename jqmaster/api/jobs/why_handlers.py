"""Explain over HTTP why a job is not running."""

from typing import Any, Final, assert_never

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.searches import search
from jqmaster.api.jobs.lists import job_filter
from jqmaster.domain.constraints.constraint import Constraint
from jqmaster.domain.constraints.gate_check import GateCheck
from jqmaster.domain.constraints.limit_kinds import EXPLAINED, closing
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import Cause
from jqmaster.domain.why.causes import WaitCause
from jqmaster.domain.why.verdict import (
    Ahead,
    AwaitingCallback,
    AwaitingJobs,
    ByConstraint,
    ConstraintsChanging,
    Due,
    Expired,
    Finished,
    IndexMissing,
    PlainVerdict,
    Running,
    Verdict,
)
from jqmaster.domain.why.worker_verdicts import NearWorker, NoMatchingWorker, NoWorker, WorkersUnavailable


async def job(call: Call) -> Reply:
    call.query()
    answer = await call.services.why.why(call.path["job_id"], call.content)
    return Reply(
        200,
        {
            "state": str(answer.state),
            "as_of": iso_ms(answer.as_of_ms),
            "verdicts": [
                {"code": verdict.code, "text": verdict.text, **_numbers(verdict)}
                for verdict in answer.verdicts
            ],
            "constraints": [_use(constraint, gate) for constraint, gate in answer.constraints],
        },
    )


@search
async def backlog(call: Call) -> Reply:
    query = call.query("name", "tag", "batch")
    found = await call.services.backlog_why.explain(job_filter(call, query), call.content)
    return Reply(
        200,
        {
            "text": found.text,
            "ready": found.ready,
            "is_exact": found.is_exact,
            "examined": found.examined,
            "causes": [_cause(one) for one in found.causes],
        },
    )


def _cause(cause: WaitCause) -> dict[str, Any]:
    verdict, closed = cause.verdict, None
    if isinstance(verdict, ByConstraint):
        closed = _closed(verdict)
    return {
        "code": verdict.code,
        "count": cause.count,
        "text": cause.text,
        "job_id": cause.job_id,
        "names": list(cause.names),
        "constraint": closed["name"] if closed else None,
        **{field: closed[field] if closed else None for field in _OF_CLOSED},
        "eta_s": None if cause.eta_ms is None else cause.eta_ms / 1000,
    }


_OF_CLOSED: Final = ("key_value", "kind", "limit", "usage", "period_s", "paused_by", "reason")


def _numbers(verdict: Verdict) -> dict[str, Any]:  # noqa: PLR0912 - a row for each verdict
    match verdict:
        case Due():
            return {
                "due_at": iso_ms(verdict.due_at_ms),
                "in_s": verdict.in_ms / 1000,
                "failures": verdict.failures,
                "put_off": verdict.put_off or None,
            }
        case Expired():
            return {"expires_at": iso_ms(verdict.expires_at_ms)}
        case PlainVerdict():
            return {}
        case IndexMissing():
            return {"fault": verdict.fault}
        case ConstraintsChanging():
            return _same(verdict, "edition", "settled_edition", "lane_edition")
        case ByConstraint():
            return _closed(verdict)
        case NoWorker():
            last_seen_at = _time(verdict.last_seen_ms)
            return {**_same(verdict, "name", "stale", "detached", "similar"), "last_seen_at": last_seen_at}
        case NoMatchingWorker():
            nearest = list(map(_near, verdict.nearest))
            return {
                "name": verdict.name,
                "requires": dict(verdict.requires),
                "workers": verdict.workers,
                "nearest": nearest,
            }
        case WorkersUnavailable():
            return _same(verdict, *_OF_WORKERS)
        case Ahead():
            return {"count": verdict.count, "bound": str(verdict.bound), "others": dict(verdict.others)}
        case Running():
            return {
                "worker_id": verdict.worker_id,
                "attempt": verdict.attempt,
                "since": iso_ms(verdict.since_ms),
                "deadline": iso_ms(verdict.deadline_ms),
                "lease_until": _time(verdict.lease_until_ms),
                "confirmed": verdict.is_confirmed,
                "worker_last_seen_at": _time(verdict.worker_last_seen_ms),
                "earlier_end": verdict.earlier_end or None,
            }
        case AwaitingCallback():
            return {
                "attempt": verdict.attempt,
                "due_at": _time(verdict.due_at_ms or None),
                "answered": verdict.is_answered,
            }
        case AwaitingJobs():
            jobs = [{"id": job_id, "state": state} for job_id, state in verdict.jobs]
            return {"jobs": jobs, "count": verdict.count}
        case Finished():
            return {
                "state": str(verdict.state),
                "cause": None if verdict.cause is Cause.NONE else verdict.cause.name.lower(),
                "finished_at": iso_ms(verdict.finished_at_ms),
            }
        case _:
            assert_never(verdict)


_OF_WORKERS: Final = (
    "name", "workers", "full", "draining", "pulling", "broken", "paused", "refusing", "busy", "max_jobs",
)  # fmt: skip


def _same(verdict: Verdict, *names: str) -> dict[str, Any]:
    """Return the fields that have the same name in the verdict and in the answer."""
    return {name: getattr(verdict, name) for name in names}


def _near(near: NearWorker) -> dict[str, Any]:
    missing = {key: {"wanted": one[0], "has": one[1]} for key, one in near.missing.items()}
    return {"worker_id": near.worker_id, "node_id": near.node_id, "missing": missing}


def _closed(verdict: ByConstraint) -> dict[str, Any]:
    constraint, gate = verdict.constraint, verdict.gate
    limit, usage, period_s = verdict.kind.use(gate)
    return {
        "name": constraint.name,
        "kind": verdict.kind.name,
        "kinds": [kind.name for kind in verdict.kinds],
        **_key(constraint, gate),
        "limit": limit,
        "usage": usage,
        "period_s": period_s,
        "waiting": gate.waiting,
        "holders": [
            {"job_id": holder.job_id, "worker_id": holder.worker_id, "since": iso_ms(holder.since_ms)}
            for holder in gate.holders
        ],
        "opens_at": _time(gate.opens_at_ms),
        "is_value_override": gate.is_override,
        "paused_by": verdict.paused_by or None,
        "reason": constraint.reason or None,
    }


def _use(constraint: Constraint, gate: GateCheck) -> dict[str, Any]:
    """Return a `WhyConstraint`."""
    return {
        "name": constraint.name,
        **_key(constraint, gate),
        "mode": "shadow" if gate.is_shadow else "enforce",
        "passes": not gate.is_closed,
        "kinds": [kind.name for kind in closing(gate)],
        **{field: value for one in EXPLAINED for field, value in one.shown(gate).items()},
        "waiting": gate.waiting,
        "is_value_override": gate.is_override,
        "opens_at": _time(gate.opens_at_ms),
    }


def _key(constraint: Constraint, gate: GateCheck) -> dict[str, Any]:
    if constraint.key is None:
        return {"key": None, "key_value": None}
    return {"key": str(constraint.key), "key_value": gate.value}


def _time(ms: int | None) -> str | None:
    return None if ms is None else iso_ms(ms)
