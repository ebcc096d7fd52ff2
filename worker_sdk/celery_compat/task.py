"""Functions with the interface of Celery's tasks: `delay`, `apply_async`, and signatures."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from worker_sdk.celery_compat import result, signals
from worker_sdk.celery_compat.bound import BoundTask, Request
from worker_sdk.celery_compat.canvas import Signature
from worker_sdk.celery_compat.configuration import Conf
from worker_sdk.celery_compat.guide import GUIDE, check_options, is_abstract
from worker_sdk.celery_compat.options import (
    AS_EVER,
    DECLARED,
    INSTEAD_OF_OPTION,
    OF_BROKERS,
    aware,
    job_fields,
    queue_tags,
    wire_priority,
)
from worker_sdk.celery_compat.parameters import Parameters
from worker_sdk.celery_compat.process import PROCESS
from worker_sdk.celery_compat.retries import Retries
from worker_sdk.celery_compat.runs import ARGS, SOFT_LIMIT, TAKES, Runs
from worker_sdk.tasks.client import substitutes
from worker_sdk.tasks.collection import Tasks
from worker_sdk.tasks.task import Task as TypedTask
from worker_sdk.worker.names import ATTRIBUTE

# The number of retries for `max_retries=None`, which means no limit.
_FOREVER: Final = 10_000
# The timeout of tasks without a time limit: Celery has no default limit, so this is the longest that a master allows.
_NO_LIMIT: Final = timedelta(days=7)


class CeleryTask:
    """A task with the methods of Celery's.

    * `name`: name of its jobs.
    * `max_retries`, `default_retry_delay`: as they were declared.
    * `task`: the `worker_sdk.Task`, for new code.
    """

    def __init__(
        self,
        tasks: Tasks,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        conf: Callable[[], Conf],
    ) -> None:
        check_options(options, DECLARED | AS_EVER | OF_BROKERS, "an option of a task", INSTEAD_OF_OPTION)
        if is_abstract(function):
            raise TypeError(f"a class of tasks has no counterpart here: decorate a function; {GUIDE}")
        self.name: str = options.get("name") or f"{function.__module__}.{function.__name__}"
        retries = Retries(options)
        self.max_retries, self.default_retry_delay = retries.most, retries.delay_s
        self._options = options
        self._conf = conf
        self._function = function
        self._is_bound = bool(options.get("bind"))
        self._parameters = Parameters(self.name, function, is_bound=self._is_bound)
        runs = Runs(self, function, self._parameters, retries, is_bound=self._is_bound)
        is_isolated = bool(options.get("isolated"))
        time_limit = options.get("time_limit")
        self.task: TypedTask[..., Any] = Tasks.task(
            tasks,
            self.name,
            max_retry=_FOREVER if self.max_retries is None else self.max_retries,
            timeout=_NO_LIMIT if time_limit is None else time_limit,
            keep_result=not options.get("ignore_result", False),
            expires=options.get("expires") if not isinstance(options.get("expires"), datetime) else None,
            priority=wire_priority(options.get("priority")),
            tags=queue_tags(options.get("queue")),
            isolated=is_isolated,
        )(runs.function())
        functools.update_wrapper(self, function)
        if self._is_bound:
            # Hide `self` from the signature, because callers do not pass it.
            given = inspect.signature(function)
            self.__signature__ = given.replace(parameters=list(given.parameters.values())[1:])
        if is_isolated:
            from worker_sdk.tasks.handler import handler_of

            # The child process of an isolated attempt looks up the handler in this attribute.
            setattr(self, ATTRIBUTE, {self.name: handler_of(self.task)})
        PROCESS.tasks[self.name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_bound:
            request = Request(self.name, args, kwargs, None)
            return self._function(BoundTask(self, request, None), *args, **kwargs)
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    @property
    def run(self) -> Callable[..., Any]:
        """Call the function in this process, without a job."""
        return self.__call__

    @property
    def request(self) -> Request:
        """The `self.request` of a function outside of a job."""
        return Request(self.name, (), {}, None)

    @property
    def ignore_result(self) -> bool:
        """Return whether its jobs drop their results."""
        return bool(self._options.get("ignore_result", self._conf()["task_ignore_result"]))

    @property
    def soft_time_limit(self) -> float | None:
        """Seconds after which SoftTimeLimitExceeded is raised in the function."""
        given: float | None = self._options.get("soft_time_limit")
        return self._conf()["task_soft_time_limit"] if given is None else given

    # --- calls

    def delay(self, *args: Any, **kwargs: Any) -> result.AsyncResult:
        """Enqueue a call, and return its result object.

        * `args`, `kwargs`: arguments of the function.
        """
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> result.AsyncResult:
        """Enqueue a call with options, and return its result object.

        * `args`, `kwargs`: arguments of the function.
        * `options`: `countdown`, `eta`, `expires`, `priority` (the largest runs first), `task_id`, `headers`,
          `time_limit`, `soft_time_limit`, `ignore_result`, and `queue`, which becomes the tag `queue:NAME` of the job.
          Options about brokers change nothing. All other options raise TypeError.
        """

        if self._conf()["task_always_eager"] and not substitutes:
            return self.apply(args, kwargs, throw=self._conf()["task_eager_propagates"], **options)
        job = self.to_job(args or (), kwargs or {}, options)
        signals.before_task_publish.send(self.name, body=job, headers=job.get("headers") or {})
        pushers = self.task.pushers()
        handle = self.task.handle_of(job, pushers.sync_pusher().enqueue_job(job), pushers)
        signals.after_task_publish.send(self.name, body=job, headers=job.get("headers") or {})
        return result.AsyncResult(handle)

    def apply(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        throw: bool = False,
        **options: Any,
    ) -> result.EagerResult:
        """Run a call here and now, with its retries and the calls that it enqueues. Return how it ended.

        * `args`, `kwargs`: arguments of the function.
        * `throw`: raise the exception of the function.
        * `options`: as for `apply_async`. Delays are skipped.
        """
        return result.run_here(self, self.to_job(args or (), kwargs or {}, options), throw=throw)

    def AsyncResult(self, task_id: str) -> result.AsyncResult:  # noqa: N802 - Celery's name
        """Return the result object of a job that was enqueued elsewhere.

        * `task_id`: ID of the job.
        """
        return result.AsyncResult(self.task.handle(task_id))

    # --- signatures

    def signature(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Signature:
        """Return a signature: a call as data, for `chain`, `group` and `chord`.

        * `args`, `kwargs`: arguments of the function.
        * `options`: `immutable`, and the options of `apply_async`.
        """
        return Signature(self, args, kwargs, **options)

    subtask = signature

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a signature that takes the result of the previous step in front of its arguments.

        * `args`, `kwargs`: arguments of the function.
        """
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a signature that takes no result of a previous step.

        * `args`, `kwargs`: arguments of the function.
        """
        return self.signature(args, kwargs, immutable=True)

    def __getattr__(self, name: str) -> Any:
        if name in ("chunks", "map", "starmap"):
            raise AttributeError(f"{name} of Celery is missing here: use group, or Task.many; {GUIDE}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    # --- for the rest of the package

    def to_job(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        takes: str | None = None,
    ) -> Any:
        """Return the job of a call. Raise TypeError if the arguments or options do not fit.

        * `takes`: what the previous step gives as the first argument: its `one` result, or the list of `all` results.
        """
        given = self.job_options(options)
        own: dict[str, str] = {}
        if takes is not None:
            own[TAKES] = takes
        if self._is_bound and args:
            own[ARGS] = str(len(args))
        if (soft := options.get("soft_time_limit")) is not None:
            own[SOFT_LIMIT] = str(float(soft))
        if own:
            given["headers"] = {**(given.get("headers") or {}), **own}
        arguments = self.arguments(args, kwargs, is_first_taken=takes is not None)
        return self.task.using(**given).to_job(**arguments)

    def arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], *, is_first_taken: bool = False
    ) -> dict[str, Any]:
        """Return the arguments of a call by name. Raise InvalidArgument, a TypeError, if they do not fit.

        * `is_first_taken`: True if the result of the previous step will fill the first parameter.
        """
        return self._parameters.bound(args, kwargs, is_first_taken=is_first_taken)

    def job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Convert options of a call to options of a job. Raise TypeError for unknown options."""
        conf, declared = self._conf(), self._options
        given = job_fields(options)
        # The application's settings apply if neither the call nor the task sets the option.
        if declared.get("time_limit") is None and conf["task_time_limit"] is not None:
            given.setdefault("timeout", conf["task_time_limit"])
        if "ignore_result" not in declared and conf["task_ignore_result"]:
            given.setdefault("keep_result", False)
        if declared.get("priority") is None and conf["task_default_priority"] is not None:
            given.setdefault("priority", wire_priority(conf["task_default_priority"]))
        if "tags" not in given and (queue := conf.queue_of(self.name)) is not None:
            given["tags"] = queue_tags(queue)
        if isinstance(at := self._options.get("expires"), datetime) and not given.keys() & {
            "expires", "expires_at",
        }:  # fmt: skip
            given["expires_at"] = aware(at)
        return given


def decorated(
    args: Sequence[Any],
    options: Mapping[str, Any],
    tasks_of: Callable[[Callable[..., Any]], Tasks],
    conf: Callable[[], Conf],
) -> Any:
    """Return a task, or a decorator that makes one, as decorators of Celery do."""

    def decorate(function: Callable[..., Any]) -> CeleryTask:
        return CeleryTask(tasks_of(function), function, options, conf)

    if args and callable(args[0]):
        return decorate(args[0])
    if args:
        raise TypeError(f"give the name of a task as name=…; {GUIDE}")
    return decorate
