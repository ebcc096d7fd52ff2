"""IDs of jobs and events: UUIDv7. They sort by time and, within a process, by the order in which they were made."""

import itertools
import os
import random
import time
from typing import Final

from worker_sdk import forked

# Behind the milliseconds stands a number that counts on with each ID; the lower part of it is behind the variant.
COUNT_BITS: Final = 26
_LOWER_BITS: Final = 14
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
        self._pid = os.getpid()
        self._random_bits = random.Random(os.urandom(32)).getrandbits  # noqa: S311 - IDs are no secrets
        begin = self._random_bits(COUNT_BITS - 1) if first is None else first
        self._next_count = itertools.count(begin).__next__
        self._now_ms = 0
        # Most IDs begin as the one before: the milliseconds with the upper part of the count, and both as text.
        # They are replaced together.
        self._beginning = (-1, "")

    def next(self) -> str:
        """Return the next ID as text."""
        # The copy in a process that was forked in C would make the same IDs as its parent.
        if os.getpid() != self._pid:
            forked.check()
        now_ms = time.time_ns() // 1_000_000
        # The clock may have been set back.
        if now_ms < self._now_ms:
            now_ms = self._now_ms
        else:
            self._now_ms = now_ms
        count = self._next_count()
        # A count that is full goes on in the next millisecond, so that the order holds.
        now_ms += count >> COUNT_BITS
        upper = count >> _LOWER_BITS & 0xFFF
        begins_at = now_ms << 12 | upper
        known_at, beginning = self._beginning
        # Each push makes an ID: `%` takes half the time of an f-string with formats.
        if known_at != begins_at:
            beginning = "%08x-%04x-%x-" % (now_ms >> 16, now_ms & 0xFFFF, 0x7000 | upper)  # noqa: UP031
            self._beginning = (begins_at, beginning)
        return "%s%x-%012x" % (beginning, 0x8000 | count & 0x3FFF, self._random_bits(_NODE_BITS))  # noqa: UP031


_sequence: Final = IdSequence()
_next: Final = _sequence.next
forked.renew_in_child(_sequence)


def new_job_id() -> str:
    """Return a UUIDv7 that no other process makes, also not one that was forked at the same moment."""
    return _next()
