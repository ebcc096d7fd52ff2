"""The `self` of a function with `bind=True`: its job, `retry` and `update_state`."""

import json
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from worker_sdk.celery_compat.exceptions import MaxRetriesExceededError
from worker_sdk.celery_compat.guide import GUIDE, check_options, missing_attribute
from worker_sdk.celery_compat.options import INSTEAD_OF_OPTION, OF_BROKERS, aware
from worker_sdk.errors import Fail, Retry
from worker_sdk.worker.context import Context

_INSTEAD_OF_SELF: Final = {
    "replace": "return the result, and enqueue the other task in a chain",
    "add_to_chord": "enqueue all jobs of the chord at once",
    "send_event": "use ctx.progress or ctx.emit of a task of worker_sdk",
    "subtask_from_request": "use retry",
    "update": "use update_state",
    "backend": "results are kept by the master",
    "AsyncResult": "use the result object of the caller",
    "start_strategy": "decorate a function",
}
# The prefix of the job headers that this package sets.
OWN_HEADERS: Final = "celery-"


class DeclaredTask(Protocol):
    """The part of a task that its function sees."""

    name: str
    max_retries: int | None
    default_retry_delay: float

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        ...


class Request:
    """The part of a job that a bound task sees as `self.request`.

    * `id`: ID of the job. None: the function was called directly.
    * `retries`: number of attempts before the current attempt.
    * `args`, `kwargs`: the arguments as the caller gave them.
    * `task`: name of the task.
    * `headers`: the headers of the job.
    * `called_directly`: whether the function was called as a plain function, not as a job.
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
        self.headers = {name: value for name, value in given.items() if not name.startswith(OWN_HEADERS)}
        self.called_directly = ctx is None
        self.is_eager = False
        self.correlation_id = self.root_id = self.id
        self.parent_id: str | None = None
        self.hostname = socket.gethostname()
        self.delivery_info: dict[str, Any] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default.

        * `name`: name of the attribute.
        * `default`: returned if there is no such attribute.
        """
        return getattr(self, name, default)


class BoundTask:
    """The `self` of a task with `bind=True`.

    * `name`: name of the task.
    * `request`: the `Request`.
    * `max_retries`, `default_retry_delay`: as they were declared.
    """

    def __init__(self, task: DeclaredTask, request: Request, ctx: Context | None) -> None:
        self._task = task
        self._ctx = ctx
        self.name = task.name
        self.request = request
        self.max_retries = task.max_retries
        self.default_retry_delay = task.default_retry_delay

    def __repr__(self) -> str:
        return f"<task {self.name} of job {self.request.id or 'none'}>"

    def __init_subclass__(cls) -> None:
        raise TypeError(f"a class of tasks has no counterpart here: {INSTEAD_OF_OPTION['base']}; {GUIDE}")

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
        """Retry the job as Celery's `retry` does. This call raises an exception.

        * `exc`: the exception that is raised instead when no retry is left, or when the function was called directly.
        * `throw`: False returns the exception, for `raise self.retry(…)`.
        * `eta`, `countdown`: earliest time of the retry, or seconds until then.
        * `max_retries`: maximum for this call. It cannot exceed the maximum of the task.
        * `args`, `kwargs`: the arguments of the job. Other arguments are refused.
        * `options`: those about brokers change nothing.
        """
        if (args is not None and list(args) != self.request.args) or (
            kwargs is not None and dict(kwargs) != self.request.kwargs
        ):
            raise TypeError(f"a retry has the arguments of the job; {GUIDE}")
        check_options(options, OF_BROKERS | {"queue"}, "an option of retry", INSTEAD_OF_OPTION)
        if self.request.called_directly:
            raise exc or Retry(countdown, "the task asked for a retry")
        most = self.max_retries if max_retries is None else max_retries
        if most is not None and self.request.retries >= most:
            if exc is not None:
                raise Fail(f"{type(exc).__name__}: {exc}") from exc
            raise MaxRetriesExceededError(f"{self.name} was retried {self.request.retries} times")
        if eta is not None:
            countdown = (aware(eta) - datetime.now(UTC)).total_seconds()
        order = Retry(self.default_retry_delay if countdown is None else countdown, str(exc or ""))
        if throw:
            raise order from exc
        return order

    def update_state(
        self, task_id: str | None = None, state: str | None = None, meta: Any = None, **request: Any
    ) -> None:
        """Report the progress of the job. Callers read it as `state` and `info` of their `AsyncResult`, and people see
        it in the web UI.

        * `task_id`: must be left out: a task can report only its own progress.
        * `state`: a word of your own, such as `PROGRESS`.
        * `meta`: a map. Its `current` and `total` are shown as the fraction of the work that is done. State and map
          together may have 200 characters. If they are longer, callers get only the state.
        * `request`: changes nothing.
        """
        if task_id not in (None, self.request.id):
            raise TypeError(f"update_state cannot report for another task; {GUIDE}")
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


def _share_in(meta: Any) -> float | None:
    if not isinstance(meta, Mapping):
        return None
    current, total = meta.get("current"), meta.get("total")
    if not isinstance(current, int | float) or not isinstance(total, int | float) or total <= 0:
        return None
    return min(1.0, max(0.0, current / total))
