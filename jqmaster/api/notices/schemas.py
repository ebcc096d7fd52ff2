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


class DestinationRequest(Request):
    """The destination of messages. Give one of `mail`, `webhook` and `slack`."""

    mail: list[Annotated[str, Field(min_length=1, max_length=MAX_MAIL_ADDRESS)]] | None = Field(
        None,
        min_length=1,
        max_length=MAX_MAIL_ADDRESSES,
        description="Mail addresses. Each address gets a separate mail.",
    )
    webhook: _Url | None = Field(
        None,
        description=(
            "URL to call; docs/notices.md describes the call. If you send a URL back as it was shown, it is "
            "not changed."
        ),
    )
    slack: _Url | None = Field(
        None,
        description=(
            "URL of an incoming webhook of Slack or of a compatible service. If you send a URL back as it "
            "was shown, it is not changed."
        ),
    )
    secret: Annotated[str, Field(max_length=200)] | None = Field(
        None,
        description=(
            "Secret that signs the webhook, in the form whsec_…. It is never shown again. Empty: the "
            "secrets in `webhook_secrets` sign the webhook. Absent: the secret is not changed."
        ),
    )
    has_secret: bool | None = Field(
        None,
        description=(
            "Ignored. The field is allowed so that clients can send a notice back as they received it."
        ),
    )


class NoticeRequest(Request):
    """A notice to create or replace."""

    name: NoticeName | None = Field(
        None, description=("If this field is given, it must equal the name in the path.")
    )
    when: When = Field(strict=False, description="Condition about which people are notified.")
    matcher: MatcherDocument | None = Field(
        None,
        description=(
            "Selects jobs by name, priority, tags, max_retry, timeout and keep_result. If the condition is "
            "about other objects, selects them by name. Null: everything."
        ),
    )
    threshold: int | None = Field(
        None,
        ge=1,
        le=MAX_THRESHOLD,
        description=(
            "Minimum number of findings within `at_most_every_s` for a message. For a lasting condition: "
            "number of seconds that it must last. Default: 1 finding, or 60 s."
        ),
    )
    to: list[DestinationRequest] = Field(min_length=1, max_length=MAX_DESTINATIONS)
    group_by: GroupBy = Field(
        GroupBy.NONE,
        strict=False,
        description=(
            "name or failure_group: send separate messages for each name, or for each group "
            "of similar failures."
        ),
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
    slack: str | None = Field(
        None, description=("Scheme and host of the URL. The path is a credential and is not shown.")
    )


class NoticeLine(Answer):
    """Findings of an incident that have the same text."""

    text: str = Field(description="The finding. If the caller may not see job content, only its name.")
    count: Count
    job_id: JobId | None = Field(description="ID of one of the jobs.")


class IncidentView(Answer):
    """Findings that belong together."""

    key: str = Field(
        description="Name or failure group that the incident is about. Empty without `group_by`."
    )
    count: Count
    told: Count = Field(description="Number of findings that the last message reported.")
    began_at: Timestamp
    last_at: Timestamp
    told_at: Timestamp | None
    is_over: bool = Field(description="True: the condition no longer holds.")
    acknowledged_by: str | None
    lines: list[NoticeLine] = Field(description="The most frequent findings.")


class NoticeMessage(Answer):
    """A message that was sent or will be sent soon."""

    id: JobId
    kind: MessageKind = Field(
        description=(
            "first: the incident has begun. more: it has further "
            "findings. over: its lasting condition has ended. test: a "
            "test message."
        )
    )
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
        description="Number of open incidents about which no more messages are sent until they are over."
    )


class NoticeTest(Answer):
    """A test message that will be sent soon."""

    message_id: JobId


class DeliveryView(Answer):
    """The delivery of a webhook. A delivery is a job with the name jq.webhook, and masters run it themselves."""

    id: JobId = Field(description="ID of the delivery, which the receiver gets as `webhook-id`.")
    url: str | None = Field(
        description="Address that is called, without its query. Null if the caller may not see job content."
    )
    event: str | None = Field(
        description=("Type of the message, such as job.failed. Null if the caller may not see job content.")
    )
    state: JobState = Field(
        description="succeeded: the receiver accepted the message. skipped: the delivery was "
        "tried for a day without success."
    )
    created_at: Timestamp
    next_at: Timestamp | None = Field(description="Time of the next attempt, if the delivery waits for one.")
    finished_at: Timestamp | None
    attempts: list[AttemptView] = Field(
        description=(
            "Ended attempts without success. `code` says why an attempt ended: failed, gone (the receiver "
            "answered 410) or refused (masters do not call the address)."
        )
    )


class DeliveryList(Answer):
    """The deliveries of a job, newest first."""

    deliveries: list[DeliveryView]
