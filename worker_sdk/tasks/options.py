"""The options of a task's jobs, for type checkers and the reference. No program imports this module when it runs."""

from datetime import timedelta

from worker_sdk.pusher.jobs import JobOptions


class TaskOptions(JobOptions, total=False):
    """Options of `Task.using`: those of `JobOptions`, and these.

    * `expires`: time from the enqueue, instead of `expires_at`. A job that still waits after it is skipped.
    """

    expires: float | timedelta | None
