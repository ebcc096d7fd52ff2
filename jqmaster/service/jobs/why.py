"""Explains why a job is not running."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.constraints.constraint import Constraint
from jqmaster.domain.constraints.gate_check import GateCheck
from jqmaster.domain.constraints.parts import owners_of
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.why.facts import FleetFacts, Reachability, Snapshot
from jqmaster.domain.why.judgement import completed, constraint_of, rival_names, verdicts
from jqmaster.domain.why.verdict import ByConstraint, Verdict
from jqmaster.errors import NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.store.constraints.why import WhyStore
from jqmaster.store.workers.workers import FleetSeen, WorkerStore

# Time after the start of an attempt for which it may still be waiting, at its worker, for an earlier run of the same
# job. The SDK waits for a little less.
FOLLOW_MS: Final = 12_000
# Outcomes of attempts after which the handler may still be running.
_MAY_GO_ON: Final = frozenset({"timeout", "canceled", "lost", "handed_back"})


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is not running. `constraints`: every constraint that applies to the unfinished job, each with the gate
    that the job has to pass. Constraints in shadow mode are included."""

    state: JobState
    as_of_ms: int
    verdicts: list[Verdict]
    constraints: list[tuple[Constraint, GateCheck]]


@dataclass(frozen=True, slots=True)
class WhyPolicy:
    """Times that explanations use.

    * `stale_ms`: after this time without a heartbeat, a worker counts as silent.
    * `deadline_extra_ms`: the time that a job may take beyond its timeout before its lease ends.
    """

    stale_ms: int
    deadline_extra_ms: int


class WhyService:
    """Explains why jobs are not running. `reach`: returns facts about workers that only the leader has, or None if this
    master does not lead."""

    def __init__(
        self,
        store: WhyStore,
        workers: WorkerStore,
        constraints: ConstraintCache,
        *,
        policy: LiveValue[WhyPolicy],
        reach: Callable[[], Mapping[str, Reachability] | None],
    ) -> None:
        self._store = store
        self._workers = workers
        self._constraints = constraints
        self._reach = reach
        self._policy = policy

    async def why(self, job_id: str, access: ContentAccess) -> Explanation:
        """Explain why a job is not running. Raise NotFoundError."""
        found = (await self.why_each([job_id], access))[job_id] if is_id(job_id) else None
        if found is None:
            raise NotFoundError(f"no job {job_id[:64]}", code="unknown_job")
        return found

    async def why_each(self, job_ids: Iterable[str], access: ContentAccess) -> dict[str, Explanation | None]:
        """Return the explanations by job ID, in few round trips to the store. None: there is no such job."""
        known = await self._constraints.reload()
        is_keyed = any(one.key for one in known.constraint_set.constraints)
        snapshots = await self._store.snapshots(dict.fromkeys(job_ids, ()), is_keyed=is_keyed)
        seen = await self._workers.fleet() if any(snapshots.values()) else FleetSeen([], 0, [])
        policy = self._policy.current
        fleet = FleetFacts(seen.workers, policy.stale_ms, policy.deadline_extra_ms, self._reach())
        # Jobs of other names may compete for the same workers. The names are known only now, so read the snapshots
        # again, this time with the names.
        again = {
            job_id: rivals
            for job_id, one in snapshots.items()
            if one and one.jobs_ahead and (rivals := rival_names(one.job, one.now_ms, fleet, seen.queues))
        }
        if again:
            snapshots |= await self._store.snapshots(again, is_keyed=is_keyed)
        if not any(snapshots.values()):
            return dict.fromkeys(snapshots)
        # Reload after reading the gates, so that constraints that were created meanwhile are known.
        constraints = owners_of((await self._constraints.reload()).constraint_set.constraints)
        return {
            job_id: await self._explained(one, fleet, constraints, access) if one else None
            for job_id, one in snapshots.items()
        }

    async def _explained(
        self,
        snapshot: Snapshot,
        fleet: FleetFacts,
        constraints: Mapping[str, Constraint],
        access: ContentAccess,
    ) -> Explanation:
        of_name = access.for_name(snapshot.job.name)
        snapshot = _covered(await self._with_last_end(snapshot, of_name), constraints, of_name)
        return Explanation(
            snapshot.job.state,
            snapshot.now_ms,
            [self._with_author(one) for one in verdicts(snapshot, constraints, fleet)],
            sorted(
                (
                    (found, completed(gate, found))
                    for gate in snapshot.gates
                    if (found := constraint_of(gate, constraints))
                ),
                key=lambda pair: pair[0].name,
            ),
        )

    def _with_author(self, verdict: Verdict) -> Verdict:
        """If the verdict is a pause, add the caller who paused. Return the verdict."""
        if not (isinstance(verdict, ByConstraint) and verdict.is_pause):
            return verdict
        known = self._constraints.current.named(verdict.constraint.name)
        return replace(verdict, paused_by=(known.created_by or "") if known else "")

    async def _with_last_end(self, snapshot: Snapshot, access: ContentAccess) -> Snapshot:
        """Return the snapshot with facts about the end of the last attempt, if they explain a wait. For a running job,
        an earlier handler on the same worker may still be in the way. For a deferred job, the reason is added if the
        caller may see it."""
        job = snapshot.job
        if job.state is JobState.RUNNING:
            if job.attempt == 1 or snapshot.now_ms - job.started_at_ms > FOLLOW_MS:
                return snapshot
            last = await self._store.last_end(job.id)
            if last is None or last.worker_id != job.worker_id or last.outcome not in _MAY_GO_ON:
                return snapshot
            return replace(snapshot, earlier_end=str(last.outcome))
        if job.state is not JobState.SCHEDULED or not job.attempt or access.error_text_cover is not None:
            return snapshot
        last = await self._store.last_end(job.id)
        is_put_off = last is not None and last.outcome in ("deferred", "not_ready")
        return (
            replace(snapshot, put_off=(last.message or "").rstrip(".")) if last and is_put_off else snapshot
        )


def _covered(snapshot: Snapshot, constraints: Mapping[str, Constraint], access: ContentAccess) -> Snapshot:
    """Return the snapshot with key values in the form that the caller may see. Verdicts quote these values."""
    gates = []
    for gate in snapshot.gates:
        constraint = constraint_of(gate, constraints)
        # Hide the key value if the gate's constraint has been deleted.
        gates.append(replace(gate, value=access.key_text(constraint.key, gate.value) if constraint else ""))
    return replace(snapshot, gates=tuple(gates))
