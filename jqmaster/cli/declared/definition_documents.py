"""Convert definitions between the forms of files, requests and the API's views."""

from collections.abc import Mapping
from typing import Any

# The fields of a request for a definition and for its job.
FIELDS = (
    "enabled", "reason", "description", "kind", "overlap", "schedule", "time_zone", "starts_at", "ends_at", "jitter_s",
    "skip_late_after_s", "catch_up", "max_catch_up", "days", "event_type", "matcher", "argument", "debounce", "collect",
)  # fmt: skip
# Fields of a job in an answer that describe its argument. Requests do not have them.
OF_ARGUMENT = frozenset({"argument_bytes", "argument_hidden", "argument_redacted"})


# Fields that masters of an older release refuse. A request contains them only if they have a value.
_NEW_FIELDS = frozenset({"days", "expires_s"})


def is_written(field: str, document: Mapping[str, Any]) -> bool:
    """Return whether a request should have this field of a definition or of its job."""
    return field not in _NEW_FIELDS or document.get(field) is not None


def job_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job of the request that would create the definition with this job in its view."""
    return {
        field: value for field, value in job.items() if field not in OF_ARGUMENT and is_written(field, job)
    }


def document_of(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request that would create the definition that a view shows."""
    return {field: view[field] for field in FIELDS if is_written(field, view)} | {"job": job_of(view["job"])}
