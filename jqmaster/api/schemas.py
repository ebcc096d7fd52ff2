"""Base classes and types of all HTTP models. The models check requests and define the OpenAPI document.

Requests are closed: unknown fields are refused. They are also strict: a field for an integer accepts no boolean,
and a field for a number accepts no string."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from jqmaster.api.http.query import query_error
from jqmaster.domain.ids import ID_PATTERN
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.matching.requirement import MAX_REQUIRED

NAME_PATTERN: Final = r"^[A-Za-z0-9_.:/-]{1,200}$"
TOKEN_PATTERN: Final = r"^[0-9a-f]{32}$"  # noqa: S105 - a pattern
DAY_S: Final = 86_400
LATEST_MS: Final = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)

_ISO_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


_INSTANT_RULE: Final = "must be ISO 8601 with an offset, such as 2026-11-21T04:30:00Z"


def instant_ms(value: object) -> int:
    """Return an instant from a client in Unix milliseconds. Raise ValueError with the expected form."""
    if isinstance(value, str):
        if len(value) > 40 or not _ISO_UTC.fullmatch(value):
            raise ValueError(f"{_INSTANT_RULE}, not {value[:40]!a}")
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"{_INSTANT_RULE}, not {value!a}: {error}") from None
    if not isinstance(value, datetime):
        raise ValueError("must be an ISO 8601 string or a MessagePack timestamp")
    ms = int(value.timestamp() * 1000)
    if not 0 <= ms <= LATEST_MS:
        raise ValueError("must lie between 1970 and 2100")
    return ms


def query_instant(query: dict[str, str], name: str) -> int | None:
    """Return the query parameter `name` in Unix milliseconds, or None if it is absent. Raises InvalidError."""
    text = query.get(name)
    if text is None:
        return None
    try:
        return instant_ms(text)
    except ValueError:
        raise query_error(
            name, "ISO 8601 with an offset, such as 2026-11-21T04:30:00Z, between 1970 and 2100"
        ) from None


def is_instant(value: object) -> bool:
    """Return whether `instant_ms` accepts the value."""
    try:
        instant_ms(value)
    except (ValueError, OverflowError):
        return False
    return True


Instant = Annotated[
    int,
    BeforeValidator(instant_ms),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-11-21T04:30:00Z"]}),
]
Seconds = Annotated[float, Field(allow_inf_nan=False)]
Timestamp = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-11-21T04:30:00.123Z"]})
]
# One encoded MessagePack value. The Python type of the field is bytes, but in the API the field is a value of any
# type.
AnyValue = Annotated[
    bytes, WithJsonSchema({"description": 'Any value. In JSON, binary is {"$bin": base64}.'})
]
Binary = Annotated[bytes, WithJsonSchema({"description": 'Binary. In JSON: {"$bin": base64}.'})]
JobId = Annotated[
    str,
    Field(
        pattern=ID_PATTERN,
        examples=["0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"],
        description="UUID in lower case. Masters generate UUIDv7.",
    ),
]
Token = Annotated[str, Field(pattern=TOKEN_PATTERN, examples=["9f86d081884c7d659a2feaa0c55ad015"])]
# Marks a field that holds a matcher. openapi.py replaces the mark by a reference, because pydantic cannot refer
# to schemas outside its own models.
MatcherDocument = Annotated[Any, WithJsonSchema({"x-schema": "Matcher"})]
Count = Annotated[int, Field(ge=0)]
Milliseconds = Annotated[int, Field(ge=0)]
ShortText = Annotated[str, Field(min_length=1, max_length=64)]
# Labels that a job requires of its worker, with the same bounds as workers' labels.
Requires = Annotated[
    dict[ShortText, Annotated[str, Field(max_length=200)]], Field(min_length=1, max_length=MAX_REQUIRED)
]
StoredText = Annotated[str, Field(max_length=1024)]


# Marks a field that older masters do not return, so that the OpenAPI documents do not require it.
LATER: Final = "x-later"
SINCE: Final[dict[str, Any]] = {LATER: True}


def unreserved(name: str) -> str:
    """Check that a job name is not reserved, and return it. Raise ValueError for a name that only masters use."""
    if name.startswith(RESERVED_PREFIX):
        raise ValueError(f"names that begin with {RESERVED_PREFIX} are reserved")
    return name


JobName = Annotated[
    str,
    Field(pattern=NAME_PATTERN, description="Kind of job. It selects the handler."),
    AfterValidator(unreserved),
]


class Request(BaseModel):
    """Base of all requests."""

    # Build a validator at the first request that needs it. Building one takes at most 4 ms. Otherwise, each start
    # would build all validators.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class Answer(BaseModel):
    """Base of all answers. New fields may be added."""

    # A start builds no validators of answers, because these models only describe the values that handlers return.
    model_config = ConfigDict(frozen=True, defer_build=True)


class Distribution(Answer):
    """Statistics of durations. Percentiles are estimated from a histogram with two buckets for each doubling of
    the duration."""

    count: Count
    p50_ms: Milliseconds
    p95_ms: Milliseconds
    p99_ms: Milliseconds
    max_ms: Milliseconds = Field(description="Longest duration, exact.")


class ProblemField(Answer):
    """One invalid field: its path, and its fault."""

    loc: list[str | int]
    msg: str


# The enum is open, because a newer master may send codes that an older document does not list.
_CODE_SCHEMA: Final = {
    "anyOf": [{"$ref": "#/components/schemas/ProblemCode"}, {"type": "string"}],
    "description": (
        "Stable code for programs. docs/errors.md describes all codes. Future releases may add codes. Treat "
        "an unknown code according to the status."
    ),
}


class Problem(Answer):
    """RFC 9457; at most 4 KiB."""

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, WithJsonSchema(_CODE_SCHEMA)]
    errors: list[ProblemField]
    job_id: JobId = Field(
        description=(
            "The job that holds the uniqueness key. Sent only with the codes not_unique and offer_under_way."
        ),
        json_schema_extra=SINCE,
    )
    stored_after: int = Field(
        ge=0,
        description=(
            "Position at which the part of the log in the store begins. Pass it as `after` to read "
            "that part without the archive. Sent only with the code archive_unavailable, if the "
            "store still has part of the log."
        ),
        json_schema_extra=SINCE,
    )
