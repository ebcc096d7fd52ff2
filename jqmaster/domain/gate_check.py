"""A gate at one instant, as a claim would see it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` starts in any window of `period_ms`."""

    limit: int
    period_ms: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that has a slot. `worker_id` is empty where its record tells none."""

    job_id: str
    worker_id: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class GateCheck:
    """A gate as a claim would see it. `is_closed` of a shadow gate means that it would be, were it enforced.

    `waiting` jobs have to pass it, `holders` are those that run longest, where all slots are taken. `opens_at_ms`:
    not before; None where no clock decides.
    """

    gate_id: str
    value: str
    waiting: int
    is_closed: bool
    concurrency: int | None
    running: int | None
    rate: Rate | None
    starts: int | None
    held_until_ms: int | None
    is_paused: bool
    is_shadow: bool
    is_fair: bool
    is_override: bool
    opens_at_ms: int | None
    holders: tuple[Holder, ...]
