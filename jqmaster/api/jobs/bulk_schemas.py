"""HTTP model of a push of many jobs."""

from pydantic import Field

from jqmaster.api.batches.schemas import BatchRequest
from jqmaster.api.jobs.schemas import JobRequest
from jqmaster.api.schemas import SINCE, Request


class BulkRequest(Request):
    """Jobs to enqueue together. If one of them is refused, all are."""

    jobs: list[JobRequest] = Field(min_length=1, max_length=10_000)
    batch: BatchRequest | None = Field(
        None,
        description="The batch of all of these jobs, which have none of their own: it is made, filled and sealed. Give "
        "it and each job an `id` to repeat the request safely. A refused request leaves no batch. If only some of the "
        "jobs got in, the batch is canceled after 10 minutes.",
        json_schema_extra=SINCE,
    )
