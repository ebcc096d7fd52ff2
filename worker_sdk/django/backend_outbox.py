"""The outbox of a backend. All backends with the same database share its table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.django.outbox import DjangoOutbox
from worker_sdk.django.tasks_api import task_backends
from worker_sdk.errors import WorkerSdkError

if TYPE_CHECKING:
    from worker_sdk.pusher.by_process import Pushers

_BACKEND: Final = "backend:"
_NAMESPACE: Final = " in namespace "


class BackendOutbox(DjangoOutbox):
    """The outbox of one backend. Rows of the first backend in `TASKS` that uses a table need no destination. If another
    backend uses a different master, its rows name that backend, so that any relay pushes them to the right master."""

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        self.access = (options.get("master"), options.get("token"))
        super().__init__(
            options.get("database", "default"),
            master=self.access[0],
            token=self.access[1],
            in_background=options.get("push_in_background", False),
        )
        self.is_used = options.get("enqueue", "outbox") == "outbox"
        self._alias = alias
        self._namespace: str | None = options.get("namespace")

    def destination(self, namespace: str | None) -> str | None:
        namespace = namespace or self._namespace
        if relaying_outbox(self).access == self.access:
            return super().destination(namespace)
        return f"{_BACKEND}{self._alias}" + (f"{_NAMESPACE}{namespace}" if namespace else "")

    def pushers(self, destination: str | None = None) -> "Pushers":
        if destination is None or not destination.startswith(_BACKEND):
            return super().pushers(destination)
        alias, _, namespace = destination.removeprefix(_BACKEND).partition(_NAMESPACE)
        outbox = getattr(task_backends[alias], "outbox", None) if alias in task_backends.settings else None
        if not isinstance(outbox, BackendOutbox):
            raise WorkerSdkError(f"TASKS has no backend {alias!r} of jqmaster any more, and jobs for it wait")
        found = outbox.pushers()
        return found.in_namespace(namespace) if namespace else found


def relaying_outbox(outbox: BackendOutbox) -> BackendOutbox:
    """Return the outbox that relays this outbox's table: the outbox of the first backend in `TASKS` that uses the
    table."""
    for alias in task_backends:
        found = getattr(task_backends[alias], "outbox", None)
        if isinstance(found, BackendOutbox) and found.is_used and found.using == outbox.using:
            return found
    return outbox
