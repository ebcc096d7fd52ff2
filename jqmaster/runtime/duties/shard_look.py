"""Look at the shard, and begin the duties that have something to do."""

import asyncio
import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.clock import Clock
from jqmaster.errors import StoreRefusedError, StoreUnavailableError
from jqmaster.lifecycle import EntriesApart
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.grace import Grace
from jqmaster.runtime.duties.shared_looks import SharedLooks
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.scripts import ScriptCall
from jqmaster.store.link.shared_trips import Reply
from jqmaster.store.operations.looks import Look, LookStore

# The pauses between two looks: while jobs run, while there are workers or ready jobs, and on a quiet shard.
BUSY_S: Final = 0.5
USUAL_S: Final = 1.0
QUIET_S: Final = 5.0
# How long shared looks may replace this shard's own looks. From time to time the shard must look by itself, because
# settings also determine which entries are due.
LONGEST_OVERHEARD_S: Final = 60.0
# If a look has had no answer for this long, the duties poll by themselves.
BLIND_AFTER_S: Final = 1.0
# After an outage of a store with many quiet shards, their duties do not begin all at once, but at random times within
# this period.
SPREAD_S: Final = 60.0
# Pauses are shortened by up to this share at random, so that many shards do not look at the same moment.
_JITTER: Final = 0.1


def _not_due(look: Look) -> int:
    return -1


def _rests(look: Look) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class FollowedDuty:
    """A duty that follows the looks.

    * `due_ms`: returns the milliseconds until it has something to do. -1: nothing is known.
    * `polls`: returns whether the duty must poll by itself, every `poll_s`.
    """

    duty: LeaderLoop
    due_ms: Callable[[Look], int] = _not_due
    polls: Callable[[Look], bool] = _rests


class ShardLook(LeaderLoop):
    """A duty of one leadership: reads the store once for all duties, instead of once for each.

    It looks:

    * every half second while jobs run,
    * every second while there are workers or ready jobs,
    * otherwise with pauses that grow up to `QUIET_S`.

    A message shortens the pause again. An entry waits for the next look if its message was lost, or if a step of the
    store's clock made it due.

    While a duty has something to do, the pause is at most the `poll_s` of that duty: damaged entries that stay due must
    not delay others. Only the first look begins the first rounds. So a new lead of a quiet shard costs one read, and
    not one read for each duty.

    While looks fail or get no answer, the duties poll by themselves, and `on_blind` is called every half second.

    On a quiet shard, polls begin only after looks have failed for `QUIET_S`, and only if the store answers. A store
    that refuses looks may still serve polls, which report their own refusals. If the store does not answer, fifteen
    polls of each of a thousand quiet shards would keep it from ever catching up.

    A duty that cannot evaluate a look polls, too, so that its fault does not affect the others.

    `on_look` gets each look, which also informs `grace` about outages of the store.

    While nothing is due on a quiet shard, `shared` reads the shard together with the others on its store. So the shard
    needs no separate task, timer and round trip. For the other public methods, see `QuietLook`.
    """

    is_vital = True

    def __init__(
        self,
        leadership: Leadership,
        store: LookStore,
        grace: Grace,
        clock: Clock,
        *,
        duties: Sequence[FollowedDuty],
        on_look: Callable[[Look], None],
        on_blind: Callable[[], None],
        lease_s: LiveValue[float],
        on_stale: Callable[[], None],
        shared: SharedLooks | None = None,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(
            "shard_look", clock, complaint="cannot look at the shard", on_stale=on_stale, retry_s=BUSY_S
        )
        self._store = store
        self._epoch = leadership.epoch
        self._look_call: ScriptCall | None = None
        self.entries_call = store.call_for_entries()
        self.facts_without_entries = b""
        self._read = functools.partial(store.look, leadership.epoch)
        self._shared = shared
        self._grace = grace
        self._duties = duties
        self._on_look = on_look
        self._on_blind = on_blind
        self._lease_s = lease_s
        self._random = rng.random if rng else random.random  # needs no secrecy: it only spreads looks
        self._apart = EntriesApart("shard_look")
        self._has_unreadable = False
        self._is_first = True
        self._has_failed = False
        # Since when looks have not been answered. None: the last one was.
        self._failing_since_s: float | None = None
        self._still_blind: asyncio.TimerHandle | None = None
        self._quiet_s = USUAL_S
        # Whether the pause until the next look is longer than usual.
        self.is_quiet = False
        # Whether the last look found nothing, and nothing has happened since.
        self._is_idle = False
        # The last look, and for how long shared looks may replace this shard's next ones. 0: not at all.
        self._seen: Look | None = None
        self._overhears_s = 0.0
        # When this shard's own look is due even if nothing has changed, by the store's clock.
        self._overhears_until_ms = 0
        for one in duties:
            one.duty.follow_looks(share=1 - _JITTER * self._random() if store.is_shared else 1.0)

    def stir(self) -> None:
        """Look soon, and then often for a while, because something happened."""
        self._quiet_s, self.is_quiet, self._is_idle = USUAL_S, False, False
        self.begin_within(BUSY_S)

    async def _round(self) -> float:
        loop = asyncio.get_running_loop()
        if self._failing_since_s is None:
            self._failing_since_s = loop.time()
        # Use a timer instead of a task: a look is usually answered at once, and then no task is needed.
        blind = loop.call_later(BLIND_AFTER_S, self._be_blind_until_answered)
        try:
            look = await self._grace.ask(self._read, lambda look: look.now_ms)
        finally:
            blind.cancel()
            if self._still_blind:
                self._still_blind.cancel()
                self._still_blind = None
        self._failing_since_s, self._seen = None, look
        self.facts_without_entries = self._store.facts_without_entries
        self._on_look(look)
        # After an outage, the store may have lost what the duties already know, so they all begin again.
        was_away, self._has_failed = self._has_failed, False
        may_wait = self.may_wait
        is_first, self._is_first = self._is_first, False
        pace_s, next_s, has_work = QUIET_S, LONGEST_OVERHEARD_S, False
        for one, due_ms, polls in self._due(look):
            if due_ms == 0 or polls:
                pace_s, has_work = min(pace_s, one.duty.poll_s), True
            if due_ms >= 0:
                one.duty.begin_within(due_ms / 1000)
                next_s = min(next_s, due_ms / 1000)
            if was_away or (polls and is_first):
                one.duty.begin_within(SPREAD_S * self._random() if was_away and may_wait else 0.0)
            if polls:
                one.duty.poll()
        pause_s = self._until_next_s(look, pace_s)
        is_alone = has_work or pause_s < QUIET_S or next_s <= QUIET_S or not self._store.is_shared
        self._overhears_s = 0.0 if is_alone else next_s
        self._overhears_until_ms = look.now_ms + round(1000 * next_s)
        # Add jitter, so that shards that were opened at the same time are not polled at the same time.
        return pause_s * (self._random() if is_first else 1 - _JITTER * self._random())

    def _due(self, look: Look) -> list[tuple[FollowedDuty, int, bool]]:
        """Return for each duty when it is due, and whether it polls."""
        if not self._has_unreadable:
            try:
                return [(one, one.due_ms(look), one.polls(look)) for one in self._duties]
            except Exception:
                self._has_unreadable = True
        found, self._has_unreadable = [], False
        for one in self._duties:
            due_ms, polls, is_read = -1, True, False
            with self._apart.alone(one.duty.name):
                due_ms, polls, is_read = one.due_ms(look), one.polls(look), True
            self._has_unreadable = self._has_unreadable or not is_read
            found.append((one, due_ms, polls))
        return found

    def _failed(self, error: Exception, complaint: str) -> None:
        super()._failed(error, complaint)
        self._has_failed = True
        passed_s = asyncio.get_running_loop().time() - (self._failing_since_s or 0.0)
        # If looks do not reach the store, do not let the duties poll: their polls would not reach it either, and would
        # hinder its recovery.
        is_away = isinstance(error, StoreUnavailableError) and not isinstance(error, StoreRefusedError)
        if not self.may_wait or (passed_s >= QUIET_S and not is_away):
            self._be_blind()

    @property
    def may_wait(self) -> bool:
        """Return whether nothing is known to be due here, while others need the store."""
        return self._store.is_shared and (self._is_idle or self._is_first)

    def _be_blind(self) -> None:
        """Let the duties poll by themselves, and notify `on_blind`."""
        self._has_failed = True
        self._on_blind()
        for one in self._duties:
            one.duty.poll()

    def _be_blind_until_answered(self) -> None:
        if not self.may_wait:
            self._be_blind()
        self._still_blind = asyncio.get_running_loop().call_later(BUSY_S, self._be_blind_until_answered)

    def _until_next_s(self, look: Look, pace_s: float) -> float:
        if look.leases >= 0:
            pace_s = min(pace_s, BUSY_S)
        elif look.workers or look.is_ready:
            pace_s = min(pace_s, USUAL_S)
        self._is_idle = pace_s > USUAL_S
        if pace_s <= USUAL_S:
            self._quiet_s = pause_s = pace_s
        else:
            pause_s = min(pace_s, self._quiet_s)
            self._quiet_s = min(QUIET_S, 2 * pause_s)
        # Look often enough to see a new lease long before it can expire.
        pause_s = min(pause_s, self._lease_s.current / 3)
        self.is_quiet = pause_s > USUAL_S
        return pause_s

    async def _pause(self, seconds: float) -> None:
        await self._paused(seconds)

    async def _pause_after_failure(self, seconds: float) -> None:
        await self._paused(seconds)

    async def _paused(self, seconds: float) -> None:
        if self._shared and self._overhears_s:
            await self._overhear(self._shared)
            return
        began_s = self._clock.monotonic_s()
        await self._rest(seconds)
        self._grace.slept(seconds, self._clock.monotonic_s() - began_s)

    async def _overhear(self, shared: SharedLooks) -> None:
        seconds, self._overhears_s = self._overhears_s, 0.0
        shared.join(self, QUIET_S)
        try:
            await self._rest(seconds)
        finally:
            shared.leave(self)
        paused_s = self._clock.monotonic_s() - self._grace.heard_at_s
        self._grace.slept(paused_s, paused_s)

    @property
    def look_call(self) -> ScriptCall:
        # Build the call once: it is the same in all rounds of this leadership.
        if self._look_call is None:
            self._look_call = self._store.call(self._epoch)
        return self._look_call

    def is_unchanged(self, reply: Reply, sent_at_s: float, late_s: float) -> bool:
        now_ms = self._store.unchanged_at_ms(reply[1])
        return now_ms is not None and self.take_time(now_ms, sent_at_s, late_s)

    def take_time(self, now_ms: int, sent_at_s: float, late_s: float) -> bool:
        if self._seen is None:
            return False
        self._grace.overhear(sent_at_s, now_ms, late_s)
        # If the store's clock stepped forward, entries are due before this shard's pause ends.
        if now_ms >= self._overhears_until_ms:
            return False
        self._on_look(self._seen)
        return not self._grace.was_set_back
