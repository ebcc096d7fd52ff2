"""Fires definitions: decides about each due instant, and has the store write the outcome."""

import functools
import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from jqmaster.domain.definitions.definition import Kind
from jqmaster.domain.definitions.misfire import judge
from jqmaster.domain.definitions.run import FiringFigures, RunOutcome, RunReason
from jqmaster.errors import ConflictError, NotFoundError, OverloadedError
from jqmaster.lifecycle import EntriesApart
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.store.definitions.definitions import (
    DefinitionStore,
    Entry,
    Firing,
    FiringOutcome,
    InstantVerdict,
    KeptRuns,
    KnownDefinition,
)
from jqmaster.store.link.pages import MAX_PER_CALL, pages

logger = logging.getLogger(__name__)

# The most definitions per read. After each read, other tasks of this process get their turns.
BATCH: Final = 200
# The most instants of one definition that one step handles, and the most that it reads to judge these.
MAX_INSTANTS: Final = 200
MAX_LOOKED_AT: Final = 2_000
# The most bytes of arguments in one step.
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_REPEATS: Final = 20
# The outcomes of run records. Other results have no record yet, or this step did not write it.
_OUTCOMES: Final = {
    FiringOutcome.FIRED: RunOutcome.FIRED,
    FiringOutcome.KNOWN: RunOutcome.FIRED,
    FiringOutcome.BACKLOG_FULL: RunOutcome.SKIPPED,
    FiringOutcome.OVERLAP: RunOutcome.SKIPPED,
    FiringOutcome.SUPERSEDED: RunOutcome.SKIPPED,
    FiringOutcome.SKIPPED: RunOutcome.SKIPPED,
    FiringOutcome.MISSED: RunOutcome.MISSED,
}


class DefinitionFiring:
    """Methods raise what the store raises. `figures` counts the outcomes of the instants."""

    def __init__(
        self,
        store: DefinitionStore,
        constraints: ConstraintCache,
        *,
        kept: LiveValue[KeptRuns],
        figures: FiringFigures,
    ) -> None:
        self._store = store
        self._constraints = constraints
        self._kept = kept
        self._figures = figures
        self._apart = EntriesApart("definitions")

    async def fire_due(self, epoch: str) -> int | None:
        """Fire some of the due definitions, as the leader of `epoch`. Return the milliseconds until the next one is
        due; None: none."""
        due = await self._store.due(BATCH)
        firings = []
        for known in due.found:
            with self._apart.alone(known.stored.definition.name):
                firings.append(firing_of(known, due.now_ms))
        await self._fire(firings, epoch)
        # Definitions that cannot be read stay due, and must not keep the leader busy.
        return due.next_ms if due.found or due.next_ms else None

    async def settle(self, known: KnownDefinition, now_ms: int) -> bool:
        """Fire the due instants of one definition, on any master. Return True if there were none, so that `known` is
        still up to date."""
        firing = firing_of(known, now_ms)
        # An instant that waits for the end of a job keeps waiting after the change.
        if all(entry.verdict is InstantVerdict.QUEUED for entry in firing.entries):
            return True
        await self._fire([firing])
        return False

    async def run_now(self, name: str, job_id: str, now_ms: int) -> FiringOutcome:
        """Start the job of a definition once, outside its schedule. Raise NotFoundError."""
        for _ in range(MAX_REPEATS):
            known = await self.known_of_time(name)
            entry = Entry(now_ms, InstantVerdict.MANUAL, RunReason.MANUAL, job_id)
            became = (await self._fire([_extra_firing(known, [entry])]))[0]
            if became is not FiringOutcome.CHANGED:
                return became
        raise _too_busy(name)

    async def backfill(
        self, name: str, due_ms: Sequence[int], *, also_forgotten: bool = False
    ) -> list[FiringOutcome]:
        """Start the jobs of past instants, oldest first. `also_forgotten`: also for instants whose run records may have
        been removed. Raise NotFoundError."""
        verdict = InstantVerdict.BACKFILL_FORGOTTEN if also_forgotten else InstantVerdict.BACKFILL
        found: list[FiringOutcome] = []
        for page in pages(due_ms, MAX_INSTANTS):
            entries = [Entry(at_ms, verdict, RunReason.BACKFILL) for at_ms in page]
            for _ in range(MAX_REPEATS):
                became = await self._fire([_extra_firing(await self.known_of_time(name), entries)])
                if FiringOutcome.CHANGED not in became:
                    break
            else:
                raise _too_busy(name)
            found += became
        return found

    async def known(self, name: str) -> KnownDefinition:
        """Return a definition. Raise NotFoundError."""
        (known,) = await self._store.get([name])
        if known is None:
            raise unknown_definition(name)
        return known

    async def known_of_time(self, name: str) -> KnownDefinition:
        """Return a definition with a schedule. Raise NotFoundError; ConflictError for one that events start."""
        known = await self.known(name)
        if known.stored.definition.kind is Kind.EVENT:
            raise ConflictError(
                f"events start definition {name}, and no schedule: send an event, or replay one",
                code="started_by_events",
            )
        return known

    async def _fire(self, firings: Sequence[Firing], epoch: str = "") -> list[FiringOutcome]:
        found: list[FiringOutcome] = []
        for step in _steps(firings):
            fire = functools.partial(self._store.fire, step, kept=self._kept.current, epoch=epoch)
            recorded_at_ms, became = await self._constraints.under(fire)
            for firing, outcomes in zip(step, became, strict=True):
                self._note(firing, outcomes, recorded_at_ms)
                found += outcomes
        return found

    def _note(self, firing: Firing, outcomes: Sequence[FiringOutcome], recorded_at_ms: int) -> None:
        # Only one instant can wait for the end of a job: a later one replaces an earlier one, which is then skipped.
        self._figures.outcomes[RunOutcome.SKIPPED] += max(0, outcomes.count(FiringOutcome.QUEUED) - 1)
        for entry, became in zip(firing.entries, outcomes, strict=True):
            if outcome := _OUTCOMES.get(became):
                self._figures.outcomes[outcome] += 1
            if became is FiringOutcome.FIRED and entry.verdict is InstantVerdict.FIRES:
                self._figures.lateness.add(recorded_at_ms - entry.due_at_ms)
            if became is FiringOutcome.MISSED:
                logger.warning(
                    "definition %s missed an instant", firing.known.stored.definition.name,
                    extra={"due_at_ms": entry.due_at_ms},
                )  # fmt: skip


def firing_of(known: KnownDefinition, now_ms: int) -> Firing:
    """Return the decisions on the instants of a definition that are due by now."""
    definition, clock = known.stored.definition, known.clock
    due_ms: list[int] = []
    next_due_ms = None
    for occurrence in islice(definition.due_after(clock.handled_ms), MAX_LOOKED_AT + 1):
        next_due_ms = occurrence.at_ms
        if occurrence.at_ms > now_ms:
            break
        due_ms.append(occurrence.at_ms)
        next_due_ms = None
    more_are_due = len(due_ms) > MAX_LOOKED_AT
    reasons = judge(due_ms, now_ms, definition.of_time, more_are_due=more_are_due) if due_ms else []
    entries = [] if clock.queued_ms is None else [_queued(clock.queued_ms, definition.enabled)]
    entries += [
        _entry(at_ms, reason, definition.enabled)
        for at_ms, reason in zip(due_ms[:MAX_INSTANTS], reasons[:MAX_INSTANTS], strict=True)
    ]
    if len(due_ms) > MAX_INSTANTS:
        next_due_ms = due_ms[MAX_INSTANTS]
    handled_ms = due_ms[:MAX_INSTANTS][-1] if due_ms else clock.handled_ms
    return Firing(known, handled_ms, next_due_ms, entries)


def _entry(due_at_ms: int, reason: RunReason, is_enabled: bool) -> Entry:
    if not is_enabled:
        return Entry(due_at_ms, InstantVerdict.SKIPPED, RunReason.PAUSED)
    if reason is RunReason.LATE:
        return Entry(due_at_ms, InstantVerdict.MISSED, reason)
    return Entry(due_at_ms, InstantVerdict.FIRES, reason)


def _queued(due_at_ms: int, is_enabled: bool) -> Entry:
    if is_enabled:
        return Entry(due_at_ms, InstantVerdict.QUEUED)
    return Entry(due_at_ms, InstantVerdict.SKIPPED, RunReason.PAUSED)


def _extra_firing(known: KnownDefinition, entries: Sequence[Entry]) -> Firing:
    """Return a firing that does not advance the definition's clock."""
    handled_ms = known.clock.handled_ms
    return Firing(known, handled_ms, known.stored.definition.next_due_ms(handled_ms), entries)


def _steps(firings: Sequence[Firing]) -> Iterator[list[Firing]]:
    """Yield firings in groups that one step of the store can take."""
    step: list[Firing] = []
    count = size = 0
    for firing in firings:
        jobs = sum(entry.has_job for entry in firing.entries)
        more = jobs * (len(firing.known.stored.definition.job.argument) + 1000)
        if step and (count + len(firing.entries) > MAX_PER_CALL or size + more > MAX_BYTES):
            yield step
            step, count, size = [], 0, 0
        step.append(firing)
        count, size = count + len(firing.entries), size + more
    if step:
        yield step


def unknown_definition(name: str) -> NotFoundError:
    """Return the error for a definition that is not there."""
    return NotFoundError(f"no definition {name[:100]}", code="unknown_definition")


def _too_busy(name: str) -> OverloadedError:
    return OverloadedError(f"definition {name} changes faster than it can be followed", retry_after_s=1.0)
