"""Parses and describes definitions in the form that clients write and read."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from jqmaster.domain.definitions.days import Days, DaysRule
from jqmaster.domain.definitions.definition import (
    DEFAULT_CATCH_UP,
    SKIP_LATE_AFTER_S,
    CatchUp,
    Definition,
    Kind,
    Overlap,
    TimeTrigger,
)
from jqmaster.domain.definitions.event_trigger import EventTrigger, parse_collect, parse_debounce
from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.definitions.schedule import parse_schedule
from jqmaster.domain.definitions.template import PAYLOAD, parse_template
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import STORED_TERMS, JobSpec
from jqmaster.domain.matching.checks import Loc, MatcherError
from jqmaster.domain.matching.fields import EVENT_FIELDS
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.errors import FieldError, InvalidError

# Names that have a special meaning in a URL path.
RESERVED_NAMES: Final = frozenset({".", "..", "preview"})
_DRAFT_DID: Final = "0" * 16
_NULL: Final = b"\xc0"
# Fields of the job that the description of a definition leaves out: fields with content, and the delay, which
# definitions do not use.
_NOT_DESCRIBED: Final = frozenset({"argument", "headers", "delay_ms"})
_DRAFT_JOB: Final = JobSpec("", "job", _NULL)
# _OF_TIME has the fields that are allowed only in definitions of kind `time`, and _OF_EVENTS those that are allowed
# only in definitions of kind `event`. The other fields of kind `time` have defaults, and definitions of kind `event`
# ignore them.
_OF_TIME: Final = ("schedule", "starts_at", "ends_at", "days")
_OF_EVENTS: Final = ("event_type", "matcher", "argument", "debounce", "collect")
_NO_TIME: Final[Mapping[str, Any]] = {
    "schedule": None,
    "time_zone": "UTC",
    "starts_at": None,
    "ends_at": None,
    "jitter_s": 0.0,
    "skip_late_after_s": SKIP_LATE_AFTER_S,
    "catch_up": str(CatchUp.LATEST),
    "max_catch_up": DEFAULT_CATCH_UP,
    "days": None,
}
_NO_EVENTS: Final[Mapping[str, Any]] = dict.fromkeys(("event_type", "matcher", "debounce", "collect"))


def draft_of(name: str, fields: Mapping[str, Any], job: JobSpec = _DRAFT_JOB) -> Definition:
    """Return the definition that a checked request describes. `fields`: the fields of the request. Raise InvalidError,
    which names the rule."""
    if name in RESERVED_NAMES:
        raise refusal(("name",), "is a path of the API, so it cannot be a name")
    with refusing():
        return Definition(
            name=name,
            did=_DRAFT_DID,
            job=job,
            trigger=_time_trigger(fields) if fields["kind"] == Kind.TIME else _event_trigger(fields, job),
            enabled=fields["enabled"],
            description=fields["description"],
            overlap=Overlap(fields["overlap"]),
            reason=fields["reason"],
        )


def _time_trigger(fields: Mapping[str, Any]) -> TimeTrigger:
    _refuse_others(fields, _OF_EVENTS, Kind.EVENT)
    return TimeTrigger(
        schedule=parse_schedule(fields["schedule"]),
        time_zone=fields["time_zone"],
        starts_at_ms=fields["starts_at"],
        ends_at_ms=fields["ends_at"],
        jitter_ms=round(fields["jitter_s"] * 1000),
        skip_late_after_ms=round(fields["skip_late_after_s"] * 1000),
        catch_up=CatchUp(fields["catch_up"]),
        max_catch_up=fields["max_catch_up"],
        days=None
        if fields["days"] is None
        else Days(fields["days"]["calendar"], DaysRule(fields["days"]["rule"])),
    )


def _event_trigger(fields: Mapping[str, Any], job: JobSpec) -> EventTrigger:
    _refuse_others(fields, _OF_TIME, Kind.TIME)
    if fields["event_type"] is None:
        raise DefinitionError(("event_type",), "field required")
    argument = fields["argument"]
    has_own = job.argument != _NULL
    if argument is not None and has_own:
        raise DefinitionError(("argument",), "cannot be combined with job.argument")
    try:
        matcher = None if fields["matcher"] is None else parse_matcher(fields["matcher"], EVENT_FIELDS)
    except MatcherError as error:
        raise DefinitionError(("matcher", *error.loc), error.msg) from None
    if argument is None and not has_own:
        argument = PAYLOAD
    return EventTrigger(
        event_type=fields["event_type"],
        matcher=matcher,
        argument=None if argument is None else parse_template(argument),
        debounce=parse_debounce(fields["debounce"]),
        collect=parse_collect(fields["collect"]),
    )


def _refuse_others(fields: Mapping[str, Any], names: Sequence[str], kind: Kind) -> None:
    for name in names:
        if fields[name] is not None:
            raise DefinitionError((name,), f"belongs to kind {kind}")


def describe(definition: Definition) -> dict[str, Any]:
    """Return a definition in the form that clients write and read. Leave out the content of its job, and the template
    that makes the argument from an event."""
    trigger = definition.trigger
    is_timed = isinstance(trigger, TimeTrigger)
    return {
        "name": definition.name,
        "kind": str(definition.kind),
        "enabled": definition.enabled,
        "description": definition.description,
        "reason": definition.reason,
        "overlap": str(definition.overlap),
        **(_NO_TIME if not is_timed else _described_time(definition.of_time)),
        **(_NO_EVENTS if is_timed else _described_events(definition.of_events)),
        "job": _described_job(definition.job),
    }


def _described_job(job: JobSpec) -> dict[str, Any]:
    described = {term: getattr(job, term) for term in STORED_TERMS if term not in _NOT_DESCRIBED}
    described["timeout"] = described.pop("timeout_ms") / 1000
    expires_ms = described.pop("expires_ms")
    described["expires_s"] = None if expires_ms is None else expires_ms / 1000
    described["retry"] = asdict(job.retry)
    described["tags"] = list(job.tags)
    described["requires"] = dict(job.requires) if job.requires else None
    return described


def _described_time(trigger: TimeTrigger) -> dict[str, Any]:
    return {
        "schedule": dict(trigger.schedule.document),
        "time_zone": trigger.time_zone,
        "starts_at": None if trigger.starts_at_ms is None else iso_ms(trigger.starts_at_ms),
        "ends_at": None if trigger.ends_at_ms is None else iso_ms(trigger.ends_at_ms),
        "jitter_s": trigger.jitter_ms / 1000,
        "skip_late_after_s": trigger.skip_late_after_ms / 1000,
        "catch_up": str(trigger.catch_up),
        "max_catch_up": trigger.max_catch_up,
        "days": trigger.days and {"calendar": trigger.days.calendar, "rule": str(trigger.days.rule)},
    }


def _described_events(trigger: EventTrigger) -> dict[str, Any]:
    debounce, collect = trigger.debounce, trigger.collect
    return {
        "event_type": trigger.event_type,
        "matcher": trigger.matcher.document if trigger.matcher else None,
        "debounce": debounce
        and {
            "wait_s": debounce.wait_ms / 1000,
            "max_s": None if debounce.max_ms is None else debounce.max_ms / 1000,
            "key": None if debounce.key is None else str(debounce.key),
        },
        "collect": collect
        and {
            "max": collect.most,
            "within_s": collect.within_ms / 1000,
            "key": None if collect.key is None else str(collect.key),
        },
    }


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Convert errors of the domain to InvalidError, with the location of the faulty part."""
    try:
        yield
    except DefinitionError as error:
        raise refusal(error.loc, error.msg) from None


def refusal(loc: Loc, msg: str) -> InvalidError:
    """Return the error that refuses a definition because of the field at `loc`."""
    return InvalidError("the definition is not valid", errors=[FieldError(loc, msg)])
