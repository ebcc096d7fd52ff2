"""Replays the last hour under a constraint, from the jobs that are still in the store, within bounds."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.clock import Clock
from jqmaster.domain.constraints.constraint import NO_CONDITION, Constraint
from jqmaster.domain.constraints.replay import STEP_MS, PastRun, Replay, replay
from jqmaster.domain.constraints.weight import THOUSAND
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.jobs.job import FINISHED, Job, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.matching.fields import MISSING
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.operations.tally import TOTAL
from jqmaster.service.constraints.documents import draft_of
from jqmaster.service.constraints.preview import PreviewTurns
from jqmaster.store.constraints.usage import UsageStore
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.jobs.listing import MAX_LOOKED_AT, JobLists, reached_ms
from jqmaster.store.jobs.placement import fields_of
from jqmaster.store.operations.history import HistoryStore

REPLAY_MS: Final = 3_600_000
# A replay reads at most this many jobs, for at most this long.
REPLAY_MAX_JOBS: Final = 50_000
REPLAY_MAX_S: Final = 2.0
# A placeholder, because a draft must have a name.
_DRAFT_NAME: Final = "draft"


@dataclass(frozen=True, slots=True)
class PastReplay:
    """A replay, and its basis.

    * `looked_at`: number of jobs read.
    * `is_whole`: all stored jobs that ended within the last hour were read; otherwise `told.from_ms` is later than an
      hour ago.
    * `gone`: number of jobs that ended since `told.from_ms` and are already deleted, by the counts of the history.
    * `without_key`: number of matching jobs that lack the key.
    """

    told: Replay
    constraint: Constraint
    looked_at: int
    is_whole: bool
    gone: int
    without_key: int


class PastJobs:
    """Reads the runs of stored jobs. `clock` bounds how long that may take."""

    def __init__(self, lists: JobLists, usage: UsageStore, clock: Clock) -> None:
        self._lists = lists
        self._usage = usage
        self._clock = clock

    async def read(self, runs: "_Runs", wanted: JobFilter) -> int | None:
        """Read the newest jobs, within bounds. Return the instant before which no jobs were read, or None if all were
        read."""
        ends_at_s = self._clock.monotonic_s() + REPLAY_MAX_S / 2
        cursor = None
        while True:
            page = await self._lists.page(wanted, limit=MAX_LOOKED_AT, cursor=cursor, is_backward=True)
            runs.looked_at += page.looked_at
            jobs = page.jobs
            if runs.asks_argument:
                # Lists omit long arguments, so read these jobs again with their whole arguments.
                jobs = await self._usage.jobs([job.id for job in jobs], with_argument=True)
            for job in jobs:
                runs.add(job)
            cursor = page.cursor
            if cursor is None:
                return None
            if runs.looked_at >= REPLAY_MAX_JOBS or self._clock.monotonic_s() > ends_at_s:
                return reached_ms(cursor)


class Replays:
    """Replays the last hour under a constraint. `turns` are shared with previews, which cost the store as much.
    Methods raise what the store raises."""

    def __init__(
        self, past: PastJobs, inspector: Inspector, history: HistoryStore, turns: PreviewTurns
    ) -> None:
        self._past = past
        self._inspector = inspector
        self._history = history
        self._turns = turns

    async def last_hour(
        self, fields: Mapping[str, Any], access: ContentAccess, *, who: str, most_per_minute: int
    ) -> PastReplay:
        """Replay the last hour under a constraint with these `fields` in its document. Raise InvalidError,
        OverloadedError, RateLimitedError, or ForbiddenError if the caller may not tell jobs apart by its matcher or
        key.
        """
        constraint = draft_of(_DRAFT_NAME, fields)
        access.check_matcher(constraint.matcher.document, ("matcher",))
        access.check_path(constraint.key, ("key",))
        if constraint.weight:
            access.check_path(constraint.weight.path, ("weight", "from"))
        with self._turns.taken(who, most_per_minute):
            return await self._replayed(constraint)

    async def _replayed(self, constraint: Constraint) -> PastReplay:
        to_ms = await self._history.now_ms()
        from_ms = to_ms - REPLAY_MS
        runs = _Runs(constraint)
        await self._past.read(runs, JobFilter(state=JobState.RUNNING, matcher=constraint.matcher))
        ended = JobFilter(finished_after_ms=from_ms, matcher=constraint.matcher)
        reached = await self._past.read(runs, ended)
        if reached is not None:
            from_ms = max(from_ms, reached)
        told = await asyncio.to_thread(replay, constraint, runs.found, from_ms, to_ms)
        gone = await self._gone(from_ms, to_ms)
        return PastReplay(told, constraint, runs.looked_at, reached is None, gone, runs.without_key)

    async def _gone(self, from_ms: int, to_ms: int) -> int:
        """Return how many jobs ended in the whole minutes of this period and are no longer stored."""
        first = -(-from_ms // STEP_MS)
        series = await self._history.series(TOTAL, "minute", range(first, to_ms // STEP_MS + 1))
        ended = sum(int(getattr(counts, state)) for counts in series if counts for state in FINISHED)
        return max(0, ended - await self._inspector.ended_since(first * STEP_MS))


class _Runs:
    """The last runs of the jobs that a constraint applies to."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._reader = constraint.key.reader() if constraint.key else None
        path = constraint.weight.path if constraint.weight else None
        self.asks_argument = (constraint.key is not None and "argument" in constraint.reads) or (
            path is not None and path.root == "argument"
        )
        self.found: list[PastRun] = []
        self.looked_at = 0
        self.without_key = 0

    def add(self, job: Job) -> None:
        """Add the last run of a job. A job that never started has no run."""
        if not job.started_at_ms:
            return
        key, condition, weight = None, NO_CONDITION, THOUSAND
        if self._constraint.weight is not None:
            own = self._constraint.own_weight(fields_of(job))
            weight = self._constraint.weight.default if own is None else own
        if self._reader is not None:
            fields = fields_of(job)
            value = self._reader(fields)
            if value is MISSING:
                self.without_key += 1
                return
            key, condition = key_value(value), self._constraint.condition_of(fields)
        ended_ms = job.finished_at_ms if job.state in FINISHED else None
        self.found.append(PastRun(job.started_at_ms, ended_ms, key, condition, weight))
