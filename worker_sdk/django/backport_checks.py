"""System checks of the backport of Django's tasks, on versions of Django without tasks of their own."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Final

import django
from django.apps import apps
from django.conf import settings
from django.core import checks

_BACKENDS: Final = ("worker_sdk.django.JqmasterBackend", "worker_sdk.django.backend.JqmasterBackend")
_APPLICATION: Final = "django_tasks"


def problems_of_backport(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """Return the faults of the setting `TASKS`. If the application of the backport is installed, it checks the backends
    itself. Otherwise, check the backends here."""
    return list(_problems()) if django.VERSION < (6, 0) else []


def _problems() -> Iterator[checks.CheckMessage]:
    named = getattr(settings, "TASKS", {})
    ours = [alias for alias, given in named.items() if given.get("BACKEND") in _BACKENDS]
    if not ours:
        return
    if find_spec(_APPLICATION) is None:
        yield checks.Error(
            f"TASKS[{ours[0]!r}]: Django {django.get_version()} has no tasks of its own, and the package django-tasks "
            "is not installed.",
            hint=f'Run pip install django-tasks, and add "{_APPLICATION}" to INSTALLED_APPS.',
            id="jqmaster.E012",
        )
    elif not apps.is_installed(_APPLICATION):
        from worker_sdk.django.checks import problems_of
        from worker_sdk.django.tasks_api import task_backends

        yield checks.Warning(
            f"TASKS[{ours[0]!r}]: django_tasks is not in INSTALLED_APPS.",
            hint=f'Add "{_APPLICATION}" to INSTALLED_APPS: Django {django.get_version()} has no tasks of its own.',
            id="jqmaster.W005",
        )
        for alias in ours:
            yield from problems_of(task_backends[alias])
