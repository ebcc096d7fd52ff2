"""HTTP models of definitions."""

from typing import Annotated, Any, Final, Literal

import msgpack
from pydantic import Field, WithJsonSchema

from jqmaster.api.jobs.schemas import JobTermsRequest, JobTermsView
from jqmaster.api.schemas import (
    SINCE,
    Answer,
    AnyValue,
    Instant,
    JobId,
    MatcherDocument,
    Request,
    Seconds,
    Timestamp,
)
from jqmaster.domain.calendars.calendar import DAYS
from jqmaster.domain.definitions.definition import (
    DEFAULT_CATCH_UP,
    MAX_CATCH_UP,
    MAX_DESCRIPTION,
    MAX_JITTER_S,
    MAX_REASON,
    MAX_SKIP_LATE_AFTER_S,
    SKIP_LATE_AFTER_S,
    CatchUp,
    Kind,
    Overlap,
)
from jqmaster.domain.definitions.definition import NAME_PATTERN as DEFINITION_NAME_PATTERN
from jqmaster.domain.definitions.event_trigger import MAX_COLLECTED, MAX_WAIT_S, MIN_WAIT_S, TYPE_PATTERN
from jqmaster.domain.definitions.run import RunOutcome
from jqmaster.domain.definitions.schedule import CLOCK_PATTERN, MAX_CRON, MAX_EVERY_MINUTES
from jqmaster.domain.definitions.time_zone import MAX_NAME
from jqmaster.domain.jobs.job import JobSpec, JobState
from jqmaster.domain.matching.checks import MAX_TEXT

_CLOCK = {"type": "string", "pattern": CLOCK_PATTERN, "examples": ["02:30"]}


def _form(required: list[str], **properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_SCHEDULES: Final = [
    _form(
        ["every_minutes"],
        every_minutes={"type": "integer", "minimum": 1, "maximum": MAX_EVERY_MINUTES},
        offset={"type": "integer", "minimum": 0},
    ),
    _form(["hourly_at"], hourly_at={"type": "integer", "minimum": 0, "maximum": 59}),
    _form(["daily_at"], daily_at=_CLOCK),
    _form(
        ["weekly_on", "at"],
        weekly_on={"type": "array", "minItems": 1, "items": {"type": "string", "enum": list(DAYS)}},
        at=_CLOCK,
    ),
    _form(["cron"], cron={"type": "string", "minLength": 1, "maxLength": MAX_CRON}),
]
Schedule = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": (
                "`every_minutes` counts real minutes, beginning `offset` minutes after midnight UTC of 1 "
                "January 1970. All other forms are local times of `time_zone`. If a clock change skips a "
                "time, it fires at the first instant after the gap. A time that occurs twice fires only the "
                "first time. `cron` has five fields, which may use names, `L` and `#`, or is a word such as "
                "`@daily`."
            ),
            "oneOf": [{**form, "additionalProperties": False} for form in _SCHEDULES],
        }
    ),
]
ScheduleView = Annotated[Any, WithJsonSchema({"oneOf": _SCHEDULES})]
AnyArgument = Annotated[
    Any, WithJsonSchema({"description": 'Any value. In JSON, binary is {"$bin": base64}.'})
]


class DefinitionJob(JobTermsRequest):
    """The job that a definition starts. It has the fields of a pushed job, except its ID and its times."""

    argument: AnyArgument = None

    def to_spec(self) -> JobSpec:
        """Return the job without an ID."""
        argument = msgpack.packb(self.argument, datetime=True, unicode_errors="surrogateescape")
        return JobSpec(**self.terms(), id="", argument=argument)


_KEY: Final = (
    "Path, such as payload.user: events are grouped by their value at this path. Null: all "
    "events form one group."
)


class EventDebounceRequest(Request):
    """When the job of a debounced event starts."""

    wait_s: Seconds = Field(
        ge=MIN_WAIT_S, le=MAX_WAIT_S, description="The job starts when no event has come for this time."
    )
    max_s: Seconds | None = Field(
        None,
        ge=MIN_WAIT_S,
        le=MAX_WAIT_S,
        description="Maximum time from the first event to the start of the job.",
    )
    key: str | None = Field(None, max_length=MAX_TEXT, description=_KEY)


class CollectRequest(Request):
    """When the job of collected events starts."""

    max: int = Field(
        ge=1,
        le=MAX_COLLECTED,
        description=(
            "The job starts when this many events have come, or when one more event would make the "
            "argument too long."
        ),
    )
    within_s: Seconds = Field(
        ge=MIN_WAIT_S, le=MAX_WAIT_S, description="Maximum time from the first event to the start of the job."
    )
    key: str | None = Field(None, max_length=MAX_TEXT, description=_KEY)


EventMatcher = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "description": (
                "A matcher in the form of constraints. Its fields are event_type, source, "
                "subject, payload and parts of the payload, such as payload.items[0].sku."
            ),
            "examples": [{"field": "payload.total", "op": "ge", "value": 100}],
        }
    ),
]


DaysRule = Literal["skip_holidays", "only_holidays", "next_workday", "previous_workday"]


class DaysRequest(Request):
    """The rule of a definition for days off: the holidays and weekends of a calendar."""

    calendar: str = Field(max_length=100, description="Name of the calendar.", examples=["japan"])
    rule: DaysRule = Field(
        description=(
            "skip_holidays: an instant on a day off is recorded as skipped. only_holidays: an instant on "
            "any other day is recorded as skipped. next_workday, previous_workday: an instant on a day off "
            "fires at the same local time of that workday, which is at most 92 days away. The schedule may "
            "then have at most 24 instants a day."
        ),
    )


class _DefinitionFields(Request):
    name: Annotated[str, Field(pattern=DEFINITION_NAME_PATTERN)] | None = Field(
        None, description="If this field is given, it must equal the name in the path."
    )
    enabled: bool = Field(
        True, description="False: instants and events are recorded as skipped, and start no job."
    )
    description: str = Field("", max_length=MAX_DESCRIPTION)
    reason: str = Field("", max_length=MAX_REASON, description="Reason for the pause, for people.")
    kind: Literal["time", "event"] = Field(
        "time",
        description=(
            "time: the `schedule` starts the job. event: events start the job. `event_type` is "
            "required, and `schedule` is not allowed."
        ),
    )
    overlap: Literal["allow", "forbid", "replace", "queue"] = Field(
        "allow",
        description=(
            "Rule for an instant or event while the job of an earlier one is not finished. allow: "
            "the new one fires. forbid: the new one is skipped. replace: the earlier job is "
            "canceled. queue: the newest instant waits for the end of the earlier job (kind time "
            "only)."
        ),
    )
    schedule: Schedule | None = Field(None, description="Required for kind time.")
    time_zone: str = Field(
        "UTC", max_length=MAX_NAME, description="IANA name of the zone.", examples=["Asia/Tokyo"]
    )
    starts_at: Instant | None = Field(None, description="Instants before this time are ignored.")
    ends_at: Instant | None = Field(None, description="Instants at or after this time are ignored.")
    jitter_s: Seconds = Field(
        0.0,
        ge=0,
        le=MAX_JITTER_S,
        description=(
            "Every instant is delayed by the same fraction of this time. The name of the "
            "definition determines the fraction."
        ),
    )
    skip_late_after_s: Seconds = Field(
        SKIP_LATE_AFTER_S,
        ge=1,
        le=MAX_SKIP_LATE_AFTER_S,
        description=(
            "If the leader notices an instant later than this, for example after an outage, "
            "`catch_up` applies."
        ),
    )
    catch_up: Literal["skip", "latest", "all"] = Field(
        "latest",
        description=(
            "The late instants that fire. skip: none. latest: only the newest due instant. all: the "
            "newest `max_catch_up` due instants. Other late instants are recorded as missed."
        ),
    )
    max_catch_up: int = Field(DEFAULT_CATCH_UP, ge=1, le=MAX_CATCH_UP)
    days: DaysRequest | None = Field(
        None,
        description=(
            "Kind time only: the rule for days off. Days are counted in `time_zone`. Null: there are no "
            "days off."
        ),
    )
    event_type: str | None = Field(
        None,
        pattern=TYPE_PATTERN,
        description="Required for kind event: the type of the events, or a pattern with *, ? and [abc].",
        examples=["order.*"],
    )
    matcher: EventMatcher | None = Field(None, description="Selects events of the type. Null: all of them.")
    argument: Any = Field(
        None,
        description="Template of the job's argument: any value. Each "
        '`{"from": PATH}` in it stands for a part of the event. '
        "PATH is event_type, event_id, source, subject, occurred_at, payload, or a path in the payload such as "
        "payload.a.b[0]. A part that the event lacks becomes null. Without a template, the argument is `job.argument`, "
        "or the payload if `job.argument` is null.",
    )
    debounce: EventDebounceRequest | None = Field(
        None,
        description="Start one job for the last of many events. The earlier events are recorded as skipped.",
    )
    collect: CollectRequest | None = Field(
        None,
        description="Start one job for many events. Its argument is the list of the events' arguments, oldest "
        "first.",
    )


class DefinitionRequest(_DefinitionFields):
    """A definition to create or replace."""

    job: DefinitionJob


class DefinitionPreviewRequest(_DefinitionFields):
    """A definition for which to show the next instants or events."""

    job: DefinitionJob | None = None
    from_: Instant | None = Field(
        None, alias="from", description="Show instants after this one. Null: from now on."
    )
    count: int = Field(10, ge=1, le=1000)


class InstantView(Answer):
    """One instant of a schedule."""

    due_at: Timestamp
    local: str = Field(description="The same instant in the time zone of the definition, with its offset.")
    note: str | None = Field(
        description=(
            "A remark, for example that a clock change skips the local time, or that a calendar "
            "excludes the instant."
        )
    )
    clock_change: Literal["skipped", "repeated"] | None = Field(
        description=(
            "skipped: the local time does not exist on this day, so the first instant after the gap "
            "is shown. repeated: the local time occurs twice, so its first occurrence is shown."
        ),
        json_schema_extra=SINCE,
    )
    left_out: str | None = Field(
        description=(
            "Reason why this instant starts no job according to the calendar, such as the name of the "
            "holiday. Null: the instant starts a job."
        ),
        json_schema_extra=SINCE,
    )
    moved_from: Timestamp | None = Field(
        description="The original instant of the schedule, if the calendar moved it. Null: it was not moved.",
        json_schema_extra=SINCE,
    )


class PreviewedEvent(Answer):
    """A stored event, and the effect that it would have on the definition now."""

    event_id: str
    event_type: str
    received_at: Timestamp
    matches: bool | None = Field(
        description=(
            "Whether the event would start the job. Null: the matcher reads parts that the caller "
            "may not see."
        )
    )
    argument: AnyValue = Field(
        description=(
            "The argument that the job would get, built from the parts of the event that the caller "
            "may see. Null if it is too large to show, or if the caller may not see it."
        )
    )
    argument_hidden: bool = Field(description="True: the caller may not see the argument.")


class DefinitionPreview(Answer):
    """The next instants of a definition, or the newest events of its type. The list is shorter than requested if
    the definition ends earlier or if fewer events are stored."""

    instants: list[InstantView] = Field(description="Empty for kind event.")
    events: list[PreviewedEvent] = Field(
        description="At most 20, newest first. Empty for kind time.", json_schema_extra=SINCE
    )


class DefinitionJobView(JobTermsView):
    """The job that a definition starts."""

    name: str
    argument: AnyValue = Field(
        description="Null if it is too large to show, or if the caller may not see it."
    )
    argument_bytes: int
    argument_hidden: bool = Field(description="True: the caller may not see argument and headers.")
    argument_redacted: bool = Field(
        description=(
            "True: parts of the argument or the headers are replaced by `[redacted]`. If you send "
            "these placeholders back, the original values stay."
        )
    )


class RunView(Answer):
    """The record of one due instant, or of one event."""

    definition: str
    due_at: Timestamp
    outcome: RunOutcome
    reason: str | None = Field(
        description=(
            "Fired: caught_up, manual, backfill, collected or debounced. Skipped: overlap, paused, "
            "backlog_full, superseded, debounced, argument_too_large, or `calendar: ` with the name of the "
            "holiday. Missed: late. Null: the definition fired in time. Future releases may add values."
        )
    )
    job_id: JobId | None = Field(description="ID of the started job.")
    job_state: JobState | None = Field(
        description="State of the started job. Null if no job was started, or if the job was removed.",
        json_schema_extra=SINCE,
    )
    recorded_at: Timestamp
    event_id: str | None = Field(description="The event. Null for an instant.", json_schema_extra=SINCE)
    moved_from: Timestamp | None = Field(
        description=(
            "The original instant of the schedule, if a calendar moved it to `due_at`. Null: it was "
            "not moved."
        ),
        json_schema_extra=SINCE,
    )


class DaysView(Answer):
    """The rule of a definition for days off."""

    calendar: str
    rule: DaysRule


class EventDebounceView(Answer):
    """When the job of a debounced event starts."""

    wait_s: float
    max_s: float | None
    key: str | None


class CollectView(Answer):
    """When the job of collected events starts."""

    max: int
    within_s: float
    key: str | None


class DefinitionView(Answer):
    """A definition."""

    name: str
    kind: Kind
    enabled: bool
    description: str
    reason: str = Field(description="Why it is paused.", json_schema_extra=SINCE)
    overlap: Overlap
    schedule: ScheduleView | None = Field(description="Null for kind event.")
    time_zone: str
    starts_at: Timestamp | None
    ends_at: Timestamp | None
    jitter_s: float
    skip_late_after_s: float
    catch_up: CatchUp
    max_catch_up: int
    days: DaysView | None = Field(
        description="Its calendar and the rule for days off. Null: no days off.",
        json_schema_extra=SINCE,
    )
    event_type: str | None = Field(description="Null for kind time.", json_schema_extra=SINCE)
    matcher: MatcherDocument | None = Field(
        description=(
            "Constants are hidden if the matcher compares them with content that the caller may not see."
        ),
        json_schema_extra=SINCE,
    )
    argument: Any = Field(
        description=(
            "Template of the job's argument. Also null if the caller may not see it (`argument_hidden`)."
        ),
        json_schema_extra=SINCE,
    )
    debounce: EventDebounceView | None = Field(json_schema_extra=SINCE)
    collect: CollectView | None = Field(json_schema_extra=SINCE)
    job: DefinitionJobView
    next_due_at: Timestamp | None = Field(
        description=(
            "The next instant that starts a job. Instants that the calendar excludes do not count. "
            "Null: the definition is never due again."
        )
    )
    calendar_ends_at: str | None = Field(
        description=(
            "The last day that the calendar covers (YYYY-MM-DD). Null: the calendar covers all "
            "days, or the definition has no calendar."
        ),
        json_schema_extra=SINCE,
    )
    queued_at: Timestamp | None = Field(
        description="With overlap `queue`: the instant that waits for the end of an earlier job."
    )
    last_run: RunView | None = Field(description="Record of the newest instant. Null if none is kept.")
    runs: list[RunView] = Field(
        description=(
            "The newest run records, newest first. The query parameter `runs` of the list sets "
            "their number. Empty in all other answers."
        ),
        json_schema_extra=SINCE,
    )
    etag: str = Field(
        description="Version tag that changes with every change. The ETag header holds it in quotes."
    )
    created_by: str
    created_at: Timestamp
    changed_at: Timestamp


class DefinitionList(Answer):
    """A page of definitions, sorted by name."""

    definitions: list[DefinitionView]
    next_cursor: str | None = Field(description="Cursor of the next page. Null on the last page.")


class DefinitionRuns(Answer):
    """A page of run records, newest first."""

    runs: list[RunView]
    next_cursor: str | None = Field(description="Cursor of the next page. Null on the last page.")


class DefinitionWhy(Answer):
    """Why a definition starts no jobs."""

    text: str = Field(description="The explanation in English sentences.")
    is_fault: bool = Field(description="True: the definition has skipped at least three instants in a row.")
    skipped_in_a_row: int = Field(
        ge=0,
        description=(
            "Number of the last consecutive instants, up to 10, that were skipped for a reason that "
            "nobody chose. Pauses, calendars and later events do not count as such a reason."
        ),
    )
    reason: str | None = Field(description="Reason of the newest of these skips. Null if there is none.")
    job_id: JobId | None = Field(
        description=(
            "If the reason is overlap: the unfinished job of an earlier instant. New instants are skipped "
            "until it ends. Null if there is none."
        )
    )
    job_state: JobState | None = Field(description="State of that job.")
    job_why: str | None = Field(
        description=(
            "First verdict on that job, in English. Null if the job is running or there is no such job."
        )
    )
    next_due_at: Timestamp | None = Field(
        description="Next instant. Null: there is none, or an event starts it."
    )
    skips: list[RunView] = Field(description="Records of these skips, newest first.")


class RunAnswer(Answer):
    """The ID of the started job."""

    id: JobId


class PauseDefinitionRequest(Request):
    """A pause of a definition."""

    reason: str = Field("", max_length=MAX_REASON, description="Reason for the pause, for people.")


class BackfillRequest(Request):
    """The instants for which to start jobs now. `from` is included, `to` is not."""

    from_: Instant = Field(alias="from")
    to: Instant
    dry_run: bool = Field(False, description="True: only count the instants, and start no job.")
    also_forgotten: bool = Field(
        False,
        description=(
            "True: also start the jobs of instants without a run record, because old records are "
            "not kept. These jobs may have been started before. False: a range with such instants "
            "is refused."
        ),
    )


class BackfillAnswer(Answer):
    """The instants of a backfill."""

    due: int = Field(description="Number of instants in the range.")
    fired_before: int = Field(description="Number of these instants that have already started a job.")
    forgotten: int = Field(
        description=(
            "Number of these instants with a run record that is no longer kept. Nobody knows "
            "whether these instants have started a job."
        ),
        json_schema_extra=SINCE,
    )
    forgotten_until: Timestamp | None = Field(
        description="Run records up to this instant may have been removed. Null: no record was removed.",
        json_schema_extra=SINCE,
    )
    started: int | None = Field(description="Number of started jobs. Null with `dry_run`.")
