"""HTTP models of partial results."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

from jqmaster.api.schemas import Answer, AnyValue, JobId, Request, Token
from jqmaster.domain.jobs.job import JobState

_Values = Annotated[
    bytes,
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "items": {"description": 'Any value. In JSON, binary is {"$bin": base64}.'},
        }
    ),
]


class PartsRequest(Request):
    """Partial results of a job that the worker runs."""

    job_id: JobId
    token: Token
    first: int = Field(
        ge=1,
        le=2**53,
        description=(
            "Number of the first value in the call. Numbers grow within the claim, and may have "
            "gaps. The master uses them to store each value only once, even if a worker repeats a "
            "call because the answer was lost."
        ),
    )
    parts: _Values


class PartsAnswer(Answer):
    """The answer to partial results."""

    accepted: int = Field(description="Number of values in the call. All of them are stored.")


class PartView(Answer):
    """One partial result."""

    attempt: int
    number: int = Field(description="Counted from 1 within the attempt.")
    value: AnyValue


class PartsPage(Answer):
    """Partial results of the current attempt that follow a position."""

    state: JobState
    attempt: int = Field(
        description="The current attempt. Partial results of earlier attempts are no longer valid."
    )
    parts: list[PartView]
    next: str = Field(description="Value of `after` for the next call.")
    is_last: bool = Field(description="True: the job is over, and these were its last partial results.")
