"""Runs the jobs of a task: calls the function as Celery does, and reports the outcome."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Protocol

from worker_sdk.celery_compat import signals
from worker_sdk.celery_compat.bound import OWN_HEADERS, BoundTask, DeclaredTask, Request
from worker_sdk.celery_compat.parameters import Parameters
from worker_sdk.celery_compat.retries import Retries
from worker_sdk.celery_compat.soft_limit import await_within, call_within
from worker_sdk.errors import Fail, InvalidArgument, Retry
from worker_sdk.parameters import is_coroutine_function
from worker_sdk.tasks.task import Task as TypedTask
from worker_sdk.worker.context import Context
from worker_sdk.worker.outcomes import UnfitArgumentError

# The headers of a job that describe how it was called. `TAKES` says what fills the first argument: the `one` result of
# the previous step, or the list of `all` results.
TAKES: Final = f"{OWN_HEADERS}takes"
ARGS: Final = f"{OWN_HEADERS}args"  # the number of positional arguments
SOFT_LIMIT: Final = f"{OWN_HEADERS}soft-time-limit"


class Runnable(DeclaredTask, Protocol):
    """The part of a task that its runs need."""

    task: TypedTask[..., Any]

    @property
    def soft_time_limit(self) -> float | None:
        """Return the seconds after which SoftTimeLimitExceeded is raised in the function."""
        ...


class Runs:
    """Run the jobs of a task."""

    def __init__(
        self,
        task: Runnable,
        function: Callable[..., Any],
        parameters: Parameters,
        retries: Retries,
        *,
        is_bound: bool,
    ) -> None:
        self._task = task
        self._function = function
        self._parameters = parameters
        self._retries = retries
        self._is_bound = is_bound

    def function(self) -> Callable[..., Any]:
        """Return the function in the form of a jqmaster task: its first parameter is the context."""

        def run(ctx: Context, /, **given: Any) -> Any:
            args, kwargs, request = self._begin(ctx, given)
            soft = self._soft_limit_s(ctx)
            try:
                if soft is None:
                    value = self._function(*args, **kwargs)
                else:
                    value = call_within(soft, lambda: self._function(*args, **kwargs))
            except Exception as exc:
                self._raise_order(exc, ctx, request)
            return self._succeeded(value, ctx, request)

        async def run_async(ctx: Context, /, **given: Any) -> Any:
            args, kwargs, request = self._begin(ctx, given)
            soft = self._soft_limit_s(ctx)
            try:
                work = self._function(*args, **kwargs)
                value = await (work if soft is None else await_within(soft, work))
            except Exception as exc:
                self._raise_order(exc, ctx, request)
            return self._succeeded(value, ctx, request)

        chosen: Any = run_async if is_coroutine_function(self._function) else run
        functools.update_wrapper(chosen, self._function)
        del chosen.__wrapped__
        first = inspect.Parameter("_ctx", inspect.Parameter.POSITIONAL_ONLY, annotation=Context)
        # Let a call omit any parameter, because the previous step may fill it.
        chosen.__signature__ = inspect.Signature(
            [first, *self._parameters.travelling()],
            return_annotation=self._parameters.returns,
            __validate_parameters__=False,
        )
        chosen.__annotations__ = {**self._function.__annotations__, "_ctx": Context}
        made: Callable[..., Any] = chosen
        return made

    def _begin(self, ctx: Context, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any], Request]:
        """Return the arguments of the function by position and by name, and its view of the job."""
        self._fill_first(ctx, given)
        request = self._request(ctx, given)
        args: list[Any] = [BoundTask(self._task, request, ctx)] if self._is_bound else []
        kwargs = dict(given)
        for name in self._parameters.positional_only:
            if name not in kwargs:
                break
            args.append(kwargs.pop(name))
        signals.task_prerun.send(
            self._task, task_id=ctx.job_id, task=self._task, args=tuple(request.args), kwargs=request.kwargs
        )
        return args, kwargs, request

    def _fill_first(self, ctx: Context, given: dict[str, Any]) -> None:
        """Add the results of the previous step if the call takes them. Raise UnfitArgumentError if the first argument
        is missing."""
        takes = ctx.headers.get(TAKES)
        parameters = self._parameters
        if not parameters.positional or (first := parameters.positional[0]) in given:
            return
        if takes is None:
            if parameters.needs(first):
                problem = "is missing: no value was given, and the call takes no result of a previous step"
                raise UnfitArgumentError(f"{self._task.name}: {first}: {problem}", [(first, problem)])
            return
        results = [one.result if one.is_success else None for one in ctx.inputs]
        try:
            value = self._task.task.codec.decode_argument(first, results if takes == "all" else results[0])
        except InvalidArgument as exc:
            raise UnfitArgumentError(str(exc), exc.problems) from None
        given[first] = value

    def _request(self, ctx: Context, given: Mapping[str, Any]) -> Request:
        count = int(ctx.headers.get(ARGS, 0)) + (TAKES in ctx.headers)
        by_position = [name for name in self._parameters.positional if name in given][:count]
        rest = {name: value for name, value in given.items() if name not in by_position}
        return Request(self._task.name, [given[name] for name in by_position], rest, ctx)

    def _soft_limit_s(self, ctx: Context) -> float | None:
        given = ctx.headers.get(SOFT_LIMIT)
        return self._task.soft_time_limit if given is None else float(given)

    def _succeeded(self, value: Any, ctx: Context, request: Request) -> Any:
        signals.task_success.send(self._task, result=value)
        self._tell_end(ctx, request, value, "SUCCESS")
        return value

    def _tell_end(self, ctx: Context, request: Request, retval: Any, state: str) -> None:
        signals.task_postrun.send(
            self._task,
            task_id=ctx.job_id,
            task=self._task,
            args=tuple(request.args),
            kwargs=request.kwargs,
            retval=retval,
            state=state,
        )

    def _raise_order(self, exc: Exception, ctx: Context, request: Request) -> NoReturn:
        """Raise the exception of this SDK for the exception of a function."""
        order = self._retries.order_of(exc, ctx.attempt - 1)
        if isinstance(order, Retry):
            signals.task_retry.send(self._task, request=request, reason=exc, einfo=None)
            self._tell_end(ctx, request, exc, "RETRY")
        elif isinstance(order, Fail):
            told = exc if order.__cause__ is None else order.__cause__
            signals.task_failure.send(
                self._task,
                task_id=ctx.job_id,
                exception=told,
                args=tuple(request.args),
                kwargs=request.kwargs,
                traceback=told.__traceback__,
                einfo=None,
            )
            self._tell_end(ctx, request, told, "FAILURE")
        else:
            self._tell_end(ctx, request, exc, "IGNORED")
        if order is exc:
            raise order
        raise order from exc
