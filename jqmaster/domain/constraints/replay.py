"""Replay of past runs under a constraint that did not exist then: which jobs would it have held back?"""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.constraints.constraint import NO_CONDITION, Constraint, GateLimits
from jqmaster.domain.constraints.weight import THOUSAND
from jqmaster.domain.matching.key_value import KeyValue

STEP_MS: Final = 60_000
MAX_TOP_KEYS: Final = 20
_FREE: Final = float("inf")


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run of a job that the constraint applies to.

    * `ended_ms`: None if it still runs.
    * `key`: None if the constraint has no key.
    * `condition`: the ID of the conditional override that the job meets.
    * `weight`: in thousandths. It is read only under a constraint with a weight.
    """

    started_ms: int
    ended_ms: int | None
    key: KeyValue | None = None
    condition: str = NO_CONDITION
    weight: int = THOUSAND


@dataclass(frozen=True, slots=True)
class ReplayPoint:
    """One minute of a replay.

    * `held`: the most jobs held at one time.
    * `started_units`, `held_units`: the weights of the started and of the held jobs, in thousandths of units.
    """

    at_ms: int
    started: int
    held: int
    started_units: int
    held_units: int


@dataclass(frozen=True, slots=True)
class KeyReplay:
    """The result of a replay for one value of the key."""

    value: KeyValue
    started: int
    held: int
    longest_ms: int


@dataclass(frozen=True, slots=True)
class Replay:
    """The effect that the constraint would have had from `from_ms` to `to_ms`.

    * `held`: number of jobs that would have started later.
    * `held_now`: number of held jobs that would still wait.
    * `most_held`: the most jobs held at the same time.
    * `p95_ms` and `longest_ms`: how long the held jobs would have waited, counted up to `to_ms`.
    * `keys`: the values with the most held jobs.
    * `started_units`, `held_units` and `most_held_units`: the weights of the jobs in `started`, `held` and `most_held`,
      in thousandths.
    """

    from_ms: int
    to_ms: int
    started: int
    held: int
    held_now: int
    most_held: int
    p95_ms: int | None
    longest_ms: int | None
    keys: list[KeyReplay] | None
    distinct_keys: int | None
    points: list[ReplayPoint]
    started_units: int
    held_units: int
    most_held_units: int


@dataclass(frozen=True, slots=True)
class _Delay:
    """A job that wanted to start at `from_ms` and would have started at `to_ms`, or would still wait."""

    from_ms: int
    to_ms: float
    key: KeyValue | None
    weight: int


def replay(constraint: Constraint, runs: Iterable[PastRun], from_ms: int, to_ms: int) -> Replay:
    """Simulate the runs: each job asks to start at its real start time, and runs for its real run time.

    Jobs that started before `from_ms` are not held, but they hold slots and count towards rates. Backlog limits and
    turns between values are left out, because they delay no job at its gate. Reserved slots are left out, too.
    """
    by_gate: dict[bytes | None, list[PastRun]] = {}
    for run in runs:
        by_gate.setdefault(run.key.canonical if run.key else None, []).append(run)
    delays: list[_Delay] = []
    for gate in by_gate.values():
        delays += _delays(constraint, sorted(gate, key=lambda run: run.started_ms), from_ms, to_ms)
    started = [run for gate in by_gate.values() for run in gate if run.started_ms >= from_ms]
    waits = sorted(int(min(delay.to_ms, to_ms)) - delay.from_ms for delay in delays)
    points = _timeline(started, delays, from_ms, to_ms)
    return Replay(
        from_ms=from_ms,
        to_ms=to_ms,
        started=len(started),
        held=len(delays),
        held_now=sum(delay.to_ms > to_ms for delay in delays),
        most_held=max((point.held for point in points), default=0),
        p95_ms=waits[(len(waits) * 95 - 1) // 100] if waits else None,
        longest_ms=waits[-1] if waits else None,
        keys=None if constraint.key is None else _top_keys(started, delays, to_ms),
        distinct_keys=None if constraint.key is None else len({run.key for run in started}),
        points=points,
        started_units=sum(run.weight for run in started),
        held_units=sum(delay.weight for delay in delays),
        most_held_units=max((point.held_units for point in points), default=0),
    )


def _delays(constraint: Constraint, runs: Sequence[PastRun], from_ms: int, to_ms: int) -> Iterable[_Delay]:
    """Yield the delayed runs at one gate; `runs` are ordered by their start."""
    key = runs[0].key
    limits = constraint.limits_of(key, runs[-1].condition)
    if constraint.weight is not None:
        yield from _delays_by_weight(limits, runs, from_ms)
        return
    ends: list[float] = []
    most_starts = limits.rate.limit if limits.rate else 0
    starts: deque[float] = deque(maxlen=most_starts)
    last = 0.0
    for run in runs:
        at = float(run.started_ms)
        if run.started_ms >= from_ms:
            at = _FREE if limits.paused else max(at, last)
            if limits.rate and len(starts) == most_starts:
                at = max(at, starts[0] + limits.rate.period_ms)
            if limits.concurrency is not None:
                while len(ends) >= limits.concurrency:
                    at = max(at, heapq.heappop(ends))
            last = at
            if at > run.started_ms:
                yield _Delay(run.started_ms, at, run.key, run.weight)
        took = _FREE if run.ended_ms is None else run.ended_ms - run.started_ms
        if limits.concurrency is not None:
            heapq.heappush(ends, at + took)
        if limits.rate:
            starts.append(at)


class _Counted:
    """The units that count against one limit, and when they stop counting. `most`: the limit in units. None: there is
    no limit."""

    def __init__(self, most: int | None) -> None:
        self._most = None if most is None else most * THOUSAND
        self._until: list[tuple[float, int]] = []
        self._sum = 0

    def free_at(self, weight: int, at: float) -> float:
        """Return the first instant, not before `at`, with room for a job of this weight. Drop units that no longer
        count then."""
        if self._most is None:
            return at
        # Let a job that is heavier than the limit start once the whole limit is free.
        room = self._most - min(weight, self._most)
        while self._until and (self._until[0][0] <= at or self._sum > room):
            ends, counted = heapq.heappop(self._until)
            self._sum -= counted
            at = max(at, ends)
        return at

    def add(self, weight: int, until: float) -> None:
        if self._most is not None:
            heapq.heappush(self._until, (until, weight))
            self._sum += weight


def _delays_by_weight(limits: GateLimits, runs: Sequence[PastRun], from_ms: int) -> Iterable[_Delay]:
    """Yield the delayed runs as `_delays` does, for a constraint that counts units."""
    running, window = _Counted(limits.concurrency), _Counted(limits.rate.limit if limits.rate else None)
    last = 0.0
    for run in runs:
        at = float(run.started_ms)
        if run.started_ms >= from_ms:
            at = _FREE if limits.paused else max(at, last)
            at = window.free_at(run.weight, running.free_at(run.weight, at))
            last = at
            if at > run.started_ms:
                yield _Delay(run.started_ms, at, run.key, run.weight)
        running.add(run.weight, _FREE if run.ended_ms is None else at + run.ended_ms - run.started_ms)
        if limits.rate:
            window.add(run.weight, at + limits.rate.period_ms)


def _timeline(
    started: Sequence[PastRun], delays: Sequence[_Delay], from_ms: int, to_ms: int
) -> list[ReplayPoint]:
    """Return the jobs and units that started in each minute, and the most that were held at one time."""
    first, last = from_ms // STEP_MS, (to_ms - 1) // STEP_MS
    starts, units = Counter[int](), Counter[int]()
    for run in started:
        starts[run.started_ms // STEP_MS] += 1
        units[run.started_ms // STEP_MS] += run.weight
    changes = [(delay.from_ms, 1, delay.weight) for delay in delays]
    changes += [(int(delay.to_ms), -1, -delay.weight) for delay in delays if delay.to_ms <= to_ms]
    changes.sort()
    held, held_units, at, points = 0, 0, 0, []
    for minute in range(first, last + 1):
        most, most_units = held, held_units
        while at < len(changes) and changes[at][0] < (minute + 1) * STEP_MS:
            held, held_units = held + changes[at][1], held_units + changes[at][2]
            most, most_units = max(most, held), max(most_units, held_units)
            at += 1
        points.append(ReplayPoint(minute * STEP_MS, starts[minute], most, units[minute], most_units))
    return points


def _top_keys(started: Sequence[PastRun], delays: Sequence[_Delay], to_ms: int) -> list[KeyReplay]:
    counts = Counter(run.key for run in started if run.key is not None)
    held: Counter[KeyValue] = Counter()
    longest: dict[KeyValue, int] = {}
    for delay in delays:
        if delay.key is not None:
            held[delay.key] += 1
            waited = int(min(delay.to_ms, to_ms)) - delay.from_ms
            longest[delay.key] = max(longest.get(delay.key, 0), waited)
    order = sorted(counts, key=lambda key: (-held[key], -counts[key], key.canonical))
    return [KeyReplay(key, counts[key], held[key], longest.get(key, 0)) for key in order[:MAX_TOP_KEYS]]
