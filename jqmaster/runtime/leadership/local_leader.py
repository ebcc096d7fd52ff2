"""The path from the stores of a process to the leader in the same process."""

from collections.abc import Callable, Collection

from jqmaster.store.link.leader_port import TravellingClaim
from jqmaster.store.link.wake import JobsReady, SlotsFreed, WakeMessage

Wake = Callable[[WakeMessage], None]
ClaimWith = Callable[[JobsReady | SlotsFreed, Collection[str]], TravellingClaim | None]


class LocalLeader:
    """The `LeaderPort` of a process. The process leads between `connect` and `disconnect`."""

    def __init__(self) -> None:
        self._wake: Wake | None = None
        self._claim_with: ClaimWith | None = None

    def connect(self, wake: Wake, claim_with: ClaimWith | None = None) -> None:
        self._wake, self._claim_with = wake, claim_with

    def disconnect(self) -> None:
        self._wake = self._claim_with = None

    @property
    def is_here(self) -> bool:
        return self._wake is not None

    def wake(self, message: WakeMessage) -> None:
        if self._wake:
            self._wake(message)

    def claim_with(
        self, trigger: JobsReady | SlotsFreed, names: Collection[str] = ()
    ) -> TravellingClaim | None:
        return self._claim_with(trigger, names) if self._claim_with else None


class LocalLead:
    """Component of one leadership. While it runs, the stores of this process wake the leader without a message, and its
    claims travel with their writes."""

    def __init__(self, leader: LocalLeader, wake: Wake, claim_with: ClaimWith) -> None:
        self._leader = leader
        self._wake = wake
        self._claim_with = claim_with

    async def start(self) -> None:
        self._leader.connect(self._wake, self._claim_with)

    async def stop(self) -> None:
        self._leader.disconnect()
