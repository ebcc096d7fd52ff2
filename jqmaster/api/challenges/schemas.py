"""HTTP models of challenges and callbacks."""

from typing import Annotated, Literal

from pydantic import Field

from jqmaster.api.schemas import (
    SINCE,
    Answer,
    AnyValue,
    Count,
    JobId,
    Request,
    Seconds,
    Timestamp,
    Token,
)
from jqmaster.domain.challenge import MAX_EXPECT, MAX_WAIT_S, ChallengeState, Signature
from jqmaster.domain.job import JobState
from jqmaster.domain.progress import MAX_MESSAGE_CHARS


class SignatureRequest(Request):
    """The signature that a callback must bear: HMAC-SHA256 of its body."""

    header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] = Field(
        description="Header with the signature.", examples=["X-Signature"]
    )
    secret: Annotated[str, Field(min_length=16, max_length=512)] = Field(
        description="Key of the signature, in UTF-8. The store keeps it until the attempt is over."
    )
    prefix: Annotated[str, Field(max_length=32)] = Field(
        "", description="Text in front of the signature.", examples=["sha256="]
    )
    encoding: Literal["hex", "base64"] = "hex"

    def to_signature(self) -> Signature:
        return Signature(self.header, self.secret, self.prefix, self.encoding)


class OpenChallengeRequest(Request):
    """A challenge to open for a job that the worker runs."""

    job_id: JobId
    token: Token
    timeout_s: Seconds = Field(
        gt=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the callbacks, from the report `challenged` on. Then the attempt fails.",
    )
    expect: int = Field(
        1,
        ge=1,
        le=MAX_EXPECT,
        description="Number of callbacks to wait for. The job goes on with all of them.",
    )
    meta: AnyValue | None = Field(
        None, description="A note for people, of at most 4 KiB: what the challenge is about."
    )
    signature: SignatureRequest | None = None


class OpenChallengeAnswer(Answer):
    """An open challenge. Only this answer has its request ID."""

    request_id: str = Field(
        description="Secret that the outside system gets and that answers the challenge. Valid for this attempt."
    )
    callback_url: str = Field(description="Address at which the outside system posts its callback.")


class CallbackReceipt(Answer):
    """Receipt of a callback."""

    repeated: bool = Field(description="True: the same callback came before, and nothing changed.")


class CallbackProgressRequest(Request):
    """Progress of the outside system, for people."""

    fraction: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="Share that is done. Null: unknown."
    )
    message: Annotated[str, Field(max_length=MAX_MESSAGE_CHARS)] = ""


class OutsideProgressView(Answer):
    """Progress as the outside system told it last."""

    fraction: float | None
    message: str | None = Field(description="Null if the caller sees no content.")
    at: Timestamp


class ChallengeView(Answer):
    """A challenge."""

    job_id: JobId
    name: str
    job_state: JobState
    request: str = Field(description="Beginning of the secret part of the request ID.")
    attempt: int
    state: ChallengeState = Field(
        description="expired: too few callbacks came in time. void: the attempt ended otherwise before they came."
    )
    expect: Count = Field(description="Number of callbacks to wait for.")
    received: Count = Field(description="Number of callbacks that came.")
    opened_at: Timestamp
    awaiting_since: Timestamp | None = Field(
        description="Report of the attempt that the outside system has the work."
    )
    due_at: Timestamp | None = Field(description="End of the wait for callbacks.")
    received_at: Timestamp | None = Field(description="Arrival of the newest callback.")
    run_at: Timestamp | None = Field(description="Start of the handler with the callbacks.")
    ended_at: Timestamp | None = Field(description="End of the attempt.")
    progress: OutsideProgressView | None
    meta: AnyValue | None = Field(description="Null if there is none, or the caller sees no content.")
    error: str | None = Field(description="Message of the attempt that failed.")
    code: str | None = Field(description="Code of the failure.")
    failures: Count = Field(description="Failed attempts of the job.", json_schema_extra=SINCE)


class ChallengeList(Answer):
    """A page of challenges, those of the job with the newest challenge first."""

    challenges: list[ChallengeView]
    next_cursor: str | None = Field(description="`cursor` of the next page. Null: there are no more.")
