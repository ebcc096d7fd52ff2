"""The meaning of an endpoint's answer for its job."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from jqmaster.domain.challenges.challenge import MAX_WAIT_S
from jqmaster.domain.instant import span
from jqmaster.domain.targets.target import ASKS_FOR_TIME, HttpTarget

# How long a delivery waits after a 429 or 503 without Retry-After, and after a call that could not be sent.
DEFAULT_WAIT_S: Final = 5.0
# Each further wait is twice as long, up to this maximum, unless the endpoint asks for a longer one.
MAX_OWN_WAIT_S: Final = 300.0
AWAIT_FIELD: Final = "jq-await"


class DeliveryResult(StrEnum):
    """The result of one request to a target."""

    SUCCEEDED = "succeeded"
    # The endpoint accepted the job, and will answer by callback.
    AWAITING = "awaiting"
    # The endpoint asked for more time. The job uses no retry.
    NOT_READY = "not_ready"
    # Nothing was sent, because the endpoint cannot be reached or already has its maximum number of requests. The job
    # uses no retry.
    UNREACHABLE = "unreachable"
    FAILED = "failed"
    # The job fails without a retry.
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class DeliveryEnd:
    """The end of one request.

    * `detail`: a text of this service, for people.

    * `said`: what the endpoint said, which is content of the job.
    * `wait_s`: the time until the next request. None: the backoff of the job decides.
    * `await_s`: how long the callback is awaited.
    * `value`: the result, as MessagePack.
    * `code`: the reason, for programs.
    """

    result: DeliveryResult
    detail: str
    status: int = 0
    wait_s: float | None = None
    await_s: float = 0.0
    value: bytes | None = None
    code: str = ""
    said: str = ""


def judged(
    target: HttpTarget, status: int, *, retry_after_s: float | None = None, await_text: str | None = None
) -> DeliveryEnd:
    """Return the meaning of an answer for its job.

    * `retry_after_s`: the answer's Retry-After.
    * `await_text`: the answer's JQ-Await, if it has one.

    The caller adds the value of an answer that means success.
    """
    if status == 202 and await_text is not None:
        await_s = read_await_s(await_text)
        if await_s is None:
            return DeliveryEnd(
                DeliveryResult.REJECTED,
                f"status 202 with a JQ-Await that is not a number of seconds up to {MAX_WAIT_S}",
                status,
                code="bad_await",
                said=await_text[:50],
            )
        return DeliveryEnd(
            DeliveryResult.AWAITING,
            f"status 202: it answers within {span(round(await_s * 1000))}",
            status,
            await_s=await_s,
        )
    if target.is_ok(status):
        return DeliveryEnd(DeliveryResult.SUCCEEDED, f"status {status}", status)
    if target.is_final(status):
        return DeliveryEnd(
            DeliveryResult.REJECTED, f"status {status}, which is final", status, code=f"status_{status}"
        )
    if status in ASKS_FOR_TIME:
        wait = (
            "asks for time" if retry_after_s is None else f"asks to wait {span(round(retry_after_s * 1000))}"
        )
        return DeliveryEnd(
            DeliveryResult.NOT_READY, f"the target answered {status} and {wait}", status, wait_s=retry_after_s
        )
    if 300 <= status < 400:
        return DeliveryEnd(
            DeliveryResult.FAILED,
            f"status {status}: redirects are not followed",
            status,
            code=f"status_{status}",
        )
    return DeliveryEnd(DeliveryResult.FAILED, f"status {status}", status, code=f"status_{status}")


def read_await_s(text: str) -> float | None:
    """Return the seconds of a JQ-Await field, or None if it has none."""
    try:
        seconds = float(text.strip())
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 < seconds <= MAX_WAIT_S else None
