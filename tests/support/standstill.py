"""Notes when the machine stood still: a thread beats four times a second, and a beat that comes late is the proof.

A process that computes keeps its own threads waiting as well, so the processor time that it used meanwhile does not
count. The share that a hypervisor took does: then everything runs, only too slowly for any time limit.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BEAT_S: Final = 0.25
# A shorter wait is what any busy machine does.
LATE_S: Final = 1.0
# The host is looked at over at least such a time, and took too much if it was more than this share of all processors.
HOST_S: Final = 2.0
HOST_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the clocks, in seconds. `used_s`: processor time of this process; `stolen_s`: time that the host
    took from this machine, on average over its processors."""

    at_s: float
    used_s: float
    stolen_s: float


def read_clocks() -> Reading:
    return Reading(time.monotonic(), time.process_time(), _stolen_s())


class Watch:
    """Remembers when this machine stood still. `read`: the clocks."""

    def __init__(self, read: Callable[[], Reading] = read_clocks) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._beat = self._host = read()
        # When each standstill ended, and what to say of it.
        self._noted: list[tuple[float, str]] = []
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="standstill watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> None:
        """Compare the clocks with those of the last beat."""
        with self._lock:
            now, before, host = self._read(), self._beat, self._host
            self._beat = now
            still_s = now.at_s - before.at_s - BEAT_S - (now.used_s - before.used_s)
            if still_s > LATE_S:
                self._noted.append((now.at_s, f"the machine stood still for {still_s:.1f} s"))
            passed_s = now.at_s - host.at_s
            if passed_s >= HOST_S:
                share = (now.stolen_s - host.stolen_s) / passed_s
                if share > HOST_SHARE:
                    self._noted.append(
                        (now.at_s, f"the host took {share:.0%} of the processors for {passed_s:.1f} s")
                    )
                self._host = now

    def since(self, at_s: float) -> str | None:
        """Return what happened last since this instant of the monotonic clock; None: the machine ran normally."""
        # The caller may wake up earlier than the thread does.
        self.look()
        return next((what for ended_s, what in reversed(self._noted) if ended_s >= at_s), None)

    def _run(self) -> None:
        while not self._is_over.wait(BEAT_S):
            self.look()


def _stolen_s() -> float:
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return 0.0
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
