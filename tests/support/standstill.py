"""Notes when the machine stood still: a thread beats four times a second, and a late beat is the proof.

A computing process also keeps its own threads waiting, so its own processor time does not count. Time taken by a
hypervisor does, because everything then runs too slowly for any time limit.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BEAT_S: Final = 0.25
# Any busy machine causes shorter waits.
LATE_S: Final = 1.0
# Measure the host over at least HOST_S. It took too much if its share of all processors was more than HOST_SHARE.
HOST_S: Final = 2.0
HOST_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the clocks, in seconds. `used_s` is the processor time of this process. `stolen_s` is the time
    that the host took from this machine, averaged over its processors."""

    at_s: float
    used_s: float
    stolen_s: float


def read_clocks() -> Reading:
    return Reading(time.monotonic(), time.process_time(), _stolen_s())


class Watch:
    """Remembers when this machine stood still. `read` reads the clocks."""

    def __init__(self, read: Callable[[], Reading] = read_clocks) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._beat = self._host = read()
        # The end and the description of each standstill.
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
        """Compare the clocks with the last beat."""
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
        """Return the last standstill since this instant of the monotonic clock, or None if the machine ran normally."""
        # The caller may wake before the thread.
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
