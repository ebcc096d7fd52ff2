"""Run the masters' own jobs, which deliver messages. The leading master runs them as a worker that pulls."""

import asyncio
import functools
import logging
import math
import os
import secrets
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from jqmaster import __version__
from jqmaster.clock import Clock, WakeFlag, wait_for_event
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.notices.delivery import (
    DELIVERY_NAMES,
    WEBHOOK_NAME,
    DeliveryFigures,
    DeliveryOutcome,
)
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.errors import ConflictError, JqmasterError, NotFoundError, StoreUnavailableError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.runtime.outbound.carriers import CANNOT_READ, Carrier
from jqmaster.runtime.outbound.webhook_client import CallEnd
from jqmaster.service.workers.contracts import ContractService
from jqmaster.service.workers.polls import Ask, HeldPolls
from jqmaster.service.workers.reports import ReportService
from jqmaster.service.workers.workers import WorkerService
from jqmaster.store.jobs.claims import ClaimedJob

logger = logging.getLogger(__name__)

MAX_CALLS: Final = 32
# Maximum number of calls to one receiver at a time. Further deliveries to it are deferred briefly, so that a slow
# receiver does not delay the others.
MAX_CALLS_PER_HOST: Final = 4
HOST_BUSY_AFTER_S: Final = 2.0
POLL_S: Final = 20.0
RETRY_S: Final = 1.0
# How long a follow-up waits for the registration of this worker before it is postponed.
PREPARE_WITHIN_S: Final = 5.0
_MAX_REPORTS: Final = 20


@dataclass(slots=True)
class _Tenure:
    """One registration as a worker. `calls`: by job and token, the delivery that is under way."""

    worker_id: str
    calls: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)
    has_room: asyncio.Event = field(default_factory=asyncio.Event)


class Messenger:
    """A duty of one leadership: a built-in worker that pulls and delivers messages. `carriers`: the carriers by job
    name.

    It registers with the first delivery, or at once if there were deliveries before. So a service without messages has
    no such worker. When it stops, it returns its jobs, and another leader delivers them.
    """

    def __init__(
        self,
        carriers: Mapping[str, Carrier],
        clock: Clock,
        *,
        workers: WorkerService,
        contracts: ContractService,
        polls: HeldPolls,
        reports: ReportService,
        heartbeat_s: LiveValue[float],
        figures: DeliveryFigures,
    ) -> None:
        self._carriers = carriers
        self._clock = clock
        self._workers = workers
        self._contracts = contracts
        self._polls = polls
        self._reports = reports
        self._heartbeat_s = heartbeat_s
        self._figures = figures
        self._loops = BackgroundLoops("deliveries", is_vital=False)
        self._is_wanted = WakeFlag()
        self._is_ready = WakeFlag()
        self._tenure: _Tenure | None = None
        self._calls_of: Counter[str] = Counter()
        self._paused_until_s: dict[str, float] = {}

    async def start(self) -> None:
        self._loops = BackgroundLoops("deliveries", is_vital=False)
        self._loops.spawn("run", self._run)
        self._loops.spawn("look", self._look_for_earlier)

    async def stop(self) -> None:
        await self._loops.stop()
        self._is_ready.clear()
        tenure, self._tenure = self._tenure, None
        if tenure is not None:
            await self._leave(tenure)

    async def prepare(self) -> None:
        """Return once the worker is registered. Raise StoreUnavailableError if that takes too long."""
        self._is_wanted.set()
        if not await wait_for_event(self._is_ready, PREPARE_WITHIN_S):
            raise StoreUnavailableError("no master is ready to deliver messages", retry_after_s=1.0)

    async def _look_for_earlier(self) -> None:
        """Find out whether anything was ever delivered on this store."""
        while not self._is_wanted.is_set():
            try:
                if (await self._contracts.of(WEBHOOK_NAME)).is_served:
                    self._is_wanted.set()
                return
            except JqmasterError as exc:
                logger.warning("cannot look for messages to deliver: %s", exc.detail)
            await asyncio.sleep(RETRY_S)

    async def _run(self) -> None:
        await self._is_wanted.wait()
        while True:
            try:
                tenure = await self._register()
            except JqmasterError as exc:
                logger.warning("cannot register to deliver messages: %s", exc.detail)
                await asyncio.sleep(RETRY_S)
                continue
            beats = asyncio.create_task(self._keep_alive(tenure), name="deliveries.heartbeat")
            takes = asyncio.create_task(self._take_all(tenure), name="deliveries.take")
            try:
                # Both loops end when the worker is no longer registered.
                await asyncio.wait((beats, takes), return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._is_ready.clear()
                for task in (beats, takes):
                    task.cancel()
                ends = await asyncio.gather(beats, takes, return_exceptions=True)
            await _stopped(list(tenure.calls.values()))
            for end in ends:
                if isinstance(end, Exception):
                    raise end  # the error is logged and shown, and this loop starts again
            await asyncio.sleep(RETRY_S)

    async def _register(self) -> _Tenure:
        # Declare the contracts before the worker is registered, and so before any delivery. The next leader looks for
        # them.
        await self._contracts.declare(DELIVERY_NAMES, {})
        spec = WorkerSpec(
            url=None,
            names=DELIVERY_NAMES,
            max_jobs=MAX_CALLS,
            node_id=socket.gethostname(),
            pid=os.getpid(),
            labels={"role": "master"},
            version=__version__,
            secret=secrets.token_urlsafe(32),
        )
        # Register under a name that no caller can have, so that nobody else can act for this worker.
        registered = await self._workers.register(spec, f"{RESERVED_PREFIX}master")
        self._tenure = tenure = _Tenure(registered.worker_id)
        tenure.has_room.set()
        self._is_ready.set()
        return tenure

    # --- the worker's side of the protocol

    async def _keep_alive(self, tenure: _Tenure) -> None:
        while True:
            try:
                answer = await self._workers.heartbeat(
                    tenure.worker_id, list(tenure.calls), MAX_CALLS - len(tenure.calls), asks_to_continue=True
                )
            except NotFoundError:
                return
            except JqmasterError as exc:
                logger.warning("cannot renew the leases of deliveries: %s", exc.detail)
            else:
                if answer.is_detached:
                    return
                for claim in answer.lost | answer.to_cancel:
                    if call := tenure.calls.get(claim):
                        call.cancel()
            await asyncio.sleep(self._heartbeat_s.current)

    async def _take_all(self, tenure: _Tenure) -> None:
        while True:
            await tenure.has_room.wait()
            free = MAX_CALLS - len(tenure.calls)
            try:
                reply = await self._polls.poll(tenure.worker_id, Ask(free, POLL_S), _wait_forever)
            except (NotFoundError, ConflictError):
                return
            except JqmasterError as exc:
                logger.warning("cannot take messages to deliver: %s", exc.detail)
                await asyncio.sleep(RETRY_S)
                continue
            for offer in reply.offers:
                self._begin(tenure, offer.job)
            if reply.is_draining:
                await asyncio.sleep(RETRY_S)

    def _begin(self, tenure: _Tenure, job: ClaimedJob) -> None:
        claim = (job.job_id, job.token)
        if claim in tenure.calls:
            return
        call = asyncio.create_task(self._deliver(tenure, job), name=f"delivery {job.job_id}")
        tenure.calls[claim] = call
        if len(tenure.calls) >= MAX_CALLS:
            tenure.has_room.clear()
        call.add_done_callback(functools.partial(self._ended, tenure, claim))

    def _ended(self, tenure: _Tenure, claim: tuple[str, str], call: asyncio.Task[None]) -> None:
        tenure.calls.pop(claim, None)
        tenure.has_room.set()
        if not call.cancelled() and (exc := call.exception()):
            logger.error("a delivery failed; it is run again", exc_info=exc)

    async def _leave(self, tenure: _Tenure) -> None:
        held = list(tenure.calls)
        await _stopped(list(tenure.calls.values()))
        outcomes = [Outcome(job_id, token, "handed_back") for job_id, token in held]
        try:
            if outcomes:
                await self._reports.results(tenure.worker_id, outcomes)
            await self._workers.leave(tenure.worker_id)
        except JqmasterError as exc:
            # best effort: the leases of these deliveries expire.
            logger.warning("the deliveries could not be handed back: %s", exc.detail)

    # --- one delivery

    async def _deliver(self, tenure: _Tenure, job: ClaimedJob) -> None:
        end = await self._call(job)
        self._figures.outcomes[job.record.name, end.outcome] += 1
        outcome = outcome_of(job, end)
        for _ in range(_MAX_REPORTS):
            try:
                await self._reports.results(tenure.worker_id, [outcome])
                return
            except NotFoundError:
                return  # another leader delivers it again
            except JqmasterError as exc:
                logger.warning("cannot report the delivery of %s: %s", job.job_id, exc.detail)
            await asyncio.sleep(RETRY_S)

    async def _call(self, job: ClaimedJob) -> CallEnd:
        carrier = self._carriers.get(job.record.name)
        if carrier is None:
            return CANNOT_READ
        try:
            attempt = await carrier.plan(job)
        except JqmasterError as exc:
            return CallEnd(DeliveryOutcome.FAILED, f"the destination cannot be read ({exc.detail})")
        if isinstance(attempt, CallEnd):
            return attempt
        host = attempt.host
        paused_s = self._paused_until_s.get(host, 0.0) - self._clock.monotonic_s()
        if paused_s > 0:
            return CallEnd(DeliveryOutcome.DEFERRED, "the receiver asked for time", paused_s)
        if self._calls_of[host] >= MAX_CALLS_PER_HOST:
            return CallEnd(DeliveryOutcome.DEFERRED, "the receiver has enough calls", HOST_BUSY_AFTER_S)
        self._paused_until_s.pop(host, None)
        self._calls_of[host] += 1
        try:
            end = await attempt.go()
        finally:
            self._calls_of[host] -= 1
            if not self._calls_of[host]:
                del self._calls_of[host]
        if end.retry_after_s:
            self._paused_until_s[host] = self._clock.monotonic_s() + end.retry_after_s
        if end.outcome in (DeliveryOutcome.GONE, DeliveryOutcome.REFUSED):
            logger.warning("delivery %s to %s is given up: %s", job.job_id, attempt.to, end.detail)
        return end


def outcome_of(job: ClaimedJob, end: CallEnd) -> Outcome:
    """Return the report on one attempt to deliver."""
    match end.outcome:
        case DeliveryOutcome.DELIVERED:
            return Outcome(job.job_id, job.token, "success")
        case DeliveryOutcome.DEFERRED:
            return Outcome(
                job.job_id, job.token, "deferred", message=end.detail, retry_after_s=end.retry_after_s
            )
    return Outcome(
        job.job_id,
        job.token,
        "failure",
        should_retry=end.outcome is DeliveryOutcome.FAILED,
        message=end.detail,
        retry_after_s=None if end.retry_after_s is None else math.ceil(end.retry_after_s),
        code=str(end.outcome),
    )


async def _wait_forever() -> None:
    """Wait forever, because this worker does not give up its polls."""
    await asyncio.get_running_loop().create_future()


async def _stopped(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
