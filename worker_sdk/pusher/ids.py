"""IDs of jobs and events: UUIDv7. They sort by time and, within a process, by the order in which they were made."""

import os
import threading
import time
from typing import Final

from worker_sdk import forked

# Behind the milliseconds, a number that begins anywhere in its lower quarter at each new millisecond and then counts.
_COUNT_BITS: Final = 26
# Random texts are made so many at once: the kernel takes longer for a call than for the bytes.
_AT_ONCE: Final = 128
_NODE_DIGITS: Final = 12


class _IdSequence:
    """The state behind `new_job_id`, one for the process."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew, as a child after a fork must."""
        self._lock = threading.Lock()
        self._now_ms = 0
        self._time = ""
        self._count = 0
        self._nodes: list[str] = []

    def next(self) -> str:
        with self._lock:
            now_ms = time.time_ns() // 1_000_000
            nodes = self._nodes
            if len(nodes) < 2:
                nodes = self._nodes = _random_nodes()
            if now_ms > self._now_ms:
                self._begin(now_ms, int(nodes.pop()[:6], 16))
            else:
                # Also when the clock was set back.
                self._count += 1
                if self._count >> _COUNT_BITS:
                    self._begin(self._now_ms + 1, 0)
            count = self._count
            return f"{self._time}{0x7000 | count >> 14:x}-{0x8000 | count & 0x3FFF:x}-{nodes.pop()}"

    def _begin(self, now_ms: int, count: int) -> None:
        self._now_ms, self._count = now_ms, count
        self._time = f"{now_ms >> 16:08x}-{now_ms & 0xFFFF:04x}-"


def _random_nodes() -> list[str]:
    digits = os.urandom(_NODE_DIGITS // 2 * _AT_ONCE).hex()
    return [digits[at : at + _NODE_DIGITS] for at in range(0, len(digits), _NODE_DIGITS)]


_sequence: Final = _IdSequence()
forked.renew_in_child(_sequence)


def new_job_id() -> str:
    """Return a UUIDv7 that no other process makes, also not one that was forked at the same moment."""
    forked.check()
    return _sequence.next()
