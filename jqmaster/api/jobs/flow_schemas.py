"""HTTP models of flows."""

from pydantic import Field

from jqmaster.api.schemas import Answer, Count, JobId, Timestamp
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.predecessors import AfterWhen


class FlowJob(Answer):
    """A job of a flow."""

    id: JobId
    name: str | None = Field(description="Null: the job is gone.")
    label: str | None = Field(
        description="Value that distinguishes the job from the others of its name, such as `width=160`: its key of "
        "uniqueness, the values of its argument that differ, or its tags. Null: nothing does, or the caller may not "
        "see it."
    )
    state: JobState | None = Field(description="Null: the job is gone.")
    cause: str | None = Field(description="The reason why the job ended, if it did not succeed.")
    error: str | None = Field(
        description="The last error of a job that failed, cut, of the first 100 such jobs. Null: there is none, or "
        "the caller may not see it."
    )
    batch: JobId | None = Field(description="The batch of which the job is a member.")
    after: list[JobId] = Field(
        description="IDs of the jobs in this answer for which this job waits, or waited."
    )
    when: AfterWhen | None = Field(description="Null if the job has no predecessors.")
    attempt: Count = Field(description="Number of attempts that have begun.")
    created_at: Timestamp | None = Field(description="Null: the job is gone.")
    started_at: Timestamp | None = Field(description="The start of the last attempt.")
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
    failures: list[JobId] = Field(
        description="Jobs at which the flow broke, in the order of their ends: those that failed, or that others "
        "need and that did not succeed. Jobs that were skipped because of another one are left out."
    )
    critical_path: list[JobId] = Field(
        description="The chain of jobs that determines when the flow ends, the first job first: those that took the "
        "time, then the longest chain that still waits for them. Empty if no job has started."
    )
