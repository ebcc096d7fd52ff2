"""The forms of a definition, of its clock and of its run records in the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgpack

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
from jqmaster.store.job_documents import job_document, read_job_document

ETAG_LENGTH: Final = 16
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
class DefinitionClock:
    """The progress of a definition. Every instant up to `handled_ms` has its run record, except `queued_ms`, which
    waits for the end of `last_job`, the newest job."""

    handled_ms: int
    last_job: str = ""
    queued_ms: int | None = None

    @property
    def text(self) -> str:
        return f"{self.handled_ms} {self.last_job} {'' if self.queued_ms is None else self.queued_ms}"


def encode_definition(stored: StoredDefinition) -> bytes:
    """Encode a definition as it is stored."""
    definition = stored.definition
    trigger = definition.trigger
    document = {
        "kind": str(definition.kind),
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
        kind = Kind(document["kind"])
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
        handled, last_job, queued = raw.decode().split(" ")
        return DefinitionClock(int(handled), last_job, int(queued) if queued else None)
    except ValueError as exc:
        raise DamagedError(f"definition {name}: its clock cannot be read") from exc


def decode_run(name: str, raw: bytes) -> RunRecord:
    """Decode a run record. Raise DamagedError."""
    try:
        due_at, outcome, reason, job_id, recorded_at, *event = raw.decode().split(" ")
        (event_id,) = event or ("",)
        return RunRecord(
            name, int(due_at), RunOutcome(outcome), RunReason(reason), job_id, int(recorded_at), event_id
        )
    except ValueError as exc:
        raise DamagedError(f"definition {name}: a run record cannot be read") from exc


def forgotten_until_ms(did: str, memory: bytes | None, first_ms: int | None, handled_ms: int) -> int | None:
    """Return the last instant whose run record may have been removed, as lib/definitions/run_records.lua does.

    `memory`: the stored note of removed records. `first_ms`: the first instant that has a record. `handled_ms`: the
    last instant that may have one."""
    its_did, until, noted = (memory or b"").decode().split(" ") if memory else ("", "", "")
    until_ms = int(until) if its_did == did and until else None
    if its_did == did and (not noted or (first_ms is not None and first_ms <= int(noted))):
        return until_ms
    # A master of another release removed records or created the definition.
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
    )


def _event_fields(trigger: EventTrigger) -> dict[str, Any]:
    debounce, collect = trigger.debounce, trigger.collect
    return {
        "event_type": trigger.event_type,
        "matcher": trigger.matcher.document if trigger.matcher else None,
        # Packed, because an argument may hold values, such as instants, that the document's own encoding does not
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
