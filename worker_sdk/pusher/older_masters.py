"""Pushes to masters of older releases, which refuse fields that they do not know."""

from datetime import UTC, datetime, timedelta
from typing import Any

from worker_sdk.masters.masters import MasterAnswer
from worker_sdk.pusher.jobs import EXPIRES_S
from worker_sdk.wire import decode, encode, iso


def for_older_master(body: bytes | None, answer: MasterAnswer) -> bytes | None:
    """If an older master refused the push because of `expires_s`, return a body that it accepts. This body has an
    instant by the clock of this machine instead of `expires_s`. Otherwise return None."""
    if body is None or answer.status != 422 or not _is_unknown_to(answer):
        return None
    fields: Any = decode(body)
    pushed: list[Any] = fields.get("jobs", [fields])
    has_changed = False
    for job in pushed:
        if isinstance(job, dict) and (expires_s := job.pop(EXPIRES_S, None)) is not None:
            job["expires_at"] = iso(datetime.now(UTC) + timedelta(seconds=expires_s))
            has_changed = True
    return encode(fields) if has_changed else None


def _is_unknown_to(answer: MasterAnswer) -> bool:
    errors = answer.body.get("errors")
    return any(
        list(error.get("loc") or [""])[-1] == EXPIRES_S and "unknown" in str(error.get("msg")).lower()
        for error in (errors if isinstance(errors, list) else [])
    )
