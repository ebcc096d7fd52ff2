"""Events in the store: accepting them with their effects, and listing them."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

import msgpack

from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS, ConstraintSet
from jqmaster.domain.definitions.definition import Definition
from jqmaster.domain.definitions.event_trigger import Collect, Debounce
from jqmaster.domain.definitions.run import RunReason, job_id_of_event
from jqmaster.domain.events.event import Effect, Event, Started
from jqmaster.domain.events.index import EventIndex
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import DamagedError, StoreUnavailableError
from jqmaster.store import codec
from jqmaster.store.definitions.definitions import MAX_INSTANT_MS
from jqmaster.store.definitions.documents import decode_definition
from jqmaster.store.events.documents import StoredEvent, decode_event, decode_started, encode_event
from jqmaster.store.jobs.placement import LaneTable, StaleConstraints
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import EventsWaiting, JobsReady, SlotsFreed

logger = logging.getLogger(__name__)

# Pack bytes as strings, because the MessagePack library of Lua has no binary type.
_PACKER: Final = msgpack.Packer(autoreset=True, use_bin_type=False)
NO_LIMIT: Final = -1


class EventVerdict(StrEnum):
    """The caller's decision about an event for one definition."""

    FIRES = "fires"
    SKIPPED = "skipped"
    COLLECT = "collect"
    DEBOUNCE = "debounce"


@dataclass(frozen=True, slots=True)
class Match:
    """A definition that an event starts. `slot`: the name of the group where the event waits, if the definition
    collects or debounces events.
    """

    definition: Definition
    verdict: EventVerdict
    argument: bytes = b""
    reason: RunReason = RunReason.NONE
    slot: str = ""


@dataclass(frozen=True, slots=True)
class MatchedEvent:
    """An event with the definitions that it starts."""

    event: Event
    matches: Sequence[Match]


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """Limits: how long keys are remembered, how many events and run records are kept, and how long arguments are."""

    dedupe_ms: int
    most: int
    life_ms: int
    most_runs: int
    runs_life_ms: int
    max_argument_bytes: int


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """The answer to one event. A duplicate gets the ID and the answer of the first event with its key."""

    event_id: str
    is_duplicate: bool
    started: Sequence[Started]


class EventPosition(NamedTuple):
    """A position among events, newest first: after the first `passed` events with this `received_at_ms`."""

    received_at_ms: int
    passed: int

    def behind(self, received_at_ms: int) -> "EventPosition":
        """Return the position after the next event, which was received at `received_at_ms`."""
        return EventPosition(received_at_ms, self.passed + 1 if received_at_ms == self.received_at_ms else 1)


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events, newest first. `next_position`: None if there are no older ones."""

    events: list[StoredEvent]
    next_position: EventPosition | None


class StaleDefinitions(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """The definitions that events start have changed. The caller must match the events again and retry."""


class EventStore:
    """Events of one shard. `tally` counts the jobs that they start. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, tally: Tally) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys

    async def index(self) -> EventIndex:
        """Return the definitions that events start, without unreadable ones, which fsck reports."""
        k = self._keys
        # Read the edition before the names. If the definitions change between both reads, `send` later refuses the
        # older edition.
        edition, names = await self._client.pipeline(
            [("GET", k.event_edition), ("SMEMBERS", k.event_definitions)]
        )
        documents = await self._client.command("HMGET", k.definitions, *names) if names else []
        found = []
        for name, raw in zip(names, documents, strict=True):
            try:
                if raw:
                    found.append(decode_definition(name.decode(), raw).definition)
            except DamagedError as exc:
                logger.error("%s; no event starts it", exc.detail)
        return EventIndex((edition or b"").decode(), found)

    async def send(
        self,
        events: Sequence[MatchedEvent],
        constraints: ConstraintSet = NO_CONSTRAINTS,
        *,
        edition: str,
        kept: KeptEvents,
        replicas: int | None = None,
    ) -> list[ReceivedEvent]:
        """Store at most 500 events and their effects in one step. They may have at most 500 matches in total.

        * `edition`: the edition of the definitions.
        * `replicas`: see `EnqueueStore.enqueue`.

        Raises StaleConstraints, StaleDefinitions; StoreUnavailableError if the store was emptied or replaced.
        """
        k = self._keys
        table = LaneTable()
        numbers: dict[str, int] = {}
        definitions: list[tuple[str, str, str]] = []
        packed: list[Arg] = []
        for one in events:
            entries = []
            for match in one.matches:
                definition = match.definition
                number = numbers.get(definition.name)
                if number is None:
                    definitions.append((definition.name, definition.did, str(definition.overlap)))
                    number = numbers[definition.name] = len(definitions)
                entries.append(
                    (
                        number,
                        str(match.verdict),
                        str(match.reason),
                        *_parts(one.event, match, table, constraints),
                    )
                )
            packed.append(
                _PACKER.pack((one.event.id, one.event.dedupe_digest, encode_event(one.event), entries))
            )
        word, data = await self._client.run(
            "send_events",
            (k.rules, k.scheduled, k.expiring, k.definition_clocks, k.event_edition, k.events, k.event_bodies,
             k.event_groups, k.event_slots),
            (self._shard.now_arg, k.tag, self._shard.wake_channel, k.finished_channel, constraints.edition,
             table.packed(), self._shard.mark, kept.most_runs, kept.runs_life_ms, edition, kept.dedupe_ms, kept.most,
             kept.life_ms, kept.max_argument_bytes, _PACKER.pack(definitions), *packed),
            replicas=replicas,
        )  # fmt: skip
        raise_refusal(word)
        if word == "stale_definitions":
            raise StaleDefinitions
        flat = data[1]
        received = [
            ReceivedEvent(flat[n + 1].decode(), bool(flat[n]), decode_started(flat[n + 2]))
            for n in range(0, len(flat), 3)
        ]
        self._count(events, received)
        for worker_id in data[2]:
            self._shard.leader.wake(SlotsFreed(worker_id.decode(), 1))
        return received

    async def page(self, position: EventPosition | None, limit: int) -> EventPage:
        """Return events after a position, newest first."""
        k, at = self._keys, position or EventPosition(MAX_INSTANT_MS, 0)
        ids = await self._client.command(
            "ZRANGE", k.events, at.received_at_ms, "-inf", "BYSCORE", "REV", "LIMIT", at.passed, limit
        )
        events = [event for event in await self._read(ids) if event]
        for event in events:
            at = at.behind(event.received_at_ms)
        return EventPage(events, at if len(ids) == limit else None)

    async def get(self, event_id: str) -> StoredEvent | None:
        """Return an event, or None if it is not kept."""
        (event,) = await self._read([event_id.encode()])
        return event

    async def _read(self, ids: Sequence[bytes]) -> list[StoredEvent | None]:
        if not ids:
            return []
        bodies = await self._client.command("HMGET", self._keys.event_bodies, *ids)
        return [raw and decode_event(one.decode(), raw) for one, raw in zip(ids, bodies, strict=True)]

    def _count(self, events: Sequence[MatchedEvent], received: Sequence[ReceivedEvent]) -> None:
        fired = Counter[str]()
        waits = False
        for one, answer in zip(events, received, strict=True):
            if answer.is_duplicate:
                continue
            for match, started in zip(one.matches, answer.started, strict=True):
                if started.effect is Effect.FIRED:
                    fired[match.definition.job.name] += 1
                waits = waits or started.effect is Effect.WAITING
        for name, count in fired.items():
            self._tally.of(name).pushed += count
        if fired:
            self._shard.leader.wake(JobsReady())
        if waits:
            self._shard.leader.wake(EventsWaiting())


def _parts(
    event: Event, match: Match, table: LaneTable, constraints: ConstraintSet
) -> tuple[Arg | tuple[Arg, ...], ...]:
    """Return the ID of the job, and the script's arguments for the job or for a waiting event."""
    definition = match.definition
    if match.verdict is EventVerdict.SKIPPED:
        return "", b"", b"", b""
    job_id = job_id_of_event(definition.did, event.id)
    match definition.of_events.gathering:
        case Collect(most, within_ms):
            return job_id, (match.slot, most, within_ms, NO_LIMIT), b"", match.argument
        case Debounce(wait_ms, max_ms):
            most_ms = NO_LIMIT if max_ms is None else max_ms
            return job_id, (match.slot, NO_LIMIT, wait_ms, most_ms), b"", match.argument
    return job_id, *job_parts(definition, job_id, match.argument, table, constraints)


def job_parts(
    definition: Definition, job_id: str, argument: bytes, table: LaneTable, constraints: ConstraintSet
) -> tuple[bytes, bytes, bytes]:
    """Return a new job's terms with the number of its lane, its digest, and the rest of its record."""
    spec = replace(definition.job, id=job_id, argument=argument)
    lane, gates, weights = table.place(constraints, spec)
    terms, digest, rest = codec.encode_new(spec, gates, weights)
    return terms + lane.to_bytes(2, "big"), digest, rest


def raise_refusal(word: str) -> None:
    """Raise the exception for a script's refusal. Ignore a refusal that concerns definitions."""
    if word == "stale_constraints":
        raise StaleConstraints
    if word == "other_data":
        raise StoreUnavailableError(
            "the store's data are gone or were replaced; no event was accepted",
            code="store_unfit",
            retry_after_s=5.0,
        )
