"""Make the jobs that pushers send: options, IDs, and the wire form."""

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, Unpack

from worker_sdk import forked, tracing
from worker_sdk.job import Job
from worker_sdk.option_types import PLAIN, check_option
from worker_sdk.pusher.after import After, JobRef, after_on_the_wire
from worker_sdk.pusher.batch_paths import BatchLike
from worker_sdk.pusher.ids import new_job_id, next_id
from worker_sdk.pusher.unique import Debounce, Unique
from worker_sdk.wire import iso

JobMap = dict[str, Any]
JobLike = Mapping[str, Any] | tuple[str, Any]

# Positions of the jobs in a call that have a key of any kind. For these jobs, the master may answer with the ID of
# another job.
NONE_KEYED: Final[frozenset[int]] = frozenset()
ALONE_KEYED: Final = frozenset({0})


class JobOptions(TypedDict, total=False):
    """Options of a job, in addition to its name and argument. The master's defaults apply to options that are omitted
    or None.

    * `priority`: the lowest number runs first. Default 0.
    * `max_retry`: maximum number of retries after failed attempts. Default 5.
    * `keep_result`: keep the result, so that it can be fetched. Default: drop the result.
    * `timeout`: maximum time of an attempt, up to 7 days. Default 30 s.
    * `delay`: time to wait before the first attempt. Cannot be combined with `run_at`.
    * `run_at`: earliest time of the first attempt, with a time zone.
    * `expires`: time after the enqueue, by the clock of the master. A job that still waits then, even for a retry, is
      skipped.
    * `expires_at`: a time, with a time zone, instead of `expires`.
    * `id`: a UUID that you choose. Enqueueing the same job again under this ID does not create a second job while the
      first is kept.
    * `key`: an idempotency key of your own, up to 200 bytes, such as `feed:42:7`. Enqueueing the same job again with
      this key creates no second job, and returns the ID of the first, even when the first is gone. A job with the same
      name and key, but another argument or option, is refused.
    * `key_ttl`: time for which the key works, from its first use, up to 30 days. Default 24 h.
    * `tags`: up to 16 words that help people to find the job.
    * `headers`: up to 32 texts that reach the handler as `ctx.headers`.
    * `retry`: the backoff between attempts, a map of `base_s`, `factor`, `max_s` and `jitter`.
    * `rerun_lost`: run the job again if its worker is lost, even if `max_retry` is 0. Default: with `max_retry` 0, a
      job whose worker is lost fails.
    * `unique`: a `Unique`. One job at a time holds its key.
    * `debounce`: a `Debounce`. The job waits until no further jobs with its key are enqueued. Cannot be combined with
      `unique`, `delay` or `run_at`.
    * `batch`: the `Batch` of which the job is a member, or its ID.
    * `notify_url`: the URL of a webhook to call when the job is over.
    * `notify`: a webhook with more options: a map of `url`, `on` (the final states that trigger it) and `with_result`,
      which needs `keep_result`.
    * `after`: the job, or the list of jobs, that must succeed before this job runs. Give IDs, handles, or jobs of the
      same call. With `After(jobs, when="finished")`, the job runs even if these jobs failed.
    * `requires`: labels, as a map. Only a worker with all these labels gets the job.
    """

    priority: int | None
    max_retry: int | None
    keep_result: bool | None
    timeout: float | timedelta | None
    delay: float | timedelta | None
    run_at: datetime | str | None
    expires: float | timedelta | None
    expires_at: datetime | str | None
    id: str | None
    key: str | None
    key_ttl: float | timedelta | None
    tags: Sequence[str] | None
    headers: Mapping[str, str] | None
    retry: Mapping[str, Any] | None
    rerun_lost: bool | None
    unique: Unique | Mapping[str, Any] | None
    debounce: Debounce | Mapping[str, Any] | None
    batch: BatchLike | str | None
    notify_url: str | None
    notify: Mapping[str, Any] | None
    after: After | JobRef | Sequence[JobRef] | None
    requires: Mapping[str, str] | None


# The name of `expires` in the wire form. `make_job` accepts this name as well, because callers may pass a job that
# `make_job` returned.
EXPIRES_S: Final = "expires_s"
_OPTIONS: Final = frozenset(JobOptions.__annotations__) | {EXPIRES_S}
# The options of jobs that the master stores and enqueues later: jobs of definitions, and callbacks of batches.
STORED_OPTIONS: Final = (
    "priority", "max_retry", "timeout", "retry", "tags", "keep_result", "rerun_lost", "headers", "requires",
    "expires", EXPIRES_S,
)  # fmt: skip


def make_job(name: str, argument: Any = None, **options: Unpack[JobOptions]) -> JobMap:
    """Return a job with an ID, in the form that `enqueue_many` accepts.

    * `name`, `argument`: as for `Pusher.enqueue`.
    * `options`: see `JobOptions`.

    Raise TypeError for an unknown option, and ValueError for a time without a time zone.

    For example:

        job = make_job("thumbnail.make", {"photo_id": 42}, delay=60)
        pusher.enqueue_job(job)
    """
    if os.getpid() != forked.known_pid:
        forked.check()
    return _assembled(name, argument, **options)


def _assembled(name: str, argument: Any = None, **options: Unpack[JobOptions]) -> JobMap:
    job: JobMap = {"name": name, "argument": argument}
    if options:
        job.update(wire_options(options))
        if "id" in job:
            return job
    job["id"] = next_id()
    if tracing.is_on:
        _note_trace(job)
    return job


def made_job(given: JobLike) -> JobMap:
    """Return a job as `make_job` does. A job that is ready to be sent stays unchanged."""
    forked.check()
    return one_of_many(given)


def one_of_many(given: JobLike) -> JobMap:
    """Do what `made_job` does, for callers that have called `forked.check` once for all of their jobs."""
    # Check for a plain map first, which is the most common form.
    if type(given) is dict:
        return _assembled(**given)
    if isinstance(given, tuple):
        return _assembled(*given)
    return given if isinstance(given, Job) and "id" in given else _assembled(**given)


def wire_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in wire form, and omit options with the value None. Raise the errors of `make_job`."""
    if unknown := options.keys() - _OPTIONS:
        raise unknown_options(unknown)
    if (after := options.get("after")) is not None:
        options = {**options, "after": after_on_the_wire(after)}
    if "expires" in options:
        options = dict(options)
        if (expires := options.pop("expires")) is not None:
            if options.get("expires_at") is not None:
                raise TypeError("give expires or expires_at, not both")
            check_option("expires", expires)
            options[EXPIRES_S] = expires
    return {
        option: value if type(value) in PLAIN.get(option, ()) else _wire_value(option, value)
        for option, value in options.items()
        if value is not None
    }


def unknown_options(
    names: Collection[str], known: Collection[str] = JobOptions.__annotations__.keys(), of: str = "a job"
) -> TypeError:
    """Return the error for options that do not exist. It suggests the options that the caller may mean.

    * `names`: the options.
    * `known`: the existing options.
    * `of`: the object with these options, for the text.
    """
    from worker_sdk import other_queues

    return other_queues.unknown_options(names, known, of)


def give_id(job: JobMap) -> None:
    """Give an ID and the current trace to a job that has no ID."""
    job["id"] = new_job_id()
    if tracing.is_on:
        _note_trace(job)


def _note_trace(job: JobMap) -> None:
    # Add no trace to a job if the caller chose its ID or key. If the caller pushed the job again in another trace, the
    # master would find a different job under the same ID or key, and refuse the push.
    if "key" not in job:
        tracing.note_creation(job)


# If a job has one of these options, a master may answer with the ID of another job.
MAYBE_ANOTHER: Final = frozenset({"key", "unique", "debounce"})


# The types of option values that need no copy.
PLAIN_OPTIONS: Final = frozenset({str, int, float, bool})


def _wire_value(option: str, value: Any) -> Any:
    check_option(option, value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{option} needs a time zone: give datetime.now(UTC), not datetime.now()")
        return iso(value)
    if (to_wire := getattr(value, "to_wire", None)) is not None:
        return to_wire()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
