"""Convert a master's view of a job to a result object of Django's tasks."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from worker_sdk.django.names import task_and_queue
from worker_sdk.django.tasks_api import Task, TaskError, TaskResult, TaskResultStatus

_STATUSES: Final = {
    "running": TaskResultStatus.RUNNING,
    "awaiting_callback": TaskResultStatus.RUNNING,
    "succeeded": TaskResultStatus.SUCCESSFUL,
    "discarded": TaskResultStatus.SUCCESSFUL,
    "failed": TaskResultStatus.FAILED,
    "canceled": TaskResultStatus.FAILED,
    "skipped": TaskResultStatus.FAILED,
}
# The outcomes that Django shows as errors, each with the exception to show if the job raised none.
_ERRORS: Final = {
    "failure": "builtins.Exception",
    "timeout": "builtins.TimeoutError",
    "lost": "builtins.ConnectionError",
}
_ENDED: Final = {"canceled": "worker_sdk.errors.JobCanceled", "skipped": "worker_sdk.errors.JobSkipped"}


def result_of(view: Mapping[str, Any], backend: Any) -> Any:
    """Return the result object for a master's view of a job, or None if its task cannot be imported."""
    task = _task_of(view, backend)
    argument = view.get("argument")
    if task is None or not isinstance(argument, Mapping):
        return None
    attempts = view["attempts"]
    state = view["state"]
    result = TaskResult(
        task=task,
        id=view["id"],
        status=_STATUSES.get(state, TaskResultStatus.READY),
        enqueued_at=as_datetime(view.get("created_at")),
        started_at=as_datetime(attempts[0]["started_at"]) if attempts else None,
        last_attempted_at=as_datetime(attempts[-1]["started_at"]) if attempts else None,
        finished_at=as_datetime(view.get("finished_at")),
        args=list(argument.get("args", ())),
        kwargs=dict(argument.get("kwargs", {})),
        backend=backend.alias,
        errors=[error for attempt in attempts if (error := _error_of(attempt))],
        worker_ids=[attempt["worker_id"] for attempt in attempts],
    )
    if state in _ENDED:
        result.errors.append(
            TaskError(exception_class_path=_ENDED[state], traceback=f"the job was {state}\n")
        )
    if state == "succeeded":
        object.__setattr__(result, "_return_value", _return_value(view))
    return result


def as_datetime(value: Any) -> datetime | None:
    """Return an instant of the API as a datetime, naive or aware according to `USE_TZ`."""
    if value is None:
        return None
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return found if settings.USE_TZ else timezone.make_naive(found)


def _task_of(view: Mapping[str, Any], backend: Any) -> Any:
    path, queue = task_and_queue(view["name"])
    task = backend.tasks.get(path)
    if task is None:
        try:
            task = import_string(path)
        except ImportError:
            return None
        if not isinstance(task, Task):
            return None
    # Only a scheduled job has its planned time in `run_at`. For other jobs, it is the time at which they became ready.
    run_at = as_datetime(view.get("run_at")) if view["state"] == "scheduled" else None
    return replace(
        task, queue_name=queue, priority=-view.get("priority", 0), run_after=run_at, backend=backend.alias
    )


def _error_of(attempt: Mapping[str, Any]) -> Any:
    if attempt["outcome"] not in _ERRORS:
        return None
    path = attempt.get("error_type") or _ERRORS[attempt["outcome"]]
    error = attempt.get("error")
    traceback = error.get("traceback") if isinstance(error, Mapping) else None
    return TaskError(
        exception_class_path=path if "." in path else f"builtins.{path}",
        traceback=traceback or f"{attempt.get('message') or attempt['outcome']}\n",
    )


def _return_value(view: Mapping[str, Any]) -> Any:
    result = view.get("result")
    return result.get("result") if isinstance(result, Mapping) else None
