"""Offer claimed jobs: push each claim to its worker or answer the worker's poll, and act on the worker's answer."""

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from jqmaster.clock import Clock
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.errors import JqmasterError, StaleEpochError
from jqmaster.runtime.duties.fleet import Fleet, Member
from jqmaster.runtime.outbound.offers import Deferred, OfferResult, Offers, Withheld
from jqmaster.runtime.outbound.worker_client import (
    Delivered,
    MaybeDelivered,
    NotDelivered,
    PushResult,
    Refused,
    Rejection,
    WorkerClient,
)
from jqmaster.service.workers.polls import HeldPolls
from jqmaster.store.jobs.challenges import ChallengeStore
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from jqmaster.store.jobs.leases import LeaseStore
from jqmaster.store.jobs.predecessors import PredecessorStore
from jqmaster.store.jobs.progress import ProgressStore
from jqmaster.store.jobs.settlements import SettlementStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.workers.polls import PollReply, reply_of
from jqmaster.tracing import Tracing

logger = logging.getLogger(__name__)

# How long a job waits before its next offer, if a worker refused it because of the job itself.
PUT_OFF_S: Final = 15.0
# Limits for the jobs in the answer to a report: their number, and the bytes of their arguments.
MAX_WITH_ANSWER: Final = 8
MAX_BYTES_WITH_ANSWER: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class _Push:
    """A claim on its way to its worker, in as many requests as are needed. `is_in_doubt`: see `begin`."""

    member: Member
    claim: Claim
    claimed_at_s: float
    on_returned: Callable[[], None]
    is_in_doubt: bool


class ClaimOffers:
    """Part of the dispatcher of one leadership.

    * `is_trusted`: whether the leadership still holds, asked before each push.
    * `on_stale`: called when the store has a newer leader.
    * `report`: takes outcomes of attempts, like results of workers.
    """

    def __init__(
        self,
        leadership: Leadership,
        *,
        leases: LeaseStore,
        settlements: SettlementStore,
        progress: ProgressStore,
        challenges: ChallengeStore,
        predecessors: PredecessorStore,
        fleet: Fleet,
        held_polls: HeldPolls,
        client: WorkerClient,
        report: Callable[[str, Sequence[Outcome]], Awaitable[object]],
        clock: Clock,
        on_stale: Callable[[], None],
        is_trusted: Callable[[], bool] = lambda: True,
        tracing: Tracing | None = None,
    ) -> None:
        self._leadership = leadership
        self._epoch_number = leadership.number
        self._leases = leases
        self._settlements = settlements
        self._progress = progress
        self._challenges = challenges
        self._predecessors = predecessors
        self._fleet = fleet
        self._held_polls = held_polls
        self._client = client
        self._report = report
        self._clock = clock
        self._on_stale = on_stale
        self._is_trusted = is_trusted
        self._tracing = tracing
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    def stop_repeats(self) -> None:
        """Stop repeating offers. Pushes that are under way go on."""
        self._is_stopping = True

    async def stop(self, within_s: float) -> None:
        """Wait up to `within_s` for the pushes that are under way. Then cancel the remaining pushes. The leases of
        their jobs expire."""
        self._is_stopping = True
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(
        self,
        member: Member,
        claim: Claim,
        claimed_at_s: float,
        on_returned: Callable[[], None],
        *,
        is_in_doubt: bool = False,
    ) -> asyncio.Task[None] | None:
        """Begin the push of a claim, or answer the worker's poll with it. Return the push, or None if the worker pulls.

        * `on_returned`: called when offers were returned, so that their jobs are ready again.
        * `is_in_doubt`: the jobs may have reached the worker already. They are returned only if the worker itself
          refuses them.
        """
        if logger.isEnabledFor(logging.DEBUG):
            way = "its poll" if member.worker.is_pulling else "a push"
            for job in claim.jobs:
                _log(
                    job, "attempt %d is offered to worker %s by %s", job.record.attempt, member.worker.id, way
                )
        if member.worker.spec.url is None:
            # The answer ends the poll; the worker then polls again. If another master holds the poll, the claim's
            # script has notified that master.
            member.polls_until_s = 0.0
            if claim.is_ours_to_tell:
                self._answer_poll(member.worker.id, claim)
            return None
        member.pushes += 1
        if member.breaker.open_s > 0.0:
            member.breaker.begin_call()
        # Start the task in an empty context (see `contextvars`). The current context may be that of another caller,
        # because a claim travels with that caller's request.
        task = asyncio.create_task(
            self._run(_Push(member, claim, claimed_at_s, on_returned, is_in_doubt)),
            name=f"push to {member.worker.id}",
            context=contextvars.Context(),
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def reply_with(self, member: Member, claim: Claim) -> PollReply | None:
        """Return the claim as jobs for the answer to the worker's report. None: push the jobs instead.

        With an answer, only the next heartbeat shows whether the worker got the jobs. A push shows it at once. A push
        is worth its cost if there are several jobs.
        """
        size = 0
        for job in claim.jobs:
            if job.record.needs_more or job.record.is_unique:
                return None
            size += len(job.record.argument)
        if (
            len(claim.jobs) > MAX_WITH_ANSWER
            or size > MAX_BYTES_WITH_ANSWER
            or member.worker.spec.url is None
            or member.breaker.failures
            or member.breaker.open_s > 0.0
            or not self._is_trusted()
        ):
            return None
        if logger.isEnabledFor(logging.DEBUG):
            for job in claim.jobs:
                _log(
                    job,
                    "attempt %d goes to worker %s with the answer to its report",
                    job.record.attempt,
                    member.worker.id,
                )
        return reply_of(self._epoch_number, claim)

    def _answer_poll(self, worker_id: str, claim: Claim) -> None:
        if self._is_trusted():
            self._held_polls.answer(worker_id, reply_of(self._epoch_number, claim))
        else:
            # This process may have been suspended, so do not use the claim. Let the waiting poll read the present state
            # of the store.
            self._held_polls.look(worker_id)

    async def _run(self, push: _Push) -> None:
        member = push.member
        try:
            if self._tracing is None:
                await self._offer(push)
            else:
                await self._traced_offer(self._tracing, push)
        except JqmasterError as exc:
            # Leave the jobs to the reaper, which finds them when their leases expire.
            logger.warning("offers to worker %s could not be returned: %s", member.worker.id, exc.detail)
        finally:
            member.pushes -= 1
            # A canceled probe has no result. Clear the flag, or the breaker would never be probed again.
            member.breaker.is_probing = False

    async def _traced_offer(self, tracing: Tracing, push: _Push) -> None:
        jobs = ((job.job_id, job.record.name, job.record.headers) for job in push.claim.jobs)
        spans = tracing.begin("offer", jobs, {"jqmaster.worker.id": push.member.worker.id})
        result: OfferResult = Withheld()
        try:
            result = await self._offer(push)
        finally:
            tracing.end(spans, type(result).__name__.lower())

    async def _offer(self, push: _Push) -> OfferResult:
        """Offer the jobs until each has an answer or the offer is over. Return the outcome of the last piece.

        If an answer is lost, a job may have started. Then the only safe step is to repeat the same tokens to the same
        worker.
        """
        member, claim = push.member, push.claim
        for job in claim.jobs:
            if job.record.needs_more:
                claim = await self._completed(claim)
                break
        if not claim.jobs:
            # All of these jobs have ended. Their ends have already freed their slots.
            return Withheld()
        # Push once before creating an `Offers`, because most offers need only this push.
        first: PushResult | None = None
        if self._is_trusted():
            first = await self._client.push(member.worker, self._epoch_number, claim)
            if isinstance(first, Delivered):
                await self._answered(push, claim, first)
                return first
        return await self._offer_on(push, claim, first)

    async def _offer_on(self, push: _Push, claim: Claim, first: PushResult | None) -> OfferResult:
        """Go on with an offer after its first push, until each job has an answer or the offer is over. `first`: the
        result of the first push. None: the push was not made."""
        member = push.member

        async def send(part: Claim) -> PushResult:
            return await self._client.push(member.worker, self._epoch_number, part)

        offers = Offers(
            claim,
            send,
            member.breaker,
            self._clock,
            worker_id=member.worker.id,
            over_at_s=push.claimed_at_s + (claim.not_after_ms - claim.now_ms) / 1000,
            may_push=self._is_trusted,
            is_stopping=lambda: self._is_stopping,
            first=first,
            is_in_doubt=push.is_in_doubt,
        )
        result: OfferResult = Withheld()
        async with contextlib.aclosing(offers.results()) as results:
            async for part, result in results:
                await self._answered(push, part, result)
        return result

    async def _answered(self, push: _Push, part: Claim, result: OfferResult) -> None:
        if logger.isEnabledFor(logging.DEBUG):
            _log_answer(push.member.worker.id, part, result)
        elapsed_ms = round((self._clock.monotonic_s() - push.claimed_at_s) * 1000)
        await self._conclude(push, part, result, push.claim.now_ms + elapsed_ms)

    async def _completed(self, claim: Claim) -> Claim:
        """Return the claim with the data that its records lack, and without jobs that have ended meanwhile."""
        await self._progress.give_checkpoints(claim.jobs)
        jobs = await self._challenges.give_callbacks(claim.jobs)
        await self._predecessors.give_inputs(jobs)
        return claim if jobs is claim.jobs else replace(claim, jobs=list(jobs))

    async def _conclude(self, push: _Push, part: Claim, result: OfferResult, now_ms: int) -> None:
        """Act on the worker's answer: return the offers that it did not take, and settle jobs that it refused for
        good."""
        member = push.member
        now_s = self._clock.monotonic_s()
        member.is_prompt = isinstance(result, Delivered | Refused | Deferred)
        match result:
            case Delivered(rejections=rejections):
                member.answered()
                # Do not return jobs that were rejected as `duplicate`. An earlier run of the job is still on that
                # worker, and a returned job would go to the same worker at once. Let their leases expire instead.
                refused = {r.job_id: r for r in rejections if r.reason != "duplicate"}
                if len(rejections) < len(part.jobs):
                    member.took_jobs()
                for rejection in refused.values():
                    self._obey_rejection(
                        member, rejection.reason, rejection.retry_after_s, part, rejection.job_id
                    )
                returned = [(j.job_id, j.token) for j in part.jobs if j.job_id in refused] if refused else []
                await self._confirm_unique(member.worker.id, part, rejections)
            case NotDelivered(why=why, retry_after_s=retry_after_s):
                if retry_after_s is not None:
                    # The worker is alive, and says when it will take more jobs.
                    member.breaker.succeeded()
                    member.pause(now_s, retry_after_s)
                else:
                    member.breaker.failed(now_s, why)
                logger.warning("push to worker %s: not delivered (%s)", member.worker.id, why)
                returned = [(j.job_id, j.token) for j in part.jobs]
            case Refused(why=why):
                # The worker is alive and read the push.
                member.breaker.succeeded()
                await self._settle_only_job(member, part, "failure", why, now_ms)
                return
            case Deferred(why=why):
                await self._settle_only_job(member, part, "deferred", why, now_ms)
                return
            case Withheld():
                returned = [(j.job_id, j.token) for j in part.jobs]
            case MaybeDelivered():
                return
        if returned:
            try:
                await self._leases.return_offers(self._leadership.epoch, member.worker.id, returned)
            except StaleEpochError:
                self._on_stale()
            self._fleet.freed(member.worker.id, len(returned))
            push.on_returned()

    async def _confirm_unique(self, worker_id: str, part: Claim, rejections: Sequence[Rejection]) -> None:
        """Note that jobs with uniqueness keys were accepted. Until a claim is confirmed, no push may replace its job.
        Other jobs can wait for the next heartbeat, which confirms them at no cost."""
        accepted = [
            (job.job_id, job.token)
            for job in part.jobs
            if job.record.is_unique and all(job.job_id != r.job_id for r in rejections)
        ]
        if accepted:
            # best effort: the heartbeat confirms them, too.
            with contextlib.suppress(JqmasterError):
                await self._settlements.confirm_start(worker_id, accepted)

    async def _settle_only_job(
        self, member: Member, claim: Claim, ending: Literal["failure", "deferred"], why: str, now_ms: int
    ) -> None:
        """End the attempt of a job that was pushed alone. The worker's answer to that push decides how it ends."""
        (job,) = claim.jobs
        worker_id = member.worker.id
        logger.warning("worker %s did not take job %s, pushed alone: %s", worker_id, job.job_id, why)
        outcome = Outcome(
            job.job_id,
            job.token,
            ending,
            message=f"the worker did not take the job when it was pushed alone: {why}",
            retry_after_s=PUT_OFF_S if ending == "deferred" else None,
            finished_at=iso_ms(now_ms),
        )
        await self._report(worker_id, [outcome])

    def _obey_rejection(
        self, member: Member, reason: str, retry_after_s: float | None, claim: Claim, job_id: str
    ) -> None:
        """For now, do not offer the worker jobs of a kind that it said it cannot take."""
        match reason:
            case "unknown_name":
                name = next((j.record.name for j in claim.jobs if j.job_id == job_id), None)
                if name is not None:
                    member.unknown_names |= {name}
            case _:
                # Only pause the worker, even if it said that the epoch is stale. The store decides about the epoch when
                # the offer is returned, because a worker's word alone must not depose a leader.
                member.pause(self._clock.monotonic_s(), retry_after_s or 0.0)


def _log_answer(worker_id: str, part: Claim, result: OfferResult) -> None:
    """Log for each job what the worker answered."""
    match result:
        case Delivered(rejections=rejections):
            refused = {rejection.job_id: rejection.reason for rejection in rejections}
            for job in part.jobs:
                if (reason := refused.get(job.job_id)) is None:
                    _log(job, "accepted by worker %s", worker_id)
                else:
                    _log(job, "refused by worker %s: %s", worker_id, reason)
            return
        case Withheld():
            text = "not sent, since the lead or the offer may be over"
        case MaybeDelivered(why=why):
            text = f"without an answer ({why}); its lease settles it"
        case NotDelivered(why=why) | Refused(why=why) | Deferred(why=why):
            text = f"not taken ({why})"
    for job in part.jobs:
        _log(job, "the offer to worker %s is %s", worker_id, text)


def _log(job: ClaimedJob, text: str, *values: object) -> None:
    logger.debug(f"job %s (%s): {text}", job.job_id, job.record.name, *values)
