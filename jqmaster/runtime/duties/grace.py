"""Grace periods, in which the leader reclaims no jobs and detaches no workers. Live workers that could not send
heartbeats get time to do so."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from jqmaster.clock import Clock, until_tick_s
from jqmaster.domain.workers.silence import CrowdRules, crowd_last_seen_ms
from jqmaster.domain.workers.worker import Worker
from jqmaster.errors import StoreRefusedError
from jqmaster.live_value import LiveValue

logger = logging.getLogger(__name__)

# A longer outage of the store, or a longer step of its clock, begins a grace period. Such an event may have cost
# workers their leases, through no fault of their own.
OUTAGE_S: Final = 1.0
# A wait for the store is measured in pieces of this length. If a piece takes longer, this process and not the store
# delayed it. Such a piece counts as this length only.
TICK_S: Final = 0.2

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class GracePolicy:
    """The settings of grace periods.

    * `grace_s`: how long nothing is reclaimed or detached.
    * `trust_s`: how long a leader trusts its lock.
    * `crowd`: how many workers must fall silent at once.
    """

    grace_s: float
    trust_s: float
    crowd: CrowdRules


class Grace:
    """Grace periods of one leadership, in which nothing is reclaimed or detached.

    A grace period of `grace_s` begins:

    * with the leadership,
    * after an outage of the store,
    * after a step of the store's clock,
    * after many workers fell silent at once.

    Without grace periods, one outage would run every long job twice.

    One component reads the store in rounds. It reads through `ask`, and reports its own pauses with `pause` or `slept`.
    The master's own delays do not count as an outage. Otherwise a busy master would never reclaim anything. After a
    delay as long as `trust_s`, another master may have led, so such a delay counts as an election.
    """

    def __init__(self, clock: Clock, policy: LiveValue[GracePolicy]) -> None:
        self._clock = clock
        self._policy = policy
        self._crowd_seen_ms = 0
        now_s = self._began_s = clock.monotonic_s()
        # When this leadership began, by the store's clock; None until the first look at workers.
        self._began_ms: int | None = None
        self._until_s = now_s + policy.current.grace_s
        self._short_s: float | None = None
        # The last answer of the store: when it was requested, when it arrived, and the store's time in it.
        self._heard_s = (now_s, now_s)
        self._heard_ms: int | None = None
        # Three numbers of seconds since the last answer: in requests, in planned sleep, and the part of both that was
        # an outage.
        self._asked_s = self._meant_s = self._away_s = 0.0
        self._is_away = False
        # True: since its last answer, the store refused a request.
        self._is_refused = False
        # Whether the store's clock was set back. Leases then last too long; the duty that shortens them clears this
        # flag.
        self.was_set_back = False

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic_s() >= self._until_s

    @property
    def outage_ms(self) -> int | None:
        """Return how long the store was away, if nothing else began the grace period. Otherwise return None."""
        return None if self._short_s is None else round(self._short_s * 1000)

    async def ask(self, read: Callable[[], Awaitable[_T]], time_of: Callable[[_T], int]) -> _T:
        """Return the answer of `read`, which includes the store's time. Raise what it raises."""
        loop = asyncio.get_running_loop()
        sent_s = piece_began_s = self._clock.monotonic_s()

        def end_piece() -> None:
            nonlocal piece_began_s
            now_s = self._clock.monotonic_s()
            waited_s = min(now_s - piece_began_s, TICK_S)
            self._asked_s += waited_s
            self._away_s += waited_s
            piece_began_s = now_s

        def end_piece_and_begin_another() -> None:
            end_piece()
            timers.append(loop.call_later(TICK_S, end_piece_and_begin_another))

        # The newest timer. Only this timer may still be pending.
        timers = deque([loop.call_later(TICK_S, end_piece_and_begin_another)], maxlen=1)
        self._is_away = True
        try:
            answer = await read()
        except StoreRefusedError:
            self._is_refused = True
            raise
        finally:
            timers[-1].cancel()
            end_piece()
        self._is_away = False
        self._heard(sent_s, time_of(answer))
        return answer

    async def pause(self, seconds: float) -> None:
        seconds = until_tick_s(self._clock.monotonic_s(), seconds)
        self.slept(seconds, seconds)
        await self._clock.sleep(seconds)

    def slept(self, meant_s: float, took_s: float) -> None:
        """Count a pause between two requests. It may have been shorter than planned. `meant_s`: its planned length.
        `took_s`: its real length."""
        meant_s = min(meant_s, took_s)
        self._meant_s += meant_s
        if self._is_away:
            self._away_s += meant_s

    def overhear(self, sent_s: float, now_ms: int, late_s: float) -> None:
        """Take the store's time from the answer to another caller's request. `sent_s`: when the request was sent.
        `late_s`: how much later than planned. The time since the last answer counts as a pause."""
        took_s = sent_s - self._heard_s[1]
        self.slept(took_s - late_s, took_s)
        self._asked_s += min(self._clock.monotonic_s() - sent_s, TICK_S)
        self._heard(sent_s, now_ms)

    @property
    def heard_at_s(self) -> float:
        """Return when the last answer came."""
        return self._heard_s[1]

    def look(self, workers: Iterable[Worker], now_ms: int) -> None:
        """Check whether many workers fell silent at once. `workers`: all registered workers."""
        if self._began_ms is None:
            self._began_ms = now_ms - round((self._clock.monotonic_s() - self._began_s) * 1000)
        seen_ms = crowd_last_seen_ms(
            workers, now_ms=now_ms, after_ms=self._crowd_seen_ms, rules=self._policy.current.crowd
        )
        if seen_ms is not None:
            self._crowd_seen_ms = seen_ms
            # Ignore a crowd that was silent before this leadership, for example after a long stop of all masters. Its
            # workers could already return in the grace period at the beginning of the leadership.
            if seen_ms + self._policy.current.crowd.stale_ms > self._began_ms:
                self._begin("many workers fell silent at once")

    def _heard(self, sent_s: float, now_ms: int) -> None:
        received_s = self._clock.monotonic_s()
        earlier_sent_s, earlier_received_s = self._heard_s
        own_s = received_s - earlier_received_s - self._asked_s - self._meant_s
        if self._away_s > OUTAGE_S:
            what = "refused this master's looks" if self._is_refused else "was away"
            self._begin(f"the store {what} for {self._away_s:.1f} s", outage_s=self._away_s)
        elif own_s > self._policy.current.trust_s:
            self._begin(f"this master stood still for {own_s:.1f} s")
        if self._heard_ms is not None:
            # The least and the most time that can have passed, by this process's clock, between the two readings of the
            # store's clock.
            passed_s = (now_ms - self._heard_ms) / 1000
            least_s, most_s = sent_s - earlier_received_s, received_s - earlier_sent_s
            step_s = passed_s - most_s if passed_s > most_s else min(0.0, passed_s - least_s)
            if abs(step_s) > OUTAGE_S:
                self.was_set_back = self.was_set_back or step_s < 0
                self._begin(f"the store's clock stepped by {step_s:.1f} s")
        self._heard_s, self._heard_ms = (sent_s, received_s), now_ms
        self._asked_s = self._meant_s = self._away_s = 0.0
        self._is_refused = False

    def _begin(self, why: str, *, outage_s: float | None = None) -> None:
        logger.warning("%s; nothing is reclaimed or detached for %.1f s", why, self._policy.current.grace_s)
        if outage_s is None or self.is_over:
            self._short_s = outage_s
        elif self._short_s is not None:
            self._short_s += outage_s
        self._until_s = self._clock.monotonic_s() + self._policy.current.grace_s
