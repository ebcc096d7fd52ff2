"""Run a project of Celery tasks after changing only its imports.

`from worker_sdk.celery_compat import shared_task` takes the place of `from celery import shared_task`. The modules
`schedules`, `signals`, `exceptions`, `result`, `states`, `canvas` and `utils.log` of this package replace Celery's. A
name that is missing here raises an error at the import. An option that is missing here raises an error where the task
is declared. The error says what to use instead. docs/coming_from_celery.md has a table of all names.
"""

from typing import Final, NoReturn

from worker_sdk.celery_compat.application import Celery, shared_task
from worker_sdk.celery_compat.bound import BoundTask, Request
from worker_sdk.celery_compat.bound import BoundTask as Task
from worker_sdk.celery_compat.canvas import (
    Signature,
    chain,
    chord,
    group,
    maybe_signature,
    signature,
    subtask,
)
from worker_sdk.celery_compat.exceptions import (
    Ignore,
    MaxRetriesExceededError,
    Reject,
    SoftTimeLimitExceeded,
)
from worker_sdk.celery_compat.guide import missing
from worker_sdk.celery_compat.result import AsyncResult, EagerResult, GroupResult
from worker_sdk.celery_compat.task import CeleryTask

__all__ = [
    "AsyncResult",
    "BoundTask",
    "Celery",
    "CeleryTask",
    "EagerResult",
    "GroupResult",
    "Ignore",
    "MaxRetriesExceededError",
    "Reject",
    "Request",
    "Signature",
    "SoftTimeLimitExceeded",
    "Task",
    "chain",
    "chord",
    "group",
    "maybe_signature",
    "shared_task",
    "signature",
    "subtask",
]

# Names in Celery that this package does not have, each with what to use instead.
_MISSING: Final = {
    "chunks": "use group, or task.many",
    "xmap": "use group, or task.many",
    "xstarmap": "use group, or task.many",
    "current_app": "name the application",
    "current_task": "use bind=True",
    "app": "name the application",
    "bugreport": "use `jqmaster --version`",
    "uuid": "use worker_sdk.celery_compat.utils.uuid",
    "group_by": "use group",
    "bootsteps": "use on_start of a Middleware",
    "Worker": "run `jqmaster worker MODULE:app`",
    "beat": "run `jqmaster apply MODULE:app`, and the master starts the definitions",
    "platforms": "use the module os",
    "concurrency": "use max_jobs of the Worker",
    "loaders": "use imports or autodiscover_tasks",
    "backends": "results are kept by the master",
    "events": "use middleware, or the stream of the master",
    "contrib": "write the test with worker_sdk.testing",
}


def __getattr__(name: str) -> NoReturn:
    missing(__name__, name, _MISSING)
