"""Names of other job queues, and the corresponding names here. The module is imported only for error texts."""

from collections.abc import Collection, Mapping
from typing import Final

# For each option of another queue, our options that correspond to it. The error suggests the first one that the call
# accepts.
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "max_retries": ("max_retry", "attempts"),
    "retries": ("max_retry", "attempts"),
    "retry_limit": ("max_retry",),
    "max_attempts": ("max_retry", "attempts"),
    "max_tries": ("max_retry", "attempts"),
    "attempts": ("max_retry",),
    "backoff": ("retry",),
    "retry_backoff": ("retry",),
    "retry_backoff_max": ("retry",),
    "retry_jitter": ("retry",),
    "retry_delay": ("retry", "wait"),
    "default_retry_delay": ("retry", "wait"),
    "retry_policy": ("retry",),
    "min_backoff": ("retry",),
    "max_backoff": ("retry",),
    "autoretry_for": ("retry_on",),
    "retry_when": ("retry_on",),
    "dont_autoretry_for": ("discard_on",),
    "throws": ("discard_on",),
    "countdown": ("delay", "run_after", "wait"),
    "defer_by": ("delay", "run_after"),
    "run_in": ("delay", "run_after"),
    "schedule_in": ("delay", "run_after"),
    "delay": ("run_after", "wait"),
    "delay_s": ("delay", "run_after"),
    "eta": ("run_at", "run_after"),
    "at": ("run_at", "run_after"),
    "defer_until": ("run_at", "run_after"),
    "not_before": ("run_at", "run_after"),
    "run_after": ("delay",),
    "run_at": ("run_after",),
    "schedule_at": ("run_at", "run_after"),
    "scheduled_at": ("run_at", "run_after"),
    "start_after": ("run_at", "run_after"),
    "wait_until": ("run_at", "run_after"),
    "schedule": ("run_at", "run_after"),
    "time_limit": ("timeout",),
    "soft_time_limit": ("timeout",),
    "hard_time_limit": ("timeout",),
    "job_timeout": ("timeout",),
    "timeout": ("timeout_s",),
    "timeout_s": ("timeout",),
    "expiration": ("expires",),
    "expires_in": ("expires",),
    "max_age": ("expires",),
    "ttl": ("expires",),
    "task_id": ("id",),
    "job_id": ("id",),
    "jid": ("id",),
    "message_id": ("id",),
    "idempotency_key": ("key",),
    "dedupe_key": ("unique",),
    "lock": ("unique",),
    "singleton_key": ("unique",),
    "unique_for": ("unique",),
    "unique_key": ("unique",),
    "throttle": ("debounce",),
    "depends_on": ("after",),
    "dependencies": ("after",),
    "link": ("after",),
    "priority_level": ("priority",),
    "at_front": ("priority",),
    "ignore_result": ("keep_result",),
    "result_ttl": ("keep_result",),
    "store_result": ("keep_result",),
    "store_results": ("keep_result",),
    "labels": ("tags", "requires"),
    "meta": ("headers",),
    "metadata": ("headers",),
    "webhook": ("notify_url",),
    "callback_url": ("notify_url",),
    "queue": ("queue_name", "requires"),
    "queue_name": ("requires",),
    "routing_key": ("requires",),
    "concurrency": ("max_jobs",),
    "max_workers": ("max_jobs",),
    "prefetch": ("max_jobs",),
    "broker": ("master", "url"),
    "broker_url": ("master", "url"),
    "redis": ("master", "url"),
    "redis_url": ("master", "url"),
    "address": ("master", "url"),
    "url": ("master",),
    "master": ("url",),
    "master_url": ("master", "url"),
    "host": ("master", "url"),
    "api_key": ("token",),
    "timezone": ("tz",),
    "crontab": ("expression",),
    "seconds": ("minutes",),
    "days": ("hours",),
}
# Our options whose value differs in meaning from that of another queue's option, and the difference.
_DIFFERENCES: Final[Mapping[tuple[str, str], str]] = {
    ("max_attempts", "max_retry"): "it does not count the first attempt",
    ("max_tries", "max_retry"): "it does not count the first attempt",
    ("attempts", "max_retry"): "it does not count the first attempt",
    ("max_retries", "attempts"): "it counts the first attempt, too",
    ("retries", "attempts"): "it counts the first attempt, too",
    ("at_front", "priority"): "the lowest number runs first",
    ("ignore_result", "keep_result"): "it says the opposite",
    ("queue", "requires"): "jobs have names in place of queues, and labels choose workers",
    ("queue_name", "requires"): "jobs have names in place of queues, and labels choose workers",
    ("routing_key", "requires"): "jobs have names in place of queues, and labels choose workers",
    **{
        (name, "retry"): "a map of base_s, factor, max_s and jitter"
        for name, meant in OPTIONS.items()
        if meant[0] == "retry"
    },
}
# Options of other queues that are not set for a job here, and what to do instead.
_ELSEWHERE: Final[Mapping[str, str]] = {
    "rate_limit": "limit it by a constraint of the master",
    "max_concurrency": "limit it by a constraint of the master",
    "queues": "a worker runs the jobs of all names that it has a handler for",
    "serializer": "arguments are MessagePack",
    "acks_late": "a job whose worker was lost runs again as long as it has retries",
    "bind": "annotate a parameter with Context",
    "cron": "declare it with tasks.cron",
    "repeat": "declare it with tasks.every or tasks.cron",
    "on_success": "use notify_url, after, or a Batch",
    "on_failure": "use notify_url, after, or a Batch",
    "link_error": "use After(…, when='finished'), or on_failure of a Batch",
}

# Methods of other queues and the corresponding methods here: of a task, of a handle and of a pusher.
TASK_METHODS: Final[Mapping[str, str]] = {
    "delay": "enqueue",
    "adelay": "aenqueue",
    "apply": "the task itself, which calls the function",
    "apply_async": "using(…).enqueue",
    "defer": "enqueue",
    "enqueue_many": "many",
    "kiq": "aenqueue",
    "kicker": "using",
    "with_options": "using",
    "set": "using",
    "configure": "using",
    "push": "enqueue",
    "submit": "enqueue",
    "schedule": "using(delay=…).enqueue",
    "enqueue_in": "using(delay=…).enqueue",
    "enqueue_at": "using(run_at=…).enqueue",
    "perform_async": "enqueue",
    "perform_in": "using(delay=…).enqueue",
    "perform_at": "using(run_at=…).enqueue",
    "send": "enqueue",
    "send_with_options": "using(…).enqueue",
    "message": "to_job",
    "s": "to_job",
    "si": "to_job",
    "map": "many",
    "starmap": "many",
    "call_local": "the task itself, which calls the function",
    "fn": "function",
    "run": "the task itself, which calls the function",
}
HANDLE_METHODS: Final[Mapping[str, str]] = {
    "result": "get",
    "return_value": "get",
    "wait": "get",
    "wait_result": "aget",
    "join": "get",
    "state": "status",
    "ready": "refresh().status",
    "successful": "refresh().status",
    "failed": "refresh().status",
    "is_finished": "refresh().status",
    "is_failed": "refresh().status",
    "is_ready": "refresh().status",
    "get_status": "refresh().status",
    "info": "job",
    "job_id": "id",
    "task_id": "id",
    "revoke": "cancel",
    "abort": "cancel",
    "delete": "cancel",
    "task_name": "name",
}
PUSHER_METHODS: Final[Mapping[str, str]] = {
    "push": "enqueue",
    "put": "enqueue",
    "add": "enqueue",
    "send": "enqueue",
    "send_task": "enqueue",
    "submit": "enqueue",
    "publish": "enqueue",
    "schedule": "enqueue(…, delay=…)",
    "enqueue_in": "enqueue(…, delay=…)",
    "enqueue_at": "enqueue(…, run_at=…)",
    "enqueue_call": "enqueue",
    "push_bulk": "enqueue_many",
    "push_many": "enqueue_many",
    "add_bulk": "enqueue_many",
    "insert": "enqueue",
    "insert_many": "enqueue_many",
    "get": "result",
    "get_result": "result",
    "wait": "result(…, wait=…)",
    "fetch_job": "status",
    "get_job": "status",
    "job": "status",
    "revoke": "cancel",
    "delete": "cancel",
    "abort": "cancel",
}


def unknown_options(names: Collection[str], known: Collection[str], of: str) -> TypeError:
    """Return the error for options that do not exist. It suggests the options that the caller may mean.

    * `names`: the options.
    * `known`: the existing options.
    * `of`: the function or class, for the text.
    """
    return TypeError(f"not an option of {of}: {', '.join(_told(name, known) for name in sorted(names))}")


def _told(name: str, known: Collection[str]) -> str:
    import difflib

    # Some libraries begin the names of their own options with an underscore.
    asked = name.strip("_").lower()
    candidates = (asked, *OPTIONS.get(asked, ()))
    meant = next((one for one in candidates if one in known), "")
    if not meant and asked in _ELSEWHERE:
        return f"{name} ({_ELSEWHERE[asked]})"
    if not meant and (of_jobs := _option_of_jobs(candidates)):
        return f"{name} (an option of jobs: give {of_jobs} where they are enqueued)"
    meant = meant or next(iter(difflib.get_close_matches(asked, known, 1)), "")
    difference = _DIFFERENCES.get((asked, meant), "")
    if not meant:
        return name
    return (
        f"{name} (did you mean {meant}?{f' {difference[0].upper()}{difference[1:]}.' if difference else ''})"
    )


def option_of_jobs(name: str) -> str:
    """Return the job option to which `name`, a name here or in another queue, corresponds; empty if there is none."""
    # Some libraries begin the names of their own options with an underscore.
    asked = name.strip("_").lower()
    return _option_of_jobs((asked, *OPTIONS.get(asked, ())))


def _option_of_jobs(candidates: Collection[str]) -> str:
    from worker_sdk.option_types import KINDS

    return next((one for one in candidates if one in KINDS or one == "after"), "")


def missing_attribute(of: str, name: str, others: Mapping[str, str]) -> AttributeError:
    """Return the error for a missing attribute. It suggests the attribute that the caller may mean.

    * `of`: the object, for the text.
    * `name`: the attribute.
    * `others`: by name in another queue, the name here.
    """
    if (meant := others.get(name)) is None:
        return AttributeError(f"{of} has no attribute {name!r}")
    return AttributeError(f"{of} has no {name}: did you mean {meant}?")
