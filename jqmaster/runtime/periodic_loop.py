"""Base classes of components that work in rounds: any component, and a duty of the leader."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

from jqmaster.clock import Clock, sleep_to_tick, wait_for_event
from jqmaster.errors import JqmasterError, StaleEpochError
from jqmaster.lifecycle import BackgroundLoops

RETRY_S: Final = 1.0

# A function that does one round of work, and returns the seconds until the next one.
Round = Callable[[], Awaitable[float]]


class PeriodicLoop:
    """Base of components that work in rounds. `first_after_s`: the pause before the first one.

    Each component declares whether it `is_vital`; see `BackgroundLoops`. A duty that reads data of callers, or calls
    other systems, is not vital: otherwise one unreadable entry could end one master after another.

    A JqmasterError is logged as `complaint`, and the round is repeated after `_retry_after_s`. Any other error is a
    fault of the program: `BackgroundLoops` logs it and starts the loop again.

    The dispatcher and the election have their own loops, because events begin their rounds. Components of the services
    have their own loops, because they may not import this layer.
    """

    is_vital: ClassVar[bool]

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        complaint: str,
        retry_s: float = RETRY_S,
        first_after_s: float = 0.0,
    ) -> None:
        self._clock = clock
        self._complaint = complaint
        self._retry_s = retry_s
        self._first_after_s = first_after_s
        self._expected: tuple[type[Exception], ...] = (JqmasterError,)
        self._loops = BackgroundLoops(name, is_vital=self.is_vital)
        self._logger = logging.getLogger(type(self).__module__)
        self._wake = asyncio.Event()

    async def start(self) -> None:
        self._spawn("rounds", self._round, self._complaint, after_s=self._first_after_s)

    async def stop(self) -> None:
        await self._loops.stop()

    def wake(self) -> None:
        """Begin the next round now, if `_pause` waits for this."""
        self._wake.set()

    async def _round(self) -> float:
        raise NotImplementedError

    async def _pause(self, seconds: float) -> None:
        await sleep_to_tick(self._clock, seconds)

    def _retry_after_s(self) -> float:
        """Return the pause after a round that failed."""
        return self._retry_s

    def _failed(self, error: Exception, complaint: str) -> None:
        """Log that a round failed."""
        detail = error.detail if isinstance(error, JqmasterError) else str(error)
        self._logger.warning("%s: %s", complaint, detail)

    def _is_over(self, error: Exception) -> bool:
        """Return whether the loop ends with this error."""
        return False

    def _spawn(
        self, role: str, work: Round, complaint: str, *, after_s: float = 0.0, retry_s: float | None = None
    ) -> None:
        """Run rounds of `work`, the first one `after_s` from now."""

        async def run() -> None:
            if after_s:
                await self._pause(after_s)
            while True:
                try:
                    wait_s = await work()
                    self._loops.worked(role)
                except Exception as exc:
                    if self._is_over(exc):
                        return
                    if not isinstance(exc, self._expected):
                        raise
                    self._failed(exc, complaint)
                    wait_s = self._retry_after_s() if retry_s is None else retry_s
                await self._pause(wait_s)

        self._loops.spawn(role, run)


class LeaderLoop(PeriodicLoop):
    """Base of the duties of one leadership: they end with it.

    A round raises StaleEpochError once the store knows a newer leadership; then the loop calls `on_stale` and ends.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        complaint: str,
        on_stale: Callable[[], None],
        retry_s: float = RETRY_S,
    ) -> None:
        super().__init__(name, clock, complaint=complaint, retry_s=retry_s)
        self._on_stale = on_stale

    def _is_over(self, error: Exception) -> bool:
        if isinstance(error, StaleEpochError):
            self._on_stale()
            return True
        return False


class WokenLoop(LeaderLoop):
    """Base of the duties that messages wake: `wake` begins the next round at once."""

    async def _pause(self, seconds: float) -> None:
        await wait_for_event(self._wake, seconds)
        # A message that comes during the round begins another one.
        self._wake.clear()
