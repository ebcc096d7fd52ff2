"""Definitions as people see them: what they are, when they are due, and what became of their instants."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from jqmaster.domain.definitions.definition import Definition
from jqmaster.domain.definitions.run import Run, RunOutcome
from jqmaster.domain.definitions.schedule import Occurrence
from jqmaster.service.definitions.firing import unknown_definition
from jqmaster.store.definitions.definitions import DefinitionStore, KnownDefinition, RunPage, RunPlace


@dataclass(frozen=True, slots=True)
class ShownDefinition:
    """`next_due_ms` None: it is never due again. `last_run` None: nothing was due yet, or no record is kept."""

    known: KnownDefinition
    next_due_ms: int | None
    last_run: Run | None


@dataclass(frozen=True, slots=True)
class DefinitionPage:
    """A page, by name. `next_cursor` None: there are no more."""

    definitions: list[ShownDefinition]
    next_cursor: str | None


class DefinitionReader:
    """Methods raise what the store raises."""

    def __init__(self, store: DefinitionStore) -> None:
        self._store = store

    async def page(self, after: str, limit: int) -> DefinitionPage:
        """Return definitions whose names follow `after`."""
        names = [name for name in await self._store.names() if name > after]
        chosen = names[:limit]
        found = [known for known in await self._store.get(chosen) if known]
        return DefinitionPage(await self._shown(found), chosen[-1] if len(names) > limit else None)

    async def get(self, name: str) -> ShownDefinition:
        """Return a definition. Raise NotFoundError."""
        (known,) = await self._store.get([name])
        if known is None:
            raise unknown_definition(name)
        return (await self._shown([known]))[0]

    async def runs(
        self, name: str, place: RunPlace | None, limit: int, outcome: RunOutcome | None
    ) -> RunPage:
        """Return run records, newest first. Raise NotFoundError."""
        await self.get(name)
        return await self._store.runs(name, place, limit, outcome)

    async def _shown(self, found: Sequence[KnownDefinition]) -> list[ShownDefinition]:
        last_runs = await self._store.last_runs([known.stored.definition.name for known in found])
        return [
            ShownDefinition(known, known.stored.definition.next_due_ms(known.clock.handled_ms), run)
            for known, run in zip(found, last_runs, strict=True)
        ]


def coming(definition: Definition, after_ms: int, count: int) -> list[Occurrence]:
    """Return the next instants after `after_ms`."""
    return list(islice(definition.due_after(after_ms), count))
