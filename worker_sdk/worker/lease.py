"""How long a worker may rely on its claims: estimates of the store's time with bounds, and safety margins of leases."""

import functools
import math
import time
from collections.abc import Callable
from typing import Final

# The largest drift of a clock that is expected, as a fraction of the elapsed time. Quartz is accurate to 50 ppm; a
# virtual machine with CPU steal may be ten times worse.
DRIFT: Final = 0.0005
MAX_MARGIN_S: Final = 2.0

# Returns the monotonic time in seconds. The clock also runs while the machine sleeps, because leases end then, too.
now_s: Callable[[], float] = (
    functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class StoreClock:
    """Bounds of the store's time, computed from answers that contain it. One thread writes the bounds; any thread may
    read them.

    `stale_fence`: offers with this fence or a lower one were made before the store's clock was set back, and look newer
    than they are. 0: there are none.
    """

    def __init__(self) -> None:
        self.stale_fence = 0
        # A reference time in s, and the smallest and largest possible difference between the store's clock and this
        # clock at that time, in ms. The tuple is always replaced as a whole, because other threads read it.
        self._bounds: tuple[float, float, float] | None = None

    def observe(self, store_time_ms: int, sent_s: float, received_s: float, *, fence: int = 0) -> None:
        """Record that the store's time was `store_time_ms` at an instant between `sent_s` and `received_s`. `fence`:
        the newest fence of any claim at that time (0: unknown)."""
        low = store_time_ms - received_s * 1000
        high = store_time_ms + 1 - sent_s * 1000  # + 1 for the cut-off fraction of a millisecond
        is_set_back = False
        if self._bounds is not None:
            old_low, old_high = self._bounds_at(received_s, self._bounds)
            is_set_back = high < old_low
            # If the bounds do not overlap, the store's clock was set or another store answers. Then keep only the new
            # bounds.
            if max(low, old_low) <= min(high, old_high):
                low, high = max(low, old_low), min(high, old_high)
        # Set the fence before the bounds: a thread that reads the new time must also see the new fence. Use the smaller
        # fence: after a restore from a backup, new offers may have lower fences than before.
        self.stale_fence = fence if is_set_back else min(self.stale_fence, fence)
        self._bounds = (received_s, low, high)

    def latest_ms(self, at_s: float, *, within_s: float = math.inf) -> float | None:
        """Return the latest time that the store's clock can show, or None if no answer of the last `within_s` seconds
        contained it."""
        bounds = self._bounds
        if bounds is None or at_s - bounds[0] > within_s:
            return None
        return at_s * 1000 + self._bounds_at(at_s, bounds)[1]

    def earliest_ms(self, at_s: float) -> int:
        """Return the earliest time that the store's clock can show. Return 0 if the store's time is not known yet."""
        return (
            0 if self._bounds is None else max(0, int(at_s * 1000 + self._bounds_at(at_s, self._bounds)[0]))
        )

    def estimate_ms(self, at_s: float) -> int:
        """Return the middle of the bounds. If the store's time is not known yet, return the time of this machine's
        clock."""
        if self._bounds is None:
            return int(time.time() * 1000)
        low, high = self._bounds_at(at_s, self._bounds)
        return int(at_s * 1000 + (low + high) / 2)

    @staticmethod
    def _bounds_at(at_s: float, bounds: tuple[float, float, float]) -> tuple[float, float]:
        reference_s, low, high = bounds
        drift_ms = abs(at_s - reference_s) * DRIFT * 1000
        return low - drift_ms, high + drift_ms


def margin_s(lease_s: float) -> float:
    """Return how many seconds before the end of its lease a job is stopped, so that the job has ended when the lease
    ends."""
    return min(MAX_MARGIN_S, lease_s * 0.1)
