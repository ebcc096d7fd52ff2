"""Takes back what silent workers hold: leases that ended, and runs that outlived their time."""

import logging
import random
from collections.abc import Callable
from typing import Final, Literal

from jqmaster.clock import Clock
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.job import JobState
from jqmaster.domain.outcome import Decision, ExpiryRules, Outcome, decide_expired
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store import codec
from jqmaster.store.jobs import ExpiredLease, JobStore, Settlement
from jqmaster.store.leadership import Leadership

logger = logging.getLogger(__name__)

POLL_S: Final = 0.5
# A longer outage of the store, or step of its clock, may have cost workers their leases through no fault of theirs.
OUTAGE_S: Final = 1.0

MESSAGES: Final = {
    "lost": "the worker fell silent while it ran the job",
    "timeout": "the run exceeded its timeout and its worker did not end it",
}


class Reaper:
    """Component of one leadership. Reaps nothing for `grace_s` after it started, after the store was away and after
    its clock jumped: the living must get the time to say so, or one outage would run every long job twice."""

    def __init__(
        self,
        leadership: Leadership,
        jobs: JobStore,
        clock: Clock,
        *,
        rules: ExpiryRules,
        timeout_grace_ms: int,
        offer_ms: int,
        grace_s: float,
        on_ready: Callable[[], None],
        on_stale: Callable[[], None],
        rng: random.Random | None = None,
    ) -> None:
        self._epoch = leadership.epoch
        self._jobs = jobs
        self._clock = clock
        self._rules = rules
        self._deadline_extra_ms = timeout_grace_ms + offer_ms
        self._grace_s = grace_s
        self._on_ready = on_ready
        self._on_stale = on_stale
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._loops = BackgroundLoops("reaper")

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        await self._loops.stop()

    async def _run(self) -> None:
        heard_s = self._clock.monotonic_s()
        heard_ms: int | None = None
        not_before_s = heard_s + self._grace_s
        while True:
            try:
                now_ms, expired, next_ms = await self._jobs.expired_leases()
                now_s = self._clock.monotonic_s()
                # The time between two rounds is the time in which the store may have been away.
                passed_s = now_s - heard_s
                step_s = 0.0 if heard_ms is None else (now_ms - heard_ms) / 1000 - passed_s
                if passed_s > POLL_S + OUTAGE_S or abs(step_s) > OUTAGE_S:
                    logger.warning(
                        "the store was away for %.1f s and its clock stepped by %.1f s; nothing is reclaimed for %.1f s",
                        passed_s,
                        step_s,
                        self._grace_s,
                    )
                    not_before_s = now_s + self._grace_s
                heard_s, heard_ms = now_s, now_ms
                if expired and now_s >= not_before_s and not await self._reap(now_ms, expired):
                    self._on_stale()
                    return
            except JqmasterError as exc:
                logger.warning("cannot reap: %s", exc.detail)
            else:
                if 0 <= next_ms < POLL_S * 1000:
                    await self._clock.sleep(next_ms / 1000)
                    continue
            await self._clock.sleep(POLL_S)

    async def _reap(self, now_ms: int, expired: list[ExpiredLease]) -> bool:
        """False under a stale epoch."""
        settlements = []
        damaged = []
        never_started: dict[str, list[tuple[str, str]]] = {}
        for lease in expired:
            job = lease.job
            if job is None or job.state is not JobState.RUNNING:
                logger.error("job %s: its claim has no readable record; see `jqmaster fsck`", lease.job_id)
                damaged.append(lease.job_id)
                continue
            decision = decide_expired(
                job,
                now_ms=now_ms,
                deadline_ms=job.started_at_ms + job.timeout_ms + self._deadline_extra_ms,
                worker_seen_ms=lease.worker_seen_ms,
                worker_as_of_ms=lease.worker_as_of_ms,
                rules=self._rules,
                jitter=self._rng.random(),
            )
            logger.warning(
                "job %s, attempt %d on worker %s: %s", job.id, job.attempt, job.worker_id, decision.ending
            )
            if decision.ending == "returned":
                never_started.setdefault(job.worker_id, []).append((job.id, job.token))
                continue
            message = MESSAGES.get(decision.ending, "")
            entry = codec.encode_attempt(job, decision.ending, message, None)
            settlements.append(
                Settlement(
                    job.id, job.token, decision, entry, _result(job.id, job.token, decision, message, now_ms)
                )
            )
        # As if it had never been claimed: what was not started is no attempt.
        for worker_id, claims in never_started.items():
            if not await self._jobs.return_offers(self._epoch, worker_id, claims):
                return False
        if never_started:
            self._on_ready()
        # Out of the way, or they would be found first for ever and keep others from being found at all.
        if damaged and await self._jobs.set_aside(self._epoch, damaged) is None:
            return False
        return not settlements or await self._jobs.reclaim(self._epoch, settlements) is not None


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
