"""End attempts whose callbacks did not come in time."""

import random
from collections.abc import Callable
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.challenges.challenge import ChallengeFigures
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.domain.jobs.outcome import Outcome, decide_unanswered
from jqmaster.lifecycle import EntriesApart
from jqmaster.runtime.duties.due_loop import DueLoop
from jqmaster.runtime.duties.grace import Grace
from jqmaster.store import codec
from jqmaster.store.jobs.challenges import ChallengeStore
from jqmaster.store.jobs.settlements import Settlement
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.pages import MAX_PER_CALL

MESSAGE: Final = "no callback came in time"


class ChallengeExpiry(DueLoop):
    """A duty of one leadership: ends attempts whose challenges have expired. Nothing ends during a grace period,
    because callbacks may have found no master for a while."""

    is_vital = False

    def __init__(
        self,
        leadership: Leadership,
        challenges: ChallengeStore,
        grace: Grace,
        clock: Clock,
        *,
        figures: ChallengeFigures,
        on_stale: Callable[[], None],
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(
            "challenge_expiry",
            leadership,
            self._end_due,
            clock,
            complaint="cannot end challenges",
            on_stale=on_stale,
        )
        self._apart = EntriesApart("challenge_expiry")
        self._challenges = challenges
        self._grace = grace
        self._figures = figures
        self._random = rng.random if rng else random.random  # needs no secrecy: it only spreads retries

    async def _end_due(self, epoch: str) -> int | None:
        if not self._grace.is_over:
            return None
        due = await self._challenges.due()
        if due.jobs:
            settlements = []
            for job_id, job in due.jobs:
                if job is not None:
                    with self._apart.alone(f"job {job_id}"):
                        settlements.append(self._settlement(job, due.now_ms))
            unreadable = [job_id for job_id, job in due.jobs if job is None]
            ended = await self._challenges.expire(epoch, settlements, unreadable)
            self._figures.expired += len(ended)
            if len(due.jobs) >= MAX_PER_CALL and ended:
                return 0
        return None if due.next_ms < 0 else due.next_ms

    def _settlement(self, job: Job, now_ms: int) -> Settlement:
        decision = decide_unanswered(job, jitter=self._random())
        outcome = Outcome(
            job.id, job.token, "failure", reason="callback_timeout", should_retry=False, message=MESSAGE,
            finished_at=iso_ms(now_ms),
        )  # fmt: skip
        return Settlement(
            job.id,
            job.token,
            decision,
            codec.encode_attempt(job, decision.ending, MESSAGE, None),
            codec.encode_result(outcome) if decision.state is JobState.FAILED else b"",
            name=job.name,
            message=MESSAGE,
        )
