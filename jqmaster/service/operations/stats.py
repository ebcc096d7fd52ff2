"""Statistics: the current state, history, figures by name, and failures."""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import msgpack

from jqmaster.clock import Clock
from jqmaster.config import Durability
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.histogram import Histogram
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.failures import GroupedFailures, Ignore
from jqmaster.domain.jobs.stack_frame import StackFrame
from jqmaster.domain.jobs.triage import AssignedPerson, Resolution
from jqmaster.domain.operations.health import is_failing
from jqmaster.domain.operations.tally import COUNTED, TOTAL, NameCounts
from jqmaster.errors import FieldError, InvalidError, NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.failures import FailureReader, ShownFailures
from jqmaster.service.operations.remembered import Remembered
from jqmaster.service.workers.masters import MasterService
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.operations.history import KEEP_MS, STEP_MS, BacklogSample, HistoryStore, Step
from jqmaster.store.workers.workers import WorkerStore

Span = Literal["1h", "3h", "6h", "24h", "7d", "30d"]
NameOrder = Literal["name", "pushed", "failed", "ready"]
Before = Literal["1d", "7d"]
BEFORE_MS: Final[Mapping[Before, int]] = {"1d": 86_400_000, "7d": 7 * 86_400_000}

# Maps each span to the length of its steps and their number.
SPANS: Final[Mapping[Span, tuple[Step, int]]] = {
    "1h": ("minute", 60),
    "3h": ("minute", 180),
    "6h": ("minute", 360),
    "24h": ("minute", 1_440),
    "7d": ("hour", 168),
    "30d": ("hour", 720),
}
# Maps each span to the steps for sums over the whole span. Hours are exact enough for the sums of a day.
_SUMMED: Final[Mapping[Span, tuple[Step, int]]] = {**SPANS, "24h": ("hour", 24)}
_MINUTE_S: Final = 60
# Time for which an answer is reused. Answers for long spans are reused longer, because they change little.
NOW_LIVES_S: Final = 0.9
SUMS_LIVE_S: Final[Mapping[Span, float]] = {"1h": 2, "3h": 5, "6h": 10, "24h": 10, "7d": 60, "30d": 60}
# After computing this many points of a history, let other tasks run.
_POINTS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class StoreState:
    """Facts that this master has read about the store.

    * `max_memory_bytes`: 0 if the memory is unlimited.
    * `duty_faults`: the failing side duties of this master and of the leader.
    """

    server: str
    durability: Durability
    durability_available: Durability
    used_memory_bytes: int
    max_memory_bytes: int
    faults: Sequence[str]
    duty_faults: Sequence[str]


class StatsService:
    """Computes the statistics of the API. Answers contain plain values, with instants in ISO 8601. Methods raise what
    `StoreClient.run` raises."""

    def __init__(
        self,
        history: HistoryStore,
        inspector: Inspector,
        workers: WorkerStore,
        masters: MasterService,
        clock: Clock,
        *,
        failures: FailureReader,
        stale_ms: LiveValue[int],
        store_state: Callable[[], StoreState],
    ) -> None:
        self._history = history
        self._inspector = inspector
        self._workers = workers
        self._masters = masters
        self._failures = failures
        self._clock = clock
        self._stale_ms = stale_ms
        self._store_state = store_state
        self._now = Remembered(clock, NOW_LIVES_S, self._look)
        self._sums = {
            span: Remembered(clock, SUMS_LIVE_S[span], partial(self._summed, span)) for span in SPANS
        }
        self._rows = {span: Remembered(clock, NOW_LIVES_S, partial(self._read_rows, span)) for span in SPANS}

    # --- now

    async def now(self) -> dict[str, Any]:
        """Return the current state, computed about once a second for all callers."""
        return await self._now.get()

    async def backlog(self) -> BacklogSample | None:
        """Return the leader's last sample of the ready jobs by name, or None while no master leads. The sample is at
        most a few seconds old."""
        return await self._history.backlog()

    async def _look(self) -> dict[str, Any]:
        asked_s = self._clock.monotonic_s()
        now_ms = await self._history.now_ms()
        latency_ms = (self._clock.monotonic_s() - asked_s) * 1000
        counts = await self._inspector.counts()
        backlog = await self._history.backlog()
        since_ms = backlog.whole.since_ms if backlog else 0
        startable = _oldest_startable(backlog, now_ms)
        state = self._store_state()
        return {
            "at": iso_ms(now_ms),
            "counts": {str(job_state): count for job_state, count in counts.items()},
            "oldest_wait_ms": max(0, now_ms - since_ms) if since_ms else None,
            "oldest_startable": startable,
            "rates": await self._rates(now_ms),
            "workers": await self._worker_counts(now_ms),
            "masters": await self._master_counts(),
            "store": {
                "server": state.server,
                "durability": state.durability,
                "durability_available": state.durability_available,
                "used_memory_bytes": state.used_memory_bytes,
                "max_memory_bytes": state.max_memory_bytes or None,
                "latency_ms": round(latency_ms, 1),
                "faults": list(state.faults),
            },
            "duty_faults": list(state.duty_faults),
        }

    async def counts_of(self, name: str) -> tuple[dict[str, int], dict[str, float]]:
        """Return the counts of a name over the last 30 days, and its rates of the last minute. The counts include
        `elapsed_ms`, an upper bound of the milliseconds for which its jobs ran."""
        now_ms = await self._history.now_ms()
        step, count = _SUMMED["30d"]
        last = now_ms // STEP_MS[step]
        sums = NameCounts()
        for counts in await self._history.series(name, step, range(last - count + 1, last + 1)):
            if counts is not None:
                sums.merge(counts)
        counted: dict[str, int] = {word: getattr(sums, word) for word in COUNTED}
        # The history has no sum of the run times, only the number of attempts in each range of run times. So estimate
        # the sum.
        elapsed_ms = sum(
            count * min(le_ms or sums.run.max_ms, sums.run.max_ms) for le_ms, count in sums.run.buckets()
        )
        return {**counted, "elapsed_ms": elapsed_ms}, await self._rates(now_ms, name)

    async def _rates(self, now_ms: int, name: str = TOTAL) -> dict[str, float]:
        """Return the rates of the last 60 seconds. They combine the counts of the current minute with a share of the
        previous minute's counts."""
        minute, into_ms = divmod(now_ms, STEP_MS["minute"])
        before, present = await self._history.series(name, "minute", [minute - 1, minute])
        share = 1 - into_ms / STEP_MS["minute"]

        def rate(word: str) -> float:
            whole = getattr(present, word, 0) + share * getattr(before, word, 0)
            return round(whole / _MINUTE_S, 3)

        return {word: rate(word) for word in COUNTED}

    async def _worker_counts(self, now_ms: int) -> dict[str, int]:
        found = {"fresh": 0, "stale": 0, "draining": 0, "detached": 0, "max_jobs": 0, "busy": 0}
        for worker in await self._workers.all():
            if worker.spec.is_built_in:
                continue
            found["busy"] += worker.busy
            if worker.is_detached:
                found["detached"] += 1
            elif worker.is_draining:
                found["draining"] += 1
            elif worker.is_fresh(now_ms, self._stale_ms.current):
                found["fresh"] += 1
                found["max_jobs"] += worker.spec.max_jobs
            else:
                found["stale"] += 1
        return found

    async def _master_counts(self) -> dict[str, Any]:
        masters, epoch = await self._masters.all()
        fresh = sum(master.is_fresh for master in masters)
        leader_id = next((m.seen.record.id for m in masters if m.role == "leader"), None)
        return {"fresh": fresh, "stale": len(masters) - fresh, "leader_id": leader_id, "epoch": epoch}

    # --- over time

    async def history(
        self, span: Span, name: str | None = None, before: Before | None = None
    ) -> dict[str, Any]:
        """Return the points of a span for one name or for all names, the current step last. `before`: return instead
        the hourly points of the period of the same length that lies this long before. Raise InvalidError if its hours
        are no longer kept."""
        step, count, back_ms = *SPANS[span], 0
        if before is not None:
            step, count, back_ms = (
                "hour",
                SPANS[span][1] * STEP_MS[step] // STEP_MS["hour"] + 1,
                BEFORE_MS[before],
            )
            if back_ms + count * STEP_MS["hour"] > KEEP_MS["hour"]:
                rule = f"cannot be combined with a span of {span}, because hours are kept for 30 days"
                raise InvalidError(f"before: {rule}", errors=[FieldError(("query", "before"), rule)])
        last = (await self._history.now_ms() - back_ms) // STEP_MS[step]
        numbers = range(last - count + 1, last + 1)
        series = await self._history.series(TOTAL if name is None else name, step, numbers)
        whole = series if name is None else await self._history.series(TOTAL, step, numbers)
        points = []
        for number, found, all_together in zip(numbers, series, whole, strict=True):
            counts = found or NameCounts()
            if counts.backlog < 0 and all_together is not None and all_together.backlog >= 0:
                # All names together have a backlog, so the leader took a sample. A sample leaves out names without
                # ready jobs, so this name had no ready job.
                counts.backlog = counts.oldest_wait_ms = 0
            points.append(_point(number * STEP_MS[step], counts))
            if len(points) % _POINTS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return {"name": name, "span": span, "step_s": STEP_MS[step] // 1000, "points": points}

    # --- by name

    async def names(
        self, span: Span, *, q: str = "", sort: NameOrder = "name", limit: int, cursor: str | None = None
    ) -> dict[str, Any]:
        """Return a page of the counted names with their sums over the span. Names that do not contain `q` are left out.
        Raise InvalidError for a cursor that does not belong to a list in this order."""
        rows = [row for row in await self._rows[span].get() if q in row["name"]]
        rows.sort(key=lambda row: _position(row, sort))
        if cursor is not None:
            after = _decode_cursor(cursor, sort)
            rows = [row for row in rows if _position(row, sort) > after]
        page = rows[:limit]
        more = len(rows) > limit
        return {
            "names": page,
            "next_cursor": _encode_cursor(sort, _position(page[-1], sort)) if more else None,
            "span": span,
        }

    async def _read_rows(self, span: Span) -> list[dict[str, Any]]:
        sums = await self._sums[span].get()
        seen = await self._history.names()
        ready = await self._inspector.ready_counts(list(seen))
        return [
            _row(name, sums.get(name) or NameCounts(), ready.get(name, 0), last_ms)
            for name, last_ms in seen.items()
        ]

    async def _summed(self, span: Span) -> dict[str, NameCounts]:
        step, count = _SUMMED[span]
        last = await self._history.now_ms() // STEP_MS[step]
        return await self._history.sums(step, range(last - count + 1, last + 1))

    async def name(self, name: str, span: Span, *, is_served: bool = False) -> dict[str, Any]:
        """Return one name with its histograms. Raise NotFoundError if the name was not counted in the last 30 days and
        `is_served` is False."""
        seen = await self._history.names()
        if name not in seen and not is_served:
            raise NotFoundError(f"nothing was counted for the name {name[:200]}", code="unknown_name")
        step, count = _SUMMED[span]
        last = await self._history.now_ms() // STEP_MS[step]
        sums = NameCounts()
        for counts in await self._history.series(name, step, range(last - count + 1, last + 1)):
            if counts is not None:
                sums.merge(counts)
        ready = await self._inspector.ready_counts([name])
        return {
            **_row(name, sums, ready[name], seen.get(name)),
            "wait_histogram": _buckets(sums.wait),
            "run_histogram": _buckets(sums.run),
            "span": span,
        }

    # --- failures

    async def failures(
        self,
        access: ContentAccess,
        *,
        name: str | None = None,
        q: str = "",
        version: str | None = None,
        is_ignored: bool | None = None,
        is_resolved: bool | None = None,
        is_open: bool | None = None,
        assignee: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        """Return a page of the groups of final failures, the latest first. Raise InvalidError for a cursor that does
        not belong to this list.

        * `q`: text in the name, or in the part of the failure text that the caller may see. Case is ignored.
        * `version`: a version of workers on which such failures were seen lately.
        """
        wanted, now_ms = q.casefold(), await self._history.now_ms()
        groups = [
            group
            for group in await self._failures.groups(access)
            if (name is None or group.name == name)
            and (wanted in group.message.casefold() or wanted in group.name.casefold())
            and (version is None or any(seen.version == version for seen in group.versions))
            and (is_ignored is None or group.is_ignored(now_ms) == is_ignored)
            and (is_resolved is None or group.is_resolved() == is_resolved)
            and (is_open is None or group.is_open(now_ms) == is_open)
            and (assignee is None or _assignee(group) == assignee)
        ]
        if cursor is not None:
            after = _decode_cursor(cursor, "failures")
            groups = [group for group in groups if (-group.last_seen_ms, group.id) > after]
        page = groups[:limit]
        more = len(groups) > limit
        return {
            "groups": [
                failure_group_view(shown, now_ms) for shown in await self._failures.shown(page, access)
            ],
            "next_cursor": _encode_cursor("failures", (-page[-1].last_seen_ms, page[-1].id))
            if more
            else None,
        }


def _oldest_startable(backlog: BacklogSample | None, now_ms: int) -> dict[str, Any] | None:
    """Return the longest-waiting ready job of the sample that no limit holds back."""
    whole = backlog.whole if backlog else None
    if backlog is None or whole is None or not whole.startable_job_id:
        return None
    job_id, since_ms = whole.startable_job_id, whole.startable_since_ms
    name = next(name for name, one in backlog.names.items() if one.startable_job_id == job_id)
    return {"job_id": job_id, "name": name, "wait_ms": max(0, now_ms - since_ms)}


def _point(at_ms: int, counts: NameCounts) -> dict[str, Any]:
    return {
        "at": iso_ms(at_ms),
        **{word: getattr(counts, word) for word in COUNTED},
        "wait": counts.wait.distribution(),
        "run": counts.run.distribution(),
        "backlog": None if counts.backlog < 0 else counts.backlog,
        "oldest_wait_ms": None if counts.oldest_wait_ms < 0 else counts.oldest_wait_ms,
    }


def _row(name: str, counts: NameCounts, ready: int, last_ms: int | None) -> dict[str, Any]:
    went_well = counts.succeeded + counts.discarded
    ended = went_well + counts.failed
    success_share = went_well / ended if ended else None
    return {
        "name": name,
        "ready": ready,
        **{word: getattr(counts, word) for word in COUNTED},
        "success_share": None if success_share is None else round(success_share, 4),
        "is_failing": is_failing(counts.failed, success_share),
        "wait": counts.wait.distribution(),
        "run": counts.run.distribution(),
        "last_seen_at": None if last_ms is None else iso_ms(last_ms),
    }


def _buckets(histogram: Histogram) -> list[dict[str, int | None]]:
    return [{"le_ms": le_ms, "count": count} for le_ms, count in histogram.buckets()]


def failure_group_view(shown: ShownFailures, now_ms: int) -> dict[str, Any]:
    """Return a group of failures in the form of the API."""
    group = shown.group
    return {
        "id": group.id,
        "name": group.name,
        "cause": group.cause,
        "message": shown.message,
        "message_hidden": shown.is_hidden,
        "error_type": shown.error_type,
        "count": group.count,
        "first_seen_at": iso_ms(group.first_seen_ms),
        "last_seen_at": iso_ms(group.last_seen_ms),
        "example_job_id": group.example_job_id or None,
        "trend": group.trend(now_ms),
        "marks": group.marks(now_ms),
        "versions": [
            {
                "version": seen.version,
                "count": seen.count,
                "first_seen_at": iso_ms(seen.first_seen_ms),
                "last_seen_at": iso_ms(seen.last_seen_ms),
            }
            for seen in group.versions
        ],
        "ignored": _ignored(group.ignore, group.changed(now_ms)) if group.ignore else None,
        "raised_at": _raised_at(shown.frame) if shown.frame else None,
        "assigned": _assigned(group.assignment) if group.assignment else None,
        "resolved": _resolved(group.resolution, group.reopened_by()) if group.resolution else None,
        "merged": [
            {"id": one.id, "message": one.message if shown.shows_merged else "", "count": one.count}
            for one in group.merged
        ],
    }


def _assignee(group: GroupedFailures) -> str | None:
    return group.assignment.assignee if group.assignment else None


def _raised_at(frame: StackFrame) -> dict[str, Any]:
    return {"file": frame.file, "function": frame.function, "code": frame.code}


def _assigned(assignment: AssignedPerson) -> dict[str, Any]:
    return {"assignee": assignment.assignee, "by": assignment.who, "at": iso_ms(assignment.at_ms)}


def _resolved(resolution: Resolution, reopened_by: str | None) -> dict[str, Any]:
    return {
        "by": resolution.who,
        "at": iso_ms(resolution.at_ms),
        "version": resolution.version or None,
        "reopened_by": reopened_by,
    }


def _ignored(ignore: Ignore, changed: str | None) -> dict[str, Any]:
    return {
        "by": ignore.who,
        "at": iso_ms(ignore.at_ms),
        "until": iso_ms(ignore.until_ms) if ignore.until_ms else None,
        "reason": ignore.reason,
        "ended_by": changed,
    }


_Position = tuple[Any, str]


def _position(row: Mapping[str, Any], sort: NameOrder) -> _Position:
    """Return the sort key of a row. It sorts larger numbers first, and equal numbers by name."""
    return (0 if sort == "name" else -row[sort], row["name"])


def _encode_cursor(order: str, position: _Position) -> str:
    return base64.urlsafe_b64encode(msgpack.packb([order, *position])).decode()


def _decode_cursor(cursor: str, order: str) -> _Position:
    try:
        given, number, text = msgpack.unpackb(
            base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
        )
        if given != order or type(number) is not int or not isinstance(text, str):
            raise ValueError
    except (ValueError, TypeError, binascii.Error, msgpack.UnpackException) as exc:
        raise InvalidError(
            "the cursor does not belong to a list in this order", code="invalid_cursor"
        ) from exc
    return (number, text)
