"""HTTP models of a job's preview: the constraints that would apply to it now."""

from typing import Literal

from pydantic import Field

from jqmaster.api.constraints.schemas import LimitsView
from jqmaster.api.schemas import Answer


class AppliedConstraintView(Answer):
    """A constraint that would apply to the job."""

    name: str
    mode: Literal["enforce", "shadow"]
    key: str | None = Field(
        description="Path whose values have separate limits. Null: one limit for all jobs."
    )
    key_value: str | None = Field(description="The job's value of the key, as text for people.")
    limits: LimitsView = Field(description="Limits for that value.")
    max_backlog: int | None = Field(description="Maximum number of waiting jobs. A push beyond it gets 429.")


class JobPreview(Answer):
    """The job is valid."""

    constraints: list[AppliedConstraintView]
