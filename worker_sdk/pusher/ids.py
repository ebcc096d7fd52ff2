"""IDs of jobs and events: UUIDv7. They sort by time and, within a process, by the order in which they were made."""

import itertools
import os
import random
import time
from typing import Final

from worker_sdk import forked

# The number of bits of the count in an ID. The count follows the milliseconds and grows with each ID; its lower part
# follows the variant bits.
COUNT_BITS: Final = 26
_LOWER_BITS: Final = 14
_LOWER: Final = (1 << _LOWER_BITS) - 1
_NODE_BITS: Final = 48


class IdSequence:
    """The state behind `new_job_id`, one for the process.

    It has no lock, because a signal handler that enqueues may interrupt another call. Each critical step is one call of
    C code, which neither a signal nor another thread can interrupt.

    * `first`: the number to begin with. None: a random number in the lower half of the range.
    """

    def __init__(self, first: int | None = None) -> None:
        self._begin(first)

    def renew(self) -> None:
        """Start again, as a child must after a fork."""
        self._begin(None)

    def _begin(self, first: int | None) -> None:
        self._random_bits = random.Random(os.urandom(32)).getrandbits  # noqa: S311 - IDs are no secrets
        begin = self._random_bits(COUNT_BITS - 1) if first is None else first
        self._next_count = itertools.count(begin).__next__
        # The parts that most IDs share with the previous ID: the milliseconds, the upper part of the count, and the
        # text made from both. They are replaced together.
        self._beginning = (0, -1, "")

    def next(self) -> str:
        """Return the next ID as text."""
        now_ms = time.time_ns() // 1_000_000
        count = self._next_count()
        known_ms, known_upper, beginning = self._beginning
        # Never use an earlier time than before: the clock may have been set back.
        if now_ms > known_ms or count >> _LOWER_BITS != known_upper:
            beginning = self._begin_with(max(now_ms, known_ms), count >> _LOWER_BITS)
        # Do not use an f-string with formats, which takes twice as long as `%`: every push makes an ID.
        return "%s%x-%012x" % (beginning, 0x8000 | count & _LOWER, self._random_bits(_NODE_BITS))  # noqa: UP031

    def _begin_with(self, now_ms: int, upper: int) -> str:
        # If the count overflows, add to the milliseconds, so that IDs still sort in order.
        at_ms = now_ms + (upper >> COUNT_BITS - _LOWER_BITS)
        beginning = "%08x-%04x-%x-" % (at_ms >> 16, at_ms & 0xFFFF, 0x7000 | upper & 0xFFF)  # noqa: UP031
        self._beginning = (now_ms, upper, beginning)
        return beginning


_sequence: Final = IdSequence()
forked.renew_in_child(_sequence)
# `next_id` does not check for a fork: its callers must call `forked.check` before they make IDs.
next_id: Final = _sequence.next


def new_job_id() -> str:
    """Return a UUIDv7 that no other process makes, not even one that was forked at the same moment."""
    # If the process was forked by C code, the copied state would make the same IDs as in the parent.
    forked.check()
    return next_id()
