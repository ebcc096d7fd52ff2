"""A worker's membership in one namespace: its registration and everything that belongs to this registration."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from worker_sdk.masters.blocking_client import BlockingClient
from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterAnswer, Masters, MasterUnreachableError, headers_for
from worker_sdk.masters.store_affinity import StoreAffinity
from worker_sdk.pusher.by_process import LazyPushers
from worker_sdk.transport.signature import SignatureCheck
from worker_sdk.worker import outcomes
from worker_sdk.worker.admission import Admission
from worker_sdk.worker.answered_jobs import AnsweredJobs
from worker_sdk.worker.asgi import WorkerEndpoint
from worker_sdk.worker.assembly import Assembly
from worker_sdk.worker.bodies import Bodies
from worker_sdk.worker.challenges import ChallengeOpener
from worker_sdk.worker.endings import fields_of_stop
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.farewell import LeftReports
from worker_sdk.worker.heartbeat import Heartbeat
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.lease import MAX_MARGIN_S, StoreClock, now_s
from worker_sdk.worker.log_sender import ClaimLog, LogSender
from worker_sdk.worker.namespace_endpoints import NamespaceEndpoint
from worker_sdk.worker.observations import ObservationSender
from worker_sdk.worker.parts import PartSender
from worker_sdk.worker.progress import PendingReports
from worker_sdk.worker.puller import Puller
from worker_sdk.worker.registration import WorkerRegistration
from worker_sdk.worker.report_queue import ReportQueue
from worker_sdk.worker.run import JobRun, Stop
from worker_sdk.worker.starts import StartConfirmer
from worker_sdk.worker.worker_lock import WorkerLock

if TYPE_CHECKING:
    from worker_sdk.worker.endings import Settlements
    from worker_sdk.worker.shared_slots import SlotShare
    from worker_sdk.worker.threads import HandlerThreads

logger = logging.getLogger(__name__)

_STOPPED_S: Final = 2.0
_LEAVE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The arguments of a Worker. Without `url`, the worker registers the URL of its own server. With `pull`, it has no
    server and polls for jobs. `namespaces`: the slots of each namespace, if there are several."""

    masters: Sequence[str]
    token: str | None
    max_jobs: int
    host: str
    port: int
    url: str | None
    node_id: str
    version: str
    secrets: Sequence[str]
    grace_s: float
    pull: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    job_logs: bool = True
    namespaces: dict[str, int] = field(default_factory=dict)


class WorkerMembership:
    """The membership. Create it in the event loop in which it runs.

    * `namespace`: name of the namespace if the worker works in several namespaces. Otherwise "".
    * `masters`: the addresses of the masters in this namespace.
    * `share`, `threads`: the slots and threads that the namespaces share. None: there is only one namespace.
    * `counting`: returns a wrapper of the report queue that counts the reports.
    * `on_rejected`: called when masters keep refusing the token of a worker that was never registered.
    """

    def __init__(
        self,
        config: NodeConfig,
        assembly: Assembly,
        masters: Sequence[str],
        *,
        namespace: str = "",
        share: "SlotShare | None" = None,
        threads: "HandlerThreads | None" = None,
        counting: "Callable[[Settlements], Settlements] | None" = None,
        on_rejected: Callable[[], object] = lambda: None,
    ) -> None:
        self.namespace = namespace
        self._config = config
        self._share = share
        self._on_rejected = on_rejected
        self._registry = assembly.registry
        self._loop = asyncio.get_running_loop()
        self._signature = SignatureCheck(config.secrets)
        self._clock = StoreClock()
        self.identity = WorkerIdentity(self._loop)
        affinity = StoreAffinity()
        self._worker_lock = WorkerLock()
        self._client = MasterClient(Masters(masters, affinity=affinity), config.token)
        # Heartbeats use this object, too. So a poll that waits at a master learns when that master stops answering
        # heartbeats.
        self._heard_masters = Masters(masters, affinity=affinity)
        self._pull_client = MasterClient(self._heard_masters, config.token) if config.pull else None
        self._puller: Puller | None = None
        self._pushers = LazyPushers(masters, config.token, affinity, middleware=assembly.middleware)
        self._starts = StartConfirmer(self._client, self.identity)
        self.report_queue = ReportQueue(self._client, self.identity, self._clock)
        self._reports = PendingReports()
        self._reports.clock = self._clock
        self._reports.parts = PartSender(self._client, self.identity)
        self._reports.observer = ObservationSender(self._client, self.identity, self._clock)
        self.logs = LogSender(self._client, self.identity) if config.job_logs else None
        make_executor: Callable[..., Executor] = partial(Executor, max_jobs=config.max_jobs)
        make_admission: Callable[..., Admission] = Admission
        if share is not None:
            from worker_sdk.worker.slot_sharing import SharingAdmission, SharingExecutor

            make_executor = partial(SharingExecutor, share=share)
            make_admission = partial(SharingAdmission, share=share)
            share.on_pressure = self.beat_now
        self.executor = make_executor(
            settlements=counting(self.report_queue) if counting else self.report_queue,
            starts=self._starts,
            pushers=self._pushers,
            reports=self._reports,
            challenges=ChallengeOpener(self._client, self.identity),
            child_access=(masters, config.token),
            log_of=partial(ClaimLog, self.logs) if self.logs else None,
            threads=threads,
        )
        self.admission = make_admission(
            self._registry, self.executor, self.identity, self._clock, beat_now=self.beat_now
        )
        self._heartbeat: Heartbeat | None = None
        # The refusal that may end this worker.
        self.rejection: MasterAnswer | None = None

    def endpoint(self, url: str, bodies: Bodies) -> WorkerEndpoint:
        """Return the endpoint that handles masters' calls to `url`, which `start` registers."""
        return (NamespaceEndpoint if self.namespace else WorkerEndpoint)(
            url=url,
            registry=self._registry,
            signature=self._signature,
            identity=self.identity,
            admission=self.admission,
            executor=self.executor,
            beat_now=self.beat_now,
            bodies=bodies,
        )

    def start_reporting(self) -> None:
        """Start sending reports of jobs that end. Call this before the registration, because jobs may arrive right
        after it."""
        self.report_queue.start(
            on_answered=self.executor.answered,
            on_unknown_worker=self._unknown_to_masters,
            next_jobs=None
            if self._config.pull
            else AnsweredJobs(
                self.admission,
                self.identity,
                self.executor.descriptors,
                lambda job_id, token: self.report_queue.put(job_id, token, outcomes.HANDED_BACK),
            ),
        )

    def start(self, url: str | None, may_join: Callable[[], bool], watch: Callable[[float], object]) -> None:
        """Register, and then send heartbeats.

        * `url`: None if the worker pulls.
        * `may_join`: returns whether the process may register.
        * `watch`: checks the process before each heartbeat.
        """
        self._start_beating(url, may_join, watch)
        if self._pull_client is None:
            return
        self._puller = Puller(
            self._pull_client,
            self._heard_masters,
            self.identity,
            self.admission,
            self.executor,
            on_unknown_worker=self._unknown_to_masters,
            beat_now=self.beat_now,
        )
        self._puller.start()

    def _start_beating(
        self, url: str | None, may_join: Callable[[], bool], watch: Callable[[float], object]
    ) -> None:
        config = self._config
        client = BlockingClient(self._heard_masters, config.token)
        registration = WorkerRegistration(
            client=client,
            identity=self.identity,
            clock=self._clock,
            may_join=lambda: may_join() and self._may_join(),
            fields={
                "url": url,
                "names": self._registry.names,
                "max_jobs": config.max_jobs,
                "node_id": config.node_id,
                "pid": os.getpid(),
                "labels": config.labels,
                "version": config.version,
            },
            secret=self._signature.secret_to_register,
            contracts=self._registry.contracts(),
            place=lambda: self._worker_lock.take(url) if url else "",
            on_rejected=self._rejected,
        )
        descriptors = self.executor.descriptors

        def look(late_s: float) -> None:
            watch(late_s)
            descriptors.look()

        self._heartbeat = Heartbeat(
            client=client,
            identity=self.identity,
            clock=self._clock,
            registration=registration,
            ledger=self.executor,
            reports=self._reports,
            free=lambda: self.admission.free,
            offered=self._share.offered if self._share is not None else None,
            commands=self,
            watch=look,
        )
        self._heartbeat.start()

    def _may_join(self) -> bool:
        """Return whether the worker may register. The heartbeat thread calls this. A job that does not stop delays the
        registration until its lease is over."""
        now = now_s()
        return all(now >= run.lease_end_s + MAX_MARGIN_S for run in list(self.executor.occupying.values()))

    def _rejected(self, answer: MasterAnswer) -> None:
        self.rejection = answer
        self._in_loop(self._on_rejected)

    # --- ending

    def disown(self) -> None:
        """Disconnect this forked process, so that nothing in it can call a master."""
        self.admission.is_leaving = True
        for client in (self._client, self._pull_client):
            if client is not None:
                client.disown()

    def begin_leaving(self) -> None:
        """Inform masters with the next heartbeat that the process is ending."""
        if self._heartbeat is not None:
            self._heartbeat.is_leaving = True

    def drain(self) -> None:
        """Take no more jobs from now on."""
        self.admission.is_leaving = True
        self.beat_now()

    def beat_now(self) -> None:
        """Send a heartbeat at once."""
        if self._heartbeat is not None:
            self._heartbeat.beat_now()

    async def stop_pulling(self) -> None:
        """Withdraw the poll that waits for jobs."""
        if self._puller is not None:
            await self._puller.stop()

    async def hand_back(self) -> list[JobRun]:
        """Stop all jobs and hand them back. Return the runs that do not stop. Their jobs are handed back when the
        process has ended."""
        self.executor.stop_all(Stop.HANDED_BACK)
        await self.executor.idle(_STOPPED_S if self.executor.may_stop() else 0)
        return list(self.executor.occupying.values())

    async def flush(self, timeout_s: float) -> None:
        """Wait until masters have confirmed the ends of all jobs, and then send nothing more."""
        if not await self.report_queue.flush(timeout_s):
            logger.error("%d results are not delivered yet", len(self.report_queue))
        await self._starts.stop()
        await self.report_queue.stop()

    async def leave(self) -> bool:
        """Unregister. Return whether there are unsent reports. With unsent reports, the worker stays registered."""
        await self._pushers.stop()
        is_left = self.identity.worker_id is not None and bool(
            self.executor.occupying or len(self.report_queue)
        )
        if not is_left:
            if self._heartbeat is not None:
                await asyncio.to_thread(self._heartbeat.stop)
            await self._say_farewell()
        await self._client.stop()
        if self._pull_client is not None:
            await self._pull_client.stop()
        self.executor.close()
        if not is_left:
            self.executor.descriptors.close()
            self.release_lock()
        return is_left

    def release_lock(self) -> None:
        self._worker_lock.leave(is_idle=not self.executor.occupying)

    async def _say_farewell(self) -> None:
        worker_id = self.identity.worker_id
        if worker_id is None:
            return
        try:
            async with asyncio.timeout(_LEAVE_S):
                if not self._has_told_leaving(worker_id):
                    await self._client.call("POST", f"/api/workers/{worker_id}/leaving")
                await self._client.call("DELETE", f"/api/workers/{worker_id}")
        except (MasterUnreachableError, TimeoutError) as exc:
            # best effort: without the farewell, masters remove the worker when it sends no more heartbeats.
            logger.debug("no answer to the farewell: %s", exc)

    def _has_told_leaving(self, worker_id: str) -> bool:
        return self._heartbeat is not None and self._heartbeat.has_told_leaving(worker_id)

    def left_reports(self) -> LeftReports | None:
        """Return the reports to send after this process has ended. None: there are none, or this worker is not
        registered."""
        worker_id = self.identity.worker_id
        if worker_id is None:
            return None
        reports = self.report_queue.unreported()
        for run in list(self.executor.occupying.values()):
            if not run.is_settled and (fields := fields_of_stop(run)) is not None:
                reports.append(self.report_queue.encoded(run.job_id, run.token, fields))
        masters = self._heard_masters
        return LeftReports(
            masters.in_turn,
            {**headers_for(self._config.token), **masters.store_headers()},
            worker_id,
            reports,
            is_announced=self._has_told_leaving(worker_id),
        )

    def blocking_client(self) -> BlockingClient:
        """Return a client for threads that outlive the event loop."""
        return BlockingClient(self._heard_masters, self._config.token)

    def end(self) -> None:
        """End the heartbeats after the last remaining job."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self.executor.descriptors.close()
        self.release_lock()

    # --- commands of masters, from the heartbeat thread

    def cancel(self, claims: list[tuple[str, str]]) -> None:
        self._in_loop(lambda: [self.executor.cancel(job_id, token) for job_id, token in claims])

    def lost(self, tokens: list[str]) -> None:
        self._in_loop(lambda: self.executor.lost(tokens))

    def resize(self, max_jobs: int | None) -> None:
        """Run at most `max_jobs` at a time. None: the masters have not set a number."""
        most = self._config.max_jobs if max_jobs is None else max_jobs
        if most != self.executor.max_jobs:
            self._in_loop(lambda: self.executor.resize(most))

    def unknown(self, worker_id: str) -> None:
        self._in_loop(lambda: self.executor.stop_all(Stop.LOST))

    def _in_loop(self, work: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            # The event loop has ended, and with it all jobs.
            logger.debug("a command came after the end")

    def _unknown_to_masters(self, worker_id: str) -> None:
        """Handle the answer that masters do not know this worker. If the worker did not know this yet, stop all jobs
        and send a heartbeat."""
        if self.identity.lost(worker_id):
            self.executor.stop_all(Stop.LOST)
            self.beat_now()
