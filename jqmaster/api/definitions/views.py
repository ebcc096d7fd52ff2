"""Definitions and their runs as clients see them."""

from collections.abc import Mapping
from typing import Any, Final

from jqmaster.api.encoding.answers import RawMsgpack
from jqmaster.api.encoding.shown_values import shown_value
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.definitions.definition import Definition
from jqmaster.domain.definitions.event_trigger import EventTrigger
from jqmaster.domain.definitions.run import RunReason
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.matching import packed
from jqmaster.service.definitions.documents import describe as describe_definition
from jqmaster.service.definitions.reader import DefinitionSkips, ShownDefinition, ShownRun


def definition_view(shown: ShownDefinition, access: ContentAccess) -> dict[str, Any]:
    """Return a `DefinitionView`."""
    stored, clock = shown.known.stored, shown.known.clock
    document = describe_definition(stored.definition)
    matcher = document["matcher"]
    return {
        **document,
        "matcher": None if matcher is None else access.matcher(matcher),
        "argument": _argument_of_events(stored.definition, access),
        "job": document["job"] | _job_content(stored.definition.job, access),
        "next_due_at": iso_or_none(shown.next_due_ms),
        "calendar_ends_at": _covers_until(shown),
        "queued_at": iso_or_none(clock.queued_ms),
        "last_run": run_view(shown.last_run) if shown.last_run else None,
        "runs": [run_view(one) for one in shown.runs],
        "etag": stored.etag,
        "created_by": stored.created_by,
        "created_at": iso_ms(stored.created_at_ms),
        "changed_at": iso_ms(stored.changed_at_ms),
    }


def _covers_until(shown: ShownDefinition) -> str | None:
    calendar = shown.known.calendar
    until = calendar.calendar.covers_until if calendar else None
    return until.isoformat() if until else None


def _argument_of_events(definition: Definition, access: ContentAccess) -> RawMsgpack | None:
    own = access.for_name(definition.job.name)
    if (
        not isinstance(definition.trigger, EventTrigger)
        or definition.trigger.argument is None
        or not own.is_granted
    ):
        return None
    return shown_value(own.redactor.encoded("argument", packed.encoded(definition.trigger.argument.document)))


def _job_content(job: JobSpec, access: ContentAccess) -> dict[str, Any]:
    own = access.for_name(job.name)
    argument = own.redactor.encoded("argument", job.argument)
    headers = own.redactor.headers(job.headers)
    is_shown = own.is_granted
    return {
        "argument": shown_value(argument) if is_shown else None,
        "argument_bytes": len(job.argument),
        "argument_hidden": not is_shown,
        "argument_redacted": is_shown and (argument != job.argument or headers != job.headers),
        "headers": headers if is_shown else {},
    }


def why_view(found: DefinitionSkips, job_why: str | None) -> dict[str, Any]:
    """Return a `DefinitionWhy`."""
    job = found.unfinished
    return {
        "text": _why_text(found, job_why),
        "is_fault": found.is_fault,
        "skipped_in_a_row": len(found.skips),
        "reason": found.skips[0].reason_text if found.skips else None,
        "job_id": job.run.job_id if job else None,
        "job_state": str(job.job_state) if job else None,
        "job_why": job_why,
        "next_due_at": iso_or_none(found.shown.next_due_ms),
        "skips": [run_view(ShownRun(run, None)) for run in found.skips],
    }


def _why_text(found: DefinitionSkips, job_why: str | None) -> str:
    definition, skips = found.shown.known.stored.definition, found.skips
    if not definition.enabled:
        return "It is paused."
    if not skips:
        return "Its newest instant was not skipped."
    count = (
        "Its last instant was skipped" if len(skips) == 1 else f"Its last {len(skips)} instants were skipped"
    )
    text = f"{count}: {_SKIPS.get(skips[0].reason, skips[0].reason_text)}."
    if found.unfinished:
        text += f" Job {found.unfinished.run.job_id} is {found.unfinished.job_state}."
    return f"{text} {job_why}" if job_why else text


_SKIPS: Final[Mapping[RunReason, str]] = {
    RunReason.OVERLAP: "the job of an earlier instant is not finished",
    RunReason.BACKLOG_FULL: "a constraint allows no more of these jobs to wait",
    RunReason.ARGUMENT_TOO_LARGE: "the argument made from the event is too large",
}


def run_view(shown: ShownRun) -> dict[str, Any]:
    """Return a `RunView`."""
    run = shown.run
    return {
        "definition": run.definition,
        "due_at": iso_ms(run.due_at_ms),
        "outcome": str(run.outcome),
        "reason": run.reason_text or None,
        "job_id": run.job_id or None,
        "job_state": str(shown.job_state) if shown.job_state else None,
        "recorded_at": iso_ms(run.recorded_at_ms),
        "event_id": run.event_id or None,
        "moved_from": iso_or_none(run.moved_from_ms),
    }
