"""HTTP models of constraints."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from jqmaster.api.http.problems import UNNAMED
from jqmaster.api.schemas import (
    NAME_PATTERN,
    SINCE,
    Answer,
    Instant,
    JobId,
    MatcherDocument,
    Request,
    Seconds,
    ShortText,
    Timestamp,
)
from jqmaster.domain.constraints.constraint import MAX_OVERRIDES, MAX_REASON, Mode
from jqmaster.domain.constraints.constraint import NAME_PATTERN as CONSTRAINT_NAME_PATTERN
from jqmaster.domain.constraints.limit_kind import Figure
from jqmaster.domain.constraints.limit_kinds import BACKLOG, CONCURRENCY, MAX_RESERVATIONS, RATE
from jqmaster.domain.constraints.turns import MAX_SHARE, MAX_SHARES, MIN_SHARE
from jqmaster.domain.constraints.weight import DEFAULT_UNIT, MAX_UNITS, UNIT_PATTERN
from jqmaster.domain.matching.checks import MAX_TEXT
from jqmaster.domain.matching.fields import FIELDS
from jqmaster.domain.matching.matcher import MAX_DEPTH, MAX_NODES, OPS
from jqmaster.domain.matching.paths import MAX_PATH_SEGMENTS
from jqmaster.domain.matching.value_tests import MAX_IN_VALUES
from jqmaster.errors import FieldError, InvalidError
from jqmaster.service.constraints.key_values import ValueId
from jqmaster.service.constraints.pauses import MAX_PAUSE_S, PauseTarget
from jqmaster.service.constraints.reader import AskedValue

VALUE_ID_PATTERN: Final = r"^[0-9a-f]{16}$"
_MATCHER: Final = {"$ref": "#/components/schemas/Matcher"}
# The schemas of matchers by name. They need names because client generators cannot handle a recursive union of
# anonymous maps.
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
            ("AllMatcher", "all", "Matches if all of these match."),
            ("AnyMatcher", "any", "Matches if at least one of these matches."),
        )
    },
    "NotMatcher": {
        "type": "object",
        "description": "Matches if this does not match.",
        "properties": {"not": _MATCHER},
        "required": ["not"],
        "additionalProperties": False,
    },
    "Condition": {
        "type": "object",
        "description": "Compares one field with a value.",
        "properties": {
            "field": {
                "type": "string",
                "maxLength": MAX_TEXT,
                "description": (
                    f'{", ".join(FIELDS)}; headers.KEY; argument.a.b[0]["any key"], at most '
                    f"{MAX_PATH_SEGMENTS} segments."
                ),
            },
            "op": {"type": "string", "enum": list(OPS)},
            "value": {
                "description": (
                    f"A scalar of at most {MAX_TEXT} characters or bytes. For `in`: a list of 1 "
                    f"to {MAX_IN_VALUES} scalars. For `exists`: a boolean, true by default. "
                    "Patterns of `glob` may contain *, ? and [abc]."
                )
            },
        },
        "required": ["field", "op"],
        "additionalProperties": False,
    },
    "Matcher": {
        "description": (
            "Selects jobs. A missing path, or a value of another type, matches nothing, not even `ne`. Use "
            "`exists` with false to test for a missing path. Numbers compare exactly. Booleans are not "
            "numbers, and binary is not text. A condition on `tags` matches if any tag matches; with `ne`, "
            f"it matches if no tag is equal. At most {MAX_NODES} conditions, nested at most {MAX_DEPTH} "
            "levels deep."
        ),
        "oneOf": [
            {"$ref": f"#/components/schemas/{name}"}
            for name in ("AllMatcher", "AnyMatcher", "NotMatcher", "Condition")
        ],
    },
}
KeyPath = Annotated[
    str,
    Field(
        description=(
            "Path, as in matchers. Each value at this path has separate limits. A job without the key "
            "is not limited."
        ),
        examples=["argument.host"],
        json_schema_extra={"maxLength": MAX_TEXT},
    ),
]
KeyScalar = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": "A value of the key: null, a boolean, a number, text, binary, or a list or map of them."
        }
    ),
]


# These bounds are only shown in the OpenAPI document. `limit_kinds` checks them, with better error messages.
def _bounded(figure: Figure, description: str) -> Any:
    return Field(description=description, json_schema_extra={"minimum": figure.least, "maximum": figure.most})


Concurrency = Annotated[int, _bounded(CONCURRENCY.figures[0], "Maximum number of jobs that run at once.")]


class RateRequest(Request):
    """At most `limit` starts in any window of `period_s` seconds."""

    limit: Annotated[int, _bounded(RATE.figures[0], "Starts.")]
    period_s: Annotated[Seconds, _bounded(RATE.figures[1], "Seconds.")]


class WeightRequest(Request):
    """How many units of `concurrency` and `rate` a job takes. With a weight, `concurrency` and `rate` count units
    instead of jobs, and may be up to 1,000,000,000."""

    # Serialize the fields under the names that clients send, because the code that reads a request expects these
    # names.
    model_config = ConfigDict(serialize_by_alias=True)

    from_: str | None = Field(
        None,
        alias="from",
        description="Path of a number in the job, such as argument.max_tokens. More than three decimals are rounded "
        "up. Null: every job weighs `default`.",
        json_schema_extra={"maxLength": MAX_TEXT},
    )
    default: int | float = Field(
        1,
        description=(
            "Weight of a job that lacks the path, or has no number or a negative number there. At most "
            "three decimals."
        ),
        json_schema_extra={"minimum": 0, "maximum": MAX_UNITS},
    )
    unit: str = Field(
        DEFAULT_UNIT,
        description="Name of the unit. The field `used` of results has the same name for it.",
        json_schema_extra={"pattern": UNIT_PATTERN},
    )


_SHARE_BOUNDS: Final[dict[str, Any]] = {"minimum": MIN_SHARE, "maximum": MAX_SHARE}


class TurnShareRequest(Request):
    """The share of turns of one value of the key."""

    value: KeyScalar
    weight: float = Field(
        description=(
            "Share of turns. A value with share 10 has ten turns while a value with share 1 has one turn."
        ),
        json_schema_extra=_SHARE_BOUNDS,
    )


class FairRequest(Request):
    """Turns of the key's values, in proportion to their shares."""

    weights: list[TurnShareRequest] = Field(default_factory=list, json_schema_extra={"maxItems": MAX_SHARES})
    default: float = Field(
        1, description="Share of all other values of the key.", json_schema_extra=_SHARE_BOUNDS
    )


class ReservationRequest(Request):
    """Slots of the concurrency limit that only the jobs of a matcher may use."""

    matcher: MatcherDocument = Field(description="Selects the jobs that may use the slots.")
    concurrency: int = Field(description="Number of reserved slots.", json_schema_extra={"minimum": 1})


class OverrideRequest(Request):
    """Limits for one value of the key (`value`), or for all values with jobs that a matcher selects (`match`). A
    limit that is null: the constraint's own limit applies. `paused` pauses these values even if the constraint is
    not paused."""

    value: KeyScalar = None
    match: MatcherDocument | None = Field(
        None,
        description=(
            "Instead of `value`: selects jobs, such as those with `argument.plan` equal to `pro`. Each "
            "value of the key has these limits for itself. If several overrides match, the first applies. "
            "An override with `value` takes precedence. If the matcher selects only some of a value's jobs, "
            "the job that was pushed last decides."
        ),
    )
    concurrency: Concurrency | None = None
    rate: RateRequest | None = None
    paused: bool = False

    @model_serializer(mode="wrap")
    def _given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Leave the field out if it was not given, because null is a valid value of a key.
        fields: dict[str, Any] = serialize(self)
        if "value" not in self.model_fields_set:
            fields.pop("value", None)
        return fields


class ConstraintRequest(Request):
    """A whole constraint. Omitted fields get their defaults, even if the request replaces an existing constraint.
    A job starts only if all limits of all matching constraints admit the job."""

    name: Annotated[str, Field(pattern=CONSTRAINT_NAME_PATTERN)] | None = Field(
        None, description="If given, it must equal the name in the path."
    )
    enabled: bool = True
    mode: Literal["enforce", "shadow"] = Field(
        "enforce", description="shadow: count the starts that would be delayed, and delay none."
    )
    matcher: MatcherDocument = Field(description="Selects the jobs.")
    key: KeyPath | None = None
    concurrency: Concurrency | None = None
    rate: RateRequest | None = None
    paused: bool | None = Field(None, description="True: no job starts. Running jobs continue.")
    max_backlog: (
        Annotated[
            int, _bounded(BACKLOG.figures[0], "Maximum number of waiting jobs. A push beyond it gets 429.")
        ]
        | None
    ) = None
    fair: Annotated[
        Annotated[bool, Tag(UNNAMED + "switch")] | Annotated[FairRequest, Tag(UNNAMED + "weights")],
        Discriminator(
            lambda given: UNNAMED + ("weights" if isinstance(given, dict | FairRequest) else "switch")
        ),
    ] = Field(
        False,
        description=(
            "Let the values of the key take turns within each priority: `true` for equal turns, a map "
            "for turns in proportion to shares."
        ),
    )
    reserve: list[ReservationRequest] = Field(
        default_factory=list,
        description="Slots that only some jobs may use. Requires `concurrency`; with a `key`, each value has them.",
        json_schema_extra={"maxItems": MAX_RESERVATIONS},
    )
    counts_awaiting: bool = Field(
        True,
        description=(
            "False: a job occupies a slot of the concurrency limit only until the job hands its "
            "work to another system. The slot is free while the job awaits its callback. The run "
            "that handles the callback needs no slot."
        ),
    )
    weight: WeightRequest | None = Field(
        None, description="Count units instead of jobs. Null: `concurrency` and `rate` count jobs."
    )
    overrides: list[OverrideRequest] = Field(
        default_factory=list, json_schema_extra={"maxItems": MAX_OVERRIDES}
    )
    reason: str = Field(
        "", description="Why the constraint exists, for people.", json_schema_extra={"maxLength": MAX_REASON}
    )
    expires_at: Instant | None = Field(
        None, description="The constraint is deleted at this time. Null: it stays until somebody deletes it."
    )


class ValueRequest(Request):
    """The override for one value of the key. Give exactly one of `value`, `value_id` and `job_id`. If no other
    field is given, the override is removed."""

    value: KeyScalar = None
    value_id: Annotated[str, Field(pattern=VALUE_ID_PATTERN)] | None = Field(
        None, description="The `id` of the value, as the constraint's answer shows it."
    )
    job_id: JobId | None = Field(
        None,
        description="ID of a job with this value of the key. It also names values that nobody may see.",
    )
    concurrency: Concurrency | None = None
    rate: RateRequest | None = None
    paused: bool | None = None

    def addressed(self) -> AskedValue | ValueId | str:
        """Return the value, its ID, or the ID of a job with the value. Raise InvalidError if the request gives
        none or several of them."""
        given: list[AskedValue | ValueId | str] = [
            *([AskedValue(self.value)] if "value" in self.model_fields_set else []),
            *([ValueId(self.value_id)] if self.value_id is not None else []),
            *([self.job_id] if self.job_id is not None else []),
        ]
        if len(given) != 1:
            raise InvalidError(
                "the request is not valid",
                errors=[FieldError(("value",), "give exactly one of value, value_id and job_id")],
            )
        return given[0]


class PauseRequest(Request):
    """Pauses jobs. Give exactly one of `job_name`, `tag` and `constraint`. If the constraint has a key, you can
    pause one value of this key by `value` or `value_id`."""

    job_name: Annotated[str, Field(pattern=NAME_PATTERN)] | None = Field(
        None, description="Pause the jobs of this name."
    )
    tag: ShortText | None = Field(None, description="Pause the jobs with this tag.")
    constraint: Annotated[str, Field(pattern=CONSTRAINT_NAME_PATTERN)] | None = Field(
        None, description="Pause the jobs that this constraint matches."
    )
    value_id: Annotated[str, Field(pattern=VALUE_ID_PATTERN)] | None = Field(
        None,
        description=(
            "Pause only the jobs of one value of the constraint's key: the value with this ID. The "
            "constraint's answer shows the `id` of each value."
        ),
    )
    value: KeyScalar = Field(
        None,
        description="Pause only the jobs with this value of the constraint's key. An explicit null is a value, "
        "too.",
    )
    reason: str = Field(
        "", description="Reason for the pause, for people.", json_schema_extra={"maxLength": MAX_REASON}
    )
    duration_s: Annotated[Seconds, Field(gt=0, le=MAX_PAUSE_S)] | None = Field(
        None, description="Seconds until the pause ends by itself. Null: until somebody ends it."
    )

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if sum(one is not None for one in (self.job_name, self.tag, self.constraint)) != 1:
            raise ValueError("give exactly one of job_name, tag and constraint")
        values = ("value" in self.model_fields_set) + (self.value_id is not None)
        if values and self.constraint is None:
            raise ValueError("value and value_id require constraint")
        if values > 1:
            raise ValueError("give value or value_id, not both")
        return self

    def to_target(self) -> PauseTarget:
        value = AskedValue(self.value) if "value" in self.model_fields_set else None
        by_id = None if self.value_id is None else ValueId(self.value_id)
        return PauseTarget(self.job_name, self.tag, self.constraint, value or by_id)


class RateView(Answer):
    """At most `limit` starts in any window of `period_s` seconds."""

    limit: int
    period_s: float


class WeightView(Answer):
    """How many units of `concurrency` and `rate` a job takes."""

    from_: str | None = Field(
        alias="from", description="Path of a number in the job. Null: every job weighs `default`."
    )
    default: int | float = Field(description="Weight of a job without a number at that path.")
    unit: str


class TurnShareView(Answer):
    """The share of turns of one value of the key."""

    value: KeyScalar
    weight: float


class FairView(Answer):
    """Turns of the key's values, in proportion to their shares."""

    weights: list[TurnShareView]
    default: float = Field(description="Share of all other values of the key.")


class ReservationView(Answer):
    """Slots of the concurrency limit that only the jobs of a matcher may use."""

    matcher: MatcherDocument
    concurrency: int


class OverrideView(Answer):
    """Limits for one value of the key, or for all values with jobs that `match` selects. A limit that is null:
    the constraint's own limit applies."""

    value: KeyScalar
    match: MatcherDocument | None = Field(
        None, description="Matcher that selects the jobs. Null if the override has a `value`."
    )
    concurrency: int | None
    rate: RateView | None
    paused: bool


class ObservedView(Answer):
    """The remaining capacity of another system, as a worker reported it."""

    remaining: int | float = Field(description="Units, or jobs if the constraint has no `weight`.")
    until: Timestamp


class UsageView(Answer):
    """Current usage of the constraint. A number is null if the constraint does not count it.

    If the constraints of a list have more than 1,000 key values in total, some numbers are not added up. They are
    null, and `is_exact` is false."""

    waiting: int | None = Field(
        description="Unfinished jobs to which the constraint applies and that are not running, whether or not they "
        "are due."
    )
    running: int | None = Field(
        description="Jobs that hold a slot. Null if the constraint has no `concurrency`."
    )
    starts_in_window: int | None = Field(description="Null if the constraint has no `rate`.")
    shadow_delayed: int = Field(description="Starts that a shadow constraint would have delayed so far.")
    next_opening: Timestamp | None = Field(
        description=(
            "Time at which the first closed gate of the constraint opens. Null if no gate has "
            "a known opening time."
        )
    )
    in_force: bool = Field(description="True: every job has been matched against the current constraint.")
    keys: int | None = Field(
        description="Number of different key values of the unfinished jobs. Null if the "
        "constraint has no key."
    )
    held: int | None = Field(
        None,
        description=(
            "Number of the `waiting` jobs that wait at a closed gate of this constraint, and so "
            "cannot start now."
        ),
    )
    closed_keys: int | None = Field(
        None,
        description="Number of key values with jobs that wait at a closed gate. Null if the constraint has no "
        "key.",
    )
    is_exact: bool = Field(description="False: there are more key values than were examined.")
    running_units: int | float | None = Field(
        None,
        description="Units of running jobs. Null if the constraint has no `weight` or no `concurrency`.",
        json_schema_extra=SINCE,
    )
    units_in_window: int | float | None = Field(
        None,
        description=(
            "Units of the starts within the period. Null if the constraint has no `weight` or no `rate`."
        ),
        json_schema_extra=SINCE,
    )


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
    fair: bool | FairView = Field(
        description=(
            "True or false: whether the values of the key take turns. A map: they take turns in "
            "proportion to these shares."
        )
    )
    reserve: list[ReservationView] = Field(
        default_factory=list, description="Slots that only some jobs may use.", json_schema_extra=SINCE
    )
    counts_awaiting: bool = Field(
        description="Whether jobs that await callbacks occupy slots of the concurrency limit.",
        json_schema_extra=SINCE,
    )
    weight: WeightView | None = Field(
        None,
        description="Null: `concurrency` and `rate` count jobs. Otherwise they count units.",
        json_schema_extra=SINCE,
    )
    overrides: list[OverrideView]
    reason: str = Field("", description="Why the constraint exists, for people.")
    expires_at: Timestamp | None = Field(
        None, description="Time at which the constraint is deleted. Null: it stays."
    )
    created_by: str | None = Field(
        None,
        description="The user or token that created the constraint. Null if it was created by an earlier "
        "release.",
    )
    values_hidden: bool = Field(
        description=(
            "True: `[hidden]` stands in place of the key's values, or `[redacted]` if nobody may "
            "see them. The matcher's constants for such values are replaced, too. If you send the "
            "constraint back with these placeholders, it keeps the original values."
        )
    )
    etag: str = Field(
        description="Version tag that changes with every change. The ETag header holds it in quotes."
    )
    created_at: Timestamp
    changed_at: Timestamp


class ListedConstraint(ConstraintView):
    """A constraint in a list."""

    usage: UsageView


class ConstraintList(Answer):
    """All constraints, sorted by name."""

    constraints: list[ListedConstraint]


class LimitsView(Answer):
    """The limits for one value."""

    concurrency: int | None
    rate: RateView | None
    paused: bool


class KeyUsageView(Answer):
    """One value of the key."""

    id: str | None = Field(
        None,
        description="ID of the value, for any type and length. Send it as `value_id`. Null if you may not see the "
        "value.",
    )
    value: str = Field(
        description=(
            "The value for people, in at most 128 characters: plain text, or JSON if plain text "
            "would be ambiguous. Binary is shown as 0x…."
        )
    )
    waiting: int
    running: int | None
    starts_in_window: int | None
    limits: LimitsView
    own_limits: LimitsView | None = Field(
        None, description="The override of this value. Null if it has none."
    )
    running_units: int | float | None = Field(None, json_schema_extra=SINCE)
    units_in_window: int | float | None = Field(None, json_schema_extra=SINCE)
    observed: ObservedView | None = Field(None, json_schema_extra=SINCE)
    held_until: Timestamp | None = Field(description="End of the hold that a worker requested.")
    next_opening: Timestamp | None
    is_open: bool = Field(description="True: this constraint would let a job start now.")


class HolderView(Answer):
    """A running job that holds a slot."""

    job_id: JobId
    worker_id: str
    since: Timestamp
    value: str | None = Field(description="The job's value of the key, for people. Null without a key.")


class ConstraintDetail(ConstraintView):
    """A constraint and its current usage."""

    usage: UsageView
    held_until: Timestamp | None = Field(
        description="End of the hold that a worker requested. Only for a constraint without a key."
    )
    observed: ObservedView | None = Field(
        None,
        description="The remaining capacity of another system. Only for a constraint without a key.",
        json_schema_extra=SINCE,
    )
    top_keys: list[KeyUsageView] = Field(description="Up to 20 values with the most waiting jobs.")
    value: KeyUsageView | None = Field(description="The requested value.")
    holders: list[HolderView] = Field(
        description=(
            "Up to 50 holders: those of the requested value, or of all values if no value is requested."
        )
    )
