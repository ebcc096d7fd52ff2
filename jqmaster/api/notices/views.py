"""Deliveries of webhooks as clients see them."""

import json
from typing import Any

import msgpack

from jqmaster.api.views import attempt_view
from jqmaster.domain.content import ContentAccess
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.job import JobState
from jqmaster.domain.job_content import JobContent
from jqmaster.domain.notices.webhook import shown_url
from jqmaster.service.notices.webhooks import Delivery


def delivery_view(delivery: Delivery, access: ContentAccess) -> dict[str, Any]:
    """`DeliveryView`."""
    job = delivery.job
    content = JobContent(access, job)
    url, event = _told(job.argument) if content.is_shown else (None, None)
    return {
        "id": job.id,
        "url": url,
        "event": event,
        "state": str(job.state),
        "created_at": iso_ms(job.created_at_ms),
        "next_at": iso_ms(job.due_at_ms) if job.state in (JobState.RETRYING, JobState.SCHEDULED) else None,
        "finished_at": iso_ms(job.finished_at_ms) if job.finished_at_ms else None,
        "attempts": [attempt_view(attempt, content, access) for attempt in delivery.attempts],
    }


def _told(argument: bytes) -> tuple[str | None, str | None]:
    """Return the address and the event of a delivery."""
    try:
        fields = msgpack.unpackb(argument)
        return shown_url(fields["url"]), json.loads(fields["body"])["type"]
    except (ValueError, KeyError, TypeError, AttributeError, msgpack.UnpackException):
        return None, None
