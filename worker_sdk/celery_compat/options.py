"""The options of Celery's tasks and calls, and the options of jobs that replace them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from worker_sdk.celery_compat.guide import check_options

# Options of a task that are ignored, because jobs always behave this way.
AS_EVER: Final = frozenset(
    {
        "acks_late", "acks_on_failure_or_timeout", "reject_on_worker_lost", "track_started", "send_events",
        "store_errors_even_if_ignored", "store_eager_result", "trail", "typing", "shared", "lazy",
    }
)  # fmt: skip
DECLARED: Final = frozenset(
    {
        "name", "bind", "max_retries", "default_retry_delay", "autoretry_for", "dont_autoretry_for", "retry_backoff",
        "retry_backoff_max", "retry_jitter", "retry_kwargs", "time_limit", "soft_time_limit", "ignore_result",
        "expires", "priority", "throws", "queue", "isolated",
    }
)  # fmt: skip
_APPLY: Final = frozenset(
    {
        "countdown", "eta", "expires", "priority", "task_id", "headers", "time_limit", "soft_time_limit",
        "ignore_result", "queue",
    }
)  # fmt: skip
# Options that are ignored, because they concern Celery's connection to its broker, and its messages.
OF_BROKERS: Final = frozenset(
    {
        "retry", "retry_policy", "connection", "producer", "publisher", "serializer", "compression", "routing_key",
        "exchange", "router", "shadow", "add_to_parent", "reply_to", "delivery_mode", "mandatory", "immediate",
        "root_id", "parent_id", "correlation_id", "argsrepr", "kwargsrepr",
    }
)  # fmt: skip
INSTEAD_OF_OPTION: Final = {
    "base": "use a parameter with Depends, or middleware",
    "rate_limit": "use a constraint, which limits all workers together",
    "after_return": "use the signal task_postrun",
    "on_failure": "use the signal task_failure",
    "on_success": "use the signal task_success",
    "on_retry": "use the signal task_retry",
    "link": "use chain",
    "link_error": "give a job After(jobs, when='finished')",
    "chain": "use chain",
    "chord": "use chord",
    "group_id": "use group",
    "pydantic": "annotate the parameters: they are checked",
}


def job_fields(options: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
    """Convert options of `apply_async` to options of a job. Raise TypeError for unknown options."""
    check_options(options, _APPLY | OF_BROKERS, "an option of apply_async", INSTEAD_OF_OPTION)
    options = {**defaults, **options}
    given: dict[str, Any] = {}
    if (countdown := options.get("countdown")) is not None:
        given["delay"] = countdown
    if (eta := options.get("eta")) is not None:
        given["run_at"] = aware(eta)
    if (expires := options.get("expires")) is not None:
        if isinstance(expires, datetime):
            given.update(expires_at=aware(expires), expires=None)
        else:
            given["expires"] = expires
    if (priority := wire_priority(options.get("priority"))) is not None:
        given["priority"] = priority
    if (limit := options.get("time_limit")) is not None:
        given["timeout"] = limit
    if options.get("ignore_result") is not None:
        given["keep_result"] = not options["ignore_result"]
    if (tags := queue_tags(options.get("queue"))) is not None:
        given["tags"] = tags
    for name, theirs in (("id", "task_id"), ("headers", "headers")):
        if options.get(theirs) is not None:
            given[name] = options[theirs]
    return given


def wire_priority(given: int | None) -> int | None:
    # RabbitMQ runs jobs with the highest number first. A master runs jobs with the lowest number first.
    return None if given is None else -given


def queue_tags(queue: Any) -> Sequence[str] | None:
    # A queue may be given as an object of kombu, which has a name, or as a text.
    return None if queue is None else [f"queue:{getattr(queue, 'name', queue)}"]


def aware(instant: datetime) -> datetime:
    # Celery takes a time without a zone as UTC.
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant
