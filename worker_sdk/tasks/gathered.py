"""Tasks that run many jobs in one call of their function."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from worker_sdk.errors import InvalidArgument, SealError
from worker_sdk.tasks.binder import taken
from worker_sdk.worker.context import running_job
from worker_sdk.worker.gather import GatherContext, ends_of
from worker_sdk.worker.outcomes import UnfitArgumentError, UnsendableResultError

if TYPE_CHECKING:
    from worker_sdk.tasks.task import Task
    from worker_sdk.worker.context import Context


class _CallMembers:
    """The jobs of one call: the jobs with fitting arguments, and the outcomes of the other jobs."""

    def __init__(self, task: "Task[..., Any]", arguments: Sequence[Any], ctx: GatherContext) -> None:
        self._name = task.name
        self._encode = task.codec.encode_result
        self._seal = task.seal
        # Make the contexts of the jobs only if their values are sealed: a sealed value belongs to one job.
        self._contexts: Sequence[Context] = ctx.jobs if task.seal is not None else ()
        self.ends: list[Any] = [None] * len(arguments)
        self._fit: Sequence[int] = range(len(arguments))
        [parameter] = task.codec.types
        values = task.codec.decode_together(parameter, arguments) if task.seal is None else None
        self.values = self._decoded(task, parameter, arguments, ctx) if values is None else values
        self.call: dict[str, Any] = {parameter: self.values}

    def _decoded(
        self, task: "Task[..., Any]", parameter: str, arguments: Sequence[Any], ctx: GatherContext
    ) -> list[Any]:
        """Decode each argument alone, and return the values of those that fit. Record the outcomes of the other jobs,
        which are not part of the call."""
        fit, values = [], []
        for index, argument in enumerate(arguments):
            try:
                given = argument
                if self._seal is not None:
                    job = self._contexts[index]
                    job.open_with(self._seal)
                    given = self._seal.opened_argument(argument, job.job_id, job.name)
                values.append(task.codec.decode_arguments(given)[parameter])
            except InvalidArgument as exc:
                self.ends[index] = UnfitArgumentError(str(exc), exc.problems)
            except SealError as exc:
                self.ends[index] = exc
            else:
                fit.append(index)
        if len(fit) < len(arguments):
            ctx.jobs = [ctx.jobs[index] for index in fit]
        self._fit = fit
        return values

    def with_ends(self, value: Any) -> list[Any]:
        """Return the outcomes of all jobs. `value`: the value that the function returned for the jobs with fitting
        arguments."""
        if value is None and len(self._fit) == len(self.ends):
            return self.ends
        for index, end in zip(self._fit, ends_of(self._name, value, len(self._fit)), strict=True):
            if end is not None and not isinstance(end, BaseException):
                self.ends[index] = self._encoded(end, index)
            else:
                self.ends[index] = end
        return self.ends

    def _encoded(self, value: Any, index: int) -> Any:
        try:
            encoded = self._encode(value)
            if self._seal is None:
                return encoded
            return self._seal.sealed(encoded, "result", self._contexts[index].job_id)
        except (TypeError, ValueError, RecursionError) as exc:
            wrong = UnsendableResultError(f"the result cannot be sent: {exc}")
            wrong.__cause__ = exc
            return wrong


def gathered_call(task: "Task[..., Any]") -> Callable[..., Any]:
    """Return the function that a worker calls with the arguments of many jobs and the context of the call."""
    function, context, positional = task.function, task.signature.context, task.signature.leading
    assert context is not None

    def begin(arguments: Sequence[Any], ctx: GatherContext, dependencies: Mapping[str, Any]) -> Any:
        members = _CallMembers(task, arguments, ctx)
        given = {**members.call, context: ctx, **dependencies}
        return members, taken(positional, given), given

    async def acall(arguments: Sequence[Any], ctx: GatherContext, **dependencies: Any) -> list[Any]:
        members, args, given = begin(arguments, ctx, dependencies)
        running_job.set(ctx)
        return members.with_ends(await function(*args, **given) if members.values else ())  # type: ignore[no-any-return]

    def call(arguments: Sequence[Any], ctx: GatherContext, **dependencies: Any) -> list[Any]:
        members, args, given = begin(arguments, ctx, dependencies)
        mark = running_job.set(ctx)
        try:
            return members.with_ends(function(*args, **given) if members.values else ())  # type: ignore[no-any-return]
        finally:
            running_job.reset(mark)

    return acall if task.signature.is_coroutine else call
