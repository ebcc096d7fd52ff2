"""Take back jobs whose leases have expired because their workers are silent, and jobs that ran for too long."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from jqmaster.clock import Clock
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.domain.jobs.outcome import (
    Decision,
    ExpiryRules,
    Outcome,
    decide_expired,
    leave_ms,
    never_reached_worker,
    proof_due_ms,
)
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.grace import Grace
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store import codec
from jqmaster.store.jobs.leases import ExpiredLease, LeaseStore
from jqmaster.store.jobs.settlements import Settlement
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.workers.workers import WorkerStore

logger = logging.getLogger(__name__)

POLL_S: Final = 0.5
# A heartbeat at most this old counts as new: the worker most likely sent it after the store came back.
HEARD_MS: Final = 2_000

TIMEOUT_MESSAGE: Final = "the run exceeded its timeout and its worker did not end it"
# The message of a lost job whose worker fell silent.
SILENT_MESSAGE: Final = "the worker fell silent while it ran the job"
SILENT_SINCE_OFFER_MESSAGE: Final = (
    "the worker fell silent after it was offered the job; nobody knows whether the job began"
)
NOT_NAMED_MESSAGE: Final = (
    "the worker went on sending heartbeats, but they did not name the job, so its lease ended"
)
UNREGISTERED_MESSAGE: Final = (
    "the worker unregistered while it held the job, and did not report how the job ended"
)
LEFT_MESSAGE: Final = "the worker announced its end, but did not hand the job back in time"
# The messages of jobs that were lost with a detached worker, by the cause of the detachment.
DETACHED_MESSAGES: Final = {
    "operator": "the worker was detached by people while it ran the job",
    "successor": "the worker was lost while it ran the job: another one was started at its address",
}


@dataclass(frozen=True, slots=True)
class ReaperPolicy:
    """The settings of the reaper.

    * `rules`: decide what happens to jobs whose leases have expired.
    * `timeout_grace_ms`: the time that a job gets after its timeout.
    * `offer_ms`: how long a worker may wait before it starts a job.
    """

    rules: ExpiryRules
    timeout_grace_ms: int
    offer_ms: int

    @property
    def deadline_extra_ms(self) -> int:
        """Return the time that a job may take beyond its timeout."""
        return self.timeout_grace_ms + self.offer_ms


class Reaper(LeaderLoop):
    """A duty of one leadership: takes back jobs whose leases have ended. Its reads of the store inform `grace` about
    outages. If the duty follows the looks at the shard, the looks inform `grace` instead."""

    is_vital = True
    poll_s = POLL_S

    def __init__(
        self,
        leadership: Leadership,
        leases: LeaseStore,
        workers: WorkerStore,
        grace: Grace,
        clock: Clock,
        *,
        policy: LiveValue[ReaperPolicy],
        on_ready: Callable[[], None],
        on_stale: Callable[[], None],
        rng: random.Random | None = None,
    ) -> None:
        super().__init__("reaper", clock, complaint="cannot reap", on_stale=on_stale, retry_s=POLL_S)
        self._epoch = leadership.epoch
        self._leases = leases
        self._workers = workers
        self._grace = grace
        self._policy = policy
        self._on_ready = on_ready
        self._random = rng.random if rng else random.random  # needs no secrecy: it only spreads retries

    async def _round(self) -> float:
        if self._follows_looks:
            now_ms, expired, next_ms = await self._leases.expired_leases()
        else:
            now_ms, expired, next_ms = await self._grace.ask(self._leases.expired_leases, lambda a: a[0])
        if self._grace.was_set_back:
            # The store's clock was set back, so leases that were set before would now last too long. Live workers renew
            # theirs anyway.
            await self._leases.shorten_leases(self._epoch)
            self._grace.was_set_back = False
        if reapable := await self._reapable(expired, now_ms):
            await self._reap(now_ms, reapable)
        return min(POLL_S, next_ms / 1000) if next_ms >= 0 else POLL_S

    async def _sleep(self, seconds: float) -> None:
        await self._grace.pause(seconds)

    async def _reapable(self, expired: list[ExpiredLease], now_ms: int) -> list[ExpiredLease]:
        """Return the leases that may be reaped. In a grace period, these are:

        * leases whose worker is known to have ended, or never had the job,
        * runs that exceeded their time by more than an outage.
        """
        if expired and self._grace.is_over:
            # Check first whether many workers fell silent at once. Otherwise their jobs would be reclaimed.
            self._grace.look(*await self._workers.all_with_time())
        if self._grace.is_over:
            return expired
        return [e for e in expired if _is_certainly_free(e) or self._is_runaway(e, now_ms)]

    def _is_runaway(self, lease: ExpiredLease, now_ms: int) -> bool:
        """Return whether the run would have been ended even without the outage. Its worker is alive, reports, and has
        had as long as usual to report the end."""
        outage_ms, job = self._grace.outage_ms, lease.job
        if outage_ms is None or outage_ms > self._policy.current.timeout_grace_ms or job is None:
            return False
        deadline_ms = self._deadline_ms(job)
        # Exclude a lease that expired before the deadline: the outage may have kept its worker from renewing it.
        is_over = lease.lease_until_ms >= deadline_ms and now_ms >= deadline_ms + outage_ms
        is_heard = now_ms - lease.worker_seen_ms <= min(self._policy.current.rules.stale_ms, HEARD_MS)
        return job.state is JobState.RUNNING and is_over and is_heard

    def _deadline_ms(self, job: Job) -> int:
        """Return the store time up to which the job's run may last."""
        return job.started_at_ms + job.timeout_ms + self._policy.current.deadline_extra_ms

    async def _reap(self, now_ms: int, expired: list[ExpiredLease]) -> None:
        settlements = []
        damaged = []
        never_started: dict[str, list[tuple[str, str]]] = {}
        undecided: list[tuple[str, int]] = []
        for lease in expired:
            job = lease.job
            if job is None or job.state is not JobState.RUNNING:
                logger.error("job %s: its claim has no readable record; see `jqmaster fsck`", lease.job_id)
                damaged.append(lease.job_id)
                continue
            decision = decide_expired(
                job,
                now_ms=now_ms,
                deadline_ms=self._deadline_ms(job),
                lease_until_ms=lease.lease_until_ms,
                worker_seen_ms=lease.worker_seen_ms,
                worker_as_of_ms=lease.worker_as_of_ms,
                rules=self._policy.current.rules,
                jitter=self._random(),
                orderly_end=lease.orderly_end,
            )
            if decision is None:
                undecided.append((job.id, self._next_look_ms(lease, job, now_ms)))
                continue
            logger.warning(
                "job %s, attempt %d on worker %s: %s", job.id, job.attempt, job.worker_id, decision.ending
            )
            if decision.ending == "returned":
                never_started.setdefault(job.worker_id, []).append((job.id, job.token))
                continue
            message = self._message(lease, job, decision, now_ms)
            entry = codec.encode_attempt(job, decision.ending, message, None)
            settlements.append(
                Settlement(
                    job.id,
                    job.token,
                    decision,
                    entry,
                    _result(job.id, job.token, decision, message, now_ms),
                    name=job.name,
                    message=message,
                    worker_id=job.worker_id,
                    leave_ms=leave_ms(decision),
                )
            )
        # Return these jobs as if they had never been claimed: jobs that were not started have no attempt.
        for worker_id, claims in never_started.items():
            await self._leases.return_offers(self._epoch, worker_id, claims)
        if never_started:
            self._on_ready()
        # Set these jobs aside. Otherwise each round would find them first and never reach others.
        if damaged:
            await self._leases.set_aside(self._epoch, damaged)
        if undecided:
            await self._leases.look_later(self._epoch, undecided)
        if settlements:
            await self._leases.reclaim(self._epoch, settlements)

    def _next_look_ms(self, lease: ExpiredLease, job: Job, now_ms: int) -> int:
        """Return the store time of the next check of a lease that cannot be decided yet."""
        due_ms = proof_due_ms(
            job,
            now_ms=now_ms,
            worker_seen_ms=lease.worker_seen_ms,
            worker_as_of_ms=lease.worker_as_of_ms,
            rules=self._policy.current.rules,
        )
        return max(due_ms or 0, now_ms + round(POLL_S * 1000))

    def _message(self, lease: ExpiredLease, job: Job, decision: Decision, now_ms: int) -> str:
        """Return the message for the attempt's record."""
        if decision.ending == "handed_back":
            return LEFT_MESSAGE
        if not decision.is_loss:
            return TIMEOUT_MESSAGE if decision.ending == "timeout" else ""
        if lease.detached_by in DETACHED_MESSAGES:
            return DETACHED_MESSAGES[lease.detached_by]
        if lease.orderly_end in ("unregistered", "left"):
            return UNREGISTERED_MESSAGE
        if now_ms - lease.worker_seen_ms <= self._policy.current.rules.stale_ms:
            return NOT_NAMED_MESSAGE
        return SILENT_MESSAGE if job.is_confirmed else SILENT_SINCE_OFFER_MESSAGE


def _is_certainly_free(lease: ExpiredLease) -> bool:
    return lease.is_worker_gone or (
        lease.job is not None
        and lease.job.state is JobState.RUNNING
        and never_reached_worker(lease.job, lease.worker_as_of_ms, orderly_end=lease.orderly_end)
    )


def _result(job_id: str, token: str, decision: Decision, message: str, now_ms: int) -> bytes:
    if decision.state is not JobState.FAILED:
        return b""
    reason: Literal["timeout", "other"] = "timeout" if decision.ending == "timeout" else "other"
    return codec.encode_result(
        Outcome(
            job_id,
            token,
            "failure",
            reason=reason,
            should_retry=False,
            message=message,
            finished_at=iso_ms(now_ms),
        )
    )
