"""IDs of jobs and events: UUIDv7. They sort by time and, within a process, by the order in which they were made."""

import itertools
import os
import random
import time
from typing import Final

from worker_sdk import forked

# Behind the milliseconds stands a number that counts on with each ID.
COUNT_BITS: Final = 26
_NODE_BITS: Final = 48


class IdSequence:
    """The state behind `new_job_id`, one for the process.

    It has no lock, because a signal handler that enqueues may run in the midst of another call. Each step that matters
    is one call of C, which neither a signal nor another thread interrupts.

    * `first`: the number to begin with; None: any in the lower half.
    """

    def __init__(self, first: int | None = None) -> None:
        self._begin(first)

    def renew(self) -> None:
        """Begin anew, as a child after a fork must."""
        self._begin(None)

    def _begin(self, first: int | None) -> None:
        self._random = random.Random(os.urandom(32))  # noqa: S311 - IDs are no secrets
        self._counts = itertools.count(self._random.getrandbits(COUNT_BITS - 1) if first is None else first)
        self._now_ms = 0

    def next(self) -> str:
        """Return the next ID as text."""
        # Also when the clock was set back.
        self._now_ms = now_ms = max(time.time_ns() // 1_000_000, self._now_ms)
        count = next(self._counts)
        # A count that is full goes on in the next millisecond, so that the order holds.
        now_ms += count >> COUNT_BITS
        high, low = 0x7000 | count >> 14 & 0xFFF, 0x8000 | count & 0x3FFF
        node = self._random.getrandbits(_NODE_BITS)
        return f"{now_ms >> 16:08x}-{now_ms & 0xFFFF:04x}-{high:x}-{low:x}-{node:012x}"


_sequence: Final = IdSequence()
forked.renew_in_child(_sequence)


def new_job_id() -> str:
    """Return a UUIDv7 that no other process makes, also not one that was forked at the same moment."""
    forked.check()
    return _sequence.next()
