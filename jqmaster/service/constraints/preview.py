"""Previews constraints: finds the waiting jobs to which a constraint would apply. The time and the number of reads are
bounded."""

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.clock import Clock
from jqmaster.domain.constraints.constraint import check_key_value
from jqmaster.domain.constraints.weight import THOUSAND, Weight, weight_of
from jqmaster.domain.identity.quota import Quota
from jqmaster.domain.jobs.job import Job
from jqmaster.domain.matching.fields import MISSING, JobFields
from jqmaster.domain.matching.key_value import KeyValue, canonical, key_value
from jqmaster.domain.matching.matcher import Matcher
from jqmaster.domain.matching.paths import Path
from jqmaster.errors import OverloadedError, RateLimitedError
from jqmaster.service.constraints.documents import condition_of, refusing
from jqmaster.shared_bound import Portion
from jqmaster.store.constraints.lanes import LaneStore
from jqmaster.store.constraints.usage import UsageStore, WaitingLane
from jqmaster.store.jobs.placement import fields_of

# Maximum number of jobs that a preview reads, and maximum time that it takes.
PREVIEW_MAX_JOBS: Final = 100_000
PREVIEW_MAX_S: Final = 2.0
# Maximum number of previews at a time. Every caller that may read constraints may request previews, so previews must
# not overload the store.
MAX_PREVIEWS: Final = 2
MAX_EXAMPLES: Final = 20
# Maximum number of key values that are shown.
MAX_TOP_KEYS: Final = 20


@dataclass(frozen=True, slots=True)
class OverrideTargets:
    """Finds the override that applies to a job. Overrides are identified by their positions in the request. An override
    for a value takes precedence over an override with a condition. An earlier condition takes precedence over a later
    one."""

    values: Mapping[bytes, int]
    conditions: Sequence[tuple[int, Matcher]]

    @classmethod
    def of(cls, documents: Sequence[Mapping[str, Any]]) -> "OverrideTargets":
        """Return the targets of the overrides of a checked request. Raise InvalidError."""
        values: dict[bytes, int] = {}
        conditions: list[tuple[int, Matcher]] = []
        for i, one in enumerate(documents):
            matcher = condition_of(one, i)
            if matcher is not None:
                conditions.append((i, matcher))
                continue
            with refusing():
                check_key_value(one["value"], ("overrides", i, "value"))
            values[canonical(one["value"])] = i
        return cls(values, conditions)

    def of_job(self, key: KeyValue, fields: JobFields) -> int | None:
        """Return the position of the override that applies to a job with this value of the key. None: no override
        applies."""
        found = self.values.get(key.canonical)
        if found is not None:
            return found
        return next((i for i, matcher in self.conditions if matcher.matches(fields)), None)

    @property
    def ask_argument(self) -> bool:
        return any("argument" in matcher.reads for _, matcher in self.conditions)


NO_OVERRIDES: Final = OverrideTargets({}, ())


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a constraint that a preview looks for."""

    matcher: Matcher
    key: Path | None = None
    overrides: OverrideTargets = NO_OVERRIDES
    units: "AskedUnits | None" = None


@dataclass(frozen=True, slots=True)
class OverrideReach:
    """The number of waiting jobs to which an override would apply, and the number of different key values of these
    jobs."""

    jobs: int
    values: int


@dataclass(frozen=True, slots=True)
class AskedUnits:
    """The weight that a preview applies, and the smallest limit in units. None: the request gives no limit."""

    weight: Weight
    least_limit: int | None

    @property
    def asks_argument(self) -> bool:
        return self.weight.path is not None and self.weight.path.root == "argument"


@dataclass(frozen=True, slots=True)
class PreviewUnits:
    """The weights of the counted jobs, in thousandths.

    * `by_default`: the number of jobs that get the default weight because they have no number at the path.
    * `too_heavy`: the number of jobs that are heavier than a limit, with some examples.
    """

    unit: str
    total: int
    heaviest: int
    by_default: int
    too_heavy: int
    too_heavy_jobs: list[str]


@dataclass(frozen=True, slots=True)
class Preview:
    """The waiting jobs to which a constraint would apply.

    * `without_key`: the number of matching jobs without a value of the key.
    * `overrides`: the counts of each override that applies to any job, by the position of the override in the request.
    """

    count: int
    without_key: int
    looked_at: int
    is_exact: bool
    examples: list[Job]
    key: Path | None
    keys: list[tuple[str, int]] | None
    distinct_keys: int | None
    overrides: Mapping[int, OverrideReach]
    units: PreviewUnits | None = None


class PreviewTurns:
    """Admits only a few previews at a time, and only a limited number of each caller in a minute. `running`: the
    namespace's share of the previews that may run at once."""

    def __init__(self, clock: Clock, running: Portion) -> None:
        self._asked = Quota()
        self._clock = clock
        self._running = running

    @contextlib.contextmanager
    def taken(self, who: str, most_per_minute: int) -> Iterator[None]:
        """Admit a preview of the caller `who` for the duration of the context. Raise OverloadedError if too many
        previews are running, and RateLimitedError if the caller has started too many."""
        now_s = self._clock.monotonic_s()
        if self._asked.count(who, now_s) >= most_per_minute:
            raise RateLimitedError(
                f"more than {most_per_minute} previews within a minute; wait a moment",
                code="too_many_previews",
                retry_after_s=self._asked.left_s(now_s),
            )
        if not self._running.has_room():
            raise OverloadedError("other previews are running", retry_after_s=PREVIEW_MAX_S)
        self._asked.add(who, now_s)
        self._running.take()
        try:
            yield
        finally:
            self._running.give()


class Previews:
    """Previews constraints. `clock`: measures how long a preview takes, which is limited."""

    def __init__(self, store: LaneStore, usage: UsageStore, clock: Clock, turns: PreviewTurns) -> None:
        self._store = store
        self._usage = usage
        self._clock = clock
        self._turns = turns

    async def run(self, wanted: Wanted, limit: int, *, who: str, most_per_minute: int) -> Preview:
        """Return a preview with up to `limit` examples. Raise what `PreviewTurns.taken` raises."""
        with self._turns.taken(who, most_per_minute):
            return await _Scan(self._store, self._usage, self._clock, limit).run(wanted)


class _Weighing:
    """Adds up the weights of the jobs of a preview."""

    def __init__(self, asked: AskedUnits) -> None:
        self._weight = asked.weight
        self._most = None if asked.least_limit is None else asked.least_limit * THOUSAND
        self._reader = asked.weight.path.reader() if asked.weight.path else None
        self._total = self._heaviest = self._by_default = self._too_heavy = 0
        self._too_heavy_jobs: list[str] = []

    @property
    def needs_each(self) -> bool:
        return self._reader is not None

    def add(self, job: Job) -> None:
        own = None if self._reader is None else weight_of(self._reader(fields_of(job)))
        if own is None and self._reader is not None:
            self._by_default += 1
        self._count(self._weight.default if own is None else own, [job.id], 1)

    def add_many(self, job_ids: Sequence[str], count: int) -> None:
        """Add `count` jobs that all have the default weight. `job_ids`: the IDs of some of them."""
        self._count(self._weight.default, job_ids, count)

    def _count(self, weight: int, job_ids: Sequence[str], count: int) -> None:
        if not count:
            return
        self._total += weight * count
        self._heaviest = max(self._heaviest, weight)
        if self._most is not None and weight > self._most:
            self._too_heavy += count
            self._too_heavy_jobs += job_ids[: MAX_EXAMPLES - len(self._too_heavy_jobs)]

    def told(self) -> PreviewUnits:
        return PreviewUnits(
            self._weight.unit,
            self._total,
            self._heaviest,
            self._by_default,
            self._too_heavy,
            self._too_heavy_jobs,
        )


class _Scan:
    """One scan of the waiting jobs. If the job name alone decides whether the constraint applies, whole lanes are
    counted without reading their jobs."""

    def __init__(self, store: LaneStore, usage: UsageStore, clock: Clock, limit: int) -> None:
        self._store = store
        self._usage = usage
        self._clock = clock
        self._limit = limit
        self._weighing: _Weighing | None = None
        self._ends_at_s = clock.monotonic_s() + PREVIEW_MAX_S
        self._seen: set[str] = set()
        self._count = 0
        self._without_key = 0
        self._is_exact = True
        self._examples: list[Job] = []
        self._keys: Counter[KeyValue] = Counter()
        # Maps the position of an override to its key values, and each key value to the number of jobs.
        self._overridden: dict[int, Counter[KeyValue]] = {}

    async def run(self, wanted: Wanted) -> Preview:
        matcher, key, overrides = wanted.matcher, wanted.key, wanted.overrides
        reader = key.reader() if key else None
        self._weighing = _Weighing(wanted.units) if wanted.units else None
        with_argument = (
            "argument" in matcher.reads
            or (key is not None and key.root == "argument")
            or overrides.ask_argument
            or (wanted.units is not None and wanted.units.asks_argument)
        )

        async def look_at(job_ids: Sequence[str]) -> None:
            fresh = [job_id for job_id in dict.fromkeys(job_ids) if job_id not in self._seen]
            self._seen.update(fresh)
            for job in await self._usage.jobs(fresh, with_argument=with_argument):
                fields = fields_of(job)
                if not matcher.matches(fields):
                    continue
                if reader is not None:
                    value = reader(fields)
                    if value is MISSING:
                        self._without_key += 1
                        continue
                    one = key_value(value)
                    self._keys[one] += 1
                    place = overrides.of_job(one, fields)
                    if place is not None:
                        self._overridden.setdefault(place, Counter())[one] += 1
                self._count += 1
                if self._weighing:
                    self._weighing.add(job)
                if len(self._examples) < self._limit:
                    self._examples.append(job)

        needs_each = key is not None or (self._weighing is not None and self._weighing.needs_each)
        await self._walk(matcher, look_at, needs_each=needs_each)
        return Preview(
            self._count,
            self._without_key,
            len(self._seen),
            self._is_exact,
            self._examples,
            key,
            None if key is None else [(k.text, n) for k, n in self._keys.most_common(MAX_TOP_KEYS)],
            None if key is None else len(self._keys),
            {i: OverrideReach(keys.total(), len(keys)) for i, keys in self._overridden.items()},
            self._weighing.told() if self._weighing else None,
        )

    async def _walk(
        self, matcher: Matcher, look_at: Callable[[Sequence[str]], Awaitable[None]], *, needs_each: bool
    ) -> None:
        async for lanes in self._usage.lanes():
            unread: list[WaitingLane] = []
            for lane in lanes:
                verdict = matcher.given_name(lane.name)
                if verdict is None or (verdict and needs_each):
                    unread.append(lane)
                elif verdict:
                    missing = self._limit - len(self._examples)
                    if missing > 0:
                        async for ids in self._usage.ready_in([lane], min(missing, MAX_EXAMPLES)):
                            self._examples += (await self._usage.jobs(ids, with_argument=False))[:missing]
                    self._count += lane.count
                    if self._weighing:
                        self._weighing.add_many([], lane.count)
            async for ids in self._usage.ready_in(unread, PREVIEW_MAX_JOBS):
                if self._is_over():
                    return
                await look_at(ids)
            if self._is_over():
                return
        async for ids in self._store.waiting_not_ready():
            if self._is_over():
                return
            await look_at(ids)

    def _is_over(self) -> bool:
        if len(self._seen) >= PREVIEW_MAX_JOBS or self._clock.monotonic_s() > self._ends_at_s:
            self._is_exact = False
            return True
        return False
