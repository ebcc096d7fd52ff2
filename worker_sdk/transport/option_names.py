"""Names of options in other job queues, and the corresponding options here. The module is imported only for error
texts."""

from collections.abc import Collection, Mapping
from typing import Final

from worker_sdk.transport.suggestions import closest

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
_NO_QUEUES: Final = (
    "there are no queues: any worker with a handler for the name of the job may run it. Labels in requires, such as "
    '{"gpu": "1"}, leave only the workers that have them'
)
# Pairs of another queue's option and our option whose values differ in meaning, each with the difference.
DIFFERENCES: Final[Mapping[tuple[str, str], str]] = {
    ("max_attempts", "max_retry"): "it does not count the first attempt",
    ("max_tries", "max_retry"): "it does not count the first attempt",
    ("attempts", "max_retry"): "it does not count the first attempt",
    ("max_retries", "attempts"): "it counts the first attempt, too",
    ("retries", "attempts"): "it counts the first attempt, too",
    ("at_front", "priority"): "the lowest number runs first",
    ("ignore_result", "keep_result"): "it says the opposite",
    ("queue", "requires"): _NO_QUEUES,
    ("queue_name", "requires"): _NO_QUEUES,
    ("routing_key", "requires"): _NO_QUEUES,
    **{
        (name, "retry"): "a map of base_s, factor, max_s and jitter"
        for name, meant in OPTIONS.items()
        if meant[0] == "retry"
    },
}


def meant_option(name: str, known: Collection[str]) -> str:
    """Return the known option that `name` stands for, or an empty text. `name` is an option of another queue, or a
    misspelt option."""
    asked = _plain(name)
    meant = next((one for one in OPTIONS.get(asked, ()) if one in known), "")
    return meant or closest(asked, known) or ""


def difference_of(name: str, meant: str) -> str:
    """Return a sentence, with a space before it, that says how our option differs from another queue's option. Return
    an empty text if the options do not differ."""
    text = DIFFERENCES.get((_plain(name), meant), "")
    return f" {text[0].upper()}{text[1:]}." if text else ""


def _plain(name: str) -> str:
    # Some libraries begin the names of their own options with an underscore.
    return name.strip("_-").lower().replace("-", "_")
