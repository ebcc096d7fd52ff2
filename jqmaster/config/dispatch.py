"""Leases, heartbeats and offers."""

from pydantic import Field

from jqmaster.config.values import DAY_S, SettingsBase, Words


class DispatchSettings(SettingsBase):
    """Leases and dispatch."""

    lease_ms: int = Field(
        15_000, ge=500, le=600_000, description="Life of a lease. Each heartbeat renews it."
    )
    offer_ms: int = Field(
        5_000, ge=100, le=60_000, description="Time in which a worker may accept a pushed job."
    )
    heartbeat_interval_s: float = Field(
        1.0,
        ge=0.05,
        le=60,
        description="Interval between a worker's heartbeats. Workers learn a changed one from the "
        "answer to their next heartbeat, or when they get a job.",
    )
    worker_stale_s: float = Field(
        5.0, ge=0.1, le=600, description="A worker that sends no heartbeat for this long gets no new jobs."
    )
    ping_timeout_s: float = Field(
        0.5, ge=0.05, le=10, description="Timeout of a ping. Only workers whose heartbeats stop are pinged."
    )
    max_missed_pings: int = Field(
        3,
        ge=1,
        le=100,
        description="Missed pings in a row, one per second, after which a silent worker is detached.",
    )
    crowd_share: float = Field(
        0.3,
        ge=0,
        le=1,
        description="If more than this share of the live workers falls silent within `worker_stale_s`, no job is "
        "reclaimed and no worker detached for a grace period.",
    )
    crowd_least: int = Field(
        3,
        ge=1,
        le=1_000_000,
        description="Fewest silent workers that can start the grace period of `crowd_share`.",
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
        description="How often a worker that was detached asks whether it may continue its jobs, before it stops them.",
    )
    continue_pause_s: float = Field(
        0.3, ge=0.05, le=60, description="Pause of a detached worker between two of these questions."
    )
    breaker_failures: int = Field(
        5,
        ge=1,
        le=1000,
        description="Failed pushes in a row after which the circuit breaker of a worker opens: it gets no pushes then.",
    )
    breaker_first_open_s: float = Field(
        1.0,
        ge=0.1,
        le=3600,
        description="How long a circuit breaker stays open at first. After that one push probes the worker.",
    )
    breaker_longest_open_s: float = Field(
        30.0,
        ge=0.1,
        le=3600,
        description="Each failed probe keeps a circuit breaker open for twice as long as before, and at most for this "
        "long.",
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
        description="A job fails with cause `lost` when this many workers have been lost while running it. A "
        "checkpoint that it saves ends the count.",
    )
    alone_wait_s: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="Before its last attempt, a job under which workers were lost waits up to this long for an idle"
        " worker that runs nothing else. After that it runs beside other jobs.",
    )
    leader_ttl_s: float = Field(
        5.0,
        ge=0.5,
        le=60,
        description="Life of the leader's lock. The leader renews it three times in that period.",
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
