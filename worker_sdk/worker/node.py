"""A worker that is up: its parts, made and started in order, stopped in the reverse one."""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from worker_sdk.environment import tls_of_server
from worker_sdk.masters.blocking_client import BlockingClient
from worker_sdk.masters.client import MasterClient
from worker_sdk.masters.masters import MasterAnswer, Masters, MasterUnreachableError, headers_for
from worker_sdk.masters.store_affinity import StoreAffinity
from worker_sdk.pusher.by_process import LazyPushers
from worker_sdk.transport.asgi_types import App
from worker_sdk.transport.own_address import WILDCARDS, outgoing_address, url_of
from worker_sdk.transport.signature import SignatureCheck
from worker_sdk.worker import job_log, outcomes
from worker_sdk.worker.admission import Admission
from worker_sdk.worker.answered_jobs import AnsweredJobs
from worker_sdk.worker.asgi import WorkerEndpoint
from worker_sdk.worker.assembly import Assembly
from worker_sdk.worker.challenges import ChallengeOpener
from worker_sdk.worker.endings import fields_of_stop
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.farewell import Farewell
from worker_sdk.worker.heartbeat import Heartbeat
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.lease import MAX_MARGIN_S, StoreClock, now_s
from worker_sdk.worker.left_runs import LeftRuns
from worker_sdk.worker.log_sender import ClaimLog, LogSender
from worker_sdk.worker.loop_watch import LoopWatch
from worker_sdk.worker.observations import ObservationSender
from worker_sdk.worker.parts import PartSender
from worker_sdk.worker.progress import PendingReports
from worker_sdk.worker.puller import Puller
from worker_sdk.worker.registration import WorkerRegistration
from worker_sdk.worker.report_queue import ReportQueue
from worker_sdk.worker.run import Stop
from worker_sdk.worker.siblings import Siblings
from worker_sdk.worker.starts import StartConfirmer
from worker_sdk.worker.worker_lock import WorkerLock

if TYPE_CHECKING:
    from worker_sdk.transport.http_server import WorkerServer
    from worker_sdk.worker.burst import Burst

logger = logging.getLogger(__name__)

# The time for results that no master has answered for when the process is about to end.
_FLUSH_S: Final = 5.0
_STOPPED_S: Final = 2.0
_LEAVE_S: Final = 2.0
_LOGS_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The arguments of a Worker. Without `url`, the worker registers its own server's. With `pull`, it serves nothing
    and polls for jobs."""

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


class Node:
    """A worker that is up. Create it in the event loop in which it runs."""

    def __init__(self, config: NodeConfig, assembly: Assembly, burst: "Burst | None" = None) -> None:
        self._config = config
        self._signature = SignatureCheck(config.secrets)
        self._assembly = assembly
        self._registry = registry = assembly.registry
        self._loop = asyncio.get_running_loop()
        self._clock = StoreClock()
        self.identity = WorkerIdentity(self._loop)
        self._affinity = StoreAffinity()
        self._worker_lock = WorkerLock()
        self._client = MasterClient(Masters(config.masters, affinity=self._affinity), config.token)
        # Shared with the heartbeat: a poll that waits at a master learns from it what the heartbeat found out about
        # that master.
        self._heard_masters = Masters(config.masters, affinity=self._affinity)
        self._pull_client = MasterClient(self._heard_masters, config.token) if config.pull else None
        self._puller: Puller | None = None
        self._pushers = LazyPushers(
            config.masters, config.token, self._affinity, middleware=assembly.middleware
        )
        self._starts = StartConfirmer(self._client, self.identity)
        self._report_queue = ReportQueue(self._client, self.identity, self._clock)
        self._reports = PendingReports()
        self._reports.clock = self._clock
        self._reports.parts = PartSender(self._client, self.identity)
        self._reports.observer = ObservationSender(self._client, self.identity, self._clock)
        self._logs = LogSender(self._client, self.identity) if config.job_logs else None
        self.executor = Executor(
            max_jobs=config.max_jobs,
            settlements=burst.counting(self._report_queue) if burst else self._report_queue,
            starts=self._starts,
            pushers=self._pushers,
            reports=self._reports,
            challenges=ChallengeOpener(self._client, self.identity),
            child_access=(config.masters, config.token),
            log_of=partial(ClaimLog, self._logs) if self._logs else None,
        )
        self._admission = Admission(
            registry, self.executor, self.identity, self._clock, beat_now=self._beat_now
        )
        self._heartbeat: Heartbeat | None = None
        # The refusal because of which this worker ends, and what to call then.
        self.rejection: MasterAnswer | None = None
        self.on_rejected: Callable[[], object] = lambda: None
        self._server: WorkerServer | None = None
        self._siblings: Siblings | None = None
        self._stopping = asyncio.Lock()
        self._is_hurried = asyncio.Event()
        # Whether something is left to report after the stop. None: the worker has not been stopped.
        self._is_left: bool | None = None
        self.endpoint: WorkerEndpoint | None = None
        self.url = ""

    async def over(self, burst: "Burst") -> None:
        """Wait until nothing is left to do for a worker that then ends."""
        await burst.over(self.executor, self._report_queue, self.identity)

    async def start(self, serve: Callable[[], App] | None) -> None:
        """Start. `serve` returns the application for a server of its own; None: somebody else serves it at the
        configured URL."""
        config = self._config
        for name in self._registry.names:
            handler = self._registry.get(name)
            if handler and handler.gather and handler.gather.max > config.max_jobs:
                logger.warning(
                    "%s gathers up to %d jobs, and this worker holds %d (max_jobs): no call gets more",
                    name,
                    handler.gather.max,
                    config.max_jobs,
                )
        # Do this first, because a job may arrive as soon as the worker is registered.
        await self._assembly.start()
        if self._logs is not None:
            self._logs.start()
            job_log.install(self)
        if config.pull:
            self._start_pulling()
            return
        if serve is not None:
            self._server = _bound(serve(), config)
            self.url = config.url or own_url(
                config.host, self._server.bound_port, config.masters[0], scheme=self._server.scheme
            )
        elif config.url is not None:
            self.url = config.url
        else:
            raise ValueError("a worker inside another application must be told its url")
        self.url = self.url.rstrip("/")
        if self._server is None:
            self._siblings = Siblings(self.url)
            await self._siblings.claim()
        self.endpoint = WorkerEndpoint(
            url=self.url,
            registry=self._registry,
            signature=self._signature,
            identity=self.identity,
            admission=self._admission,
            executor=self.executor,
            beat_now=self._beat_now,
        )
        self._report_queue.start(
            on_answered=self.executor.answered,
            on_unknown_worker=self._unknown_to_masters,
            next_jobs=AnsweredJobs(
                self._admission,
                self.identity,
                self.executor.descriptors,
                lambda job_id, token: self._report_queue.put(job_id, token, outcomes.HANDED_BACK),
            ),
        )
        if self._server is not None:
            await self._server.start()
        # Do this last, because a registration proves the address, which must be served at that time.
        self._start_beating(self.url)

    def _start_pulling(self) -> None:
        assert self._pull_client is not None
        self._report_queue.start(
            on_answered=self.executor.answered, on_unknown_worker=self._unknown_to_masters
        )
        self._start_beating(None)
        self._puller = Puller(
            self._pull_client,
            self._heard_masters,
            self.identity,
            self._admission,
            self.executor,
            on_unknown_worker=self._unknown_to_masters,
            beat_now=self._beat_now,
        )
        self._puller.start()

    def _start_beating(self, url: str | None) -> None:
        config = self._config
        client = BlockingClient(self._heard_masters, config.token)
        registration = WorkerRegistration(
            client=client,
            identity=self.identity,
            clock=self._clock,
            may_join=self._may_join,
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
        self._heartbeat = Heartbeat(
            client=client,
            identity=self.identity,
            clock=self._clock,
            registration=registration,
            ledger=self.executor,
            reports=self._reports,
            free=lambda: self._admission.free,
            commands=self,
            watch=self._watch(),
        )
        self._heartbeat.start()

    def _watch(self) -> Callable[[float], None]:
        """Return the check of this process that runs before each heartbeat."""
        loop_watch, descriptors = (
            LoopWatch(self._loop, self.executor.occupying.values),
            self.executor.descriptors,
        )

        def look(late_s: float) -> None:
            loop_watch.look(late_s)
            descriptors.look()

        return look

    def _rejected(self, answer: MasterAnswer) -> None:
        self.rejection = answer
        self._in_loop(self.on_rejected)

    def disown(self) -> None:
        """Cut off this forked process, so that nothing in it reaches a master."""
        self.endpoint = None
        self._admission.is_leaving = True
        for client in (self._client, self._pull_client):
            if client is not None:
                client.disown()

    def drain(self) -> None:
        """Take no more jobs from now on."""
        self._admission.is_leaving = True
        if self._siblings is not None:
            self._siblings.drain()
        self._beat_now()

    def _beat_now(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.beat_now()

    def _may_join(self) -> bool:
        """Return whether the worker may register. Called from the heartbeat thread. A job that does not stop delays
        the registration until its lease is over."""
        if self._siblings is not None and not self._siblings.may_register():
            return False
        now = now_s()
        return all(now >= run.lease_end_s + MAX_MARGIN_S for run in list(self.executor.occupying.values()))

    def hand_back_all(self) -> None:
        """Hand back all jobs now, without the rest of the grace."""
        self._is_hurried.set()
        self.executor.stop_all(Stop.HANDED_BACK)

    async def stop(self) -> bool:
        """Drain, hand back the jobs that do not end in time, and leave. Return whether something is left to report,
        because handlers still run, or because no master took the reports.

        The job of such a handler is not handed back yet: it would be started elsewhere while it still runs here. Until
        one of `leave_behind` and the end of the process, heartbeats name it. A second call waits for the first one, and
        returns the same.
        """
        async with self._stopping:
            if self._is_left is None:
                try:
                    self._is_left = await self._stop()
                finally:
                    await self._assembly.stop()
            return self._is_left

    def farewell(self) -> Farewell | None:
        """Return the reports that remain when this process has ended. None: this worker is not registered."""
        worker_id = self.identity.worker_id
        if worker_id is None:
            return None
        reports = self._report_queue.unreported()
        for run in list(self.executor.occupying.values()):
            if not run.is_settled and (fields := fields_of_stop(run)) is not None:
                reports.append(self._report_queue.encoded(run.job_id, run.token, fields))
        masters = self._heard_masters
        headers = {**headers_for(self._config.token), **masters.store_headers()}
        return Farewell(
            masters.in_turn,
            headers,
            worker_id,
            reports,
            self.executor.thread_ids,
            is_announced=self._has_told_leaving(worker_id),
        )

    def leave_behind(self) -> None:
        """Go on reporting the runs that are left, from threads, because this process lives on without the worker."""
        assert self._heartbeat is not None
        LeftRuns(
            BlockingClient(self._heard_masters, self._config.token),
            self.identity,
            self.executor,
            self._report_queue,
            farewell=self.farewell(),
            on_over=self._left_are_over,
        ).start()

    def _left_are_over(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self.executor.descriptors.close()
        self._release_locks()

    async def _stop(self) -> bool:
        if self._heartbeat is not None:
            self._heartbeat.is_leaving = True
        self.drain()
        if self._puller is not None:
            await self._puller.stop()
        if not await self._idle_within_grace():
            logger.info("grace is over: %d jobs are handed back", len(self.executor.occupying))
            self.executor.stop_all(Stop.HANDED_BACK)
            if not await self.executor.idle(_STOPPED_S if self.executor.may_stop() else 0):
                names = ", ".join(sorted({run.name for run in self.executor.occupying.values()}))
                logger.warning(
                    "handlers that do not stop: %s; their jobs are handed back when this process has ended",
                    names,
                )
        if not await self._report_queue.flush(_FLUSH_S):
            logger.error("%d results are not delivered yet", len(self._report_queue))
        await self._starts.stop()
        await self._report_queue.stop()
        if self._logs is not None and self._logs.is_started:
            job_log.uninstall(self)
            await self._logs.stop(_LOGS_S)
        self.endpoint = None
        if self._server is not None:
            await self._server.stop()
        await self._pushers.stop()
        is_left = self.identity.worker_id is not None and bool(
            self.executor.occupying or len(self._report_queue)
        )
        if not is_left:
            if self._heartbeat is not None:
                await asyncio.to_thread(self._heartbeat.stop)
            await self._leave()
        await self._client.stop()
        if self._pull_client is not None:
            await self._pull_client.stop()
        self.executor.close()
        if not is_left:
            self.executor.descriptors.close()
            self._release_locks()
        return is_left

    def _release_locks(self) -> None:
        self._worker_lock.leave(is_idle=not self.executor.occupying)
        if self._siblings is not None:
            self._siblings.leave(is_idle=not self.executor.occupying)

    async def _idle_within_grace(self) -> bool:
        """Wait until nothing runs. Return False if the grace ends first, or a second signal ends it."""
        idle = asyncio.ensure_future(self.executor.idle(self._config.grace_s))
        hurried = asyncio.ensure_future(self._is_hurried.wait())
        try:
            await asyncio.wait({idle, hurried}, return_when=asyncio.FIRST_COMPLETED)
            return not self.executor.occupying
        finally:
            hurried.cancel()
            idle.cancel()
            await asyncio.gather(idle, hurried, return_exceptions=True)

    async def _leave(self) -> None:
        worker_id = self.identity.worker_id
        if worker_id is None:
            return
        try:
            async with asyncio.timeout(_LEAVE_S):
                if not self._has_told_leaving(worker_id):
                    await self._client.call("POST", f"/api/workers/{worker_id}/leaving")
                await self._client.call("DELETE", f"/api/workers/{worker_id}")
        except (MasterUnreachableError, TimeoutError) as exc:
            # best effort: a worker that falls silent is removed as well.
            logger.debug("no answer to the farewell: %s", exc)

    def _has_told_leaving(self, worker_id: str) -> bool:
        return self._heartbeat is not None and self._heartbeat.has_told_leaving(worker_id)

    # --- commands of masters, from the heartbeat thread

    def cancel(self, claims: list[tuple[str, str]]) -> None:
        self._in_loop(lambda: [self.executor.cancel(job_id, token) for job_id, token in claims])

    def lost(self, tokens: list[str]) -> None:
        self._in_loop(lambda: self.executor.lost(tokens))

    def resize(self, max_jobs: int | None) -> None:
        """Take at most `max_jobs` at a time; None: the masters do not tell."""
        most = self._config.max_jobs if max_jobs is None else max_jobs
        if most != self.executor.max_jobs:
            self._in_loop(lambda: self.executor.resize(most))

    def unknown(self, worker_id: str) -> None:
        self._in_loop(lambda: self.executor.stop_all(Stop.LOST))

    def _in_loop(self, work: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            # The loop has ended, and all jobs with it.
            logger.debug("a command came after the end")

    def _unknown_to_masters(self, worker_id: str) -> None:
        """Stop all jobs if the report queue or the puller was the first to learn that the masters do not know this
        worker."""
        if self.identity.lost(worker_id):
            self.executor.stop_all(Stop.LOST)
            self._beat_now()


def _bound(app: App, config: NodeConfig) -> "WorkerServer":
    try:
        # A worker that pulls needs no server.
        from worker_sdk.transport.http_server import WorkerServer
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError(
            f"a worker that masters call needs {exc.name}: install jqmaster-sdk[worker], or use Worker(pull=True)",
            name=exc.name,
        ) from exc
    try:
        return WorkerServer(app, config.host, config.port, tls=tls_of_server())
    except OSError as exc:
        if exc.errno == errno.EADDRNOTAVAIL:
            raise OSError(
                exc.errno, f"{config.host} is not an address of this machine; 0.0.0.0 is all of them"
            ) from exc
        if exc.errno != errno.EADDRINUSE:
            raise
        raise OSError(
            exc.errno,
            f"port {config.port} of {config.host} is in use. If several processes run this worker, leave out port, and "
            "each listens at a free one, or use Worker(pull=True)",
        ) from exc


def own_url(host: str, port: int, master: str, *, scheme: str = "http") -> str:
    """Return the URL of a server on `host`; for a wildcard, with the address from which `master` is reached."""
    if host in WILDCARDS:
        parts = urlsplit(master)
        host = outgoing_address(parts.hostname or "", parts.port or 80)
    return url_of(scheme, host, port)
