"""The facts that explain why a job is not running: one snapshot of the store, and the workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from jqmaster.domain.constraints.gate_check import GateCheck
from jqmaster.domain.jobs.job import Job
from jqmaster.domain.workers.worker import Worker


class Accuracy(StrEnum):
    """The accuracy of a count."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    ABOUT = "about"


@dataclass(frozen=True, slots=True)
class JobsAhead:
    """Jobs that start before a ready job, by name."""

    by_name: Mapping[str, int]
    bound: Accuracy


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts in the store at one instant.

    * `lease_until_ms`: of a running job, the end of its lease or its deadline, whichever is sooner.
    * `jobs_ahead`: None if the job is not ready, or waits in a lane of older constraints.
    * `index_fault`: the fault of the index that hides a ready job from claims. Empty: none.
    * `put_off`: why the last attempt was put off. Empty: it was not.
    * `earlier_end`: how the previous attempt of a running job ended. Empty: its handler cannot still run on the same
      worker.
    """

    now_ms: int
    job: Job
    has_leader: bool
    edition: int
    settled_edition: int
    lane_edition: int
    lease_until_ms: int | None
    gates: tuple[GateCheck, ...]
    jobs_ahead: JobsAhead | None
    index_fault: str = ""
    # The first of the jobs for which this job waits, with their states, and the number of all of these jobs.
    awaits: tuple[tuple[str, str | None], ...] = ()
    awaits_count: int = 0
    put_off: str = ""
    earlier_end: str = ""


@dataclass(frozen=True, slots=True)
class Reachability:
    """Facts about a worker that only the leader knows.

    * `paused_ms`: how long it asked for no offers.
    * `refused_names`: names that it registered but refused as unknown.
    * `why`: the reason of the last failed push.
    """

    breaker: str = "closed"
    paused_ms: int = 0
    refused_names: frozenset[str] = frozenset()
    why: str = ""


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """Facts about the workers.

    * `reach`: by worker ID; None if this master does not lead.
    * `deadline_extra_ms`: how long a run may last beyond its timeout before the master ends it.
    """

    workers: Sequence[Worker]
    stale_ms: int
    deadline_extra_ms: int
    reach: Mapping[str, Reachability] | None
