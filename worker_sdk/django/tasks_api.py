"""The names of Django's tasks: from Django 6, or from the backport `django-tasks` on Django 5.2."""

from importlib import import_module
from typing import Any, Final

import django

_IS_BACKPORT: Final = django.VERSION < (6, 0)
_PACKAGE: Final = "django_tasks" if _IS_BACKPORT else "django.tasks"

try:
    # Use Any, because only one of the two packages is installed.
    api: Any = import_module(_PACKAGE)
except ImportError as exc:
    raise ImportError(
        "Django 5.2 has no tasks of its own: pip install django-tasks, and add django_tasks to INSTALLED_APPS"
    ) from exc
base: Any = import_module(f"{_PACKAGE}.base")
exceptions: Any = import_module(f"{_PACKAGE}.exceptions")
signals: Any = import_module(f"{_PACKAGE}.signals")
_json: Any = import_module("django_tasks.utils" if _IS_BACKPORT else "django.utils.json")

BaseTaskBackend: Any = import_module(f"{_PACKAGE}.backends.base").BaseTaskBackend
InvalidTask: Any = exceptions.InvalidTaskError if _IS_BACKPORT else exceptions.InvalidTask
Task: Any = base.Task
TaskContext: Any = base.TaskContext
TaskError: Any = base.TaskError
TaskResult: Any = base.TaskResult
TaskResultDoesNotExist: Any = exceptions.TaskResultDoesNotExist
TaskResultStatus: Any = base.TaskResultStatus
task_backends: Any = api.task_backends
task_enqueued: Any = signals.task_enqueued
task_finished: Any = signals.task_finished
task_started: Any = signals.task_started
# Django's function that converts a value to its JSON form. It raises TypeError for a value without a JSON form.
normalize_json: Any = _json.normalize_json
DEFAULT_TASK_QUEUE_NAME: Final = "default"
