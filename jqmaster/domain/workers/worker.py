"""The facts about a worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX

# Why a worker was detached:
# - `silence`: the leader found it silent.
# - `operator`: an operator detached it.
# - `successor`: another worker now serves its address.
DetachedBy = Literal["silence", "operator", "successor"]
WorkerState = Literal["fresh", "stale", "draining", "detached"]


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The facts that a worker registers.

    * `url`: None if it pulls.
    * `place`: see RegisterRequest.
    * `contracts`: by name, the digest of the contract that it declared.
    * `target`: the HTTP target to which it delivers. Empty: none.
    """

    url: str | None
    names: tuple[str, ...]
    max_jobs: int
    node_id: str
    pid: int
    labels: Mapping[str, str]
    version: str
    secret: str
    place: str = ""
    contracts: Mapping[str, str] = field(default_factory=dict)
    target: str = ""

    @property
    def is_built_in(self) -> bool:
        """Return whether the worker is part of a master: it delivers to a target, or it runs the masters' own jobs. A
        worker for the masters' own jobs serves only reserved names. Other workers must not register these names."""
        return bool(self.target) or (
            bool(self.names) and all(name.startswith(RESERVED_PREFIX) for name in self.names)
        )


@dataclass(frozen=True, slots=True)
class Worker:
    """A registered worker.

    * `busy`: the number of its claims.
    * `alone_with`: the last job that the worker got to run alone. While the worker holds that job, it gets no other
      job.
    * `polls_until_ms`: the end of its long poll. 0: it does not poll, or was answered.
    * `spec.max_jobs`: the number of slots, which an operator may have changed.
    * `own_max_jobs`: the number that it registered.
    * `companion_of`: the ID of the master in whose process it runs. Empty: none.
    * `unreachable`: why the target to which it delivers cannot be reached. Empty: the target can be reached, or the
      worker delivers to none.
    """

    id: str
    spec: WorkerSpec
    registered_at_ms: int
    last_seen_ms: int
    is_draining: bool
    is_detached: bool
    busy: int
    detached_by: DetachedBy | None = None
    silent_since_ms: int = 0
    alone_with: str = ""
    polls_until_ms: int = 0
    own_max_jobs: int = 0
    companion_of: str = ""
    unreachable: str = ""

    @property
    def is_pulling(self) -> bool:
        return self.spec.url is None

    def can_receive_jobs(self, now_ms: int) -> bool:
        """Return whether the worker can get jobs now: it has an address, or its poll waits."""
        return not self.is_pulling or self.polls_until_ms > now_ms

    def state(self, now_ms: int, stale_ms: int) -> WorkerState:
        """Return the state that views show."""
        if self.is_detached:
            return "detached"
        if self.is_draining:
            return "draining"
        return "fresh" if self.is_fresh(now_ms, stale_ms) else "stale"

    def is_fresh(self, now_ms: int, stale_ms: int) -> bool:
        return now_ms - self.last_seen_ms <= stale_ms
