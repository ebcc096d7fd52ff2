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
        description="Number of the first value. Numbers grow within the claim, and may have gaps. Values that were "
        "sent before, in a call whose answer did not come, are not kept twice.",
    )
    parts: _Values


class PartsAnswer(Answer):
    """The answer to partial results."""

    accepted: int = Field(description="Number of parts of the call; all of them are kept.")


class PartView(Answer):
    """One partial result."""

    attempt: int
    number: int = Field(description="Counted from 1 within the attempt.")
    value: AnyValue


class PartsPage(Answer):
    """Partial results behind a place, all of the present attempt."""

    state: JobState
    attempt: int = Field(description="Parts of earlier attempts do not count any more.")
    parts: list[PartView]
    next: str = Field(description="The next `after`.")
    is_last: bool = Field(description="True: the job is over, and these were its last parts.")
