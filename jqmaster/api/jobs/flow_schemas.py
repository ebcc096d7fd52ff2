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
        description=(
            "Text that distinguishes the job from others of its name: its uniqueness key, the values in its "
            "argument that differ, such as `width=160`, or its tags. Null: there is no difference, or the "
            "caller may not see it."
        )
    )
    state: JobState | None = Field(description="Null: the job is gone.")
    cause: str | None = Field(description="The reason why the job ended, if it did not succeed.")
    error: str | None = Field(
        description=(
            "Shortened last error of a failed job. Null: there is no error, the caller may not see "
            "it, or the job is not among the first 100 failed ones."
        )
    )
    batch: JobId | None = Field(description="The batch to which the job belongs.")
    after: list[JobId] = Field(
        description="IDs of the jobs in this answer for which this job waits, or waited."
    )
    when: AfterWhen | None = Field(description="Null if the job has no predecessors.")
    attempt: Count = Field(description="Number of attempts that have begun.")
    created_at: Timestamp | None = Field(description="Null: the job is gone.")
    started_at: Timestamp | None = Field(description="Time at which the last attempt started.")
    finished_at: Timestamp | None
    more_before: Count = Field(description="Number of predecessors that are not in this answer.")
    more_behind: Count = Field(
        description="Number of jobs that wait, or waited, for this job and are not in this answer."
    )


class FlowView(Answer):
    """The jobs before and after one job, or the jobs of a batch, with the links between them."""

    jobs: list[FlowJob] = Field(
        description="Jobs, nearest first. Batch members without a link to another job are left out."
    )
    is_complete: bool = Field(description="False: the flow has more jobs, or links, than are shown.")
    failures: list[JobId] = Field(
        description=(
            "Jobs at which the flow broke, in the order in which they ended. These are failed jobs, and "
            "jobs that did not succeed although others need their success. Jobs that were skipped because "
            "of another job are left out."
        )
    )
    critical_path: list[JobId] = Field(
        description=(
            "The chain of jobs that determines the end of the flow, in the order of execution. It consists "
            "of the started jobs that took longest, followed by the longest chain of jobs that still wait "
            "for them. Empty if no job has started."
        )
    )
