"""The webhook of a job's end: its body, the job that delivers it, and its signature."""

import base64
import contextlib
import datetime as dt
import hmac
import json
import math
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgpack

from jqmaster.domain.ids import is_id
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import OUTCOMES, STATES, Job, JobSpec, JobState, Notify
from jqmaster.domain.notices.delivery import WEBHOOK_NAME, reserved_job, stable_id

MAX_URL_CHARS: Final = 2048
# Maximum size of a result in the body. A larger result is left out, and so is a result that cannot be read. Receivers
# may fetch it.
MAX_RESULT_BYTES: Final = 64 * 1024

_URL_CHARACTERS: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
_UNREADABLE: Final = (ValueError, OverflowError, RecursionError, msgpack.UnpackException)
_STATES_BY_CODE: Final = {STATES[state].code: state for state in OUTCOMES}


class JobEnd(NamedTuple):
    """The end of a job. A job that somebody retries has several ends."""

    job_id: str
    state: JobState
    finished_at_ms: int


def url_fault(url: str) -> str | None:
    """Return the fault in the form of a webhook's URL, or None if it is valid. Its address is checked at each call."""
    if len(url) > MAX_URL_CHARS:
        return f"must have at most {MAX_URL_CHARS} characters"
    if not _URL_CHARACTERS.fullmatch(url):
        return "may contain only printable ASCII characters, but no blank and no backslash; percent-encode all others"
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "cannot be parsed as a URL"
    if parts.scheme not in ("http", "https") or not has_host:
        return "must begin with http:// or https:// and name a host"
    if "@" in parts.netloc or "#" in url:
        return "must have no user and no fragment"
    return None


def origin_of(url: str) -> str:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def path_of(url: str) -> str:
    """Return the path of a URL, with its query."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def shown_url(url: str) -> str:
    """Return a URL without its query, which may hold a credential."""
    base, mark, _ = url.partition("?")
    return f"{base}?…" if mark else base


def delivery_id(job_id: str, finished_at_ms: int) -> str:
    """Return the ID of the job that reports this end. The same end always gives the same ID, so that only one job
    reports it."""
    return stable_id(finished_at_ms, "webhook", job_id, str(finished_at_ms))


def delivery_ids(job: Job, ended_at_ms: Iterable[int]) -> list[str]:
    """Return the IDs of the deliveries that the ends of a job may have, the newest first. `ended_at_ms`: the ends of
    its attempts."""
    ends = {at_ms for at_ms in (job.finished_at_ms, *ended_at_ms) if at_ms > 0}
    return [delivery_id(job.id, at_ms) for at_ms in sorted(ends, reverse=True)]


def body_of(job: Job, end: JobEnd, result: bytes | None) -> bytes:
    """Return the body of a webhook as JSON. `result`: the kept Result, encoded, if it is to be included."""
    data: dict[str, Any] = {
        "job_id": job.id,
        "name": job.name,
        "state": str(end.state),
        "finished_at": iso_ms(end.finished_at_ms),
    }
    # Include the job only if this is its last end. Otherwise the job may already run again.
    if job.finished_at_ms == end.finished_at_ms:
        data |= {
            "cause": job.cause.name.lower() if job.cause else None,
            "attempt": job.attempt,
            "created_at": iso_ms(job.created_at_ms),
            "tags": list(job.tags),
        }
    if result is not None:
        if len(result) <= MAX_RESULT_BYTES:
            # Leave out a result that cannot be read, so that the receiver is still told about the end.
            with contextlib.suppress(*_UNREADABLE):
                shown = _plain(msgpack.unpackb(result, timestamp=3, strict_map_key=False))
                return _message(end, data | {"result": shown})
        data["result_omitted"] = True
    return _message(end, data)


def _message(end: JobEnd, data: dict[str, Any]) -> bytes:
    message = {"type": f"job.{end.state}", "timestamp": iso_ms(end.finished_at_ms), "data": data}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def delivery_job(job: Job, end: JobEnd, notify: Notify, body: bytes) -> JobSpec:
    """Return the job that delivers a webhook."""
    argument = {"url": notify.url, "job_id": job.id, "body": body.decode()}
    own_id = delivery_id(end.job_id, end.finished_at_ms)
    return reserved_job(WEBHOOK_NAME, own_id, argument, end.finished_at_ms, f"job:{job.id}")


def read_end(subject: str) -> JobEnd | None:
    """Return the end of a job from the text that a script wrote. None: the text has another form."""
    job_id, _, rest = subject.partition(":")
    code, _, at_ms = rest.partition(":")
    if not (is_id(job_id) and code.isdigit() and at_ms.isdigit()):
        return None
    state = _STATES_BY_CODE.get(int(code))
    return JobEnd(job_id, state, int(at_ms)) if state else None


def signature(keys: Iterable[bytes], message_id: str, timestamp_s: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: one signature for each key, so that receivers with the old or
    the new key accept it."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    digests = (hmac.digest(key, signed, sha256) for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold, with binary as `{"$bin": base64}`."""
    match value:
        case dict():
            return {
                key if isinstance(key, str) else str(_plain(key)): _plain(member)
                for key, member in value.items()
            }
        # Test ExtType before tuples, because an ExtType is a tuple.
        case msgpack.ExtType():
            return {"$ext": [value.code, base64.b64encode(value.data).decode()]}
        case list() | tuple():
            return [_plain(member) for member in value]
        case bytes():
            return {"$bin": base64.b64encode(value).decode()}
        case dt.datetime():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return None
        case str():
            return value.encode(errors="replace").decode()
        case None | bool() | int() | float():
            return value
    return str(value)
