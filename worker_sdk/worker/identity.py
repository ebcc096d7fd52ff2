"""The identity of this worker at the masters. Each registration sets a new identity."""

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker_sdk.protocol import HeartbeatAnswer, RegisterAnswer


@dataclass(frozen=True, slots=True)
class Registered:
    """A master's answer to a registration."""

    worker_id: str
    heartbeat_interval_s: float
    lease_s: float


class WorkerIdentity:
    """The current registration of the worker. The heartbeat thread writes it. Any thread may read it, because `member`
    is replaced as one object.

    `epoch`: the highest epoch seen so far. Commands of an older leader are refused.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.member: Registered | None = None
        self.epoch = 0
        self.is_registering = True
        self.is_drain_ordered = False
        self._loop = loop
        self._settled = asyncio.Event()

    @property
    def worker_id(self) -> str | None:
        return self.member.worker_id if self.member else None

    def note_epoch(self, epoch: int) -> None:
        self.epoch = max(self.epoch, epoch)

    def joined(self, answer: "RegisterAnswer") -> Registered:
        """Set the identity from the answer to a registration. Raise KeyError, TypeError or ValueError if the answer is
        invalid."""
        member = Registered(
            str(answer["worker_id"]), float(answer["heartbeat_interval_s"]), float(answer["lease_s"])
        )
        self.note_epoch(int(answer["epoch"]))
        self.member = member
        self.is_drain_ordered = False
        self.is_registering = False
        self._loop.call_soon_threadsafe(self._settled.set)
        return member

    def update(self, member: Registered, answer: "HeartbeatAnswer") -> Registered:
        """Set the times that the answer to a heartbeat of `member` changes. Raise the errors of `joined`."""
        interval_s = float(answer.get("heartbeat_interval_s") or member.heartbeat_interval_s)
        lease_s = float(answer.get("lease_s") or member.lease_s)
        if (interval_s, lease_s) != (member.heartbeat_interval_s, member.lease_s):
            changed = replace(member, heartbeat_interval_s=interval_s, lease_s=lease_s)
            if self.member is member:
                self.member = changed
            return changed
        return member

    def lost(self, worker_id: str) -> bool:
        """Record that the masters do not know this ID any more. Return False if the worker already has another ID."""
        if self.worker_id != worker_id:
            return False
        self.is_registering = True
        self.member = None
        self._loop.call_soon_threadsafe(self._settled.clear)
        return True

    async def settled(self, timeout_s: float) -> None:
        """Wait while a registration is in progress, because the first push may arrive before the registration's
        answer."""
        if self.is_registering:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._settled.wait()
            except TimeoutError:
                pass
