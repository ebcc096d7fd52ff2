"""Start and end a worker in a test, and call its handlers with middleware and dependencies."""

import asyncio
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Final, cast

from worker_sdk.enqueueing import EnqueueChain, chain_of
from worker_sdk.environment import middleware_or_default
from worker_sdk.tasks.collection import Tasks
from worker_sdk.tasks.task import TaskJob
from worker_sdk.worker.assembly import Assembly
from worker_sdk.worker.registry import Handler, Registry
from worker_sdk.worker.worker import Worker

# Tasks in event loops that stop workers after the block of the test has ended. The set keeps them alive.
_ends: Final[set["asyncio.Task[None]"]] = set()
_portal_of_caller: Final[ContextVar["Portal | None"]] = ContextVar("portal_of_caller", default=None)


def worker_of(given: Any) -> Worker:
    """Return the worker that was passed to the test kit, or a new worker for the tasks that were passed.

    * `given`: a `Worker`, or `Tasks`. Raise TypeError for anything else.
    """
    if isinstance(given, Worker):
        return given
    if isinstance(given, Tasks):
        return Worker(tasks=given)
    raise TypeError(f"a Worker or Tasks is needed here, not a {type(given).__name__}")


class LazyWorker:
    """A worker that starts when the first job is run, and ends with `close`.

    * `given`: a worker, or `Tasks`, with the handlers and the middleware. None: use the handlers of the jobs' tasks,
      and the middleware of `configure`.

    The worker starts in the event loop of the test if a job runs there. Otherwise, it starts in a loop of its own, in a
    thread. Async functions then run in that loop, too.
    """

    def __init__(self, given: "Worker | Tasks | None") -> None:
        worker = given if given is None else worker_of(given)
        self._assembly = (
            worker.assembly(is_in_process=True)
            if worker
            else Assembly(Registry(), middleware_or_default(None), is_in_process=True)
        )
        self.chain: EnqueueChain | None = chain_of(self._assembly.middleware)
        self._lock = threading.Lock()
        self._starting = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._portal: Portal | None = None

    def handler_of(self, job: TaskJob[Any]) -> Handler:
        """Return the handler of a job, ready to be called. Raise LookupError if there is no handler, and TypeError for
        dependencies that cannot be called."""
        with self._lock:
            if (handler := self._assembly.registry.get(job["name"])) is not None:
                return handler
            if job.task is None:
                raise LookupError(f"no handler for jobs named {job['name']}: pass the worker that has it")
            return self._assembly.add(cast("Tasks", job.task.tasks).handler_of(job.task.name))

    def start(self) -> None:
        """Start the worker, and make its values that do not exist yet."""
        if not self._assembly.needs_start:
            return
        if self._portal is not None and self._portal.is_here:
            # A coroutine of this portal's loop has called a blocking method, so the loop cannot run the start.
            Portal.run_once(self._assembly.start())
            return
        with self._lock:
            if self._loop is not None and self._portal is None:
                # The worker runs in the event loop of the test, which waits for this call or has ended, so it cannot
                # run the start.
                Portal.run_once(self._assembly.start())
                return
            if self._portal is None:
                self._portal = Portal()
                self._loop = self._portal.loop
            self._portal.run(self._assembly.start())

    async def astart(self) -> None:
        """Start the worker, and make its values that do not exist yet. `astart` does not block the event loop."""
        if not self._assembly.needs_start:
            return
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if self._loop is not asyncio.get_running_loop():
            await asyncio.to_thread(self.start)
            return
        async with self._starting:
            await self._assembly.start()

    def run_async(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run the coroutine of an `async def` handler, from a thread without an event loop."""
        if self._portal is not None and not self._portal.is_here:
            return self._portal.run(coroutine)
        return asyncio.run(coroutine)

    def close(self) -> None:
        """Stop the worker. In the event loop of a test, the worker finishes stopping when the test next awaits."""
        loop, self._loop = self._loop, None
        portal, self._portal = self._portal, None
        if portal is not None:
            portal.run(self._assembly.stop())
            portal.close()
        elif loop is not None:
            if loop is _running_loop():
                end = loop.create_task(self._assembly.stop())
                _ends.add(end)
                end.add_done_callback(_ends.discard)
            else:
                Portal.run_once(self._assembly.stop())


class Portal:
    """An event loop in a separate thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="jq-test-worker", daemon=True)
        self._thread.start()

    @classmethod
    def run_once(cls, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run the coroutine in a new loop."""
        portal = cls()
        try:
            return portal.run(coroutine)
        finally:
            portal.close()

    @property
    def is_here(self) -> bool:
        """Return whether the calling code was started from this loop, which may be waiting for it."""
        return _portal_of_caller.get() is self

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in this loop, and wait for its end. Raise its exception."""

        async def ended() -> tuple[Any, BaseException | None]:
            _portal_of_caller.set(self)  # so that this task, and threads that it starts, find the portal
            try:
                return await coroutine, None
            except BaseException as exc:  # do not let SystemExit end the loop
                return None, exc

        value, exc = asyncio.run_coroutine_threadsafe(ended(), self.loop).result()
        if exc is not None:
            raise exc
        return value

    def close(self) -> None:
        """Cancel all remaining work, and end the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _main(self) -> None:
        # asyncio.Runner cleans up tasks and async generators, as asyncio.run does.
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.get_loop().run_forever()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
