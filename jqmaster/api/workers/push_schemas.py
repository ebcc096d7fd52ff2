"""What travels from the master to a worker: the contract that any worker serves (openapi/worker.yaml).

The master writes pushes by hand (runtime/outbound/push_body.py) and reads answers leniently; these models are the document,
and tests hold both sides against it.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from jqmaster.api.schemas import AnyValue, JobId, Token


class Open(BaseModel):
    """Base of both directions: the protocol grows by new fields, which older workers and masters pass over."""


class Dispatch(Open):
    """One job that is offered to a worker."""

    job_id: JobId
    attempt: int = Field(ge=1, description="Starts so far, this one included.")
    token: Token = Field(description="The right to settle this claim; named in heartbeats and results.")
    fence: int = Field(
        description="Grows with every claim, also across failovers: hand it to your database to refuse a stale writer."
    )
    phase: Literal["run"] = Field(description="What is to be done; further phases may come.")
    name: str = Field(description="Selects the handler.")
    argument: AnyValue = Field(description="As the pusher sent it.")
    timeout: float = Field(
        gt=0, description="Seconds; a longer run is to be ended and reported as a timeout."
    )
    not_after_ms: int = Field(
        description="Store time (Unix ms) after which the offer must be refused as too_late."
    )
    lease_until_ms: int = Field(
        description="Store time until which the first lease holds; an answered heartbeat that names the token lengthens it."
    )
    headers: dict[str, str] = Field(description="As the pusher sent them.")


class PushRequest(Open):
    """Jobs that are offered in one call."""

    worker_id: str
    epoch: int = Field(
        description="Of the leader that sends; one that is older than any seen is refused as stale_epoch."
    )
    store_time_ms: int
    jobs: list[Dispatch] = Field(min_length=1, max_length=500)


class ClaimAnswer(Open):
    """Jobs for a worker that asked for them: taken with this answer, unless the next call refuses them."""

    epoch: int = Field(
        description="Of the newest leadership; jobs under one that is older than any seen are not to be started."
    )
    store_time_ms: int
    jobs: list[Dispatch] = Field(
        max_length=500, description="None: the wait is over, or the worker is to drain."
    )
    drain: bool = Field(description="Finish what runs; no more will come.")


class Rejected(Open):
    """An offer that the worker does not take; the job has not been attempted."""

    job_id: JobId
    reason: Literal["busy", "unknown_name", "draining", "stale_epoch", "too_late", "duplicate"]
    retry_after: float | None = Field(None, ge=0, description="Seconds.")


class PushAnswer(Open):
    """What the worker takes; results come later. Every job of the push is in one of the lists. A token that it has seen
    before is accepted and not started again."""

    accepted: list[JobId]
    rejected: list[Rejected]


class CancelOrder(Open):
    """Stop the job, if this token is the one that runs."""

    token: Token
    epoch: int


class ChallengeRequest(Open):
    """Proof of address. Other nonces must be refused: the proof would else sign a forged request with the same key."""

    nonce: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,128}$")]


class ChallengeAnswer(Open):
    """The worker knows the secret."""

    proof: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="hex HMAC-SHA256(secret, nonce)")]


class RunningClaim(Open):
    """A claim whose result no master has answered yet."""

    job_id: JobId
    token: Token


class WorkerStatus(Open):
    """What the worker does now."""

    worker_id: str
    running: list[RunningClaim]
    free: int
    max_jobs: int
    names: list[str]
    draining: bool


class DrainOrder(Open):
    """Take no more jobs, finish those that run."""

    epoch: int | None = None


class ResumeOrder(DrainOrder):
    """Take jobs again."""


class DetachOrder(DrainOrder):
    """The worker was cut off: a heartbeat now will say so."""
