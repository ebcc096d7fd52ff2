"""Base classes of components that work in rounds: any component, and a duty of the leader."""

import asyncio
import contextvars
import logging
import math
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

from jqmaster.clock import Clock, WakeFlag, sleep_to_tick, wait_for_event
from jqmaster.errors import JqmasterError, StaleEpochError
from jqmaster.lifecycle import BackgroundLoops

RETRY_S: Final = 1.0
# A duty that follows the looks makes a round at least this often.
LONGEST_REST_S: Final = 1_800.0
_SAME_INSTANT_S: Final = 0.01

# A function that does one round of work, and returns the seconds until the next one.
Round = Callable[[], Awaitable[float]]


class PeriodicLoop:
    """Base of components that work in rounds. `first_after_s`: the pause before the first one.

    Each component declares whether it `is_vital`; see `BackgroundLoops`. A duty that reads data of callers, or calls
    other systems, is not vital. Otherwise, one unreadable entry could end one master after another.

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
        self.name = name
        self._clock = clock
        self._complaint = complaint
        self._retry_s = retry_s
        self._first_after_s = first_after_s
        self._expected: tuple[type[Exception], ...] = (JqmasterError,)
        self._loops = BackgroundLoops(name, is_vital=self.is_vital)
        self._logger = logging.getLogger(type(self).__module__)
        self._wake = WakeFlag()

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

    async def _pause_after_failure(self, seconds: float) -> None:
        await self._pause(seconds)

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
        first_after_s = after_s

        async def run() -> None:
            nonlocal first_after_s
            # Wait only once: a loop that starts again after a fault has already waited.
            pause_s, first_after_s = first_after_s, 0.0
            if pause_s:
                await self._pause(pause_s)
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
                    await self._pause_after_failure(self._retry_after_s() if retry_s is None else retry_s)
                else:
                    if self._rests_without_task(wait_s):
                        return
                    await self._pause(wait_s)

        self._loops.spawn(role, run)

    def _rests_without_task(self, seconds: float) -> bool:
        """Return whether the task ends for this pause, because something else will begin the next round."""
        return False


class LeaderLoop(PeriodicLoop):
    """Base of the duties of one leadership: they end with it.

    Once the store knows a newer leadership, a round raises StaleEpochError. The loop then calls `on_stale` and ends.

    A duty may follow the looks at the shard (`runtime/duties/shard_look.py`). Then the next round begins:

    * by itself, if the last one returned less than `poll_s`,
    * otherwise at a look or a message,
    * after `rest_s` at the latest, in case looks miss something.

    The duty has no task while it waits for one of the last two. A process may lead a thousand shards, with fifteen such
    duties each.
    """

    poll_s: ClassVar[float] = math.inf
    rest_s: ClassVar[float] = LONGEST_REST_S

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
        self._follows_looks = False
        self._rest_share = 1.0
        # The state of the pause under way. `_pausing`: the pause of a task. `_resting`: the timer of a pause without a
        # task.
        self._began_pause_s = 0.0
        self._pausing: asyncio.Timeout | None = None
        self._resting: asyncio.TimerHandle | None = None
        # The context in which the loop was started. Rounds run in it, although a message that begins a round comes from
        # a task with another context.
        self._context: contextvars.Context | None = None
        # True: a round that ends now begins no pause.
        self._is_stopped = False

    async def start(self) -> None:
        self._is_stopped = False
        if self._follows_looks:
            self._context = contextvars.copy_context()
            self._rest_without_task(self._longest_rest_s())
        else:
            await super().start()

    async def stop(self) -> None:
        self._is_stopped = True
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        await super().stop()

    def wake(self) -> None:
        super().wake()
        if self._resting is not None:
            self._begin()

    def follow_looks(self, *, share: float = 1.0) -> None:
        """Let the looks at the shard begin the rounds. `share`: the part of `rest_s` for which the duty rests at most.
        Different shares keep the duties of many shards from ending their rests together."""
        self._follows_looks = True
        self._rest_share = share

    def _longest_rest_s(self) -> float:
        return self._rest_share * self.rest_s

    @property
    def next_round_s(self) -> float | None:
        """Return when the pause under way ends, by the clock of the event loop. None: there is no pause, or it has no
        end."""
        if self._resting is not None:
            return self._resting.when()
        return None if self._pausing is None else self._pausing.when()

    def begin_within(self, seconds: float) -> None:
        """Begin the next round within this time. A round that is under way goes on."""
        pausing, loop = self._pausing, asyncio.get_running_loop()
        if self._resting is None and (pausing is None or pausing.expired()):
            return
        at_s, planned_s = loop.time() + seconds, self.next_round_s
        # Ignore a small difference: both times may be derived from the same store time, read at different moments.
        if planned_s is not None and at_s >= planned_s - _SAME_INSTANT_S:
            return
        if self._resting is None:
            assert pausing is not None
            pausing.reschedule(at_s)
        elif seconds <= 0:
            self._begin()
        else:
            self._resting.cancel()
            self._resting = loop.call_at(at_s, self._begin)

    def poll(self) -> None:
        """Begin the next round `poll_s` after the end of the last one."""
        self.begin_within(max(0.0, self._began_pause_s + self.poll_s - asyncio.get_running_loop().time()))

    def _is_over(self, error: Exception) -> bool:
        if isinstance(error, StaleEpochError):
            self._on_stale()
            return True
        return False

    async def _pause(self, seconds: float) -> None:
        if self._follows_looks:
            await self._rest(seconds if seconds < self.poll_s else max(seconds, self._longest_rest_s()))
        else:
            await self._sleep(seconds)

    async def _pause_after_failure(self, seconds: float) -> None:
        if self._follows_looks:
            await self._rest(seconds)
        else:
            await self._sleep(seconds)

    async def _sleep(self, seconds: float) -> None:
        """Pause as a duty that does not follow the looks."""
        await super()._pause(seconds)

    def _rests_without_task(self, seconds: float) -> bool:
        if self._is_stopped:
            return True
        # Do not rest if a message came during the round: it begins another one.
        if not self._follows_looks or seconds < self.poll_s or self._wake.is_set():
            return False
        self._rest_without_task(max(seconds, self._longest_rest_s()))
        return True

    def _rest_without_task(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._began_pause_s = loop.time()
        self._resting = loop.call_later(seconds, self._begin)

    def _begin(self) -> None:
        """End the pause without a task."""
        assert self._resting is not None
        # Compare with None, because an empty context is false.
        assert self._context is not None
        self._resting.cancel()
        self._resting = None
        self._woken()
        self._context.run(self._spawn, "rounds", self._round, self._complaint)

    async def _rest(self, seconds: float) -> None:
        """Pause until a message or `begin_within` ends the pause, but at most for `seconds`."""
        self._began_pause_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(seconds) as self._pausing:
                await self._wake.wait()
        except TimeoutError:
            pass
        finally:
            self._pausing = None
        self._woken()

    def _woken(self) -> None:
        # Clear the flag before the round, so that a message that comes during it begins another one.
        self._wake.clear()


class WokenLoop(LeaderLoop):
    """Base of the duties that messages wake: `wake` begins the next round at once."""

    async def _sleep(self, seconds: float) -> None:
        await wait_for_event(self._wake, seconds)
        self._woken()
