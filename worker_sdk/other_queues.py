"""Names of other job queues, and the corresponding names here. The module is imported only for error texts."""

from collections.abc import Collection, Mapping
from typing import Final

from worker_sdk.transport.option_names import OPTIONS, difference_of

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
    return f"{name} (did you mean {meant}?{difference_of(asked, meant)})" if meant else name


def option_of_jobs(name: str) -> str:
    """Return the job option that `name` means here or in another queue library. Return an empty text if it means none
    of them."""
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
    * `others`: maps a name in another job queue to the name here.
    """
    if (meant := others.get(name)) is None:
        return AttributeError(f"{of} has no attribute {name!r}")
    return AttributeError(f"{of} has no {name}: did you mean {meant}?")
