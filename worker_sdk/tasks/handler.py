"""The handler of a task, which a worker calls with the argument of a job and its context."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from worker_sdk.errors import InvalidArgument
from worker_sdk.tasks.binder import taken
from worker_sdk.worker.context import running_job
from worker_sdk.worker.outcomes import UnfitArgumentError, UnsendableResultError
from worker_sdk.worker.registry import Handler, HandlerKind, origin_of

if TYPE_CHECKING:
    from worker_sdk.tasks.input_parameters import InputParameters
    from worker_sdk.tasks.task import Task
    from worker_sdk.worker.context import Context


def handler_of(task: "Task[..., Any]") -> Handler:
    """Return the handler. Raise TypeError for a task with types that cannot be sent."""
    is_coroutine = task.signature.is_coroutine
    kind = HandlerKind.ISOLATED if task.isolated else HandlerKind.ASYNC if is_coroutine else HandlerKind.SYNC
    call = _async_call if is_coroutine else _sync_call
    if task.gather is not None:
        from worker_sdk.tasks.gathered import gathered_call

        kind, call = HandlerKind.GATHERED, gathered_call
    elif task.seal is not None:
        call = _sealed_call
    return Handler(
        task.name,
        kind,
        call(task),
        takes_context=True,
        is_coroutine=is_coroutine,
        retry_on=task.retry_on,
        discard_on=task.discard_on,
        confirm_start=task.confirm_start,
        origin=origin_of(task.function) if task.isolated else None,
        contract=partial(_contract_of, task),
        dependencies=task.signature.dependencies,
        gather=task.gather,
        seal=task.seal,
    )


def _contract_of(task: "Task[..., Any]") -> Mapping[str, Any]:
    # Import this only when a worker needs the contract: tests and processes of isolated attempts need none.
    from worker_sdk.tasks.contract import contract_of

    try:
        return contract_of(task)
    except Exception:  # types of the application may raise anything, and jobs can run without a contract
        logging.getLogger(__name__).warning(
            "no contract of %s is reported to masters", task.name, exc_info=True
        )
        return {}


def _input_parameters_of(task: "Task[..., Any]") -> "InputParameters | None":
    if not task.signature.inputs:
        return None
    from worker_sdk.tasks.input_parameters import InputParameters

    return InputParameters(task.signature, task.codec)


def _async_call(task: "Task[..., Any]") -> Callable[..., Any]:
    codec, signature, function = task.codec, task.signature, task.function
    decode, encode = codec.decode_arguments, codec.encode_result
    context, positional = signature.context, signature.leading
    inputs = _input_parameters_of(task)

    # `_sync_call` repeats these steps: calling a function for them would cost almost as much time as the steps.
    async def call(argument: Any, ctx: "Context", **dependencies: Any) -> Any:
        try:
            arguments = decode(argument)
            if inputs is not None:
                inputs.fill(arguments, ctx.inputs)
        except InvalidArgument as exc:
            raise UnfitArgumentError(str(exc), exc.problems) from None
        if context is not None:
            arguments[context] = ctx
        if dependencies:
            arguments.update(dependencies)
        args = taken(positional, arguments) if positional else ()
        # No reset is needed: each job runs in its own asyncio task, which has its own value of the context variable.
        running_job.set(ctx)
        value = await function(*args, **arguments)
        return None if value is None else _encoded(encode, value)

    return call


def _sync_call(task: "Task[..., Any]") -> Callable[..., Any]:
    codec, signature, function = task.codec, task.signature, task.function
    decode, encode = codec.decode_arguments, codec.encode_result
    context, positional = signature.context, signature.leading
    inputs = _input_parameters_of(task)

    def call(argument: Any, ctx: "Context", **dependencies: Any) -> Any:
        try:
            arguments = decode(argument)
            if inputs is not None:
                inputs.fill(arguments, ctx.inputs)
        except InvalidArgument as exc:
            raise UnfitArgumentError(str(exc), exc.problems) from None
        if context is not None:
            arguments[context] = ctx
        if dependencies:
            arguments.update(dependencies)
        args = taken(positional, arguments) if positional else ()
        mark = running_job.set(ctx)
        try:
            value = function(*args, **arguments)
        finally:
            running_job.reset(mark)
        return None if value is None else _encoded(encode, value)

    return call


def _sealed_call(task: "Task[..., Any]") -> Callable[..., Any]:
    seal = task.seal
    assert seal is not None
    inner: Callable[..., Any]

    if task.signature.is_coroutine:
        inner = _async_call(task)

        async def acall(argument: Any, ctx: "Context", **dependencies: Any) -> Any:
            ctx.open_with(seal)
            value = await inner(seal.opened_argument(argument, ctx.job_id, ctx.name), ctx, **dependencies)
            return None if value is None else seal.sealed(value, "result", ctx.job_id)

        return acall
    inner = _sync_call(task)

    def call(argument: Any, ctx: "Context", **dependencies: Any) -> Any:
        ctx.open_with(seal)
        value = inner(seal.opened_argument(argument, ctx.job_id, ctx.name), ctx, **dependencies)
        return None if value is None else seal.sealed(value, "result", ctx.job_id)

    return call


def _encoded(encode: Callable[[Any], Any], value: Any) -> Any:
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UnsendableResultError(f"the result cannot be sent: {exc}") from exc
