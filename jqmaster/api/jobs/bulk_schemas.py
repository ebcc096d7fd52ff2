"""HTTP model of a push of many jobs."""

from pydantic import Field

from jqmaster.api.batches.schemas import BatchRequest
from jqmaster.api.jobs.schemas import JobRequest
from jqmaster.api.schemas import SINCE, Request


class BulkRequest(Request):
    """Jobs to enqueue together. If one job is refused, no job is enqueued."""

    jobs: list[JobRequest] = Field(min_length=1, max_length=10_000)
    batch: BatchRequest | None = Field(
        None,
        description="A new batch for all of these jobs. The request creates, fills and seals it. The jobs may not "
        "name another batch. To make the request safe to repeat, give the batch and each job an `id`. A "
        "refused request leaves no batch. If only some of the jobs were enqueued, the batch is canceled "
        "after 10 minutes.",
        json_schema_extra=SINCE,
    )
