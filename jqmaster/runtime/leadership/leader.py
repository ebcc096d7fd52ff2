"""Follower or leader: take the lock, and run the leader's duties while holding it."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Final

from jqmaster.clock import NEVER_S, NOW_S, Clock, DueTime, WakeFlag, wait_for_event
from jqmaster.domain.operations.master import Pace
from jqmaster.errors import JqmasterError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.lifecycle import BackgroundLoops, Component, running
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.renewals import RENEWALS_PER_TTL, HeldLock, Renewals
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore
from jqmaster.store.link.wake import LeaderResigned, MasterDemoted

logger = logging.getLogger(__name__)

# How long to wait for the end of the duties. It is longer than an offer, so that pushes that are under way when the
# duties stop can finish.
STOP_WITHIN_S: Final = 15.0


class Leader:
    """Component: stands for election, and leads while it holds the lock.

    * `make_duties`: builds the components of one leadership, which stop before the lock is given back.
    * `goes_first`: whether this master is the sub-leader, which gets a head start when a leader resigns.
    * `may_stand`: whether this master stands for election even without a message that the lock is free.
    * `renewals`: renews the locks on the shard's store.
    """

    def __init__(
        self,
        store: LeadershipStore,
        clock: Clock,
        *,
        master_id: str,
        pace: LiveValue[Pace],
        renewals: Renewals,
        make_duties: Callable[[Leadership], Sequence[Component]],
        goes_first: Callable[[], bool] = lambda: True,
        may_stand: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._master_id = master_id
        self._pace = pace
        self._renewals = renewals
        self._make_duties = make_duties
        self._goes_first = goes_first
        self._may_stand = may_stand
        self._has_resigned = False
        self._silent: tuple[Leadership, int] | None = None
        self._lock: HeldLock | None = None
        self._step_down = WakeFlag()
        self._elect_now = WakeFlag()
        self._stopping = WakeFlag()
        self._loops = BackgroundLoops("leader", is_vital=True)
        self.leadership: Leadership | None = None
        # Due at once when this master stops leading; never due while it leads.
        self.lead_over = DueTime()
        self.times_led = 0
        # Why the store refused the last election or renewal; empty if it accepted it.
        self.refusal = ""

    async def start(self) -> None:
        self._stopping.clear()
        self._loops.spawn("election", self._run)

    async def stop(self) -> None:
        """End the duties in order, give the lock back, and do not stand for election any more."""
        self._stopping.set()
        self._step_down.set()
        self._elect_now.set()
        # Do not cancel the leadership at once: its duties may have calls under way.
        await self._loops.ended(STOP_WITHIN_S)
        await self._loops.stop()

    def step_down(self) -> None:
        """Stop leading at the next turn of the loop; another election follows."""
        self._step_down.set()

    def note_write(self) -> None:
        """Forget why the store refused the last election, because it has accepted a write of this master since. The
        next election, which would also clear the reason, may be a long time away."""
        self.refusal = ""

    def campaign_now(self) -> None:
        """Start an election at once, because nobody leads."""
        self._elect_now.set()

    def take_over(self, silent: Leadership, seen_ms: int) -> None:
        """Depose a silent leader that was last seen at `seen_ms`, unless it has sent a heartbeat since."""
        self._silent = (silent, seen_ms)
        self._elect_now.set()

    def wake(self, message: LeaderResigned | MasterDemoted) -> None:
        match message:
            case LeaderResigned():
                self._has_resigned = True
                self._elect_now.set()
            case MasterDemoted(self._master_id) if self.leadership:
                self.step_down()

    def is_trusted(self) -> bool:
        """Return whether this master leads and, as far as it can know, still holds the lock."""
        return (
            self.leadership is not None
            and self._lock is not None
            and self._clock.monotonic_s() < self._lock.trusted_until_s
        )

    async def _run(self) -> None:
        is_called = False
        while not self._stopping.is_set():
            self._elect_now.clear()
            if is_called or self._may_stand():
                await self._stand()
            if self._stopping.is_set():
                return
            is_called = await wait_for_event(self._elect_now, self._pace.current.ttl_s / RENEWALS_PER_TTL)
            if self._has_resigned:
                self._has_resigned = False
                if not self._goes_first():
                    await self._clock.sleep(self._pace.current.head_start_s)

    async def _stand(self) -> None:
        """Stand for election, and lead if this master is elected, until the lead is lost."""
        sent_at_s, ttl_s = self._clock.monotonic_s(), self._pace.current.ttl_s
        try:
            leadership = await self._campaign(secrets.token_hex(8), ttl_s)
            self.refusal = ""
        except JqmasterError as exc:
            logger.warning("cannot stand for election: %s", exc.detail)
            self._note_refusal(exc)
            return
        if leadership:
            await self._lead(leadership, sent_at_s, ttl_s)
            # Forget messages from the leadership that just ended: they must not make this master stand for election
            # before all others.
            self._elect_now.clear()
            self._has_resigned = False

    def _note_refusal(self, exc: JqmasterError) -> None:
        self.refusal = exc.detail if isinstance(exc, StoreUnavailableError) else ""

    async def _campaign(self, nonce: str, ttl_s: float) -> Leadership | None:
        try:
            return await self._elect(nonce, ttl_s)
        except OutcomeUnknownError:
            # Check whether this master was elected although the answer was lost. Otherwise nobody would lead until its
            # lock expires.
            current = await self._store.current()
            return current if current and current.epoch.endswith(f":{nonce}") else None

    async def _elect(self, nonce: str, ttl_s: float) -> Leadership | None:
        ttl_ms = int(ttl_s * 1000)
        if self._silent is None:
            return await self._store.elect(self._master_id, nonce, ttl_ms=ttl_ms)
        (silent, seen_ms), self._silent = self._silent, None
        logger.warning("the leader, master %s, gives no sign of life; taking over", silent.master_id)
        return await self._store.depose(
            silent,
            seen_ms,
            self._master_id,
            nonce,
            ttl_ms=ttl_ms,
            hold_ms=self._pace.current.hold_ms,
            audit_entry=encode_entry(
                who=f"master {self._master_id}",
                action="master.take_over",
                target=silent.master_id,
                before={"leader": silent.master_id, "epoch": silent.number},
                after={"leader": self._master_id},
            ),
        )

    async def _lead(self, leadership: Leadership, sent_at_s: float, ttl_s: float) -> None:
        logger.info("leading, epoch %d", leadership.number)
        self.times_led += 1
        if not self._stopping.is_set():
            self._step_down.clear()
        self._lock = lock = HeldLock(
            self._store,
            leadership,
            self._pace,
            sent_at_s=sent_at_s,
            ttl_s=ttl_s,
            on_lost=self.step_down,
            on_answer=self._take_refusal,
        )
        self.leadership = leadership
        self.lead_over.at_s = NEVER_S
        try:
            async with running(self._make_duties(leadership)):
                try:
                    self._renewals.hold(lock)
                    await self._step_down.wait()
                finally:
                    # End the lead before the duties stop, which may take a while. This master must stop counting as the
                    # leader at once.
                    self._end_lead()
                    self._renewals.release(lock)
        finally:
            self._end_lead()
            with contextlib.suppress(JqmasterError):  # best effort: the lock expires
                await asyncio.shield(self._store.resign(leadership))
        logger.warning("no longer leading, epoch %d", leadership.number)

    def _end_lead(self) -> None:
        self.leadership = None
        self.lead_over.at_s = NOW_S

    def _take_refusal(self, refusal: str) -> None:
        self.refusal = refusal
