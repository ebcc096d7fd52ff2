"""The path from the stores of a process to the leader in the same process."""

from collections.abc import Callable, Collection
from typing import Final

from jqmaster.store.link.leader_port import LEADER_ELSEWHERE, TravellingClaim, Trigger
from jqmaster.store.link.wake import WakeMessage

Wake = Callable[[WakeMessage], None]
ClaimWith = Callable[[Trigger, Collection[str]], TravellingClaim | None]
_NOWHERE: Final[Wake] = LEADER_ELSEWHERE.wake
_NEVER: Final[ClaimWith] = LEADER_ELSEWHERE.claim_with


class LocalLeader:
    """The `LeaderPort` of a process. Between `connect` and `disconnect`, the process leads, and the functions of the
    port are those of the leader."""

    def __init__(self) -> None:
        self.disconnect()

    def connect(self, wake: Wake, claim_with: ClaimWith = _NEVER) -> None:
        self.is_here, self.wake, self.claim_with = True, wake, claim_with

    def disconnect(self) -> None:
        self.is_here, self.wake, self.claim_with = False, _NOWHERE, _NEVER


class LocalLead:
    """Component of one leadership: connects it to the stores of its process. While it runs, the stores of this process
    wake the leader without a message, and the leader's claims travel with their writes."""

    def __init__(self, leader: LocalLeader, wake: Wake, claim_with: ClaimWith) -> None:
        self._leader = leader
        self._wake = wake
        self._claim_with = claim_with

    async def start(self) -> None:
        self._leader.connect(self._wake, self._claim_with)

    async def stop(self) -> None:
        self._leader.disconnect()
