"""Workers' reports about the starts and ends of attempts."""

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.challenges.challenge import read_request_id
from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import (
    Decision,
    Outcome,
    UsedUnits,
    WantedHold,
    decide,
    decide_not_ready,
    leave_ms,
)
from jqmaster.domain.jobs.stack_frame import kind_of
from jqmaster.domain.matching.key_value import key_value
from jqmaster.errors import JqmasterError, unknown_worker
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.coalescing import Coalescer
from jqmaster.service.workers.workers import existing_worker
from jqmaster.store import codec
from jqmaster.store.constraints.constraints import ConstraintSnapshot
from jqmaster.store.jobs.challenges import NOT_OPENED, ChallengeStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.settlements import GateHold, Settled, Settlement, SettlementStore, Successes
from jqmaster.store.link.leader_port import NextJobs
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.workers.workers import WorkerStore

logger = logging.getLogger(__name__)

# Maximum length of a failure message, in characters. Longer messages are cut, because every failed attempt stores one.
MAX_MESSAGE: Final = 1_000
# Maximum number of waiting reports. More reports would wait only if the store did not answer.
MAX_WAITING_REPORTS: Final = 10_000
NO_CHALLENGE: Final = "reported as challenged, but the attempt opened no challenge with this request ID"


@dataclass(frozen=True, slots=True)
class Observed:
    """A handler's report of another system's remaining capacity, for a constraint or for one value of its key.

    * `remaining`: the remaining capacity, in thousandths of a unit.
    * `resets_ms`: how long after `as_of_ms` the system starts counting from zero again.
    * `as_of_ms`: the time of the observation. 0: now.
    """

    constraint: str
    remaining: int
    resets_ms: int
    value: object = None
    has_value: bool = False
    as_of_ms: int = 0


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """The answer to a report.

    * `accepted`: IDs of jobs with an accepted outcome.
    * `stale`: IDs of jobs with a stale token.
    * `given`: the next jobs of the worker.
    """

    accepted: list[str]
    stale: list[str]
    given: NextJobs | None = None


class ReportService:
    """Takes workers' reports on jobs. `rng`: the source of the jitter of retries. Methods raise what the store
    raises."""

    def __init__(
        self,
        workers: WorkerStore,
        constraints: ConstraintCache,
        *,
        settlements: SettlementStore,
        challenges: ChallengeStore,
        records: RecordStore,
        rng: random.Random | None = None,
    ) -> None:
        self._workers = workers
        self._constraints = constraints
        self._settlements = settlements
        self._challenges = challenges
        self._records = records
        self._random = rng.random if rng else random.random  # spreads retries, guards nothing
        # Successes that arrive while the store is busy are settled together in the next call, even from different
        # workers.
        self._successes: Coalescer[Successes, Settled | Exception] = Coalescer(
            settlements.settle_successes, max_batch=MAX_PER_CALL, max_waiting=MAX_WAITING_REPORTS
        )

    async def confirm_start(
        self, worker_id: str, claims: Sequence[tuple[str, str]]
    ) -> tuple[list[str], list[str]]:
        """Return the IDs of jobs that may start, and the IDs of jobs with a stale token. Raise NotFoundError if the
        worker is not registered."""
        if not is_id(worker_id):
            raise unknown_worker(worker_id)
        verdicts = await self._settlements.confirm_start(worker_id, claims)
        started, stale = _split([job_id for job_id, _ in claims], verdicts)
        if logger.isEnabledFor(logging.DEBUG):
            for job_id in started:
                logger.debug("job %s: worker %s may start it", job_id, worker_id)
            _log_stale(worker_id, stale)
        return started, stale

    async def results(self, worker_id: str, outcomes: Sequence[Outcome]) -> tuple[list[str], list[str]]:
        """Settle attempts. Return the IDs of jobs with an accepted outcome, and the IDs of jobs with a stale token. An
        outcome that an earlier report already settled counts as accepted. Raise NotFoundError if the worker is not
        registered."""
        answer = await self.take(worker_id, outcomes)
        return answer.accepted, answer.stale

    async def take(
        self, worker_id: str, outcomes: Sequence[Outcome], newest_fence: int | None = None
    ) -> ReportAnswer:
        """Do the same as `results`. If `newest_fence` is given, the answer may contain the worker's next jobs; see
        `ReportedSlots`."""
        if not is_id(worker_id):
            raise unknown_worker(worker_id)
        answer = await self._settle(worker_id, outcomes, newest_fence)
        if logger.isEnabledFor(logging.DEBUG):
            await self._log_settled(worker_id, answer.accepted)
            _log_stale(worker_id, answer.stale)
        return answer

    async def _log_settled(self, worker_id: str, job_ids: Sequence[str]) -> None:
        """Log the state of each job. This takes another read of the store."""
        try:
            jobs = await self._records.get_without_argument(job_ids)
        except JqmasterError:  # best effort: the outcomes count even if this read fails
            jobs = {}
        for job_id in job_ids:
            job = jobs.get(job_id)
            name, state = (job.name, str(job.state)) if job else ("removed", "over")
            logger.debug("job %s (%s): settled by worker %s, now %s", job_id, name, worker_id, state)

    async def _settle(
        self, worker_id: str, outcomes: Sequence[Outcome], newest_fence: int | None
    ) -> ReportAnswer:
        succeeded = [o for o in outcomes if o.type == "success"]
        others = [o for o in outcomes if o.type != "success"]
        accepted: list[str] = []
        stale: list[str] = []
        given: NextJobs | None = None
        if succeeded:
            used: dict[str, UsedUnits] = {}
            for outcome in succeeded:
                if outcome.used:
                    used[outcome.job_id] = outcome.used
            ended = [(o.job_id, o.token, codec.encode_result(o)) for o in succeeded]
            # Let this call also claim the next jobs if the report contains only successes. Other outcomes may take so
            # long to settle that a push would bring the next jobs sooner.
            settled = await self._successes.lead(
                Successes(worker_id, ended, used, None if others else newest_fence)
            )
            if isinstance(settled, Exception):
                raise settled
            accepted, stale = _split([o.job_id for o in succeeded], settled.verdicts)
            given = settled.given
        if others and any(o.type == "challenged" for o in others):
            awaiting, unanswerable = await self._await_callbacks(worker_id, others)
            accepted += awaiting
            others = [o for o in others if o.type != "challenged"] + unanswerable
            answered = {*accepted, *(o.job_id for o in others)}
            stale += [o.job_id for o in outcomes if o.type == "challenged" and o.job_id not in answered]
        if others:
            settlements = await self._decide(worker_id, others)
            if not settlements:
                # Check the worker here: without settlements, no script runs that would check it.
                await existing_worker(self._workers, worker_id)
            verdicts = await self._settlements.settle(worker_id, settlements, newest_fence)
            more_accepted, more_stale = _split([s.job_id for s in settlements], verdicts)
            accepted, stale = accepted + more_accepted, stale + more_stale
            known = {s.job_id for s in settlements}
            stale += [o.job_id for o in others if o.job_id not in known]
        return ReportAnswer(accepted, stale, given)

    async def _await_callbacks(
        self, worker_id: str, outcomes: Sequence[Outcome]
    ) -> tuple[list[str], list[Outcome]]:
        """Return the IDs of jobs that now await callbacks. For each attempt that did not open the challenge it
        reported, return a failure."""
        challenged = [o for o in outcomes if o.type == "challenged"]
        reports = []
        for outcome in challenged:
            request = read_request_id(outcome.request_id)
            reports.append((outcome.job_id, outcome.token, request.digest if request else b""))
        verdicts = await self._challenges.await_callbacks(worker_id, reports)
        pairs = list(zip(challenged, verdicts, strict=True))
        failed = [
            replace(outcome, type="failure", should_retry=False, message=NO_CHALLENGE)
            for outcome, verdict in pairs
            if verdict == NOT_OPENED
        ]
        return [outcome.job_id for outcome, verdict in pairs if verdict == 1], failed

    async def _decide(self, worker_id: str, outcomes: Sequence[Outcome]) -> list[Settlement]:
        jobs = await self._records.get_without_argument([o.job_id for o in outcomes])
        # Read the constraints only for a hold, which needs their newest edition.
        constraints = await self._constraints.reload() if any(o.hold for o in outcomes) else None
        settlements = []
        for outcome in outcomes:
            job = jobs.get(outcome.job_id)
            if job is None:
                continue
            if outcome.not_ready is None:
                decision = decide(job, outcome, jitter=self._random())
            else:
                noted = await self._challenges.note_not_ready(worker_id, outcome.job_id, outcome.token)
                # Without `noted`, the token is stale. The settling script will refuse the token, so any decision will
                # do.
                decision = (
                    decide(job, outcome, jitter=0.0)
                    if noted is None
                    else decide_not_ready(outcome, noted[1], noted[0])
                )
                if decision.state is JobState.FAILED:
                    outcome = replace(outcome, type="failure", reason="not_ready", should_retry=False)
            message = outcome.message[:MAX_MESSAGE]
            settlements.append(
                Settlement(
                    outcome.job_id,
                    outcome.token,
                    decision,
                    codec.encode_attempt(job, decision.ending, message, outcome.error, outcome.code),
                    _final_result(decision, outcome),
                    _hold(constraints, outcome.hold, decision.delay_ms)
                    if constraints and outcome.hold
                    else None,
                    name=job.name,
                    message=message,
                    frame=kind_of(outcome.error) if decision.state is JobState.FAILED else "",
                    used=outcome.used,
                    # Only a report with a valid token may change which worker gets the next jobs.
                    leave_ms=leave_ms(decision)
                    if (job.state, job.worker_id, job.token) == (JobState.RUNNING, worker_id, outcome.token)
                    else 0,
                )
            )
        return settlements

    async def observe(self, worker_id: str, seen: Observed) -> str:
        """Record the remaining capacity of another system for a gate. Return why the observation is ignored, or an
        empty text if it is applied. An ignored observation raises no error, because a worker need not know the current
        constraints. Raise NotFoundError if the worker is not registered."""
        if not is_id(worker_id):
            raise unknown_worker(worker_id)
        constraints = await self._constraints.reload()
        wanted = WantedHold(seen.constraint, seen.value, seen.has_value)
        gate, fault = _gate_of(constraints, wanted)
        if fault:
            await existing_worker(self._workers, worker_id)
            logger.warning("an observation at constraint %.100r is ignored: %s", seen.constraint, fault)
        elif not await self._workers.observe(worker_id, gate, seen.remaining, seen.resets_ms, seen.as_of_ms):
            fault = "a later observation is already stored"
        return fault


def _hold(constraints: ConstraintSnapshot, wanted: WantedHold, for_ms: int) -> GateHold | None:
    """Return the gate to hold, or None if there is no such gate. A worker need not know the current constraints, so the
    job is deferred in either case."""
    gate, fault = _gate_of(constraints, wanted)
    if fault:
        logger.warning("a hold of constraint %.100r is ignored: %s", wanted.constraint, fault)
        return None
    return GateHold(gate, for_ms)


def _gate_of(constraints: ConstraintSnapshot, wanted: WantedHold) -> tuple[str, str]:
    """Return the ID of the gate that a worker names, and a fault. If the gate exists, the fault is empty. Otherwise,
    the ID is empty."""
    stored = constraints.named(wanted.constraint)
    if stored is None or not stored.constraint.enabled:
        return "", "there is no such constraint, or it is not enabled"
    if (stored.constraint.key is not None) is not wanted.has_key:
        return "", "it has no key" if wanted.has_key else "it has a key, and the report names no value"
    value = key_value(wanted.key) if wanted.has_key else None
    return gate_id(stored.constraint.cid, value), ""


def _final_result(decision: Decision, outcome: Outcome) -> bytes:
    return codec.encode_result(outcome) if decision.state is JobState.FAILED else b""


def _log_stale(worker_id: str, job_ids: Sequence[str]) -> None:
    for job_id in job_ids:
        logger.debug("job %s: refused, worker %s does not hold it under this token", job_id, worker_id)


def _split(job_ids: Sequence[str], verdicts: Sequence[bool]) -> tuple[list[str], list[str]]:
    if all(verdicts):
        return list(job_ids), []
    pairs = list(zip(job_ids, verdicts, strict=True))
    return [job_id for job_id, ok in pairs if ok], [job_id for job_id, ok in pairs if not ok]
