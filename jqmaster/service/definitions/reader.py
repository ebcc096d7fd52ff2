"""Reads definitions, with their next instants and the outcomes of past instants."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from jqmaster.domain.calendars.calendar import Calendar
from jqmaster.domain.definitions.days import DayPlan
from jqmaster.domain.definitions.definition import Definition, Kind
from jqmaster.domain.definitions.run import RunOutcome, RunReason, RunRecord
from jqmaster.domain.definitions.schedule import Occurrence
from jqmaster.domain.definitions.skips import SKIPS_OF_A_FAULT, is_skipping, skips_in_a_row
from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.service.definitions.firing import unknown_definition
from jqmaster.store.definitions.definitions import DefinitionStore, KnownDefinition, RunPosition

# Maximum number of definitions that are read for a filtered page. Without it, a filter that selects few definitions
# would make requests slow.
MAX_LOOKED_AT: Final = 2_000
_STEP: Final = 200
# A due instant without a record counts as late after this time. A leader fires within milliseconds of the due instant,
# or within seconds after an election.
LATE_MS: Final = 15_000
# Maximum number of skips that an explanation shows, and of fired runs that it searches for an unfinished job.
MAX_SKIPS: Final = 10
_MAX_FIRED: Final = 100


class DefinitionFilter(StrEnum):
    """A filter of the list."""

    ENABLED = "enabled"
    PAUSED = "paused"
    # A definition that has been due for LATE_MS without a record, missed its newest instant, or skips again and again.
    TROUBLED = "troubled"


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run record. `job_state`: the state of the job that the run started. None: the run started no job, or the job
    was removed."""

    run: RunRecord
    job_state: JobState | None


@dataclass(frozen=True, slots=True)
class ShownDefinition:
    """A definition with its next instant and its newest runs.

    * `next_due_ms`: the next instant at which it starts a job. Instants that its calendar leaves out do not count.
      None: there is no such instant.
    * `runs`: as many of the newest run records as were requested.
    """

    known: KnownDefinition
    next_due_ms: int | None
    last_run: ShownRun | None
    runs: Sequence[ShownRun] = ()


@dataclass(frozen=True, slots=True)
class DefinitionSkips:
    """The reasons why a definition starts no jobs.

    * `skips`: the latest skips in a row that nobody chose, the newest first, up to MAX_SKIPS.
    * `unfinished`: the newest fired run with an unfinished job, if the definition waits for the end of this job.
    """

    shown: ShownDefinition
    skips: Sequence[RunRecord]
    unfinished: ShownRun | None

    @property
    def is_fault(self) -> bool:
        is_enabled = self.shown.known.stored.definition.enabled
        return is_enabled and len(self.skips) >= SKIPS_OF_A_FAULT


@dataclass(frozen=True, slots=True)
class DefinitionPage:
    """A page of definitions, sorted by name. `next_cursor`: None if this is the last page."""

    definitions: list[ShownDefinition]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ShownRuns:
    """A page of run records, the newest first. `next_at`: None if this is the last page."""

    runs: list[ShownRun]
    next_at: RunPosition | None


class DefinitionReader:
    """Reads definitions and their run records. Methods raise what the store raises. `now_ms`: returns the store's
    time."""

    def __init__(self, store: DefinitionStore, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._store = store
        self._now_ms = now_ms

    async def page(
        self,
        after: str,
        limit: int,
        *,
        search: str = "",
        condition: DefinitionFilter | None = None,
        kind: Kind | None = None,
        runs: int = 0,
    ) -> DefinitionPage:
        """Return definitions with names that follow `after` in the order of names and contain `search`. Each definition
        comes with up to `runs` of its newest run records.

        With a filter for a condition or a kind, at most MAX_LOOKED_AT definitions are examined for a page. So the page
        may contain only a few definitions.
        """
        wanted = search.casefold()
        names = [name for name in await self._store.names() if name > after and wanted in name.casefold()]
        if condition is None and kind is None:
            chosen = names[:limit]
            found = await self._store.readable(chosen)
            return DefinitionPage(await self._shown(found, runs), chosen[-1] if len(names) > limit else None)
        now_ms = await self._now_ms()
        matching: list[KnownDefinition] = []
        for step in _steps(names[:MAX_LOOKED_AT]):
            found = [known for known in await self._store.readable(step) if _is_of_kind(known, kind)]
            matching += found if condition is None else await self._matching(found, condition, now_ms)
            if len(matching) > limit:
                shown = await self._shown(matching[:limit], runs)
                return DefinitionPage(shown, shown[-1].known.stored.definition.name)
        return DefinitionPage(
            await self._shown(matching, runs),
            names[MAX_LOOKED_AT - 1] if len(names) > MAX_LOOKED_AT else None,
        )

    async def get(self, name: str) -> ShownDefinition:
        """Return a definition. Raise NotFoundError."""
        (known,) = await self._store.get([name])
        if known is None:
            raise unknown_definition(name)
        return (await self._shown([known], 0))[0]

    async def skips(self, name: str) -> DefinitionSkips:
        """Explain why a definition starts no jobs. Raise NotFoundError."""
        shown = await self.get(name)
        (newest,) = await self._store.newest_runs([name], MAX_SKIPS)
        skips = skips_in_a_row(newest)
        unfinished = None
        if skips and skips[0].reason is RunReason.OVERLAP:
            fired = await self._store.runs(name, None, _MAX_FIRED, RunOutcome.FIRED)
            with_states = await self._with_states(fired.runs)
            unfinished = next(
                (one for one in with_states if one.job_state and one.job_state not in FINISHED), None
            )
        return DefinitionSkips(shown, skips, unfinished)

    async def runs(
        self, name: str, position: RunPosition | None, limit: int, outcome: RunOutcome | None
    ) -> ShownRuns:
        """Return run records, newest first. Raise NotFoundError."""
        (known,) = await self._store.get([name])
        if known is None:
            raise unknown_definition(name)
        page = await self._store.runs(name, position, limit, outcome)
        return ShownRuns(await self._with_states(page.runs), page.next_at)

    async def _matching(
        self, found: Sequence[KnownDefinition], condition: DefinitionFilter, now_ms: int
    ) -> list[KnownDefinition]:
        if condition is not DefinitionFilter.TROUBLED:
            is_enabled = condition is DefinitionFilter.ENABLED
            return [known for known in found if known.stored.definition.enabled is is_enabled]
        names = [known.stored.definition.name for known in found]
        newest = await self._store.newest_runs(names, SKIPS_OF_A_FAULT)
        return [
            known
            for known, runs in zip(found, newest, strict=True)
            if (runs and runs[0].outcome is RunOutcome.MISSED)
            or _is_late(known, now_ms)
            or (known.stored.definition.enabled and is_skipping(runs))
        ]

    async def _shown(self, found: Sequence[KnownDefinition], runs: int) -> list[ShownDefinition]:
        if not found:
            return []
        names = [known.stored.definition.name for known in found]
        newest = await self._store.newest_runs(names, max(1, runs))
        with_states = iter(await self._with_states([run for group in newest for run in group]))
        shown = []
        for known, group in zip(found, newest, strict=True):
            own = [next(with_states) for _ in group]
            next_due_ms = known.stored.definition.next_firing_ms(known.clock.handled_ms, known.plan)
            shown.append(ShownDefinition(known, next_due_ms, own[0] if own else None, own[:runs]))
        return shown

    async def _with_states(self, runs: Sequence[RunRecord]) -> list[ShownRun]:
        job_ids = [run.job_id for run in runs if run.job_id]
        states = await self._store.job_states(job_ids) if job_ids else {}
        return [ShownRun(run, states.get(run.job_id)) for run in runs]


def coming(
    definition: Definition, after_ms: int, count: int, calendar: Calendar | None = None
) -> list[Occurrence]:
    """Return the next `count` instants after `after_ms`. `calendar`: the calendar of the definition's days."""
    return list(islice(definition.due_after(after_ms, DayPlan(calendar)), count))


def _is_of_kind(known: KnownDefinition, kind: Kind | None) -> bool:
    return kind is None or known.stored.definition.kind is kind


def _is_late(known: KnownDefinition, now_ms: int) -> bool:
    due_ms = known.stored.definition.next_due_ms(known.clock.handled_ms, known.plan)
    return due_ms is not None and due_ms < now_ms - LATE_MS


def _steps(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(names), _STEP):
        yield names[at : at + _STEP]
