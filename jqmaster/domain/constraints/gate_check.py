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
    """A gate as a claim would see it. For a shadow gate, `is_closed` means that an enforced gate would be closed.

    * `waiting`: the number of jobs that must pass it.
    * `holders`: if all slots are taken, the jobs that have run longest.
    * `figures`: all numbers and flags of the gate, under the names that scripts use. Each kind of limit reads its own
      figures. A missing figure means that there is no such limit.
    """

    gate_id: str
    value: str
    waiting: int
    is_closed: bool
    is_override: bool
    figures: Mapping[str, int]
    holders: tuple[Holder, ...]
    # The name of the units that the gate counts, and the path at which jobs state their weight. `unit` is empty if the
    # gate counts jobs, `weight_path` if each job has the default weight.
    unit: str = ""
    weight_path: str = ""
    # The instant at which the constraint is deleted, which opens the gate; None if it stays.
    expires_at_ms: int | None = None

    @property
    def is_shadow(self) -> bool:
        return bool(self.figures.get("is_shadow"))

    @property
    def is_weighted(self) -> bool:
        """Return whether the gate counts units. All its figures are then in thousandths."""
        return "weight_default" in self.figures

    @property
    def weight(self) -> int:
        """Return the weight of the job, in thousandths."""
        return self.figures.get("weight", self.figures["weight_default"])

    @property
    def needed(self) -> int:
        """Return the weight of an earlier job for which the gate keeps room free, in thousandths. 0: there is no such
        job."""
        return self.figures.get("noted", 0)

    @property
    def need(self) -> int:
        """Return how much room the gate needs before it opens for this job, in thousandths."""
        return max(1, self.weight + self.needed)

    @property
    def is_too_heavy(self) -> bool:
        """Return whether the job is heavier than a whole limit, so that it starts alone."""
        limits = [self.figures[name] for name in ("running_most", "window_most") if name in self.figures]
        return any(self.weight > most for most in limits)

    def lacks(self, what: str) -> bool:
        """Return whether the limit `what` of a weighted gate has no room for the job. `what`: `running` or
        `window`."""
        most, left = self.figures.get(f"{what}_most"), self.figures.get(f"{what}_left")
        if most is None or left is None:
            return False
        return min(max(1, self.weight), most) + min(self.needed, most) > left

    @property
    def opens_at_ms(self) -> int | None:
        """Return the earliest instant at which the gate opens. None: that depends on more than time."""
        due_ms = self.figures.get("due_ms")
        if self.expires_at_ms is None:
            return due_ms
        if due_ms is None:
            # Only a pause lasts as long as its constraint. A slot may be free sooner.
            return self.expires_at_ms if self.figures.get("is_paused") else None
        return min(due_ms, self.expires_at_ms)

    @property
    def running(self) -> int | None:
        """Return the number of taken slots, or None if slots are not counted."""
        return self.figures.get("running")
