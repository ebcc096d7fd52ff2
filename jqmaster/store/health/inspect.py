"""Read-only lists and counts, whose cost is bounded by the requested page."""

import base64
import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.failure_group import failure_group_ids
from jqmaster.domain.jobs.job import FINISHED, INDEXED, LISTED, STATES, Job, JobState, Phase
from jqmaster.domain.jobs.job_filter import GroupsOf, JobFilter
from jqmaster.errors import InvalidError
from jqmaster.store.jobs.ready_lanes import ready_lanes
from jqmaster.store.jobs.records import HEAD_READ, RecordStore
from jqmaster.store.jobs.selection import Selection
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.shard import Shard

# Maximum number of records that a page reads if its filter selects few jobs. The next page continues after these
# records.
MAX_LOOKED_AT: Final = 2_000
SHORTEST_STEP: Final = 50
# Maximum number of calls that a page makes to read lanes. The next page continues after these lanes.
MAX_LANE_CALLS: Final = 40
# Maximum number of records to read for one count of a filter's matches, and maximum number of matches to show as
# examples.
MAX_COUNTED: Final = 200_000
MAX_EXAMPLES: Final = 5

_POSITION = struct.Struct(">Bd36s")
# A position after all members of a lane: no priority and no ID is greater.
_BEHIND_ALL: Final = 1e300, "ffffffff-ffff-8fff-bfff-ffffffffffff"


@dataclass(frozen=True, slots=True)
class Found:
    """A page of jobs, and the cursor of the next page (None: this was the last). A page may be short or empty although
    more follow."""

    jobs: list[Job]
    cursor: str | None
    looked_at: int


@dataclass(slots=True)
class SelectionCount:
    """A count, which may be a lower bound, and the first of the counted jobs."""

    count: int
    is_exact: bool
    examples: list[Job]


@dataclass(frozen=True, slots=True)
class _Position:
    """The end of a page: its index, and the last member."""

    index: str
    score: float
    job_id: str


class Inspector:
    """Lists of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, records: RecordStore, groups_of: GroupsOf = failure_group_ids) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._selection = Selection(records, groups_of)
        self._finished = {shard.keys.finished(state) for state in FINISHED}

    async def counts(self) -> dict[JobState, int]:
        """Return the number of jobs by state."""
        replies = await self._client.pipeline(
            [
                *(("ZCARD", self._keys.index(state)) for state in INDEXED),
                ("HVALS", self._keys.ready_counts),
            ]
        )
        counts = dict(zip(INDEXED, replies, strict=False))
        return {state: counts.get(state, sum(map(int, replies[-1]))) for state in JobState}

    async def waiting(self) -> int:
        """Return how many jobs wait for any reason."""
        counts = await self.counts()
        return sum(count for state, count in counts.items() if STATES[state].phase is Phase.WAITING)

    async def load(self) -> tuple[int, int]:
        """Return how many jobs are ready, and how many run."""
        ready, running = await self._client.pipeline(
            [("HVALS", self._keys.ready_counts), ("ZCARD", self._keys.index(JobState.RUNNING))]
        )
        return sum(map(int, ready)), int(running)

    async def ended_since(self, since_ms: int) -> int:
        """Return how many of the stored jobs ended at this instant or later."""
        replies = await self._client.pipeline([("ZCOUNT", key, since_ms, "+inf") for key in self._finished])
        return sum(map(int, replies))

    async def ready_counts(self, names: Sequence[str]) -> dict[str, int]:
        """Return how many jobs of each name are ready, including those behind closed gates."""
        if not names:
            return {}
        counts = await self._client.command("HMGET", self._keys.ready_counts, *names)
        return {name: int(count or 0) for name, count in zip(names, counts, strict=True)}

    async def names_ready(self, most: int) -> dict[str, int]:
        """Return how many jobs of each name are ready, for about `most` names if there are more."""
        _, flat = await self._client.command("HSCAN", self._keys.ready_counts, 0, "COUNT", most)
        return {name.decode(): int(count) for name, count in zip(flat[::2], flat[1::2], strict=True)}

    async def scan(
        self,
        wanted: JobFilter,
        *,
        limit: int,
        cursor: str | None,
        states: Sequence[JobState] = LISTED,
    ) -> Found:
        """Return up to `limit` jobs, state by state, and within a state in the order of its index. Members of a batch
        are sorted by creation alone.

        If matches are rare, a page may be short or empty although its cursor continues.

        Raise InvalidError for a cursor that this method has not returned.
        """
        indexes = await self._indexes(wanted, states)
        position = _decode_cursor(cursor, self._keys.tag) if cursor else None
        if position and wanted.batch is not None:
            if position.index not in indexes:
                raise _foreign_cursor()
        elif position:
            # The index is gone if its last job left it. Continue with the indexes that come after it.
            at = self._rank(position.index, states)
            indexes = [index for index in indexes if self._rank(index, states) >= at]
        walk = _Walk(self._shard, indexes, position, wanted.ended_between_ms())
        # Start with short reads, and make them longer as long as the filter finds few jobs.
        step = SHORTEST_STEP
        found: list[Job] = []
        looked_at = 0
        while not walk.is_over:
            if walk.lane_calls > MAX_LANE_CALLS:
                return Found(found, _encode_cursor(walk.end, self._keys.tag), looked_at)
            count = min(MAX_PER_CALL, max(limit - len(found), step), MAX_LOOKED_AT - looked_at)
            positions, records = await walk.read(count)
            selected = await self._selection.of(wanted, [one.job_id for one in positions], records)
            if wanted.batch is not None:
                selected = {n: job for n, job in selected.items() if job.state in states}
            for n, position_of in enumerate(positions):
                looked_at += 1
                if job := selected.get(n):
                    found.append(job)
                if len(found) == limit or looked_at >= MAX_LOOKED_AT:
                    return Found(found, _encode_cursor(position_of, self._keys.tag), looked_at)
            step = min(2 * step, MAX_PER_CALL)
        return Found(found, None, looked_at)

    async def count(
        self,
        wanted: JobFilter,
        states: Sequence[JobState],
        *,
        touches: Callable[[Job], bool] | None = None,
        is_late: Callable[[], bool] = lambda: False,
    ) -> "SelectionCount":
        """Return how many jobs in these states the filter selects and `touches` accepts. The count is not exact if more
        than MAX_COUNTED records would have to be read, or if `is_late` ends it."""
        states = [state for state in states if wanted.may_select_state(state)]
        if touches is None and wanted == JobFilter(state=wanted.state):
            counts = await self.counts()
            some = await self.scan(wanted, states=states, limit=MAX_EXAMPLES, cursor=None)
            return SelectionCount(sum(counts[state] for state in states), True, some.jobs)
        counted = SelectionCount(0, False, [])
        looked_at, cursor = 0, None
        while looked_at < MAX_COUNTED and not (looked_at and is_late()):
            found = await self.scan(wanted, states=states, limit=MAX_LOOKED_AT, cursor=cursor)
            jobs = [job for job in found.jobs if touches is None or touches(job)]
            counted.count += len(jobs)
            counted.examples += jobs[: MAX_EXAMPLES - len(counted.examples)]
            looked_at += found.looked_at
            cursor = found.cursor
            if cursor is None:
                counted.is_exact = True
                break
        return counted

    async def count_members(
        self, wanted: JobFilter, *, is_late: Callable[[], bool]
    ) -> dict[JobState, SelectionCount]:
        """Return the number of a batch's selected members in each state. The counts may be inexact, as in `count`."""
        counted = {state: SelectionCount(0, False, []) for state in LISTED if wanted.may_select_state(state)}
        looked_at, cursor = 0, None
        while looked_at < MAX_COUNTED and not (looked_at and is_late()):
            found = await self.scan(wanted, states=tuple(counted), limit=MAX_LOOKED_AT, cursor=cursor)
            for job in found.jobs:
                counted[job.state].count += 1
            looked_at += found.looked_at
            cursor = found.cursor
            if cursor is None:
                for one in counted.values():
                    one.is_exact = True
                break
        return counted

    async def _indexes(self, wanted: JobFilter, states: Sequence[JobState]) -> list[str]:
        if wanted.batch is not None:
            return (
                [self._keys.batch_members(wanted.batch)] if any(map(wanted.may_select_state, states)) else []
            )
        indexes = []
        for state in states:
            if not wanted.may_select_state(state):
                continue
            if state is JobState.READY:
                lanes = await ready_lanes(self._shard, wanted.name)
                indexes += [self._keys.ready(lane) for lane in lanes]
            else:
                indexes.append(self._keys.index(state))
        return indexes

    def _rank(self, index: str, states: Sequence[JobState]) -> tuple[int, str]:
        """Return the rank of an index. Raise InvalidError if it is not an index of these states, because then the
        cursor belongs to another list."""
        if index.startswith(self._keys.ready_prefix):
            state, lane = JobState.READY, index
        elif index.startswith(self._keys.batch_members_prefix):
            raise _foreign_cursor()
        else:
            state, lane = JobState(index.removeprefix(self._keys.tag)), ""
        if state not in states:
            raise _foreign_cursor()
        return states.index(state), lane


class _Walk:
    """Reads indexes one after another, from the end of an earlier page on. One call reads many lanes, because each may
    hold only one job."""

    def __init__(
        self,
        shard: Shard,
        indexes: Sequence[str],
        position: _Position | None,
        ended_between_ms: tuple[int | None, int | None],
    ) -> None:
        self._client = shard.client
        self._keys = shard.keys
        self._indexes = indexes
        self._at = 0
        # The index of the position is the first one if it still exists, because the caller left out the indexes before
        # it.
        self._after = position if position and position.index in indexes[:1] else None
        self._finished = {shard.keys.finished(state) for state in FINISHED}
        self._ended_between_ms = ended_between_ms
        self.lane_calls = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._indexes)

    @property
    def end(self) -> _Position:
        """Return the position after everything that was read."""
        return self._after or _Position(self._indexes[max(self._at - 1, 0)], *_BEHIND_ALL)

    async def read(self, count: int) -> tuple[list[_Position], list[bytes]]:
        """Return the next members, at most `count`, and the beginnings of their records. The result may be empty before
        the end."""
        prefix = self._keys.ready_prefix
        some = self._indexes[self._at : self._at + MAX_PER_CALL] if self._after is None else []
        lanes = list(itertools.takewhile(lambda index: index.startswith(prefix), some))
        return await (self._read_lanes(lanes, count) if lanes else self._read_index(count))

    async def _read_lanes(self, lanes: Sequence[str], count: int) -> tuple[list[_Position], list[bytes]]:
        _, (flat, were_read) = await self._client.run(
            "page_lanes", lanes, (count, HEAD_READ, self._keys.job_prefix)
        )
        positions = [
            _Position(lanes[number - 1], float(score), job_id.decode())
            for number, job_id, score in zip(flat[::4], flat[1::4], flat[2::4], strict=True)
        ]
        self.lane_calls += 1
        self._at += were_read
        self._after = positions[-1] if were_read < len(lanes) else None
        return positions, flat[3::4]

    async def _read_index(self, count: int) -> tuple[list[_Position], list[bytes]]:
        index, after = self._indexes[self._at], self._after
        least, most = self._ended_between_ms if index in self._finished else (None, None)
        _, (flat,) = await self._client.run(
            "page",
            (index,),
            (
                "" if after is None else repr(after.score),
                after.job_id if after else "",
                count,
                HEAD_READ,
                self._keys.job_prefix,
                "" if least is None else least,
                "" if most is None else most,
                0,
            ),
        )
        positions = [_Position(index, float(flat[n + 1]), flat[n].decode()) for n in range(0, len(flat), 3)]
        if len(positions) < count:
            self._at, self._after = self._at + 1, None
        else:
            self._after = positions[-1]
        return positions, flat[2::3]


def _encode_cursor(position: _Position, tag: str) -> str:
    name = position.index.removeprefix(tag).encode()
    return base64.urlsafe_b64encode(
        _POSITION.pack(len(name), position.score, position.job_id.encode()) + name
    ).decode()


def _decode_cursor(cursor: str, tag: str) -> _Position:
    try:
        raw = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
        length, score, job_id = _POSITION.unpack_from(raw)
        index = raw[_POSITION.size :].decode()
        states = {STATES[state].index for state in INDEXED}
        if (
            len(index.encode()) != length
            or not is_id(job_id.decode())
            or not (index in states or index.startswith(("ready:", "batch_members:")))
        ):
            raise ValueError
    except (ValueError, struct.error) as exc:
        raise _foreign_cursor() from exc
    return _Position(tag + index, score, job_id.decode())


def _foreign_cursor() -> InvalidError:
    return InvalidError("cursor was not returned by an earlier page", code="invalid_cursor")
