"""Changes definitions for operators, and starts their jobs outside the schedules."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.definitions.carry_over import carried_over
from jqmaster.domain.definitions.days import MAX_MOVE_MS
from jqmaster.domain.definitions.definition import Definition, TimeTrigger, new_did
from jqmaster.domain.definitions.event_trigger import EventTrigger
from jqmaster.domain.ids import new_id
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.matching import packed
from jqmaster.errors import RateLimitedError, after_it_was_done
from jqmaster.service.definitions.documents import describe, draft_of, refusal, refusing
from jqmaster.service.definitions.firing import DefinitionFiring, unknown_definition
from jqmaster.service.named_objects import ANYHOW, Precondition, Tries
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.calendars.documents import StoredCalendar
from jqmaster.store.definitions.definitions import (
    DefinitionChange,
    DefinitionStore,
    FiringOutcome,
    KnownDefinition,
)
from jqmaster.store.definitions.documents import CalendarMemory, DefinitionClock, StoredDefinition
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.named_documents import new_etag

# Maximum number of instants that one backfill handles. For more instants, callers must split the range.
MAX_BACKFILL: Final = 1_000
BACKLOG_RETRY_AFTER_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Backfill:
    """The result of a backfill, in numbers.

    * `due`: the number of instants in the range.
    * `fired_before`: the number of these instants that had already fired.
    * `forgotten`: the number of these instants that may have fired before, because their run records may have been
      removed.
    * `forgotten_until_ms`: the time up to which run records may have been removed. None: no record was removed.
    * `started`: the number of jobs that were started. None: it was a dry run.
    """

    due: int
    fired_before: int
    forgotten: int
    forgotten_until_ms: int | None
    started: int | None


class DefinitionEditor:
    """Creates, changes, removes and runs definitions. Methods raise what the store raises. `now_ms`: returns the
    store's time."""

    def __init__(
        self,
        store: DefinitionStore,
        firing: DefinitionFiring,
        audit: AuditStore,
        now_ms: Callable[[], Awaitable[int]],
        calendars: CalendarStore,
    ) -> None:
        self._store = store
        self._calendars = calendars
        self._firing = firing
        self._audit = audit
        self._now_ms = now_ms

    async def put(
        self,
        name: str,
        fields: Mapping[str, Any],
        job: JobSpec,
        *,
        who: str,
        access: ContentAccess,
        most: int,
        demands: Precondition = ANYHOW,
    ) -> tuple[KnownDefinition, bool]:
        """Create or replace the definition. Return the definition, and whether it is new. If nothing would change,
        write nothing. A hidden part that the caller sends back as it was shown keeps its value.

        Instants that are already due under the former schedule fire first. The new schedule applies from now on.

        Raise one of these errors:

        * InvalidError, ForbiddenError, PreconditionFailedError,
        * ConflictError if there are already `most` definitions,
        * OverloadedError if the definition keeps firing, or other callers keep changing it.
        """
        draft = draft_of(name, fields, job)
        tries = Tries("definition", name)
        while True:
            present = await tries.read(self._present, demands)
            if present and present.stored.definition.kind is not draft.kind:
                raise refusal(("kind",), f"is {present.stored.definition.kind}; delete the definition first")
            now_ms = await self._now_ms()
            if present and not await self._firing.settle(present, now_ms):
                continue
            new = _changed(present, draft, who, access, now_ms)
            if present and new.stored is present.stored:
                return present, False
            _check_content(new.stored.definition, present.stored.definition if present else None, access)
            new = _on_calendar(present, new, await self.calendar_of(draft))
            if await self._write(present, new, now_ms, who=who, action="definition.put", most=most):
                return new, present is None

    async def calendar_of(self, definition: Definition) -> StoredCalendar | None:
        """Return the calendar of a definition, or None if the definition has none. Raise InvalidError if the calendar
        does not exist."""
        if not definition.calendar:
            return None
        found = await self._calendars.get([definition.calendar])
        if definition.calendar not in found:
            raise refusal(
                ("days", "calendar"), f"there is no calendar {definition.calendar}; create it first"
            )
        return found[definition.calendar]

    async def enable(
        self, name: str, *, is_enabled: bool, reason: str, who: str, demands: Precondition = ANYHOW
    ) -> None:
        """Pause or resume the definition, and change nothing else. `reason`: a text for people that says why the
        definition is paused. Instants that are already due are handled first, under the former state.

        Raise NotFoundError, PreconditionFailedError, InvalidError.
        """
        tries = Tries("definition", name)
        while True:
            present = await tries.read(self._present, demands)
            if present is None:
                raise unknown_definition(name)
            now_ms = await self._now_ms()
            if not await self._firing.settle(present, now_ms):
                continue
            with refusing():
                definition = replace(present.stored.definition, enabled=is_enabled, reason=reason)
            if definition == present.stored.definition:
                return
            new = _on_calendar(present, _advanced(present, definition, now_ms), present.calendar)
            action = "definition.resume" if is_enabled else "definition.pause"
            if await self._write(present, new, now_ms, who=who, action=action, most=0):
                return

    async def delete(self, name: str, who: str, demands: Precondition = ANYHOW) -> None:
        """Remove the definition and its run records. Its jobs stay. Raise NotFoundError, PreconditionFailedError."""
        tries = Tries("definition", name)
        while True:
            present = await tries.read(self._present, demands)
            if present is None:
                raise unknown_definition(name)
            before = describe(present.stored.definition)
            entry = encode_entry(who=who, action="definition.delete", target=name, before=before, after=None)
            if await self._store.change(DefinitionChange(name, present, None, None, entry, 0)):
                return

    async def _present(self, name: str) -> KnownDefinition | None:
        (present,) = await self._store.get([name])
        return present

    async def _write(
        self,
        present: KnownDefinition | None,
        new: KnownDefinition,
        now_ms: int,
        *,
        who: str,
        action: str,
        most: int,
    ) -> bool:
        """Write the change. Return False if the definition was changed or has fired since it was read."""
        definition = new.stored.definition
        entry = encode_entry(
            who=who,
            action=action,
            target=definition.name,
            before=describe(present.stored.definition) if present else None,
            after=describe(definition),
        )
        plan = new.plan
        due_ms = definition.next_due_ms(new.clock.handled_ms, plan)
        if new.clock.queued_ms is not None or plan.overdue:
            due_ms = min(now_ms, due_ms or now_ms)
        change = DefinitionChange(definition.name, present, new, due_ms, entry, most)
        return await self._store.change(change)

    async def run(self, name: str, who: str) -> str:
        """Start the job of a definition once, outside its schedule, even if an earlier job is still running. Return the
        job's ID. Raise NotFoundError, and RateLimitedError while a constraint lets no more of these jobs wait."""
        job_id = new_id()
        if await self._firing.run_now(name, job_id, await self._now_ms()) is FiringOutcome.BACKLOG_FULL:
            raise RateLimitedError(
                "a constraint lets no more of these jobs wait; no job was started",
                code="backlog_full",
                retry_after_s=BACKLOG_RETRY_AFTER_S,
            )
        with after_it_was_done():
            await self._audit.write(
                encode_entry(
                    who=who, action="definition.run", target=name, before=None, after={"job_id": job_id}
                )
            )
        return job_id

    async def backfill(
        self, name: str, from_ms: int, to_ms: int, who: str, *, is_dry: bool, also_forgotten: bool = False
    ) -> Backfill:
        """Start the jobs of the instants between `from_ms` (included) and `to_ms` (excluded) that have not fired yet.

        * `is_dry`: count the instants, and start nothing.
        * `also_forgotten`: also start the jobs of instants that may have fired before.

        Raise NotFoundError. Raise InvalidError if the range is empty or has too many instants. If `also_forgotten` is
        False, also raise it if the run record of an instant may have been removed."""
        if to_ms <= from_ms:
            raise refusal(("to",), "must be later than from")
        known = await self._firing.known_of_time(name)
        # Leave out instants after `handled_ms`: the leader will handle these.
        end_ms = min(to_ms, known.clock.handled_ms + 1)
        definition = known.stored.definition
        found = definition.firing_after(from_ms - 1, end_ms - 1, known.plan)
        due = list(islice(found, MAX_BACKFILL + 1))
        if len(due) > MAX_BACKFILL:
            raise refusal(("to",), f"there are more than {MAX_BACKFILL} instants; give a shorter range")
        # An earlier version of the calendar may have moved an instant. Its record may then lie somewhat outside the
        # range.
        margin_ms = MAX_MOVE_MS if definition.calendar else 0
        runs = await self._store.recorded(name, from_ms - margin_ms, end_ms + margin_ms)
        # Read `until_ms` after the records. Then records that are removed between the two reads count as forgotten.
        until_ms = await self._store.forgotten_until_ms(known)
        fired = {run.origin_ms for run in runs if run.outcome == "fired"}
        missing = [one for one in due if one.origin_ms not in fired]
        recorded = {run.origin_ms for run in runs}
        forgotten = (
            0
            if until_ms is None
            else sum(one.at_ms <= until_ms and one.origin_ms not in recorded for one in missing)
        )
        counted = Backfill(len(due), len(due) - len(missing), forgotten, until_ms, None)
        if is_dry:
            return counted
        if until_ms is not None and forgotten and not also_forgotten:
            raise refusal(
                ("from",),
                f"the run records up to {iso_ms(until_ms)} are no longer kept, so nobody knows whether "
                f"{forgotten} of these instants started a job; choose a later `from`, or set also_forgotten to "
                "start those jobs, too",
            )
        became = await self._firing.backfill(name, missing, also_forgotten=also_forgotten)
        started = became.count(FiringOutcome.FIRED)
        # Some jobs may not have been started, because run records were removed after the check above.
        left_out = became.count(FiringOutcome.FORGOTTEN)
        after = {"from_ms": from_ms, "to_ms": to_ms, "started": started}
        if also_forgotten:
            after["forgotten"] = forgotten
        with after_it_was_done():
            await self._audit.write(
                encode_entry(who=who, action="definition.backfill", target=name, before=None, after=after)
            )
        return replace(counted, forgotten=forgotten + left_out, started=started)


def _changed(
    present: KnownDefinition | None, draft: Definition, who: str, access: ContentAccess, now_ms: int
) -> KnownDefinition:
    """Return the new version of a definition, or `present` itself if nothing changes."""
    if present is None:
        new = replace(draft, did=new_did())
        stored = StoredDefinition(new, new_etag(), now_ms, now_ms, who)
        return KnownDefinition(stored, DefinitionClock(now_ms))
    old = present.stored.definition
    new = replace(
        draft,
        did=old.did,
        job=_uncovered(draft.job, old.job, access),
        trigger=_uncovered_trigger(draft, old, access),
    )
    if new == old:
        return present
    return _advanced(present, new, now_ms)


def _advanced(present: KnownDefinition, definition: Definition, now_ms: int) -> KnownDefinition:
    """Return the changed definition. Its instants apply from now on."""
    # `handled_ms` may lie in the future if the store's clock was set back. Keep it, so that no instant fires twice.
    clock = replace(present.clock, handled_ms=max(present.clock.handled_ms, now_ms))
    stored = replace(present.stored, definition=definition, etag=new_etag(), changed_at_ms=now_ms)
    return KnownDefinition(stored, clock)


def _on_calendar(
    present: KnownDefinition | None, new: KnownDefinition, calendar: StoredCalendar | None
) -> KnownDefinition:
    """Return the new definition with its calendar. The change may move an instant across the time up to which instants
    are handled, in either direction. The clock of the definition records such instants."""
    etag = calendar.etag if calendar else ""
    memory = CalendarMemory(etag)
    if present is not None:
        plan = carried_over(
            present.stored.definition,
            present.plan,
            new.stored.definition,
            calendar.calendar if calendar else None,
            new.clock.handled_ms,
        )
        memory = CalendarMemory(etag, tuple(plan.done), tuple(plan.overdue))
    return replace(new, clock=replace(new.clock, memory=memory), calendar=calendar)


def _uncovered(job: JobSpec, old: JobSpec, access: ContentAccess) -> JobSpec:
    """Return the job. If the caller has sent back a redacted value as it was shown, put the original value in its
    place."""
    redactor = access.redactor
    if job.argument != old.argument and job.argument == redactor.encoded("argument", old.argument):
        job = replace(job, argument=old.argument)
    if job.headers != old.headers and job.headers == redactor.headers(old.headers):
        job = replace(job, headers=old.headers)
    return job


def _uncovered_trigger(
    draft: Definition, old: Definition, access: ContentAccess
) -> TimeTrigger | EventTrigger:
    """Return the trigger. If the caller has sent back a hidden part as it was shown, put the original part in its
    place."""
    trigger, before = draft.trigger, old.trigger
    if not isinstance(trigger, EventTrigger) or not isinstance(before, EventTrigger):
        return trigger
    if (
        trigger.matcher
        and before.matcher
        and trigger.matcher.document == access.matcher(before.matcher.document)
    ):
        trigger = replace(trigger, matcher=before.matcher)
    if trigger.argument and before.argument:
        shown = access.redactor.encoded("argument", packed.encoded(before.argument.document))
        if packed.encoded(trigger.argument.document) == shown:
            trigger = replace(trigger, argument=before.argument)
    return trigger


def _check_content(definition: Definition, old: Definition | None, access: ContentAccess) -> None:
    """Raise ForbiddenError if a changed part of the definition distinguishes events by content that the caller may not
    see. Also raise it if a changed template copies such content to another place in the argument, where it would be
    shown."""
    trigger, before = definition.trigger, old.trigger if old else None
    if not isinstance(trigger, EventTrigger):
        return
    present = before if isinstance(before, EventTrigger) else None
    if trigger.matcher and (present is None or trigger.matcher != present.matcher):
        access.check_matcher(trigger.matcher.document, ("matcher",))
    if trigger.gathering and (present is None or trigger.gathering != present.gathering):
        access.check_path(trigger.gathering.key, ("collect" if trigger.collect else "debounce", "key"))
    if trigger.argument and (present is None or trigger.argument != present.argument):
        for place, path in trigger.argument.references:
            if path.parts != place:
                access.check_path(path, ("argument", *place, "from"))
