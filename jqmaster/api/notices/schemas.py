"""HTTP models of notices, and of webhooks' deliveries."""

from typing import Annotated

from pydantic import Field

from jqmaster.api.jobs.schemas import AttemptView
from jqmaster.api.schemas import Answer, Count, Instant, JobId, MatcherDocument, Request, Timestamp
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.notices.conditions import When
from jqmaster.domain.notices.incident import MessageKind
from jqmaster.domain.notices.notice import (
    DEFAULT_INTERVAL_S,
    MAX_DESCRIPTION,
    MAX_DESTINATIONS,
    MAX_INTERVAL_S,
    MAX_MAIL_ADDRESS,
    MAX_MAIL_ADDRESSES,
    MAX_THRESHOLD,
    MIN_INTERVAL_S,
    NAME_PATTERN,
    GroupBy,
)
from jqmaster.domain.notices.webhook import MAX_URL_CHARS

NoticeName = Annotated[str, Field(pattern=NAME_PATTERN, examples=["failures"])]
_Url = Annotated[str, Field(min_length=1, max_length=MAX_URL_CHARS)]
_Choice = Annotated[str, Field(max_length=50)]


class DestinationRequest(Request):
    """The destination of messages. Give one of `mail`, `webhook` and `slack`."""

    mail: list[Annotated[str, Field(min_length=1, max_length=MAX_MAIL_ADDRESS)]] | None = Field(
        None,
        min_length=1,
        max_length=MAX_MAIL_ADDRESSES,
        description="Mail addresses. Each gets a mail of its own.",
    )
    webhook: _Url | None = Field(
        None,
        description="URL that is called as docs/notices.md describes. As it was shown: it stays as it is.",
    )
    slack: _Url | None = Field(
        None,
        description="URL of an incoming webhook of Slack, or of what takes the same. As it was shown: it stays "
        "as it is.",
    )
    secret: Annotated[str, Field(max_length=200)] | None = Field(
        None,
        description="Secret that signs the webhook, as whsec_… Never shown again. Empty: `webhook_secrets` sign it. "
        "Absent: it stays as it is.",
    )
    has_secret: bool | None = Field(
        None, description="Ignored, so that a notice can be sent back as it was shown."
    )


class NoticeRequest(Request):
    """A notice to create or replace."""

    name: NoticeName | None = Field(None, description="Must be the name in the path, if given.")
    when: When = Field(strict=False, description="Condition about which people are notified.")
    matcher: MatcherDocument | None = Field(
        None,
        description="Selects by name, priority, tags, max_retry, timeout and keep_result of a job, or by the name of "
        "what the condition is about. Null: everything.",
    )
    threshold: int | None = Field(
        None,
        ge=1,
        le=MAX_THRESHOLD,
        description="How many must be counted within `at_most_every_s` before a message is sent; for what lasts, how "
        "many seconds it must last. Default: 1, or 60 s.",
    )
    to: list[DestinationRequest] = Field(min_length=1, max_length=MAX_DESTINATIONS)
    group_by: GroupBy = Field(
        GroupBy.NONE,
        strict=False,
        description="name or failure_group: each name, or each group of like failures, has messages of its own.",
    )
    at_most_every_s: int = Field(
        DEFAULT_INTERVAL_S,
        ge=MIN_INTERVAL_S,
        le=MAX_INTERVAL_S,
        description="Minimum number of seconds between two messages of one group.",
    )
    muted_until: Instant | None = Field(None, description="No message is sent before this instant.")
    description: str = Field("", max_length=MAX_DESCRIPTION)


class MuteNoticeRequest(Request):
    """The time until which a notice is muted."""

    until: Instant | None = Field(description="Null: end the muting now.")


class AcknowledgeRequest(Request):
    """The incidents to acknowledge."""

    key: str | None = Field(
        None, max_length=200, description="Key of one incident. Null: all open incidents."
    )


class DestinationView(Answer):
    """The destination of messages, without credentials."""

    mail: list[str] | None = None
    webhook: str | None = Field(None, description="The URL without its query.")
    has_secret: bool | None = Field(None, description="Whether the webhook has a secret of its own.")
    slack: str | None = Field(None, description="Scheme and host of the URL, whose path is a credential.")


class NoticeLine(Answer):
    """Like findings of an incident."""

    text: str = Field(description="The finding. Without the right to job content: its name alone.")
    count: Count
    job_id: JobId | None = Field(description="One of the jobs.")


class IncidentView(Answer):
    """Findings that belong together."""

    key: str = Field(description="Name or group of failures that it is about; empty without `group_by`.")
    count: Count
    told: Count = Field(description="Number of findings that the last message reported.")
    began_at: Timestamp
    last_at: Timestamp
    told_at: Timestamp | None
    is_over: bool = Field(description="True: the condition no longer holds.")
    acknowledged_by: str | None
    lines: list[NoticeLine] = Field(description="The most frequent findings.")


class NoticeMessage(Answer):
    """A message that was sent, or is about to be."""

    id: JobId
    kind: MessageKind = Field(description="first, more of the same, over (of what lasted), or test.")
    at: Timestamp
    key: str
    count: Count
    new: Count = Field(description="Number of findings since the last message.")


class NoticeView(Answer):
    """A notice, its open incidents and its messages. The deliveries of a notice are jobs with the tag `notice:NAME`."""

    name: NoticeName
    when: When
    matcher: MatcherDocument | None
    threshold: int
    to: list[DestinationView]
    group_by: GroupBy
    at_most_every_s: int
    muted_until: Timestamp | None
    description: str
    etag: str = Field(description="Value for `If-Match`.")
    created_at: Timestamp
    changed_at: Timestamp
    created_by: str
    incidents: list[IncidentView] = Field(description="Open incidents, the newest first.")
    pending: list[NoticeMessage] = Field(description="Messages for which no delivery has been created yet.")
    recent: list[NoticeMessage] = Field(description="The newest messages, the newest first.")


class NoticeList(Answer):
    """All notices by name."""

    notices: list[NoticeView]


class AcknowledgeAnswer(Answer):
    """The number of acknowledged incidents."""

    acknowledged: Count = Field(
        description="Open incidents of which no more messages are sent until they are over."
    )


class NoticeTest(Answer):
    """A test that is about to be sent."""

    message_id: JobId


class DeliveryView(Answer):
    """The delivery of a webhook. It is a job, of the name jq.webhook, that masters run themselves."""

    id: JobId = Field(description="ID of the delivery, which the receiver gets as `webhook-id`.")
    url: str | None = Field(
        description="Address that is called, without its query. Null if the caller may not see job content."
    )
    event: str | None = Field(description="Type of the message, such as job.failed. Null as url.")
    state: JobState = Field(
        description="succeeded: the receiver accepted the message. skipped: the delivery was "
        "tried for a day without success."
    )
    created_at: Timestamp
    next_at: Timestamp | None = Field(description="Time of the next attempt, if it waits for one.")
    finished_at: Timestamp | None
    attempts: list[AttemptView] = Field(
        description="Attempts that ended, but for the last one if it went well. `code` says why: failed, gone (the "
        "receiver answered 410) or refused (the address is not called)."
    )


class DeliveryList(Answer):
    """The deliveries of a job, that of its newest end first."""

    deliveries: list[DeliveryView]
