"""One delivery: the request for a job, and the report that its answer becomes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgpack

from jqmaster.domain.challenges.challenge import Callback, new_request_id
from jqmaster.domain.fireworq.answer import payload_of
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.outcome import NotReadyReport, Outcome
from jqmaster.domain.targets.answer import DEFAULT_WAIT_S, MAX_OWN_WAIT_S, DeliveryResult
from jqmaster.domain.targets.callback import TARGET_NONCE
from jqmaster.domain.targets.target import BodyForm, HttpTarget, address_of
from jqmaster.errors import JqmasterError, TooLargeError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.outbound.target_client import JobRequestToTarget, TargetAnswer
from jqmaster.store import codec
from jqmaster.store.jobs.claims import ClaimedJob

# The header fields of a job that continue its pusher's trace.
_TRACE: Final = ("traceparent", "tracestate")
_NIL: Final = b"\xc0"
# How long a job waits if its host already has as many requests as it may have.
HOST_BUSY_AFTER_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Conversions:
    """The conversions between JSON and MessagePack, as the API has them.

    * `to_json`: raises JqmasterError or ValueError.
    * `to_msgpack` and `checked`: raise JqmasterError. Every later reader can decode the values that they return.
    * `max_result_bytes`: the largest result of a job.
    """

    to_json: Callable[[bytes], bytes]
    to_msgpack: Callable[[bytes], bytes]
    checked: Callable[[bytes], bytes]
    max_result_bytes: LiveValue[int]


def request_of(
    target: HttpTarget,
    job: ClaimedJob,
    conversions: Conversions,
    *,
    now_ms: int,
    callback_base: str | None,
) -> JobRequestToTarget:
    """Return the request for a job. `callback_base`: the address of this service for outside systems. None: unknown.
    Raise AddressError if the job names no address that the target may call."""
    record = job.record
    needs_argument = target.url_from or target.body is BodyForm.FIREWORQ
    argument = msgpack.unpackb(record.argument, strict_map_key=False) if needs_argument else None
    url = address_of(target, record.name, job.job_id, argument)
    timeout_s = record.timeout_ms / 1000
    if target.timeout_s is not None:
        timeout_s = min(timeout_s, target.timeout_s)
    fields = {
        "JQ-Job-Id": job.job_id,
        "JQ-Job-Name": record.name,
        "JQ-Attempt": str(record.attempt),
        "JQ-Fence": str(job.fence),
        "JQ-Deadline": iso_ms(now_ms + round(timeout_s * 1000)),
        "Idempotency-Key": job.job_id,
    }
    for key in _TRACE:
        value = record.headers.get(key)
        if value is not None and value.isascii() and value.isprintable():
            fields[key] = value
    if callback_base is not None:
        request_id = new_request_id(job.job_id, job.token, TARGET_NONCE)
        fields["JQ-Callback-Url"] = f"{callback_base}/callbacks/{request_id.text}"
    body = b""
    if target.has_body and target.body is BodyForm.FIREWORQ:
        body = payload_of(argument)
    elif target.has_body:
        body = conversions.to_json(record.argument)
        if target.body is BodyForm.ENVELOPE:
            body = _enveloped(job, body)
    return JobRequestToTarget(url, job.job_id, body, fields, timeout_s)


def _enveloped(job: ClaimedJob, argument: bytes) -> bytes:
    # Insert IDs and names as they are: they contain no characters that JSON escapes.
    return b'{"id":"%b","name":"%b","attempt":%d,"created_at":"%b","argument":%b}' % (
        job.job_id.encode(),
        job.record.name.encode(),
        job.record.attempt,
        iso_ms(job.record.created_at_ms).encode(),
        argument,
    )


def outcome_of(target: HttpTarget, job: ClaimedJob, answer: TargetAnswer, now_ms: int) -> Outcome:
    """Return the report on an attempt. For DeliveryResult.AWAITING, the caller opens the challenge first."""
    end = answer.end
    if target.body is BodyForm.FIREWORQ and end.result is DeliveryResult.UNREACHABLE and end.wait_s is None:
        # For Fireworq, an unreachable host costs the job a retry. While the breaker of the host is open (`wait_s` is
        # set), jobs wait without losing a retry.
        end = replace(end, result=DeliveryResult.FAILED)
    if target.body is BodyForm.FIREWORQ:
        # The Fireworq gateway shows this message, so prefer the endpoint's own text.
        message = end.said or end.detail
    else:
        message = f"{end.detail}: {end.said}" if end.said else end.detail
    common: dict[str, Any] = {"message": message, "finished_at": iso_ms(now_ms)}
    match end.result:
        case DeliveryResult.SUCCEEDED:
            return Outcome(
                job.job_id, job.token, "success", result=end.value, finished_at=common["finished_at"]
            )
        case DeliveryResult.AWAITING:
            request = new_request_id(job.job_id, job.token, TARGET_NONCE)
            return Outcome(job.job_id, job.token, "challenged", request_id=request.text, **common)
        case DeliveryResult.NOT_READY | DeliveryResult.UNREACHABLE:
            wait_s = DEFAULT_WAIT_S if end.wait_s is None else end.wait_s
            # Keep a wait that the endpoint or the breaker asked for. Other waits double.
            longest_s = MAX_OWN_WAIT_S if end.wait_s is None else wait_s
            return Outcome(
                job.job_id,
                job.token,
                "deferred",
                retry_after_s=wait_s,
                not_ready=NotReadyReport(longest_s, target.not_ready_for_s),
                code=end.code,
                **common,
            )
    return Outcome(
        job.job_id,
        job.token,
        "failure",
        reason="timeout" if answer.timed_out else "other",
        should_retry=end.result is DeliveryResult.FAILED,
        code=end.code,
        retry_after_s=None if end.wait_s is None else math.ceil(end.wait_s),
        **common,
    )


def busy_outcome(job: ClaimedJob, now_ms: int) -> Outcome:
    """Return the report on a job that was not sent because its host has as many requests as it may have. Such a report
    counts no retry, and never makes the job fail."""
    return Outcome(
        job.job_id,
        job.token,
        "deferred",
        retry_after_s=HOST_BUSY_AFTER_S,
        message="its host has as many requests as it may have (max_running_per_host)",
        finished_at=iso_ms(now_ms),
    )


def outcome_of_callback(
    job: ClaimedJob, callback: Callback, conversions: Conversions, now_ms: int
) -> Outcome:
    """Return the report on an attempt whose endpoint answered by callback. The body of the callback is the result, or a
    Result of type failure."""
    finished_at = iso_ms(now_ms)
    try:
        packed = _NIL
        if callback.body:
            is_packed = "msgpack" in callback.content_type
            packed = (conversions.checked if is_packed else conversions.to_msgpack)(callback.body)
        if len(packed) > (most := conversions.max_result_bytes.current):
            raise TooLargeError(f"it is larger than {most} bytes (max_result_bytes)")
    except JqmasterError as exc:
        # Fail the job without a retry, because nobody knows what the endpoint meant.
        return Outcome(
            job.job_id,
            job.token,
            "failure",
            should_retry=False,
            message=f"the body of the callback is not a result ({exc.detail})",
            code="bad_callback",
            finished_at=finished_at,
        )
    # Keep timestamps as they are, because `error` is packed again.
    value = msgpack.unpackb(packed, timestamp=0)
    if not (isinstance(value, Mapping) and value.get("type") == "failure"):
        return Outcome(job.job_id, job.token, "success", result=packed, finished_at=finished_at)
    wait_s = value.get("retry_after")
    code = value.get("code")
    return Outcome(
        job.job_id,
        job.token,
        "failure",
        should_retry=value.get("should_retry") is not False,
        message=str(value.get("message") or "the endpoint reported a failure"),
        error=codec.pack(value["error"]) if "error" in value else None,
        code=code[:64] if isinstance(code, str) else "",
        retry_after_s=wait_s if isinstance(wait_s, int | float) and 0 <= wait_s <= 366 * 86_400 else None,
        finished_at=finished_at,
    )
