"""Fires definitions: decides about each due instant, and lets the store write the outcome."""

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from jqmaster.domain.definitions.carry_over import carried_over
from jqmaster.domain.definitions.days import DayPlan, day_of, left_out_for, pruned
from jqmaster.domain.definitions.definition import Definition, Kind
from jqmaster.domain.definitions.misfire import judge, most_caught_up
from jqmaster.domain.definitions.run import FiringFigures, RunOutcome, RunReason
from jqmaster.domain.definitions.schedule import Occurrence
from jqmaster.domain.definitions.time_zone import GapOrFold
from jqmaster.errors import ConflictError, NotFoundError, after_it_was_done
from jqmaster.lifecycle import EntriesApart
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.named_objects import Tries
from jqmaster.store.definitions.definitions import (
    DefinitionStore,
    Entry,
    Firing,
    FiringOutcome,
    InstantVerdict,
    KeptRuns,
    KnownDefinition,
)
from jqmaster.store.definitions.documents import CalendarMemory
from jqmaster.store.link.pages import MAX_PER_CALL, pages

logger = logging.getLogger(__name__)

# Maximum number of definitions per read. Between two reads, other tasks of this process can run.
BATCH: Final = 200
# Maximum number of instants of one definition that one call of the store handles.
MAX_INSTANTS: Final = 200
# Maximum number of bytes of arguments in one call of the store.
MAX_BYTES: Final = 8 * 1024 * 1024
# Maps the result for an instant to the outcome in its run record. After other results, the instant has no record yet,
# or a record from an earlier call.
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
    """Fires definitions. Methods raise what the store raises. `figures`: counts the outcomes of the instants."""

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
        """Fire some of the due definitions, as the leader of `epoch`. Return the milliseconds until the next definition
        is due. None: no definition will be due."""
        passed_over, firings, due = 0, list[Firing](), await self._store.due(BATCH)
        while True:
            for known in due.found:
                with self._apart.alone(known.stored.definition.name):
                    firings.append(firing_of(known, due.now_ms))
            if firings or not due.are_more:
                break
            # Skip definitions that cannot be read or planned. These stay due, and must not keep other definitions from
            # firing.
            passed_over += BATCH
            due = await self._store.due(BATCH, passed_over)
        await self._fire(firings, epoch)
        return 0 if firings else due.next_ms

    async def settle(self, known: KnownDefinition, now_ms: int) -> bool:
        """Fire the due instants of one definition, on any master. Return True if no instant was due. In this case,
        `known` is still up to date."""
        firing = firing_of(known, now_ms)
        # Do not fire if the only instants are waiting for the end of a job: these continue to wait after a change of
        # the definition.
        if not known.is_behind and all(entry.verdict is InstantVerdict.QUEUED for entry in firing.entries):
            return True
        await self._fire([firing])
        return False

    async def run_now(self, name: str, job_id: str, now_ms: int) -> FiringOutcome:
        """Start the job of a definition once, outside its schedule. Raise NotFoundError."""
        tries = Tries("definition", name)
        while True:
            known = await tries.read(self.known_of_time)
            entry = Entry(now_ms, InstantVerdict.MANUAL, RunReason.MANUAL, job_id)
            became = (await self._fire([_extra_firing(known, [entry])]))[0]
            if became is not FiringOutcome.CHANGED:
                return became

    async def backfill(
        self, name: str, due: Sequence[Occurrence], *, also_forgotten: bool = False
    ) -> list[FiringOutcome]:
        """Start the jobs of past instants, the oldest first. `also_forgotten`: also start a job if the run record of
        its instant may have been removed. Raise NotFoundError, and OutcomeUnknownError if only some of the jobs were
        started."""
        verdict = InstantVerdict.BACKFILL_FORGOTTEN if also_forgotten else InstantVerdict.BACKFILL
        found: list[FiringOutcome] = []
        for page in pages(due, MAX_INSTANTS):
            entries = [
                Entry(one.at_ms, verdict, RunReason.BACKFILL, moved_from_ms=one.moved_from_ms) for one in page
            ]
            with after_it_was_done("some of the jobs were started") if found else contextlib.nullcontext():
                found += await self._backfill_page(name, entries)
        return found

    async def _backfill_page(self, name: str, entries: Sequence[Entry]) -> list[FiringOutcome]:
        tries = Tries("definition", name)
        while True:
            became = await self._fire([_extra_firing(await tries.read(self.known_of_time), entries)])
            if FiringOutcome.CHANGED not in became:
                return became

    async def known(self, name: str) -> KnownDefinition:
        """Return a definition. Raise NotFoundError."""
        (known,) = await self._store.get([name])
        if known is None:
            raise unknown_definition(name)
        return known

    async def known_of_time(self, name: str) -> KnownDefinition:
        """Return a definition with a schedule. Raise NotFoundError, and ConflictError for a definition that events
        start."""
        known = await self.known(name)
        if known.stored.definition.kind is Kind.EVENT:
            raise ConflictError(
                f"definition {name} is started by events, not by a schedule: send an event, or replay one",
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
        # Count replaced instants as skipped. Only one instant can wait for the end of a job, so each later instant
        # replaces it.
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
    """Decide about the due instants of a definition. If its calendar has been changed, decide only about the instants
    that were due before the change."""
    definition, clock, plan = known.stored.definition, known.clock, known.plan
    until_ms = _former_until(known, now_ms)
    due = _due_instants(known, plan, min(until_ms, now_ms))
    entries = (
        []
        if clock.queued_ms is None
        else [_queued(clock.queued_ms, clock.queued_from_ms, definition.enabled)]
    )
    entries += _judged(due, now_ms, definition)
    handled_ms = max(due.found[-1].at_ms, clock.handled_ms) if due.found else clock.handled_ms
    if due.are_more:
        rest = replace(clock.memory, overdue=clock.memory.overdue[len(due.found) :])
        return Firing(known, handled_ms, due.next_ms, entries, rest)
    if known.is_behind:
        return _following(known, max(handled_ms, until_ms), now_ms, entries)
    if not (definition.calendar or plan.done or plan.overdue):
        return Firing(known, handled_ms, due.next_ms, entries)
    kept = pruned(plan, handled_ms)
    memory = CalendarMemory(clock.memory.etag, kept.done)
    return Firing(known, handled_ms, due.next_ms, entries, memory)


@dataclass(frozen=True, slots=True)
class _DueInstants:
    """The due instants that one call of the store handles, the oldest first.

    * `next_ms`: the next instant after these. None: there is no other instant.
    * `are_more`: whether the next instant is also due.
    * `newer`: the number of further due instants that start jobs. They are counted only as far as `catch_up` needs the
      number.
    """

    found: list[Occurrence]
    next_ms: int | None
    are_more: bool = False
    newer: int = 0


def _former_until(known: KnownDefinition, now_ms: int) -> int:
    """Return the time until which the plan of the definition's clock applies."""
    if not known.is_behind or known.calendar is None:
        return now_ms
    return min(now_ms, known.calendar.changed_at_ms)


def _due_instants(known: KnownDefinition, plan: DayPlan, now_ms: int) -> _DueInstants:
    """Return the due instants that have no record, up to the number that one call of the store handles."""
    definition, handled_ms = known.stored.definition, known.clock.handled_ms
    overdue = [_overdue(definition, plan, due_ms, origin_ms) for due_ms, origin_ms in plan.overdue]
    found: list[Occurrence] = []
    for occurrence in chain(overdue, definition.due_after(handled_ms, plan)):
        if occurrence.at_ms > now_ms and len(found) >= len(overdue):
            return _DueInstants(found, occurrence.at_ms)
        # Do not stop between instants of the same time, because `handled_ms` cannot tell them apart.
        if len(found) >= MAX_INSTANTS and occurrence.at_ms > found[-1].at_ms:
            break
        found.append(occurrence)
    else:
        return _DueInstants(found, None)
    # A calendar has moved the overdue instants, so they may be earlier than instants that are already handled. If
    # overdue instants are left, look for further instants from `handled_ms` on.
    after_ms = handled_ms if len(found) < len(overdue) else max(handled_ms, found[-1].at_ms)
    later = chain(
        (one for one in overdue[len(found) :] if not one.left_out),
        definition.firing_after(after_ms, now_ms, plan),
    )
    newer = sum(1 for _ in islice(later, most_caught_up(definition.of_time)))
    return _DueInstants(found, occurrence.at_ms, are_more=True, newer=newer)


def _overdue(definition: Definition, plan: DayPlan, due_ms: int, origin_ms: int | None) -> Occurrence:
    trigger, delay_ms = definition.of_time, definition.delay_ms
    occurrence = Occurrence(due_ms, None, GapOrFold.NONE, moved_from_ms=origin_ms)
    if trigger.days is None or trigger.days.is_moving or plan.calendar is None:
        return occurrence
    day = day_of(Occurrence(due_ms - delay_ms, None, GapOrFold.NONE), trigger.zone)
    return occurrence._replace(left_out=left_out_for(trigger.days.rule, plan.calendar, day))


def _judged(due: _DueInstants, now_ms: int, definition: Definition) -> list[Entry]:
    """Return the entries of the due instants. An instant that a calendar leaves out does not count as late."""
    if not due.found:
        return []
    counted = [one.at_ms for one in due.found if not one.left_out]
    reasons = iter(judge(counted, now_ms, definition.of_time, newer=due.newer))
    return [
        _entry(one, RunReason.CALENDAR if one.left_out else next(reasons), definition.enabled)
        for one in due.found
    ]


def _following(known: KnownDefinition, at_ms: int, now_ms: int, entries: list[Entry]) -> Firing:
    """Return a firing after which the definition follows the current version of its calendar, from `at_ms` on."""
    assert known.calendar is not None
    definition, calendar = known.stored.definition, known.calendar
    former = pruned(known.plan, at_ms)
    plan = carried_over(definition, former, definition, calendar.calendar, at_ms)
    memory = CalendarMemory(calendar.etag, tuple(plan.done), tuple(plan.overdue))
    next_due_ms = now_ms if plan.overdue else definition.next_due_ms(at_ms, plan)
    return Firing(known, at_ms, next_due_ms, entries, memory)


def _entry(occurrence: Occurrence, reason: RunReason, is_enabled: bool) -> Entry:
    due_at_ms, origin_ms = occurrence.at_ms, occurrence.moved_from_ms
    if not is_enabled:
        return Entry(due_at_ms, InstantVerdict.SKIPPED, RunReason.PAUSED, moved_from_ms=origin_ms)
    if occurrence.left_out:
        return Entry(due_at_ms, InstantVerdict.SKIPPED, reason, "", origin_ms, occurrence.left_out)
    if reason is RunReason.LATE:
        return Entry(due_at_ms, InstantVerdict.MISSED, reason, moved_from_ms=origin_ms)
    return Entry(due_at_ms, InstantVerdict.FIRES, reason, moved_from_ms=origin_ms)


def _queued(due_at_ms: int, origin_ms: int | None, is_enabled: bool) -> Entry:
    if is_enabled:
        return Entry(due_at_ms, InstantVerdict.QUEUED, moved_from_ms=origin_ms)
    return Entry(due_at_ms, InstantVerdict.SKIPPED, RunReason.PAUSED, moved_from_ms=origin_ms)


def _extra_firing(known: KnownDefinition, entries: Sequence[Entry]) -> Firing:
    """Return a firing that does not advance the definition's clock."""
    handled_ms, plan = known.clock.handled_ms, known.plan
    # If instants are already due, the definition must stay due.
    next_due_ms = handled_ms if plan.overdue or known.is_behind else None
    if next_due_ms is None:
        next_due_ms = known.stored.definition.next_due_ms(handled_ms, plan)
    return Firing(known, handled_ms, next_due_ms, entries)


def _steps(firings: Sequence[Firing]) -> Iterator[list[Firing]]:
    """Yield the firings in lists that one call of the store can handle."""
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
    """Return the error for a definition that does not exist."""
    return NotFoundError(f"no definition {name[:100]}", code="unknown_definition")
