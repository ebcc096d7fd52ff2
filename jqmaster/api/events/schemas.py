"""HTTP models of events."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, RootModel

from jqmaster.api.schemas import Answer, AnyValue, Instant, JobId, Request, StoredText, Timestamp
from jqmaster.domain.definitions.event_trigger import TYPE_PATTERN
from jqmaster.domain.events.event import MAX_DEDUPE_KEY, MAX_TEXT, Effect

_NULL = b"\xc0"
EventType = Annotated[str, Field(pattern=TYPE_PATTERN, examples=["order.paid"])]


class EventRequest(Request):
    """An event to send."""

    event_type: EventType
    payload: AnyValue = Field(default_factory=lambda: _NULL)
    dedupe_key: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_DEDUPE_KEY,
        description=(
            "Deduplication key. Events with the same `source` and key count as one event. A repeat "
            "within `event_dedupe_s` starts nothing."
        ),
    )
    source: StoredText = Field("", description="Origin of the event.")
    subject: StoredText = Field("", description="Object that the event is about, within the source.")
    occurred_at: Instant | None = None


class EventBatch(Request):
    """Many events. The master checks all events before it accepts the first one. After that, it handles each
    event independently."""

    events: list[EventRequest] = Field(min_length=1)


class EventPost(RootModel[EventRequest | EventBatch]):
    """One event or many."""


class CloudEvent(Request):
    """An event in the format of CloudEvents 1.0. Extension attributes are accepted, but not stored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    specversion: Literal["1.0"]
    id: str = Field(min_length=1, max_length=MAX_DEDUPE_KEY)
    source: str = Field(min_length=1, max_length=MAX_TEXT)
    type: EventType
    time: Instant | None = None
    subject: str = Field("", max_length=MAX_TEXT)
    data: AnyValue | None = None
    data_base64: str | None = None


class StartedView(Answer):
    """The effect of the event on one definition."""

    definition: str
    outcome: Effect = Field(
        description="waiting: the event waits for further events, because the definition has `collect` or `debounce`."
    )
    reason: str | None = Field(
        description="Why it was skipped: paused, overlap, backlog_full, superseded or argument_too_large. Null "
        "otherwise. Future releases may add values."
    )
    job_id: JobId | None = Field(
        description="ID of the job. If the event waits, this is the ID of the job that will be started."
    )


class EventAnswer(Answer):
    """An event that was accepted."""

    event_id: str
    duplicate: bool = Field(
        description=(
            "True: a master has already received this event. The other fields have the same values "
            "as in the first answer."
        )
    )
    job_ids: list[JobId] = Field(description="IDs of the jobs that the event started.")
    runs: list[StartedView] = Field(
        description=("Effect of the event on each matching definition, sorted by name.")
    )


class EventBatchAnswer(Answer):
    """Events that were accepted, in the order of the request."""

    events: list[EventAnswer]


class EventPostAnswer(RootModel[EventAnswer | EventBatchAnswer]):
    """The answer to one event or to many."""


class EventView(Answer):
    """An event, and the jobs that it started when it came."""

    event_id: str
    event_type: str
    source: str
    subject: str
    dedupe_key: str | None
    occurred_at: Timestamp | None
    received_at: Timestamp
    replay_of: str | None = Field(
        description="ID of the earlier event that an operator sent again as this one. Null "
        "for all other events."
    )
    payload: AnyValue = Field(description="Null if it is too large to show, or if the caller may not see it.")
    payload_bytes: int
    payload_hidden: bool = Field(description="True: the caller may not see the payload.")
    payload_redacted: bool = Field(description="True: parts of the payload are replaced by `[redacted]`.")
    job_ids: list[JobId]
    runs: list[StartedView]


class EventList(Answer):
    """A page of events, newest first. More pages may follow a page with few events."""

    events: list[EventView]
    next_cursor: str | None = Field(description="Cursor of the next page. Null on the last page.")
