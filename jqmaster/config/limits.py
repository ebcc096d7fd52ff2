"""Limits of requests, and of what a master holds."""

import re
from typing import Final

from pydantic import Field, field_validator

from jqmaster.config.values import GIB, KIB, MIB, CheckArguments, SettingsBase, Words

# The part of a body that is reserved for all fields except the argument or payload. A push also carries a name,
# headers and options. An event also carries attributes.
ENVELOPE_BYTES: Final = 64 * KIB
_QUOTA = re.compile(
    r"(waiting_jobs|waiting_bytes|pushes_per_s|argument_bytes|workers|streams)=[1-9][0-9]{0,11}"
)


class LimitSettings(SettingsBase):
    """Limits."""

    max_body_bytes: int = Field(
        16 * MIB,
        ge=2 * ENVELOPE_BYTES,
        le=256 * MIB,
        description=(
            "Maximum size of the body of a request. For calls of workers and for changes of "
            "settings, the limit is at least 32 MiB, even if this setting is lower."
        ),
    )
    max_argument_bytes: int = Field(
        256 * KIB,
        ge=KIB,
        le=16 * MIB,
        description=(
            "Maximum size of the encoded argument of a job. It must be at least 64 KiB less than "
            "`max_body_bytes`."
        ),
    )
    check_arguments: CheckArguments = Field(
        "off",
        description=(
            "Whether to check new jobs against the argument schemas that workers registered for their "
            "names. `report` logs a job if it does not fit or no worker has ever served its name, and says "
            "so in a header of the answer. `refuse` refuses such a job."
        ),
    )
    max_result_bytes: int = Field(
        MIB, ge=KIB, le=16 * MIB, description="Maximum size of the encoded result or error of a job."
    )
    max_parts: int = Field(
        10_000, ge=1, le=100_000, description="Maximum number of partial results of one attempt."
    )
    max_parts_bytes: int = Field(
        4 * MIB,
        ge=KIB,
        le=64 * MIB,
        description="Maximum total size of the partial results of one attempt, in bytes.",
    )
    max_log_line_bytes: int = Field(
        16 * KIB,
        ge=256,
        le=MIB,
        description=(
            "Maximum length of a log line of a job. Longer lines are cut, and a note at their end says so."
        ),
    )
    max_log_bytes: int = Field(
        4 * MIB,
        ge=256 * KIB,
        le=256 * MIB,
        description="Maximum size of one job's log, in bytes. Older lines are dropped.",
    )
    max_logs_bytes: int = Field(
        256 * MIB,
        ge=MIB,
        le=64 * GIB,
        description="Maximum total size of the logs of all jobs in the store, in bytes. Older lines are dropped.",
    )
    max_nesting: int = Field(
        32,
        ge=4,
        le=256,
        description="Maximum nesting of an argument, of a result, and of the body of a push.",
    )
    max_argument_nodes: int = Field(
        20_000, ge=100, le=1_000_000, description="Maximum number of values inside one argument or result."
    )
    max_bulk_jobs: int = Field(
        10_000, ge=1, le=10_000, description="Maximum number of jobs in one bulk enqueue."
    )
    max_header_bytes: int = Field(
        16 * KIB,
        ge=8 * KIB,
        le=256 * KIB,
        description=("Maximum size of the request line and the headers together."),
    )
    max_header_count: int = Field(
        64, ge=32, le=1000, description="Maximum number of header lines of a request."
    )
    max_connections: int = Field(
        4096,
        ge=16,
        le=1_000_000,
        description=(
            "Maximum number of simultaneous connections of callers other than workers. It is also "
            "limited to half of the allowed file descriptors. Further connections get 503. Workers "
            "always have the rest of that half."
        ),
    )
    unproven_share: float = Field(
        0.5,
        ge=0.01,
        le=1,
        description=(
            "Share of `max_connections` for connections that have not yet presented a valid "
            "credential. Beyond this share, the connection that has been idle longest is closed."
        ),
    )
    address_share: float = Field(
        0.9,
        ge=0.01,
        le=1,
        description=(
            "Share of `max_connections` that one address may hold. An IPv6 /64 counts as one "
            "address. Connections of workers do not count. Further connections get 503. Addresses "
            "in `trusted_proxies` are exempt."
        ),
    )
    max_streams: int = Field(
        200,
        ge=1,
        le=10_000,
        description=(
            "Maximum number of dashboards that one process serves with live events at once. Further "
            "dashboards get 503."
        ),
    )
    previews_per_minute: int = Field(
        60,
        ge=1,
        le=100_000,
        description="Maximum number of constraint previews per caller and minute. Further previews get 429.",
    )
    max_definitions: int = Field(
        20_000,
        ge=1,
        le=100_000,
        description="Maximum number of definitions. A request to create a further definition gets 409.",
    )
    max_namespaces: int = Field(
        100,
        ge=1,
        le=1_000,
        description=(
            "Maximum number of namespaces besides `default`. A request to create a further "
            "namespace gets 409."
        ),
    )
    namespace_quotas: Words = Field(
        default_factory=list,
        max_length=6,
        description=(
            "Default quotas of namespaces, including `default`, as `QUOTA=NUMBER`. A namespace's "
            "own quota takes precedence. Quotas: `waiting_jobs`, `waiting_bytes`, `pushes_per_s`, "
            "`argument_bytes`, `workers` and `streams`. Default: no bounds."
        ),
    )
    max_event_bytes: int = Field(
        64 * 1024,
        ge=1024,
        le=MIB,
        description="Maximum size of an event's payload as MessagePack, in bytes. A larger payload gets 413.",
    )
    max_intake_bytes: int = Field(
        64 * MIB,
        ge=MIB,
        le=64 * 1024 * MIB,
        description="Maximum total size of the push bodies that a master process holds at once, in bytes. Further "
        "pushes get 503 with Retry-After.",
    )
    linger_s: float = Field(
        0.0,
        ge=0,
        le=30,
        description=(
            "Time for which a master that was told to stop continues to serve while `/readyz` "
            "answers 503. So load balancers stop sending requests to it before its port closes. On "
            "Kubernetes: 5."
        ),
    )
    target_grace_s: float = Field(
        25.0,
        ge=0,
        le=3600,
        description=(
            "Time for which a master that was told to stop waits for the answers to its requests to "
            "targets. After that, it cuts these requests off, and each counts as a loss."
        ),
    )
    receipt_deadline_s: float = Field(
        10.0,
        ge=1,
        le=3600,
        description=(
            "Time within which a request must arrive, plus 1 s per 64 KiB of body. A later request gets 408."
        ),
    )
    write_deadline_s: float = Field(
        30.0, ge=1, le=3600, description="A client that reads nothing for this long is disconnected."
    )

    @field_validator("namespace_quotas")
    @classmethod
    def _are_quotas(cls, entries: list[str]) -> list[str]:
        for entry in entries:
            if not _QUOTA.fullmatch(entry):
                raise ValueError(
                    f"{entry[:100]}: expected QUOTA=NUMBER, such as waiting_jobs=100000, with one of waiting_jobs, "
                    "waiting_bytes, pushes_per_s, argument_bytes, workers and streams"
                )
        if len({entry.partition("=")[0] for entry in entries}) < len(entries):
            raise ValueError("a quota is named twice; name each once")
        return entries
