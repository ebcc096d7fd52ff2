"""Models of the calls from a master to a worker. openapi/worker.yaml, which every worker serves, is generated
from them.

At run time, masters do not use these models: runtime/outbound/push_body.py writes pushes, and answers are read
leniently. Tests compare both sides with the models."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from jqmaster.api.jobs.outcome_schemas import RefusedResult
from jqmaster.api.schemas import SINCE, Answer, AnyValue, Binary, JobId, Token


class Open(BaseModel):
    """Base of the models in both directions. Releases may add fields. Older workers and masters ignore such
    fields."""

    # A master builds no validators of these models when it starts, because they only describe messages.
    model_config = ConfigDict(defer_build=True)


class OutsideCallback(Open):
    """A callback of an outside system, as it was received."""

    content_type: str
    body: Binary
    received_at_ms: int = Field(description="Store time (Unix ms) at which the callback arrived.")


class JobInput(Open):
    """A predecessor of the job, and its result."""

    job_id: JobId
    state: str | None = Field(description="State of the predecessor. Null: the predecessor was deleted.")
    result: AnyValue = Field(
        description=(
            "Result of the predecessor, as `GET /api/jobs/{job_id}/result` returns it. Null: "
            "`omitted` gives the reason."
        )
    )
    omitted: Literal["too_large", "not_kept"] | None = Field(
        description=(
            "Reason why the result is not included. not_kept: there is no result. too_large: the results of "
            "all predecessors share 1 MiB, and this result does not fit. Null: the result is included. "
            "Future releases may add values."
        )
    )


class Dispatch(Open):
    """A job offered to a worker."""

    job_id: JobId
    attempt: int = Field(ge=1, description="Number of attempts so far, including this one.")
    token: Token = Field(description="Right to settle this claim. Name it in heartbeats and results.")
    fence: int = Field(
        description=(
            "Number that grows with every claim, even across failovers. Your database can use it to "
            "reject a late writer."
        )
    )
    phase: Literal["run", "callback"] = Field(
        description=(
            "Action to perform. `callback`: the attempt continues with the callbacks of its challenge. Only "
            "an attempt that reported `challenged` gets this phase. Future releases may add phases."
        )
    )
    name: str = Field(description="Selects the handler.")
    argument: AnyValue = Field(description="Argument as the pusher sent it.")
    timeout: float = Field(
        gt=0, description="Maximum run time in seconds. End a longer run and report it as a timeout."
    )
    not_after_ms: int = Field(
        description="Store time (Unix ms) after which the worker must refuse the offer as too_late."
    )
    lease_until_ms: int = Field(
        description="Store time at which the first lease ends. An answered heartbeat that names the token extends it."
    )
    headers: dict[str, str] = Field(description="Headers as the pusher sent them.")
    checkpoint: Binary | None = Field(
        None,
        description="The last checkpoint that an earlier attempt saved. Omitted if there is none.",
        json_schema_extra=SINCE,
    )
    batch: JobId | None = Field(
        None,
        description="The batch to which the job belongs, or that started the job. Omitted if there is none.",
        json_schema_extra=SINCE,
    )

    callback: OutsideCallback | None = Field(
        None, description="The callback, in the phase `callback`.", json_schema_extra=SINCE
    )
    callbacks: list[OutsideCallback] | None = Field(
        None, description="All callbacks, if the challenge expected several.", json_schema_extra=SINCE
    )
    inputs: list[JobInput] | None = Field(
        None,
        description="The predecessors of the job, in the order in which its push named them. Omitted if it has none.",
        json_schema_extra=SINCE,
    )


class PushRequest(Open):
    """Jobs offered in one call."""

    worker_id: str
    epoch: int = Field(
        description=(
            "Epoch of the sending leader. Refuse the jobs as stale_epoch if the worker has seen a "
            "newer epoch."
        )
    )
    store_time_ms: int
    jobs: list[Dispatch] = Field(min_length=1, max_length=500)


class ClaimAnswer(Open):
    """Jobs for a worker that polled. They count as accepted if the next call does not refuse them."""

    epoch: int = Field(
        description=(
            "Epoch of the newest leadership. Do not start these jobs if the worker has seen a newer epoch."
        )
    )
    store_time_ms: int
    jobs: list[Dispatch] = Field(
        max_length=500, description="Jobs to run. Empty if no job came in time or the worker should drain."
    )
    drain: bool = Field(description="True: finish the running jobs. The worker gets no more jobs.")


class ResultsAnswer(Answer):
    """`accepted`: the report was accepted, now or in an earlier call. `stale`: the token is no longer valid, and
    nothing changed."""

    accepted: list[JobId]
    stale: list[JobId]
    refused: list[RefusedResult] = Field(
        description=(
            "Invalid results. They appear in neither `accepted` nor `stale`, and do not affect the valid "
            "results. Missing if all results are valid. If no result of the call is valid, the answer is "
            "the problem of the first result instead."
        ),
        json_schema_extra=SINCE,
    )
    jobs: list[Dispatch] = Field(
        max_length=500,
        description=(
            "Jobs for the slots that the report freed, if the worker sent `JQ-Jobs-After`. Check each job "
            "in the same way as a pushed job. Report `handed_back` for a job that you do not take. Missing "
            "if there are none."
        ),
        json_schema_extra=SINCE,
    )
    epoch: int = Field(
        description="Epoch of the leadership that offers `jobs`. Missing if `jobs` is missing.",
        json_schema_extra=SINCE,
    )
    store_time_ms: int = Field(
        description="Store time (Unix ms) at which `jobs` were claimed. Missing if `jobs` is missing.",
        json_schema_extra=SINCE,
    )


class Rejected(Open):
    """An offer that the worker refuses. The job was not started."""

    job_id: JobId
    reason: Literal["busy", "unknown_name", "draining", "stale_epoch", "too_late", "duplicate"]
    retry_after: float | None = Field(None, ge=0, description="Seconds until the worker wants offers again.")


class PushAnswer(Open):
    """The worker's answer to a push. Every job of the push is in one of the lists. If the worker has seen a token
    before, it accepts the job but does not start it again. Results follow later."""

    accepted: list[JobId]
    rejected: list[Rejected]


class CancelOrder(Open):
    """Command to stop the job if it runs under this token."""

    token: Token
    epoch: int


class ChallengeRequest(Open):
    """Request to prove the address. The worker must refuse nonces of any other form. Otherwise, its proof could
    be used to sign a forged request with the same key."""

    nonce: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,128}$")]


class ChallengeAnswer(Open):
    """Proof that the worker knows the secret."""

    proof: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="Hex HMAC-SHA256(secret, nonce).")]


class RunningClaim(Open):
    """A claim with a result that no master has confirmed yet."""

    job_id: JobId
    token: Token


class WorkerStatus(Open):
    """Current state of the worker."""

    worker_id: str
    running: list[RunningClaim]
    free: int
    max_jobs: int
    names: list[str]
    draining: bool


class DrainOrder(Open):
    """Command to take no more jobs and to finish the running jobs."""

    epoch: int | None = None


class ResumeOrder(DrainOrder):
    """Command to take jobs again."""


class DetachOrder(DrainOrder):
    """Notice that the worker was detached. The answer to its next heartbeat also says so."""


# Commands about the worker itself: the body and the summary of each command, by its path at the worker.
COMMANDS: Final[Mapping[str, tuple[type[DrainOrder], str]]] = {
    "drain": (DrainOrder, "Take no more jobs and finish the running jobs"),
    "resume": (ResumeOrder, "Take jobs again"),
    "detach": (DetachOrder, "Tell the worker that it was detached"),
}
