"""HTTP models of workers' reports on ended attempts."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, RootModel, WithJsonSchema

from jqmaster.api.schemas import (
    DAY_S,
    SINCE,
    Answer,
    AnyValue,
    JobId,
    ProblemField,
    Request,
    Seconds,
    Token,
    instant_ms,
)
from jqmaster.domain.challenges.challenge import MAX_CODE_CHARS
from jqmaster.domain.constraints.weight import MAX_UNITS, UNIT_PATTERN, thousandths
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.outcome import NotReadyReport, Outcome, UsedUnits, WantedHold

MAX_USED_UNITS: Final = 16


def _reported_time(value: object) -> str:
    if isinstance(value, str):
        instant_ms(value)
        return value
    return iso_ms(instant_ms(value))


class Ending(Request):
    """The end of an attempt, as its worker reports it."""

    job_id: JobId
    token: Token
    finished_at: Annotated[
        str, BeforeValidator(_reported_time), WithJsonSchema({"type": "string", "format": "date-time"})
    ]


def _used_units(value: object) -> object:
    if not isinstance(value, dict):
        return value
    for unit, number in value.items():
        if not (isinstance(unit, str) and re.fullmatch(UNIT_PATTERN, unit)):
            raise ValueError(
                f"{str(unit)[:64]!r} is not a unit: it must have 1 to 32 characters of A-Z a-z 0-9 _ . "
                "- and begin with a letter"
            )
        if thousandths(number) is None or number > MAX_UNITS:
            raise ValueError(f"{unit} must be a number from 0 to {MAX_UNITS}")
    return value


Used = Annotated[
    dict[str, int | float],
    BeforeValidator(_used_units),
    Field(
        max_length=MAX_USED_UNITS,
        description=(
            "Amounts that the attempt has used, by the units in the `weight` of constraints. If a "
            "constraint of the job counts a unit, the amount replaces the estimate in the window of its "
            "rate. Units that no constraint counts are ignored. More than three decimals are rounded up."
        ),
    ),
]


class UsingEnding(Ending):
    """The end of an attempt that may have used units of constraints."""

    used: Used | None = Field(None, json_schema_extra=SINCE)
    called_at_ms: int | None = Field(
        None,
        ge=0,
        le=2**53,
        json_schema_extra=SINCE,
        description=(
            "Time of the store at which the system that a constraint protects had counted the attempt's "
            "last call. The job's start then counts in each rate for a full period after this time. If the "
            "field is omitted, the start counts for a full period after the claim, although the call may "
            "have reached that system later."
        ),
    )

    def used_units(self) -> UsedUnits | None:
        if not self.used and not self.called_at_ms:
            return None
        units = {unit: thousandths(number) or 0 for unit, number in (self.used or {}).items()}
        return UsedUnits(self.called_at_ms or 0, units)


class SuccessItem(UsingEnding):
    """The handler returned."""

    type: Literal["success"]
    result: AnyValue

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            result=self.result,
            finished_at=self.finished_at,
            used=self.used_units(),
        )


class FailureItem(UsingEnding):
    """The handler failed or exceeded its timeout, or the worker could not give it the argument."""

    type: Literal["failure"]
    reason: Literal["other", "timeout", "undecodable", "invalid_argument"] = Field(
        description=(
            "undecodable: the worker could not decode the job. invalid_argument: the argument does "
            "not fit the handler, so the handler did not run. A job with either cause is not "
            "retried."
        )
    )
    should_retry: bool = Field(description="False: end the job without a retry.")
    error: AnyValue = Field(default_factory=lambda: b"\xc0")
    message: Annotated[str, Field(max_length=10_000)] = Field("", description="Error message for people.")
    code: Annotated[str, Field(max_length=MAX_CODE_CHARS)] = Field(
        "",
        description="Name of the failure for programs, such as RESOURCE_CONFLICT. It is kept with the attempt.",
        json_schema_extra=SINCE,
    )
    retry_after: Seconds | None = Field(
        None,
        ge=0,
        le=7 * DAY_S,
        description=(
            "Minimum wait before the next attempt, in seconds. A value below the backoff has no effect."
        ),
    )

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            reason=self.reason,
            should_retry=self.should_retry,
            error=self.error,
            message=self.message,
            retry_after_s=self.retry_after,
            finished_at=self.finished_at,
            code=self.code,
            used=self.used_units(),
        )


class HoldRequest(Request):
    """The gate to hold. If the gate does not exist, no other job is held back, but this job is still deferred."""

    constraint: Annotated[str, Field(max_length=1024)] = Field(description="Name of the constraint.")
    key: Any = Field(
        None,
        description="Value of the constraint's key, which may be null. Omit it for a constraint without a key.",
    )

    def to_hold(self) -> WantedHold:
        return WantedHold(self.constraint, self.key, "key" in self.model_fields_set)


class NotReadyRequest(Request):
    """The job is deferred because its work cannot begin yet. Each wait is longer than the previous one, from
    `retry_after` up to `max_wait_s`."""

    max_wait_s: Seconds = Field(ge=0, le=7 * DAY_S, description="Longest wait in seconds.")
    for_s: Seconds | None = Field(
        None,
        ge=0,
        description="Seconds after which a job that is still not ready fails with the cause `not_ready`. Null: the "
        "job waits without a limit.",
    )
    reason: Annotated[str, Field(max_length=1_000)] = Field("", description="Reason for people.")


class DeferredItem(UsingEnding):
    """The handler defers the job to a later time. This does not count as a retry."""

    type: Literal["deferred"]
    retry_after: Seconds = Field(
        ge=0,
        le=7 * DAY_S,
        description=(
            "Wait before the next attempt, in seconds. A job that is deferred again and again waits "
            "up to 1 s even if this value is less."
        ),
    )
    hold: HoldRequest | None = Field(
        None,
        description=(
            "Gate to hold: until the next attempt, all other jobs of this constraint, or of this "
            "value of its key, are held back, too."
        ),
    )
    not_ready: NotReadyRequest | None = Field(
        None,
        description="The handler's check found that the work cannot begin yet.",
        json_schema_extra=SINCE,
    )

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            retry_after_s=self.retry_after,
            finished_at=self.finished_at,
            hold=self.hold.to_hold() if self.hold else None,
            not_ready=NotReadyReport(self.not_ready.max_wait_s, self.not_ready.for_s)
            if self.not_ready
            else None,
            message=self.not_ready.reason if self.not_ready else "",
            used=self.used_units(),
        )


class ChallengedItem(Ending):
    """The work was handed to an outside system. The worker is free, and the attempt continues when the callback
    comes."""

    type: Literal["challenged"]
    request_id: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="Request ID of the challenge that the attempt opened."
    )

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id, self.token, self.type, request_id=self.request_id, finished_at=self.finished_at
        )


class HandedBackItem(UsingEnding):
    """The worker stops and returns the job for another worker. This does not count as a retry."""

    type: Literal["handed_back"]

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            finished_at=self.finished_at,
            used=self.used_units(),
        )


class DiscardedItem(UsingEnding):
    """The handler found that nothing is left to do. The job ends as `discarded`, which does not count as a failure. It
    is not retried."""

    type: Literal["discarded"]
    error: AnyValue = Field(default_factory=lambda: b"\xc0")
    message: Annotated[str, Field(max_length=10_000)] = Field("", description="Reason for people.")

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            error=self.error,
            message=self.message,
            finished_at=self.finished_at,
            used=self.used_units(),
        )


class CanceledItem(UsingEnding):
    """The worker stopped the job because it was canceled."""

    type: Literal["canceled"]

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            finished_at=self.finished_at,
            used=self.used_units(),
        )


ReportedEnding = (
    SuccessItem | FailureItem | DeferredItem | HandedBackItem | CanceledItem | DiscardedItem | ChallengedItem
)
ENDINGS: Final[dict[str, type[ReportedEnding]]] = {
    "success": SuccessItem,
    "failure": FailureItem,
    "deferred": DeferredItem,
    "handed_back": HandedBackItem,
    "canceled": CanceledItem,
    "discarded": DiscardedItem,
    "challenged": ChallengedItem,
}


class ResultItem(RootModel[Annotated[ReportedEnding, Field(discriminator="type")]]):
    """The end of an attempt, as its worker reports it."""


class ResultsRequest(Request):
    """Reports of ended attempts. Repeat the request until you get an answer. Do not repeat reports that were
    answered."""

    results: list[ResultItem] = Field(min_length=1, max_length=500)


class RefusedResult(Answer):
    """A result that the master did not accept, and its fault."""

    index: int = Field(description="Position in `results` of the call.")
    code: str = Field(description="Problem code.")
    detail: str
    errors: list[ProblemField]
