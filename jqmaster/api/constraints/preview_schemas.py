"""What a job would meet were it enqueued now, as it travels over HTTP."""

from typing import Literal

from pydantic import Field

from jqmaster.api.constraints.schemas import LimitsView
from jqmaster.api.schemas import Answer


class AppliedConstraintView(Answer):
    """A constraint that would apply to the job."""

    name: str
    mode: Literal["enforce", "shadow"]
    key: str | None = Field(description="What splits the constraint; null: one limit for all.")
    key_value: str | None = Field(description="The job's value of the key, for people.")
    limits: LimitsView = Field(description="What holds at that value.")
    max_backlog: int | None = Field(description="Waiting jobs; a push beyond gets 429.")


class JobPreview(Answer):
    """The job is valid."""

    constraints: list[AppliedConstraintView]
