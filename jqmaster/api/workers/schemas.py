"""HTTP models of workers' requests, of the answers, and of views of workers. `push_schemas` has the models of the
calls that masters make."""

from typing import Annotated, Any, Final

import msgpack
from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from jqmaster.api.schemas import (
    DAY_S,
    NAME_PATTERN,
    SINCE,
    Answer,
    Binary,
    JobId,
    ProblemField,
    Request,
    Seconds,
    ShortText,
    Token,
    unreserved,
)
from jqmaster.domain.constraints.weight import MAX_UNITS, thousandths
from jqmaster.domain.jobs.progress import MAX_CHECKPOINT_BYTES, MAX_MESSAGE_CHARS, ProgressReport
from jqmaster.domain.workers.contract import Contract
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.service.workers.polls import Ask
from jqmaster.service.workers.reports import Observed

MAX_CONTRACT_BYTES: Final = 64 * 1024


class ContractRequest(Request):
    """The contract of a job name, as the worker that runs these jobs declares it."""

    version: Annotated[str, Field(max_length=64, description="Version of the contract, for people.")] = ""
    argument_schema: dict[str, Any] | None = Field(
        None,
        description=(
            "JSON Schema (draft 2020-12) of the argument, without references to other documents. Null: any "
            "argument. The schema applies to a JSON form of the argument, with base64 text for binary, ISO "
            "8601 text for timestamps, and texts for map keys. Masters check the formats `byte`, `date`, "
            "`date-time`, `decimal`, `duration`, `time` and `uuid`. Other formats are only informative."
        ),
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Default options of jobs with this name, for people and for forms.",
    )

    @model_validator(mode="after")
    def _is_short(self) -> "ContractRequest":
        try:
            size = len(self.to_contract().text().encode())
        except (TypeError, ValueError, RecursionError):
            raise ValueError("must consist of JSON values") from None
        if size > MAX_CONTRACT_BYTES:
            raise ValueError(f"must have at most {MAX_CONTRACT_BYTES} bytes as JSON")
        return self

    def to_contract(self) -> Contract:
        return Contract(self.version, self.argument_schema, self.options)


class RegisterRequest(Request):
    """Registration of a worker."""

    url: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        description=(
            "URL at which masters reach the worker. Null: the worker pulls. The field is required "
            "so that nobody forgets it."
        )
    )
    names: list[Annotated[str, Field(pattern=NAME_PATTERN), AfterValidator(unreserved)]] = Field(
        min_length=1, max_length=1000
    )
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
            description=(
                "Secret that the worker chose. Its UTF-8 bytes are the key of all signatures. A worker that "
                "pulls must also send a secret, although nothing is signed for it."
            ),
        ),
    ]

    place: Annotated[str, Field(max_length=128)] = Field(
        "",
        description=(
            "Name of the current boot of this machine. Send it only if the process holds a lock that every "
            "worker at this `url` must hold. If the previous worker at the URL sent the same name, that "
            "worker must have ended, so its jobs can run again at once. Otherwise, they can run again when "
            "their leases end."
        ),
    )

    contracts: dict[str, ContractRequest] = Field(
        default_factory=dict,
        description=(
            "Contracts of all or some of the names. Masters of release 0.2 refuse a registration with this "
            "field. In that case, register without this field."
        ),
    )

    @model_validator(mode="after")
    def _is_about_own_names(self) -> "RegisterRequest":
        if strange := sorted(self.contracts.keys() - set(self.names)):
            raise ValueError(f"contracts of names that the worker does not serve: {', '.join(strange)[:200]}")
        return self

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
            {name: contract.digest for name, contract in self.to_contracts().items()},
        )

    def to_contracts(self) -> dict[str, Contract]:
        return {name: contract.to_contract() for name, contract in self.contracts.items()}


class RegisterAnswer(Answer):
    """Confirmation of a registration. From this time on, jobs may arrive, and the master expects heartbeats."""

    worker_id: JobId = Field(
        description="ID of the worker. Valid until the worker unregisters or is forgotten."
    )
    epoch: int = Field(description="Epoch of the newest leadership. 0 before the first election.")
    store_time_ms: int = Field(description="Store time (Unix ms), the only clock for offers and leases.")
    heartbeat_interval_s: float
    lease_s: float = Field(
        description="Duration of a lease, counted from the last heartbeat that named the lease's token."
    )


class ClaimRef(Request):
    """A claim: a job and the token to settle it."""

    job_id: JobId
    token: Token


def _as_binary(value: Any) -> Any:
    return value if value is None or isinstance(value, bytes) else msgpack.packb(value)


class ProgressRequest(Request):
    """Progress of a job, for people."""

    fraction: float | None = Field(
        None,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Share of the work that is done, from 0 to 1. Null: unknown.",
    )
    message: Annotated[str, Field(max_length=MAX_MESSAGE_CHARS)] = ""


class ReportedClaim(ClaimRef):
    """A claim with a lease to renew, and new information about the claim's job."""

    progress: ProgressRequest | None = Field(None, json_schema_extra=SINCE)
    checkpoint: (
        Annotated[Binary, BeforeValidator(_as_binary), Field(min_length=1, max_length=MAX_CHECKPOINT_BYTES)]
        | None
    ) = Field(
        None,
        description=(
            'Checkpoint: binary of at most 16 KiB, in JSON `{"$bin": base64}`. Any other value is stored as '
            "its MessagePack encoding. The next attempt, on any worker, gets the binary in the field "
            "`checkpoint` of its `Dispatch`, so that it can continue where this attempt stops. Masters do "
            "not interpret the binary. `worker_sdk` writes MessagePack. If the heartbeat is answered, the "
            "checkpoint is saved, with these exceptions: `cancel` or `lost` contains the claim, or "
            "`ignored` names the checkpoint."
        ),
        json_schema_extra=SINCE,
    )
    seq: int | None = Field(
        None,
        ge=1,
        le=2**53,
        description=(
            "Number of this report. It must grow with each heartbeat that has `progress` or `checkpoint` of "
            "the claim. A master that stood still may process a heartbeat long after the worker stopped "
            "waiting for the answer. Such a report is ignored if a later report is already saved. If `seq` "
            "is omitted, the report replaces any other report."
        ),
        json_schema_extra=SINCE,
    )

    def to_report(self) -> ProgressReport | None:
        if self.progress is None and self.checkpoint is None:
            return None
        told = (self.progress.fraction, self.progress.message) if self.progress else None
        return ProgressReport(self.job_id, self.token, told, self.checkpoint, self.seq)


class HeartbeatRequest(Request):
    """Sign of life of a worker. It renews the leases of all tokens that it names, even if other fields are
    invalid. Invalid fields are ignored, and the answer names them in `ignored`."""

    running: list[ReportedClaim] = Field(
        max_length=1000, description="All claims for which no master has confirmed a result yet."
    )
    free: int = Field(
        ge=0,
        le=100_000,
        description=(
            "Number of further jobs that the worker would take. Only people see this number. Masters count "
            "the worker's claims instead."
        ),
    )
    as_of_ms: int = Field(
        0,
        ge=0,
        le=2**53,
        description=(
            "Store time, rounded down, at which `running` was read. If an offer had ended by this time and "
            "is not in `running`, the worker did not accept it. Its job then waits again without counting a "
            "loss. If this field is omitted, the job waits again only when a heartbeat arrives more than a "
            "lease after the end of the offer."
        ),
    )
    max_jobs: int | None = Field(
        None,
        ge=1,
        le=1000,
        description=(
            "Number of jobs that the worker can run at the same time from now on. Send it if it differs "
            "from the registered number, for example because the worker shares its slots between "
            "namespaces. A number that an operator has set is an upper bound. If omitted, the number is "
            "unchanged."
        ),
        json_schema_extra=SINCE,
    )
    asks_to_continue: bool = Field(
        False,
        description=(
            "True: the previous answer was `detached`, and the worker asks to continue its jobs. An answer "
            "without `detached` permits this."
        ),
    )
    proof: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None,
        description=(
            "Proof of a running worker that its bearer token was replaced. Send it only after a 403 "
            "`foreign_worker`. It is the hex HMAC-SHA256(secret, text). The text consists of "
            "`adopt`, the worker ID and the hex SHA-256 of the bearer token, joined by line feeds. "
            "The worker then belongs to the new token."
        ),
    )


class ClaimView(Answer):
    """A claim that the worker named."""

    job_id: JobId
    token: Token


class HeartbeatAnswer(Answer):
    """State of the named claims. Claims in neither `cancel` nor `lost` are renewed until `lease_until_ms`."""

    epoch: int
    store_time_ms: int
    fence: int = Field(
        description=(
            "Newest fence of any claim at `store_time_ms`. If `store_time_ms` is impossibly early, the "
            "store's clock was set back. In this case, refuse offers with this fence or a lower fence as "
            "`too_late`. If omitted: 0."
        ),
        json_schema_extra=SINCE,
    )
    lease_until_ms: int = Field(
        description=(
            "New end of the renewed leases. If no lease was renewed, this equals `store_time_ms`, and the "
            "leases keep their previous end."
        )
    )
    heartbeat_interval_s: float = Field(
        description="Heartbeat interval from now on. If omitted, it is unchanged.", json_schema_extra=SINCE
    )
    lease_s: float = Field(
        description="Duration of leases from now on. If omitted, it is unchanged.", json_schema_extra=SINCE
    )
    cancel: list[ClaimView] = Field(
        description=(
            "Claims of canceled jobs. Stop each job and report `canceled`, which frees its slot at "
            "once. Any other result is answered `stale` and changes nothing."
        )
    )
    lost: list[ClaimView] = Field(description="Claims that are over. Stop each job and report nothing.")
    drain: bool = Field(description="True: finish the running jobs. No more will come.")
    detached: bool = Field(
        description=(
            "True: the worker was detached. Send up to `continue_questions` heartbeats with "
            "`asks_to_continue`, `continue_pause_s` seconds apart. If no answer permits the worker to "
            "continue, stop all jobs and register again."
        )
    )
    max_jobs: int = Field(
        description=(
            "Number of jobs that the worker may run from now on. An operator may have changed this number. "
            "Finish the running jobs even if they exceed it. If omitted, the registered number applies."
        ),
        json_schema_extra=SINCE,
    )
    continue_questions: int = Field(
        description="Maximum number of heartbeats with `asks_to_continue`. If omitted: 3.",
        json_schema_extra=SINCE,
    )
    continue_pause_s: float = Field(
        description=("Seconds between two heartbeats with `asks_to_continue`. If omitted: 0.3."),
        json_schema_extra=SINCE,
    )
    ignored: list[ProblemField] = Field(
        description=(
            "Invalid fields of the heartbeat, which were ignored, with their faults. Missing if there "
            "are none."
        ),
        json_schema_extra=SINCE,
    )


class StartRequest(Request):
    """Accepted jobs that the worker wants to start, if their handlers need a confirmation first."""

    starts: list[ClaimRef] = Field(min_length=1, max_length=500)


class StartAnswer(Answer):
    """The answer to a start request. Only confirmed jobs may start."""

    confirmed: list[JobId]
    stale: list[JobId]


class ClaimRequest(Request):
    """Poll of a worker without an address. Make one call at a time: a later call ends the previous call."""

    withdraw: bool = Field(
        False,
        description="True: withdraw the call with this `poll_id`. Jobs in its answer wait again.",
    )
    # This field must come after `withdraw`, because its validator needs the value of `withdraw`.
    max: int | None = Field(
        None,
        ge=1,
        le=1000,
        validate_default=True,
        description="Maximum number of jobs to take now. Required if `withdraw` is not true.",
    )
    wait: Seconds = Field(
        0, ge=0, description="Seconds to wait for the first job: at most 60, and at least 0.25."
    )
    poll_id: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description=(
            "ID of the call. The worker chooses a new ID for each call. If the answer was lost, repeat the "
            "call with the same ID at any master to get the same jobs. A new ID confirms that the previous "
            "answers arrived."
        ),
    )
    refused: list[ClaimRef] = Field(
        default_factory=list,
        max_length=1000,
        description=(
            "Jobs of earlier answers that the worker did not start and refuses. They wait again as if "
            "they had never been claimed."
        ),
    )

    @field_validator("max")
    @classmethod
    def _require_max_jobs(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is None and not info.data.get("withdraw"):
            raise ValueError("required if withdraw is not true")
        return value

    @model_validator(mode="after")
    def _require_poll_id(self) -> "ClaimRequest":
        if self.withdraw and self.poll_id is None:
            raise ValueError("withdraw requires poll_id")
        return self

    def to_ask(self) -> Ask:
        return Ask(
            self.max or 0,
            self.wait,
            self.poll_id or "",
            [(claim.job_id, claim.token) for claim in self.refused],
            self.withdraw,
        )


class ObservationRequest(Request):
    """The remaining capacity of another system, for example from the headers of its answer. Until the reset, the
    constraint lets no more jobs or units start than this capacity. The constraint's own limits still apply."""

    constraint: Annotated[str, Field(max_length=1024)] = Field(description="Name of the constraint.")
    value: Any = Field(
        None,
        description="Value of the constraint's key, which may be null. Omit it for a constraint without a key.",
    )
    remaining: int | float = Field(
        ge=0,
        le=MAX_UNITS,
        description=(
            "Number of units that the other system still admits. If the constraint has no `weight`, number "
            "of jobs."
        ),
    )
    resets_s: Seconds = Field(
        ge=0,
        le=31 * DAY_S,
        description="Seconds from `as_of_ms` until the other system starts to count from zero again.",
    )
    as_of_ms: int = Field(
        0,
        ge=0,
        le=2**53,
        description=(
            "Store time of the observation, rounded down. A master that stood still may process the call "
            "long after it was sent. With this field, the observation does not replace a later one. If "
            "omitted: the time at which the store receives the observation."
        ),
    )

    def to_observed(self) -> Observed:
        return Observed(
            self.constraint,
            thousandths(self.remaining) or 0,
            round(self.resets_s * 1000),
            self.value,
            "value" in self.model_fields_set,
            self.as_of_ms,
        )


class ObservationAnswer(Answer):
    """Answer to an observation. A handler need not react if the observation was ignored."""

    is_applied: bool
    reason: str = Field(
        description=(
            "Reason why the observation was ignored, for example because the constraint does not exist. "
            "Empty if the observation was applied."
        )
    )
