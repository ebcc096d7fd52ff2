"""HTTP models of challenges and callbacks."""

from typing import Annotated, Any, Literal

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
from jqmaster.domain.challenges.challenge import (
    MAX_EXPECT,
    MAX_NONCE_CHARS,
    MAX_WAIT_S,
    MIN_NONCE_CHARS,
    CallbackSignature,
    ChallengeState,
)
from jqmaster.domain.challenges.challenge_form import (
    CHOICE_PATTERN,
    MAX_CHOICES,
    MAX_COMMENT,
    MAX_DESCRIPTION,
    MAX_LABEL,
    MAX_TITLE,
    Form,
    FormError,
    form_of,
)
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.progress import MAX_MESSAGE_CHARS
from jqmaster.errors import FieldError, invalid


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

    def to_signature(self) -> CallbackSignature:
        return CallbackSignature(self.header, self.secret, self.prefix, self.encoding)


class ChoiceRequest(Request):
    """A way to answer."""

    value: Annotated[str, Field(pattern=CHOICE_PATTERN)] = Field(
        description="Name of the choice, as the handler gets it.", examples=["approve"]
    )
    label: Annotated[str, Field(max_length=MAX_LABEL)] = Field(
        "",
        description="Text of the choice's button. `approve` and `reject` have a default text in each language.",
    )
    needs_comment: bool = Field(False, description="True: an answer with this choice must have a comment.")
    skips_fields: bool = Field(False, description="True: an answer with this choice has no field values.")


class FormRequest(Request):
    """A question to people, with a page of its own at the address of the challenge."""

    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE)] = Field(examples=["Refund order 42?"])
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION)] = Field(
        "", description="Plain text; its line breaks are shown."
    )
    choices: Annotated[list[ChoiceRequest], Field(max_length=MAX_CHOICES)] = Field(
        [],
        description=(
            "Ways to answer. Empty: the choices `approve` and `reject`. An answer with `reject` "
            "has no field values."
        ),
    )
    comment: Literal["none", "optional", "required"] = "optional"
    fields: dict[str, Any] | None = Field(
        None,
        description=(
            "JSON Schema of an object with at most 20 fields, which people fill in. A string may "
            "have `enum`, `minLength`, `maxLength` and `format` (`date`, `email` or `uri`). An "
            "integer or a number may have `enum`, `minimum` and `maximum`. A boolean has no rules. "
            "Every field may have `title`, `description` and `default`."
        ),
        examples=[{"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}],
    )

    def to_form(self) -> Form:
        """Return the form. Raise an InvalidError that names the invalid part of `fields` and the rule that it
        breaks."""
        try:
            return form_of(self.model_dump())
        except FormError as error:
            raise invalid([FieldError(("form", *error.loc), error.msg)]) from None


class OpenChallengeRequest(Request):
    """A challenge to open for a job that the worker runs."""

    job_id: JobId
    token: Token
    timeout_s: Seconds = Field(
        gt=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the callbacks, counted from the report `challenged`. After that, the attempt "
        "fails.",
    )
    nonce: str = Field(
        "",
        max_length=MAX_NONCE_CHARS,
        pattern=rf"^([A-Za-z0-9_-]{{{MIN_NONCE_CHARS},}})?$",
        description=(
            "Random text that identifies this call: at least 192 random bits in base64. A repeated "
            "call with the same text returns the same request ID and opens no second challenge. So "
            "a repeat or a late copy of the call does not make the challenge void."
        ),
        examples=["q2Zr8bXkT1mW5yUeq2Zr8bXkT1mW5yUe"],
    )
    expect: int = Field(
        1,
        ge=1,
        le=MAX_EXPECT,
        description="Number of callbacks to wait for. The job continues when all of them have come.",
    )
    meta: AnyValue | None = Field(
        None, description="A note for people about the purpose of the challenge, of at most 4 KiB."
    )
    signature: SignatureRequest | None = None
    form: FormRequest | None = Field(
        None,
        description=(
            "Form with which people answer the challenge, on a page at the challenge's address. The "
            "handler gets each answer as a callback of type `application/json`, with `choice`, "
            "`comment`, `values`, `by` and `address`. Null: another system answers."
        ),
    )
    audience: Literal["link", "users"] = Field(
        "link",
        description="People who may answer the form. link: everybody who has the address. users: everybody who has "
        "the address, is logged in and may operate. With `users`, each person answers once, so `expect` "
        "is the number of people.",
    )
    remind_after_s: Seconds | None = Field(
        None,
        ge=0,
        le=MAX_WAIT_S,
        description=(
            "Seconds after the report `challenged`. Then `challenge_waiting` notices with the "
            "address of the page remind people that nobody has answered. 0: at once. Null: never."
        ),
    )


class FormAnswerRequest(Request):
    """The answer of a person to a form."""

    choice: Annotated[str, Field(max_length=64)] = Field(examples=["approve"])
    comment: Annotated[str, Field(max_length=MAX_COMMENT)] = ""
    values: dict[str, Any] = Field({}, description="Values of the form's fields.")


class ChoiceView(Answer):
    """A way to answer."""

    value: str
    label: str
    needs_comment: bool
    skips_fields: bool


class FormView(Answer):
    """A question to people."""

    title: str
    description: str
    choices: list[ChoiceView]
    comment: Literal["none", "optional", "required"]
    fields: dict[str, Any] | None = Field(description="JSON Schema of an object. Null: there are no fields.")


class GivenAnswerView(Answer):
    """An answer that a person gave."""

    choice: str
    comment: str | None = Field(description="Null if the caller sees no content.")
    by: str | None = Field(
        description="The person, as the audit log names them. Null: the person had the link and was not logged in."
    )
    address: str = Field(description="The network address that the answer came from.")
    at: Timestamp


class PersonalChallengeView(Answer):
    """A challenge as shown to the people who answer it."""

    form: FormView
    audience: Literal["link", "users"]
    state: ChallengeState
    is_open: bool = Field(description="True: the challenge still accepts answers.")
    expect: Count
    received: Count
    due_at: Timestamp | None
    answers: list[GivenAnswerView]


class OpenChallengeAnswer(Answer):
    """An open challenge. Only this answer contains the challenge's request ID."""

    request_id: str = Field(
        description="Secret with which the outside system answers the challenge. Valid for this attempt."
    )
    callback_url: str = Field(description="Address at which the outside system posts its callback.")


class CallbackReceipt(Answer):
    """Receipt of a callback."""

    repeated: bool = Field(
        description="True: the same callback was received before, so this one changed nothing."
    )


class CallbackProgressRequest(Request):
    """Progress of the outside system, for people."""

    fraction: float | None = Field(
        None,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Share of the work that is done, from 0 to 1. Null: unknown.",
    )
    message: Annotated[str, Field(max_length=MAX_MESSAGE_CHARS)] = ""


class OutsideProgressView(Answer):
    """The progress that the outside system last reported."""

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
        description="expired: too few callbacks came in time. void: the attempt ended in another way before the "
        "callbacks came."
    )
    expect: Count = Field(description="Number of callbacks to wait for.")
    received: Count = Field(description="Number of callbacks received.")
    opened_at: Timestamp
    awaiting_since: Timestamp | None = Field(
        description="Time at which the worker reported that the outside system has the work."
    )
    due_at: Timestamp | None = Field(description="Time at which the wait for callbacks ends.")
    received_at: Timestamp | None = Field(description="Time at which the newest callback arrived.")
    run_at: Timestamp | None = Field(description="Time at which the handler started with the callbacks.")
    ended_at: Timestamp | None = Field(description="Time at which the attempt ended.")
    progress: OutsideProgressView | None
    meta: AnyValue | None = Field(
        description=("Null if the challenge has none or the caller may not see job content.")
    )
    error: str | None = Field(description="Error message of the attempt, if it failed.")
    code: str | None = Field(description="Code of the failure.")
    failures: Count = Field(description="Failed attempts of the job.", json_schema_extra=SINCE)
    form: FormView | None = Field(
        description="Question to people. Null if another system answers, or the caller sees no content.",
        json_schema_extra=SINCE,
    )
    audience: Literal["link", "users"] | None = Field(
        description="People who may answer. Null: another system answers.", json_schema_extra=SINCE
    )
    remind_at: Timestamp | None = Field(
        description="Time at which people are reminded. Null: nobody is reminded, or the attempt has not reported the "
        "challenge yet.",
        json_schema_extra=SINCE,
    )
    answers: list[GivenAnswerView] = Field(description="Answers of people.", json_schema_extra=SINCE)


class ChallengeList(Answer):
    """A page of challenges. The challenges of one job are listed together. The job with the newest challenge
    comes first."""

    challenges: list[ChallengeView]
    next_cursor: str | None = Field(description="`cursor` of the next page. Null: there are no more.")
