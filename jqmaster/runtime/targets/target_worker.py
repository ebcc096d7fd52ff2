"""The worker that delivers jobs to one target. It is part of a master, and pulls."""

import asyncio
import functools
import logging
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from jqmaster import __version__
from jqmaster.clock import Clock, wait_for_event
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.notices.webhook import origin_of
from jqmaster.domain.targets.answer import DeliveryEnd, DeliveryResult
from jqmaster.domain.targets.callback import TARGET_META, TARGET_NONCE
from jqmaster.domain.targets.figures import MAX_EXCERPT_CHARS, LastAnswer, TargetFigures
from jqmaster.domain.targets.target import AddressError, HttpTarget
from jqmaster.domain.targets.target_set import Share
from jqmaster.domain.workers.breaker import Breaker, BreakerPolicy
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.errors import (
    ConflictError,
    JqmasterError,
    NotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.runtime.outbound.target_client import TargetAnswer, TargetClient
from jqmaster.runtime.targets.delivery import (
    Conversions,
    busy_outcome,
    outcome_of,
    outcome_of_callback,
    request_of,
)
from jqmaster.runtime.targets.hosts import TargetHosts
from jqmaster.service.challenges.challenges import ChallengeService, NewChallenge
from jqmaster.service.workers.contracts import ContractService
from jqmaster.service.workers.polls import Ask, HeldPolls
from jqmaster.service.workers.reports import ReportService
from jqmaster.service.workers.workers import WorkerService
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.workers.polls import Offer

logger = logging.getLogger(__name__)

POLL_S: Final = 20.0
RETRY_S: Final = 1.0
# Without a heartbeat that renews the lease, requests are cut off this long before the lease expires. They are never cut
# off in the first three quarters of the lease.
LEASE_MARGIN_S: Final = 2.0
MAX_REPORTS_PER_CALL: Final = 500
# Errors of the store after which a call is repeated.
_PASSING: Final = (StoreUnavailableError, OutcomeUnknownError)

ClaimId = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TargetServices:
    """Services and clients that all workers of targets share.

    * `callback_base`: returns the address of this service for outside systems. None: it is unknown.
    * `lease_s`: the length of leases.
    """

    client: TargetClient
    conversions: Conversions
    clock: Clock
    workers: WorkerService
    contracts: ContractService
    polls: HeldPolls
    reports: ReportService
    challenges: ChallengeService
    heartbeat_s: LiveValue[float]
    lease_s: LiveValue[float]
    breaker: LiveValue[BreakerPolicy]
    callback_base: Callable[[], str | None]


@dataclass(slots=True)
class _Registration:
    """One registration.

    * `calls`: by job and token, the deliveries whose ends are not reported yet.
    * `cut`: deliveries without an end, although their endpoints may have done the jobs. The next heartbeat names them
      once more, so that each counts as a loss and not as a job that never began.
    * `refused`: offers to give back untouched.
    * `sent_s`, `heard_s` and `store_ms`: when the last answered heartbeat was sent, when its answer came, and the
      store's time in that answer.
    """

    worker_id: str
    calls: dict[ClaimId, asyncio.Task[None]] = field(default_factory=dict)
    cut: set[ClaimId] = field(default_factory=set)
    refused: list[ClaimId] = field(default_factory=list)
    ends: list[Outcome] = field(default_factory=list)
    has_ends: asyncio.Event = field(default_factory=asyncio.Event)
    # Set when this worker may have room for more jobs.
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)
    sent_s: float = 0.0
    heard_s: float = 0.0
    store_ms: int = 0

    def latest_ms(self, now_s: float) -> int:
        """Return the latest time that the store can have now."""
        return self.store_ms + round((now_s - self.sent_s) * 1000)

    def earliest_ms(self, now_s: float) -> int:
        """Return the earliest time that the store can have now."""
        return self.store_ms + round((now_s - self.heard_s) * 1000)


class TargetWorker:
    """Registers, asks for jobs, delivers them, keeps their leases and reports their ends.

    * `slots`: how many requests this master may have under way.
    * `share`: gives this master's part of other limits.
    """

    def __init__(
        self,
        target: HttpTarget,
        names: tuple[str, ...],
        slots: int,
        share: Share,
        figures: TargetFigures,
        *,
        services: TargetServices,
    ) -> None:
        self.target = target
        self._names = names
        self._slots = slots
        self._share = share
        self._figures = figures
        self._services = services
        self._loops = BackgroundLoops(f"target {target.name}", is_vital=False)
        self._tenure: _Registration | None = None
        self._hosts = TargetHosts(services.breaker, services.clock)
        self._is_ending = False
        # When requests must have ended at the latest, by the monotonic clock.
        self._ends_by_s = float("inf")
        # Set to end a poll that is waiting.
        self._hangs_up = asyncio.Event()
        self._told = (names, slots, "")

    async def start(self) -> None:
        self._loops.spawn("run", self._run)

    async def change(self, target: HttpTarget, names: tuple[str, ...], slots: int, share: Share) -> None:
        """Follow a change of the target. Requests that are under way keep their former terms."""
        if target != self.target:
            # Forget the failures of hosts: the address may have been corrected.
            self._hosts.forget_failures()
        self.target, self._names, self._slots, self._share = target, names, slots, share
        if self._tenure is not None:
            self._tenure.has_changed.set()
        await self._tell()

    async def end(self) -> None:
        """Take no more jobs, wait until the requests that are under way have ended and are reported, and unregister.
        `hurry` limits the wait."""
        self._is_ending = True
        self._names = ()
        self._hangs_up.set()
        await self._tell()
        clock = self._services.clock
        while (
            (tenure := self._tenure)
            and tenure.calls
            and (left_s := self._ends_by_s - clock.monotonic_s()) > 0
        ):
            tenure.has_changed.clear()
            await wait_for_event(tenure.has_changed, min(left_s, POLL_S))
        await self._loops.stop()
        if self._tenure is not None:
            await self._leave(self._tenure)

    def hurry(self, within_s: float) -> None:
        """Let `end` wait no longer than this. Requests that are still under way then are cut off."""
        self._ends_by_s = min(self._ends_by_s, self._services.clock.monotonic_s() + within_s)
        if self._tenure is not None:
            self._tenure.has_changed.set()

    @property
    def unreachable(self) -> str:
        """Return why the target cannot be reached. Empty: it can be reached, or jobs have their own addresses."""
        if self.target.url_from:
            return ""
        return self._hosts.why_unreachable()

    @property
    def running(self) -> int:
        return len(self._tenure.calls) if self._tenure else 0

    # --- the worker's side of the protocol

    async def _run(self) -> None:
        while not self._is_ending:
            try:
                tenure = await self._register()
            except JqmasterError as exc:
                logger.warning("cannot register to deliver to target %s: %s", self.target.name, exc.detail)
                await asyncio.sleep(RETRY_S)
                continue
            tasks = [
                asyncio.create_task(body(tenure), name=f"target {self.target.name}.{role}")
                for role, body in (
                    ("heartbeat", self._keep_alive), ("take", self._take_all), ("report", self._report_all),
                )
            ]  # fmt: skip
            try:
                # Each of these loops ends when the worker is no longer registered.
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                self._tenure = None
            finally:
                for task in tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
            await _stopped(list(tenure.calls.values()))
            tenure.has_changed.set()
            for end in ends:
                if isinstance(end, Exception):
                    raise end  # the error is logged and shown, and this loop starts again
            await asyncio.sleep(RETRY_S)

    async def _register(self) -> _Registration:
        # Declare the names first. Otherwise the answer to a push would say that no worker serves the name.
        await self._services.contracts.declare(self._names, {})
        # Register at least one slot, because each worker must have one. While this master has no slot of the target,
        # the worker asks for no jobs.
        names, slots = self._names, max(self._slots, 1)
        spec = WorkerSpec(
            url=None,
            names=names,
            max_jobs=slots,
            node_id=socket.gethostname(),
            pid=os.getpid(),
            labels={"role": "master", "target": self.target.name},
            version=__version__,
            secret=secrets.token_urlsafe(32),
            target=self.target.name,
        )
        sent_s = self._services.clock.monotonic_s()
        # Register under a name that no caller can have, so that nobody else can act for this worker.
        registered = await self._services.workers.register(spec, f"{RESERVED_PREFIX}master")
        tenure = _Registration(
            registered.worker_id, sent_s=sent_s, heard_s=self._services.clock.monotonic_s()
        )
        tenure.store_ms = registered.store_time_ms
        self._tenure = tenure
        self._told = (names, slots, "")
        return tenure

    async def _tell(self) -> None:
        """Write to the store the present names and slots, and whether the target can be reached."""
        tenure, present = self._tenure, (self._names, max(self._slots, 1), self.unreachable)
        if tenure is None or present == self._told:
            return
        try:
            if new := set(self._names) - set(self._told[0]):
                await self._services.contracts.declare(sorted(new), {})
            await self._services.workers.change_target_worker(tenure.worker_id, *present)
        except JqmasterError as exc:
            # best effort: the next heartbeat tries again.
            logger.warning("cannot change the worker of target %s: %s", self.target.name, exc.detail)
        else:
            self._told = present

    async def _keep_alive(self, tenure: _Registration) -> None:
        clock = self._services.clock
        while True:
            sent_s = clock.monotonic_s()
            cut = set(tenure.cut)
            try:
                answer = await self._services.workers.heartbeat(
                    tenure.worker_id,
                    [*tenure.calls, *(cut - tenure.calls.keys())],
                    max(0, self._slots - len(tenure.calls)),
                    tenure.earliest_ms(sent_s),
                    asks_to_continue=True,
                )
            except NotFoundError:
                return
            except JqmasterError as exc:
                logger.warning("cannot renew the leases of target %s: %s", self.target.name, exc.detail)
                lease_s = self._services.lease_s.current
                if clock.monotonic_s() - tenure.sent_s > lease_s - min(LEASE_MARGIN_S, lease_s / 4):
                    # The leases may expire now, and other masters may then deliver these jobs.
                    await self._cut(tenure)
            else:
                tenure.sent_s, tenure.heard_s, tenure.store_ms = sent_s, clock.monotonic_s(), answer.now_ms
                tenure.cut -= cut
                if answer.is_detached:
                    return
                for claim in answer.lost | answer.to_cancel:
                    if call := tenure.calls.get(claim):
                        call.cancel()
                await self._tell()
            await asyncio.sleep(self._services.heartbeat_s.current)

    async def _cut(self, tenure: _Registration) -> None:
        """Cut off all requests. The ends that are already known are still reported."""
        known = {(one.job_id, one.token) for one in tenure.ends}
        calls = {claim: call for claim, call in tenure.calls.items() if claim not in known}
        tenure.cut |= calls.keys()
        await _stopped(list(calls.values()))

    async def _take_all(self, tenure: _Registration) -> None:
        while not self._is_ending:
            tenure.has_changed.clear()
            room = self._room(tenure)
            if room <= 0:
                await wait_for_event(tenure.has_changed, self._until_change_s())
                continue
            refused = list(tenure.refused)
            try:
                reply = await self._services.polls.poll(
                    tenure.worker_id, Ask(room, POLL_S, refused=refused), self._hung_up
                )
            except (NotFoundError, ConflictError):
                return
            except JqmasterError as exc:
                logger.warning("cannot take jobs for target %s: %s", self.target.name, exc.detail)
                await asyncio.sleep(RETRY_S)
                continue
            del tenure.refused[: len(refused)]
            for offer in reply.offers:
                self._begin(tenure, offer)
            # Let the new requests begin before the next claim. Then a breaker knows that its target is being tried.
            await asyncio.sleep(0)
            if reply.is_draining:
                await asyncio.sleep(RETRY_S)
        # Wait, so that this loop does not end the registration: `end` does.
        await asyncio.get_running_loop().create_future()

    async def _hung_up(self) -> None:
        await self._hangs_up.wait()

    def _room(self, tenure: _Registration) -> int:
        """Return how many jobs to request. A target that cannot be reached gets one job at a time, as a trial."""
        room = self._slots - len(tenure.calls)
        breaker, now_s = self._own_breaker(), self._services.clock.monotonic_s()
        if breaker is None:
            return room
        if not breaker.admits(now_s):
            return 0
        return min(room, 1) if breaker.is_half_open(now_s) else room

    def _until_change_s(self) -> float:
        """Return the longest wait for room, in seconds. If the target's breaker is open, the wait ends when the target
        may be tried again."""
        breaker = self._own_breaker()
        if breaker is None or breaker.open_s == 0.0 or breaker.is_probing:
            return POLL_S
        return max(breaker.open_until_s - self._services.clock.monotonic_s(), 0.05)

    def _own_breaker(self) -> Breaker | None:
        """Return the breaker of the target's address. None: the address works, or jobs have their own addresses."""
        return None if self.target.url_from else self._hosts.breaker(origin_of(self.target.url))

    def _begin(self, tenure: _Registration, offer: Offer) -> None:
        job = offer.job
        claim = (job.job_id, job.token)
        if claim in tenure.calls:
            return
        if tenure.latest_ms(self._services.clock.monotonic_s()) > offer.not_after_ms:
            # Do not deliver the job: the offer may be over, and another master may have claimed the job. If not, it
            # returns when its lease expires.
            return
        if job.callbacks and job.challenge_meta != TARGET_META:
            # Refuse the callback: a worker opened this challenge, and only a worker knows what the callback means. A
            # leader of 0.3.0 offers such callbacks to targets.
            tenure.refused.append(claim)
            return
        call = asyncio.create_task(self._deliver(tenure, job), name=f"delivery {job.job_id}")
        tenure.calls[claim] = call
        call.add_done_callback(functools.partial(self._ended, tenure, claim))

    def _ended(self, tenure: _Registration, claim: ClaimId, call: asyncio.Task[None]) -> None:
        """Free the slot of a call that reports nothing. All other calls keep their leases until they are reported."""
        if call.cancelled() or call.exception() is not None:
            tenure.calls.pop(claim, None)
            tenure.has_changed.set()
            if not call.cancelled():
                tenure.cut.add(claim)
                logger.error("a delivery failed; it counts as lost", exc_info=call.exception())

    async def _report_all(self, tenure: _Registration) -> None:
        while True:
            await tenure.has_ends.wait()
            batch = tenure.ends[:MAX_REPORTS_PER_CALL]
            try:
                await self._report(tenure, batch)
            except NotFoundError:
                return  # the worker is no longer registered; the store decides about its jobs
            # Remove the outcomes only after the report: `end` may stop this loop, and then reports the outcomes that
            # are left.
            del tenure.ends[: len(batch)]
            if not tenure.ends:
                tenure.has_ends.clear()
            for outcome in batch:
                tenure.calls.pop((outcome.job_id, outcome.token), None)
            tenure.has_changed.set()

    async def _report(self, tenure: _Registration, batch: list[Outcome]) -> None:
        """Report these ends. While the store cannot take them, heartbeats keep the leases of their jobs. Raise
        NotFoundError."""
        while True:
            try:
                await self._services.reports.results(tenure.worker_id, batch)
                return
            except NotFoundError:
                raise
            except _PASSING as exc:
                logger.warning("cannot report deliveries to target %s: %s", self.target.name, exc.detail)
            except JqmasterError as exc:
                logger.warning("cannot report deliveries to target %s: %s", self.target.name, exc.detail)
                break
            await asyncio.sleep(RETRY_S)
        if len(batch) > 1:
            # One of the reports is at fault. Send each report alone, so that the valid ones are accepted.
            for outcome in batch:
                await self._report(tenure, [outcome])
        else:
            tenure.cut.add((batch[0].job_id, batch[0].token))

    async def _leave(self, tenure: _Registration) -> None:
        """Report what has ended, and unregister. If requests had to be cut off, let the worker fall silent instead.
        Their endpoints may have done the jobs, so each of these jobs counts as a loss when its lease ends."""
        workers = self._services.workers
        await self._cut(tenure)
        try:
            if tenure.ends:
                await self._services.reports.results(tenure.worker_id, tenure.ends)
        except JqmasterError as exc:
            logger.warning("cannot report deliveries to target %s: %s", self.target.name, exc.detail)
            tenure.cut |= {(one.job_id, one.token) for one in tenure.ends}
        try:
            if tenure.cut:
                await workers.heartbeat(
                    tenure.worker_id, list(tenure.cut), 0, tenure.earliest_ms(self._now_s())
                )
            else:
                await workers.leave(tenure.worker_id)
        except JqmasterError as exc:
            # best effort: the leases of its jobs expire.
            logger.warning("cannot unregister from target %s: %s", self.target.name, exc.detail)

    # --- one delivery

    async def _deliver(self, tenure: _Registration, job: ClaimedJob) -> None:
        target, services = self.target, self._services
        if job.callbacks:
            outcome = outcome_of_callback(job, job.callbacks[0], services.conversions, self._now_ms(tenure))
        else:
            began_s = services.clock.monotonic_s()
            answer = await self._call(tenure, target, job)
            if answer is None:
                outcome = busy_outcome(job, self._now_ms(tenure))
            else:
                took_ms = round((services.clock.monotonic_s() - began_s) * 1000)
                self._note(tenure, job, answer, took_ms)
                outcome = outcome_of(target, job, answer, self._now_ms(tenure))
                if answer.end.result is DeliveryResult.AWAITING:
                    outcome = await self._await_callback(tenure, job, answer, outcome)
        tenure.ends.append(outcome)
        tenure.has_ends.set()

    def _now_s(self) -> float:
        return self._services.clock.monotonic_s()

    def _now_ms(self, tenure: _Registration) -> int:
        return tenure.earliest_ms(self._now_s())

    async def _call(self, tenure: _Registration, target: HttpTarget, job: ClaimedJob) -> TargetAnswer | None:
        """Send the request. Return its answer, or None if its host has as many requests as it may have."""
        services = self._services
        try:
            request = request_of(
                target,
                job,
                services.conversions,
                now_ms=self._now_ms(tenure),
                callback_base=services.callback_base(),
            )
        except (AddressError, ValueError, JqmasterError) as exc:
            why = exc.detail if isinstance(exc, JqmasterError) else str(exc)
            # Keep `why` out of the detail, because it may quote the argument.
            end = DeliveryEnd(
                DeliveryResult.REJECTED, "the argument does not fit", code="invalid_argument", said=why
            )
            return TargetAnswer(end, was_sent=False)
        origin = origin_of(request.url)
        breaker = self._hosts.breaker(origin)
        now_s = services.clock.monotonic_s()
        if breaker is not None and not breaker.admits(now_s):
            wait_s = max(0.1, breaker.open_until_s - now_s)
            return _unsent(f"{breaker.why}; it is tried again in {wait_s:.0f} s", wait_s)
        most = target.max_running_per_host
        if most is not None and self._hosts.calls(origin) >= self._share.of(most, f"{target.name} {origin}"):
            return None
        with self._hosts.calling(origin):
            answer = await services.client.call(target, request)
        # Count only an unsent request as a failure of the host. Any other failure may be the fault of one job.
        if answer.end.result is DeliveryResult.UNREACHABLE:
            self._hosts.failed(origin, answer.end.detail)
        else:
            self._hosts.reached(origin)
        if self._tenure is not None and not self.target.url_from:
            self._tenure.has_changed.set()
        return answer

    async def _await_callback(
        self, tenure: _Registration, job: ClaimedJob, answer: TargetAnswer, outcome: Outcome
    ) -> Outcome:
        """Open the challenge of an attempt whose endpoint answers later. Return the report. Raise all errors except
        transient ones, so that the job counts as lost."""
        if self._services.callback_base() is None:
            return Outcome(
                job.job_id, job.token, "failure", should_retry=False, code="no_public_url",
                message="status 202 with JQ-Await, but the request had no JQ-Callback-Url; set public_url",
                finished_at=outcome.finished_at,
            )  # fmt: skip
        new = NewChallenge(
            job.job_id,
            job.token,
            max(1, round(answer.end.await_s * 1000)),
            meta=TARGET_META,
            nonce=TARGET_NONCE,
        )
        while True:
            try:
                await self._services.challenges.open(tenure.worker_id, new)
            except (ConflictError, NotFoundError):
                # Do nothing: the callback came before this answer, or the report will find that the claim is over.
                pass
            except _PASSING as exc:
                logger.warning("cannot await the callback of job %s: %s", job.job_id, exc.detail)
                await asyncio.sleep(RETRY_S)
                continue
            return outcome

    def _note(self, tenure: _Registration, job: ClaimedJob, answer: TargetAnswer, took_ms: int) -> None:
        end = answer.end
        self._figures.add(
            LastAnswer(
                self._now_ms(tenure), job.job_id, job.record.attempt, end.result, end.status, took_ms, end.detail,
                answer.excerpt, end.said[:MAX_EXCERPT_CHARS],
            ),
            was_sent=answer.was_sent,
        )  # fmt: skip


def _unsent(detail: str, wait_s: float) -> TargetAnswer:
    end = DeliveryEnd(DeliveryResult.UNREACHABLE, detail, wait_s=wait_s, code="unreachable")
    return TargetAnswer(end, was_sent=False)


async def _stopped(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
