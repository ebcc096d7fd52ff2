"""Replays the last hour under a constraint, with the jobs that are still in the store. The time and the number of reads
are bounded."""

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
# Maximum number of jobs that a replay reads, and maximum time that it takes.
REPLAY_MAX_JOBS: Final = 50_000
REPLAY_MAX_S: Final = 2.0
# The name of the replayed constraint, which needs one to be valid.
_DRAFT_NAME: Final = "draft"


@dataclass(frozen=True, slots=True)
class PastReplay:
    """A replay, and the jobs on which it is based.

    * `looked_at`: the number of jobs that were read.
    * `is_whole`: whether all stored jobs that ended in the last hour were read. If not, `told.from_ms` is less than an
      hour ago.
    * `gone`: the number of jobs that ended since `told.from_ms` and are already deleted. The history has their number.
    * `without_key`: the number of matching jobs without a value of the key.
    """

    told: Replay
    constraint: Constraint
    looked_at: int
    is_whole: bool
    gone: int
    without_key: int


class PastJobs:
    """Reads the runs of stored jobs. `clock`: measures how long the reads take, which is limited."""

    def __init__(self, lists: JobLists, usage: UsageStore, clock: Clock) -> None:
        self._lists = lists
        self._usage = usage
        self._clock = clock

    async def read(self, runs: "_Runs", wanted: JobFilter) -> int | None:
        """Read the newest jobs that ended, up to the maximum number and time. Return the time before which no jobs were
        read. None: all jobs were read."""
        ends_at_s = self._clock.monotonic_s() + REPLAY_MAX_S / 2
        cursor = None
        while True:
            page = await self._lists.page(wanted, limit=MAX_LOOKED_AT, cursor=cursor, is_backward=True)
            runs.looked_at += page.looked_at
            jobs = page.jobs
            if runs.asks_argument:
                # A list leaves out long arguments, so read jobs with such arguments again, in full.
                jobs = await self._usage.jobs([job.id for job in jobs], with_argument=True)
            for job in jobs:
                runs.add(job)
            cursor = page.cursor
            if cursor is None:
                return None
            if runs.looked_at >= REPLAY_MAX_JOBS or self._clock.monotonic_s() > ends_at_s:
                return reached_ms(cursor)


class Replays:
    """Replays the last hour under a constraint. `turns`: limits replays and previews together, because both cost the
    store the same. Methods raise what the store raises."""

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
        """Replay the last hour under a constraint that `fields` describe. Raise InvalidError, OverloadedError,
        RateLimitedError, and ForbiddenError if the caller may not distinguish jobs by the constraint's matcher or
        key."""
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
        """Return how many jobs ended in this period and are no longer stored. Only whole minutes of the period
        count."""
        first = -(-from_ms // STEP_MS)
        series = await self._history.series(TOTAL, "minute", range(first, to_ms // STEP_MS + 1))
        ended = sum(int(getattr(counts, state)) for counts in series if counts for state in FINISHED)
        return max(0, ended - await self._inspector.ended_since(first * STEP_MS))


class _Runs:
    """Collects the last runs of the jobs to which a constraint applies."""

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
        """Add the last run of a job. Ignore a job that never started."""
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
