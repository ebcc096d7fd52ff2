"""The forms of a definition, of its clock and of its run records in the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

import msgpack

from jqmaster.domain.definitions.days import DayPlan, Days, DaysRule
from jqmaster.domain.definitions.definition import CatchUp, Definition, Kind, Overlap, TimeTrigger
from jqmaster.domain.definitions.event_trigger import Collect, Debounce, EventTrigger
from jqmaster.domain.definitions.run import RunOutcome, RunReason, RunRecord
from jqmaster.domain.definitions.schedule import parse_schedule
from jqmaster.domain.definitions.template import parse_template
from jqmaster.domain.matching import packed
from jqmaster.domain.matching.fields import EVENT_FIELDS
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import Path, parse_path
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.calendars.documents import StoredCalendar
from jqmaster.store.job_documents import job_document, read_job_document
from jqmaster.store.named_documents import ETAG_LENGTH

# The beginning of the last part of a run record if a calendar moved the instant.
MOVED_FROM: Final = "moved:"
# The stored kind of a `time` definition that uses a calendar. A release without calendars does not know this kind, so
# it never fires such a definition on a holiday.
_ON_DAYS: Final = "time_on_days"
_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, IndexError, msgpack.UnpackException)


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """A stored definition. `etag` changes with every edit."""

    definition: Definition
    etag: str
    created_at_ms: int
    changed_at_ms: int
    created_by: str


@dataclass(frozen=True, slots=True)
class CalendarMemory:
    """The part of a definition's clock that remembers its calendar.

    * `etag`: the ETag of the calendar that instants up to the clock followed (empty: none).
    * `done` and `overdue`: as in DayPlan.
    """

    etag: str = ""
    done: Sequence[tuple[int, int]] = ()
    overdue: Sequence[tuple[int, int | None]] = ()

    @property
    def text(self) -> str:
        """Return this memory as text for the clock: a blank and three fields; empty if there is nothing to remember."""
        if not (self.etag or self.done or self.overdue):
            return ""
        done = ",".join(f"{first}:{last}" for first, last in self.done)
        overdue = ",".join(instant_text(due_ms, origin_ms) for due_ms, origin_ms in self.overdue)
        return f" {self.etag or '-'} {done or '-'} {overdue or '-'}"


NO_MEMORY: Final = CalendarMemory()


@dataclass(frozen=True, slots=True)
class DefinitionClock:
    """The progress of a definition. Every instant up to `handled_ms` has its run record, except `queued_ms`.

    * `last_job`: the newest job of the definition.
    * `queued_ms`: the instant that waits for the end of `last_job`.
    * `queued_from_ms`: the instant of the schedule that a calendar moved to `queued_ms`.
    """

    handled_ms: int
    last_job: str = ""
    queued_ms: int | None = None
    queued_from_ms: int | None = None
    memory: CalendarMemory = NO_MEMORY

    @property
    def text(self) -> str:
        queued = "" if self.queued_ms is None else instant_text(self.queued_ms, self.queued_from_ms)
        return f"{self.handled_ms} {self.last_job} {queued}{self.memory.text}"


def instant_text(due_ms: int, moved_from_ms: int | None) -> str:
    """Return the name of an instant in scripts and clocks."""
    return str(due_ms) if moved_from_ms is None else f"{due_ms}:{moved_from_ms}"


def plan_of(clock: DefinitionClock, calendar: StoredCalendar | None) -> DayPlan:
    """Return the plan that a clock follows."""
    memory = clock.memory
    if calendar is None:
        return DayPlan(None, memory.done, memory.overdue)
    is_former = calendar.former is not None and memory.etag == calendar.former_etag
    return DayPlan(calendar.former if is_former else calendar.calendar, memory.done, memory.overdue)


def reason_text(reason: RunReason, left_out: str) -> str:
    """Return a reason in the form of run records, which has no blanks."""
    return f"{reason}:{quote(left_out, safe='')}" if left_out else str(reason)


def encode_definition(stored: StoredDefinition) -> bytes:
    """Encode a definition as it is stored."""
    definition = stored.definition
    trigger = definition.trigger
    document = {
        "kind": _ON_DAYS if definition.calendar else str(definition.kind),
        "did": definition.did,
        "enabled": definition.enabled,
        "description": definition.description,
        "reason": definition.reason,
        "overlap": str(definition.overlap),
        **(_time_fields(trigger) if isinstance(trigger, TimeTrigger) else _event_fields(trigger)),
        "job": job_document(definition.job),
        "created_by": stored.created_by,
        "created_at_ms": stored.created_at_ms,
        "changed_at_ms": stored.changed_at_ms,
    }
    return stored.etag.encode() + codec.pack(document)


def decode_definition(name: str, raw: bytes) -> StoredDefinition:
    """Decode a stored definition. Raise DamagedError."""
    try:
        document: dict[str, Any] = msgpack.unpackb(raw[ETAG_LENGTH:], strict_map_key=False)
        kind = Kind.TIME if document["kind"] == _ON_DAYS else Kind(document["kind"])
        definition = Definition(
            name=name,
            did=document["did"],
            job=read_job_document(document["job"]),
            trigger=_time_trigger(document) if kind is Kind.TIME else _event_trigger(document),
            enabled=document["enabled"],
            description=document["description"],
            overlap=Overlap(document["overlap"]),
            reason=document.get("reason", ""),
        )
        return StoredDefinition(
            definition,
            raw[:ETAG_LENGTH].decode(),
            document["created_at_ms"],
            document["changed_at_ms"],
            document["created_by"],
        )
    except _UNREADABLE as exc:
        raise DamagedError(f"definition {name}: its document cannot be read") from exc


def is_of_events(raw: bytes) -> bool:
    """Return whether events start a stored definition; False if it cannot be read."""
    try:
        return Kind(msgpack.unpackb(raw[ETAG_LENGTH:], strict_map_key=False)["kind"]) is Kind.EVENT
    except _UNREADABLE:
        return False


def decode_clock(name: str, raw: bytes) -> DefinitionClock:
    """Decode the clock of a definition. Raise DamagedError."""
    try:
        handled, last_job, queued, *memory = raw.decode().split(" ")
        queued_ms, queued_from_ms = _instant(queued) if queued else (None, None)
        return DefinitionClock(
            int(handled), last_job, queued_ms, queued_from_ms, _memory(*memory) if memory else NO_MEMORY
        )
    except (ValueError, TypeError) as exc:
        raise DamagedError(f"definition {name}: its clock cannot be read") from exc


def _memory(etag: str, done: str, overdue: str) -> CalendarMemory:
    ranges = [one.split(":") for one in done.split(",")] if done != "-" else []
    return CalendarMemory(
        "" if etag == "-" else etag,
        tuple((int(first), int(last)) for first, last in ranges),
        tuple(_instant(one) for one in overdue.split(",")) if overdue != "-" else (),
    )


def _instant(text: str) -> tuple[int, int | None]:
    due, _, origin = text.partition(":")
    return int(due), int(origin) if origin else None


def decode_run(name: str, raw: bytes) -> RunRecord:
    """Decode a run record. Raise DamagedError."""
    try:
        due_at, outcome, reason, job_id, recorded_at, *event = raw.decode().split(" ")
        (event_id,) = event or ("",)
        reason, _, left_out = reason.partition(":")
        origin = event_id.removeprefix(MOVED_FROM) if event_id.startswith(MOVED_FROM) else ""
        return RunRecord(
            name, int(due_at), RunOutcome(outcome), RunReason(reason), job_id, int(recorded_at),
            "" if origin else event_id, unquote(left_out), int(origin) if origin else None,
        )  # fmt: skip
    except ValueError as exc:
        raise DamagedError(f"definition {name}: a run record cannot be read") from exc


def forgotten_until_ms(did: str, memory: bytes | None, first_ms: int | None, handled_ms: int) -> int | None:
    """Return the last instant whose run record may have been removed, or None if no record was removed.
    lib/definitions/run_records.lua does the same computation.

    * `memory`: the stored note of removed records.
    * `first_ms`: the earliest instant of a stored record.
    * `handled_ms`: the last instant that the definition has handled, so that no record is later.
    """
    its_did, until, noted = (memory or b"").decode().split(" ") if memory else ("", "", "")
    until_ms = int(until) if its_did == did and until else None
    if its_did == did and (not noted or (first_ms is not None and first_ms <= int(noted))):
        return until_ms
    # Otherwise, a master of another release created the definition or removed records. All records before the first
    # stored one may then be lost.
    lost_ms = handled_ms if first_ms is None else first_ms - 1
    return lost_ms if until_ms is None else max(until_ms, lost_ms)


def _time_fields(trigger: TimeTrigger) -> dict[str, Any]:
    return {
        "schedule": dict(trigger.schedule.document),
        "time_zone": trigger.time_zone,
        "starts_at_ms": trigger.starts_at_ms,
        "ends_at_ms": trigger.ends_at_ms,
        "jitter_ms": trigger.jitter_ms,
        "skip_late_after_ms": trigger.skip_late_after_ms,
        "catch_up": str(trigger.catch_up),
        "max_catch_up": trigger.max_catch_up,
        **({} if trigger.days is None else {"days": [trigger.days.calendar, str(trigger.days.rule)]}),
    }


def _time_trigger(document: Mapping[str, Any]) -> TimeTrigger:
    return TimeTrigger(
        schedule=parse_schedule(document["schedule"]),
        time_zone=document["time_zone"],
        starts_at_ms=document["starts_at_ms"],
        ends_at_ms=document["ends_at_ms"],
        jitter_ms=document["jitter_ms"],
        skip_late_after_ms=document["skip_late_after_ms"],
        catch_up=CatchUp(document["catch_up"]),
        max_catch_up=document["max_catch_up"],
        days=_days(document.get("days")),
    )


def _days(stored: Sequence[str] | None) -> Days | None:
    return None if stored is None else Days(stored[0], DaysRule(stored[1]))


def _event_fields(trigger: EventTrigger) -> dict[str, Any]:
    debounce, collect = trigger.debounce, trigger.collect
    return {
        "event_type": trigger.event_type,
        "matcher": trigger.matcher.document if trigger.matcher else None,
        # Pack the argument separately: it may hold values, such as instants, that the encoding of the document does not
        # allow.
        "argument": None if trigger.argument is None else packed.encoded(trigger.argument.document),
        "debounce": debounce and [debounce.wait_ms, debounce.max_ms, _path_text(debounce.key)],
        "collect": collect and [collect.most, collect.within_ms, _path_text(collect.key)],
    }


def _event_trigger(document: Mapping[str, Any]) -> EventTrigger:
    matcher, argument = document["matcher"], document["argument"]
    debounce, collect = document["debounce"], document["collect"]
    return EventTrigger(
        event_type=document["event_type"],
        matcher=None if matcher is None else parse_matcher(matcher, EVENT_FIELDS),
        argument=None if argument is None else parse_template(packed.decoded(argument)),
        debounce=debounce and Debounce(debounce[0], debounce[1], _path(debounce[2])),
        collect=collect and Collect(collect[0], collect[1], _path(collect[2])),
    )


def _path_text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _path(text: str | None) -> Path | None:
    return None if text is None else parse_path(text, fields=EVENT_FIELDS)
