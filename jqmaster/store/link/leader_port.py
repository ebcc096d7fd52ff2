"""How a write reaches the leader, where the leader is in the same process: the one port from the store to the dispatcher.

    store/jobs/enqueue.py     │  1. claim_with(JobsReady)    │
    store/jobs/settlements.py ├─────────▶ LeaderPort ────────┼──▶ Dispatcher.claim_with
    store/jobs/timers.py      │◀───── TravellingClaim ───────│
                              │
                              │  2. one round trip: [write, claim, claim …]
                              ├─────────▶ StoreClient.run_all ──▶ Valkey
                              │  3. replies to the claims
                              │           TravellingClaim.on_replies ──▶ Dispatcher

A claim that travels with the write saves a round trip and an fsync for each job that comes alone. A write that no claim
travels with wakes the leader afterwards: through the port, or through a message that its script publishes.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.wake import JobsReady, SlotsFreed, WakeMessage


@dataclass(frozen=True, slots=True)
class TravellingClaim:
    """Claims that are sent behind a write, in its round trip, and share nothing else with it.

    Before the write returns or raises, one of two functions is called: `on_replies` with the reply to each call, or with
    what `run` would have raised for that call alone; `on_failure` if the round trip failed, so that any call may have run.
    """

    calls: Sequence[ScriptCall]
    on_replies: Callable[[Sequence[tuple[str, list[Any]] | Exception]], None]
    on_failure: Callable[[], None]


class LeaderPort(Protocol):
    """What a writer may ask of the leader of its own process. The answers change when the lead does."""

    @property
    def is_here(self) -> bool:
        """Whether this process leads. If it does, scripts publish no messages for the leader."""
        ...

    def wake(self, message: WakeMessage) -> None:
        """Tell the leader of a write that was done. Does nothing if the leader is elsewhere."""
        ...

    def claim_with(
        self, trigger: JobsReady | SlotsFreed, names: Collection[str] = ()
    ) -> TravellingClaim | None:
        """Return the claims that a write makes possible, to be sent behind it; then `trigger` need not be told.

        `names`: of the jobs that become ready, where they are known. None if the leader is elsewhere, or if as far as it
        knows nothing could be claimed.
        """
        ...


class LeaderElsewhere:
    """The port of a process that never leads."""

    is_here = False

    def wake(self, message: WakeMessage) -> None:
        pass

    def claim_with(
        self, trigger: JobsReady | SlotsFreed, names: Collection[str] = ()
    ) -> TravellingClaim | None:
        return None


LEADER_ELSEWHERE: Final = LeaderElsewhere()
