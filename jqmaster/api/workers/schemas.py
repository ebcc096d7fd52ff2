"""What workers tell and ask the master, how it answers them, and how it shows them. What it sends to them: `worker_schemas`."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from jqmaster.api.schemas import (
    NAME_PATTERN,
    SINCE,
    Answer,
    JobId,
    Request,
    Seconds,
    ShortText,
    Timestamp,
    Token,
)
from jqmaster.domain.worker import WorkerSpec
from jqmaster.service.workers.polls import Ask


class RegisterRequest(Request):
    """A worker says what it is."""

    url: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        description="Where masters reach the worker; null: it pulls. Always sent, so that no address is forgotten."
    )
    names: list[Annotated[str, Field(pattern=NAME_PATTERN)]] = Field(min_length=1, max_length=1000)
    max_jobs: int = Field(ge=1, le=1000)
    node_id: Annotated[str, Field(max_length=200)] = ""
    pid: int = Field(0, ge=0, le=2**31)
    labels: dict[ShortText, Annotated[str, Field(max_length=200)]] = Field(
        default_factory=dict, max_length=32
    )
    version: Annotated[str, Field(max_length=64)] = ""
    secret: Annotated[
        str,
        Field(
            min_length=32,
            max_length=128,
            description="Chosen by the worker; its UTF-8 bytes are the key of all signatures. Also sent by one that pulls, for "
            "which nothing is signed.",
        ),
    ]

    place: Annotated[str, Field(max_length=128)] = Field(
        "",
        description="Names this machine since its start, from a process that holds a lock there which any other process at "
        "this `url` would need. Where the former worker at the URL gave the same name, it is known to have ended, and "
        "its jobs are free at once; else they are when their leases end.",
    )

    def to_spec(self, url: str | None) -> WorkerSpec:
        return WorkerSpec(
            url,
            tuple(dict.fromkeys(self.names)),
            self.max_jobs,
            self.node_id,
            self.pid,
            self.labels,
            self.version,
            self.secret,
            self.place,
        )


class RegisterAnswer(Answer):
    """From now on jobs may arrive, and heartbeats are expected."""

    worker_id: JobId = Field(description="Valid until the worker leaves or is forgotten.")
    epoch: int = Field(description="Of the newest leadership; 0 before the first.")
    store_time_ms: int = Field(description="The one clock for offers and leases: Unix ms by the store.")
    heartbeat_interval_s: float
    lease_s: float = Field(description="Life of a lease from the last heartbeat that named its token.")


class ClaimRef(Request):
    """A claim: the job and the right to settle it."""

    job_id: JobId
    token: Token


class HeartbeatRequest(Request):
    """The worker lives; each lease whose token it names is renewed."""

    running: list[ClaimRef] = Field(
        max_length=1000, description="Every claim whose result no master has answered yet."
    )
    free: int = Field(
        ge=0,
        le=100_000,
        description="How many more jobs it would take. Kept with the worker for people; the master goes by the claims it gave.",
    )
    as_of_ms: int = Field(
        0,
        ge=0,
        le=2**53,
        description="Store time, rounded down, at which `running` was read. An offer that is not named although it was "
        "over by then was not taken up, and goes back without being counted as lost.",
    )
    asks_to_continue: bool = Field(
        False,
        description="The answer before said `detached`: may the worker go on with what it runs? Yes is an answer without it.",
    )
    proof: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None,
        description="Only after a 403 `foreign_worker`, by a worker whose token was changed while it runs: hex "
        "HMAC-SHA256(secret, text) of `adopt`, the worker ID and the hex SHA-256 of the bearer token, joined by line feeds. "
        "The worker then belongs to that token.",
    )


class ClaimView(Answer):
    """A claim that the worker named."""

    job_id: JobId
    token: Token


class HeartbeatAnswer(Answer):
    """What became of the claims that were named: those in neither list are renewed until `lease_until_ms`."""

    epoch: int
    store_time_ms: int
    fence: int = Field(
        description="The newest fence that a claim had got at `store_time_ms`. Where that is less than it may be, the store's "
        "clock was set back: refuse what is offered with this fence or an older one as `too_late`. Without it: 0.",
        json_schema_extra=SINCE,
    )
    lease_until_ms: int = Field(
        description="Equal to `store_time_ms` where nothing was renewed: the leases end when they were to end before."
    )
    heartbeat_interval_s: float = Field(
        description="From now on; without it, as it was.", json_schema_extra=SINCE
    )
    lease_s: float = Field(
        description="Life of a lease from now on; without it, as it was.", json_schema_extra=SINCE
    )
    cancel: list[ClaimView] = Field(
        description="Somebody canceled the job: stop it and report `canceled`, which frees its slot at once. Another "
        "result is answered `stale` and changes nothing."
    )
    lost: list[ClaimView] = Field(description="The claim is over: stop the job and report nothing.")
    drain: bool = Field(description="Finish what runs; no more will come.")
    detached: bool = Field(
        description="The worker was cut off: ask with `asks_to_continue`, three times, 0.3 s apart; if nobody confirms, "
        "stop everything and register anew."
    )


class StartRequest(Request):
    """Which of the accepted jobs may start now (for handlers that ask first)."""

    starts: list[ClaimRef] = Field(min_length=1, max_length=500)


class StartAnswer(Answer):
    """Only the confirmed ones may start."""

    confirmed: list[JobId]
    stale: list[JobId]


class ClaimRequest(Request):
    """A worker without an address asks for jobs. One call at a time: a later one ends the one before it."""

    withdraw: bool = Field(
        False,
        description="It takes the call of this `poll_id` back and wants none: what that was given goes back.",
    )
    # After `withdraw`, which decides whether it is needed.
    max: int | None = Field(
        None,
        ge=1,
        le=1000,
        validate_default=True,
        description="Most jobs that it takes now; needed unless it withdraws a call.",
    )
    wait: Seconds = Field(
        0, ge=0, description="Seconds to wait for the first of them; 60 at most, a quarter of one at least."
    )
    poll_id: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Chosen anew for each call. When its answer was not heard, the same call again, at any master, is given "
        "the same jobs; another one says that the answers before were heard.",
    )
    refused: list[ClaimRef] = Field(
        default_factory=list,
        max_length=1000,
        description="Jobs of earlier answers that it has not begun and does not take. They go back as if never given.",
    )

    @field_validator("max")
    @classmethod
    def _says_how_many(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is None and not info.data.get("withdraw"):
            raise ValueError("needed, unless withdraw is true")
        return value

    @model_validator(mode="after")
    def _names_what_it_withdraws(self) -> "ClaimRequest":
        if self.withdraw and self.poll_id is None:
            raise ValueError("poll_id names what is to be withdrawn")
        return self

    def to_ask(self) -> Ask:
        return Ask(
            self.max or 0,
            self.wait,
            self.poll_id or "",
            [(claim.job_id, claim.token) for claim in self.refused],
            self.withdraw,
        )


class WorkerView(Answer):
    """A registered worker."""

    id: JobId
    url: str | None
    names: list[str]
    max_jobs: int
    busy: int = Field(description="Claims that it holds.")
    load: float = Field(description="`busy` of `max_jobs`.")
    role: Literal["push", "pull"] = Field(description="Whether masters call it, or it asks them for jobs.")
    node_id: str
    pid: int
    labels: dict[str, str]
    version: str
    registered_at: Timestamp
    last_seen_at: Timestamp
    state: Literal["fresh", "stale", "draining", "detached"]
    detached_by: Literal["silence", "operator", "successor"] | None = Field(
        description="Who cut it off: the leader, as it was silent; people; or a worker that serves its address now."
    )
    breaker: Literal["closed", "open", "half_open"] | None = Field(
        description="Null where this master does not lead."
    )


class HeldJob(Answer):
    """A job that a worker runs, or was offered."""

    job_id: JobId
    name: str
    attempt: int
    started_at: Timestamp


class WorkerDetail(WorkerView):
    """A registered worker with what it runs."""

    jobs: list[HeldJob] = Field(description="The oldest first.")


class WorkerList(Answer):
    """All registered workers."""

    workers: list[WorkerView]
