"""The path from a write to the leader in the same process. It is the only path from the store to the dispatcher.

A write that makes claims possible asks the port for them (`claim_with`), `StoreClient.run_all` sends them behind the
write in the same round trip, and `TravellingClaim` takes the replies back to the dispatcher. This saves a lone job a
round trip and an fsync. A write without a claim wakes the leader afterwards: in this process through the port
(`wake`), otherwise with a message that its script publishes. docs/architecture.md has a drawing.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.wake import JobsReady, SlotsFreed, WakeMessage


@dataclass(frozen=True, slots=True)
class TravellingClaim:
    """Claims that are sent behind a write in its round trip, and are otherwise independent of it.

    Before the write returns or raises, one of two functions is called. `on_replies`: with the reply to each call, or
    the error that `run` would have raised for it. `on_failure`: if the round trip failed, so that any call may have
    run.
    """

    calls: Sequence[ScriptCall]
    on_replies: Callable[[Sequence[tuple[str, list[Any]] | Exception]], None]
    on_failure: Callable[[], None]


class LeaderPort(Protocol):
    """The interface of the leader for writers in its process. The answers change with the leadership."""

    @property
    def is_here(self) -> bool:
        """True if this process leads. If it does, scripts publish no messages for the leader."""
        ...

    @property
    def wake(self) -> Callable[[WakeMessage], None]:
        """Wakes the leader after a write. Does nothing if the leader is another process."""
        ...

    @property
    def claim_with(self) -> Callable[[JobsReady | SlotsFreed, Collection[str]], TravellingClaim | None]:
        """Returns the claims that a write makes possible, to be sent behind it. The leader then needs no message.

        The names are those of the jobs that become ready; empty: unknown. None: the leader is another process, or
        knows of nothing to claim.
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
