"""The event stream of dashboards. Events are computed once per second for all dashboards, and only while at least
one dashboard is open."""

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sse_starlette import ServerSentEvent

from jqmaster.api.jobs.action_views import action_view
from jqmaster.clock import Clock, wait_for_event
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.identity.access import LOCAL
from jqmaster.domain.instant import iso_or_none
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import JqmasterError, OverloadedError, RateLimitedError, StoreUnavailableError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.waiting_places import WaitingPlaces
from jqmaster.shared_bound import Portion
from jqmaster.store.operations.bulk_actions import ActionStore
from jqmaster.store.operations.live import LiveFingerprint, LiveStore

logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
# If the store does not answer within this time, dashboards get the fault of the store. They must get it within
# ten seconds. This time is also the timeout of a call.
SILENT_S: Final = 5.0
# Interval at which a stream checks whether its caller is still admitted. After this master learns that a token
# was revoked, the token's streams end within this time.
ADMIT_EVERY_S: Final = 3.0
RETRY_MS: Final = 2_000
RETRY_AFTER_S: Final = 5.0
# A caller may hold one of every `SHARES` places, but always at least `MIN_SHARE` places.
SHARES: Final = 4
MIN_SHARE: Final = 10
# Maximum number of running actions on many jobs in an event, and of ended actions.
_MAX_ACTIONS: Final = 64
_NOTHING: Final[Mapping[str, Any]] = {}

Body = Callable[[], Awaitable[Mapping[str, Any]]]


class LiveSign(NamedTuple):
    """An event that makes the client fetch data again. Changes by other masters are found at the next read of the
    store.

    * `part`: the part of the fingerprint that shows the change.
    * `subject`: the kind of audit entries that record the change. Empty: none.
    """

    name: str
    part: Callable[[LiveFingerprint], object] | None = None
    subject: str = ""

    def is_due(self, last: LiveFingerprint, look: LiveFingerprint) -> bool:
        """Return whether something changed between two fingerprints."""
        return self.subject in look.changed or (self.part is not None and self.part(last) != self.part(look))


SIGNS: Final = (
    LiveSign("workers", attrgetter("workers"), "worker"),
    LiveSign("masters", attrgetter("masters"), "master"),
    LiveSign("constraints", attrgetter("constraints"), "constraint"),
    LiveSign("definitions", attrgetter("definitions"), "definition"),
    LiveSign("events", attrgetter("events")),
    LiveSign("batches", attrgetter("batches"), "batch"),
    LiveSign("settings", subject="settings"),
)


class LiveFeed:
    """Component: serves the event streams of dashboards.

    * `stats`: returns the body of `GET /api/stats`.
    * `counts`: returns the number of jobs by state.

    * `streams`: the namespace's share of the streams that may be open at once.
    * `quota`: the maximum for the namespace.

    All listeners get the same events. `access` limits the content that each listener sees. A stream is never more
    than one state behind, because newer data replaces data that its client has not read yet.
    """

    def __init__(
        self,
        store: LiveStore,
        actions: ActionStore,
        clock: Clock,
        *,
        stats: Body | None,
        counts: Callable[[], Awaitable[Mapping[JobState, int]]],
        streams: Portion,
        quota: LiveValue[int],
        access: LiveValue[ContentAccess],
        waiting: WaitingPlaces,
    ) -> None:
        self._store = store
        self._actions = actions
        self._clock = clock
        self._stats = stats
        self._counts = counts
        self._streams = streams
        self._quota = quota
        self._access = access
        self._waiting = waiting
        self._listeners: set[_Listener] = set()
        self._of_callers: Counter[str] = Counter()
        self._somebody = asyncio.Event()
        self.is_ending = False
        self._number = 0
        # By kind of event: the event for new listeners, and the data that listeners got last.
        self._present: dict[str, bytes] = {}
        self._told: dict[str, Any] = {}
        self._last: LiveFingerprint | None = None
        # The time of the last successful read, by the store's clock and by this process's clock.
        self._as_of_ms: int | None = None
        self._as_of_s = 0.0
        # Start of the first read that has hung or failed since the last successful read, and the last error.
        self._waiting_since_s: float | None = None
        self._error: JqmasterError | None = None
        self._loops = BackgroundLoops("live feed", is_vital=False)

    async def start(self) -> None:
        self.open()

    def open(self) -> None:
        """Begin to serve streams."""
        self.is_ending = False
        self._loops.spawn("looks", self._run)
        self._loops.spawn("freshness", self._watch)

    async def stop(self) -> None:
        """End every stream at once, because a stopping server waits for open answers."""
        self.is_ending = True
        for listener in self._listeners:
            listener.end()
        await self._loops.stop()

    @contextlib.contextmanager
    def place(self, who: str) -> Iterator[None]:
        """Reserve a place for a stream that another component serves to a caller. That stream must end soon after
        `is_ending` is set. Raise OverloadedError or RateLimitedError."""
        with self._checked_place(who):
            yield

    @contextlib.contextmanager
    def _checked_place(self, who: str) -> Iterator[None]:
        with self._waiting.take() as has_place, self._counted(who):
            if self._streams.taken >= self._quota.current:
                raise RateLimitedError(
                    f"{self._streams.taken} live streams of the namespace are open, "
                    "as many as its quota allows; close one",
                    code="namespace_full",
                    retry_after_s=RETRY_AFTER_S,
                )
            if self.is_ending or not has_place or not self._streams.has_room():
                what = (
                    "the master is stopping" if self.is_ending else "too many streams of this master are open"
                )
                raise OverloadedError(what, code="too_many_streams", retry_after_s=RETRY_AFTER_S)
            self._streams.take()
            try:
                yield
            finally:
                self._streams.give()

    @contextlib.contextmanager
    def _counted(self, who: str) -> Iterator[None]:
        """Count the stream. Raise OverloadedError if the caller already has its share. The share prevents one
        caller from taking all places."""
        share = max(MIN_SHARE, self._streams.shared.most.current // SHARES)
        if who != LOCAL and self._of_callers[who] >= share:
            raise OverloadedError(
                f"{share} streams of this caller are open; close one",
                code="too_many_streams",
                retry_after_s=RETRY_AFTER_S,
            )
        self._of_callers[who] += 1
        try:
            yield
        finally:
            self._of_callers[who] -= 1
            if not self._of_callers[who]:
                del self._of_callers[who]

    async def stream(
        self, who: str, is_admitted: Callable[[], Awaitable[bool]], *, has_missed: bool = False
    ) -> AsyncGenerator[bytes]:
        """Yield events as bytes: the first piece at once, and then at most one piece per second. End when the
        caller is no longer admitted.

        `has_missed`: the client has listened before and must fetch everything again.

        Raises OverloadedError or RateLimitedError at the first step.
        """
        with self._checked_place(who):
            listener = _Listener()
            if has_missed:
                for sign in SIGNS:
                    listener.notify(sign.name, self._event(sign.name, _NOTHING))
            if not self._listeners:
                # Nobody listened, so the data are outdated. Discard them and read everything again at once.
                self._present.clear()
                self._told.clear()
                self._last = None
                self._as_of_ms = None
                self._somebody.set()
            for slot, event in self._present.items():
                listener.notify(slot, event)
            listener.notify("freshness", self._freshness())
            self._listeners.add(listener)
            # Check the admission in a separate task. Otherwise, a store that hangs would delay the event that
            # reports this fault.
            checks = asyncio.create_task(self._check_admission(listener, is_admitted))
            try:
                yield f"retry: {RETRY_MS}\n\n".encode()
                while not listener.is_over:
                    await listener.wait()
                    if events := listener.take():
                        yield events
            finally:
                self._listeners.discard(listener)
                # End the listener, so that no further check begins even if a library swallows the cancellation of
                # the current check.
                listener.end()
                checks.cancel()
                await asyncio.gather(checks, return_exceptions=True)

    async def _check_admission(
        self, listener: "_Listener", is_admitted: Callable[[], Awaitable[bool]]
    ) -> None:
        """End the stream once its caller is no longer admitted, or if the admission cannot be checked any more."""
        try:
            while not listener.is_over:
                await self._clock.sleep(ADMIT_EVERY_S)
                if not await _is_still_admitted(is_admitted):
                    return
        finally:
            listener.end()

    async def _run(self) -> None:
        while True:
            if not self._listeners:
                await self._somebody.wait()
            self._somebody.clear()
            began_s = self._clock.monotonic_s()
            if self._waiting_since_s is None:
                self._waiting_since_s = began_s
            try:
                seen_ms = await self._look()
            except JqmasterError as exc:
                self._error = exc
                logger.warning("cannot send changes to dashboards: %s", exc.detail)
            else:
                self._as_of_ms, self._as_of_s = seen_ms, began_s
                self._waiting_since_s = self._error = None
                self._loops.worked("looks")
                self._tell_freshness()
            await wait_for_event(self._somebody, EVERY_S)
            if not self._listeners:
                # Do not count the time without listeners as silence of the store, because nobody reads the store
                # during this time.
                self._waiting_since_s = self._error = None

    async def _watch(self) -> None:
        """Tell listeners the age of their data while reads of the store are slow or fail."""
        while True:
            if not self._listeners:
                await self._somebody.wait()
            await self._clock.sleep(EVERY_S)
            since_s = self._waiting_since_s
            if self._listeners and since_s is not None and self._clock.monotonic_s() - since_s >= EVERY_S:
                self._tell_freshness()

    def _tell_freshness(self) -> None:
        event = self._freshness()
        for listener in self._listeners:
            listener.notify("freshness", event)

    def _freshness(self) -> bytes:
        now_s = self._clock.monotonic_s()
        age_ms = None if self._as_of_ms is None else round((now_s - self._as_of_s) * 1000)
        since_s, fault = self._waiting_since_s, None
        if since_s is not None and now_s - since_s >= SILENT_S:
            error = self._error
            fault = {
                "code": error.code if error else StoreUnavailableError.code,
                "detail": error.detail if error else "the store does not answer",
                "for_ms": round((now_s - since_s) * 1000),
            }
        as_of = iso_or_none(self._as_of_ms)
        return self._event("freshness", {"as_of": as_of, "age_ms": age_ms, "fault": fault})

    async def _look(self) -> int:
        """Read the store and tell listeners what changed. Return the store time of the read. During the read,
        `stream` may reset `_last`."""
        look = await self._store.look()
        last, self._last = self._last, look
        if "job" in look.changed:
            # Send the counts even if they are unchanged, so that dashboards learn of changes of single jobs, such
            # as a new priority.
            self._told.pop("jobs", None)
        if last is None or last.jobs != look.jobs or "job" in look.changed:
            counts = await self._counts()
            self._tell("jobs", {"counts": {str(state): count for state, count in counts.items()}})
        if self._stats is not None:
            stats = await self._stats()
            self._tell("stats", stats, compared=_without_jitter(stats))
        if last is not None:
            for sign in SIGNS:
                if sign.is_due(last, look):
                    self._publish(sign.name)
        await self._look_at_actions(look, last)
        return look.at_ms

    async def _look_at_actions(self, look: LiveFingerprint, last: LiveFingerprint | None) -> None:
        gone = last.running_actions - look.running_actions if last else frozenset[str]()
        wanted = sorted(look.running_actions | look.news_of_actions | gone)
        if not wanted:
            return
        for action_id, stored in zip(wanted, await self._actions.get_all(wanted), strict=True):
            if stored is not None:
                self._tell(f"action:{action_id}", action_view(stored, self._access.current))
                if stored.progress.is_over:
                    self._present.pop(f"action:{action_id}", None)
                    self._told.pop(f"action:{action_id}", None)

    def _tell(self, slot: str, data: Mapping[str, Any], *, compared: Any = None) -> None:
        """Send the data to all listeners if it has changed."""
        compared = data if compared is None else compared
        if self._told.get(slot) == compared:
            return
        self._told[slot] = compared
        event = self._present[slot] = self._event(slot.partition(":")[0], data)
        for listener in self._listeners:
            listener.notify(slot, event)

    def _publish(self, sign: str) -> None:
        event = self._event(sign, _NOTHING)
        for listener in self._listeners:
            listener.notify(sign, event)

    def _event(self, name: str, data: Mapping[str, Any]) -> bytes:
        self._number += 1
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        return ServerSentEvent(text, event=name, id=str(self._number), sep="\n").encode()


def _without_jitter(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data without the parts that differ at every read. A change of only those parts is not an event."""
    store = {**stats["store"], "latency_ms": None, "used_memory_bytes": None} if "store" in stats else None
    return {**stats, "at": None, "store": store}


class _Listener:
    """The events that one client has not received yet: the newest event of each kind."""

    def __init__(self) -> None:
        self._events: dict[str, bytes] = {}
        self._news = asyncio.Event()
        self.is_over = False

    def notify(self, slot: str, event: bytes) -> None:
        # Put the event at the end of the queue. If the client takes no events for a long time, drop the oldest ones, so
        # that the queue does not grow.
        self._events.pop(slot, None)
        if len(self._events) >= _MAX_ACTIONS:
            self._events.pop(next(iter(self._events)))
        self._events[slot] = event
        self._news.set()

    def end(self) -> None:
        self.is_over = True
        self._events.clear()
        self._news.set()

    async def wait(self) -> None:
        """Wait until there is an event, or until the stream is over."""
        await self._news.wait()

    def take(self) -> bytes:
        events = b"".join(self._events.values())
        self._events.clear()
        if not self.is_over:
            self._news.clear()
        return events


async def _is_still_admitted(is_admitted: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await is_admitted()
    except JqmasterError as exc:
        # Let the stream continue while the store is unreachable, because an unreachable store does not mean a
        # revocation. The next check comes soon.
        logger.warning("cannot check whether a stream may continue: %s", exc.detail)
        return True
