"""Values of dependencies: made before a handler runs or a worker registers, and cleaned up afterwards."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from worker_sdk.dependencies.depends import Dependency
from worker_sdk.dependencies.value_calls import ValueCall, value_calls
from worker_sdk.generators import AsyncYieldContext, YieldContext

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context

logger = logging.getLogger(__name__)

Values = dict[Dependency, Any]
Opened = list[YieldContext | AsyncYieldContext]


class WorkerValues:
    """The values that live as long as a worker. `values` is filled by `open`."""

    def __init__(self) -> None:
        self._calls: dict[Dependency, ValueCall] = {}
        self._opened: Opened = []
        self.values: Values = {}

    @property
    def is_incomplete(self) -> bool:
        """Return whether some added values are not made yet."""
        return not self._calls.keys() <= self.values.keys()

    def add(self, dependencies: Iterable[Dependency]) -> None:
        """Add dependencies with the scope `worker`, and the values that these need."""
        for call in value_calls(dependencies):
            if call.dependency.scope == "worker":
                self._calls[call.dependency] = call

    async def open(self) -> None:
        """Make the values that are not there yet. If a function raises, clean up the values made so far, and raise its
        exception."""
        try:
            for dependency, call in self._calls.items():
                if dependency not in self.values:
                    self.values[dependency] = await _make_value(call, self.values, None, self._opened)
        except BaseException as exc:
            await _close(self._opened, exc, None)
            self.values.clear()
            raise

    async def close(self) -> None:
        """Clean up in the reverse order."""
        await _close(self._opened, None, None)
        self.values.clear()


def with_dependencies(
    name: str,
    function: Callable[..., Any],
    wanted: Mapping[str, Dependency],
    shared: Mapping[Dependency, Any],
    *,
    is_async: bool,
    takes_context: bool,
) -> Callable[[Any, "Context"], Any]:
    """Return a function of (argument, ctx) that makes the values, calls `function` with them, and cleans up.

    * `name`: the name of the handler.
    * `shared`: the values of the worker. They are made before the function is called.

    Raise TypeError if a dependency is async and the handler is not.
    """
    calls = [call for call in value_calls(wanted.values()) if call.dependency.scope == "job"]
    if is_async:
        return _async_call(function, calls, wanted, shared, takes_context)
    for call in calls:
        if call.is_async:
            raise TypeError(
                f"handler {name}: the dependency {call.name} is async, and the handler is a def. "
                'Make the handler an async def, or give the dependency scope="worker".'
            )
    return _sync_call(function, calls, wanted, shared, takes_context)


def _async_call(
    function: Callable[..., Any],
    calls: Sequence[ValueCall],
    wanted: Mapping[str, Dependency],
    shared: Mapping[Dependency, Any],
    takes_context: bool,
) -> Callable[..., Any]:
    async def call(argument: Any, ctx: "Context") -> Any:
        opened: Opened = []
        values = dict(shared)
        try:
            for one in calls:
                values[one.dependency] = await _make_value(one, values, ctx, opened)
            given = {parameter: values[dependency] for parameter, dependency in wanted.items()}
            if takes_context:
                result = await function(argument, ctx, **given)
            else:
                result = await function(argument, **given)
        except BaseException as exc:
            await _close(opened, exc, ctx)
            raise
        await _close(opened, None, ctx)
        return result

    return call


def _sync_call(
    function: Callable[..., Any],
    calls: Sequence[ValueCall],
    wanted: Mapping[str, Dependency],
    shared: Mapping[Dependency, Any],
    takes_context: bool,
) -> Callable[..., Any]:
    def call(argument: Any, ctx: "Context") -> Any:
        opened: Opened = []
        values = dict(shared)
        try:
            for one in calls:
                values[one.dependency] = _make_value_now(one, values, ctx, opened)
            given = {parameter: values[dependency] for parameter, dependency in wanted.items()}
            result = function(argument, ctx, **given) if takes_context else function(argument, **given)
        except BaseException as exc:
            _close_at_once(opened, exc, ctx)
            raise
        _close_at_once(opened, None, ctx)
        return result

    return call


def _called(call: ValueCall, values: Mapping[Dependency, Any], ctx: "Context | None") -> Any:
    given = {parameter: values[dependency] for parameter, dependency in call.needs.items()}
    if call.context is not None:
        given[call.context] = ctx
    return call.dependency.function(**given)


async def _make_value(
    call: ValueCall, values: Mapping[Dependency, Any], ctx: "Context | None", opened: Opened
) -> Any:
    if not call.is_async:
        return _make_value_now(call, values, ctx, opened)
    made = _called(call, values, ctx)
    if not call.is_generator:
        return await made
    around = AsyncYieldContext(made, f"the dependency {call.name}")
    value = await around.enter()
    opened.append(around)
    return value


def _make_value_now(
    call: ValueCall, values: Mapping[Dependency, Any], ctx: "Context | None", opened: Opened
) -> Any:
    made = _called(call, values, ctx)
    if not call.is_generator:
        return made
    around = YieldContext(made, f"the dependency {call.name}")
    value = around.enter()
    opened.append(around)
    return value


async def _close(opened: Opened, exc: BaseException | None, ctx: "Context | None") -> None:
    """Clean up in the reverse order, after the exception `exc` if it is not None. Log the exceptions of clean-ups. An
    exception that ends a task or a thread, such as CancelledError, is raised after all clean-ups."""
    while opened:
        around = opened.pop()
        try:
            if isinstance(around, AsyncYieldContext):
                await around.leave(exc)
            else:
                around.leave(exc)
        except Exception as raised:
            _log(around, raised, ctx)
        except BaseException as ending:
            await _close(opened, ending, ctx)
            raise


def _close_at_once(opened: Opened, exc: BaseException | None, ctx: "Context | None") -> None:
    while opened:
        around = opened.pop()
        assert isinstance(around, YieldContext)
        try:
            around.leave(exc)
        except Exception as raised:
            _log(around, raised, ctx)
        except BaseException as ending:
            _close_at_once(opened, ending, ctx)
            raise


def _log(around: YieldContext | AsyncYieldContext, raised: Exception, ctx: "Context | None") -> None:
    of = f" after {ctx.name} (job {ctx.job_id}, attempt {ctx.attempt})" if ctx is not None else ""
    extra = {"job_id": ctx.job_id, "job_name": ctx.name, "attempt": ctx.attempt} if ctx is not None else {}
    logger.error("the clean-up of %s failed%s", around.what, of, exc_info=raised, extra=extra)
