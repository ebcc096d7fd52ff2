"""Judges why a job is not running. The verdicts come in the order in which their causes have to be removed."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from jqmaster.domain.constraints.constraint import CID_LENGTH, Constraint
from jqmaster.domain.constraints.gate_check import GateCheck
from jqmaster.domain.constraints.limit_kinds import CLOSERS, closing
from jqmaster.domain.jobs.job import FINISHED, Job, JobState
from jqmaster.domain.matching.requirement import is_met, queues_for
from jqmaster.domain.why.facts import Accuracy, FleetFacts, JobsAhead, Reachability, Snapshot
from jqmaster.domain.why.verdict import (
    Ahead,
    AwaitingCallback,
    ByConstraint,
    ConstraintsChanging,
    Expired,
    Finished,
    IndexMissing,
    Next,
    NoLeader,
    Running,
    Verdict,
    not_ready_verdict,
)
from jqmaster.domain.why.worker_verdicts import NearWorker, NoMatchingWorker, NoWorker, WorkersUnavailable
from jqmaster.domain.workers.worker import Worker
from worker_sdk.transport.suggestions import closest

MAX_NAMED_REASONS: Final = 3


def verdicts(snapshot: Snapshot, constraints: Mapping[str, Constraint], fleet: FleetFacts) -> list[Verdict]:
    """Return the verdicts, at least one, in the order in which their causes have to be removed. `constraints`: by
    cid."""
    job, now_ms = snapshot.job, snapshot.now_ms
    if job.state in FINISHED:
        return [Finished(job.id, job.state, job.cause, job.finished_at_ms)]
    if job.state is JobState.RUNNING:
        return [_running(snapshot, fleet)]
    if job.state is JobState.AWAITING_CALLBACK:
        awaiting = AwaitingCallback(job.attempt, job.due_at_ms, now_ms)
        unserved = _workers(job, now_ms, fleet) if awaiting.is_answered else None
        return [awaiting, *([] if snapshot.has_leader else [NoLeader()]), *([unserved] if unserved else [])]
    found: list[Verdict] = []
    if not snapshot.has_leader:
        found.append(NoLeader())
    if 0 < job.expires_at_ms <= now_ms:
        return [*found, Expired(job.expires_at_ms)]
    found += not_ready_verdict(snapshot)
    is_settled = snapshot.edition == snapshot.settled_edition == snapshot.lane_edition
    if not (is_settled or snapshot.index_fault):
        found.append(ConstraintsChanging(snapshot.edition, snapshot.settled_edition, snapshot.lane_edition))
    closed = _closed(snapshot, constraints, fleet)
    found += closed
    in_the_way = len(found)
    workers = _workers(job, now_ms, fleet)
    if workers:
        found.append(workers)
    if snapshot.index_fault:
        found.append(IndexMissing(snapshot.index_fault))
    elif snapshot.jobs_ahead:
        ahead = _ahead(job.name, snapshot.jobs_ahead, closed[0].what if closed else "")
        if ahead:
            found.append(ahead)
        elif not in_the_way and not isinstance(workers, NoWorker | NoMatchingWorker):
            found.append(Next())
    return found


def _closed(
    snapshot: Snapshot, constraints: Mapping[str, Constraint], fleet: FleetFacts
) -> list[ByConstraint]:
    now_ms = snapshot.now_ms
    silent_ms = {
        w.id: now_ms - w.last_seen_ms for w in fleet.workers if not w.is_fresh(now_ms, fleet.stale_ms)
    }
    closed = [
        ByConstraint(constraint, completed(gate, constraint), kinds[0], now_ms, silent_ms)
        for gate in snapshot.gates
        if (kinds := closing(gate))
        and not gate.is_shadow
        and (constraint := constraint_of(gate, constraints))
    ]
    return sorted(closed, key=lambda one: (CLOSERS.index(one.kind), one.constraint.name, one.gate.value))


def _ahead(name: str, jobs_ahead: JobsAhead, held_back_by: str) -> Ahead | None:
    count = sum(jobs_ahead.by_name.values())
    if count == 0 and jobs_ahead.bound is Accuracy.EXACT:
        return None
    others = {other: jobs for other, jobs in jobs_ahead.by_name.items() if other != name}
    return Ahead(name, count, jobs_ahead.bound, others, held_back_by)


def _near_match(job: Job, worker: Worker) -> NearWorker:
    labels = worker.spec.labels
    missing = {
        key: (value, labels.get(key))
        for key, value in (job.requires or {}).items()
        if labels.get(key) != value
    }
    return NearWorker(worker.id, worker.spec.node_id, missing)


def _workers(
    job: Job, now_ms: int, fleet: FleetFacts
) -> NoWorker | NoMatchingWorker | WorkersUnavailable | None:
    """Return the verdict on the workers, or None if one of them accepts a job now."""
    name = job.name
    known = [worker for worker in fleet.workers if name in worker.spec.names]
    detached = [worker for worker in known if worker.is_detached]
    live = [worker for worker in known if not worker.is_detached and worker.is_fresh(now_ms, fleet.stale_ms)]
    if not live:
        last_seen_ms = max((worker.last_seen_ms for worker in known), default=None)
        similar = None if known else closest(name, _served_names(now_ms, fleet))
        return NoWorker(name, len(known) - len(detached), len(detached), last_seen_ms, now_ms, similar)
    if job.requires:
        matching = [worker for worker in live if is_met(job.requires, worker.spec.labels)]
        if not matching:
            near = sorted(
                (_near_match(job, worker) for worker in live),
                key=lambda one: (len(one.missing), one.worker_id),
            )
            return NoMatchingWorker(name, job.requires, len(live), tuple(near[:MAX_NAMED_REASONS]))
        live = matching
    broken_why: set[str] = set()
    counts = dict.fromkeys(("draining", "full", "broken", "paused", "refusing", "pulling"), 0)
    for worker in live:
        reach = (fleet.reach or {}).get(worker.id, Reachability())
        if worker.is_draining:
            counts["draining"] += 1
        elif name in reach.refused_names:
            counts["refusing"] += 1
        elif reach.breaker == "open":
            counts["broken"] += 1
            broken_why |= {reach.why} - {""}
        elif worker.unreachable:
            counts["broken"] += 1
            broken_why.add(f"target {worker.spec.target} {worker.unreachable}")
        elif worker.busy >= worker.spec.max_jobs:
            counts["full"] += 1
        elif reach.paused_ms > 0:
            counts["paused"] += 1
        elif not worker.can_receive_jobs(now_ms):
            counts["pulling"] += 1
        else:
            return None
    is_known = fleet.reach is not None
    return WorkersUnavailable(
        name=name,
        workers=len(live),
        full=counts["full"],
        draining=counts["draining"],
        pulling=counts["pulling"],
        broken=counts["broken"] if is_known or broken_why else None,
        paused=counts["paused"] if is_known else None,
        refusing=counts["refusing"] if is_known else None,
        busy=sum(worker.busy for worker in live),
        max_jobs=sum(worker.spec.max_jobs for worker in live),
        broken_why=tuple(sorted(broken_why)[:MAX_NAMED_REASONS]),
    )


def _served_names(now_ms: int, fleet: FleetFacts) -> set[str]:
    """Return the names of jobs that live workers run."""
    return {
        name
        for worker in fleet.workers
        if not worker.is_detached and worker.is_fresh(now_ms, fleet.stale_ms)
        for name in worker.spec.names
    }


def _running(snapshot: Snapshot, fleet: FleetFacts) -> Running:
    job = snapshot.job
    return Running(
        worker_id=job.worker_id,
        attempt=job.attempt,
        since_ms=job.started_at_ms,
        deadline_ms=job.started_at_ms + job.timeout_ms + fleet.deadline_extra_ms,
        lease_until_ms=snapshot.lease_until_ms,
        is_confirmed=job.is_confirmed,
        worker_last_seen_ms=next((w.last_seen_ms for w in fleet.workers if w.id == job.worker_id), None),
        now_ms=snapshot.now_ms,
        earlier_end=snapshot.earlier_end,
    )


def rival_names(job: Job, now_ms: int, fleet: FleetFacts, queues: Collection[str] = ()) -> list[str]:
    """Return the other names whose jobs compete with the job for the same live workers. `queues`: the queues of jobs
    that require labels. They are included if they compete."""
    live = [
        worker.spec.names + queues_for(worker.spec.names, worker.spec.labels, queues)
        for worker in fleet.workers
        if job.name in worker.spec.names
        and is_met(job.requires or {}, worker.spec.labels)
        and not (worker.is_detached or worker.is_draining)
        and worker.is_fresh(now_ms, fleet.stale_ms)
    ]
    return sorted({other for names in live for other in names} - {job.queue})


def completed(gate: GateCheck, constraint: Constraint) -> GateCheck:
    """Return the gate with the unit and the end of its constraint."""
    weight = constraint.weight
    gate = replace(gate, expires_at_ms=constraint.expires_at_ms)
    if weight is None:
        return gate
    return replace(gate, unit=weight.unit, weight_path="" if weight.path is None else str(weight.path))


def constraint_of(gate: GateCheck, constraints: Mapping[str, Constraint]) -> Constraint | None:
    """Return the constraint of the gate, or None if it has been removed meanwhile, which opens the gate."""
    return constraints.get(gate.gate_id[:CID_LENGTH])
