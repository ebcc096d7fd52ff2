"""A gate at one instant, as a claim would see it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` starts in any window of `period_ms`."""

    limit: int
    period_ms: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that has a slot. `worker_id` is empty if its record names no worker."""

    job_id: str
    worker_id: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class GateCheck:
    """A gate as a claim would see it. `is_closed` of a shadow gate means that it would be closed if it were
    enforced.

    `waiting` jobs have to pass it, `holders` are the jobs that have run longest, if all slots are taken.
    `figures`: every number and flag of the gate, under the names that scripts use; each kind of limit knows
    its own. A missing figure means no limit.
    """

    gate_id: str
    value: str
    waiting: int
    is_closed: bool
    is_override: bool
    figures: Mapping[str, int]
    holders: tuple[Holder, ...]

    @property
    def is_shadow(self) -> bool:
        return bool(self.figures.get("is_shadow"))

    @property
    def opens_at_ms(self) -> int | None:
        """Return the earliest instant at which the gate opens; None if that does not depend on time alone."""
        return self.figures.get("due_ms")

    @property
    def running(self) -> int | None:
        """Return the number of taken slots; None if slots are not counted."""
        return self.figures.get("running")
