"""jqmaster for Django: a backend for Django's tasks, an outbox in Django's transactions, and management commands.

Add `worker_sdk.django` to `INSTALLED_APPS`.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from worker_sdk.django.backend import JqmasterBackend
    from worker_sdk.django.options import JqmasterTask, task
    from worker_sdk.django.outbox import DjangoOutbox

__all__ = ["DjangoOutbox", "JqmasterBackend", "JqmasterTask", "task"]

# Django imports this package before its settings and its models are there.
_MODULES: Final = {
    "DjangoOutbox": "worker_sdk.django.outbox",
    "JqmasterBackend": "worker_sdk.django.backend",
    "JqmasterTask": "worker_sdk.django.options",
    "task": "worker_sdk.django.options",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'worker_sdk.django' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
