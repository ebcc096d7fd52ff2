"""Renew the locks of all leads that this master has on a store."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, Final

from jqmaster.clock import Clock, WakeFlag, wait_for_event
from jqmaster.domain.operations.master import Pace
from jqmaster.errors import DamagedError, JqmasterError, StoreUnavailableError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore, Renewed
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.shared_trips import MAX_TOGETHER

logger = logging.getLogger(__name__)

RENEWALS_PER_TTL: Final = 3
# A leader trusts its lock for this share of the TTL. It stops leading before the lock can expire.
TRUST: Final = 0.8
_OK: Final = int(Renewed.OK)


class HeldLock:
    """The lock of one leadership. The trust in it counts from the moment at which its last renewal was sent, and never
    from the answer. The clock is monotonic.

    * `sent_at_s`, `ttl_s`: when the lock was last set, and the TTL that it got.
    * `on_lost`: called when it is lost, or can no longer be trusted.
    * `on_answer`: gets why the store refused a renewal; empty if the store accepted it.
    """

    def __init__(
        self,
        store: LeadershipStore,
        leadership: Leadership,
        pace: LiveValue[Pace],
        *,
        sent_at_s: float,
        ttl_s: float,
        on_lost: Callable[[], None],
        on_answer: Callable[[str], None] = lambda refusal: None,
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._pace = pace
        self._sent_at_s = self._tried_at_s = sent_at_s
        self._ttl_s = self._tried_ttl_s = ttl_s
        # The call that renews the lock, and the TTL that it sets.
        self._call: tuple[ScriptCall, float] | None = None
        # False: the next successful renewal ends a refusal.
        self._is_accepted = False
        self._on_lost = on_lost
        self._on_answer = on_answer
        # Stored instead of computed on each access, because each lone job reads it.
        self.trusted_until_s = sent_at_s + ttl_s * TRUST

    @property
    def due_s(self) -> float:
        """Return when to renew the lock at the latest. After a failed renewal, this is before the trust in the lock
        ends."""
        pause_s = min(self._pace.current.ttl_s, self._ttl_s) / RENEWALS_PER_TTL
        return min(self._tried_at_s + pause_s, self.trusted_until_s)

    def renewal(self, now_s: float) -> ScriptCall:
        """Return the call that renews the lock."""
        ttl_s = self._pace.current.ttl_s
        self._tried_at_s, self._tried_ttl_s = now_s, ttl_s
        if self._call is None or self._call[1] != ttl_s:
            self._call = self._store.renewal(self._leadership, ttl_ms=int(ttl_s * 1000)), ttl_s
        return self._call[0]

    def renewed(self) -> None:
        """Trust the lock again, because its last renewal succeeded."""
        if not self._is_accepted:
            self._is_accepted = True
            self._on_answer("")
        self._sent_at_s, self._ttl_s = self._tried_at_s, self._tried_ttl_s
        self.trusted_until_s = self._sent_at_s + self._ttl_s * TRUST

    def fail(self, error: JqmasterError) -> None:
        """Keep the lock while it can be trusted, although the store refused its last renewal or gave no answer."""
        logger.warning("cannot renew the lock: %s", error.detail)
        self._is_accepted = False
        self._on_answer(error.detail if isinstance(error, StoreUnavailableError) else "")
        self.be_unanswered()

    def be_unanswered(self) -> None:
        """Assume that the last renewal, which got no answer, may have shortened the lock."""
        if self._tried_at_s + self._tried_ttl_s < self._sent_at_s + self._ttl_s:
            self._sent_at_s, self._ttl_s = self._tried_at_s, self._tried_ttl_s
            self.trusted_until_s = self._sent_at_s + self._ttl_s * TRUST

    def lose(self) -> None:
        self._on_lost()


class Renewals:
    """One loop for each store. It renews all locks there, `MAX_TOGETHER` in a round trip. So the lead of a quiet shard
    needs no timer for them. `client` has separate connections, so that leaders keep their locks even if all other
    connections are blocked.
    """

    def __init__(self, client: StoreClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._locks: dict[HeldLock, None] = {}
        self._due_s = float("inf")
        self._is_due_earlier = WakeFlag()
        self._loops = BackgroundLoops("renewals", is_vital=True)

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        await self._loops.stop()

    def hold(self, lock: HeldLock) -> None:
        """Renew this lock until it is lost or released."""
        self._locks[lock] = None
        if lock.due_s < self._due_s:
            self._is_due_earlier.set()

    def release(self, lock: HeldLock) -> None:
        """Stop renewing this lock."""
        self._locks.pop(lock, None)

    async def _run(self) -> None:
        while True:
            self._is_due_earlier.clear()
            self._due_s = min([lock.due_s for lock in self._locks], default=float("inf"))
            if not self._locks:
                await self._is_due_earlier.wait()
            elif not await wait_for_event(
                self._is_due_earlier, max(0.0, self._due_s - self._clock.monotonic_s())
            ):
                # Renew all locks together, so that they stay due at the same time.
                await asyncio.gather(*map(self._renew, pages(list(self._locks), MAX_TOGETHER)))
                self._loops.worked("rounds")

    async def _renew(self, locks: Sequence[HeldLock]) -> None:
        locks = self._trusted(locks)
        if not locks:
            return
        now_s = self._clock.monotonic_s()
        answers: Sequence[tuple[slice, Any]] = ()
        try:
            async with asyncio.timeout(min([lock.trusted_until_s for lock in locks]) - now_s):
                answers = await self._client.run_joined([lock.renewal(now_s) for lock in locks])
        except TimeoutError:
            for lock in locks:
                lock.be_unanswered()
        except JqmasterError as exc:
            answers = [(slice(len(locks)), exc)]
        for part, data in answers:
            outcomes = repeat(data) if isinstance(data, Exception) else data[0]
            for lock, outcome in zip(locks[part], outcomes, strict=False):
                # Skip locks that were released while the call was under way.
                if lock not in self._locks:
                    continue
                if outcome == _OK:
                    lock.renewed()
                else:
                    self._not_renewed(lock, outcome)
        self._trusted(locks)

    def _not_renewed(self, lock: HeldLock, outcome: int | Exception) -> None:
        if outcome == Renewed.UNREADABLE:
            lock.fail(DamagedError("the lock has the wrong type"))
        elif isinstance(outcome, JqmasterError):
            lock.fail(outcome)
        else:
            if isinstance(outcome, Exception):
                logger.error("cannot renew the lock: %r", outcome)
            self._lose(lock)

    def _trusted(self, locks: Sequence[HeldLock]) -> list[HeldLock]:
        """Return the locks that can still be trusted. Give up the other locks as lost."""
        now_s, trusted = self._clock.monotonic_s(), []
        for lock in locks:
            if lock not in self._locks:
                continue
            if lock.trusted_until_s > now_s:
                trusted.append(lock)
            else:
                logger.warning("the lock could not be renewed in time")
                self._lose(lock)
        return trusted

    def _lose(self, lock: HeldLock) -> None:
        self.release(lock)
        lock.lose()
