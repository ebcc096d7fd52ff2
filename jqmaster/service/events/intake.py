"""Accepts events from applications. Events start the jobs of definitions."""

import asyncio
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from jqmaster.config import Durability
from jqmaster.domain.definitions.definition import Definition
from jqmaster.domain.definitions.event_trigger import Debounce
from jqmaster.domain.definitions.run import RunReason
from jqmaster.domain.events.event import Event, EventFigures
from jqmaster.domain.events.index import NO_EVENTS, EventIndex
from jqmaster.domain.identity.access import Principal
from jqmaster.domain.ids import new_id
from jqmaster.domain.matching.fields import EventFields
from jqmaster.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    OutcomeUnknownError,
    OverloadedError,
    RateLimitedError,
    StoreUnavailableError,
)
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.coalescing import Coalescer
from jqmaster.service.jobs.push_pace import PushPace
from jqmaster.store.events.documents import StoredEvent
from jqmaster.store.events.events import (
    EventStore,
    EventVerdict,
    KeptEvents,
    Match,
    MatchedEvent,
    ReceivedEvent,
    StaleDefinitions,
)
from jqmaster.store.link.pages import MAX_PER_CALL

# Maximum number of definitions that an event may start. One call of the store handles no more.
MAX_MATCHES: Final = MAX_PER_CALL
# Maximum number of bytes of events and of the arguments made from them in one call of the store.
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_WAITING: Final = 5_000
# Maximum number of tries. A further try is needed only if somebody has changed a definition during the last try. People
# do not change definitions this often.
MAX_REPEATS: Final = 10
# Errors that say that nothing was stored. This would be wrong after an earlier event of the same request was stored.
_REFUSALS: Final = (StoreUnavailableError, OverloadedError, RateLimitedError, ConflictError)


class _StoreCall:
    """Events that one call of a script stores, with their positions in the request of the publisher."""

    __slots__ = ("_matches", "_size", "edition", "events", "numbers")

    def __init__(self, edition: str) -> None:
        self.edition = edition
        self.events: list[MatchedEvent] = []
        self.numbers: list[int] = []
        self._matches = 0
        self._size = 0

    def has_room(self, one: MatchedEvent) -> bool:
        return not self.events or (
            len(self.events) < MAX_PER_CALL
            and self._matches + len(one.matches) <= MAX_PER_CALL
            and self._size + _size_of(one) <= MAX_BYTES
        )

    def add(self, number: int, one: MatchedEvent) -> None:
        self.events.append(one)
        self.numbers.append(number)
        self._matches += len(one.matches)
        self._size += _size_of(one)


class EventIntake:
    """Component: accepts events.

    * `admit(durability)`: returns how many replicas must have an event before it is accepted. It raises an error while
      new jobs are refused.
    * `pace`: slows publishers down.
    """

    def __init__(
        self,
        store: EventStore,
        constraints: ConstraintCache,
        *,
        admit: Callable[[Durability | None], int],
        kept: LiveValue[KeptEvents],
        figures: EventFigures,
        argument_quota: LiveValue[int] | None = None,
        pace: PushPace | None = None,
    ) -> None:
        """`argument_quota`: the namespace's quota for the bytes of an argument. The limit in `kept` also applies."""
        self._store = store
        self._constraints = constraints
        self._admit = admit
        self._kept = kept
        self._figures = figures
        self._argument_quota = argument_quota or LiveValue(sys.maxsize)
        self._index: EventIndex = NO_EVENTS
        self._reading = asyncio.Lock()
        self._coalescer: Coalescer[Event, ReceivedEvent | Exception] = Coalescer(
            self._flush,
            max_batch=MAX_PER_CALL,
            max_waiting=MAX_WAITING,
            pace=pace,
        )

    async def start(self) -> None:
        """Do nothing: no task runs before the first event."""

    async def stop(self) -> None:
        await self._coalescer.stop()

    async def one(self, event: Event, *, caller: Principal | None = None) -> ReceivedEvent:
        """Accept an event. Events that arrive at the same time share a call of the store. `caller`: None for the master
        itself.

        Raise:

        * ForbiddenError if the caller may not send events of the type,
        * ConflictError if the event would start more than 500 definitions,
        * StoreUnavailableError while the store is too full,
        * OverloadedError while too many events wait, or definitions or constraints keep changing.
        """
        event = _sent_by(caller, event)
        self._admit(None)
        received = await self._coalescer.submit(event)
        if isinstance(received, Exception):
            raise received
        return received

    async def many(self, events: Sequence[Event], *, caller: Principal | None = None) -> list[ReceivedEvent]:
        """Accept the events of one request. Return the answers in the order of the events. If no event was stored,
        raise what `one` raises. If some events may have been stored, raise OutcomeUnknownError."""
        if caller is not None and caller.allows_name is not None:
            events = [_sent_by(caller, event) for event in events]
        self._admit(None)
        received: list[ReceivedEvent] = []
        faults: list[Exception] = []
        for answer in await self._flush(events, is_one_request=True):
            if isinstance(answer, ReceivedEvent):
                received.append(answer)
            else:
                faults.append(answer)
        if not faults:
            return received
        if received and isinstance(fault := faults[0], _REFUSALS):
            raise OutcomeUnknownError(
                f"some of the events may have been stored; repeat the request with the same keys ({fault.detail})",
                retry_after_s=fault.retry_after_s,
            ) from fault
        raise faults[0]

    async def replay(self, event_id: str) -> tuple[StoredEvent, ReceivedEvent]:
        """Send a stored event again as a new one. Raise NotFoundError, and what `one` raises."""
        stored = await self._store.get(event_id)
        if stored is None:
            raise unknown_event(event_id)
        again = replace(stored.event, id=new_id(), dedupe_key="", replay_of=event_id)
        return stored, await self.one(again)

    async def _flush(
        self, events: Sequence[Event], *, is_one_request: bool = False
    ) -> list[ReceivedEvent | Exception]:
        """Store events with as few calls of the store as their matches and sizes allow. If a call fails, return its
        error in place of the answers that are missing. `is_one_request`: store nothing if one of the events would be
        refused."""
        answers: list[ReceivedEvent | Exception | None] = [None] * len(events)
        for _ in range(MAX_REPEATS):
            try:
                if is_one_request and not any(answers) and (refused := self._first_refused(events)):
                    return [refused] * len(events)
                for call in self._store_calls(events, answers):
                    await self._send(call, answers)
            except StaleDefinitions:
                await self._reload()
            except Exception as exc:
                return [answer or exc for answer in answers]
            else:
                break
        error = OverloadedError("definitions change too fast to be followed", retry_after_s=1.0)
        return [answer or error for answer in answers]

    def _first_refused(self, events: Sequence[Event]) -> ConflictError | None:
        """Return the error of the first event that too many definitions match."""
        index = self._index
        for event in events:
            # Match only if more than MAX_MATCHES definitions take the type, because matching is slow.
            if len(index.of_type(event.event_type)) > MAX_MATCHES:
                count = len(index.matching(event.fields))
                if count > MAX_MATCHES:
                    return _too_many(event, count)
        return None

    def _store_calls(
        self, events: Sequence[Event], answers: list[ReceivedEvent | Exception | None]
    ) -> Iterator[_StoreCall]:
        """Yield the unanswered events in groups that one call of the store can take."""
        index = self._index
        max_argument_bytes = min(self._kept.current.max_argument_bytes, self._argument_quota.current)
        call = _StoreCall(index.edition)
        for n, event in enumerate(events):
            if answers[n] is not None:
                continue
            matched = _matched(event, index, max_argument_bytes)
            if len(matched.matches) > MAX_MATCHES:
                answers[n] = _too_many(event, len(matched.matches))
                continue
            if not call.has_room(matched):
                yield call
                call = _StoreCall(index.edition)
            call.add(n, matched)
        if call.events:
            yield call

    async def _send(self, call: _StoreCall, answers: list[ReceivedEvent | Exception | None]) -> None:
        send = functools.partial(
            self._store.send,
            call.events,
            edition=call.edition,
            kept=self._kept.current,
            replicas=self._admit(None),
        )
        received = await self._constraints.under(send)
        self._figures.add(received)
        for n, answer in zip(call.numbers, received, strict=True):
            answers[n] = answer

    async def _reload(self) -> None:
        async with self._reading:
            self._index = await self._store.index()


def _size_of(one: MatchedEvent) -> int:
    return len(one.event.payload) + sum(len(match.argument) for match in one.matches)


def _matched(event: Event, index: EventIndex, max_argument_bytes: int) -> MatchedEvent:
    if not index.of_type(event.event_type):
        return MatchedEvent(event, ())
    fields = event.fields
    return MatchedEvent(
        event,
        [_match(definition, event, fields, max_argument_bytes) for definition in index.matching(fields)],
    )


def _match(definition: Definition, event: Event, fields: EventFields, max_argument_bytes: int) -> Match:
    if not definition.enabled:
        return Match(definition, EventVerdict.SKIPPED, reason=RunReason.PAUSED)
    trigger = definition.of_events
    template = trigger.argument
    argument = definition.job.argument if template is None else template.argument(fields, event.payload)
    if len(argument) > max_argument_bytes:
        return Match(definition, EventVerdict.SKIPPED, reason=RunReason.ARGUMENT_TOO_LARGE)
    gathering = trigger.gathering
    if gathering is None:
        return Match(definition, EventVerdict.FIRES, argument)
    verdict = EventVerdict.DEBOUNCE if isinstance(gathering, Debounce) else EventVerdict.COLLECT
    return Match(definition, verdict, argument, slot=trigger.slot(definition.did, fields))


def _too_many(event: Event, count: int) -> ConflictError:
    return ConflictError(
        f"{count} definitions match an event of type {event.event_type[:100]}; the maximum is {MAX_MATCHES}",
        code="too_many_matches",
    )


def unknown_event(event_id: str) -> NotFoundError:
    """Return the error for an event that is no longer kept."""
    return NotFoundError(f"no event {event_id[:64]}; only the newest are kept", code="unknown_event")


def _sent_by(caller: Principal | None, event: Event) -> Event:
    """Return the event, with `is_bound` set if the caller's token is restricted to names. Raise ForbiddenError if the
    caller may not send events of this type."""
    if caller is None or caller.allows_name is None:
        return event
    if not caller.allows_name(event.event_type):
        raise ForbiddenError("the token may not send events of this type", code="name_forbidden")
    return replace(event, is_bound=True)
