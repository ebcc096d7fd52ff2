"""A running worker: its parts are made and started in order, and stopped in reverse order."""

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from worker_sdk.environment import tls_of_server
from worker_sdk.masters.masters import MasterAnswer
from worker_sdk.transport.asgi_types import App
from worker_sdk.transport.namespaces import moved_to
from worker_sdk.transport.own_address import WILDCARDS, outgoing_address, url_of
from worker_sdk.worker import job_log
from worker_sdk.worker.asgi import ServedEndpoint
from worker_sdk.worker.assembly import Assembly
from worker_sdk.worker.bodies import Bodies
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.farewell import Farewell
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.left_runs import LeftRuns
from worker_sdk.worker.loop_watch import LoopWatch
from worker_sdk.worker.membership import NodeConfig, WorkerMembership
from worker_sdk.worker.namespace_endpoints import PREFIX, NamespaceEndpoints
from worker_sdk.worker.run import JobRun, Stop
from worker_sdk.worker.siblings import Siblings
from worker_sdk.worker.threads import HandlerThreads

if TYPE_CHECKING:
    from worker_sdk.transport.http_server import WorkerServer
    from worker_sdk.worker.burst import Burst

logger = logging.getLogger(__name__)

# How long a process waits before its end until masters have confirmed all results, and how long until they have all log
# lines.
_FLUSH_S: Final = 5.0
_LOGS_S: Final = 2.0


class Node:
    """A running worker. Create it in the event loop in which it runs. `members`: the memberships in all namespaces,
    which share one server and all slots."""

    def __init__(self, config: NodeConfig, assembly: Assembly, burst: "Burst | None" = None) -> None:
        self._config = config
        self._assembly = assembly
        self._registry = assembly.registry
        self._loop = asyncio.get_running_loop()
        # The refusal that ends this worker, and the function to call then.
        self.rejection: MasterAnswer | None = None
        self.on_rejected: Callable[[], object] = lambda: None
        self.members = (
            self._sharing_members(burst)
            if config.namespaces
            else [
                WorkerMembership(
                    config,
                    assembly,
                    config.masters,
                    counting=burst.counting if burst else None,
                    on_rejected=self._rejected,
                )
            ]
        )
        self._server: WorkerServer | None = None
        self._siblings: Siblings | None = None
        self._stopping = asyncio.Lock()
        self._is_hurried = asyncio.Event()
        # Whether unsent reports remain after the worker was stopped. None: it was not stopped.
        self._is_left: bool | None = None
        self._left: list[WorkerMembership] = []
        self.endpoint: ServedEndpoint | None = None
        self.url = ""

    def _sharing_members(self, burst: "Burst | None") -> list[WorkerMembership]:
        from worker_sdk.worker.shared_slots import SharedSlots

        config = self._config
        slots = SharedSlots(config.max_jobs)
        threads = HandlerThreads(config.max_jobs, self._loop)
        return [
            WorkerMembership(
                config,
                self._assembly,
                [moved_to(address, name) for address in config.masters],
                namespace=name,
                share=slots.add(guaranteed),
                threads=threads,
                counting=burst.counting if burst else None,
                on_rejected=self._rejected,
            )
            for name, guaranteed in config.namespaces.items()
        ]

    @property
    def identity(self) -> WorkerIdentity:
        """The identity in the first namespace."""
        return self.members[0].identity

    @property
    def executor(self) -> Executor:
        """The executor of the first namespace."""
        return self.members[0].executor

    async def over(self, burst: "Burst") -> None:
        """Wait until a worker in burst mode has had no jobs for long enough to end."""
        await burst.over(self.members)

    async def start(self, serve: Callable[[], App] | None) -> None:
        """Start the worker. `serve`: returns the application that the worker's own server serves. None: another
        application serves the worker at the configured URL."""
        config = self._config
        for name in self._registry.names:
            handler = self._registry.get(name)
            if handler and handler.gather and handler.gather.max > config.max_jobs:
                logger.warning(
                    "%s gathers up to %d jobs, but this worker holds only %d (max_jobs), and no call gets more",
                    name,
                    handler.gather.max,
                    config.max_jobs,
                )
        # Start the assembly first, because jobs may arrive as soon as the worker is registered.
        await self._assembly.start()
        if config.job_logs:
            for one in self.members:
                if one.logs is not None:
                    one.logs.start()
            job_log.install(self)
        urls: Mapping[str, str | None] = {one.namespace: None for one in self.members}
        if not config.pull:
            urls = await self._serve(serve)
        for one in self.members:
            one.start_reporting()
        if self._server is not None:
            await self._server.start()
        # Start the memberships last: masters verify the worker's address when it registers.
        loop_watch = LoopWatch(self._loop, self._running)
        for n, one in enumerate(self.members):
            # Let only the first membership's heartbeat watch the event loop.
            watch = loop_watch.look if n == 0 else lambda late_s: None
            one.start(urls[one.namespace], self._may_join, watch)

    async def _serve(self, serve: Callable[[], App] | None) -> dict[str, str]:
        """Make the endpoint, and bind the server. Return the URL to register in each namespace."""
        config = self._config
        if serve is not None:
            self._server = _bound(serve(), config)
            self.url = config.url or own_url(
                config.host, self._server.bound_port, config.masters[0], scheme=self._server.scheme
            )
        elif config.url is not None:
            self.url = config.url
        else:
            raise ValueError("a worker inside another application needs its url")
        self.url = self.url.rstrip("/")
        if self._server is None:
            self._siblings = Siblings(self.url)
            await self._siblings.claim()
        urls = {
            one.namespace: f"{self.url}{PREFIX}{one.namespace}" if one.namespace else self.url
            for one in self.members
        }
        bodies = Bodies()
        endpoints = {one.namespace: one.endpoint(urls[one.namespace], bodies) for one in self.members}
        self.endpoint = NamespaceEndpoints(endpoints) if self._config.namespaces else endpoints[""]
        return urls

    def _running(self) -> list[JobRun]:
        return [run for one in self.members for run in list(one.executor.occupying.values())]

    def _rejected(self) -> None:
        """End the worker, unless masters of another namespace accepted it."""
        if all(one.rejection is not None and one.identity.worker_id is None for one in self.members):
            self.rejection = self.members[0].rejection
            self.on_rejected()

    def disown(self) -> None:
        """Disconnect this forked process, so that nothing in it can call a master."""
        self.endpoint = None
        for one in self.members:
            one.disown()

    def drain(self) -> None:
        """Take no more jobs from now on."""
        if self._siblings is not None:
            self._siblings.drain()
        for one in self.members:
            one.drain()

    def _may_join(self) -> bool:
        """Return whether this process may register. Called from the heartbeat threads."""
        return self._siblings is None or self._siblings.may_register()

    def hand_back_all(self) -> None:
        """Hand back all jobs now, without the rest of the grace."""
        self._is_hurried.set()
        for one in self.members:
            one.executor.stop_all(Stop.HANDED_BACK)

    async def stop(self) -> bool:
        """Drain, hand back the jobs that do not end in time, and unregister. Return whether unsent reports remain,
        because handlers still run or no master accepted the reports.

        The job of a handler that still runs is not handed back yet, because another worker would start it while it
        still runs here. Heartbeats keep naming it until `leave_behind` or the end of the process. A second call waits
        for the first call, and returns the same value.
        """
        async with self._stopping:
            if self._is_left is None:
                try:
                    self._is_left = await self._stop()
                finally:
                    await self._assembly.stop()
            return self._is_left

    def farewell(self) -> Farewell | None:
        """Return the reports to send after this process has ended. None: this worker is not registered."""
        left = [reports for one in self._left if (reports := one.left_reports()) is not None]
        return Farewell(left, self.executor.thread_ids) if left else None

    def leave_behind(self) -> None:
        """Continue to report the remaining runs from threads, because this process continues without the worker."""
        for one in self._left:
            left = one.left_reports()
            LeftRuns(
                one.blocking_client(),
                one.identity,
                one.executor,
                one.report_queue,
                farewell=Farewell([left], one.executor.thread_ids) if left is not None else None,
                on_over=lambda one=one: self._left_is_over(one),  # type: ignore[misc]
            ).start()

    def _left_is_over(self, one: WorkerMembership) -> None:
        one.end()
        self._left = [other for other in self._left if other is not one]
        if not self._left:
            self._leave_siblings()

    async def _stop(self) -> bool:
        members = self.members
        for one in members:
            one.begin_leaving()
        self.drain()
        await asyncio.gather(*[one.stop_pulling() for one in members])
        if not await self._idle_within_grace():
            logger.info("grace is over: %d jobs are handed back", len(self._running()))
            left = [
                run for runs in await asyncio.gather(*[one.hand_back() for one in members]) for run in runs
            ]
            if left:
                logger.warning(
                    "handlers that do not stop: %s; their jobs are handed back when this process has ended",
                    ", ".join(sorted({run.name for run in left})),
                )
        await asyncio.gather(*[one.flush(_FLUSH_S) for one in members])
        logs = [one.logs for one in members if one.logs is not None and one.logs.is_started]
        if logs:
            job_log.uninstall(self)
            await asyncio.gather(*[one.stop(_LOGS_S) for one in logs])
        self.endpoint = None
        if self._server is not None:
            await self._server.stop()
        are_left = await asyncio.gather(*[one.leave() for one in members])
        self._left = [one for one, is_left in zip(members, are_left, strict=True) if is_left]
        if not self._left:
            self._leave_siblings()
        return bool(self._left)

    def _leave_siblings(self) -> None:
        if self._siblings is not None:
            self._siblings.leave(is_idle=not self._running())

    async def _idle_within_grace(self) -> bool:
        """Wait until no job runs. Return False if the grace ends first, or if a second signal ends the wait."""
        idle: asyncio.Future[list[bool]] = asyncio.gather(
            *[one.executor.idle(self._config.grace_s) for one in self.members]
        )
        hurried = asyncio.ensure_future(self._is_hurried.wait())
        waits: list[asyncio.Future[Any]] = [idle, hurried]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return not self._running()
        finally:
            hurried.cancel()
            idle.cancel()
            await asyncio.gather(idle, hurried, return_exceptions=True)


def _bound(app: App, config: NodeConfig) -> "WorkerServer":
    try:
        # Import the server only here, because a worker that pulls does not need it.
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
                exc.errno, f"{config.host} is not an address of this machine; 0.0.0.0 means all addresses"
            ) from exc
        if exc.errno != errno.EADDRINUSE:
            raise
        raise OSError(
            exc.errno,
            f"port {config.port} of {config.host} is in use. If several processes run this worker, omit port, so that "
            "each uses a free port, or use Worker(pull=True)",
        ) from exc


def own_url(host: str, port: int, master: str, *, scheme: str = "http") -> str:
    """Return the URL of a server on `host`. If `host` is a wildcard, use the address from which this machine reaches
    `master`."""
    if host in WILDCARDS:
        parts = urlsplit(master)
        host = outgoing_address(parts.hostname or "", parts.port or 80)
    return url_of(scheme, host, port)
