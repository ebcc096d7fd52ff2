"""What travels over HTTP about constraints."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, WithJsonSchema

from jqmaster.api.jobs.schemas import JobSummary
from jqmaster.api.schemas import Answer, JobId, Request, Seconds, Timestamp
from jqmaster.domain import matcher as matchers
from jqmaster.domain.constraint import (
    MAX_BACKLOG,
    MAX_CONCURRENCY,
    MAX_OVERRIDES,
    MAX_PERIOD_MS,
    MAX_RATE,
    Mode,
)
from jqmaster.domain.constraint import NAME_PATTERN as CONSTRAINT_NAME_PATTERN
from jqmaster.errors import FieldError, InvalidError
from jqmaster.service.constraints.constraints import AskedValue

_MATCHER: Final = {"$ref": "#/components/schemas/Matcher"}
# Each has a name of its own: generators lose their way in a union of nameless maps that holds itself.
MATCHER_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    **{
        name: {
            "type": "object",
            "description": text,
            "properties": {kind: {"type": "array", "items": _MATCHER, "minItems": 1}},
            "required": [kind],
            "additionalProperties": False,
        }
        for name, kind, text in (
            ("AllMatcher", "all", "Each of these matches."),
            ("AnyMatcher", "any", "One of these matches, or several."),
        )
    },
    "NotMatcher": {
        "type": "object",
        "description": "This does not match.",
        "properties": {"not": _MATCHER},
        "required": ["not"],
        "additionalProperties": False,
    },
    "Condition": {
        "type": "object",
        "description": "One field compares so with a value.",
        "properties": {
            "field": {
                "type": "string",
                "maxLength": matchers.MAX_TEXT,
                "description": f'{", ".join(matchers.FIELDS)}; headers.KEY; argument.a.b[0]["any key"], '
                f"{matchers.MAX_PATH_SEGMENTS} steps at most.",
            },
            "op": {"type": "string", "enum": list(matchers.OPS)},
            "value": {
                "description": f"A scalar of at most {matchers.MAX_TEXT} characters or bytes; for `in` 1 to "
                f"{matchers.MAX_IN_VALUES} of them; for `exists` a boolean (true). glob knows *, ? and [abc]."
            },
        },
        "required": ["field", "op"],
        "additionalProperties": False,
    },
    "Matcher": {
        "description": (
            "Selects jobs. A path that leads nowhere and a value of another type match nothing, not even `ne`; `exists` "
            "with false asks for a missing path. Numbers compare exactly, a boolean is no number, binary no text. tags "
            f"match when any tag does, `ne` when none is equal. At most {matchers.MAX_NODES} conditions, "
            f"{matchers.MAX_DEPTH} deep."
        ),
        "oneOf": [
            {"$ref": f"#/components/schemas/{name}"}
            for name in ("AllMatcher", "AnyMatcher", "NotMatcher", "Condition")
        ],
    },
}
# pydantic knows no schema but its own models: openapi.py makes a reference of it.
MatcherDocument = Annotated[Any, WithJsonSchema({"x-schema": "Matcher"})]
KeyPath = Annotated[
    str,
    Field(
        description="A path as in matchers; each of its values has limits of its own. A job without it is not limited.",
        examples=["argument.host"],
        json_schema_extra={"maxLength": matchers.MAX_TEXT},
    ),
]
KeyScalar = Annotated[
    Any, WithJsonSchema({"description": "A value of the key: null, a boolean, a number, text or binary."})
]


# Bounds are written down here and judged by domain/constraint.py, which says what to do instead.
def _bounded(least: float, most: float, description: str) -> Any:
    return Field(description=description, json_schema_extra={"minimum": least, "maximum": most})


Concurrency = Annotated[int, _bounded(1, MAX_CONCURRENCY, "Jobs that run at once.")]


class RateRequest(Request):
    """At most `limit` starts in any window of `period_s` seconds."""

    limit: Annotated[int, _bounded(1, MAX_RATE, "Starts.")]
    period_s: Annotated[Seconds, _bounded(0.001, MAX_PERIOD_MS / 1000, "Seconds.")]


class OverrideRequest(Request):
    """Other limits for one value of the key; null: as the constraint has it. `paused` adds to its pause."""

    value: KeyScalar
    concurrency: Concurrency | None = None
    rate: RateRequest | None = None
    paused: bool = False


class ConstraintRequest(Request):
    """The whole constraint: what is left out has its default, also when one is changed. Several kinds may be given at
    once, and all must admit a job, as must all constraints that match it."""

    name: Annotated[str, Field(pattern=CONSTRAINT_NAME_PATTERN)] | None = Field(
        None, description="If given, as in the path."
    )
    enabled: bool = True
    mode: Literal["enforce", "shadow"] = Field(
        "enforce", description="shadow: count what would be delayed, and delay nothing."
    )
    matcher: MatcherDocument = Field(description="Which jobs.")
    key: KeyPath | None = None
    concurrency: Concurrency | None = None
    rate: RateRequest | None = None
    paused: bool | None = Field(None, description="True: nothing starts; what runs goes on.")
    max_backlog: Annotated[int, _bounded(0, MAX_BACKLOG, "Waiting jobs; a push beyond gets 429.")] | None = (
        None
    )
    fair: bool = Field(False, description="Within a priority the values of the key take turns.")
    overrides: list[OverrideRequest] = Field(
        default_factory=list, json_schema_extra={"maxItems": MAX_OVERRIDES}
    )


class ValueRequest(Request):
    """What holds for one value of the key; nothing but the value: as for all values. Give either `value` or `job_id`."""

    value: KeyScalar = None
    job_id: JobId | None = Field(
        None,
        description="Instead of value: the value that this job has. So can one be limited that nobody may see.",
    )
    concurrency: Concurrency | None = None
    rate: RateRequest | None = None
    paused: bool | None = None

    def addressed(self) -> AskedValue | str:
        """The value, or the ID of a job that has it. Raises InvalidError unless one of them is given."""
        if ("value" in self.model_fields_set) == (self.job_id is not None):
            raise InvalidError(
                "the request is not valid", errors=[FieldError(("value",), "give either value or job_id")]
            )
        return AskedValue(self.value) if self.job_id is None else self.job_id


class PreviewRequest(Request):
    """Which waiting jobs would a constraint apply to?"""

    matcher: MatcherDocument
    key: KeyPath | None = None
    limit: int = Field(20, ge=0, le=20, description="Most examples.")


class RateView(Answer):
    """At most `limit` starts in any window of `period_s` seconds."""

    limit: int
    period_s: float


class OverrideView(Answer):
    """Other limits for one value of the key; null: as the constraint has it."""

    value: KeyScalar
    concurrency: int | None
    rate: RateView | None
    paused: bool


class UsageView(Answer):
    """What the constraint does now. Null: nothing counts it; or, in a list where constraints have more than 1,000 values
    of keys together, not summed up, and `is_exact` is false."""

    waiting: int | None = Field(description="Unfinished jobs behind it that do not run, due or not.")
    running: int | None = Field(description="Jobs that have a slot; null without `concurrency`.")
    starts_in_window: int | None = Field(description="Null without `rate`.")
    shadow_delayed: int = Field(description="Starts that a shadow constraint would have delayed so far.")
    next_opening: Timestamp | None = Field(
        description="When the first of its closed gates opens by time alone; null where none does."
    )
    in_force: bool = Field(description="Every job has been matched with the constraint as it is.")
    keys: int | None = Field(description="Values of the key that unfinished jobs have; null without a key.")
    is_exact: bool = Field(description="False: there are more values than were looked at.")


class ConstraintView(Answer):
    """A constraint."""

    name: str
    enabled: bool
    mode: Mode
    matcher: MatcherDocument
    key: str | None
    concurrency: int | None
    rate: RateView | None
    paused: bool
    max_backlog: int | None
    fair: bool
    overrides: list[OverrideView]
    values_hidden: bool = Field(
        description="True: the values of the key are not shown to the caller; in their place stands `[hidden]`, or `[redacted]` "
        "where nobody sees them. So do constants that the matcher compares with such values. A constraint that is sent "
        "back with them keeps what they stand for."
    )
    etag: str = Field(description="Changes with every change; the ETag header has it in quotes.")
    created_at: Timestamp
    changed_at: Timestamp


class ListedConstraint(ConstraintView):
    """A constraint as lists show it."""

    usage: UsageView


class ConstraintList(Answer):
    """All constraints, by name."""

    constraints: list[ListedConstraint]


class LimitsView(Answer):
    """What holds for one value."""

    concurrency: int | None
    rate: RateView | None
    paused: bool


class KeyUsageView(Answer):
    """One value of the key."""

    value: str = Field(
        description="For people: text as it is unless it could be read as another value, else JSON; binary as 0x…; of at "
        "most 128 characters."
    )
    waiting: int
    running: int | None
    starts_in_window: int | None
    limits: LimitsView
    held_until: Timestamp | None = Field(description="A worker asked for it.")
    next_opening: Timestamp | None
    is_open: bool = Field(description="A job could start now, as far as this constraint goes.")


class HolderView(Answer):
    """A running job that has a slot."""

    job_id: JobId
    worker_id: str
    since: Timestamp
    value: str | None = Field(description="Of the key, for people; null without a key.")


class ConstraintDetail(ConstraintView):
    """A constraint, and what it does now."""

    usage: UsageView
    held_until: Timestamp | None = Field(description="A worker asked for it; without a key.")
    top_keys: list[KeyUsageView] = Field(description="Values with the most waiting jobs, up to 20.")
    value: KeyUsageView | None = Field(description="The one that was asked for.")
    holders: list[HolderView] = Field(description="Up to 50; of the value that was asked for, or of all.")


class KeyCount(Answer):
    """Waiting jobs with one value of the key."""

    value: str
    count: int


class PreviewAnswer(Answer):
    """The waiting jobs that a constraint would apply to."""

    count: int
    without_key: int = Field(
        description="Jobs that match and lack the key, so that it would not apply to them."
    )
    looked_at: int = Field(description="Jobs that had to be read one by one.")
    is_exact: bool = Field(description="False: there were more jobs than could be read in bounds.")
    examples: list[JobSummary]
    keys: list[KeyCount] | None = Field(description="The most frequent values of the key, up to 20.")
    distinct_keys: int | None
