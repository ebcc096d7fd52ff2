"""The options of a task's jobs, for type checkers and the reference. No program imports this module when it runs."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from worker_sdk.pusher.jobs import JobOptions
from worker_sdk.pusher.unique import Debounce, Unique


class TaskOptions(JobOptions, total=False):
    """Options of `Task.using`: those of `JobOptions`, and

    * `namespace`: the namespace that the jobs go to, at the same master. Default: the namespace of the tasks, of the
      running job or of the process. The handles read from the same namespace. The option applies to `enqueue`,
      `aenqueue`, `many` and `amany`, also in an outbox. It does not apply to flows and batches, because each of them
      belongs to one namespace.
    """

    namespace: str | None


class CommandOptions(TypedDict, total=False):
    """Options of `Tasks.command` for its jobs.

    * `timeout`, `max_retry`, `retry`, `priority`, `keep_result`, `tags`, `rerun_lost`, `requires`, `unique`,
      `debounce`, `expires`: see `JobOptions`.
    * `confirm_start`: as for `Worker.handler`.
    """

    timeout: float | timedelta | None
    max_retry: int | None
    retry: Mapping[str, Any] | None
    priority: int | None
    keep_result: bool | None
    tags: Sequence[str] | None
    expires: float | timedelta | None
    rerun_lost: bool | None
    requires: Mapping[str, str] | None
    unique: Unique | None
    debounce: Debounce | None
    confirm_start: bool
