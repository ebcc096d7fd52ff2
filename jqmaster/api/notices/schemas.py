"""HTTP models of webhooks' deliveries."""

from pydantic import Field

from jqmaster.api.jobs.schemas import AttemptView
from jqmaster.api.schemas import Answer, JobId, Timestamp
from jqmaster.domain.jobs.job import JobState


class DeliveryView(Answer):
    """The delivery of a webhook. It is a job, of the name jq.webhook, that masters run themselves."""

    id: JobId = Field(description="ID of the delivery, which the receiver gets as `webhook-id`.")
    url: str | None = Field(
        description="Address that is called, without its query. Null if the caller may not see job content."
    )
    event: str | None = Field(description="Type of the message, such as job.failed. Null as url.")
    state: JobState = Field(description="succeeded: the receiver took it. skipped: it was tried for a day.")
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
