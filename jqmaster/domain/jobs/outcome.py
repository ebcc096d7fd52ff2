"""The consequences of an attempt's end for its job. This module decides every kind of ending."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from jqmaster.domain.jobs.job import Cause, Job, JobSpec, JobState
from jqmaster.domain.jobs.retry import backoff_ms, floor_ms

Report = Literal["success", "failure", "deferred", "handed_back", "canceled", "discarded", "challenged"]


# Why an attempt failed. Workers report the first four reasons, and masters set the others.
# - `undecodable`: the worker could not decode the job.
# - `invalid_argument`: the argument does not fit the handler, which did not run.
# - `callback_timeout`: no callback arrived in time.
# - `not_ready`: the work could not begin for too long.
Reason = Literal["other", "timeout", "undecodable", "invalid_argument", "callback_timeout", "not_ready"]
_CAUSES: Final[Mapping[Reason, Cause]] = {
    "other": Cause.ERROR,
    "timeout": Cause.TIMEOUT,
    "undecodable": Cause.UNDECODABLE,
    "invalid_argument": Cause.INVALID_ARGUMENT,
    "callback_timeout": Cause.CALLBACK_TIMEOUT,
    "not_ready": Cause.NOT_READY,
}
_ENDINGS: Final[Mapping[Cause, str]] = {
    Cause.TIMEOUT: "timeout",
    Cause.CALLBACK_TIMEOUT: "callback_timeout",
}
# Failures for these reasons are not retried, because another attempt with the same argument would fail in the same way.
_HOPELESS: Final[frozenset[Reason]] = frozenset({"undecodable", "invalid_argument"})


# A worker that could not end a job leaves jobs of this name to other workers. It does so until this long after the job
# may run again.
_LEAVE_MS: Final = 15_000
_MAX_LEAVE_MS: Final = 75_000


@dataclass(frozen=True, slots=True)
class NotReadyReport:
    """A report that the handler cannot begin its work yet. The first wait is `Outcome.retry_after_s`. Each further wait
    is twice as long, up to `max_wait_s`. If the work cannot begin for `for_s`, the job fails. None: it waits
    without limit.
    """

    max_wait_s: float
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class NotReadyRecord:
    """A series of not-ready reports: the time of the first one, and their number, including the present one."""

    since_ms: int
    times: int


@dataclass(frozen=True, slots=True)
class WantedHold:
    """A pause that a worker asks for because of an outside system. It applies at one key value of a constraint, or at
    the only gate of a constraint without a key.
    """

    constraint: str
    key: object = None
    has_key: bool = False


class UsedUnits(NamedTuple):
    """The units of limits that an attempt has used.

    * `called_at_ms`: the store time by which the other system had counted the last call of the attempt. 0: not
      reported.
    * `units`: thousandths by unit.
    """

    called_at_ms: int
    units: Mapping[str, int]


# Not frozen: creating a frozen dataclass takes three times as long, and each result creates one.
@dataclass(slots=True)
class Outcome:
    """A worker's report on one attempt. `result` and `error` are encoded MessagePack values.

    * `code`: the handler's name for a failure.
    * `request_id`: the challenge for whose callback a `challenged` attempt waits.
    """

    job_id: str
    token: str
    type: Report
    result: bytes | None = None
    reason: Reason = "other"
    should_retry: bool = True
    error: bytes | None = None
    message: str = ""
    retry_after_s: float | None = None
    finished_at: str | None = None
    hold: WantedHold | None = None
    code: str = ""
    request_id: str = ""
    not_ready: NotReadyReport | None = None
    used: UsedUnits | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a job after an attempt. `ending`: the word in the attempt's record."""

    state: JobState
    ending: str
    delay_ms: int = 0
    cause: Cause = Cause.NONE
    is_counted: bool = False
    is_loss: bool = False


def leave_ms(decision: Decision) -> int:
    """Return for how long the worker of the ended attempt leaves jobs of the same name to other workers with free
    slots. 0: not at all.

    After a timeout or a return, the worker may still run the handler. The next attempt on this worker would wait for
    the handler.
    """
    may_still_run = decision.ending in ("handed_back", "timeout")
    runs_again = decision.state in (JobState.READY, JobState.SCHEDULED, JobState.RETRYING)
    return min(_LEAVE_MS + decision.delay_ms, _MAX_LEAVE_MS) if may_still_run and runs_again else 0


def decide(job: Job, outcome: Outcome, *, jitter: float) -> Decision:
    """Return the decision on a worker's report about the running attempt of `job`. `jitter` is uniform in [0, 1)."""
    match outcome.type:
        case "success":
            return Decision(JobState.SUCCEEDED, "success")
        case "discarded":
            return Decision(JobState.DISCARDED, "discarded")
        case "canceled":
            return Decision(JobState.CANCELED, "canceled", cause=Cause.CANCELED)
        case "handed_back":
            delay_ms = floor_ms(_free_attempts(job))
            state = JobState.SCHEDULED if delay_ms else JobState.READY
            return Decision(state, "handed_back", delay_ms=delay_ms)
        case "deferred":
            asked_ms = int((outcome.retry_after_s or 0.0) * 1000)
            delay_ms = max(asked_ms, floor_ms(_free_attempts(job)))
            return Decision(JobState.SCHEDULED, "deferred", delay_ms=delay_ms)
        case "challenged":
            return Decision(JobState.AWAITING_CALLBACK, "challenged")
        case "failure":  # pragma: no branch - the last of `Report`
            return _counted_failure(
                job,
                _CAUSES[outcome.reason],
                should_retry=outcome.should_retry and outcome.reason not in _HOPELESS,
                jitter=jitter,
                retry_after_s=outcome.retry_after_s,
            )


def decide_not_ready(outcome: Outcome, found: NotReadyRecord, now_ms: int) -> Decision:
    """Return the decision on a report that the work cannot begin yet."""
    rules = outcome.not_ready
    assert rules is not None
    if rules.for_s is not None and now_ms - found.since_ms >= rules.for_s * 1000:
        return Decision(JobState.FAILED, "not_ready", cause=Cause.NOT_READY)
    first_s = outcome.retry_after_s or 0.0
    # Limit the exponent: 2 ** 30 seconds are longer than any maximum wait.
    wait_s = min(max(first_s, rules.max_wait_s), first_s * 2 ** min(found.times - 1, 30))
    wait_s = max(wait_s, floor_ms(found.times - 1) / 1000)
    if rules.for_s is not None:
        wait_s = min(wait_s, rules.for_s - (now_ms - found.since_ms) / 1000)
    return Decision(JobState.SCHEDULED, "not_ready", delay_ms=max(0, int(wait_s * 1000)))


def decide_unanswered(job: Job, *, jitter: float) -> Decision:
    """Return the decision for a challenge without a callback in time: the attempt failed."""
    return _counted_failure(job, Cause.CALLBACK_TIMEOUT, should_retry=True, jitter=jitter, retry_after_s=None)


@dataclass(frozen=True, slots=True)
class ExpiryRules:
    """The settings for decisions on claims that have lost their lease.

    * `stale_ms`: a worker that is silent for longer is lost.
    * `alone_wait_ms`: how long a job that fails after one more loss waits for a worker that runs nothing else. 0: it
      does not wait.
    * `lease_ms`: a heartbeat arrives within this time. If it takes longer, its worker gives up the call.
    """

    stale_ms: int
    max_losses: int
    lease_ms: int
    alone_wait_ms: int = 0


# How a worker's process ended properly. `left`: it announced its end, and then unregistered.
OrderlyEnd = Literal["announced", "unregistered", "left"]


def never_reached_worker(job: Job, worker_as_of_ms: int, *, orderly_end: OrderlyEnd | None = None) -> bool:
    """Return whether the worker certainly never took the offer. No heartbeat may have named the offer. In addition, a
    heartbeat must have been composed after the end of the offer, or the worker must have left.

    A worker that announces its end names its claims before it unregisters. A worker that only unregisters may have run
    the job and given up its result.
    """
    return not job.is_confirmed and (orderly_end == "left" or worker_as_of_ms > job.not_after_ms)


def proof_due_ms(
    job: Job, *, now_ms: int, worker_seen_ms: int, worker_as_of_ms: int, rules: ExpiryRules
) -> int | None:
    """Return the store time after which a heartbeat without `as_of_ms` proves that its worker never took the offer. A
    heartbeat that arrives more than a lease after the end of the offer was composed after that end.

    None: there is nothing to wait for, because a heartbeat named the job, or the worker sends `as_of_ms` or is silent.
    Also None if the result would be implausibly far away, because the store's clock was set back.
    """
    if job.is_confirmed or worker_as_of_ms > 0 or not _is_heard(now_ms, worker_seen_ms, rules):
        return None
    due_ms = job.not_after_ms + rules.lease_ms
    return due_ms if due_ms - now_ms <= 2 * rules.lease_ms else None


def decide_expired(
    job: Job,
    *,
    now_ms: int,
    deadline_ms: int,
    lease_until_ms: int,
    worker_seen_ms: int,
    worker_as_of_ms: int,
    rules: ExpiryRules,
    jitter: float,
    orderly_end: OrderlyEnd | None = None,
) -> Decision | None:
    """Return the decision on a claim that has lost its lease, or has run beyond `deadline_ms`.

    * `lease_until_ms`: the end of the lease. It is `deadline_ms` if the worker renewed the lease for as long as
      allowed. A lease that ended earlier was lost, even if the loss is noticed late or the worker is alive again.
    * `worker_seen_ms`: arrival of the last heartbeat of the worker. 0: it is no longer registered.
    * `worker_as_of_ms`: the earliest time at which that heartbeat can have been composed. 0: unknown. Negative: further
      reports of the worker on its claims are still to come.
    * `orderly_end`: how the worker's process ended properly. None: it did not. After a proper end, the job has not
      killed the process, and is handed back.

    If the worker never took the offer (see `never_reached_worker`), the job returns without counting an attempt. If
    that is not certain yet (see `proof_due_ms`), the decision is `None`. Otherwise the job may have started and even
    have killed its worker, so the attempt counts as a loss.
    """
    if never_reached_worker(job, worker_as_of_ms, orderly_end=orderly_end):
        return Decision(JobState.READY, "returned")
    due_ms = proof_due_ms(
        job, now_ms=now_ms, worker_seen_ms=worker_seen_ms, worker_as_of_ms=worker_as_of_ms, rules=rules
    )
    if due_ms is not None:
        is_proven = worker_as_of_ms == 0 and worker_seen_ms > due_ms
        return Decision(JobState.READY, "returned") if is_proven else None
    if lease_until_ms >= deadline_ms and _is_heard(now_ms, worker_seen_ms, rules):
        return _counted_failure(job, Cause.TIMEOUT, should_retry=True, jitter=jitter, retry_after_s=None)
    may_rerun = job.max_retry > 0 or job.rerun_lost
    if orderly_end is not None and may_rerun:
        return Decision(JobState.READY, "handed_back")
    if job.losses + 1 >= rules.max_losses or not may_rerun:
        return Decision(JobState.FAILED, "lost", cause=Cause.LOST, is_loss=True)
    # A job whose callback has arrived need not run alone: it continues with the callback instead of starting again.
    if job.losses + 2 == rules.max_losses and rules.alone_wait_ms and not job.has_challenge:
        return Decision(JobState.RETRYING, "lost", delay_ms=rules.alone_wait_ms, is_loss=True)
    return Decision(JobState.READY, "lost", is_loss=True)


def _is_heard(now_ms: int, worker_seen_ms: int, rules: ExpiryRules) -> bool:
    """Return whether a worker is alive. If its last heartbeat is in the future, the store's clock was set back after
    that heartbeat. Such a worker counts as silent: each live worker has sent another heartbeat in the grace period
    after the clock was set back."""
    return 0 <= now_ms - worker_seen_ms <= rules.stale_ms


def decide_restored(job: Job) -> Decision:
    """Return the decision on a job that was running in the backup from which the store was restored.

    The end of the attempt is unknown. As after the loss of a worker, the job starts again if it may. No worker was
    lost, so the attempt counts neither as a failure nor as a loss.
    """
    if may_begin_again(job):
        return Decision(JobState.READY, "lost")
    return Decision(JobState.FAILED, "lost", cause=Cause.LOST)


def may_begin_again(job: Job | JobSpec) -> bool:
    """Return whether a job may run once more if the end of its attempt is unknown."""
    return job.max_retry > 0 or job.rerun_lost


def _free_attempts(job: Job) -> int:
    """Return how many attempts before the present one ended neither as a failure nor as a loss."""
    # Compute this number from the other counts, so that the record needs no field for it.
    return job.attempt - 1 - job.failures - job.losses


def _counted_failure(
    job: Job, cause: Cause, *, should_retry: bool, jitter: float, retry_after_s: float | None
) -> Decision:
    ending = _ENDINGS.get(cause, "failure")
    if not should_retry or job.failures >= job.max_retry:
        return Decision(JobState.FAILED, ending, cause=cause, is_counted=True)
    delay_ms = backoff_ms(job.retry, job.failures + 1, jitter=jitter, retry_after_s=retry_after_s)
    return Decision(JobState.RETRYING, ending, delay_ms=delay_ms, cause=cause, is_counted=True)
