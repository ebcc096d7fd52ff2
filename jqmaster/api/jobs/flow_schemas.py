"""HTTP models of flows."""

from pydantic import Field

from jqmaster.api.schemas import Answer, Count, JobId, Timestamp
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.predecessors import AfterWhen


class FlowJob(Answer):
    """A job of a flow."""

    id: JobId
    name: str | None = Field(description="Null: the job is gone.")
    state: JobState | None = Field(description="Null: the job is gone.")
    cause: str | None = Field(description="Why it ended, if it did not succeed.")
    batch: JobId | None = Field(description="The batch of which the job is a member.")
    after: list[JobId] = Field(description="The jobs of this answer for which it waits, or waited.")
    when: AfterWhen | None = Field(description="Null if it has no predecessors.")
    started_at: Timestamp | None
    finished_at: Timestamp | None
    more_before: Count = Field(description="Predecessors that are not in this answer.")
    more_behind: Count = Field(description="Jobs that wait, or waited, for it and are not in this answer.")


class FlowView(Answer):
    """The jobs around one job, or those of a batch, with their order."""

    jobs: list[FlowJob] = Field(
        description="The nearest first. Members of a batch that have no link to another job are left out."
    )
    is_complete: bool = Field(description="False: the flow has more jobs, or links, than are shown.")
