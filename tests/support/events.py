"""Events under test, and the definitions they start."""

import sys
from collections.abc import Mapping
from typing import Any

import msgpack

from jqmaster.domain.definitions.definition import Definition, Overlap, new_did
from jqmaster.domain.definitions.event_trigger import Collect, Debounce, EventTrigger
from jqmaster.domain.definitions.run import RunRecord
from jqmaster.domain.definitions.template import PAYLOAD, parse_template
from jqmaster.domain.events.event import Event, EventFigures
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Job, JobSpec
from jqmaster.domain.matching.fields import EVENT_FIELDS
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.live_value import LiveValue
from jqmaster.service.events.grouping import EventGrouping
from jqmaster.service.events.intake import EventIntake
from jqmaster.store import codec
from jqmaster.store.definitions.definitions import DefinitionChange, KeptRuns, KnownDefinition
from jqmaster.store.definitions.documents import DefinitionClock, StoredDefinition
from jqmaster.store.events.events import EventStore, KeptEvents, ReceivedEvent
from jqmaster.store.events.groups import EventGroupStore
from tests.support.store import StoreWorld

DEDUPE_MS = 60_000
RUNS = KeptRuns(1000, 10**12)


def event(event_type: str = "order.paid", payload: Any = None, **fields: Any) -> Event:
    return Event(new_id(), event_type, msgpack.packb(payload), **fields)


class Events:
    """The events of a world: one master that accepts them, and the leader that ends their groups."""

    def __init__(self, world: StoreWorld, *, most: int = 1000, max_argument_bytes: int = 1000) -> None:
        self.world = world
        self.store = EventStore(world.shard, world.tally)
        self.groups = EventGroupStore(world.shard, world.tally)
        self.kept = LiveValue(KeptEvents(DEDUPE_MS, most, 10**12, 1000, 10**12, max_argument_bytes))
        self.argument_quota = LiveValue(sys.maxsize)
        self.figures = EventFigures()
        self.intake = self.master()
        self.grouping = EventGrouping(
            self.groups, world.constraints, kept=LiveValue(RUNS), figures=self.figures
        )

    def master(self) -> EventIntake:
        """Return the event intake of another master, which does not know any definitions yet."""
        return EventIntake(
            self.store,
            self.world.constraints,
            admit=lambda _: 0,
            kept=self.kept,
            figures=self.figures,
            argument_quota=self.argument_quota,
        )

    async def define(
        self,
        name: str = "ship",
        event_type: str = "order.*",
        *,
        matcher: Mapping[str, Any] | None = None,
        argument: Any = PAYLOAD,
        debounce: tuple[int, int | None] | None = None,
        collect: tuple[int, int] | None = None,
        key: str | None = None,
        overlap: str = "allow",
        enabled: bool = True,
        job: Mapping[str, Any] | None = None,
    ) -> Definition:
        """Create or change a definition that events start."""
        store = self.world.definitions
        (present,) = await store.get([name])
        path = None if key is None else parse_path(key, fields=EVENT_FIELDS)
        definition = Definition(
            name,
            present.stored.definition.did if present else new_did(),
            JobSpec("", **{"name": "work", "argument": b"\xc0", **(job or {})}),
            EventTrigger(
                event_type,
                matcher=None if matcher is None else parse_matcher(matcher, EVENT_FIELDS),
                argument=parse_template(argument),
                debounce=None if debounce is None else Debounce(*debounce, path),
                collect=None if collect is None else Collect(*collect, path),
            ),
            enabled,
            "",
            Overlap(overlap),
        )
        now_ms = self.world.now_ms
        clock = present.clock if present else DefinitionClock(now_ms)
        new = KnownDefinition(StoredDefinition(definition, new_did(), now_ms, now_ms, "me"), clock)
        assert await store.change(DefinitionChange(name, present, new, None, codec.pack({}), 100))
        return definition

    async def remove(self, name: str = "ship") -> None:
        store = self.world.definitions
        (present,) = await store.get([name])
        assert await store.change(DefinitionChange(name, present, None, None, codec.pack({}), 100))

    async def send(self, event_type: str = "order.paid", payload: Any = None, **fields: Any) -> ReceivedEvent:
        return await self.intake.one(event(event_type, payload, **fields))

    async def end_due(self) -> None:
        """End all due groups, as the leader does."""
        while await self.grouping.end_due(self.world.epoch) == 0:
            pass

    async def runs(self, name: str = "ship") -> list[RunRecord]:
        """Return all run records, oldest first."""
        return (await self.world.definitions.runs(name, None, 10_000, None)).runs[::-1]

    async def outcomes(self, name: str = "ship") -> list[tuple[str, str]]:
        return [(str(run.outcome), str(run.reason)) for run in await self.runs(name)]

    async def jobs(self) -> list[Job]:
        """Return all jobs of the shard, oldest first."""
        prefix = self.world.shard.keys.job_prefix
        ids = [name.removeprefix(prefix) for name in await self.world.key_names() if name.startswith(prefix)]
        return [await self.world.get(job_id) for job_id in sorted(ids)]

    async def arguments(self) -> list[Any]:
        return [msgpack.unpackb(job.argument, timestamp=3) for job in await self.jobs()]
