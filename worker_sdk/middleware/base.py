"""`Middleware`: the base class of code around handlers, around calls that enqueue, and at a worker's start and end."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TYPE_CHECKING

from worker_sdk.enqueueing import EnqueueMiddleware

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context


class Middleware(EnqueueMiddleware):
    """Run your own code around handlers, around calls that enqueue, and at the start and the end of a worker.

    Override the methods that you need, and give an instance to `Worker`, `Pusher`, `SyncPusher` or `configure`. If you
    give several instances, the first one is the outermost. A method that is not overridden costs nothing.

    For example:

        class Timed(Middleware):
            def on_start(self) -> None:
                print("the worker starts")

            def on_stop(self) -> None:
                print("the worker has stopped")

            def around_job(self, ctx: Context) -> Iterator[None]:
                began_s = time.monotonic()
                yield
                print(ctx.name, time.monotonic() - began_s)

            async def around_async_job(self, ctx: Context) -> AsyncIterator[None]:
                yield
    """

    def on_start(self) -> Awaitable[None] | None:
        """Run in the event loop of the worker before it registers, for instance to open a pool or to load a model. The
        method may be `async def`.

        An exception stops the start: the worker never registers, and `on_stop` is called for the middleware that had
        already started.
        """
        return None

    def on_stop(self) -> Awaitable[None] | None:
        """Run when the worker has stopped, in the reverse order of the middleware. The method may be `async def`.

        An exception is logged. A handler that does not stop within `grace_s` may still be running.
        """
        return None

    def around_job(self, ctx: "Context") -> Iterator[None]:
        """Surround each attempt. Write this method as a generator that yields once. The handler runs at the `yield`,
        and its exception is raised there.

        * `ctx`: the context of the attempt.

        An exception of the generator replaces the exception of the handler, and decides how the attempt ends: `raise
        Discard` and `raise Retry` work, too. If the generator ends without an exception, the exception of the handler
        still counts, so the generator cannot swallow it.

        The generator runs in the thread of a `def` handler. For an `async def` handler, it runs in the event loop and
        must not block. For an isolated handler, the generator runs in the worker, and the `yield` raises
        `IsolatedHandlerError`. The argument of a task is checked at the `yield`, too.
        """
        yield

    async def around_async_job(self, ctx: "Context") -> AsyncIterator[None]:
        """Surround each attempt of an `async def` handler. This method replaces `around_job` there. Write it as an
        async generator that yields once.

        * `ctx`: the context of the attempt.
        """
        yield
