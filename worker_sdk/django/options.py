"""Job options for Django's tasks, in addition to Django's own options."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from asgiref.sync import sync_to_async

from worker_sdk.django.tasks_api import DEFAULT_TASK_QUEUE_NAME, Task, task_backends
from worker_sdk.option_types import check_options
from worker_sdk.pusher.jobs import unknown_options

# The job options that `@task`, `using` and the settings accept.
JOB_OPTIONS: Final = (
    "timeout",
    "max_retry",
    "retry",
    "tags",
    "headers",
    "unique",
    "debounce",
    "expires",
    "rerun_lost",
    "keep_result",
    "key",
    "requires",
)
# The options that `using` accepts, and the options that a declaration accepts.
_CHANGES: Final = frozenset({"priority", "queue_name", "run_after", "backend", *JOB_OPTIONS})
_DECLARED: Final = _CHANGES | {"takes_context"}
# The masters' limits for labels.
_MAX_LABELS: Final = 8
_MAX_LABEL_CHARS: Final = 64
_MAX_VALUE_CHARS: Final = 200
# The values that the setting `enqueue` accepts, and the names of all options in the settings.
ENQUEUE: Final = ("outbox", "on_commit", "immediately")
OPTIONS: Final = frozenset(
    {"master", "token", "namespace", "enqueue", "database", "commands", "push_in_background", *JOB_OPTIONS}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JqmasterTask(Task):
    """A task of Django with options of jqmaster. `@task(timeout=600)` sets them, and `using` changes them.

    * `timeout`, `max_retry`, `retry`, `tags`, `headers`, `unique`, `debounce`, `expires`, `rerun_lost`, `keep_result`,
      `key`, `requires`: as in `TaskOptions`. None means the value in the backend's settings, or else the master's
      default. An empty map as `requires` removes the labels that the settings or the task require.

    For example:

        @task(timeout=600, max_retry=3)
        def make_thumbnail(photo_id: int) -> None:
            print(photo_id)
    """

    timeout: float | timedelta | None = None
    max_retry: int | None = None
    retry: Mapping[str, Any] | None = None
    tags: Sequence[str] | None = None
    headers: Mapping[str, str] | None = None
    unique: Any = None
    debounce: Any = None
    expires: float | timedelta | None = None
    rerun_lost: bool | None = None
    keep_result: bool | None = None
    key: str | None = None
    requires: Mapping[str, str] | None = None

    def using(self, **changes: Any) -> "JqmasterTask":
        """Return the task with other options. Raise TypeError for an unknown option, and InvalidTask for an invalid
        value.

        * `changes`: `priority`, `queue_name`, `run_after` and `backend`, and the options of jqmaster.

        For example:

            result = make_thumbnail.using(timeout=60, priority=10).enqueue(42)
        """
        _check_names(changes, _CHANGES)
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def enqueue_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Any]:
        """Enqueue a job for each call, with many jobs in one request, and return their result objects.

        * `calls`: for each call its positional arguments as a list or tuple, or its keyword arguments as a map. An
          iterable is read while its jobs are being sent.

        In a transaction, the setting `enqueue` decides when the jobs are pushed.

        For example:

            results = make_thumbnail.enqueue_many([number] for number in range(20))
        """
        found: list[Any] = self.get_backend().enqueue_many(self, calls)
        return found

    async def aenqueue_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Any]:
        """Enqueue a job for each call, with many jobs in one request, and return their result objects. `aenqueue_many`
        does not block the event loop.

        * `calls`: for each call its positional arguments as a list or tuple, or its keyword arguments as a map. An
          iterable is read while its jobs are being sent.

        In a transaction, the setting `enqueue` decides when the jobs are pushed.

        For example:

            results = await make_thumbnail.aenqueue_many([number] for number in range(20))
        """
        found: list[Any] = await sync_to_async(self.enqueue_many)(calls)
        return found


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Decorate a function to make it a task, with or without options. In contrast to `django.tasks.task` of Django 6.0,
    it also accepts the options of jqmaster.

    * `function`: the function, if there are no options.
    * `options`: `priority`, `queue_name`, `backend`, `takes_context`, and the options of jqmaster.
    """

    _check_names(options, _DECLARED)

    def decorate(given: Callable[..., Any]) -> Any:
        settings: dict[str, Any] = {
            "priority": 0,
            "queue_name": DEFAULT_TASK_QUEUE_NAME,
            "backend": "default",
        }
        settings |= {"takes_context": False, "run_after": None, **options}
        return task_backends[settings["backend"]].task_class(func=given, **settings)

    return decorate if function is None else decorate(function)


def _check_names(given: Iterable[str], known: Collection[str]) -> None:
    if unknown := set(given) - set(known):
        raise unknown_options(unknown, known, "a task")


def options_fault(task: Any) -> str:
    """Return the fault in the options of a task, or an empty text."""
    if fault := labels_fault(getattr(task, "requires", None)):
        return fault
    try:
        check_options({name: getattr(task, name, None) for name in JOB_OPTIONS})
    except TypeError as exc:
        return str(exc)
    return ""


def options_of(task: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the jobs of a task. `defaults`: the options in the settings."""
    found = {}
    for name in JOB_OPTIONS:
        value = getattr(task, name, None)
        value = defaults.get(name) if value is None else value
        if value is not None:
            found[name] = value
    if not found.get("requires", True):
        del found["requires"]
    return found


def labels_fault(requires: Any) -> str:
    """Return the fault in a value of the option `requires`, or an empty text."""
    if requires is None:
        return ""
    if not isinstance(requires, Mapping):
        return f"requires is {requires!r}, and not a map of labels"
    if len(requires) > _MAX_LABELS:
        return f"requires has {len(requires)} labels; at most {_MAX_LABELS} are allowed"
    for name, value in requires.items():
        if not isinstance(name, str) or not 1 <= len(name) <= _MAX_LABEL_CHARS:
            return f"requires has the label {name!r}: a text of 1 to {_MAX_LABEL_CHARS} characters is needed"
        if not isinstance(value, str) or len(value) > _MAX_VALUE_CHARS:
            return (
                f"requires has the label {name!r} with {value!r}: a text of up to {_MAX_VALUE_CHARS} characters is "
                "needed"
            )
    return ""


def is_installed() -> bool:
    """Return whether the settings name the application `worker_sdk.django`."""
    from django.apps import apps

    return bool(apps.is_installed("worker_sdk.django"))
