"""Judges the health of the queue by facts from other services."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from jqmaster.clock import Clock
from jqmaster.domain.calendars.ending import EndingCalendar
from jqmaster.domain.constraints.constraint import PAUSE_PREFIX, Mode
from jqmaster.domain.content.content import ContentAccess, no_access
from jqmaster.domain.definitions.skips import SKIPS_OF_A_FAULT, skips_in_a_row
from jqmaster.domain.jobs.failures import HOUR_MS, GroupedFailures
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.operations.health import WAIT_WARN_MS, HealthVerdict, judge, store_away
from jqmaster.domain.operations.health_facts import (
    FailingJobs,
    HealthFacts,
    LongWait,
    NewKind,
    PausedJobs,
    SilentProcess,
    TroubledDefinition,
)
from jqmaster.domain.operations.tally import TOTAL, NameCounts
from jqmaster.domain.why.verdict import IndexMissing
from jqmaster.domain.why.worker_verdicts import NoMatchingWorker, NoWorker, WorkersUnavailable
from jqmaster.domain.workers.worker import Worker
from jqmaster.errors import NotFoundError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.calendars.ending import ending_calendars
from jqmaster.service.constraints.reader import ConstraintReader, Usage
from jqmaster.service.definitions.reader import DefinitionFilter, DefinitionReader
from jqmaster.service.jobs.why import WhyService
from jqmaster.service.operations.full_limits import MOST, FullLimits, HeldGate, is_paused
from jqmaster.service.operations.remembered import Remembered
from jqmaster.service.operations.stats import StatsService
from jqmaster.service.workers.masters import MasterService
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.constraints.documents import StoredConstraint
from jqmaster.store.operations.history import STEP_MS, HistoryStore
from jqmaster.store.workers.workers import WorkerStore

# Time for which all callers share one read of the store.
LIVES_S: Final = 2.0
# Time for which facts about definitions are reused. Checking definitions takes one read of the store per two hundred of
# them.
DEFINITIONS_LIVE_S: Final = 5.0
CALENDARS_LIVE_S: Final = 60.0
# Maximum number of findings about job names or calendars. If there are more, only the worst ones are shown.
MAX_NAMES: Final = 5
_MINUTES: Final = 60
_LATELY: Final = 10
_MAX_VALUES: Final = 3
_LEVELS: Final = ("besteffort", "fsync", "fsync+quorum")
# The verdicts of `why` that say why no worker takes a job that may start.
_CAUSES: Final = (NoWorker, NoMatchingWorker, WorkersUnavailable, IndexMissing)


@dataclass(frozen=True, slots=True)
class _HealthReading:
    """The findings of one read of the store. `limits` and `pauses` contain key values that not every caller may see."""

    facts: HealthFacts
    limits: Sequence[HeldGate]
    pauses: Sequence[tuple[StoredConstraint, Usage]]


class HealthService:
    """Judges the health of the queue. If the store does not answer, the verdict says so, and no error is raised."""

    def __init__(
        self,
        stats: StatsService,
        history: HistoryStore,
        clock: Clock,
        *,
        workers: WorkerStore,
        masters: MasterService,
        constraints: ConstraintReader,
        definitions: DefinitionReader,
        calendars: CalendarStore,
        why: WhyService,
        stale_ms: LiveValue[int],
    ) -> None:
        self._stats = stats
        self._history = history
        self._workers = workers
        self._masters = masters
        self._constraints = constraints
        self._definitions = definitions
        self._calendars = calendars
        self._why = why
        self._stale_ms = stale_ms
        self._nobody = no_access(())
        self._readings = Remembered(clock, LIVES_S, self._read)
        self._full = FullLimits(constraints, self._nobody)
        self._troubled = Remembered(clock, DEFINITIONS_LIVE_S, self._troubled_definitions)
        self._ending = Remembered(clock, CALENDARS_LIVE_S, self._ending_calendars)

    async def verdict(self, access: ContentAccess) -> tuple[int | None, HealthVerdict]:
        """Return the store's time of the facts, and the verdict. The verdict has key values in the form that the caller
        may see. The time is missing if the store does not answer."""
        try:
            reading = await self._readings.get()
        except StoreUnavailableError as exc:
            return None, store_away(exc.detail)
        limits = [
            replace(one.found, value=access.key_text(one.key, one.found.value))
            if one.found.value is not None
            else one.found
            for one in reading.limits
        ]
        pauses = [pause for stored, usage in reading.pauses for pause in _paused(stored, usage, access)]
        return reading.facts.now_ms, judge(replace(reading.facts, limits=limits, pauses=pauses))

    async def _read(self) -> _HealthReading:
        stats = await self._stats.now()
        workers, now_ms = await self._workers.all_with_time()
        masters, _ = await self._masters.all()
        points = await self._points(now_ms)
        constraints = [
            (stored, usage)
            for stored, usage in await self._constraints.all()
            if stored.constraint.enabled and stored.constraint.mode is Mode.ENFORCE
        ]
        store, counts = stats["store"], stats["counts"]
        leader = next((one for one in masters if one.role == "leader"), None)
        given, wanted = store["durability_available"], store["durability"]
        facts = HealthFacts(
            now_ms=now_ms,
            ready=counts["ready"],
            running=counts["running"],
            oldest_wait_ms=stats["oldest_wait_ms"],
            has_leader=stats["masters"]["leader_id"] is not None,
            late_leader=None
            if leader is None or leader.is_fresh
            else SilentProcess(
                leader.seen.record.node_id or leader.seen.record.id,
                leader.seen.last_seen_ms,
                id=leader.seen.record.id,
            ),
            stale_masters=sum(not one.is_fresh for one in masters if one is not leader),
            fresh_workers=stats["workers"]["fresh"],
            stale_workers=stats["workers"]["stale"],
            busy=stats["workers"]["busy"],
            slots=stats["workers"]["max_jobs"],
            detached_workers=_detached(workers, now_ms, self._stale_ms.current),
            store_faults=store["faults"],
            duty_faults=stats["duty_faults"],
            durability=wanted,
            given_durability=given,
            is_less_durable=_LEVELS.index(given) < _LEVELS.index(wanted),
            latency_ms=store["latency_ms"] or 0.0,
            memory_bytes=store["used_memory_bytes"],
            max_memory_bytes=store["max_memory_bytes"],
            unserved=_unserved(await self._ready_names(), _served(workers, now_ms, self._stale_ms.current)),
            longest=await self._longest(stats["oldest_startable"]),
            limits=(),
            pauses=(),
            failing=await self._failing(now_ms),
            failed_lately=_failed(points[-_LATELY:]),
            failed_before=_failed(points[:-_LATELY]) * _LATELY / (_MINUTES - _LATELY),
            definitions=await self._troubled.get(),
            backlog=_backlog(points),
            calendars=await self._ending.get(),
        )
        pauses = [(stored, usage) for stored, usage in constraints if is_paused(stored)]
        pauses.sort(key=lambda pair: -(pair[1].waiting or 0))
        return _HealthReading(facts, await self._full.follow(constraints, now_ms), pauses[:MOST])

    async def _points(self, now_ms: int) -> list[NameCounts | None]:
        last = now_ms // STEP_MS["minute"]
        return await self._history.series(TOTAL, "minute", range(last - _MINUTES + 1, last + 1))

    async def _ready_names(self) -> Mapping[str, int]:
        """Return the number of ready jobs by name, from the leader's last sample. If no master leads, count the jobs
        instead."""
        if sample := await self._history.backlog():
            return {name: one.ready for name, one in sample.names.items()}
        page = await self._stats.names("1h", sort="ready", limit=MOST)
        return {row["name"]: row["ready"] for row in page["names"]}

    async def _longest(self, oldest: Mapping[str, Any] | None) -> LongWait | None:
        if oldest is None or oldest["wait_ms"] < WAIT_WARN_MS:
            return None
        wait = LongWait(oldest["job_id"], oldest["name"], oldest["wait_ms"])
        try:
            explained = await self._why.why(wait.job_id, self._nobody)
        except NotFoundError:
            return None
        cause = next((one for one in explained.verdicts if isinstance(one, _CAUSES)), None)
        if cause is None:
            return wait
        is_queued = isinstance(cause, WorkersUnavailable) and cause.full == cause.workers
        figures = {key: value for key, value in asdict(cause).items() if isinstance(value, str | int | None)}
        return replace(
            wait, cause=cause.text, is_queued=is_queued, cause_code=cause.code, cause_figures=figures
        )

    async def _failing(self, now_ms: int) -> list[FailingJobs]:
        page = await self._stats.names("1h", sort="failed", limit=MAX_NAMES)
        rows = [row for row in page["names"] if row["is_failing"]]
        if not rows:
            return []
        recent: dict[str, list[GroupedFailures]] = {}
        for group in await self._history.failure_groups():
            if now_ms - group.last_seen_ms < HOUR_MS:
                recent.setdefault(group.name, []).append(group)
        found = []
        for row in rows:
            groups = recent.get(row["name"], [])
            minded = [group for group in groups if group.is_open(now_ms)]
            if minded or not groups:
                kind = _newest_kind(minded, now_ms)
                found.append(FailingJobs(row["name"], row["failed"], 1 - row["success_share"], kind))
        return found

    async def _troubled_definitions(self) -> list[TroubledDefinition]:
        condition = DefinitionFilter.TROUBLED
        page = await self._definitions.page("", MOST, condition=condition, runs=SKIPS_OF_A_FAULT)
        found = []
        for one in page.definitions:
            run = one.last_run.run if one.last_run else None
            is_missed = run is not None and run.outcome == "missed"
            due_ms = run.due_at_ms if run is not None and is_missed else one.next_due_ms
            skipped = skips_in_a_row([shown.run for shown in one.runs])
            skips = len(skipped) if len(skipped) >= SKIPS_OF_A_FAULT else 0
            if due_ms is not None or skips:
                name = one.known.stored.definition.name
                reason = str(skipped[0].reason) if skips else ""
                found.append(TroubledDefinition(name, is_missed, due_ms or 0, skips, reason))
        return found

    async def _ending_calendars(self) -> list[EndingCalendar]:
        _, now_ms = await self._workers.all_with_time()
        return (await ending_calendars(self._calendars, now_ms))[:MAX_NAMES]


def _paused(stored: StoredConstraint, usage: Usage, access: ContentAccess) -> Iterator[PausedJobs]:
    constraint, waiting = stored.constraint, usage.waiting or 0
    if constraint.name.startswith(PAUSE_PREFIX):
        of, subject, key = _jobs_of(access.matcher(constraint.matcher.document))
        yield PausedJobs(
            constraint.name,
            "pause",
            of,
            subject,
            waiting,
            stored.created_at_ms,
            by=stored.created_by or "",
            reason=constraint.reason,
            until_ms=constraint.expires_at_ms,
            key=key,
        )
    elif constraint.paused:
        yield PausedJobs(
            constraint.name,
            "paused",
            "constraint",
            constraint.name,
            waiting,
            stored.changed_at_ms,
            reason=constraint.reason,
        )
    else:
        values = [
            access.key_text(constraint.key, key_value(one.value).text)
            for one in constraint.overrides
            if one.limits.paused
        ]
        values += [
            json.dumps(access.matcher(one.matcher.document), ensure_ascii=False)
            for one in constraint.conditions
            if one.limits.paused
        ]
        shown = ", ".join(values[:_MAX_VALUES]) + (", …" if len(values) > _MAX_VALUES else "")
        yield PausedJobs(
            constraint.name,
            "paused_values",
            "value",
            shown,
            usage.held or 0,
            stored.changed_at_ms,
            reason=constraint.reason,
            key=str(constraint.key),
            values=len(values),
        )


def _jobs_of(
    matcher: Mapping[str, Any],
) -> tuple[Literal["name", "tag", "value", "matcher"], str, str]:
    """Describe the jobs that a pause holds back. Return the kind of property that they share, the property itself (a
    name, tag or value), and, for a value, its path."""
    field, op, value = matcher.get("field"), matcher.get("op"), matcher.get("value")
    if op == "eq" and field == "name":
        return "name", str(value), ""
    if op == "eq" and field == "tags":
        return "tag", str(value), ""
    members = matcher.get("all") or ()
    last = members[-1] if members else {}
    if last.get("op") == "eq" and last.get("field"):
        return "value", key_value(last["value"]).text, str(last["field"])
    return "matcher", "", ""


def _served(workers: Sequence[Worker], now_ms: int, stale_ms: int) -> Collection[str]:
    """Return the names that live workers serve. Draining workers also count, because other workers usually replace them
    soon."""
    live = (one for one in workers if one.state(now_ms, stale_ms) in ("fresh", "draining"))
    return {name for one in live for name in one.spec.names}


def _unserved(ready: Mapping[str, int], served: Collection[str]) -> list[tuple[str, int]]:
    found = [
        (name, count)
        for name, count in ready.items()
        if count > 0 and name not in served and not name.startswith(RESERVED_PREFIX)
    ]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:MAX_NAMES]


def _detached(workers: Sequence[Worker], now_ms: int, stale_ms: int) -> list[SilentProcess]:
    """Return the workers that were detached because they were silent, the workers with the most jobs first."""
    fresh = [one for one in workers if one.state(now_ms, stale_ms) == "fresh"]
    found = [
        SilentProcess(_process(gone), gone.last_seen_ms, gone.busy, gone.id, _successor(gone, fresh))
        for gone in workers
        if gone.is_detached and gone.detached_by == "silence" and not gone.spec.is_built_in
    ]
    return sorted(found, key=lambda one: -one.held)[:MOST]


def _successor(gone: Worker, fresh: Sequence[Worker]) -> str:
    """Return the worker that took the place of a detached worker. It is on the same machine, serves the same names, and
    registered after the detached worker fell silent. Return an empty text if there is no such worker, or if the
    detached worker still holds jobs."""
    if gone.busy:
        return ""
    successors = (
        one
        for one in fresh
        if one.spec.node_id == gone.spec.node_id
        and one.registered_at_ms > gone.last_seen_ms
        and set(gone.spec.names) <= set(one.spec.names)
    )
    return next(map(_process, successors), "")


def _process(worker: Worker) -> str:
    name = worker.spec.node_id or worker.id
    return f"{name}:{worker.spec.pid}" if worker.spec.pid else name


def _newest_kind(groups: Sequence[GroupedFailures], now_ms: int) -> NewKind | None:
    """Return the first failure group in the list that is new or came back, or None if there is none."""
    for group in groups:
        marks = group.marks(now_ms)
        if not marks:
            continue
        versions = [one.version for one in group.versions if now_ms - one.first_seen_ms < HOUR_MS]
        mark: Literal["new", "regressed"] = "new" if "new" in marks else "regressed"
        return NewKind(mark, group.cause, group.first_seen_ms, versions[0] if versions else "")
    return None


def _failed(points: Sequence[NameCounts | None]) -> int:
    return sum(one.failed for one in points if one)


def _backlog(points: Sequence[NameCounts | None]) -> list[int | None]:
    """Return the numbers of ready jobs in the last complete minutes. Return an empty list if the first or the last
    number is unknown."""
    last = [one.backlog if one and one.backlog >= 0 else None for one in points[-_LATELY - 1 : -1]]
    return last if last and None not in (last[0], last[-1]) else []
