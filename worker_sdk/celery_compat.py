"""Run a module of Celery tasks unchanged but for its import.

`from worker_sdk.celery_compat import shared_task` takes the place of `from celery import shared_task`, and
`from worker_sdk.celery_compat import Celery` that of `from celery import Celery`. Names that are missing here fail at
the import, and options that are missing fail where the task is declared. docs/coming_from_celery.md has the next steps.
"""

import functools
import inspect
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

from worker_sdk.errors import Fail, JobCanceled, JobFailed, NotFinished, Retry
from worker_sdk.tasks.collection import Tasks
from worker_sdk.tasks.handle import JobHandle
from worker_sdk.tasks.task import Task as TypedTask
from worker_sdk.worker.context import Context

_GUIDE: Final = "see docs/coming_from_celery.md"
# The names of celery that a module may want to import, each with what to use instead.
_MISSING: Final = {
    "chain": "use chain of worker_sdk",
    "group": "use group of worker_sdk, or task.many and wait_all",
    "chord": "use chord of worker_sdk",
    "chunks": "use task.many",
    "signature": "use Task.to_job",
    "Signature": "use Task.to_job",
    "Task": "use a parameter with Depends instead of a base class",
    "crontab": "use a definition with a schedule",
    "signals": "use middleware",
    "current_app": "name the application",
    "current_task": "use bind=True",
}
# Options of a task that change nothing here, because jobs behave so anyway.
_AS_EVER: Final = frozenset(
    {"acks_late", "reject_on_worker_lost", "track_started", "store_errors_even_if_ignored"}
)
_OPTIONS: Final = frozenset(
    {
        "name", "bind", "max_retries", "default_retry_delay", "autoretry_for", "dont_autoretry_for", "retry_backoff",
        "retry_backoff_max", "retry_jitter", "retry_kwargs", "time_limit", "soft_time_limit", "ignore_result",
        "expires", "priority", "throws",
    }
)  # fmt: skip
_APPLY: Final = frozenset(
    {
        "countdown",
        "eta",
        "expires",
        "priority",
        "task_id",
        "headers",
        "time_limit",
        "soft_time_limit",
        "ignore_result",
    }
)
# Options of a call that say how Celery reaches its broker.
_OF_BROKERS: Final = frozenset(
    {"retry", "retry_policy", "connection", "producer", "serializer", "compression"}
)
# None as `max_retries` means forever.
_FOREVER: Final = 10_000
# The name in a module under which `jqmaster worker --autodiscover` finds its shared tasks.
_ATTRIBUTE: Final = "jqmaster_tasks"

_STATES: Final = {
    "running": "STARTED",
    "awaiting_callback": "STARTED",
    "retrying": "RETRY",
    "succeeded": "SUCCESS",
    "discarded": "SUCCESS",
    "failed": "FAILURE",
    "canceled": "REVOKED",
    "skipped": "REVOKED",
}


class MaxRetriesExceededError(Fail):
    """`self.retry` was called after the last retry."""


class Request:
    """The part of a job that a bound task sees as `self.request`.

    * `id`: ID of the job.
    * `retries`: number of attempts before this one.
    * `args`, `kwargs`: the arguments.
    * `task`: name of the task.
    """

    def __init__(self, ctx: Context, name: str, kwargs: Mapping[str, Any]) -> None:
        self.id = ctx.job_id
        self.retries = ctx.attempt - 1
        self.args: tuple[Any, ...] = ()
        self.kwargs = dict(kwargs)
        self.task = name
        self.headers = dict(ctx.headers)


class BoundTask:
    """The `self` of a task with `bind=True`.

    * `name`: name of the task.
    * `request`: the `Request`.
    * `max_retries`, `default_retry_delay`: as they were declared.
    """

    def __init__(self, task: "CeleryTask", request: Request) -> None:
        self._task = task
        self.name = task.name
        self.request = request
        self.max_retries = task.max_retries
        self.default_retry_delay = task.default_retry_delay

    def retry(  # noqa: PLR0917  as Celery has it
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Retry:
        """Retry the job, as Celery's `retry` does: raise what says so.

        * `exc`: the exception that is raised instead when no retry is left.
        * `throw`: False returns the exception, for `raise self.retry(…)`.
        * `eta`, `countdown`: earliest time of the retry, or seconds until then.
        * `max_retries`: bound for this time. It cannot exceed that of the task.
        * `args`, `kwargs`: are refused: a retry has the arguments of the job.
        """
        if args is not None or kwargs is not None or options:
            raise TypeError(f"a retry has the arguments and options of the job; {_GUIDE}")
        most = self.max_retries if max_retries is None else max_retries
        if most is not None and self.request.retries >= most:
            if exc is not None:
                raise Fail(f"{type(exc).__name__}: {exc}") from exc
            raise MaxRetriesExceededError(f"{self.name} was retried {self.request.retries} times")
        if eta is not None:
            countdown = (_aware(eta) - datetime.now(UTC)).total_seconds()
        order = Retry(self.default_retry_delay if countdown is None else countdown, str(exc or ""))
        if throw:
            raise order from exc
        return order


class CeleryTask:
    """A task with the methods of Celery's.

    * `name`: name of its jobs.
    * `max_retries`, `default_retry_delay`: as they were declared.
    * `task`: the `worker_sdk.Task`, for new code.
    """

    def __init__(self, tasks: Tasks, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        _check(options.keys(), _OPTIONS | _AS_EVER, "an option of a task")
        retry_kwargs = options.get("retry_kwargs") or {}
        self.name: str = options.get("name") or f"{function.__module__}.{function.__name__}"
        self.max_retries: int | None = retry_kwargs.get("max_retries", options.get("max_retries", 3))
        self.default_retry_delay = float(
            retry_kwargs.get("countdown", options.get("default_retry_delay", 180))
        )
        self._function = function
        self._is_bound = bool(options.get("bind"))
        self._retried = _classes(options.get("autoretry_for"))
        self._not_retried = _classes(options.get("dont_autoretry_for"))
        self._backoff = options.get("retry_backoff", False)
        self._backoff_max_s = float(options.get("retry_backoff_max", 600))
        self._has_jitter = bool(options.get("retry_jitter", True))
        time_limit = options.get("time_limit") or options.get("soft_time_limit")
        self.task: TypedTask[..., Any] = Tasks.task(
            tasks,
            self.name,
            max_retry=_FOREVER if self.max_retries is None else self.max_retries,
            # Celery has no limit of its own; this is the longest that a master knows.
            timeout=timedelta(days=7) if time_limit is None else time_limit,
            keep_result=not options.get("ignore_result", False),
            expires=options.get("expires") if not isinstance(options.get("expires"), datetime) else None,
            priority=_priority(options.get("priority")),
        )(self._with_context())
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_bound:
            raise TypeError(f"{self.name} has bind=True: call it with apply_async")
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def delay(self, *args: Any, **kwargs: Any) -> "AsyncResult":
        """Enqueue a call, and return its result object.

        * `args`, `kwargs`: arguments of the function.
        """
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> "AsyncResult":
        """Enqueue a call with options, and return its result object.

        * `args`, `kwargs`: arguments of the function.
        * `options`: `countdown`, `eta`, `expires`, `priority` (the largest runs first), `task_id`, `headers`,
          `time_limit` and `ignore_result`. Those about brokers change nothing. TypeError names others.
        """
        _check(options.keys(), _APPLY | _OF_BROKERS, "an option of apply_async")
        given: dict[str, Any] = {}
        if (countdown := options.get("countdown")) is not None:
            given["delay"] = countdown
        if (eta := options.get("eta")) is not None:
            given["run_at"] = _aware(eta)
        if (expires := options.get("expires")) is not None:
            if isinstance(expires, datetime):
                given.update(expires_at=_aware(expires), expires=None)
            else:
                given["expires"] = expires
        if (priority := _priority(options.get("priority"))) is not None:
            given["priority"] = priority
        if (limit := options.get("time_limit") or options.get("soft_time_limit")) is not None:
            given["timeout"] = limit
        if "ignore_result" in options:
            given["keep_result"] = not options["ignore_result"]
        for name, theirs in (("id", "task_id"), ("headers", "headers")):
            if options.get(theirs) is not None:
                given[name] = options[theirs]
        return AsyncResult(self.task.using(**given).enqueue(*(args or ()), **(kwargs or {})))

    def apply(self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None) -> NoReturn:
        """Refuse: the test kit runs tasks in place.

        * `args`, `kwargs`: arguments of the function.
        """
        raise NotImplementedError(f"use worker_sdk.testing.inline() instead of apply; {_GUIDE}")

    def AsyncResult(self, task_id: str) -> "AsyncResult":  # noqa: N802 - Celery's name
        """Return the result object of a job that was enqueued elsewhere.

        * `task_id`: ID of the job.
        """
        return AsyncResult(self.task.handle(task_id))

    def __getattr__(self, name: str) -> Any:
        if name in ("s", "si", "signature", "subtask", "chunks", "map", "starmap"):
            raise AttributeError(f"{name} of Celery is missing here: use Task.to_job or Task.many; {_GUIDE}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _with_context(self) -> Callable[..., Any]:
        """Return the function as a task of jqmaster: its first parameter is the context."""
        signature = inspect.signature(self._function)
        travelling = list(signature.parameters.values())[1 if self._is_bound else 0 :]

        def run(ctx: Context, /, *args: Any, **kwargs: Any) -> Any:
            bound: tuple[Any, ...] = ()
            if self._is_bound:
                bound = (BoundTask(self, Request(ctx, self.name, kwargs)),)
            try:
                return self._function(*bound, *args, **kwargs)
            except (Retry, Fail):
                raise
            except Exception as exc:
                self._raise_order(exc, ctx)

        functools.update_wrapper(run, self._function)
        del run.__wrapped__  # type: ignore[attr-defined]
        first = inspect.Parameter("_ctx", inspect.Parameter.POSITIONAL_ONLY, annotation=Context)
        run.__signature__ = signature.replace(parameters=[first, *travelling])  # type: ignore[attr-defined]
        run.__annotations__ = {**self._function.__annotations__, "_ctx": Context}
        return run

    def _raise_order(self, exc: Exception, ctx: Context) -> NoReturn:
        """Raise what a master understands: Celery retries only what it is told to."""
        retries = ctx.attempt - 1
        is_retried = isinstance(exc, self._retried) and not isinstance(exc, self._not_retried)
        if not is_retried or (self.max_retries is not None and retries >= self.max_retries):
            raise Fail(f"{type(exc).__name__}: {exc}") from exc
        raise Retry(self._wait_s(retries), f"{type(exc).__name__}: {exc}") from exc

    def _wait_s(self, retries: int) -> float:
        if not self._backoff:
            return self.default_retry_delay
        factor = 1.0 if self._backoff is True else float(self._backoff)
        wait_s = min(factor * 2**retries, self._backoff_max_s)
        return random.uniform(0, wait_s) if self._has_jitter else wait_s  # noqa: S311 - no secret


class AsyncResult:
    """The job of a call, with the methods of Celery's.

    * `id`: ID of the job.
    * `handle`: the `JobHandle`, for new code.
    """

    def __init__(self, handle: JobHandle[Any]) -> None:
        self.handle = handle
        self.id = handle.id

    def __str__(self) -> str:
        return self.id

    def get(self, timeout: float | None = None, propagate: bool = True, **options: Any) -> Any:
        """Wait for the result, and return it.

        * `timeout`: seconds to wait.
        * `propagate`: raise `JobFailed` if the job failed; otherwise return it.
        * `options`: Celery's others change nothing.
        """
        try:
            return self.handle.get(timeout)
        except NotFinished:
            raise TimeoutError("the operation timed out") from None
        except (JobFailed, JobCanceled) as exc:
            if propagate:
                raise
            return exc

    @property
    def state(self) -> str:
        """The state of the job in Celery's words."""
        return _STATES.get(str(self.handle.refresh().status), "PENDING")

    @property
    def status(self) -> str:
        """The same as `state`."""
        return self.state

    @property
    def result(self) -> Any:
        """The result, or the exception of a job that failed; None before its end."""
        return self.get(propagate=False) if self.ready() else None

    def ready(self) -> bool:
        """Return whether the job is over."""
        return self.state in ("SUCCESS", "FAILURE", "REVOKED")

    def successful(self) -> bool:
        """Return whether the job succeeded."""
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        """Return whether the job failed."""
        return self.state == "FAILURE"

    def revoke(self, **options: Any) -> None:
        """Cancel the job.

        * `options`: Celery's `terminate` and `signal` change nothing: a running job is stopped.
        """
        self.handle.cancel()

    def forget(self) -> None:
        """Do nothing: results expire."""


class Celery(Tasks):
    """An application of Celery as a collection of tasks. `jqmaster worker MODULE:app` runs it.

    * `main`: its name, which changes nothing.
    * `options`: `broker`, `backend` and others are ignored: `JQMASTER_URL` names the master.
    """

    def __init__(self, main: str | None = None, **options: Any) -> None:
        super().__init__()
        self.main = main

    def task(self, *args: Any, **options: Any) -> Any:
        """Decorate a function to make it a task, with or without options.

        * `args`: the function, if there are no options.
        * `options`: those of Celery.
        """
        return _decorated(args, options, lambda function: self)

    def __getattr__(self, name: str) -> Any:
        if name in (
            "conf",
            "autodiscover_tasks",
            "send_task",
            "control",
            "config_from_object",
            "on_after_configure",
        ):
            raise AttributeError(f"{name} of Celery is missing here; {_GUIDE}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def shared_task(*args: Any, **options: Any) -> Any:
    """Decorate a function to make it a task, with or without options. Its module gets the name `jqmaster_tasks`, a
    `Tasks` for `jqmaster worker MODULE:jqmaster_tasks` and for `--autodiscover`.

    * `args`: the function, if there are no options.
    * `options`: those of Celery.
    """

    def tasks_of(function: Callable[..., Any]) -> Tasks:
        found: Tasks = function.__globals__.setdefault(_ATTRIBUTE, Tasks())
        return found

    return _decorated(args, options, tasks_of)


def __getattr__(name: str) -> NoReturn:
    if name in _MISSING:
        raise ImportError(
            f"{name} of Celery is missing in worker_sdk.celery_compat: {_MISSING[name]}; {_GUIDE}"
        )
    raise AttributeError(f"module 'worker_sdk.celery_compat' has no attribute {name!r}")


def _decorated(
    args: Sequence[Any], options: Mapping[str, Any], tasks_of: Callable[[Callable[..., Any]], Tasks]
) -> Any:
    def decorate(function: Callable[..., Any]) -> CeleryTask:
        return CeleryTask(tasks_of(function), function, options)

    if args and callable(args[0]):
        return decorate(args[0])
    if args:
        raise TypeError(f"give the name of a task as name=…; {_GUIDE}")
    return decorate


def _check(given: Iterable[str], known: Iterable[str], what: str) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(f"{', '.join(unknown)}: not {what} in worker_sdk.celery_compat; {_GUIDE}")


def _classes(given: Any) -> tuple[type[BaseException], ...]:
    return tuple(given) if isinstance(given, list | tuple | set) else () if given is None else (given,)


def _priority(given: int | None) -> int | None:
    # RabbitMQ runs the largest first, and a master the lowest.
    return None if given is None else -given


def _aware(instant: datetime) -> datetime:
    # Celery takes an instant without a zone as UTC.
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant
