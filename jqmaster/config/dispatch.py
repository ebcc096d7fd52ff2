"""Leases, heartbeats and offers."""

from pydantic import Field

from jqmaster.config.values import DAY_S, SettingsBase, Words


class DispatchSettings(SettingsBase):
    """Leases and dispatch."""

    lease_ms: int = Field(
        15_000, ge=500, le=600_000, description="Life of a lease. Each heartbeat renews it."
    )
    offer_ms: int = Field(
        5_000, ge=100, le=60_000, description="Time within which a worker must accept a pushed job."
    )
    heartbeat_interval_s: float = Field(
        1.0,
        ge=0.05,
        le=60,
        description=(
            "Interval between a worker's heartbeats. Workers learn a new interval from the answer "
            "to their next heartbeat, or when they get a job."
        ),
    )
    worker_stale_s: float = Field(
        5.0, ge=0.1, le=600, description="A worker that sends no heartbeat for this long gets no new jobs."
    )
    ping_timeout_s: float = Field(
        0.5,
        ge=0.05,
        le=10,
        description=("Timeout of a ping. Masters ping a worker only if its heartbeats stop."),
    )
    max_missed_pings: int = Field(
        3,
        ge=1,
        le=100,
        description=(
            "Number of consecutive missed pings, one per second, after which a silent worker is detached."
        ),
    )
    crowd_share: float = Field(
        0.3,
        ge=0,
        le=1,
        description=(
            "If more than this share of the live workers falls silent within `worker_stale_s`, a "
            "grace period begins. During it, no job is reclaimed and no worker is detached."
        ),
    )
    crowd_least: int = Field(
        3,
        ge=1,
        le=1_000_000,
        description="Minimum number of silent workers for the grace period of `crowd_share`.",
    )
    worker_forget_s: float = Field(
        300.0,
        ge=1,
        le=30 * DAY_S,
        description="A worker that is silent for this long and holds no jobs is forgotten.",
    )
    continue_questions: int = Field(
        3,
        ge=1,
        le=100,
        description=(
            "Number of times that a detached worker asks whether it may continue its jobs, before "
            "it stops them."
        ),
    )
    continue_pause_s: float = Field(
        0.3, ge=0.05, le=60, description="Pause of a detached worker between two such questions."
    )
    breaker_failures: int = Field(
        5,
        ge=1,
        le=1000,
        description=(
            "Number of consecutive failed pushes after which the circuit breaker of a worker opens. "
            "While it is open, the worker gets no pushes."
        ),
    )
    breaker_first_open_s: float = Field(
        1.0,
        ge=0.1,
        le=3600,
        description=(
            "Time for which a circuit breaker stays open at first. After that, one push probes the worker."
        ),
    )
    breaker_longest_open_s: float = Field(
        30.0,
        ge=0.1,
        le=3600,
        description=(
            "Maximum time for which a circuit breaker stays open. Each failed probe doubles the "
            "time, up to this limit."
        ),
    )
    timeout_grace_s: float = Field(
        5.0, ge=0, le=600, description="Time after a run's timeout at which the master ends the run itself."
    )
    push_timeout_s: float = Field(3.0, ge=0.1, le=60, description="Timeout of a worker's answer to a push.")
    max_push_jobs: int = Field(
        200, ge=1, le=500, description="Maximum number of jobs in one push to a worker."
    )
    max_losses: int = Field(
        3,
        ge=1,
        le=100,
        description=(
            "A job fails with the cause `lost` when this many workers have been lost while running "
            "it. When the job saves a checkpoint, the count starts again at 0."
        ),
    )
    alone_wait_s: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description=(
            "If workers were lost while running a job, the job waits up to this long before its "
            "last attempt for an idle worker that runs nothing else. After that, it runs beside "
            "other jobs."
        ),
    )
    leader_ttl_s: float = Field(
        5.0,
        ge=0.5,
        le=60,
        description="Life of the leader's lock. The leader renews it three times within this time.",
    )
    allowed_worker_networks: Words = Field(
        default_factory=lambda: [
            "127.0.0.0/8",
            "::1/128",
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "fc00::/7",
        ],
        description="Networks in which workers may run. Link-local, multicast and cloud metadata addresses, and the"
        " store's address, are never allowed.",
    )
