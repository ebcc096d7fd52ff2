"""A worker that runs the tasks and the management commands of a Django site."""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from asgiref.sync import iscoroutinefunction
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from worker_sdk import Context, Discard, Worker
from worker_sdk.django.backend import JqmasterBackend
from worker_sdk.django.backend_outbox import relaying_outbox
from worker_sdk.django.commands import COMMAND_PREFIX, run_command
from worker_sdk.django.names import job_name, task_and_queue
from worker_sdk.django.options import is_installed
from worker_sdk.django.tasks_api import (
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from worker_sdk.environment import masters_or_default, namespaces_of_variable
from worker_sdk.middleware import DjangoConnections
from worker_sdk.outbox.in_worker import OutboxRelay
from worker_sdk.transport.namespaces import DEFAULT, moved_to, namespace_of

_FIRST_ATTEMPT: Final = 1


def django_worker(
    aliases: Iterable[str] | None = None,
    queues: Iterable[str] | None = None,
    *,
    relays: bool = True,
    middleware: Iterable[Any] = (),
    **options: Any,
) -> Worker:
    """Return a worker for the tasks in the modules `tasks` of all applications, and for the management commands that
    the settings list.

    * `aliases`: aliases of backends; the worker runs their jobs. Default: all backends of jqmaster.
    * `queues`: queues; the worker runs their jobs. Default: all queues.
    * `relays`: whether the worker also relays the outbox.
    * `middleware`: middleware to run inside `DjangoConnections`.
    * `options`: options of `Worker`.

    For example:

        if __name__ == "__main__":
            django_worker(max_jobs=20).run()
    """
    autodiscover_modules("tasks")
    found = backends(aliases)
    if not found:
        raise ValueError("no backend in TASKS is worker_sdk.django.JqmasterBackend")
    relaying = [OutboxRelay(one) for one in _outboxes(found)] if relays and is_installed() else []
    _add_masters(options, found)
    worker = Worker(middleware=[DjangoConnections(), *relaying, *middleware], **options)
    wanted = None if queues is None else set(queues)
    names: set[str] = set()
    for backend in found:
        for task in backend.tasks.values():
            for queue in {task.queue_name, *backend.queues}:
                name = job_name(task.module_path, queue)
                if name not in names and (wanted is None or queue in wanted):
                    names.add(name)
                    worker.handler(name)(handler_of(task, backend))
        for command in backend.options.get("commands", ()):
            name = COMMAND_PREFIX + command
            if name not in names and (wanted is None or COMMAND_PREFIX.rstrip("/") in wanted):
                names.add(name)
                worker.handler(name)(run_command)
    return worker


def backends(aliases: Iterable[str] | None) -> list[JqmasterBackend]:
    """Return the backends of these aliases, or all backends of jqmaster. Raise ValueError if an alias names another
    kind of backend."""
    found = [task_backends[alias] for alias in (task_backends if aliases is None else aliases)]
    others = [one.alias for one in found if not isinstance(one, JqmasterBackend)]
    if others and aliases is not None:
        raise ValueError(f"TASKS[{others[0]!r}] is not worker_sdk.django.JqmasterBackend")
    return [one for one in found if isinstance(one, JqmasterBackend)]


def handler_of(task: Any, backend: JqmasterBackend) -> Callable[..., Any]:
    """Return the handler that runs the jobs of a task."""
    if iscoroutinefunction(task.func):

        async def run_async(argument: Mapping[str, Any], ctx: Context) -> Any:
            result, arguments = _begin(task, backend, argument, ctx)
            await task_started.asend(type(backend), task_result=result)
            try:
                value = normalize_json(await task.func(*arguments, **result.kwargs))
            except Discard:
                # If a receiver of the signal raises, the job has not failed, as with other handlers.
                _note_success(result, None)
                await task_finished.asend(type(backend), task_result=result)
                raise
            except BaseException as exc:
                _note_error(result, exc)
                await task_finished.asend(type(backend), task_result=result)
                raise
            _note_success(result, value)
            await task_finished.asend(type(backend), task_result=result)
            return value

        return run_async

    def run(argument: Mapping[str, Any], ctx: Context) -> Any:
        result, arguments = _begin(task, backend, argument, ctx)
        task_started.send(type(backend), task_result=result)
        try:
            value = normalize_json(task.func(*arguments, **result.kwargs))
        except Discard:
            _note_success(result, None)
            task_finished.send(type(backend), task_result=result)
            raise
        except BaseException as exc:
            _note_error(result, exc)
            task_finished.send(type(backend), task_result=result)
            raise
        _note_success(result, value)
        task_finished.send(type(backend), task_result=result)
        return value

    return run


def _begin(
    task: Any, backend: JqmasterBackend, argument: Mapping[str, Any], ctx: Context
) -> tuple[Any, list[Any]]:
    """Return the result object of a starting attempt, and the arguments of the function."""
    _, queue = task_and_queue(ctx.name)
    now = timezone.now()
    result = TaskResult(
        task=task.using(queue_name=queue),
        id=ctx.job_id,
        status=TaskResultStatus.RUNNING,
        enqueued_at=None,
        started_at=now if ctx.attempt == _FIRST_ATTEMPT else None,
        last_attempted_at=now,
        finished_at=None,
        args=list(argument.get("args", ())),
        kwargs=dict(argument.get("kwargs", {})),
        backend=backend.alias,
        errors=[],
        # The worker does not know which workers ran the earlier attempts.
        worker_ids=[""] * (ctx.attempt - 1) + [_node_name()],
    )
    arguments = [TaskContext(task_result=result), *result.args] if task.takes_context else list(result.args)
    return result, arguments


def _node_name() -> str:
    import os
    import socket

    return f"{socket.gethostname()}:{os.getpid()}"[:64]


def _note_success(result: Any, value: Any) -> None:
    object.__setattr__(result, "_return_value", value)
    object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
    object.__setattr__(result, "finished_at", timezone.now())


def _note_error(result: Any, exc: BaseException) -> None:
    kind = type(exc)
    result.errors.append(
        TaskError(
            exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
            traceback="".join(traceback.format_exception(exc)),
        )
    )
    object.__setattr__(result, "status", TaskResultStatus.FAILED)
    object.__setattr__(result, "finished_at", timezone.now())


def _outboxes(found: Iterable[JqmasterBackend]) -> list[Any]:
    """Return the outbox that relays each database."""
    return list({one.outbox.using: relaying_outbox(one.outbox) for one in found}.values())


def _add_masters(options: dict[str, Any], found: Sequence[JqmasterBackend]) -> None:
    """Add the master and the namespaces of backends to the options of their worker, if these options name none yet."""
    first = found[0].options
    if options.get("master") is None and first.get("master") is not None:
        options.update(master=first["master"], token=options.get("token") or first.get("token"))
    of_master = [one.options for one in found if one.options.get("master") == first.get("master")]
    names = dict.fromkeys(one.get("namespace") for one in of_master)
    if options.get("namespaces") or namespaces_of_variable() or list(names) == [None]:
        return
    masters = masters_or_default(options.get("master"))
    addresses = [masters] if isinstance(masters, str) else masters
    given = dict.fromkeys(name or namespace_of(addresses[0]) or DEFAULT for name in names)
    if len(given) == 1:
        options["master"] = [moved_to(address, *given) for address in addresses]
    else:
        options.update(master=[moved_to(one, DEFAULT) for one in addresses], namespaces=list(given))
