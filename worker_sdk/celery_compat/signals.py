"""The signals of `celery.signals` that tasks send when they run and when they are enqueued."""

from collections.abc import Callable
from typing import Any, Final, NoReturn

from worker_sdk.celery_compat.guide import missing

_STARTS: Final = "use on_start of a Middleware"
_ENDS: Final = "use on_stop of a Middleware"
_LOGS: Final = "set up logging where the module of the worker is imported"
_MISSING: Final = {
    "worker_init": _STARTS,
    "worker_ready": _STARTS,
    "worker_process_init": _STARTS,
    "celeryd_init": _STARTS,
    "celeryd_after_setup": _STARTS,
    "worker_shutting_down": _ENDS,
    "worker_shutdown": _ENDS,
    "worker_process_shutdown": _ENDS,
    "setup_logging": _LOGS,
    "after_setup_logger": _LOGS,
    "after_setup_task_logger": _LOGS,
    "beat_init": "the master starts definitions",
    "beat_embedded_init": "the master starts definitions",
    "task_received": "use task_prerun",
    "task_revoked": "use a notification of the master",
    "task_rejected": "use task_failure",
    "task_unknown": "such a job waits for a worker that knows its name",
    "task_internal_error": "use task_failure",
    "heartbeat_sent": "workers are on the page Workers of the master",
    "eventlet_pool_started": "write async def",
    "import_modules": "use autodiscover_tasks",
    "user_preload_options": "use options of jqmaster worker",
}


class CelerySignal:
    """One signal: functions that are called at an event. Their exceptions reach the code that sends the signal."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._receivers: list[tuple[Callable[..., Any], Any]] = []

    def __repr__(self) -> str:
        return f"<signal {self.name}>"

    def connect(self, *args: Any, sender: Any = None, **options: Any) -> Any:
        """Connect a function. Use it as a decorator, with or without options.

        * `args`: the function, if there are no options.
        * `sender`: a task, or its name, to call the function for this task only. Default: for all tasks.
        * `options`: `weak` and `dispatch_uid` change nothing: a function stays connected.
        """

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            if all(known is not function for known, _ in self._receivers):
                self._receivers.append((function, sender))
            return function

        return add(args[0]) if args and callable(args[0]) else add

    def disconnect(self, receiver: Callable[..., Any] | None = None, **options: Any) -> bool:
        """Disconnect a function. Return whether it was connected.

        * `receiver`: the function.
        * `options`: change nothing.
        """
        kept = [one for one in self._receivers if one[0] is not receiver]
        was_connected = len(kept) < len(self._receivers)
        self._receivers = kept
        return was_connected

    def send(self, sender: Any = None, **fields: Any) -> list[tuple[Callable[..., Any], Any]]:
        """Call the functions, and return each with its return value.

        * `sender`: the task, or its name.
        * `fields`: the keyword arguments of the functions.
        """
        if not self._receivers:
            return []
        name = getattr(sender, "name", sender)
        return [
            (function, function(signal=self, sender=sender, **fields))
            for function, only in self._receivers
            if only is None or only is sender or getattr(only, "name", only) == name
        ]


before_task_publish: Final = CelerySignal("before_task_publish")
after_task_publish: Final = CelerySignal("after_task_publish")
task_prerun: Final = CelerySignal("task_prerun")
task_postrun: Final = CelerySignal("task_postrun")
task_success: Final = CelerySignal("task_success")
task_failure: Final = CelerySignal("task_failure")
task_retry: Final = CelerySignal("task_retry")


def __getattr__(name: str) -> NoReturn:
    missing(__name__, name, _MISSING)
