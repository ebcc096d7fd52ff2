"""Carriers, which deliver the masters' own jobs. There is one for each name."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgpack

from jqmaster.domain.notices.delivery import MAIL_NAME, SLACK_NAME, WEBHOOK_NAME, DeliveryOutcome
from jqmaster.domain.notices.notice import Channel, Destination
from jqmaster.domain.notices.webhook import origin_of, shown_url
from jqmaster.net.webhook_secret import secret_bytes
from jqmaster.runtime.outbound.mail_client import Mail, MailClient
from jqmaster.runtime.outbound.webhook_client import CallEnd, WebhookCall, WebhookClient
from jqmaster.store.jobs.claims import ClaimedJob

_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, msgpack.UnpackException)
CANNOT_READ: Final = CallEnd(DeliveryOutcome.REFUSED, "the delivery cannot be read")
_NO_DESTINATION: Final = CallEnd(DeliveryOutcome.GONE, "the notice no longer has this destination")
_NO_MAIL_SERVER: Final = CallEnd(DeliveryOutcome.FAILED, "this master cannot send mail: smtp_url is not set")
_NO_SECRETS: Final = CallEnd(
    DeliveryOutcome.FAILED, "this master cannot sign webhooks: webhook_secrets is not set"
)

# Finds a destination. Arguments: the name and the incarnation of its notice, and its position there. Returns None if
# the destination no longer exists.
FindDestination = Callable[[str, str, int], Awaitable[Destination | None]]


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One attempt to deliver. `host`: the host whose limit of calls applies; `to`: the receiver, for people."""

    host: str
    to: str
    go: Callable[[], Awaitable[CallEnd]]


class Carrier(Protocol):
    """Delivers jobs of one name."""

    async def plan(self, job: ClaimedJob) -> DeliveryAttempt | CallEnd:
        """Return the attempt to deliver a job, or, if nothing can be attempted, the end of the attempt. Raise what the
        store raises."""
        ...


class WebhookCarrier:
    """Delivers webhooks. The URL of a webhook about the end of a job is in its delivery job. The destination of a
    notice's webhook is looked up."""

    def __init__(self, client: WebhookClient, find: FindDestination) -> None:
        self._client = client
        self._find = find

    async def plan(self, job: ClaimedJob) -> DeliveryAttempt | CallEnd:
        try:
            argument: Mapping[str, Any] = msgpack.unpackb(job.record.argument)
            body = argument["body"].encode()
            if "notice" not in argument:
                if not self._client.can_sign:
                    return _NO_SECRETS
                return _attempt(self._client, WebhookCall(argument["url"], job.job_id, body))
            destination = await self._find(argument["notice"], argument["nid"], argument["place"])
            if destination is None or destination.channel is not Channel.WEBHOOK:
                return _NO_DESTINATION
            keys = [secret_bytes(destination.secret)] if destination.secret else []
            if not keys and not self._client.can_sign:
                return _NO_SECRETS
            return _attempt(self._client, WebhookCall(destination.addresses[0], job.job_id, body, keys))
        except _UNREADABLE:
            return CANNOT_READ


class SlackCarrier:
    """Calls incoming webhooks of Slack, Mattermost and others. The URL is the credential."""

    def __init__(self, client: WebhookClient, find: FindDestination) -> None:
        self._client = client
        self._find = find

    async def plan(self, job: ClaimedJob) -> DeliveryAttempt | CallEnd:
        try:
            argument: Mapping[str, Any] = msgpack.unpackb(job.record.argument)
            destination = await self._find(argument["notice"], argument["nid"], argument["place"])
            if destination is None or destination.channel is not Channel.SLACK:
                return _NO_DESTINATION
            call = WebhookCall(
                destination.addresses[0], job.job_id, argument["body"].encode(), is_signed=False
            )
            return DeliveryAttempt(origin_of(call.url), origin_of(call.url), lambda: self._client.call(call))
        except _UNREADABLE:
            return CANNOT_READ


class MailCarrier:
    """Sends mails. `client`: None if no mail server is configured any more."""

    def __init__(self, client: MailClient | None) -> None:
        self._client = client

    async def plan(self, job: ClaimedJob) -> DeliveryAttempt | CallEnd:
        client = self._client
        if client is None:
            return _NO_MAIL_SERVER
        try:
            argument: Mapping[str, Any] = msgpack.unpackb(job.record.argument)
            mail = Mail(
                argument["to"], argument["subject"], argument["text"], argument["html"], message_id=job.job_id
            )
        except _UNREADABLE:
            return CANNOT_READ
        return DeliveryAttempt(client.host, client.host, lambda: client.send(mail))


def carriers_of(
    webhooks: WebhookClient, mail: MailClient | None, find: FindDestination
) -> dict[str, Carrier]:
    """Return the carriers by the names of the jobs that they deliver."""
    return {
        WEBHOOK_NAME: WebhookCarrier(webhooks, find),
        SLACK_NAME: SlackCarrier(webhooks, find),
        MAIL_NAME: MailCarrier(mail),
    }


def _attempt(client: WebhookClient, call: WebhookCall) -> DeliveryAttempt:
    return DeliveryAttempt(origin_of(call.url), shown_url(call.url), lambda: client.call(call))
