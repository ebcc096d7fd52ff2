"""Lists of jobs by time, across names, lanes and states.

The store has no index of all jobs by time, because it would make every job more expensive. Each state has its own
index: one sorted set, or one for each lane of ready jobs. A page merges these indexes, and reads from each index only
as many entries as the page may need.
"""

import base64
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.failure_group import failure_group_ids
from jqmaster.domain.jobs.job import FINISHED, LISTED, Job, JobState
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
# Maximum number of running jobs that a call sorts, because each costs a read of its record.
RUNNING_PER_CALL: Final = 2_000
# Maximum number of calls with which one page reads ready jobs, lane by lane and priority by priority.
# `Page.is_partial`: jobs are missing because of this limit.
MAX_LANE_CALLS: Final = 40

# Jobs in these states are ordered by an instant in the future. In a list of all states, they come after the jobs with
# past instants.
_AHEAD: Final = frozenset({JobState.SCHEDULED, JobState.RETRYING, JobState.AWAITING_CALLBACK})
_POSITION: Final = struct.Struct(">BBq36s")
# The first byte of cursors of these lists. It distinguishes them from cursors of lists by state.
_MARK: Final = 255


class ListPosition(NamedTuple):
    """The position of a job: its instant in store milliseconds, and its ID among jobs of the same instant."""

    ms: int
    job_id: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of jobs in order, and the cursor of the next page (None: this was the last). A page may be short or empty
    although more follow.

    `is_partial`: some ready jobs are missing, because they are in too many lanes or have too many priorities.
    """

    jobs: list[Job]
    cursor: str | None
    looked_at: int
    is_partial: bool


# The positions before the first job and after the last job.
_FIRST: Final = ListPosition(-1, "00000000-0000-1000-8000-000000000000")
_LAST: Final = ListPosition(2**62, "ffffffff-ffff-8fff-bfff-ffffffffffff")


class JobLists:
    """Lists of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, records: RecordStore, groups_of: GroupsOf = failure_group_ids) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._selection = Selection(records, groups_of)

    async def page(
        self,
        wanted: JobFilter,
        *,
        limit: int,
        cursor: str | None,
        is_backward: bool,
        is_late: Callable[[], bool] = lambda: False,
    ) -> Page:
        """Return up to `limit` jobs, the oldest first, or with `is_backward` the newest first.

        Each job has one time:

        * a finished job: the end of its run;
        * a running job: the start of its run;
        * a ready job, and any member if the list is that of a batch: its creation;
        * a job that waits for an instant: that instant. These jobs come after all others.

        A page ends early when `is_late` returns true. Raises InvalidError for a cursor that no page of this list
        returned.
        """
        section, after = _decode_cursor(cursor) if cursor else (0, None)
        found: list[Job] = []
        seen: set[str] = set()
        looked_at, is_partial, step = 0, False, SHORTEST_STEP
        for number, states in enumerate(_sections(wanted)):
            if number < section:
                continue
            if number > section:
                after = None
            sources = await self._sources(states, wanted, after, is_backward)
            merged = _Merged(sources, is_backward)
            while True:
                count = min(MAX_PER_CALL, max(limit - len(found), step), MAX_LOOKED_AT - looked_at)
                positions = await merged.next(count)
                fresh = [position for position in positions if position.job_id not in seen]
                seen.update(position.job_id for position in fresh)
                selected = await self._selected(wanted, fresh)
                is_partial = is_partial or any(source.is_partial for source in sources)
                for n, position in enumerate(fresh):
                    looked_at += 1
                    if job := selected.get(n):
                        found.append(job)
                    if len(found) == limit or looked_at >= MAX_LOOKED_AT:
                        return Page(found, _encode_cursor(number, position), looked_at, is_partial)
                if len(positions) < count:
                    break
                if is_late():
                    return Page(found, _encode_cursor(number, positions[-1]), looked_at, is_partial)
                # Read more records at once while few jobs match, because a few long reads are cheaper than many short
                # ones.
                step = MAX_PER_CALL if 4 * len(found) < looked_at else min(2 * step, MAX_PER_CALL)
        return Page(found, None, looked_at, is_partial)

    async def _sources(
        self, states: Sequence[JobState], wanted: JobFilter, after: ListPosition | None, is_backward: bool
    ) -> list["_Source"]:
        if wanted.batch is None:
            return [await self._source(state, wanted, after, is_backward) for state in states]
        members = _Members(self._shard, after, is_backward, self._keys.batch_members(wanted.batch))
        return [members] if states else []

    async def _source(
        self, state: JobState, wanted: JobFilter, after: ListPosition | None, is_backward: bool
    ) -> "_Source":
        if state is JobState.READY:
            lanes = await ready_lanes(self._shard, wanted.name)
            return _Ready(self._shard, after, is_backward, [self._keys.ready(lane) for lane in lanes])
        if state is JobState.RUNNING:
            return _Running(self._shard, after, is_backward)
        between_ms = wanted.ended_between_ms() if state in FINISHED else (None, None)
        return _Indexed(self._shard, after, is_backward, self._keys.index(state), between_ms)

    async def _selected(self, wanted: JobFilter, positions: Sequence[ListPosition]) -> dict[int, Job]:
        if not positions:
            return {}
        records = await self._client.pipeline(
            [("GETRANGE", self._keys.job(position.job_id), 0, HEAD_READ - 1) for position in positions],
            skip_damaged=True,
        )
        return await self._selection.of(
            wanted, [position.job_id for position in positions], [record or b"" for record in records]
        )


class _Source:
    """The jobs of one state in order. `next` reads further jobs; fewer than requested means the end."""

    def __init__(self, shard: Shard, after: ListPosition | None, is_backward: bool) -> None:
        self.client = shard.client
        self.keys = shard.keys
        self.after = after
        self.is_backward = is_backward
        self.is_partial = False

    async def next(self, count: int) -> list[ListPosition]:
        positions = await self.read(count)
        if positions:
            self.after = positions[-1]
        return positions

    async def read(self, count: int) -> list[ListPosition]:
        raise NotImplementedError

    def first(self, positions: Sequence[ListPosition], count: int) -> list[ListPosition]:
        return sorted(positions, reverse=self.is_backward)[:count]


class _Indexed(_Source):
    """Jobs of a sorted set whose scores are instants."""

    def __init__(
        self,
        shard: Shard,
        after: ListPosition | None,
        is_backward: bool,
        index: str,
        between_ms: tuple[int | None, int | None],
    ) -> None:
        super().__init__(shard, after, is_backward)
        self._index = index
        self._between = ["" if ms is None else ms for ms in between_ms]

    async def read(self, count: int) -> list[ListPosition]:
        after = ("", "") if self.after is None else (repr(float(self.after.ms)), self.after.job_id)
        _, (flat,) = await self.client.run(
            "page",
            (self._index,),
            (*after, count, 0, self.keys.job_prefix, *self._between, int(self.is_backward)),
        )
        return [ListPosition(int(float(flat[n + 1])), flat[n].decode()) for n in range(0, len(flat), 3)]


class _Members(_Source):
    """The members of a batch in all states, by their creation, which follows from their IDs."""

    def __init__(self, shard: Shard, after: ListPosition | None, is_backward: bool, index: str) -> None:
        super().__init__(shard, after, is_backward)
        self._index = index

    async def read(self, count: int) -> list[ListPosition]:
        # All members have the score 0.
        after = ("", "") if self.after is None else ("0", self.after.job_id)
        _, (flat,) = await self.client.run(
            "page",
            (self._index,),
            (*after, count, 0, self.keys.job_prefix, "", "", int(self.is_backward)),
        )
        return [_position_of(raw.decode()) for raw in flat[::3]]


class _Running(_Source):
    async def read(self, count: int) -> list[ListPosition]:
        after = ("", "") if self.after is None else self.after
        found: list[ListPosition] = []
        from_rank, were_read = 0, RUNNING_PER_CALL
        while were_read == RUNNING_PER_CALL:
            _, (flat, were_read) = await self.client.run(
                "running_by_start",
                (self.keys.running,),
                (*after, count, from_rank, RUNNING_PER_CALL, self.keys.job_prefix, int(self.is_backward)),
            )
            found += [ListPosition(int(flat[n + 1]), flat[n].decode()) for n in range(0, len(flat), 2)]
            from_rank += RUNNING_PER_CALL
        # Remove duplicates: a job is in two results if its lease was renewed between the calls.
        return self.first(list(dict.fromkeys(found)), count)


class _Ready(_Source):
    """Ready jobs by their creation, which follows from their IDs."""

    def __init__(
        self, shard: Shard, after: ListPosition | None, is_backward: bool, lanes: Sequence[str]
    ) -> None:
        super().__init__(shard, after, is_backward)
        self._lanes = lanes

    async def read(self, count: int) -> list[ListPosition]:
        found: list[ListPosition] = []
        lane, rank, calls = 0, 0, 0
        while lane < len(self._lanes):
            if calls == MAX_LANE_CALLS:
                self.is_partial = True
                break
            _, (ids, next_lane, rank) = await self.client.run(
                "ready_by_age",
                self._lanes[lane : lane + MAX_PER_CALL],
                (_id_before(self.after), count, rank, int(self.is_backward)),
            )
            calls += 1
            found = self.first([*found, *(_position_of(raw.decode()) for raw in ids)], count)
            lane += next_lane - 1 if next_lane else MAX_PER_CALL
        return found


class _Merged:
    """Several sources, merged."""

    def __init__(self, sources: Sequence[_Source], is_backward: bool) -> None:
        self._sources = sources
        self._is_backward = is_backward
        self._buffers: list[list[ListPosition]] = [[] for _ in sources]
        self._ended = [False for _ in sources]

    async def next(self, count: int) -> list[ListPosition]:
        """Return the next `count` positions; fewer means the end."""
        found: list[ListPosition] = []
        while len(found) < count:
            for n, source in enumerate(self._sources):
                if not self._buffers[n] and not self._ended[n]:
                    self._buffers[n] = await source.next(count)
                    self._ended[n] = len(self._buffers[n]) < count
            taken = self._taken(count - len(found))
            if not taken:
                break
            found += taken
        return found

    def _taken(self, count: int) -> list[ListPosition]:
        """Take the positions that certainly come first. Stop when a buffer is empty although its source has more."""
        ends = [buffer[-1] for buffer, ended in zip(self._buffers, self._ended, strict=True) if not ended]
        merged = sorted(
            (position for buffer in self._buffers for position in buffer), reverse=self._is_backward
        )
        if ends and self._is_backward:
            merged = [position for position in merged if position >= max(ends)]
        elif ends:
            merged = [position for position in merged if position <= min(ends)]
        taken = merged[:count]
        gone = set(taken)
        self._buffers = [
            [position for position in buffer if position not in gone] for buffer in self._buffers
        ]
        return taken


def first_ahead(*, is_backward: bool) -> str:
    """Return the cursor of the first job that waits for an instant or for callbacks, in a list of several states."""
    return _encode_cursor(1, _LAST if is_backward else _FIRST)


def reached_ms(cursor: str) -> int:
    """Return the instant of this cursor: that of the last job on the page before. Raise InvalidError."""
    return _decode_cursor(cursor)[1].ms


def _sections(wanted: JobFilter) -> list[list[JobState]]:
    states = [state for state in LISTED if wanted.may_select_state(state)]
    if wanted.state is not None or wanted.batch is not None:
        return [states]
    return [[s for s in states if s not in _AHEAD], [s for s in states if s in _AHEAD]]


def _position_of(job_id: str) -> ListPosition:
    return ListPosition(int(job_id[:8] + job_id[9:13], 16), job_id)


def _id_before(after: ListPosition | None) -> str:
    """Return the ID that separates ready jobs before a position from ready jobs after it. The position may belong to a
    job in another state. Its ID then does not contain the instant of the position.
    """
    if after is None:
        return ""
    digits = f"{max(after.ms, 0):012x}"
    beginning = f"{digits[:8]}-{digits[8:12]}"
    if after.job_id.startswith(beginning):
        return after.job_id
    return beginning if after.job_id < beginning else beginning + "~"


def _encode_cursor(section: int, position: ListPosition) -> str:
    return base64.urlsafe_b64encode(
        _POSITION.pack(_MARK, section, position.ms, position.job_id.encode())
    ).decode()


def _decode_cursor(cursor: str) -> tuple[int, ListPosition]:
    try:
        raw = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True)
        mark, section, ms, job_id = _POSITION.unpack(raw)
        if mark != _MARK or not is_id(job_id.decode()):
            raise ValueError
    except (ValueError, struct.error) as exc:
        raise InvalidError("cursor was not returned by an earlier page", code="invalid_cursor") from exc
    return section, ListPosition(ms, job_id.decode())
