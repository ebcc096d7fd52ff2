"""jqmaster for Django: a backend for Django's tasks, an outbox in Django's transactions, and management commands.

Add `worker_sdk.django` to `INSTALLED_APPS`.
"""

from typing import TYPE_CHECKING, Final

from worker_sdk.loading import lazy_names

if TYPE_CHECKING:
    from worker_sdk.django.backend import JqmasterBackend
    from worker_sdk.django.options import JqmasterTask, task
    from worker_sdk.django.outbox import DjangoOutbox

__all__ = ["DjangoOutbox", "JqmasterBackend", "JqmasterTask", "task"]

# Import these modules only when a name is used: Django imports this package before its settings and models are loaded.
_MODULES: Final = {
    "DjangoOutbox": "worker_sdk.django.outbox",
    "JqmasterBackend": "worker_sdk.django.backend",
    "JqmasterTask": "worker_sdk.django.options",
    "task": "worker_sdk.django.options",
}

__getattr__ = lazy_names(__name__, _MODULES)
