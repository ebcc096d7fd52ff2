"""The jobs that deliver messages. Masters run these jobs themselves, under reserved names."""

from collections import Counter
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

import msgpack

from jqmaster.domain.ids import uuid8
from jqmaster.domain.jobs.job import JobSpec, RetryPolicy

WEBHOOK_NAME: Final = "jq.webhook"
SLACK_NAME: Final = "jq.slack"
MAIL_NAME: Final = "jq.mail"
DELIVERY_NAMES: Final = (WEBHOOK_NAME, SLACK_NAME, MAIL_NAME)

DELIVERY_LIFE_MS: Final = 24 * 3600 * 1000
DELIVERY_TIMEOUT_MS: Final = 60_000
_RETRY_BASE_S: Final = 5.0
_RETRY_MAX_S: Final = 3600.0
# Maximum number of retries of a delivery. The waits are 5, 10, 20 s and so on. From the eleventh on, each wait is one
# hour. All waits together exceed a day, so the expiry of the job ends the retries.
_MAX_RETRY: Final = 40


class DeliveryOutcome(StrEnum):
    """The end of one attempt to deliver."""

    DELIVERED = "delivered"
    # The attempt failed, and the delivery is tried again later.
    FAILED = "failed"
    # The receiver asked for a delay, or already handles its maximum number of calls.
    DEFERRED = "deferred"
    # The receiver wants no more deliveries because it answered 410, or the notice no longer has this destination.
    GONE = "gone"
    # The receiver's address must not be called, or its mail server rejected it.
    REFUSED = "refused"


class DeliveryFigures:
    """Counts of one process, for its metrics: delivery attempts by the name of their job and by outcome, and
    messages of notices by kind."""

    __slots__ = ("messages", "outcomes")

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, DeliveryOutcome]] = Counter()
        self.messages: Counter[str] = Counter()


def stable_id(at_ms: int, *parts: str) -> str:
    """Return the ID of a delivery, derived from these parts. Equal parts give the same ID, so that a delivery has only
    one job."""
    digest = blake2b(" ".join(parts).encode(), digest_size=10).digest()
    return uuid8(at_ms << 80 | int.from_bytes(digest, "big"))


def reserved_job(name: str, own_id: str, argument: dict[str, Any], at_ms: int, tag: str) -> JobSpec:
    """Return a job that delivers a message. It is tried for a day from `at_ms` on."""
    # Multiply the wait by 0.8 to 1.2, so that deliveries of one instant are not retried together. The factor depends
    # only on the ID, so that a delivery that is enqueued again is the same job.
    spread = 0.8 + 0.4 * int(own_id[-4:], 16) / 0xFFFF
    return JobSpec(
        id=own_id,
        name=name,
        argument=msgpack.packb(argument),
        priority=0,
        max_retry=_MAX_RETRY,
        timeout_ms=DELIVERY_TIMEOUT_MS,
        expires_at_ms=at_ms + DELIVERY_LIFE_MS,
        retry=RetryPolicy(_RETRY_BASE_S * spread, 2.0, _RETRY_MAX_S, jitter=False),
        rerun_lost=True,
        tags=(tag,),
    )
