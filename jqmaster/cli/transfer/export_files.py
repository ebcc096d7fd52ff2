"""Read the lines of an export, and check all of them before anything is imported."""

import base64
import binascii
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO, Any, Final

from jqmaster.api.batches.schemas import BatchRequest
from jqmaster.api.calendars.schemas import CalendarRequest
from jqmaster.api.constraints.schemas import ConstraintRequest
from jqmaster.api.definitions.schemas import DefinitionRequest
from jqmaster.api.jobs.schemas import JobRequest
from jqmaster.api.notices.schemas import NoticeRequest
from jqmaster.api.targets.schemas import TargetRequest
from jqmaster.cli.transfer import models
from jqmaster.cli.transfer.lines import END, HEAD, ExportLine, LineError, Unknown, checked, parsed, raw_lines
from jqmaster.domain.batches.batch import BatchCallback, BatchSpec
from jqmaster.domain.calendars.calendar import Calendar, CalendarError, CalendarSource
from jqmaster.domain.fireworq.queue import MAX_CATEGORY, FireworqQueue, QueueTermsError
from jqmaster.domain.jobs.job import HOLDS_SLOTS, CallbackOf, JobSpec, JobState, Origin
from jqmaster.domain.jobs.outcome import may_begin_again
from jqmaster.domain.jobs.predecessors import After
from jqmaster.domain.jobs.unique import OnConflict

# The final states of members that let a batch succeed.
_WELL: Final = frozenset({JobState.SUCCEEDED, JobState.DISCARDED})
# The kinds for which a model alone checks the documents.
_MODELS: Final[Mapping[str, type[Any]]] = {
    HEAD: models.HeadDocument,
    END: models.EndDocument,
    "setting": models.SettingDocument,
    "constraint": ConstraintRequest,
    "notice": NoticeRequest,
    "target": TargetRequest,
    "slot_rule": models.SlotRuleDocument,
    "user": models.UserDocument,
    "token": models.TokenDocument,
}


@dataclass(slots=True)
class CheckedFile:
    """A file with only valid lines. `dependents`: the jobs with predecessors, and the offsets of their lines."""

    head: models.HeadDocument
    counts: Counter[str]
    dependents: list[tuple[int, str, After]]
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """A job from a line, ready to be enqueued."""

    spec: JobSpec
    facts: models.JobFacts
    must_not_run_twice: bool


def check(stream: IO[bytes], unknown: Unknown, most_faults: int = 20) -> CheckedFile:
    """Check every line. Raise a LineError that names the first `most_faults` faults."""
    faults: list[LineError] = []
    counts = Counter[str]()
    dependents: list[tuple[int, str, After]] = []
    head: models.HeadDocument | None = None
    end: models.EndDocument | None = None
    for number, offset, raw in raw_lines(stream):
        try:
            if end is not None:
                raise LineError(f"line {number}: follows the last line of an export")
            line = parsed(number, offset, raw, unknown)
            if (head is None) != (line.kind == HEAD):
                raise LineError(f"line {number}: an export begins with one line of kind {HEAD}")
            made = made_of(line, unknown)
        except LineError as error:
            if error.kind and unknown.are_skipped:
                unknown.kinds[error.kind] += 1
                continue
            faults.append(error)
            if len(faults) == most_faults:
                break
            continue
        if isinstance(made, models.HeadDocument):
            head = made
        elif isinstance(made, models.EndDocument):
            end = made
        else:
            counts[line.kind] += 1
            if isinstance(made, ImportedJob) and made.spec.after:
                dependents.append((offset, line.id, made.spec.after))
    if not faults and (missing := _missing(end, counts.total() + unknown.kinds.total())):
        faults.append(LineError(missing))
    if head is None or faults:
        raise LineError(
            "\n".join(fault.text for fault in faults), is_unknown=any(fault.is_unknown for fault in faults)
        )
    return CheckedFile(head, counts, dependents, unknown)


def _missing(end: models.EndDocument | None, count: int) -> str:
    """Return a text about the objects that are missing in a file with `count` objects. The text is empty if the
    file is complete."""
    if end is None:
        return f"the file has no line of kind {END}, so a part of it is missing"
    written = sum(end.lines.values())
    return (
        ""
        if written == count
        else f"the file has {count} objects, and had {written}: a part of it is missing"
    )


def made_of(line: ExportLine, unknown: Unknown) -> Any:
    if line.kind in _MODELS:
        return checked(_MODELS[line.kind], line, line.document, unknown)
    match line.kind:
        case "calendar":
            return _calendar_of(line, unknown)
        case "definition":
            return _definition_of(line, unknown)
        case "batch":
            return _batch_of(line, unknown)
        case "fireworq_queue":
            return _queue_of(line, unknown)
        case "fireworq_routing":
            if len(line.id) > MAX_CATEGORY:
                raise LineError(f"{line.place[:100]}: the category is longer than {MAX_CATEGORY} characters")
            return checked(models.FireworqRoutingDocument, line, line.document, unknown)
        case _:
            return job_of(line, unknown)


def _unpacked(line: ExportLine, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LineError(f"{line.place}: argument_packed is not base64") from None


def _calendar_of(line: ExportLine, unknown: Unknown) -> Calendar:
    request = checked(CalendarRequest, line, line.document, unknown)
    facts = checked(models.CalendarFacts, line, line.facts, unknown)
    source = CalendarSource(
        request.country or "", request.subdivision or "", request.language or "", request.ical or ""
    )
    try:
        return Calendar(
            line.id,
            source,
            {one.date: one.name for one in facts.holidays},
            tuple(request.weekend or ()),
            facts.covers_until,
        )
    except CalendarError as error:
        raise LineError(f"{line.place}: {error}") from None


def _queue_of(line: ExportLine, unknown: Unknown) -> FireworqQueue:
    queue = checked(models.FireworqQueueDocument, line, line.document, unknown).to_queue(line.id)
    try:
        queue.check()
    except QueueTermsError as error:
        raise LineError(f"{line.place}: {error}") from None
    return queue


def _definition_of(line: ExportLine, unknown: Unknown) -> tuple[DefinitionRequest, JobSpec]:
    request = checked(DefinitionRequest, line, line.document, unknown)
    facts = checked(models.ArgumentFacts, line, line.facts, unknown)
    job = request.job.to_spec()
    if facts.argument_packed is not None:
        job.argument = _unpacked(line, facts.argument_packed)
    return request, job


def _batch_of(line: ExportLine, unknown: Unknown) -> tuple[BatchSpec, models.BatchFacts]:
    """Return the batch, without the callbacks that have already started."""
    request = checked(BatchRequest, line, line.document, unknown, given={"id": line.id})
    facts = checked(models.BatchFacts, line, line.facts, unknown)
    spec = request.to_spec(line.id, facts.owner)
    for callback, job in spec.callbacks.items():
        if text := facts.arguments_packed.get(str(callback)):
            job.argument = _unpacked(line, text)
    has_failed = not facts.ended.keys() <= _WELL
    callbacks = {
        callback: job
        for callback, job in spec.callbacks.items()
        if callback not in facts.started and not (has_failed and callback is BatchCallback.SUCCESS)
    }
    return replace(spec, callbacks=callbacks), facts


def job_of(line: ExportLine, unknown: Unknown) -> ImportedJob:
    facts = checked(models.JobFacts, line, line.facts, unknown)
    given: dict[str, Any] = {"id": line.id}
    if facts.argument_packed is not None:
        given["argument"] = _unpacked(line, facts.argument_packed)
    request = checked(
        JobRequest, line, line.document, unknown, raw_fields=frozenset({"argument"}), given=given
    )
    spec = request.to_spec(line.id)
    must_not_run_twice = facts.state in HOLDS_SLOTS and not may_begin_again(spec)
    # Subtract the failures so far, because they have used up retries.
    spec.max_retry = max(0, spec.max_retry - facts.failures)
    if facts.due_at is not None:
        spec.run_at_ms, spec.delay_ms = facts.due_at, None
    if facts.definition is not None and facts.definition_due_at is not None:
        spec.origin = Origin(facts.definition, facts.definition_due_at)
    if facts.callback_of is not None and facts.callback is not None:
        spec.callback_of = CallbackOf(facts.callback_of, facts.callback)
    if spec.unique is not None and spec.unique.on_conflict is OnConflict.REPLACE:
        # If the job already exists, leave it unchanged.
        spec.unique = replace(spec.unique, on_conflict=OnConflict.EXISTING)
    return ImportedJob(spec, facts, must_not_run_twice)


def objects_of(stream: IO[bytes], unknown: Unknown) -> Iterator[ExportLine]:
    """Yield the lines of a checked file, except the first one, the last one and skipped ones."""
    for number, offset, raw in raw_lines(stream):
        try:
            line = parsed(number, offset, raw, unknown)
        except LineError:
            continue
        if line.kind not in (HEAD, END):
            yield line
