"""Notices, and deliveries of webhooks, as clients see them."""

import json
from typing import Any

import msgpack

from jqmaster.api.jobs.views import attempt_view
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.notices.incident import Message, NoticeIncident
from jqmaster.domain.notices.webhook import shown_url
from jqmaster.service.notices.documents import describe
from jqmaster.service.notices.reader import ShownNotice
from jqmaster.service.notices.webhooks import WebhookDelivery


def delivery_view(delivery: WebhookDelivery, access: ContentAccess) -> dict[str, Any]:
    """Return a `DeliveryView`."""
    job = delivery.job
    content = JobContent(access, job)
    url, event = _address_and_event(job.argument) if content.is_shown else (None, None)
    return {
        "id": job.id,
        "url": url,
        "event": event,
        "state": str(job.state),
        "created_at": iso_ms(job.created_at_ms),
        "next_at": iso_ms(job.due_at_ms) if job.state in (JobState.RETRYING, JobState.SCHEDULED) else None,
        "finished_at": iso_or_none(job.finished_at_ms),
        "attempts": [attempt_view(attempt, content, access) for attempt in delivery.attempts],
    }


def notice_view(shown: ShownNotice, access: ContentAccess) -> dict[str, Any]:
    """Return a `NoticeView`."""
    stored, state = shown.stored, shown.state
    incidents = sorted(state.incidents.values(), key=lambda one: -one.last_ms)
    return {
        **describe(stored.notice),
        "etag": stored.etag,
        "created_at": iso_ms(stored.created_at_ms),
        "changed_at": iso_ms(stored.changed_at_ms),
        "created_by": stored.created_by,
        "incidents": [_incident_view(one, access) for one in incidents],
        "pending": [_message_view(one) for one in state.pending],
        "recent": [_message_view(one) for one in reversed(state.recent)],
    }


def _incident_view(incident: NoticeIncident, access: ContentAccess) -> dict[str, Any]:
    return {
        "key": incident.key,
        "count": incident.count,
        "told": incident.told_count,
        "began_at": iso_ms(incident.began_ms),
        "last_at": iso_ms(incident.last_ms),
        "told_at": iso_or_none(incident.told_ms),
        "is_over": incident.is_over or not incident.is_present,
        "acknowledged_by": incident.acknowledged_by or None,
        "lines": [
            {
                # Hide the text after the name, because it may come from an error message.
                "text": line.text if access.error_text_cover is None else line.text.partition(": ")[0],
                "count": line.count,
                "job_id": line.job_id or None,
            }
            for line in incident.lines
        ],
    }


def _message_view(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "kind": str(message.kind),
        "at": iso_ms(message.at_ms),
        "key": message.key,
        "count": message.count,
        "new": message.new,
    }


def _address_and_event(argument: bytes) -> tuple[str | None, str | None]:
    """Return the address and the event of a delivery."""
    try:
        fields = msgpack.unpackb(argument)
        return shown_url(fields["url"]), json.loads(fields["body"])["type"]
    except (ValueError, KeyError, TypeError, AttributeError, msgpack.UnpackException):
        return None, None
