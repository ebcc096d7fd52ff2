"""Combine the handlers of a worker with middleware and dependencies, once, before the worker starts."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from worker_sdk.dependencies.values import WorkerValues, with_dependencies
from worker_sdk.errors import IsolatedHandlerError
from worker_sdk.generators import AsyncYieldContext, YieldContext, checked_generator
from worker_sdk.middleware.base import Middleware
from worker_sdk.worker import outcomes
from worker_sdk.worker.context import Context, running_job
from worker_sdk.worker.registry import Handler, HandlerKind, Registry

logger = logging.getLogger(__name__)

Call = Callable[[Any, Context], Any]


class Assembly:
    """The handlers of a worker, combined with middleware and dependencies. Raise TypeError if a handler cannot be
    combined with them.

    * `registry`: the handlers as they were registered.
    * `middleware`: the middleware of the worker, the outermost first.
    * `is_in_process`: isolated handlers run in this process, too, for tests.
    """

    def __init__(
        self, registry: Registry, middleware: Sequence[Middleware], *, is_in_process: bool = False
    ) -> None:
        self.middleware = middleware
        self._is_in_process = is_in_process
        self._values = WorkerValues()
        self._is_started = self._is_ready = False
        self._started: list[Middleware] = []
        self.registry = Registry()
        """The combined handlers. A handler without middleware and dependencies stays as it was registered."""
        for name in registry.names:
            if (handler := registry.get(name)) is not None:
                self.add(handler)

    def add(self, handler: Handler) -> Handler:
        """Combine a handler with middleware and dependencies, put it into the registry, and return it."""
        if self._is_in_process and handler.kind is HandlerKind.ISOLATED:
            handler = replace(handler, kind=HandlerKind.ASYNC if handler.is_coroutine else HandlerKind.SYNC)
        composed = self._composed(handler)
        # The worker makes no values for an isolated handler, because the handler's own process makes them.
        if handler.kind is not HandlerKind.ISOLATED:
            self._values.add(handler.dependencies.values())
        self.registry.put(composed)
        return composed

    @property
    def needs_start(self) -> bool:
        """Return whether `start` has something left to do, or `stop` will have something to undo."""
        return self._values.is_incomplete or (
            not self._is_ready
            and any(_overrides(one, "on_start") or _overrides(one, "on_stop") for one in self.middleware)
        )

    async def start(self) -> None:
        """Call `on_start`, and make the values of the worker. After an exception, call `stop`. A repeated call makes
        the values that were added meanwhile."""
        if not self._is_started:
            self._is_started = True
            for one in self.middleware:
                if (starting := one.on_start()) is not None:
                    await starting
                self._started.append(one)
            self._is_ready = True
        await self._values.open()

    async def stop(self) -> None:
        """Undo `start`, in the reverse order. Exceptions are logged."""
        await self._values.close()
        while self._started:
            one = self._started.pop()
            try:
                if (stopping := one.on_stop()) is not None:
                    await stopping
            except Exception:
                logger.exception("on_stop of %s failed", type(one).__name__)

    def _composed(self, handler: Handler) -> Handler:
        layers = [_layer(one, handler) for one in self.middleware if _surrounds(one, handler)]
        if handler.kind is HandlerKind.ISOLATED:
            # Call `_with_dependencies` only to find unusable dependencies before the worker starts: the process of the
            # handler makes the values.
            self._with_dependencies(handler)
            return replace(handler, takes_context=True, around=_around_process(layers)) if layers else handler
        if not handler.dependencies and not layers:
            return handler
        call: Call
        if handler.dependencies:
            call = self._with_dependencies(handler)
        else:
            call = handler.function if handler.takes_context else _without_context(handler)
        for layer in reversed(layers):
            call = layer(call)
        call = _in_job_async(call) if handler.is_coroutine else _in_job(call)
        return replace(handler, function=call, takes_context=True)

    def _with_dependencies(self, handler: Handler) -> Call:
        return with_dependencies(
            handler.name,
            handler.function,
            handler.dependencies,
            self._values.values,
            is_async=handler.is_coroutine,
            takes_context=handler.takes_context,
        )


def _surrounds(one: Middleware, handler: Handler) -> bool:
    return _overrides(one, "around_job") or (_is_in_loop(handler) and _overrides(one, "around_async_job"))


def _is_in_loop(handler: Handler) -> bool:
    return handler.is_coroutine and handler.kind is not HandlerKind.ISOLATED


def _overrides(one: Middleware, method: str) -> bool:
    return getattr(type(one), method) is not getattr(Middleware, method)


def _layer(one: Middleware, handler: Handler) -> Callable[[Call], Call]:
    """Return a function that puts a middleware around a call."""
    if _is_in_loop(handler) and _overrides(one, "around_async_job"):
        return _async_layer(
            checked_generator(one, "around_async_job", is_async=True), _what(one, "async_job")
        )
    make = checked_generator(one, "around_job")
    return (_mixed_layer if _is_in_loop(handler) else _sync_layer)(make, _what(one, "job"))


def _what(one: Middleware, around: str) -> str:
    return f"{type(one).__name__}.around_{around}"


def _sync_layer(make: Callable[[Context], Any], what: str) -> Callable[[Call], Call]:
    def layer(inner: Call) -> Call:
        def call(argument: Any, ctx: Context) -> Any:
            around = YieldContext(make(ctx), what)
            around.enter()
            try:
                result = inner(argument, ctx)
            except BaseException as exc:
                around.leave(exc)
                raise
            around.leave(None)
            return result

        return call

    return layer


def _mixed_layer(make: Callable[[Context], Any], what: str) -> Callable[[Call], Call]:
    def layer(inner: Call) -> Call:
        async def call(argument: Any, ctx: Context) -> Any:
            around = YieldContext(make(ctx), what)
            around.enter()
            try:
                result = await inner(argument, ctx)
            except BaseException as exc:
                around.leave(exc)
                raise
            around.leave(None)
            return result

        return call

    return layer


def _async_layer(make: Callable[[Context], Any], what: str) -> Callable[[Call], Call]:
    def layer(inner: Call) -> Call:
        async def call(argument: Any, ctx: Context) -> Any:
            around = AsyncYieldContext(make(ctx), what)
            await around.enter()
            try:
                result = await inner(argument, ctx)
            except BaseException as exc:
                await around.leave(exc)
                raise
            await around.leave(None)
            return result

        return call

    return layer


def _without_context(handler: Handler) -> Call:
    function = handler.function

    async def call_async(argument: Any, ctx: Context) -> Any:
        return await function(argument)

    def call(argument: Any, ctx: Context) -> Any:
        return function(argument)

    return call_async if handler.is_coroutine else call


def _in_job(inner: Call) -> Call:
    """Set the running job, so that middleware and dependencies enqueue with the same pushers as the handler."""

    def call(argument: Any, ctx: Context) -> Any:
        mark = running_job.set(ctx)
        try:
            return inner(argument, ctx)
        finally:
            running_job.reset(mark)

    return call


def _in_job_async(inner: Call) -> Call:
    async def call(argument: Any, ctx: Context) -> Any:
        mark = running_job.set(ctx)
        try:
            return await inner(argument, ctx)
        finally:
            running_job.reset(mark)

    return call


def _around_process(
    layers: Sequence[Callable[[Call], Call]],
) -> Callable[[Context, Callable[[], Any]], Any]:
    """Return a function that runs middleware around the wait for the process of an attempt, and returns the report of
    the process."""

    def wait(supervise: Callable[[], outcomes.Fields], ctx: Context) -> outcomes.Fields:
        fields = supervise()
        if fields.get("type") != "success":
            raise IsolatedHandlerError(fields)
        return fields

    call: Call = wait
    for layer in reversed(layers):
        call = layer(call)
    call = _in_job(call)

    def supervised(ctx: Context, supervise: Callable[[], outcomes.Fields]) -> Any:
        try:
            return call(supervise, ctx)
        except IsolatedHandlerError as exc:
            return dict(exc.fields)

    return supervised
