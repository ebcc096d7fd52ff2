"""The consequences of an attempt's end for its job. Every kind of ending is decided here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from jqmaster.domain.job import Cause, Job, JobState
from jqmaster.domain.retry import backoff_ms

Report = Literal["success", "failure", "deferred", "handed_back", "canceled", "discarded"]


# The reason of a failed attempt, as its worker reports it. `undecodable`: the worker could not decode the job.
# `invalid_argument`: the argument does not fit the handler, which did not run.
Reason = Literal["other", "timeout", "undecodable", "invalid_argument"]
_CAUSES: Final[Mapping[Reason, Cause]] = {
    "other": Cause.ERROR,
    "timeout": Cause.TIMEOUT,
    "undecodable": Cause.UNDECODABLE,
    "invalid_argument": Cause.INVALID_ARGUMENT,
}
# The same argument meets the same fate the next time.
_HOPELESS: Final[frozenset[Reason]] = frozenset({"undecodable", "invalid_argument"})


@dataclass(frozen=True, slots=True)
class HoldOrder:
    """The outside system behind a constraint asked for a pause: of one value of its key, or, without a key, of all."""

    constraint: str
    key: object = None
    has_key: bool = False


# Not frozen: a frozen dataclass takes three times as long to make, and each result makes one.
@dataclass(slots=True)
class Outcome:
    """A worker's report on one attempt. `result` and `error` are encoded MessagePack values."""

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
    hold: HoldOrder | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state of the job. `ending` is the word in the attempt's record."""

    state: JobState
    ending: str
    delay_ms: int = 0
    cause: Cause = Cause.NONE
    is_counted: bool = False
    is_loss: bool = False


def decide(job: Job, outcome: Outcome, *, jitter: float) -> Decision:
    """Return the meaning of a worker's report on the running attempt of `job`. `jitter` is uniform in [0, 1)."""
    match outcome.type:
        case "success":
            return Decision(JobState.SUCCEEDED, "success")
        case "discarded":
            return Decision(JobState.DISCARDED, "discarded")
        case "canceled":
            return Decision(JobState.CANCELED, "canceled", cause=Cause.CANCELED)
        case "handed_back":
            return Decision(JobState.READY, "handed_back")
        case "deferred":
            return Decision(
                JobState.SCHEDULED, "deferred", delay_ms=int((outcome.retry_after_s or 0.0) * 1000)
            )
        case "failure":  # pragma: no branch - the last of `Report`
            return _counted_failure(
                job,
                _CAUSES[outcome.reason],
                should_retry=outcome.should_retry and outcome.reason not in _HOPELESS,
                jitter=jitter,
                retry_after_s=outcome.retry_after_s,
            )


@dataclass(frozen=True, slots=True)
class ExpiryRules:
    """The settings that decide the end of a lease: a worker silent for longer than `stale_ms` is lost. A job that has
    one loss left waits up to `alone_wait_ms` for a worker to itself; 0: it does not.
    """

    stale_ms: int
    max_losses: int
    alone_wait_ms: int = 0


def was_never_taken_up(job: Job, worker_as_of_ms: int) -> bool:
    """No heartbeat named the offer, although one was composed after its end: the worker lives and did not get it."""
    return not job.is_confirmed and worker_as_of_ms > job.not_after_ms


def decide_expired(
    job: Job,
    *,
    now_ms: int,
    deadline_ms: int,
    worker_seen_ms: int,
    worker_as_of_ms: int,
    rules: ExpiryRules,
    jitter: float,
) -> Decision:
    """Return the meaning of a lease that ended, or of a run that outlived `deadline_ms`.

    `worker_seen_ms` is when its worker's last heartbeat arrived, `worker_as_of_ms` how late, at least, that heartbeat
    was composed (0: unknown). An offer that no heartbeat named, although one was composed after it was over, was never
    taken up: nothing happened then. Otherwise the job may have started, and may even have killed its worker, so it
    counts as a loss.
    """
    if was_never_taken_up(job, worker_as_of_ms):
        return Decision(JobState.READY, "returned")
    if now_ms >= deadline_ms and now_ms - worker_seen_ms <= rules.stale_ms:
        return _counted_failure(job, Cause.TIMEOUT, should_retry=True, jitter=jitter, retry_after_s=None)
    if job.losses + 1 >= rules.max_losses or (job.max_retry == 0 and not job.rerun_lost):
        return Decision(JobState.FAILED, "lost", cause=Cause.LOST, is_loss=True)
    if job.losses + 2 == rules.max_losses and rules.alone_wait_ms:
        return Decision(JobState.RETRYING, "lost", delay_ms=rules.alone_wait_ms, is_loss=True)
    return Decision(JobState.READY, "lost", is_loss=True)


def _counted_failure(
    job: Job, cause: Cause, *, should_retry: bool, jitter: float, retry_after_s: float | None
) -> Decision:
    ending = "timeout" if cause is Cause.TIMEOUT else "failure"
    if not should_retry or job.failures >= job.max_retry:
        return Decision(JobState.FAILED, ending, cause=cause, is_counted=True)
    delay_ms = backoff_ms(job.retry, job.failures + 1, jitter=jitter, retry_after_s=retry_after_s)
    return Decision(JobState.RETRYING, ending, delay_ms=delay_ms, cause=cause, is_counted=True)
