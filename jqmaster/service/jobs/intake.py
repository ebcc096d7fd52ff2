"""Limits the resources that pushes take: memory for their bodies, and time of the store.

The limits apply only to pushes. They never delay or refuse heartbeats, results, claims or operators' calls.
"""

import asyncio
import random
from types import TracebackType
from typing import Final, NamedTuple, Self

from jqmaster.errors import OverloadedError
from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.push_pace import PushPace
from jqmaster.shared_bound import Portion, SharedBound

# Maximum number of bulks that are decoded and written at a time. With more than one, the store stays busy while the
# next bulk is decoded. The limit leaves connections to the store for callers that do not push.
BULKS_AT_A_TIME: Final = 4
# Maximum number of single pushes at a time. More of them would only wait longer, because the store would be the
# bottleneck.
MAX_SINGLE: Final = 5_000
MAX_BULKS: Final = 64
_RETRY_AFTER_S: Final = (1, 3)

_spread = random.Random()  # noqa: S311 - spreads repeats, guards nothing


class IntakeRoom(NamedTuple):
    """One namespace's shares of the limits of a process: on the bytes of bodies in memory, and on the single pushes and
    the bulks in progress."""

    held_bytes: Portion
    singles: Portion
    bulks: Portion


class SharedIntakeRoom:
    """The limits of a process on the pushes of all its namespaces together. `max_bytes` limits the bodies in memory. A
    body counts from its first byte until the push is answered."""

    def __init__(self, max_bytes: LiveValue[int]) -> None:
        self._bounds = [
            SharedBound(most) for most in (max_bytes, LiveValue(MAX_SINGLE), LiveValue(MAX_BULKS))
        ]

    def portion(self) -> IntakeRoom:
        """Return the shares of a further namespace."""
        return IntakeRoom(*(bound.portion() for bound in self._bounds))


class Intake:
    """Admits the pushes of a namespace, within its shares in `room`. Bulks of one namespace wait only for one
    another."""

    def __init__(self, pace: PushPace, room: IntakeRoom) -> None:
        self.pace = pace
        self._room = room
        self._turns = asyncio.Semaphore(BULKS_AT_A_TIME)

    @property
    def held_bytes(self) -> int:
        """Return the bytes of bodies in memory."""
        return self._room.held_bytes.taken

    @property
    def pushes(self) -> int:
        """Return the number of pushes in progress."""
        return self._room.singles.taken + self._room.bulks.taken

    def enter(self, *, is_bulk: bool) -> "PushInProgress":
        """Return a context that the caller enters before it reads the body, and leaves when the answer is known. Raise
        OverloadedError if no push is admitted now."""
        room = self._room
        place = room.bulks if is_bulk else room.singles
        for portion in (room.held_bytes, place):
            # Compare inline as far as possible, because a function call would slow down every push.
            if portion.shared.taken >= portion.shared.most.current or (
                portion.taken and not portion.has_room()
            ):
                raise self._overloaded()
        return PushInProgress(self, place, is_bulk=is_bulk)

    def hold(self, size: int, *, held: int) -> None:
        """Reserve `size` more bytes for a push that already holds `held` bytes. Raise OverloadedError if they are not
        available. If the namespace holds no other body, this push may use all free bytes of the process."""
        portion = self._room.held_bytes
        is_full = portion.shared.taken + size > portion.shared.most.current
        if is_full or (portion.taken != held and not portion.has_room(size)):
            raise self._overloaded()
        portion.taken += size
        portion.shared.taken += size

    def release(self, size: int) -> None:
        """Release the bytes of a body."""
        portion = self._room.held_bytes
        portion.taken -= size
        portion.shared.taken -= size

    async def take_turn(self) -> None:
        await self._turns.acquire()

    def give_turn(self, took_s: float) -> None:
        rest_s = self.pace.rest_s(took_s)
        if rest_s:
            asyncio.get_running_loop().call_later(rest_s, self._turns.release)
        else:
            self._turns.release()

    def _overloaded(self) -> OverloadedError:
        return OverloadedError(
            "too many pushes are in progress; nothing was accepted",
            # Spread the retries, or all of them would arrive at the same moment.
            retry_after_s=_spread.randint(*_RETRY_AFTER_S),
        )


class PushInProgress:
    """One admitted push."""

    __slots__ = ("_held_bytes", "_intake", "_is_bulk", "_place", "_turn_since_s")

    def __init__(self, intake: Intake, place: Portion, *, is_bulk: bool) -> None:
        self._intake = intake
        self._place = place
        self._is_bulk = is_bulk
        self._held_bytes = 0
        self._turn_since_s: float | None = None

    def __enter__(self) -> Self:
        self._place.taken += 1
        self._place.shared.taken += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._place.taken -= 1
        self._place.shared.taken -= 1
        self._intake.release(self._held_bytes)
        if self._turn_since_s is not None:
            self._intake.give_turn(asyncio.get_running_loop().time() - self._turn_since_s)

    def hold(self, size: int) -> None:
        """Count `size` more bytes of the push's body. Raise OverloadedError if they exceed the limit."""
        self._intake.hold(size, held=self._held_bytes)
        self._held_bytes += size

    async def read(self) -> None:
        """Report that the body is complete and will be decoded. A bulk waits here for its turn, because decoding
        multiplies its size."""
        if self._is_bulk:
            await self._intake.take_turn()
            self._turn_since_s = asyncio.get_running_loop().time()
