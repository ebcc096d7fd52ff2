"""Verdicts on why a job is not running, from one snapshot of the store and of the workers. They come in the order in
which something has to change.

Texts are whole sentences for the person on call; the fields beside them are for programs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from jqmaster.domain.constraints.constraint import CID_LENGTH, Constraint
from jqmaster.domain.constraints.gate_check import GateCheck
from jqmaster.domain.constraints.limit_kinds import CLOSERS, GateCloser, closing
from jqmaster.domain.instant import iso_ms, span
from jqmaster.domain.jobs.job import FINISHED, TIMED, Cause, Job, JobState
from jqmaster.domain.matching.requirement import is_met, queues_for
from jqmaster.domain.workers.worker import Worker

MAX_NAMED_NAMES: Final = 5
MAX_NAMED_REASONS: Final = 3


# --- what is known


class Accuracy(StrEnum):
    """The accuracy of a count."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    ABOUT = "about"


@dataclass(frozen=True, slots=True)
class Standing:
    """Jobs that start before a ready one, by name."""

    by_name: Mapping[str, int]
    bound: Accuracy


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One instant in the store. `lease_until_ms` of a running job: the sooner of lease end and deadline. `standing` is
    `None` if the job is not ready or lies in a lane of older constraints. `index_fault`: the fault in the index that
    hides a ready job from claims, or "".
    """

    now_ms: int
    job: Job
    has_leader: bool
    edition: int
    settled_edition: int
    lane_edition: int
    lease_until_ms: int | None
    gates: tuple[GateCheck, ...]
    standing: Standing | None
    index_fault: str = ""
    # Jobs that it awaits: the first of them with their states, and the number of all.
    awaits: tuple[tuple[str, str | None], ...] = ()
    awaits_count: int = 0


@dataclass(frozen=True, slots=True)
class Reach:
    """Facts about a worker that only the leader knows. `paused_ms`: it asked for no offers for so long;
    `refused_names`: it registered them and then said that it does not know them; `why`: the reason of the last failed
    push.
    """

    breaker: str = "closed"
    paused_ms: int = 0
    refused_names: frozenset[str] = frozenset()
    why: str = ""


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """`reach` by worker ID, None where this master does not lead. A run may last `deadline_extra_ms` over its timeout
    before the master ends it."""

    workers: Sequence[Worker]
    stale_ms: int
    deadline_extra_ms: int
    reach: Mapping[str, Reach] | None


# --- what is said


@dataclass(frozen=True, slots=True)
class Due:
    """It waits for its time: `code` is its state. `in_ms` is negative where the instant is past."""

    code: str
    due_at_ms: int
    in_ms: int
    failures: int

    @property
    def text(self) -> str:
        if self.code == JobState.RETRYING:
            what = f"Waits for a retry after {_count(self.failures, 'failed attempt')}"
        else:
            what = "Scheduled for later"
        at = iso_ms(self.due_at_ms)
        if self.in_ms > 0:
            return f"{what}: it is due at {at}, in {span(self.in_ms)}."
        return f"{what}: it has been due since {at}, and the leader is about to make it ready."


@dataclass(frozen=True, slots=True)
class Expired:
    """Its `expires_at` is past; it is about to be skipped."""

    code: ClassVar = "expired"
    expires_at_ms: int

    @property
    def text(self) -> str:
        return f"It expired at {iso_ms(self.expires_at_ms)} while it waited: it will be skipped, not run."


class PlainVerdict:
    """Base of the verdicts that consist of nothing but a code and a sentence."""

    code: ClassVar[str]
    text: ClassVar[str]


class NoLeader(PlainVerdict):
    code = "no_leader"
    text = "No master leads at present, so no job is dispatched."


@dataclass(frozen=True, slots=True)
class RulesChanging:
    """The constraints changed, and either they or this job's place under them is not settled."""

    code: ClassVar = "rules_changing"
    edition: int
    settled_edition: int
    lane_edition: int

    @property
    def text(self) -> str:
        if self.edition != self.settled_edition:
            return (
                f"The constraints were changed: edition {self.edition} is about to replace {self.settled_edition}. "
                "No job starts until then, which takes seconds at most while a master leads."
            )
        return (
            f"The constraints were changed to edition {self.edition}, and the leader has not matched this job again "
            "yet. It matches the jobs that start next first. Ask again in a few seconds."
        )


@dataclass(frozen=True, slots=True)
class ByConstraint:
    """A closed gate. `kind` is the most lasting of `kinds`. `silent_ms`: for how long those workers that no longer
    count as alive were not heard of."""

    code: ClassVar = "constraint"
    constraint: Constraint
    gate: GateCheck
    kind: GateCloser
    now_ms: int
    silent_ms: Mapping[str, int]

    @property
    def kinds(self) -> tuple[GateCloser, ...]:
        """Return everything that closes the gate by itself, the most lasting first."""
        return closing(self.gate)

    @property
    def text(self) -> str:
        whys = " ".join(kind.why(self.gate, self.now_ms, self.silent_ms) for kind in self.kinds)
        others = self.gate.waiting - 1
        rest = (
            f" {_count(others, 'other job')} {'waits' if others == 1 else 'wait'} for it."
            if others > 0
            else ""
        )
        return f"Waits for constraint {named(self.constraint, self.gate)}: {whys}{rest}"


@dataclass(frozen=True, slots=True)
class NoWorker:
    """No worker that lives is registered for the name; so many know it and are silent or cut off."""

    code: ClassVar = "no_worker"
    name: str
    stale: int
    detached: int
    last_seen_ms: int | None
    now_ms: int

    @property
    def text(self) -> str:
        if not (self.stale or self.detached):
            return f"No worker is registered for jobs named {self.name}."
        known = [
            f"{count} {what}"
            for count, what in ((self.stale, "silent"), (self.detached, "detached"))
            if count
        ]
        seen = "" if self.last_seen_ms is None else f", last seen {span(self.now_ms - self.last_seen_ms)} ago"
        return f"No live worker is registered for jobs named {self.name}: {' and '.join(known)}{seen}."


@dataclass(frozen=True, slots=True)
class NearWorker:
    """A live worker for the name that lacks `missing` of the labels: what the job asks for, and what the worker has
    instead (None: no such label)."""

    worker_id: str
    node_id: str
    missing: Mapping[str, tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class NoMatchingWorker:
    """Workers for the name live, and none of them has the labels that the job asks for. `nearest`: those that lack the
    fewest, at most a few."""

    code: ClassVar = "no_matching_worker"
    name: str
    requires: Mapping[str, str]
    workers: int
    nearest: tuple[NearWorker, ...]

    @property
    def text(self) -> str:
        wanted = ", ".join(f"{key}={value}" for key, value in self.requires.items())
        none = f"None of the {self.workers} live workers" if self.workers > 1 else "The only live worker"
        has = "has" if self.workers > 1 else "does not have"
        near = "; ".join(
            f"{one.node_id or one.worker_id} has "
            + ", ".join(
                f"no label {key}" if has_value is None else f"{key}={has_value} instead of {value}"
                for key, (value, has_value) in one.missing.items()
            )
            for one in self.nearest
        )
        return f"{none} for jobs named {self.name} {has} the labels that it requires ({wanted}). Nearest: {near}."


@dataclass(frozen=True, slots=True)
class WorkersUnavailable:
    """None of the live workers for the name takes a job now; each counts once. `broken`, `paused` and `refusing` are
    `None` if this master does not lead. `broken_why`: the reasons of the last failed pushes to the broken ones.
    """

    code: ClassVar = "workers_unavailable"
    name: str
    workers: int
    full: int
    draining: int
    pulling: int
    broken: int | None
    paused: int | None
    refusing: int | None
    busy: int
    max_jobs: int
    broken_why: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        reasons = ["; ".join(self.broken_why)] if self.broken_why else []
        whys = [
            f"{count} {why}"
            for count, why in (
                (self.full, f"full ({self.busy} of {self.max_jobs} slots)"),
                (self.draining, "draining"),
                (self.broken, f"not reachable ({': '.join(['circuit breaker open', *reasons])})"),
                (self.paused, "asked for a pause"),
                (self.refusing, "registered for the name and refused it as unknown"),
                (self.pulling, "not asking for jobs (they pull, because they have no address)"),
            )
            if count
        ]
        none = f"None of the {self.workers} live workers" if self.workers > 1 else "The only live worker"
        verb = "takes a job now" if self.workers > 1 else "takes no job now"
        unknown = " Only the leader knows whether other workers are reachable." if self.broken is None else ""
        return f"{none} for jobs named {self.name} {verb}: {', '.join(whys)}.{unknown}"


@dataclass(frozen=True, slots=True)
class Ahead:
    """So many jobs come before it: those that may start and, where constraints hold it back, those that wait for the
    same (`is_held_back`). `others` by name, of names that the same workers take."""

    code: ClassVar = "ahead"
    name: str
    count: int
    bound: Accuracy
    others: Mapping[str, int]
    is_held_back: bool = False

    @property
    def text(self) -> str:
        if not self.count:
            return "Other jobs may come before it, but there are too many lanes to count."
        least = {Accuracy.EXACT: "", Accuracy.AT_LEAST: "at least ", Accuracy.ABOUT: "about "}[self.bound]
        come = "comes" if self.count == 1 else "come"
        waits = "waits" if self.count == 1 else "wait"
        which = (
            f"that may start or {waits} for the same constraint" if self.is_held_back else "that may start"
        )
        text = f"{least}{_count(self.count, 'job')} {which} {come} before it"
        if self.others:
            shown = [f"{count} named {name}" for name, count in list(self.others.items())[:MAX_NAMED_NAMES]]
            more = len(self.others) - len(shown)
            text += f", including {', '.join(shown)}{f' and those of {more} more names' if more > 0 else ''}"
        return f"{text[0].upper()}{text[1:]}."


@dataclass(frozen=True, slots=True)
class IndexMissing:
    """The job is ready, and the store's index does not lead to it: part of the data was lost or changed by hand."""

    code: ClassVar = "index_missing"
    fault: str

    @property
    def text(self) -> str:
        return (
            f"Its index entry is missing or wrong (its lane {self.fault}), so no claim finds it. The leader repairs "
            "the index of a name when its jobs have been ready for 30 s although workers are free, and the whole index "
            "once an hour. `jqmaster fsck --repair` repairs it now."
        )


class Next(PlainVerdict):
    code = "next"
    text = "It is next: the first free slot of its workers takes it."


@dataclass(frozen=True, slots=True)
class Running:
    """`is_confirmed`: a heartbeat of the worker named it, so that it is more than an offer."""

    code: ClassVar = "running"
    worker_id: str
    attempt: int
    since_ms: int
    deadline_ms: int
    lease_until_ms: int | None
    is_confirmed: bool
    worker_last_seen_ms: int | None
    now_ms: int

    @property
    def text(self) -> str:
        since, passed = iso_ms(self.since_ms), span(self.now_ms - self.since_ms)
        first = (
            f"Attempt {self.attempt} has been running on worker {self.worker_id} since {since}, for {passed}."
            if self.is_confirmed
            else f"It was given to worker {self.worker_id} at {since}, {passed} ago, as attempt {self.attempt}. "
            "No heartbeat has named it yet."
        )
        lease = (
            ""
            if self.lease_until_ms is None
            else f" Its lease ends at {iso_ms(self.lease_until_ms)} unless it is renewed."
        )
        seen = (
            " The worker is no longer registered."
            if self.worker_last_seen_ms is None
            else f" The worker was last seen {span(self.now_ms - self.worker_last_seen_ms)} ago."
        )
        return f"{first}{lease} The master ends it at {iso_ms(self.deadline_ms)} at the latest.{seen}"


@dataclass(frozen=True, slots=True)
class AwaitingCallback:
    """Another system does its work. `due_at_ms` 0: the callbacks are there, and a worker is to take them."""

    code: ClassVar = "awaiting_callback"
    attempt: int
    due_at_ms: int
    now_ms: int

    @property
    def is_answered(self) -> bool:
        return self.due_at_ms == 0

    @property
    def text(self) -> str:
        if self.is_answered:
            return f"The callbacks of attempt {self.attempt} are there. The next free worker of its name takes them."
        left_ms = self.due_at_ms - self.now_ms
        left = f"in {span(left_ms)}" if left_ms > 0 else f"{span(-left_ms)} ago"
        return (
            f"Another system has the work of attempt {self.attempt}. The wait for its callback ends at "
            f"{iso_ms(self.due_at_ms)}, {left}."
        )


@dataclass(frozen=True, slots=True)
class AwaitingJobs:
    """It waits for other jobs. `jobs`: the first of them with their states (None: the job is gone), of `count`."""

    code: ClassVar = "awaiting_jobs"
    jobs: tuple[tuple[str, str | None], ...]
    count: int

    @property
    def text(self) -> str:
        named = [f"{job_id} ({state or 'gone'})" for job_id, state in self.jobs[:MAX_NAMED_REASONS]]
        others = self.count - len(named)
        more = f" and {_count(others, 'other')}" if others > 0 and named else ""
        return f"It waits for {'jobs' if self.count > 1 else 'job'} {', '.join(named)}{more}."


@dataclass(frozen=True, slots=True)
class Finished:
    code: ClassVar = "finished"
    state: JobState
    cause: Cause
    finished_at_ms: int

    @property
    def text(self) -> str:
        cause = "" if self.cause is Cause.NONE else f" (cause: {self.cause.name.lower()})"
        return f"It ended at {iso_ms(self.finished_at_ms)}: {self.state}{cause}."


Verdict = (
    Due | Expired | NoLeader | RulesChanging | ByConstraint | NoWorker | NoMatchingWorker | WorkersUnavailable
    | Ahead | IndexMissing | Next | Running | AwaitingCallback | AwaitingJobs | Finished
)  # fmt: skip


def verdicts(snapshot: Snapshot, constraints: Mapping[str, Constraint], fleet: FleetFacts) -> list[Verdict]:
    """Return the verdicts in the order in which something has to change; never empty. `constraints` by cid."""
    job, now_ms = snapshot.job, snapshot.now_ms
    if job.state in FINISHED:
        return [Finished(job.state, job.cause, job.finished_at_ms)]
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
    found += _before_its_turn(snapshot)
    is_settled = snapshot.edition == snapshot.settled_edition == snapshot.lane_edition
    if not (is_settled or snapshot.index_fault):
        found.append(RulesChanging(snapshot.edition, snapshot.settled_edition, snapshot.lane_edition))
    closed = _closed(snapshot, constraints, fleet)
    found += closed
    in_the_way = len(found)
    workers = _workers(job, now_ms, fleet)
    if workers:
        found.append(workers)
    if snapshot.index_fault:
        found.append(IndexMissing(snapshot.index_fault))
    elif snapshot.standing:
        ahead = _ahead(job.name, snapshot.standing, is_held_back=bool(closed))
        if ahead:
            found.append(ahead)
        elif not in_the_way and not isinstance(workers, NoWorker | NoMatchingWorker):
            found.append(Next())
    return found


def _before_its_turn(snapshot: Snapshot) -> list[Verdict]:
    job = snapshot.job
    if job.state is JobState.AWAITING_JOBS:
        return [AwaitingJobs(snapshot.awaits, snapshot.awaits_count)]
    if job.state in TIMED:
        return [Due(str(job.state), job.due_at_ms, job.due_at_ms - snapshot.now_ms, job.failures)]
    return []


def _closed(
    snapshot: Snapshot, constraints: Mapping[str, Constraint], fleet: FleetFacts
) -> list[ByConstraint]:
    now_ms = snapshot.now_ms
    silent_ms = {
        w.id: now_ms - w.last_seen_ms for w in fleet.workers if not w.is_fresh(now_ms, fleet.stale_ms)
    }
    closed = [
        ByConstraint(constraint, gate, kinds[0], now_ms, silent_ms)
        for gate in snapshot.gates
        if (kinds := closing(gate))
        and not gate.is_shadow
        and (constraint := constraint_of(gate, constraints))
    ]
    return sorted(closed, key=lambda one: (CLOSERS.index(one.kind), one.constraint.name, one.gate.value))


def _ahead(name: str, standing: Standing, *, is_held_back: bool) -> Ahead | None:
    count = sum(standing.by_name.values())
    if count == 0 and standing.bound is Accuracy.EXACT:
        return None
    others = {other: jobs for other, jobs in standing.by_name.items() if other != name}
    return Ahead(name, count, standing.bound, others, is_held_back)


def _near(job: Job, worker: Worker) -> NearWorker:
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
    """Return the verdict on the workers; None if one of them takes a job now."""
    name = job.name
    known = [worker for worker in fleet.workers if name in worker.spec.names]
    detached = [worker for worker in known if worker.is_detached]
    live = [worker for worker in known if not worker.is_detached and worker.is_fresh(now_ms, fleet.stale_ms)]
    if not live:
        last_seen_ms = max((worker.last_seen_ms for worker in known), default=None)
        return NoWorker(name, len(known) - len(detached), len(detached), last_seen_ms, now_ms)
    if job.requires:
        matching = [worker for worker in live if is_met(job.requires, worker.spec.labels)]
        if not matching:
            near = sorted(
                (_near(job, worker) for worker in live), key=lambda one: (len(one.missing), one.worker_id)
            )
            return NoMatchingWorker(name, job.requires, len(live), tuple(near[:MAX_NAMED_REASONS]))
        live = matching
    broken_why: set[str] = set()
    counts = dict.fromkeys(("draining", "full", "broken", "paused", "refusing", "pulling"), 0)
    for worker in live:
        reach = (fleet.reach or {}).get(worker.id, Reach())
        if worker.is_draining:
            counts["draining"] += 1
        elif name in reach.refused_names:
            counts["refusing"] += 1
        elif reach.breaker == "open":
            counts["broken"] += 1
            broken_why |= {reach.why} - {""}
        elif worker.busy >= worker.spec.max_jobs:
            counts["full"] += 1
        elif reach.paused_ms > 0:
            counts["paused"] += 1
        elif not worker.may_be_given(now_ms):
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
        broken=counts["broken"] if is_known else None,
        paused=counts["paused"] if is_known else None,
        refusing=counts["refusing"] if is_known else None,
        busy=sum(worker.busy for worker in live),
        max_jobs=sum(worker.spec.max_jobs for worker in live),
        broken_why=tuple(sorted(broken_why)[:MAX_NAMED_REASONS]),
    )


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
    )


def rival_names(job: Job, now_ms: int, fleet: FleetFacts, queues: Collection[str] = ()) -> list[str]:
    """Return the other names whose jobs compete with this one for the same live workers, and those of the `queues` of
    jobs that ask for labels."""
    live = [
        worker.spec.names + queues_for(worker.spec.names, worker.spec.labels, queues)
        for worker in fleet.workers
        if job.name in worker.spec.names
        and is_met(job.requires or {}, worker.spec.labels)
        and not (worker.is_detached or worker.is_draining)
        and worker.is_fresh(now_ms, fleet.stale_ms)
    ]
    return sorted({other for names in live for other in names} - {job.queue})


def constraint_of(gate: GateCheck, constraints: Mapping[str, Constraint]) -> Constraint | None:
    """Return the constraint; None if it was removed meanwhile, so that its gate is open."""
    return constraints.get(gate.gate_id[:CID_LENGTH])


def named(constraint: Constraint, gate: GateCheck) -> str:
    """`mail-per-host (argument.host = example.org)`."""
    return (
        constraint.name if constraint.key is None else f"{constraint.name} ({constraint.key} = {gate.value})"
    )


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
