"""HTTP models of targets."""

from typing import Annotated, Literal

from pydantic import Field

from jqmaster.api.schemas import (
    Answer,
    AnyValue,
    Count,
    Distribution,
    JobId,
    JobName,
    Milliseconds,
    Request,
    Seconds,
    Timestamp,
)
from jqmaster.domain.notices.webhook import MAX_URL_CHARS
from jqmaster.domain.targets.answer import DeliveryResult
from jqmaster.domain.targets.target import (
    DEFAULT_FINAL,
    DEFAULT_NOT_READY_S,
    DEFAULT_OK,
    DEFAULT_RUNNING,
    MAX_DESCRIPTION,
    MAX_HEADER_CHARS,
    MAX_HEADERS,
    MAX_HOSTS,
    MAX_NAME_CHARS,
    MAX_NAMES,
    MAX_NOT_READY_S,
    MAX_RUNNING,
    MAX_SERVED,
    MAX_STATUSES,
    MAX_TIMEOUT_S,
    NAME_PATTERN,
    BodyForm,
)

TargetName = Annotated[str, Field(pattern=NAME_PATTERN, examples=["shop"])]
Method = Literal["POST", "PUT", "PATCH", "GET", "DELETE"]
_Url = Annotated[str, Field(min_length=1, max_length=MAX_URL_CHARS)]
_Status = Annotated[int, Field(ge=200, le=599)] | Annotated[str, Field(max_length=3)]
_Statuses = Annotated[list[_Status], Field(max_length=MAX_STATUSES)]
_Hosts = Annotated[list[Annotated[str, Field(min_length=1, max_length=255)]], Field(max_length=MAX_HOSTS)]


class AddressSource(Request):
    """The place of a URL in the argument of each job."""

    from_: str = Field(
        alias="from",
        max_length=500,
        description="Path in the argument, such as argument.url. Its host must be in `allow_hosts`.",
    )


class TargetRequest(Request):
    """A target to create or replace."""

    name: TargetName | None = Field(
        None, description=("If this field is given, it must equal the name in the path.")
    )
    names: list[Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]] = Field(
        min_length=1,
        max_length=MAX_NAMES,
        description=(
            "Job names, and patterns with *, ? and [abc]. If workers also serve a listed name, they share "
            "its jobs with the target. A pattern does not apply to names that workers serve. A listed name "
            "takes precedence over patterns, and a longer pattern over a shorter pattern."
        ),
    )
    url: _Url | AddressSource = Field(
        description=(
            "Address to call. Its path and query may contain the placeholders {name} and {job_id}. "
            'Or {"from": "argument.url"}: each job has its own address. '
            "Values in the query are shown as …. If you send a URL back as it was shown, it is not changed."
        )
    )
    method: Method = "POST"
    body: BodyForm = Field(
        BodyForm.ARGUMENT,
        strict=False,
        description=(
            "argument: the argument as JSON. envelope: a map {id, name, attempt, argument, created_at}. "
            "fireworq: the text at argument.payload. With fireworq, the answer must be JSON, "
            "{status, message}, and decides the outcome."
        ),
    )
    headers: Annotated[
        dict[
            Annotated[str, Field(min_length=1, max_length=100)],
            Annotated[str, Field(max_length=MAX_HEADER_CHARS)],
        ],
        Field(max_length=MAX_HEADERS),
    ] = Field(
        default_factory=dict,
        description=(
            "Further headers of each request. Their values are not shown again. If you send a value back as "
            "…, it is not changed. If the address changes, you must send the values again."
        ),
    )
    secret: Annotated[str, Field(max_length=200)] | None = Field(
        None,
        description=(
            "Secret that signs requests according to Standard Webhooks, in the form whsec_…. It is never "
            "shown again. Absent: the secret is not changed. Empty: requests are not signed. For 24 hours "
            "after a change, requests are also signed with the former secret."
        ),
    )
    max_running: int = Field(
        DEFAULT_RUNNING,
        ge=1,
        le=MAX_RUNNING,
        description="Maximum number of requests in progress at once, over all masters.",
    )
    max_running_per_host: int | None = Field(
        None,
        ge=1,
        le=MAX_RUNNING,
        description=(
            "Maximum number of requests in progress at once to one host, if jobs have their own "
            "addresses. Null: only `max_running` applies."
        ),
    )
    ok: _Statuses = Field(
        default_factory=lambda: [*DEFAULT_OK],
        description="Statuses for which the job succeeds: numbers, and classes such as 2xx.",
    )
    final: _Statuses = Field(
        default_factory=lambda: [*DEFAULT_FINAL],
        description="Statuses after which the job fails without a retry. A class does not include 429 and 503.",
    )
    timeout: Seconds | None = Field(
        None,
        gt=0,
        le=MAX_TIMEOUT_S,
        description=(
            "Maximum seconds for one request, at most the timeout of the job. Null: the timeout of the job."
        ),
    )
    not_ready_for_s: Seconds = Field(
        DEFAULT_NOT_READY_S,
        gt=0,
        le=MAX_NOT_READY_S,
        description=(
            "A job fails after this many seconds if all its requests were answered with 429 or 503, or "
            "could not be sent. Such requests do not count as retries."
        ),
    )
    allow_hosts: _Hosts = Field(
        default_factory=list,
        description=(
            "Hosts that jobs may name, such as app.example, *.app.example for all its "
            "subdomains, or * for all hosts."
        ),
    )
    description: str = Field("", max_length=MAX_DESCRIPTION)
    has_secret: bool | None = Field(
        None,
        description=(
            "Ignored. The field is allowed so that clients can send a target back as they received it."
        ),
    )
    previous_secret_until: str | None = Field(None, max_length=40, description="Ignored, as `has_secret`.")


class TargetAnswerView(Answer):
    """One of the newest answers of a target."""

    at: Timestamp
    job_id: JobId
    attempt: int
    result: DeliveryResult
    status: int | None = Field(description="Null: no answer came.")
    took_ms: Milliseconds
    detail: str = Field(
        description=(
            "Meaning of the answer. A caller that may see job content also gets the endpoint's own message."
        )
    )
    body: str | None = Field(description="Beginning of the body. Null if the caller may not see job content.")


class TargetFiguresView(Answer):
    """Requests that all masters have sent to a target. Each master counts from its start."""

    results: dict[str, Count] = Field(description="Number of requests by result.")
    requests_per_s: float = Field(description="Requests sent per second, over the last minute.")
    took: Distribution | None = Field(description="Time to the answer. Null: no request was sent.")
    last: list[TargetAnswerView] = Field(description="The newest answers, the newest first.")


class UrlSource(Answer):
    """The place of a URL in the argument of each job."""

    from_: str = Field(alias="from")


class TargetView(Answer):
    """A target, without its credentials."""

    name: TargetName
    names: list[str]
    url: str | UrlSource = Field(description="Values in its query are shown as … .")
    method: Method
    body: BodyForm
    headers: dict[str, str] = Field(description="Names of the further headers. Each value is shown as … .")
    has_secret: bool = Field(description="Whether requests are signed.")
    previous_secret_until: Timestamp | None = Field(
        description=(
            "Time until which requests are also signed with the former secret. Null: there is "
            "no former secret."
        )
    )
    max_running: int
    max_running_per_host: int | None
    ok: list[int | str]
    final: list[int | str]
    timeout: float | None
    not_ready_for_s: float
    allow_hosts: list[str]
    description: str
    etag: str = Field(description="Value for `If-Match`.")
    created_at: Timestamp
    changed_at: Timestamp
    created_by: str


class TargetDetail(TargetView):
    """A target and its current activity."""

    serving: list[str] = Field(
        description=("Job names that it serves now, including names that match its patterns.")
    )
    left_out: Count = Field(
        description=(
            "Number of further names with jobs that match the patterns. Their jobs wait, because one target "
            f"serves at most {MAX_SERVED:,} names. Divide the patterns among several targets."
        )
    )
    running: Count = Field(description="Requests under way.")
    unreachable: list[str] = Field(
        description="Reason why masters cannot reach the target. Empty: they can reach it, or have not tried."
    )
    figures: TargetFiguresView


class TargetList(Answer):
    """All targets by name."""

    targets: list[TargetDetail]


class TargetTestRequest(Request):
    """The sample job that a test sends. It does not exist in the queue."""

    job_name: JobName | None = Field(None, description="Null: the first name that the target lists.")
    argument: AnyValue = Field(default_factory=lambda: b"\x80", description="Default: an empty map.")


class TargetTestRequestView(Answer):
    """The request that a test sent."""

    method: str
    url: str
    headers: dict[str, str] = Field(description="Without the values of the further headers.")
    body: str


class TargetTestAnswerView(Answer):
    """The answer to a test."""

    status: int
    headers: dict[str, str] = Field(description="Content-Type, Retry-After and JQ-Await, if present.")
    body: str = Field(description="Beginning of the body.")


class TargetTest(Answer):
    """A test: the request, the answer, and the outcome that a job would have with this answer."""

    request: TargetTestRequestView
    answer: TargetTestAnswerView | None = Field(description="Null: no answer came.")
    took_ms: Milliseconds
    result: DeliveryResult
    detail: str
