"""`Worker`: applications register handlers with it, and run jobs."""

import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from worker_sdk import forked
from worker_sdk.blocks import NoBlock, async_with_only
from worker_sdk.environment import (
    check_without_namespace,
    host_or_default,
    masters_or_default,
    middleware_or_default,
    namespaces_of_variable,
    set_up_logs,
    token_or_default,
)
from worker_sdk.errors import UnavailableError, refused
from worker_sdk.shown import some_of
from worker_sdk.suggesting import suggesting
from worker_sdk.transport.release import VERSION
from worker_sdk.worker.policies import ExceptionType, RetryOn
from worker_sdk.worker.registry import Handler, Registry
from worker_sdk.worker.shared_slots import checked_shares, slots_by_namespace

# Import these for type checkers only, because they are slow to import. A program that only declares handlers, such as
# an isolated attempt or a web application, does not need them.
if TYPE_CHECKING:
    import asyncio

    from worker_sdk.middleware.base import Middleware
    from worker_sdk.outside import OutsideWork
    from worker_sdk.transport.asgi_types import App
    from worker_sdk.worker.asgi import ServedEndpoint
    from worker_sdk.worker.assembly import Assembly
    from worker_sdk.worker.burst import Burst
    from worker_sdk.worker.membership import NodeConfig
    from worker_sdk.worker.node import Node

logger = logging.getLogger(__name__)

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def _is_same_task(one: "TaskSource", other: "TaskSource", name: str) -> bool:
    """Return whether two sources contain the identical task, as when an application includes the tasks of a module."""
    if not hasattr(one, "__getitem__") or not hasattr(other, "__getitem__"):
        return False
    return bool(one[name] is other[name])


class TaskSource(Protocol):
    """The part of `Tasks` that a worker uses."""

    @property
    def names(self) -> list[str]: ...

    def handler_of(self, name: str) -> Handler:
        """Return the handler of a task."""
        ...


class Worker(NoBlock):
    """Register handlers, and run the jobs that masters assign to this worker:

        worker = Worker(tasks=tasks, max_jobs=20)

        @worker.handler("word.count")
        def count_words(argument: str) -> int:
            return len(argument.split())

    `worker.run()` then serves until the process is told to stop.

    * `master`: address of the master, or a list of addresses. Default: `JQMASTER_URL`, then `http://127.0.0.1:8080`.
    * `tasks`: one or several `Tasks`; this worker runs their jobs. `run_tasks` adds more.
    * `namespaces`: several namespaces for this one worker, up to 20. Give a map of names to their shares of `max_jobs`,
      such as `{"shop": 3, "mail": 1}`, or a list of names with equal shares. Each namespace gets its share whenever it
      needs it, and other namespaces use idle slots. Default: the names in `JQMASTER_WORKER_NAMESPACES`, such as `shop=3
      mail=1`, or else the namespace of the address.
    * `max_jobs`: maximum number of jobs that run at a time, 1 to 1000.
    * `token`: bearer token with the scope `work`, and `push` if handlers call `ctx.enqueue`. Default: `JQMASTER_TOKEN`.
    * `host`, `port`: address on which the worker's own server listens. Default: `JQMASTER_WORKER_HOST`, or else
      127.0.0.1, which only masters on this machine reach; 0.0.0.0 listens on all addresses. Port 0 chooses a free port.
    * `url`: URL at which masters reach the worker, if not `http://{host}:{port}`.
    * `pull`: poll the masters for jobs instead of listening. Use this option where masters cannot reach the worker.
      `host`, `port` and `url` are then ignored.
    * `node_id`: name of the machine, shown to people. Default: its host name.
    * `labels`: further facts to show to people. Jobs can require some of them.
    * `grace_s`: seconds that running jobs have to finish when the process is told to stop.
    * `secret`: 32 to 128 characters that sign the masters' calls. Default: a new random secret for each registration.
      To replace a secret, give a list of two: the first is registered, and both are accepted.
    * `version`: version of your code, shown to people. Default: the version of the SDK.
    * `middleware`: instances of `Middleware`, the outermost first. They run around handlers, around calls that enqueue
      inside handlers, and at the start and end of the worker. Default: those of `configure`.
    * `job_logs`: send the logs of jobs to the masters. A log has the lines of `ctx.logger`, the lines of other loggers
      while a handler runs, and the output of isolated handlers and of commands.

    The arguments become attributes, which you may change until the worker starts.
    """

    other_form = "write `async with worker.running()`, or call `worker.run()`"

    @suggesting("a worker")
    def __init__(
        self,
        master: str | Sequence[str] | None = None,
        *,
        tasks: TaskSource | Iterable[TaskSource] = (),
        namespaces: Mapping[str, int] | Iterable[str] | None = None,
        max_jobs: int = 10,
        token: str | None = None,
        host: str | None = None,
        port: int = 0,
        url: str | None = None,
        pull: bool = False,
        node_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        grace_s: float = 25.0,
        secret: str | Sequence[str] | None = None,
        version: str | None = None,
        middleware: "Iterable[Middleware] | None" = None,
        job_logs: bool = True,
    ) -> None:
        if not 1 <= max_jobs <= 1000:
            raise ValueError("max_jobs must be 1 to 1000")
        self.master = masters_or_default(master)
        self.namespaces: Mapping[str, int] | Iterable[str] | None = (
            namespaces if namespaces is not None else namespaces_of_variable()
        )
        if self.namespaces is not None:
            self.namespaces = checked_shares(self.namespaces)
        self.max_jobs = max_jobs
        self.token = token_or_default(token)
        self.host = host_or_default(host)
        self.port = port
        self.url = url
        self.pull = pull
        self.node_id = node_id if node_id is not None else socket.gethostname()
        self.labels = dict(labels or {})
        self.grace_s = grace_s
        self.version = version if version is not None else VERSION
        self.middleware: Sequence[Middleware] = middleware_or_default(middleware)
        self.job_logs = job_logs
        self._secrets = _checked_secrets(secret)
        self._registry = Registry()
        self._sources: list[TaskSource] = []
        self._task_names: dict[str, TaskSource] = {}
        sources: Any = tasks if isinstance(tasks, Iterable) and not hasattr(tasks, "handler_of") else [tasks]
        self.run_tasks(*sources)
        self._node: Node | None = None
        # The stopped node, if unsent reports remain in a process that is about to end.
        self._left: Node | None = None
        self._is_mounted = False
        forked.renew_in_child(self)

    # --- handlers

    @suggesting("a handler")
    def handler(
        self,
        name: str,
        *,
        retry_on: RetryOn | ExceptionType | Iterable[RetryOn | ExceptionType] | None = None,
        discard_on: ExceptionType | Iterable[ExceptionType | tuple[ExceptionType, ...]] | None = None,
        confirm_start: bool = False,
        isolated: bool = False,
        contract: Mapping[str, Any] | None = None,
        retry_codes: Iterable[str] | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """Decorate a function, `f(argument, ctx)` or `f(argument)`, that runs the jobs of one name. Return it
        unchanged.

        Further parameters with the default `Depends(…)` may follow. The worker fills them.

        An `async def` runs in the event loop, a `def` in a thread. Its return value is the result of the job. By
        default, any exception fails the attempt, and the job is retried.

        * `name`: letters, digits and `_ . : / -`, up to 200 characters.
        * `retry_on`: an exception class, a policy of `retry_on(...)`, or several of either.
        * `discard_on`: exception classes that end the job at once.
        * `confirm_start`: ask a master before the first line runs. This costs a round trip. In return, a delayed push
          cannot start a job that another worker already has.
        * `isolated`: run each attempt in a separate process. All processes that the attempt starts end together with
          it, and a timeout kills them. The function must be at the top level of a module.
        * `contract`: a description of the name, which masters show and may use to check new jobs. It is a map of
          `version`, `argument_schema` (a JSON Schema) and `options`, all of which are optional.
        * `retry_codes`: codes of `CodedError` after which the job is retried. Other codes are final. Default: all codes
          are retried.

        Raise ValueError for a name that is invalid or taken, and TypeError for a function with unsuitable parameters.
        For example:

            @worker.handler("mail.send", retry_on=TimeoutError)
            async def send_mail(argument: dict[str, str], ctx: Context) -> None:
                ctx.logger.info("to %s", argument["to"])
        """

        if not isinstance(name, str):
            raise TypeError('a handler needs the name of its jobs: write @worker.handler("…")')

        def register(function: FunctionT) -> FunctionT:
            self._registry.add(
                name,
                function,
                retry_on=retry_on,
                discard_on=discard_on,
                confirm_start=confirm_start,
                isolated=isolated,
                contract=contract,
                retry_codes=retry_codes,
            )
            return function

        return register

    def outside(self, work: "OutsideWork", *, isolated: bool = False) -> "OutsideWork":
        """Run jobs whose work another system does. Return `work`.

        * `work`: an instance of a class derived from `OutsideWork`.
        * `isolated`: run each phase in a separate process, as `handler` does. The class and this call must be at the
          top level of a module.

        For example:

            class Render(OutsideWork):
                name = "film.render"

                def challenge(self, argument: str, ctx: Context) -> None:
                    print(argument, ctx.open_challenge().callback_url)

                def on_callback(self, callback: Callback, ctx: Context) -> str:
                    return callback.text()

            worker.outside(Render())
        """
        from worker_sdk.outside import add_to

        add_to(self._registry, work, isolated=isolated)
        return work

    def run_tasks(self, *sources: TaskSource) -> None:
        """Run the jobs of these tasks, too. This includes tasks that are declared later, up to the start of the worker.

        * `sources`: `Tasks`.

        Raise TypeError for anything else. For example:

            worker.run_tasks(tasks)
        """
        for source in sources:
            if not hasattr(source, "handler_of"):
                raise TypeError(f"a Tasks object is needed here, not a {type(source).__name__}")
            if not any(source is one for one in self._sources):
                self._sources.append(source)

    def __repr__(self) -> str:
        names = {*self._registry.names, *(name for source in self._sources for name in source.names)}
        return f"<Worker of {some_of(sorted(names), 'no names')}>"

    @property
    def names(self) -> list[str]:
        """The names that have a handler or a task."""
        self._load_tasks()
        return self._registry.names

    def find(self, name: str) -> Handler | None:
        """The registered handler of this name."""
        self._load_tasks()
        return self._registry.get(name)

    def assembly(self, *, is_in_process: bool = False) -> "Assembly":
        """Return the handlers combined with middleware and dependencies. Raise TypeError if a handler cannot be
        combined with them. `is_in_process`: as for `Assembly`."""
        from worker_sdk.worker.assembly import Assembly

        self._load_tasks()
        return Assembly(self._registry, middleware_or_default(self.middleware), is_in_process=is_in_process)

    # --- serving

    @property
    def worker_id(self) -> str | None:
        """ID that the masters assigned to this worker in its first namespace. None while the worker is not
        registered."""
        return self._node.identity.worker_id if self._node else None

    @property
    def worker_ids(self) -> dict[str, str]:
        """IDs that the masters assigned to this worker, by namespace. Namespaces in which it is not registered are
        missing. Without the option `namespaces`, the only key is an empty text."""
        members = self._node.members if self._node else []
        return {one.namespace: one.identity.worker_id for one in members if one.identity.worker_id}

    @property
    def address(self) -> str | None:
        """The URL of the worker's server. None if the worker is not running, or pulls."""
        return (self._node.url or None) if self._node else None

    def asgi(self) -> "App":
        """Return an ASGI application to mount the worker in an application that you already serve, at `url`.

        Its lifespan starts and stops the worker. Most frameworks do not pass the lifespan on to mounted applications.
        With these, give the outer application `lifespan=worker.lifespan`.

        A URL leads to one process. If several processes serve the application, the first one runs the worker, and the
        others refuse to start. To run a worker in each process, use `pull=True`, or omit `url`: each process then also
        listens at its own address.

        For example:

            app = worker.asgi()
        """
        self._is_mounted = True
        return self._app()

    @async_with_only("give it to the application, as in `FastAPI(lifespan=worker.lifespan)`")
    async def lifespan(self, app: object = None) -> "AsyncIterator[None]":
        """Run the worker as long as a web application does: `FastAPI(lifespan=worker.lifespan)`.

        * `app`: the application, which frameworks pass. It is not used.

        Each process that serves the application runs the worker, and registers it at its own address. If `asgi()` is
        mounted at `url`, the worker is registered at `url` instead.

        For example:

            async with worker.lifespan():
                print(worker.worker_id)
        """
        async with self.running(serve=self._owns_server):
            yield

    @async_with_only("without an event loop, call `worker.run()`")
    async def running(self, *, serve: bool = True) -> "AsyncIterator[Worker]":
        """Run the worker inside the running event loop, and drain it at the end of the block.

        * `serve`: start a server for the worker. Pass False if `asgi()` is mounted at `url`.

        For example:

            async with worker.running():
                print(worker.worker_id, worker.address)
        """
        await self._start(serve=serve)
        try:
            yield self
        finally:
            await self.stop()

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or SIGHUP arrives, then drain and return. A second signal hands the running jobs
        back at once. Raise RefusedError if no master ever registered the worker and its token is refused for 30 s.

        For example:

            if __name__ == "__main__":
                worker.run()
        """
        import asyncio

        from worker_sdk.transport.standard_streams import escape_unencodable
        from worker_sdk.worker import first_process

        first_process.give_way()
        escape_unencodable()
        set_up_logs()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            self._run_in(runner, None)

    def run_burst(self, idle_s: float = 5.0) -> list[str]:
        """Run as `run` does, but end when this worker has had no job for some time. Return the IDs of the jobs that
        failed in their last attempt here. Raise UnavailableError if no master registered the worker within 30 s.

        * `idle_s`: the worker ends after this many seconds without a job. A job that becomes due within this time is
          still run.

        For example:

            if __name__ == "__main__":
                failed = worker.run_burst(idle_s=2)
        """
        import asyncio

        from worker_sdk.transport.standard_streams import escape_unencodable
        from worker_sdk.worker import first_process
        from worker_sdk.worker.burst import JOIN_WITHIN_S, Burst

        escape_unencodable()
        set_up_logs()
        first_process.give_way()
        burst = Burst(idle_s)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            self._run_in(runner, burst)
        if not burst.has_joined:
            raise UnavailableError(f"no master registered the worker within {JOIN_WITHIN_S:g} s")
        return sorted(burst.failed)

    def drain(self) -> None:
        """Accept no more jobs. Call this in the event loop of the worker.

        For example:

            async with worker.running():
                worker.drain()
        """
        if self._node is not None:
            self._node.drain()

    # --- inside

    def renew(self) -> None:
        """Reset this object in a forked process, because only the parent is the worker. This process reports nothing
        and does not unregister. It may start its own worker."""
        node, self._node = self._node, None
        if node is not None:
            node.disown()
            forked.release_signals()

    async def start_mounted(self) -> None:
        """Start the worker, without its own server if `url` leads to the mounted application. The ASGI lifespan calls
        this."""
        await self._start(serve=self._owns_server)

    async def stop(self) -> bool:
        """Drain, hand back jobs, and unregister. The ASGI lifespan calls this. Return whether a handler still runs."""
        node = self._node
        if node is None:
            return False
        try:
            if is_left := await node.stop():
                node.leave_behind()
            return is_left
        finally:
            self._node = None

    def _load_tasks(self) -> None:
        """Register the tasks that were declared meanwhile. Raise TypeError for a task with types that cannot be
        encoded, and ValueError for a name that is taken."""
        for source in self._sources:
            for name in source.names:
                if (known := self._task_names.get(name)) is None:
                    self._registry.put(source.handler_of(name))
                    self._task_names[name] = source
                elif known is not source and not _is_same_task(known, source, name):
                    raise ValueError(f"two tasks are named {name}")

    async def _start(self, *, serve: bool, burst: "Burst | None" = None) -> None:
        from worker_sdk.worker.node import Node

        if self._node is not None:
            raise RuntimeError("this worker is already running")
        if not self.names:
            raise ValueError("a worker without handlers and tasks has nothing to do")
        node = Node(self._config(), self.assembly(), burst)
        self._node = node
        try:
            await node.start(self._app if serve else None)
        except BaseException:
            self._node = None
            await node.stop()
            raise

    @property
    def _owns_server(self) -> bool:
        return not (self._is_mounted and self.url is not None)

    def _app(self) -> "App":
        from worker_sdk.worker.asgi import AsgiApp

        return AsgiApp(self, self._endpoint)

    def _endpoint(self) -> "ServedEndpoint | None":
        return self._node.endpoint if self._node else None

    async def _serve_until_signal(self, burst: "Burst | None" = None) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        told = asyncio.Event()

        def on_signal() -> None:
            if told.is_set() and self._node is not None:
                self._node.hand_back_all()
            told.set()

        # Also stop when the terminal closes, which sends SIGHUP. Under `nohup`, the process ignores SIGHUP.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, on_signal)
        await self._start(serve=True, burst=burst)
        try:
            await self._serve(told, burst)
        finally:
            await self._end()

    async def _end(self) -> None:
        """Stop the worker of a process that is about to end, even because of an exception."""
        if (node := self._node) is None:
            return
        try:
            if await node.stop():
                self._left = node
        finally:
            self._node = None

    async def _serve(self, told: "asyncio.Event", burst: "Burst | None") -> None:
        # Exempt all imported objects from garbage collection, which would otherwise visit them once per thousand jobs.
        gc.freeze()
        where = f"at {self.address}" if self.address else "without an address"
        logger.info("worker %s for %s", where, ", ".join(self.names))
        assert self._node is not None
        node, node.on_rejected = self._node, told.set
        if burst is None:
            await told.wait()
        else:
            await self._wait_for_either(told, burst)
        if node.rejection is not None:
            raise refused(node.rejection.status, node.rejection.body)
        logger.info("draining")

    def _run_in(self, runner: "asyncio.Runner", burst: "Burst | None") -> None:
        """Serve until the end. If unsent reports remain, end the process here. The reports may be sent only when the
        handlers certainly no longer run, so that no job runs twice at a time. Leaving the runner would wait for the
        handlers.
        """
        exit_code = 0
        try:
            runner.run(self._serve_until_signal(burst))
        except BaseException as exc:
            # The interrupt has ended the event loop. Stop the worker before the process ends, so that its jobs do not
            # keep it alive.
            runner.run(self._end())
            if self._left is None:
                raise
            exit_code = 130 if isinstance(exc, KeyboardInterrupt) else 1
            logger.critical("the worker ends", exc_info=True)
        if self._left is None:
            return
        if burst is not None and burst.failed:
            exit_code = 1
        farewell = self._left.farewell()
        logging.shutdown()
        if farewell is None:
            os._exit(exit_code)
        farewell.replace_process(exit_code)

    async def _wait_for_either(self, told: "asyncio.Event", burst: "Burst") -> None:
        import asyncio

        assert self._node is not None
        waits = [asyncio.ensure_future(told.wait()), asyncio.ensure_future(self._node.over(burst))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _config(self) -> "NodeConfig":
        from worker_sdk.worker.membership import NodeConfig

        masters = [self.master] if isinstance(self.master, str) else list(self.master)
        namespaces: dict[str, int] = {}
        if self.namespaces is not None:
            shares = checked_shares(self.namespaces)
            for address in masters:
                check_without_namespace(address)
            namespaces = slots_by_namespace(shares, self.max_jobs)
        return NodeConfig(
            masters=masters,
            namespaces=namespaces,
            token=self.token,
            max_jobs=self.max_jobs,
            host=self.host,
            port=self.port,
            url=self.url,
            pull=self.pull,
            node_id=self.node_id,
            version=self.version,
            secrets=self._secrets,
            grace_s=self.grace_s,
            labels=self.labels,
            job_logs=self.job_logs,
        )


def _checked_secrets(given: str | Sequence[str] | None) -> Sequence[str]:
    if given is None:
        return []
    found = [given] if isinstance(given, str) else list(given)
    if not 1 <= len(found) <= 2 or not all(32 <= len(secret) <= 128 for secret in found):
        raise ValueError("secret: give 32 to 128 characters, or two such secrets during a rotation")
    return found


def _loop_factory() -> "Callable[[], asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
