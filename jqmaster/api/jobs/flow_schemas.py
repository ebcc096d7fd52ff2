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
    cause: str | None = Field(description="The reason why the job ended, if it did not succeed.")
    batch: JobId | None = Field(description="The batch of which the job is a member.")
    after: list[JobId] = Field(
        description="IDs of the jobs in this answer for which this job waits, or waited."
    )
    when: AfterWhen | None = Field(description="Null if the job has no predecessors.")
    started_at: Timestamp | None
    finished_at: Timestamp | None
    more_before: Count = Field(description="Number of predecessors that are not in this answer.")
    more_behind: Count = Field(
        description="Number of jobs that wait, or waited, for this job and are not in this answer."
    )


class FlowView(Answer):
    """The jobs before and after one job, or the jobs of a batch, with the links between them."""

    jobs: list[FlowJob] = Field(
        description="Jobs, nearest first. Members of a batch without a link to another job are left out."
    )
    is_complete: bool = Field(description="False: the flow has more jobs, or links, than are shown.")
