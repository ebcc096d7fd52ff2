"""What workers report of attempts that ended."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, RootModel, WithJsonSchema

from jqmaster.api.schemas import DAY_S, Answer, AnyValue, JobId, Request, Seconds, Token, instant_ms
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.outcome import HoldOrder, Outcome


def _reported_time(value: object) -> str:
    if isinstance(value, str):
        instant_ms(value)
        return value
    return iso_ms(instant_ms(value))


class Ending(Request):
    """How an attempt ended, by its worker's word."""

    job_id: JobId
    token: Token
    finished_at: Annotated[
        str, BeforeValidator(_reported_time), WithJsonSchema({"type": "string", "format": "date-time"})
    ]


class SuccessItem(Ending):
    """The handler returned."""

    type: Literal["success"]
    result: AnyValue

    def to_outcome(self) -> Outcome:
        return Outcome(self.job_id, self.token, self.type, result=self.result, finished_at=self.finished_at)


class FailureItem(Ending):
    """The handler failed, or ran longer than its timeout; or the job could not be decoded."""

    type: Literal["failure"]
    reason: Literal["other", "timeout", "undecodable"] = Field(
        description="undecodable: the worker could not decode the job; it is not retried."
    )
    should_retry: bool = Field(description="False ends the job at once.")
    error: AnyValue = Field(default_factory=lambda: b"\xc0")
    message: Annotated[str, Field(max_length=10_000)] = Field("", description="For people.")
    retry_after: Seconds | None = Field(
        None, ge=0, le=7 * DAY_S, description="Seconds; may lengthen the wait before the next attempt."
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
        )


class HoldRequest(Request):
    """Which gate to hold. One that does not exist holds nothing, and the deferral counts all the same."""

    constraint: Annotated[str, Field(max_length=1024)] = Field(description="Name of the constraint.")
    key: Any = Field(
        None, description="The value of its key, null too; absent for a constraint without a key."
    )

    def to_order(self) -> HoldOrder:
        return HoldOrder(self.constraint, self.key, "key" in self.model_fields_set)


class DeferredItem(Ending):
    """The handler wants to be asked again later; no retry is consumed."""

    type: Literal["deferred"]
    retry_after: Seconds = Field(ge=0, le=7 * DAY_S, description="Seconds.")
    hold: HoldRequest | None = Field(
        None, description="Until then no other job passes this constraint either, or this value of its key."
    )

    def to_outcome(self) -> Outcome:
        return Outcome(
            self.job_id,
            self.token,
            self.type,
            retry_after_s=self.retry_after,
            finished_at=self.finished_at,
            hold=self.hold.to_order() if self.hold else None,
        )


class HandedBackItem(Ending):
    """The worker stops before the job is done; another shall have it. No retry is consumed."""

    type: Literal["handed_back"]

    def to_outcome(self) -> Outcome:
        return Outcome(self.job_id, self.token, self.type, finished_at=self.finished_at)


class CanceledItem(Ending):
    """The job was stopped by order."""

    type: Literal["canceled"]

    def to_outcome(self) -> Outcome:
        return Outcome(self.job_id, self.token, self.type, finished_at=self.finished_at)


ReportedEnding = SuccessItem | FailureItem | DeferredItem | HandedBackItem | CanceledItem
ENDINGS: Final[dict[str, type[ReportedEnding]]] = {
    "success": SuccessItem,
    "failure": FailureItem,
    "deferred": DeferredItem,
    "handed_back": HandedBackItem,
    "canceled": CanceledItem,
}


class ResultItem(RootModel[Annotated[ReportedEnding, Field(discriminator="type")]]):
    """How an attempt ended, by its worker's word."""


class ResultsRequest(Request):
    """Repeat it until it is answered; everything that is answered is done with."""

    results: list[ResultItem] = Field(min_length=1, max_length=500)


class ResultsAnswer(Answer):
    """`accepted`: counts, or did already. `stale`: the token is no longer the right to settle; nothing changed."""

    accepted: list[JobId]
    stale: list[JobId]
