"""Brings the lines of an export into an installation. Existing objects stay as they are.

The whole file is checked before anything is written. An import may be repeated: it goes on where it was interrupted.
"""

import base64
import binascii
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, Final

from jqmaster.api.batches.schemas import BatchRequest
from jqmaster.api.calendars.schemas import CalendarRequest
from jqmaster.api.constraints.schemas import ConstraintRequest
from jqmaster.api.definitions.schemas import DefinitionRequest
from jqmaster.api.jobs.schemas import JobRequest
from jqmaster.api.notices.schemas import NoticeRequest
from jqmaster.api.targets.schemas import TargetRequest
from jqmaster.cli.transfer import models
from jqmaster.cli.transfer.installation import Installation
from jqmaster.cli.transfer.lines import END, HEAD, ExportLine, LineError, Unknown, checked, parsed, raw_lines
from jqmaster.domain.batches.batch import BatchCallback, BatchSpec
from jqmaster.domain.calendars.calendar import Calendar, CalendarError, CalendarSource
from jqmaster.domain.fireworq.queue import MAX_CATEGORY, FireworqQueue, QueueTermsError
from jqmaster.domain.identity.access import Role, Scope
from jqmaster.domain.jobs.job import HOLDS_SLOTS, CallbackOf, JobSpec, JobState, Origin
from jqmaster.domain.jobs.outcome import may_begin_again
from jqmaster.domain.jobs.predecessors import After, in_order
from jqmaster.domain.jobs.unique import OnConflict
from jqmaster.domain.workers.slot_rule import SlotRule
from jqmaster.errors import JqmasterError, OutcomeUnknownError, PreconditionFailedError, StoreUnavailableError
from jqmaster.service.constraints.editor import Precondition
from jqmaster.service.identity.access_entries import audited_token, audited_user, entry
from jqmaster.store.batches.batches import BatchRefused
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.identity.credentials import StoredToken, StoredUser
from jqmaster.store.jobs.enqueue_outcomes import (
    Accepted,
    BacklogFull,
    BatchClosed,
    IdTaken,
    NotUnique,
    Outcome,
    PredecessorRefused,
    PushExpired,
)

WHO: Final = "import"
JOBS_PER_CALL: Final = 200
_NEW: Final = Precondition(none_match=frozenset({"*"}))
# The ends of members with which a batch still succeeds.
_WELL: Final = frozenset({JobState.SUCCEEDED, JobState.DISCARDED})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An object that was not imported. `is_refused`: the installation did not take it."""

    kind: str
    id: str
    reason: str
    is_refused: bool = True


@dataclass(slots=True)
class Imported:
    """The outcome by kind. `may_run_again` counts by the states of the export."""

    new: Counter[str] = field(default_factory=Counter)
    there: Counter[str] = field(default_factory=Counter)
    left_out: list[LeftOut] = field(default_factory=list)
    may_run_again: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class CheckedFile:
    """A file whose lines are all valid. `dependents`: the lines of jobs with predecessors, by their offsets."""

    head: models.HeadDocument
    counts: Counter[str]
    dependents: list[tuple[int, str, After]]
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """A job of a line, as it is enqueued."""

    spec: JobSpec
    facts: models.JobFacts
    must_not_run_twice: bool


def check(stream: IO[bytes], unknown: Unknown, most_faults: int = 20) -> CheckedFile:
    """Check every line. Raise LineError that names the first faults."""
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
            made = _made_of(line, unknown)
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
    """Return a text about the objects that a file with `count` objects lacks; empty if it is complete."""
    if end is None:
        return f"the file has no line of kind {END}, so a part of it is missing"
    written = sum(end.lines.values())
    return (
        ""
        if written == count
        else f"the file has {count} objects, and had {written}: a part of it is missing"
    )


# The kinds whose document is checked by a model alone.
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


def _made_of(line: ExportLine, unknown: Unknown) -> Any:
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
            return _job_of(line, unknown)


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
    """Return the batch with only those callbacks that may still start."""
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


def _job_of(line: ExportLine, unknown: Unknown) -> ImportedJob:
    facts = checked(models.JobFacts, line, line.facts, unknown)
    given: dict[str, Any] = {"id": line.id}
    if facts.argument_packed is not None:
        given["argument"] = _unpacked(line, facts.argument_packed)
    request = checked(
        JobRequest, line, line.document, unknown, raw_fields=frozenset({"argument"}), given=given
    )
    spec = request.to_spec(line.id)
    must_not_run_twice = facts.state in HOLDS_SLOTS and not may_begin_again(spec)
    # The failures so far count.
    spec.max_retry = max(0, spec.max_retry - facts.failures)
    if facts.due_at is not None:
        spec.run_at_ms, spec.delay_ms = facts.due_at, None
    if facts.definition is not None and facts.definition_due_at is not None:
        spec.origin = Origin(facts.definition, facts.definition_due_at)
    if facts.callback_of is not None and facts.callback is not None:
        spec.callback_of = CallbackOf(facts.callback_of, facts.callback)
    if spec.unique is not None and spec.unique.on_conflict is OnConflict.REPLACE:
        # A job that is there stays as it is.
        spec.unique = replace(spec.unique, on_conflict=OnConflict.EXISTING)
    return ImportedJob(spec, facts, must_not_run_twice)


def _objects_of(stream: IO[bytes], unknown: Unknown) -> Iterator[ExportLine]:
    """Yield the lines of a checked file, without its first, its last, and those that are skipped."""
    for number, offset, raw in raw_lines(stream):
        try:
            line = parsed(number, offset, raw, unknown)
        except LineError:
            continue
        if line.kind not in (HEAD, END):
            yield line


class Importing:
    """One import into the installation of these `parts`."""

    def __init__(self, parts: Installation, *, without_results: bool) -> None:
        self._parts = parts
        self._without_results = without_results
        self.done = Imported()
        self._to_seal: list[str] = []
        # Each function returns whether the object is new, or the reason why it is left out.
        self._puts: Mapping[str, Callable[[str, Any], Awaitable[bool | str]]] = {
            "setting": self._put_setting,
            "constraint": self._put_constraint,
            "calendar": self._put_calendar,
            "definition": self._put_definition,
            "notice": self._put_notice,
            "target": self._put_target,
            "fireworq_queue": self._put_fireworq_queue,
            "fireworq_routing": self._put_fireworq_routing,
            "slot_rule": self._put_slot_rule,
            "batch": self._put_batch,
        }

    async def run(self, stream: IO[bytes], file: CheckedFile) -> Imported:
        """Import a file that was checked. Raise ConflictError, and what the stores raise."""
        await self._parts.refuse_unserved()
        stream.seek(0)
        # Fields that are not known were counted when the file was checked.
        unknown = Unknown(file.unknown.are_skipped)
        jobs: list[ImportedJob] = []
        people: list[ExportLine] = []
        dependents = {offset for offset, _, _ in file.dependents}
        for line in _objects_of(stream, unknown):
            if line.kind in ("user", "token"):
                people.append(line)
                continue
            if line.kind != "job":
                await self._import_object(line, unknown)
            elif line.offset not in dependents:
                jobs.append(_job_of(line, unknown))
                if len(jobs) == JOBS_PER_CALL:
                    await self._import_jobs(jobs)
                    jobs = []
        await self._import_jobs(jobs)
        await self._import_dependents(stream, file.dependents, unknown)
        await self._import_people(people, unknown)
        for batch_id in self._to_seal:
            await self._parts.batches.seal(batch_id)
        done = self.done
        after = {"new": dict(done.new), "there": dict(done.there), "left_out": len(done.left_out)}
        if done.new:
            await self._parts.audit.write(
                encode_entry(who=WHO, action="import", target=file.head.shard, before=None, after=after)
            )
        return done

    # --- settings, constraints, calendars, definitions, notices, targets, queues, rules of slots, batches

    async def _import_object(self, line: ExportLine, unknown: Unknown) -> None:
        try:
            outcome = await self._puts[line.kind](line.id, _made_of(line, unknown))
        except PreconditionFailedError:
            outcome = False
        except (StoreUnavailableError, OutcomeUnknownError):
            raise
        except JqmasterError as error:
            rules = "; ".join(f"{'.'.join(map(str, rule.loc))}: {rule.msg}" for rule in error.errors)
            self._leave_out(line.kind, line.id, rules or error.detail)
            return
        if isinstance(outcome, str):
            self._leave_out(line.kind, line.id, outcome)
        else:
            (self.done.new if outcome else self.done.there)[line.kind] += 1

    async def _put_setting(self, name: str, made: models.SettingDocument) -> bool:
        if name in (await self._parts.settings_store.load()).values:
            return False
        await self._parts.settings.change({name: made.value}, WHO)
        return True

    async def _put_constraint(self, name: str, made: ConstraintRequest) -> bool:
        _, is_new = await self._parts.constraint_editor.put(
            name, made.model_dump(), WHO, self._parts.access, _NEW
        )
        return bool(is_new)

    async def _put_calendar(self, name: str, made: Calendar) -> bool:
        return await self._parts.calendar_editor.take_over(made, WHO)

    async def _put_definition(self, name: str, made: tuple[DefinitionRequest, JobSpec]) -> bool:
        request, job = made
        _, is_new = await self._parts.definition_editor.put(
            name, request.model_dump(), job, who=WHO, access=self._parts.access,
            most=self._parts.max_definitions, demands=_NEW,
        )  # fmt: skip
        return bool(is_new)

    async def _put_notice(self, name: str, made: NoticeRequest) -> bool | str:
        if any("…" in (one.slack or "") or one.has_secret is not None for one in made.to):
            return "its destinations are secrets, which the export does not have: export with --with-secrets"
        return bool(await self._parts.notice_editor.put(name, made.model_dump(), who=WHO, demands=_NEW))

    async def _put_target(self, name: str, made: TargetRequest) -> bool | str:
        is_hidden = "…" in made.headers.values() or "…" in str(made.url)
        if is_hidden or (made.has_secret and made.secret is None):
            return "its headers, its secret or its URL are not in the export: export with --with-secrets"
        return bool(await self._parts.target_editor.put(name, made.model_dump(), who=WHO, demands=_NEW))

    async def _put_fireworq_queue(self, name: str, made: FireworqQueue) -> bool:
        return bool(await self._parts.fireworq.take_over_queue(made, WHO))

    async def _put_fireworq_routing(self, category: str, made: models.FireworqRoutingDocument) -> bool:
        return bool(await self._parts.fireworq.take_over_routing(category, made.queue_name, WHO))

    async def _put_slot_rule(self, rule_id: str, made: models.SlotRuleDocument) -> bool:
        rule = SlotRule(made.node_id, made.labels, made.max_jobs, made.set_by, made.set_at)
        return bool(await self._parts.workers.add_slot_rule(rule))

    async def _put_batch(self, batch_id: str, made: tuple[BatchSpec, models.BatchFacts]) -> bool | str:
        spec, facts = made
        if facts.is_sealed:
            self._to_seal.append(batch_id)
        if await self._parts.batches.get(batch_id) is not None:
            return False
        try:
            return bool(await self._parts.batches.put(spec, life_ms=self._parts.batch_life_ms))
        except BatchRefused as refused:
            return {
                "expired": "its expires_at is past",
                "unknown": f"the batch {spec.parent}, of which it is a member, is not there",
                "over": f"the batch {spec.parent}, of which it is a member, is over",
            }.get(refused.word, f"the store refuses it: {refused.word}")

    # --- jobs

    async def _import_dependents(
        self, stream: IO[bytes], dependents: Sequence[tuple[int, str, After]], unknown: Unknown
    ) -> None:
        """Import the jobs with predecessors, each behind those for which it waits."""
        ordered, cyclic = in_order([(job_id, after) for _, job_id, after in dependents])
        for n in cyclic:
            self._leave_out("job", dependents[n][1], "it waits for itself over other jobs")
        jobs = []
        for n in ordered:
            offset = dependents[n][0]
            stream.seek(offset)
            jobs.append(_job_of(parsed(0, offset, stream.readline(), unknown), unknown))
            if len(jobs) == JOBS_PER_CALL:
                await self._import_jobs(jobs)
                jobs = []
        await self._import_jobs(jobs)

    async def _import_jobs(self, jobs: Sequence[ImportedJob]) -> None:
        there = await self._parts.existing([job.spec.id for job in jobs])
        chosen = []
        for job in jobs:
            spec, over = job.spec, set(job.facts.over)
            if spec.id in there:
                self.done.there["job"] += 1
            elif job.must_not_run_twice:
                self._leave_out(
                    "job",
                    spec.id,
                    f"it was {job.facts.state} and must not run twice (max_retry 0)",
                    is_refused=False,
                )
            elif over and not self._without_results:
                self._leave_out(
                    "job",
                    spec.id,
                    f"it needs the results of {len(over)} jobs that were over, which no export has: "
                    "move it by backup and restore, or import it --without-results",
                    is_refused=False,
                )
            else:
                if over and spec.after:
                    left = tuple(one for one in spec.after.jobs if one not in over)
                    spec.after = replace(spec.after, jobs=left) if left else None
                chosen.append(job)
        if not chosen:
            return
        outcomes = await self._parts.enqueue([job.spec for job in chosen])
        for job, outcome in zip(chosen, outcomes, strict=True):
            if outcome is Accepted.NEW:
                self.done.new["job"] += 1
                if job.facts.state in HOLDS_SLOTS:
                    self.done.may_run_again[job.facts.state] += 1
            elif isinstance(outcome, Accepted | IdTaken):
                self.done.there["job"] += 1
            else:
                self._leave_out("job", job.spec.id, _why(outcome))

    # --- users and tokens

    async def _import_people(self, lines: Sequence[ExportLine], unknown: Unknown) -> None:
        """Import users and tokens with their secrets, those with admin rights first: from the first one on, everybody
        must log in."""
        credentials = self._parts.credentials
        known = await credentials.load()
        users = {user.name for user, _ in await credentials.users()}
        made: list[tuple[bool, ExportLine, StoredUser | StoredToken]] = []
        for line in lines:
            if line.id in (users if line.kind == "user" else known.tokens):
                self.done.there[line.kind] += 1
            elif (one := _credential(line, _made_of(line, unknown))) is None:
                self._leave_out(
                    line.kind,
                    line.id,
                    "the export was made without --with-secrets: create it anew",
                    is_refused=False,
                )
            else:
                made.append((not _is_admin(one), line, one))
        if made and not users and not known.tokens and all(is_other for is_other, _, _ in made):
            for _, line, _ in made:
                self._leave_out(
                    line.kind,
                    line.id,
                    "nobody would have admin rights: create an admin first, then import again",
                )
            return
        for _, line, one in sorted(made, key=lambda item: item[0]):
            if isinstance(one, StoredUser):
                log = entry(WHO, "user.add", one.name, None, audited_user(one))
                word = await credentials.put_user(one.name, None, one, access_entry=log)
            else:
                log = entry(WHO, "token.create", one.id, None, audited_token(one))
                word = await credentials.put_tokens([(one.id, None, one)], access_entry=log)
            if word == "ok":
                self.done.new[line.kind] += 1
            elif word == "changed":
                self.done.there[line.kind] += 1
            else:
                self._leave_out(line.kind, line.id, f"there are too many {line.kind}s")

    def _leave_out(self, kind: str, own_id: str, reason: str, *, is_refused: bool = True) -> None:
        self.done.left_out.append(LeftOut(kind, own_id, reason, is_refused))


def _credential(
    line: ExportLine, made: models.UserDocument | models.TokenDocument
) -> StoredUser | StoredToken | None:
    """Return the user or token; None if its secret is not there."""
    if isinstance(made, models.UserDocument):
        if made.password_hash is None:
            return None
        return StoredUser(line.id, made.role, made.password_hash, made.created_at, made.is_disabled)
    if made.sha256 is None:
        return None
    return StoredToken(
        line.id, made.label, frozenset(made.scopes), tuple(made.names), bytes.fromhex(made.sha256), made.created_at,
        made.created_by, made.expires_at, made.lineage,
    )  # fmt: skip


def _is_admin(one: StoredUser | StoredToken) -> bool:
    if isinstance(one, StoredUser):
        return one.role is Role.ADMIN and not one.is_disabled
    return Scope.ADMIN in one.scopes and one.expires_at_ms is None


def _why(outcome: Outcome) -> str:
    """Return the reason for which a job was refused."""
    match outcome:
        case BacklogFull():
            return "a constraint lets no more of these jobs wait: import again later"
        case NotUnique(holder):
            return f"job {holder} holds its uniqueness key"
        case BatchClosed(batch, is_none):
            return f"batch {batch} {'is not there' if is_none else 'is complete or canceled'}"
        case PredecessorRefused(predecessor, is_none):
            state = "is not there" if is_none else "is over and did not succeed"
            return f"job {predecessor}, for which it waits, {state}"
        case PushExpired():
            return "its expires_at is past"
    raise AssertionError(outcome)
