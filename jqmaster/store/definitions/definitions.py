"""Definitions in the store: changing them, finding due ones, and firing them in one step."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

import msgpack

from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS, ConstraintSet
from jqmaster.domain.definitions.days import DayPlan
from jqmaster.domain.definitions.definition import Definition, Kind, new_did
from jqmaster.domain.definitions.run import RunOutcome, RunReason, RunRecord, job_id_of
from jqmaster.domain.jobs.job import JobState, Origin
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import ConflictError, DamagedError, StoreUnavailableError
from jqmaster.store import codec
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.calendars.documents import StoredCalendar
from jqmaster.store.definitions.documents import (
    CalendarMemory,
    DefinitionClock,
    StoredDefinition,
    decode_clock,
    decode_definition,
    decode_run,
    encode_definition,
    forgotten_until_ms,
    instant_text,
    plan_of,
    reason_text,
)
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.jobs.placement import LaneTable, StaleConstraints
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import DefinitionsChanged, JobsReady, SlotsFreed

logger = logging.getLogger(__name__)

RUNS_PER_READ: Final = 200
# An instant after the instants of all records.
MAX_INSTANT_MS: Final = 10**15
# Maximum number of records that a page of a filtered list examines.
MAX_LOOKED_AT: Final = 2_000
# Maximum number of removed definitions to remember. Each is stored with the last instant that may have started a job.
MAX_GONE: Final = 10_000
# Pack bytes as strings, because the MessagePack library of Lua has no binary type.
_PACKER: Final = msgpack.Packer(autoreset=True, use_bin_type=False)
# The arguments for an entry without a job, in place of ID, terms, digest and record.
_NO_JOB: Final[tuple[Arg, ...]] = ("", b"", b"", b"")


class InstantVerdict(StrEnum):
    """The caller's decision about an instant."""

    FIRES = "fires"
    QUEUED = "queued"
    MANUAL = "manual"
    # BACKFILL starts a job only if the run records prove that the instant has started no job. BACKFILL_FORGOTTEN also
    # starts a job if the record of the instant may have been removed.
    BACKFILL = "backfill"
    BACKFILL_FORGOTTEN = "backfill_forgotten"
    MISSED = "missed"
    SKIPPED = "skipped"


class FiringOutcome(StrEnum):
    """The state of an instant after its definition was fired."""

    FIRED = "fired"
    # The instant's job already existed.
    KNOWN = "known"
    BACKLOG_FULL = "backlog_full"
    OVERLAP = "overlap"
    SUPERSEDED = "superseded"
    # The instant waits until an earlier job of the definition has ended.
    QUEUED = "queued"
    MISSED = "missed"
    SKIPPED = "skipped"
    # A backfill was not needed, because the instant had already fired.
    BEFORE = "before"
    # A backfill was refused, because the record of the instant may have been removed.
    FORGOTTEN = "forgotten"
    # Nothing was done, because the definition was changed or has fired since it was read.
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class KnownDefinition:
    """A definition with its clock and its calendar. Definition and clock were read together, and the calendar right
    after them.
    """

    stored: StoredDefinition
    clock: DefinitionClock
    calendar: StoredCalendar | None = None

    @property
    def etag(self) -> str:
        return self.stored.etag

    @property
    def is_behind(self) -> bool:
        """Return whether the calendar was changed while the clock still follows the former calendar."""
        return self.calendar is not None and self.clock.memory.etag != self.calendar.etag

    @property
    def plan(self) -> DayPlan:
        """Return the plan that the clock follows."""
        return plan_of(self.clock, self.calendar)


@dataclass(frozen=True, slots=True)
class DueDefinitions:
    """Due definitions. `are_more`: further definitions are due. `next_ms`: the time until another definition becomes
    due. None: no other definition will become due.
    """

    now_ms: int
    next_ms: int | None
    are_more: bool
    found: list[KnownDefinition]


@dataclass(frozen=True, slots=True)
class Entry:
    """One instant and the verdict on it. `job_id` empty: the job gets the ID of the instant. `moved_from_ms` and
    `left_out`: as in RunRecord."""

    due_at_ms: int
    verdict: InstantVerdict
    reason: RunReason = RunReason.NONE
    job_id: str = ""
    moved_from_ms: int | None = None
    left_out: str = ""

    @property
    def origin_ms(self) -> int:
        """Return the instant of the schedule, before a calendar moved it."""
        return self.due_at_ms if self.moved_from_ms is None else self.moved_from_ms

    @property
    def has_job(self) -> bool:
        return self.verdict not in (InstantVerdict.MISSED, InstantVerdict.SKIPPED)


@dataclass(frozen=True, slots=True)
class Firing:
    """The instants of one definition that get their records.

    * `handled_ms`: the new value of its clock.
    * `next_due_ms`: when to check it next (None: never).
    * `memory`: the new memory of the calendar in the clock (None: unchanged).
    """

    known: KnownDefinition
    handled_ms: int
    next_due_ms: int | None
    entries: Sequence[Entry]
    memory: CalendarMemory | None = None


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """The run records that are kept of each definition."""

    most: int
    life_ms: int


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """One change of one definition, based on `present`. `new` None removes it. `audit_entry` is a packed map."""

    name: str
    present: KnownDefinition | None
    new: KnownDefinition | None
    next_due_ms: int | None
    audit_entry: bytes
    most: int


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of run records, newest first. `next_at` None: there are no older records."""

    runs: list[RunRecord]
    next_at: "RunPosition | None"


class RunPosition(NamedTuple):
    """A position among run records, newest first: after the first `passed` records with this `due_at_ms`."""

    due_at_ms: int
    passed: int


class DefinitionStore:
    """Definitions of one shard. `tally` counts the jobs that they start. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, tally: Tally) -> None:
        self._shard = shard
        self._tally = tally
        self._calendars = CalendarStore(shard)
        self._client = shard.client
        self._keys = shard.keys
        # By name: the bytes of a definition, and the definition decoded from them. Cached, because parsing an
        # expression is expensive.
        self._decoded: dict[str, tuple[bytes, StoredDefinition]] = {}

    async def names(self) -> list[str]:
        """Return the names of all definitions, sorted."""
        return sorted(name.decode() for name in await self._client.command("HKEYS", self._keys.definitions))

    async def get(self, names: Sequence[str]) -> list[KnownDefinition | None]:
        """Return definitions in the order of their names. None: there is none."""
        if not names:
            return []
        documents, clocks = await self._client.pipeline(
            [("HMGET", self._keys.definitions, *names), ("HMGET", self._keys.definition_clocks, *names)]
        )
        return await self._with_calendars(
            [self._known(*parts) for parts in zip(names, documents, clocks, strict=True)]
        )

    async def readable(self, names: Sequence[str]) -> list[KnownDefinition]:
        """Return the definitions among these that exist. Report and omit definitions that cannot be read."""
        if not names:
            return []
        documents, clocks = await self._client.pipeline(
            [("HMGET", self._keys.definitions, *names), ("HMGET", self._keys.definition_clocks, *names)]
        )
        return await self._readable(zip(names, documents, clocks, strict=True), "it is not shown")

    async def due(self, limit: int, passed_over: int = 0) -> DueDefinitions:
        """Return due definitions after the first `passed_over`: at most `limit` that use a calendar, and at most
        `limit` others. Report and omit definitions that cannot be read.
        """
        k = self._keys
        _, (now_ms, next_ms, are_more, flat) = await self._client.run(
            "due_definitions",
            (k.definitions, k.definitions_due, k.definition_clocks, k.definitions_due_on_days),
            (self._shard.now_arg, passed_over, limit),
        )
        rows = [(flat[n].decode(), flat[n + 1] or None, flat[n + 2] or None) for n in range(0, len(flat), 3)]
        found = await self._readable(rows, "it does not fire")
        return DueDefinitions(now_ms, None if next_ms < 0 else next_ms, are_more == 1, found)

    async def change(self, change: DefinitionChange) -> bool:
        """Make the change. Return False if the definition was changed or fired since it was read. Raise ConflictError
        if there are already as many definitions as allowed."""
        k, present, new = self._keys, change.present, change.new
        one = new or present
        is_of_events = one is not None and one.stored.definition.kind is Kind.EVENT
        word, _ = await self._client.run(
            "put_definition",
            (k.definitions, k.definitions_due, k.definition_clocks, k.runs(change.name), k.audit, k.event_definitions,
             k.event_edition, k.forgotten_runs, k.gone_definitions, k.calendars, k.definition_calendars,
             k.definitions_due_on_days),
            (self._shard.now_arg, change.name, present.etag if present else "",
             encode_definition(new.stored) if new else b"", present.clock.text if present else "",
             new.clock.text if new else "", -1 if change.next_due_ms is None else change.next_due_ms,
             change.audit_entry, MAX_ENTRIES, change.most, self._shard.wake_channel, new_did() if is_of_events else "",
             one.stored.definition.did if one else "", MAX_GONE,
             new.stored.definition.calendar if new else "", new.clock.memory.etag if new else "",
             present.stored.definition.calendar if present else ""),
        )  # fmt: skip
        if word == "full":
            raise ConflictError(
                f"there are {change.most} definitions; no more can be made", code="too_many_definitions"
            )
        if new is None:
            self._decoded.pop(change.name, None)
        self._shard.leader.wake(DefinitionsChanged())
        return word == "ok"

    async def fire(
        self,
        firings: Sequence[Firing],
        constraints: ConstraintSet = NO_CONSTRAINTS,
        *,
        kept: KeptRuns,
        epoch: str = "",
    ) -> tuple[int, list[list[FiringOutcome]]]:
        """Write the run records, jobs and clocks of all these instants, at most 500, in one step. Return the time of
        the step, and the outcomes of the instants by definition. `epoch`: empty if the caller is not the leader.

        Raises StaleConstraints; StaleEpochError; StoreUnavailableError if the store was emptied or replaced.
        """
        k = self._keys
        table = LaneTable()
        entries: list[Arg] = []
        for number, firing in enumerate(firings, 1):
            definition = firing.known.stored.definition
            for entry in firing.entries:
                entries += (number, str(entry.verdict), reason_text(entry.reason, entry.left_out))
                entries.append(instant_text(entry.due_at_ms, entry.moved_from_ms))
                entries += self._job_parts(definition, entry, table, constraints)
        batch = [
            (f.known.stored.definition.name, f.known.stored.etag, f.known.clock.text, f.handled_ms,
             -1 if f.next_due_ms is None else f.next_due_ms, str(f.known.stored.definition.overlap),
             f.known.stored.definition.did, int(bool(f.known.stored.definition.calendar)), *_rest_of_clock(f))
            for f in firings
        ]  # fmt: skip
        word, data = await self._client.run(
            "fire_definitions",
            (k.epoch, k.definitions, k.definitions_due, k.definition_clocks, k.rules, k.scheduled, k.expiring,
             k.forgotten_runs, k.definitions_due_on_days),
            (self._shard.now_arg, k.tag, epoch, self._shard.wake_channel, k.finished_channel, constraints.edition,
             table.packed(), self._shard.mark, kept.most, kept.life_ms, _PACKER.pack(batch), *entries),
        )  # fmt: skip
        if word == "stale_constraints":
            raise StaleConstraints
        if word == "other_data":
            raise StoreUnavailableError(
                "the store's data are gone or were replaced; no definition was fired",
                code="store_unfit",
                retry_after_s=5.0,
            )
        statuses = iter([FiringOutcome(status.decode()) for status in data[1]])
        became = [[next(statuses) for _ in firing.entries] for firing in firings]
        self._count(firings, became)
        for worker_id in data[2]:
            self._shard.leader.wake(SlotsFreed(worker_id.decode(), 1))
        return data[0], became

    async def runs(
        self, name: str, position: RunPosition | None, limit: int, outcome: RunOutcome | None
    ) -> RunPage:
        """Return the newest run records after a position. `outcome`: return only records with this outcome."""
        key, at = self._keys.runs(name), position or RunPosition(MAX_INSTANT_MS, 0)
        found: list[RunRecord] = []
        for _ in range(0, MAX_LOOKED_AT, RUNS_PER_READ):
            page = await self._client.command(
                "ZRANGE", key, at.due_at_ms, "-inf", "BYSCORE", "REV", "LIMIT", at.passed, RUNS_PER_READ
            )
            for raw in page:
                run = decode_run(name, raw)
                at = RunPosition(run.due_at_ms, at.passed + 1 if run.due_at_ms == at.due_at_ms else 1)
                if outcome in (None, run.outcome):
                    found.append(run)
                    if len(found) == limit:
                        return RunPage(found, at)
            if len(page) < RUNS_PER_READ:
                return RunPage(found, None)
        return RunPage(found, at)

    async def newest_runs(self, names: Sequence[str], count: int) -> list[list[RunRecord]]:
        """Return the newest run records of each of these definitions, newest first."""
        replies = await self._client.pipeline(
            [("ZRANGE", self._keys.runs(name), "0", count - 1, "REV") for name in names]
        )
        return [[decode_run(name, raw) for raw in found] for name, found in zip(names, replies, strict=True)]

    async def job_states(self, job_ids: Sequence[str]) -> dict[str, JobState]:
        """Return the states of these jobs, without those that do not exist."""
        replies = await self._client.pipeline([("GETRANGE", self._keys.job(one), 1, 1) for one in job_ids])
        found = zip(job_ids, replies, strict=True)
        return {job_id: codec.state_of(code[0]) for job_id, code in found if code}

    async def recorded(self, name: str, from_ms: int, to_ms: int) -> list[RunRecord]:
        """Return the run records of the instants at or after `from_ms` and before `to_ms`."""
        page = await self._client.command("ZRANGE", self._keys.runs(name), from_ms, f"({to_ms}", "BYSCORE")
        return [decode_run(name, raw) for raw in page]

    async def forgotten_until_ms(self, known: KnownDefinition) -> int | None:
        """Return the last instant of a definition whose run record may have been removed, or None if no record was
        removed."""
        definition = known.stored.definition
        memory, first = await self._client.pipeline(
            [
                ("HGET", self._keys.forgotten_runs, definition.name),
                ("ZRANGE", self._keys.runs(definition.name), 0, 0, "WITHSCORES"),
            ]
        )
        first_ms = int(float(first[1])) if first else None
        return forgotten_until_ms(definition.did, memory, first_ms, known.clock.handled_ms)

    async def _with_calendars(self, found: list[KnownDefinition | None]) -> list[KnownDefinition | None]:
        """Return definitions with their calendars. Raise DamagedError."""
        wanted = {known.stored.definition.calendar for known in found if known} - {""}
        if not wanted:
            return found
        calendars = await self._calendars.get(wanted)
        return [
            replace(known, calendar=_calendar_of(known.stored.definition, calendars))
            if known and known.stored.definition.calendar
            else known
            for known in found
        ]

    async def _readable(
        self, rows: Iterable[tuple[str, bytes | None, bytes | None]], consequence: str
    ) -> list[KnownDefinition]:
        """Decode definitions from rows of name, document and clock, and add their calendars. Report and omit a
        definition if its document, its clock or its calendar cannot be read.
        """
        found: list[KnownDefinition] = []
        for row in rows:
            try:
                known = self._known(*row)
            except DamagedError as exc:
                logger.error("%s; %s", exc.detail, consequence)
            else:
                found += [known] if known else []
        try:
            return _present(await self._with_calendars([*found]))
        except DamagedError:
            readable = []
            for known in found:
                try:
                    readable += _present(await self._with_calendars([known]))
                except DamagedError as exc:
                    logger.error("%s; %s", exc.detail, consequence)
            return readable

    def _known(self, name: str, document: bytes | None, clock: bytes | None) -> KnownDefinition | None:
        if document is None:
            return None
        if clock is None:
            raise DamagedError(f"definition {name}: its entry in `definition_clocks` is missing")
        raw, stored = self._decoded.get(name, (b"", None))
        if stored is None or raw != document:
            stored = decode_definition(name, document)
            self._decoded[name] = document, stored
        return KnownDefinition(stored, decode_clock(name, clock))

    def _job_parts(
        self, definition: Definition, entry: Entry, table: LaneTable, constraints: ConstraintSet
    ) -> tuple[Arg, ...]:
        if not entry.has_job:
            return _NO_JOB
        job_id = entry.job_id or job_id_of(definition.did, entry.origin_ms)
        spec = replace(definition.job, id=job_id, origin=Origin(definition.name, entry.due_at_ms))
        lane, gates, weights = table.place(constraints, spec)
        terms, digest, rest = codec.encode_new(spec, gates, weights)
        return job_id, terms + lane.to_bytes(2, "big"), digest, rest

    def _count(self, firings: Sequence[Firing], became: Sequence[Sequence[FiringOutcome]]) -> None:
        fired = Counter[str]()
        for firing, outcomes in zip(firings, became, strict=True):
            fired[firing.known.stored.definition.job.name] += outcomes.count(FiringOutcome.FIRED)
        for name, count in fired.items():
            if count:
                self._tally.of(name).pushed += count
        if fired.total():
            self._shard.leader.wake(JobsReady())


def _present(found: Sequence[KnownDefinition | None]) -> list[KnownDefinition]:
    return [known for known in found if known]


def _rest_of_clock(firing: Firing) -> tuple[str, ...]:
    """Return the part of a new clock that remembers the calendar, or an empty tuple if there is nothing to remember."""
    memory = firing.known.clock.memory if firing.memory is None else firing.memory
    return (memory.text,) if memory.text else ()


def _calendar_of(definition: Definition, calendars: Mapping[str, StoredCalendar]) -> StoredCalendar:
    if definition.calendar not in calendars:
        raise DamagedError(f"definition {definition.name}: there is no calendar {definition.calendar}")
    return calendars[definition.calendar]
