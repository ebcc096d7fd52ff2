"""Import the lines of an export into an installation. Existing objects stay unchanged.

The whole file is checked before anything is written. An import may be repeated: it continues where it was
interrupted."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, Final

from jqmaster.api.constraints.schemas import ConstraintRequest
from jqmaster.api.definitions.schemas import DefinitionRequest
from jqmaster.api.notices.schemas import NoticeRequest
from jqmaster.api.targets.schemas import TargetRequest
from jqmaster.cli.console import exits
from jqmaster.cli.transfer import models
from jqmaster.cli.transfer.export_files import CheckedFile, ImportedJob, job_of, made_of, objects_of
from jqmaster.cli.transfer.installation import Installation
from jqmaster.cli.transfer.lines import ExportLine, Unknown, parsed
from jqmaster.domain.batches.batch import BatchSpec
from jqmaster.domain.calendars.calendar import Calendar
from jqmaster.domain.fireworq.queue import FireworqQueue
from jqmaster.domain.identity.access import Role, Scope
from jqmaster.domain.jobs.job import HOLDS_SLOTS, JobSpec
from jqmaster.domain.jobs.predecessors import After, in_order
from jqmaster.domain.workers.slot_rule import SlotRule
from jqmaster.errors import JqmasterError, PreconditionFailedError
from jqmaster.service.identity.access_entries import audited_token, audited_user, entry
from jqmaster.service.named_objects import Precondition
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


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An object that was not imported. `is_refused`: the installation refused it."""

    kind: str
    id: str
    reason: str
    is_refused: bool = True


@dataclass(slots=True)
class Imported:
    """The outcome of an import, with counts by kind. `may_run_again`: counts by the jobs' states in the export."""

    new: Counter[str] = field(default_factory=Counter)
    there: Counter[str] = field(default_factory=Counter)
    left_out: list[LeftOut] = field(default_factory=list)
    may_run_again: Counter[str] = field(default_factory=Counter)


class Importing:
    """One import into an installation."""

    def __init__(self, installation: Installation, *, without_results: bool) -> None:
        self._installation = installation
        self._without_results = without_results
        self.done = Imported()
        self._to_seal: list[str] = []
        # The function that imports each kind of object. It returns True for a new object, False for an existing
        # object, or the reason why the object was left out.
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
        """Import a checked file. Raise ConflictError if data is being restored, and the errors of the stores."""
        await self._installation.refuse_unserved()
        stream.seek(0)
        # Use a new counter that is not reported, because the check of the file has already counted the unknown
        # fields.
        unknown = Unknown(file.unknown.are_skipped)
        jobs: list[ImportedJob] = []
        people: list[ExportLine] = []
        dependents = {offset for offset, _, _ in file.dependents}
        for line in objects_of(stream, unknown):
            if line.kind in ("user", "token"):
                people.append(line)
                continue
            if line.kind != "job":
                await self._import_object(line, unknown)
            elif line.offset not in dependents:
                jobs.append(job_of(line, unknown))
                if len(jobs) == JOBS_PER_CALL:
                    await self._import_jobs(jobs)
                    jobs = []
        await self._import_jobs(jobs)
        await self._import_dependents(stream, file.dependents, unknown)
        await self._import_people(people, unknown)
        for batch_id in self._to_seal:
            await self._installation.batches.seal(batch_id)
        done = self.done
        after = {"new": dict(done.new), "there": dict(done.there), "left_out": len(done.left_out)}
        if done.new:
            await self._installation.audit.write(
                encode_entry(who=WHO, action="import", target=file.head.shard, before=None, after=after)
            )
        return done

    # --- settings, constraints, calendars, definitions, notices, targets, queues, rules of slots, batches

    async def _import_object(self, line: ExportLine, unknown: Unknown) -> None:
        try:
            outcome = await self._puts[line.kind](line.id, made_of(line, unknown))
        except PreconditionFailedError:
            outcome = False
        except exits.PASSING:
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
        if name in (await self._installation.settings_store.load()).values:
            return False
        await self._installation.settings.change({name: made.value}, WHO)
        return True

    async def _put_constraint(self, name: str, made: ConstraintRequest) -> bool:
        _, is_new = await self._installation.constraint_editor.put(
            name, made.model_dump(), WHO, self._installation.access, _NEW
        )
        return bool(is_new)

    async def _put_calendar(self, name: str, made: Calendar) -> bool:
        return await self._installation.calendar_editor.take_over(made, WHO)

    async def _put_definition(self, name: str, made: tuple[DefinitionRequest, JobSpec]) -> bool:
        request, job = made
        _, is_new = await self._installation.definition_editor.put(
            name, request.model_dump(), job, who=WHO, access=self._installation.access,
            most=self._installation.max_definitions, demands=_NEW,
        )  # fmt: skip
        return bool(is_new)

    async def _put_notice(self, name: str, made: NoticeRequest) -> bool | str:
        if any("…" in (one.slack or "") or one.has_secret is not None for one in made.to):
            return "its destinations are secrets, which the export does not have: export with --with-secrets"
        return bool(
            await self._installation.notice_editor.put(name, made.model_dump(), who=WHO, demands=_NEW)
        )

    async def _put_target(self, name: str, made: TargetRequest) -> bool | str:
        is_hidden = "…" in made.headers.values() or "…" in str(made.url)
        if is_hidden or (made.has_secret and made.secret is None):
            return "its headers, its secret or its URL are not in the export: export with --with-secrets"
        return bool(
            await self._installation.target_editor.put(name, made.model_dump(), who=WHO, demands=_NEW)
        )

    async def _put_fireworq_queue(self, name: str, made: FireworqQueue) -> bool:
        return bool(await self._installation.fireworq.take_over_queue(made, WHO))

    async def _put_fireworq_routing(self, category: str, made: models.FireworqRoutingDocument) -> bool:
        return bool(await self._installation.fireworq.take_over_routing(category, made.queue_name, WHO))

    async def _put_slot_rule(self, rule_id: str, made: models.SlotRuleDocument) -> bool:
        rule = SlotRule(made.node_id, made.labels, made.max_jobs, made.set_by, made.set_at)
        return bool(await self._installation.workers.add_slot_rule(rule))

    async def _put_batch(self, batch_id: str, made: tuple[BatchSpec, models.BatchFacts]) -> bool | str:
        spec, facts = made
        if facts.is_sealed:
            self._to_seal.append(batch_id)
        if await self._installation.batches.get(batch_id) is not None:
            return False
        try:
            return bool(await self._installation.batches.put(spec, life_ms=self._installation.batch_life_ms))
        except BatchRefused as refused:
            return {
                "expired": "its expires_at is past",
                "unknown": f"the batch {spec.parent}, to which it belongs, does not exist",
                "over": f"the batch {spec.parent}, to which it belongs, is over",
            }.get(refused.word, f"the store refuses it: {refused.word}")

    # --- jobs

    async def _import_dependents(
        self, stream: IO[bytes], dependents: Sequence[tuple[int, str, After]], unknown: Unknown
    ) -> None:
        """Import the jobs with predecessors, each after its predecessors."""
        ordered, cyclic = in_order([(job_id, after) for _, job_id, after in dependents])
        for n in cyclic:
            self._leave_out("job", dependents[n][1], "it waits for itself through other jobs")
        jobs = []
        for n in ordered:
            offset = dependents[n][0]
            stream.seek(offset)
            jobs.append(job_of(parsed(0, offset, stream.readline(), unknown), unknown))
            if len(jobs) == JOBS_PER_CALL:
                await self._import_jobs(jobs)
                jobs = []
        await self._import_jobs(jobs)

    async def _import_jobs(self, jobs: Sequence[ImportedJob]) -> None:
        there = await self._installation.existing([job.spec.id for job in jobs])
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
                    f"it needs the results of {len(over)} finished jobs, which no export has: move it by "
                    "backup and restore, or import it --without-results",
                    is_refused=False,
                )
            else:
                if over and spec.after:
                    left = tuple(one for one in spec.after.jobs if one not in over)
                    spec.after = replace(spec.after, jobs=left) if left else None
                chosen.append(job)
        if not chosen:
            return
        outcomes = await self._installation.enqueue([job.spec for job in chosen])
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
        """Import users and tokens with their secrets. Users and tokens with admin rights come first, because
        everybody must log in as soon as there is one user or token."""
        credentials = self._installation.credentials
        known = await credentials.load()
        users = {user.name for user, _ in await credentials.users()}
        made: list[tuple[bool, ExportLine, StoredUser | StoredToken]] = []
        for line in lines:
            if line.id in (users if line.kind == "user" else known.tokens):
                self.done.there[line.kind] += 1
            elif (one := _credential(line, made_of(line, unknown))) is None:
                self._leave_out(
                    line.kind,
                    line.id,
                    "the export was made without --with-secrets: create a new one",
                    is_refused=False,
                )
            else:
                made.append((not _is_admin(one), line, one))
        if made and not users and not known.tokens and all(is_other for is_other, _, _ in made):
            for _, line, _ in made:
                self._leave_out(
                    line.kind,
                    line.id,
                    "no user or token would have admin rights: create an admin first, then import again",
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
    """Return the user or token, or None if the export does not have its secret."""
    if isinstance(made, models.UserDocument):
        if made.password_hash is None:
            return None
        return StoredUser(
            line.id, made.role, made.password_hash, made.created_at, made.is_disabled, roles=made.namespaces
        )
    if made.sha256 is None:
        return None
    return StoredToken(
        line.id, made.label, frozenset(made.scopes), tuple(made.names), bytes.fromhex(made.sha256), made.created_at,
        made.created_by, made.expires_at, made.lineage, tuple(made.namespaces),
    )  # fmt: skip


def _is_admin(one: StoredUser | StoredToken) -> bool:
    if isinstance(one, StoredUser):
        return one.role is Role.ADMIN and not one.is_disabled
    return Scope.ADMIN in one.scopes and one.expires_at_ms is None and not one.namespaces


def _why(outcome: Outcome) -> str:
    """Return a text with the reason why a job was refused."""
    match outcome:
        case BacklogFull():
            return "a constraint limits how many of these jobs may wait: import again later"
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
