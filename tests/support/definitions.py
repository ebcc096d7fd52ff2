"""Definitions under test."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgpack

from jqmaster.domain.definitions.definition import Definition, Overlap, TimeTrigger, new_did
from jqmaster.domain.definitions.run import FiringFigures, RunRecord
from jqmaster.domain.definitions.schedule import parse_schedule
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.live_value import LiveValue
from jqmaster.service.definitions.firing import DefinitionFiring
from jqmaster.store import codec
from jqmaster.store.definitions.definitions import DefinitionChange, KeptRuns, KnownDefinition
from jqmaster.store.definitions.documents import DefinitionClock, StoredDefinition
from tests.support.store import START_MS, StoreWorld

MINUTE_MS = 60_000
EVERY_MINUTE: Mapping[str, Any] = {"every_minutes": 1}


class Definitions:
    """Sets up the definitions of a world and fires them."""

    def __init__(self, world: StoreWorld, *, most_runs: int = 1000, life_ms: int = 10**12) -> None:
        self.world = world
        self.store = world.definitions
        self.kept = LiveValue(KeptRuns(most_runs, life_ms))
        self.figures = FiringFigures()
        self.firing = DefinitionFiring(self.store, world.constraints, kept=self.kept, figures=self.figures)

    async def put(
        self,
        name: str = "nightly",
        *,
        schedule: Mapping[str, Any] = EVERY_MINUTE,
        overlap: str = "allow",
        enabled: bool = True,
        job: Mapping[str, Any] | None = None,
        **trigger: Any,
    ) -> KnownDefinition:
        """Create or change a definition. A new one counts from now on."""
        (present,) = await self.store.get([name])
        definition = Definition(
            name,
            present.stored.definition.did if present else new_did(),
            JobSpec("", **{"name": "report", "argument": msgpack.packb({"a": 1}), **(job or {})}),
            TimeTrigger(parse_schedule(schedule), **trigger),
            enabled,
            "",
            Overlap(overlap),
        )
        now_ms = self.world.now_ms
        clock = replace(present.clock, handled_ms=now_ms) if present else DefinitionClock(now_ms)
        new = KnownDefinition(StoredDefinition(definition, new_did(), now_ms, now_ms, "me"), clock)
        assert await self.change(name, present, new)
        return new

    async def change(
        self, name: str, present: KnownDefinition | None, new: KnownDefinition | None, *, most: int = 10_000
    ) -> bool:
        due_ms = new.stored.definition.next_due_ms(new.clock.handled_ms, new.plan) if new else None
        if new and new.clock.queued_ms is not None:
            due_ms = self.world.now_ms
        return await self.store.change(DefinitionChange(name, present, new, due_ms, codec.pack({}), most))

    async def fire(self) -> None:
        """Fire everything that is due, as the leader does."""
        while await self.firing.fire_due(self.world.epoch) == 0:
            pass

    async def runs(self, name: str = "nightly") -> list[RunRecord]:
        """Return all run records, oldest first."""
        return (await self.store.runs(name, None, 10_000, None)).runs[::-1]

    async def outcomes(self, name: str = "nightly") -> list[tuple[int, str, str]]:
        """Return minutes since the start of the world, outcome and reason of each record, oldest first."""
        return [
            ((run.due_at_ms - START_MS) // MINUTE_MS, str(run.outcome), str(run.reason))
            for run in await self.runs(name)
        ]
