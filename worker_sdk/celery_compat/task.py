"""Functions as Celery's tasks: `delay`, `apply_async`, signatures, and `self` with `retry`."""

import functools
import inspect
import json
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

from worker_sdk.celery_compat import result, signals
from worker_sdk.celery_compat.canvas import Signature
from worker_sdk.celery_compat.configuration import Conf
from worker_sdk.celery_compat.exceptions import MaxRetriesExceededError, Reject
from worker_sdk.celery_compat.guide import GUIDE, check_options, is_abstract, missing_attribute
from worker_sdk.celery_compat.process import PROCESS
from worker_sdk.celery_compat.soft_limit import await_within, call_within
from worker_sdk.errors import Challenged, Defer, Discard, Fail, InvalidArgument, NotReady, Retry
from worker_sdk.parameters import is_coroutine_function
from worker_sdk.tasks.client import substitutes
from worker_sdk.tasks.collection import Tasks
from worker_sdk.tasks.task import Task as TypedTask
from worker_sdk.worker.context import Context
from worker_sdk.worker.names import ATTRIBUTE
from worker_sdk.worker.outcomes import UnfitArgumentError

# Options of a task that change nothing here, because jobs behave so anyway.
_AS_EVER: Final = frozenset(
    {
        "acks_late", "acks_on_failure_or_timeout", "reject_on_worker_lost", "track_started", "send_events",
        "store_errors_even_if_ignored", "store_eager_result", "trail", "typing", "shared", "lazy",
    }
)  # fmt: skip
_OPTIONS: Final = frozenset(
    {
        "name", "bind", "max_retries", "default_retry_delay", "autoretry_for", "dont_autoretry_for", "retry_backoff",
        "retry_backoff_max", "retry_jitter", "retry_kwargs", "time_limit", "soft_time_limit", "ignore_result",
        "expires", "priority", "throws", "queue", "isolated",
    }
)  # fmt: skip
_APPLY: Final = frozenset(
    {
        "countdown", "eta", "expires", "priority", "task_id", "headers", "time_limit", "soft_time_limit",
        "ignore_result", "queue",
    }
)  # fmt: skip
# Options that say how Celery reaches its broker, and what it writes there.
_OF_BROKERS: Final = frozenset(
    {
        "retry", "retry_policy", "connection", "producer", "publisher", "serializer", "compression", "routing_key",
        "exchange", "router", "shadow", "add_to_parent", "reply_to", "delivery_mode", "mandatory", "immediate",
        "root_id", "parent_id", "correlation_id", "argsrepr", "kwargsrepr",
    }
)  # fmt: skip
_INSTEAD_OF_OPTION: Final = {
    "base": "use a parameter with Depends, or middleware",
    "rate_limit": "use a constraint, which limits all workers together",
    "after_return": "use the signal task_postrun",
    "on_failure": "use the signal task_failure",
    "on_success": "use the signal task_success",
    "on_retry": "use the signal task_retry",
    "link": "use chain",
    "link_error": "give a job After(jobs, when='finished')",
    "chain": "use chain",
    "chord": "use chord",
    "group_id": "use group",
    "pydantic": "annotate the parameters: they are checked",
}
_INSTEAD_OF_SELF: Final = {
    "replace": "return the result, and enqueue the other task in a chain",
    "add_to_chord": "enqueue all jobs of the chord at first",
    "send_event": "use ctx.progress or ctx.emit of a task of worker_sdk",
    "subtask_from_request": "use retry",
    "update": "use update_state",
    "backend": "results are kept by the master",
    "AsyncResult": "use the result object of the caller",
    "start_strategy": "decorate a function",
}
# None as `max_retries` means forever.
_FOREVER: Final = 10_000
# Celery has no limit of its own; this is the longest that a master knows.
_NO_LIMIT: Final = timedelta(days=7)
# Headers of jobs, which tell a task what its arguments do not.
_OWN: Final = "celery-"
TAKES: Final = "celery-takes"  # `one` result of the step before, or the list of `all`, comes first
_ARGS: Final = "celery-args"  # the number of arguments that were given by position
_SOFT: Final = "celery-soft-time-limit"
# Orders to the worker, which pass through as they are.
_ORDERS: Final = (Retry, Fail, Discard, Defer, Challenged, NotReady, UnfitArgumentError)


class _NotGiven:
    """The default of a first parameter, which may be filled with the result of the step before."""


_NOT_GIVEN: Final = _NotGiven()


class Request:
    """The part of a job that a bound task sees as `self.request`.

    * `id`: ID of the job; None if the function was called directly.
    * `retries`: number of attempts before this one.
    * `args`, `kwargs`: the arguments as the caller gave them.
    * `task`: name of the task.
    * `headers`: the headers of the job.
    * `called_directly`: the function was called like any other.
    """

    def __init__(
        self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any], ctx: Context | None
    ) -> None:
        self.id = None if ctx is None else ctx.job_id
        self.retries = 0 if ctx is None else ctx.attempt - 1
        self.args = list(args)
        self.kwargs = dict(kwargs)
        self.task = task
        given = {} if ctx is None else ctx.headers
        self.headers = {name: value for name, value in given.items() if not name.startswith(_OWN)}
        self.called_directly = ctx is None
        self.is_eager = False
        self.correlation_id = self.root_id = self.id
        self.parent_id: str | None = None
        self.hostname = socket.gethostname()
        self.delivery_info: dict[str, Any] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default.

        * `name`: name of the attribute.
        * `default`: returned if there is none.
        """
        return getattr(self, name, default)


class BoundTask:
    """The `self` of a task with `bind=True`.

    * `name`: name of the task.
    * `request`: the `Request`.
    * `max_retries`, `default_retry_delay`: as they were declared.
    """

    def __init__(self, task: "CeleryTask", request: Request, ctx: Context | None) -> None:
        self._task = task
        self._ctx = ctx
        self.name = task.name
        self.request = request
        self.max_retries = task.max_retries
        self.default_retry_delay = task.default_retry_delay

    def __init_subclass__(cls) -> None:
        raise TypeError(f"a class of tasks has no counterpart here: {_INSTEAD_OF_OPTION['base']}; {GUIDE}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._task(*args, **kwargs)

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

        * `exc`: the exception that is raised instead when no retry is left, or when the function was called directly.
        * `throw`: False returns the exception, for `raise self.retry(…)`.
        * `eta`, `countdown`: earliest time of the retry, or seconds until then.
        * `max_retries`: bound for this time. It cannot exceed that of the task.
        * `args`, `kwargs`: those of the job. Others are refused.
        * `options`: those about brokers change nothing.
        """
        if (args is not None and list(args) != self.request.args) or (
            kwargs is not None and dict(kwargs) != self.request.kwargs
        ):
            raise TypeError(f"a retry has the arguments of the job; {GUIDE}")
        check_options(options, _OF_BROKERS | {"queue"}, "an option of retry", _INSTEAD_OF_OPTION)
        if self.request.called_directly:
            raise exc or Retry(countdown, "the task asked for a retry")
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

    def update_state(
        self, task_id: str | None = None, state: str | None = None, meta: Any = None, **request: Any
    ) -> None:
        """Tell how far the job is. The callers' `AsyncResult` has it as `state` and `info`, and people see it.

        * `task_id`: must be left out: a task speaks of itself.
        * `state`: a word of your own, such as `PROGRESS`.
        * `meta`: a map. Its `current` and `total` are shown as the share that is done. State and map have 200
          characters together; of a larger map, callers get the state alone.
        * `request`: changes nothing.
        """
        if task_id not in (None, self.request.id):
            raise TypeError(f"update_state of another task; {GUIDE}")
        if self._ctx is None:
            return
        from worker_sdk.worker.progress import MAX_MESSAGE_CHARS

        told = state or "STARTED"
        if meta is not None:
            text = f"{told} {json.dumps(meta, ensure_ascii=False, default=str, separators=(',', ':'))}"
            told = text if len(text) <= MAX_MESSAGE_CHARS else told
        self._ctx.progress(_share_in(meta), told)

    def __getattr__(self, name: str) -> Any:
        if name in _INSTEAD_OF_SELF:
            missing_attribute(self, name, _INSTEAD_OF_SELF)
        return getattr(self._task, name)


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
        check_options(options, _OPTIONS | _AS_EVER | _OF_BROKERS, "an option of a task", _INSTEAD_OF_OPTION)
        if is_abstract(function):
            raise TypeError(f"a class of tasks has no counterpart here: decorate a function; {GUIDE}")
        retry_kwargs = options.get("retry_kwargs") or {}
        self.name: str = options.get("name") or f"{function.__module__}.{function.__name__}"
        self.max_retries: int | None = retry_kwargs.get("max_retries", options.get("max_retries", 3))
        self.default_retry_delay = float(
            retry_kwargs.get("countdown", options.get("default_retry_delay", 180))
        )
        self._options = options
        self._conf = conf
        self._function = function
        self._is_bound = bool(options.get("bind"))
        self._retried = _classes(options.get("autoretry_for"))
        self._not_retried = _classes(options.get("dont_autoretry_for"))
        self._backoff = options.get("retry_backoff", False)
        self._backoff_max_s = float(options.get("retry_backoff_max", 600))
        self._has_jitter = bool(options.get("retry_jitter", True))
        whole = inspect.signature(function)
        parameters = list(whole.parameters.values())[1 if self._is_bound else 0 :]
        self._signature = whole.replace(parameters=parameters)
        self._positional = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
        self._positional_only = [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]
        is_isolated = bool(options.get("isolated"))
        time_limit = options.get("time_limit")
        self.task: TypedTask[..., Any] = Tasks.task(
            tasks,
            self.name,
            max_retry=_FOREVER if self.max_retries is None else self.max_retries,
            timeout=_NO_LIMIT if time_limit is None else time_limit,
            keep_result=not options.get("ignore_result", False),
            expires=options.get("expires") if not isinstance(options.get("expires"), datetime) else None,
            priority=_priority(options.get("priority")),
            tags=_queue_tags(options.get("queue")),
            isolated=is_isolated,
        )(self._with_context())
        functools.update_wrapper(self, function)
        if is_isolated:
            from worker_sdk.tasks.handler import handler_of

            # The process of an attempt finds the handler here.
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
        """The function, as it is called directly."""
        return self.__call__

    @property
    def request(self) -> Request:
        """The `self.request` of a function outside of a job."""
        return Request(self.name, (), {}, None)

    @property
    def ignore_result(self) -> bool:
        """Whether its jobs drop their results."""
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
          Those about brokers change nothing. TypeError names others.
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
        * `options`: as for `apply_async`; delays are not waited for.
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
        * `options`: `immutable`, and those of `apply_async`.
        """
        return Signature(self, args, kwargs, **options)

    subtask = signature

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a signature that takes the result of the step before in front of its arguments.

        * `args`, `kwargs`: arguments of the function.
        """
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """Return a signature that takes no result.

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

        * `takes`: what the function is given in front of its arguments: `one` result, or the list of `all`.
        """
        given = self.job_options(options)
        own: dict[str, str] = {}
        if takes is not None:
            own[TAKES] = takes
        if self._is_bound and args:
            own[_ARGS] = str(len(args))
        if (soft := options.get("soft_time_limit")) is not None:
            own[_SOFT] = str(float(soft))
        if own:
            given["headers"] = {**(given.get("headers") or {}), **own}
        arguments = self.arguments(args, kwargs, is_first_taken=takes is not None)
        return self.task.using(**given).to_job(**arguments)

    def arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], *, is_first_taken: bool = False
    ) -> dict[str, Any]:
        """Return the arguments of a call by name. Raise InvalidArgument, a TypeError, if they do not fit.

        * `is_first_taken`: the first parameter is filled later.
        """
        try:
            if not is_first_taken:
                return dict(self._signature.bind(*args, **kwargs).arguments)
            first = self._first()
            found = dict(self._signature.bind(None, *args, **kwargs).arguments)
            del found[first]
            return found
        except TypeError as exc:
            raise InvalidArgument(self.name, [("arguments", str(exc))]) from None

    def job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options of a call as those of a job. Raise TypeError for unknown ones."""
        conf, declared = self._conf(), self._options
        given = job_fields(options)
        # The settings of the application count where neither the call nor the task says anything.
        if declared.get("time_limit") is None and conf["task_time_limit"] is not None:
            given.setdefault("timeout", conf["task_time_limit"])
        if "ignore_result" not in declared and conf["task_ignore_result"]:
            given.setdefault("keep_result", False)
        if declared.get("priority") is None and conf["task_default_priority"] is not None:
            given.setdefault("priority", _priority(conf["task_default_priority"]))
        if "tags" not in given and (queue := conf.queue_of(self.name)) is not None:
            given["tags"] = _queue_tags(queue)
        if isinstance(at := self._options.get("expires"), datetime) and not given.keys() & {
            "expires", "expires_at",
        }:  # fmt: skip
            given["expires_at"] = _aware(at)
        return given

    def _first(self) -> str:
        if not self._positional:
            raise TypeError("it has no parameter for the result of the step before: use si()")
        return self._positional[0]

    # --- running

    def _with_context(self) -> Callable[..., Any]:
        """Return the function as a task of jqmaster: its first parameter is the context."""
        travelling = []
        for one in self._signature.parameters.values():
            name_too = one.POSITIONAL_OR_KEYWORD if one.kind is one.POSITIONAL_ONLY else one.kind
            is_first = one.name in self._positional[:1] and one.kind is not one.VAR_POSITIONAL
            default = _NOT_GIVEN if is_first and one.default is one.empty else one.default
            travelling.append(one.replace(kind=name_too, default=default))

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
        # A parameter that a step before may fill can be omitted, wherever it stands.
        chosen.__signature__ = inspect.Signature(
            [first, *travelling],
            return_annotation=self._signature.return_annotation,
            __validate_parameters__=False,
        )
        chosen.__annotations__ = {**self._function.__annotations__, "_ctx": Context}
        made: Callable[..., Any] = chosen
        return made

    def _begin(self, ctx: Context, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any], Request]:
        """Return the arguments of the function by position and by name, and what it sees of its job."""
        self._fill_first(ctx, given)
        request = self._request(ctx, given)
        args: list[Any] = [BoundTask(self, request, ctx)] if self._is_bound else []
        kwargs = dict(given)
        for name in self._positional_only:
            if name not in kwargs:
                break
            args.append(kwargs.pop(name))
        signals.task_prerun.send(
            self, task_id=ctx.job_id, task=self, args=tuple(request.args), kwargs=request.kwargs
        )
        return args, kwargs, request

    def _fill_first(self, ctx: Context, given: dict[str, Any]) -> None:
        """Add the results of the step before, if the call says so. Raise UnfitArgumentError if the first argument is
        missing."""
        takes = ctx.headers.get(TAKES)
        if not self._positional or (first := self._positional[0]) in given:
            return
        if takes is None:
            if self._signature.parameters[first].default is inspect.Parameter.empty:
                problem = "is missing: no value was given, and the call takes no result of a step before"
                raise UnfitArgumentError(f"{self.name}: {first}: {problem}", [(first, problem)])
            return
        results = [one.result if one.is_success else None for one in ctx.inputs]
        try:
            value = self.task.codec.decode_argument(first, results if takes == "all" else results[0])
        except InvalidArgument as exc:
            raise UnfitArgumentError(str(exc), exc.problems) from None
        given[first] = value

    def _request(self, ctx: Context, given: Mapping[str, Any]) -> Request:
        count = int(ctx.headers.get(_ARGS, 0)) + (TAKES in ctx.headers)
        by_position = [name for name in self._positional if name in given][:count]
        rest = {name: value for name, value in given.items() if name not in by_position}
        return Request(self.name, [given[name] for name in by_position], rest, ctx)

    def _soft_limit_s(self, ctx: Context) -> float | None:
        given = ctx.headers.get(_SOFT)
        return self.soft_time_limit if given is None else float(given)

    def _succeeded(self, value: Any, ctx: Context, request: Request) -> Any:
        signals.task_success.send(self, result=value)
        self._tell_end(ctx, request, value, "SUCCESS")
        return value

    def _tell_end(self, ctx: Context, request: Request, retval: Any, state: str) -> None:
        signals.task_postrun.send(
            self,
            task_id=ctx.job_id,
            task=self,
            args=tuple(request.args),
            kwargs=request.kwargs,
            retval=retval,
            state=state,
        )

    def _raise_order(self, exc: Exception, ctx: Context, request: Request) -> NoReturn:
        """Raise what a master understands: Celery retries only what it is told to."""
        order = self._order_of(exc, ctx)
        if isinstance(order, Retry):
            signals.task_retry.send(self, request=request, reason=exc, einfo=None)
            self._tell_end(ctx, request, exc, "RETRY")
        elif isinstance(order, Fail):
            told = exc if order.__cause__ is None else order.__cause__
            signals.task_failure.send(
                self,
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

    def _order_of(self, exc: Exception, ctx: Context) -> Exception:
        if isinstance(exc, _ORDERS):
            return exc
        if isinstance(exc, Reject):
            reason = str(exc.reason or "rejected by the task")
            return Defer(1.0, reason) if exc.requeue else Fail(reason)
        retries = ctx.attempt - 1
        is_retried = isinstance(exc, self._retried) and not isinstance(exc, self._not_retried)
        text = f"{type(exc).__name__}: {exc}"
        if not is_retried or (self.max_retries is not None and retries >= self.max_retries):
            order = Fail(text)
            order.__cause__ = exc
            return order
        return Retry(self._wait_s(retries), text)

    def _wait_s(self, retries: int) -> float:
        if not self._backoff:
            return self.default_retry_delay
        factor = 1.0 if self._backoff is True else float(self._backoff)
        wait_s = min(factor * 2**retries, self._backoff_max_s)
        return random.uniform(0, wait_s) if self._has_jitter else wait_s  # noqa: S311 - no secret


def job_fields(options: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
    """Return options of `apply_async` as those of a job. Raise TypeError for unknown ones."""
    check_options(options, _APPLY | _OF_BROKERS, "an option of apply_async", _INSTEAD_OF_OPTION)
    options = {**defaults, **options}
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
    if (limit := options.get("time_limit")) is not None:
        given["timeout"] = limit
    if options.get("ignore_result") is not None:
        given["keep_result"] = not options["ignore_result"]
    if (tags := _queue_tags(options.get("queue"))) is not None:
        given["tags"] = tags
    for name, theirs in (("id", "task_id"), ("headers", "headers")):
        if options.get(theirs) is not None:
            given[name] = options[theirs]
    return given


def decorated(
    args: Sequence[Any],
    options: Mapping[str, Any],
    tasks_of: Callable[[Callable[..., Any]], Tasks],
    conf: Callable[[], Conf],
) -> Any:
    """Return a task, or what makes a function one, as decorators of Celery do."""

    def decorate(function: Callable[..., Any]) -> CeleryTask:
        return CeleryTask(tasks_of(function), function, options, conf)

    if args and callable(args[0]):
        return decorate(args[0])
    if args:
        raise TypeError(f"give the name of a task as name=…; {GUIDE}")
    return decorate


def _classes(given: Any) -> tuple[type[BaseException], ...]:
    return tuple(given) if isinstance(given, list | tuple | set) else () if given is None else (given,)


def _priority(given: int | None) -> int | None:
    # RabbitMQ runs the largest first, and a master the lowest.
    return None if given is None else -given


def _queue_tags(queue: Any) -> Sequence[str] | None:
    # A queue may be an object with a name, as kombu has it.
    return None if queue is None else [f"queue:{getattr(queue, 'name', queue)}"]


def _share_in(meta: Any) -> float | None:
    if not isinstance(meta, Mapping):
        return None
    current, total = meta.get("current"), meta.get("total")
    if not isinstance(current, int | float) or not isinstance(total, int | float) or total <= 0:
        return None
    return min(1.0, max(0.0, current / total))


def _aware(instant: datetime) -> datetime:
    # Celery takes an instant without a zone as UTC.
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant
