"""A limit on the resources of pushes: memory for their bodies, and time of the store.

It applies only to pushes. Heartbeats, results, claims and operators' calls never wait for room, and are never
refused for lack of it.
"""

import asyncio
import random
from types import TracebackType
from typing import Final, Self

from jqmaster.errors import OverloadedError
from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.push_pace import PushPace

# Bulks whose jobs are decoded and written at a time. More than one keeps the store busy while the next is
# decoded. The store's other connections are left for callers that do not push.
BULKS_AT_A_TIME: Final = 4
# Single pushes. Beyond this number the store is the bottleneck, and waits would only grow.
MOST_SINGLE: Final = 5_000
MOST_BULKS: Final = 64
_RETRY_AFTER_S: Final = (1, 3)

_spread = random.Random()  # noqa: S311 - spreads repeats, guards nothing


class Intake:
    """`max_bytes` limits the bodies of all pushes; each counts from its first byte until its answer."""

    def __init__(self, pace: PushPace, max_bytes: LiveValue[int]) -> None:
        self.pace = pace
        self._max_bytes = max_bytes
        self._single = 0
        self._bulks = 0
        self._turns = asyncio.Semaphore(BULKS_AT_A_TIME)
        self.held_bytes = 0

    @property
    def pushes(self) -> int:
        """Return the number of pushes under way."""
        return self._single + self._bulks

    def enter(self, *, is_bulk: bool) -> "PushInProgress":
        """Return a context in which the push stays until its answer is known. Raise OverloadedError before anything is
        read."""
        if self.held_bytes >= self._max_bytes.current or (
            self._bulks >= MOST_BULKS if is_bulk else self._single >= MOST_SINGLE
        ):
            raise self._overloaded()
        return PushInProgress(self, is_bulk=is_bulk)

    def began(self, *, is_bulk: bool) -> None:
        self._bulks += is_bulk
        self._single += not is_bulk

    def ended(self, *, is_bulk: bool, held_bytes: int) -> None:
        self._bulks -= is_bulk
        self._single -= not is_bulk
        self.held_bytes -= held_bytes

    def hold(self, size: int) -> None:
        """Hold room for a body. Raise OverloadedError if there is none."""
        if self.held_bytes + size > self._max_bytes.current:
            raise self._overloaded()
        self.held_bytes += size

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
            "more is pushed than can be taken in; nothing was accepted",
            # Spread the retries, or all would come back at the same moment.
            retry_after_s=_spread.randint(*_RETRY_AFTER_S),
        )


class PushInProgress:
    """One push."""

    __slots__ = ("_held_bytes", "_intake", "_is_bulk", "_turn_since_s")

    def __init__(self, intake: Intake, *, is_bulk: bool) -> None:
        self._intake = intake
        self._is_bulk = is_bulk
        self._held_bytes = 0
        self._turn_since_s: float | None = None

    def __enter__(self) -> Self:
        self._intake.began(is_bulk=self._is_bulk)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._intake.ended(is_bulk=self._is_bulk, held_bytes=self._held_bytes)
        if self._turn_since_s is not None:
            self._intake.give_turn(asyncio.get_running_loop().time() - self._turn_since_s)

    def hold(self, size: int) -> None:
        """Count `size` more bytes of its body. Raise OverloadedError if there is no room for them."""
        self._intake.hold(size)
        self._held_bytes += size

    async def read(self) -> None:
        """Note that the body is complete and will be decoded. A bulk waits for its turn, because decoding
        makes it several times as large."""
        if self._is_bulk:
            await self._intake.take_turn()
            self._turn_since_s = asyncio.get_running_loop().time()
