"""Lanes after a change of the constraints: unfinished jobs are matched again and moved. Only the leader writes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from jqmaster.domain.job import TIMED, JobState
from jqmaster.domain.ruleset import Ruleset
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.constraints.constraints import Rules
from jqmaster.store.jobs.placement import LaneTable, StoredLane, lane_of_job
from jqmaster.store.jobs.records import HEAD_READ
from jqmaster.store.link.pages import LANES_PER_READ, MAX_PER_CALL, RECORDS_PER_READ, pages, scanned
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard


class OldLane(NamedTuple):
    """A lane of an older edition."""

    id: str
    name: str


class Moved(NamedTuple):
    """Number of jobs that moved to other lanes. -1, and so false: the constraints changed meanwhile."""

    jobs: int

    def __bool__(self) -> bool:
        return self.jobs >= 0


class _Found(NamedTuple):
    """A job that may have to move. `old`: the lane in which it was found ready."""

    job_id: str
    old: OldLane | None


# As relane.lua reads it: a lane of 8 bytes, and a number.
_HOME: Final = Struct(">8sH")


@dataclass(slots=True)
class _Moves:
    """Jobs of a page that have to move, with what relane.lua is told of each."""

    lanes: LaneTable = field(default_factory=LaneTable)
    job_ids: list[str] = field(default_factory=list)
    # The old lane and the number of the new one.
    homes: list[bytes] = field(default_factory=list)
    # Whether all their records were read to the end and are short.
    are_short: bool = True

    def add(self, job_id: str, old_lane: bytes, number: int) -> None:
        """Add a job. `number`: of its lane; 0 if its record cannot be read."""
        self.job_ids.append(job_id)
        self.homes.append(_HOME.pack(old_lane, number))

    def place(self, ruleset: Ruleset, found: _Found, record: bytes | None) -> None:
        """Add a job if it has to move. `record`: None where it cannot be read."""
        try:
            job = codec.decode_matched(record) if record else None
        except DamagedError:
            job = None
        if job:
            lane = lane_of_job(ruleset, job)
            # A lane of an older edition is never the current lane, and the ID of the current lane costs a digest.
            is_older = found.old is not None and bytes.fromhex(found.old.id) == job.lane_id
            if is_older or job.lane_id not in (lane.base_id, lane.id):
                self.add(found.job_id, job.lane_id, self.lanes.number(lane))
                self.are_short = self.are_short and record is not None and len(record) < HEAD_READ
        elif found.old:
            self.add(found.job_id, bytes.fromhex(found.old.id), 0)


# Two pages are read and matched while the store moves two others: it goes from one to the next without a wait.
PAGES_AT_ONCE: Final = 4
PAGES_READ_AT_ONCE: Final = 2
NO_LANES: Final[Mapping[str, OldLane]] = {}


class LaneStore:
    """Lanes of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def settle(self, epoch: str, rules: Rules) -> bool:
        """Give every running job the slots that the constraints demand, then put the edition in force. False: they
        changed meanwhile.
        """
        # Nothing is claimed until then, so that no other job can begin to run.
        held = await self._client.pipeline(
            [("ZRANGE", key, 0, -1) for key in (self._keys.running, self._keys.awaiting_callback)]
        )
        running = [raw.decode() for ids in held for raw in ids]
        if not await self.move(epoch, rules, running):
            return False
        word, _ = await self._client.run(
            "settle_rules", (self._keys.epoch, self._keys.rules), (epoch, rules.ruleset.edition)
        )
        return word == "ok"

    async def move(
        self, epoch: str, rules: Rules, job_ids: Sequence[str], lanes: Mapping[str, OldLane] = NO_LANES
    ) -> Moved:
        """Put unfinished jobs into the lanes that the rules give them; `lanes` tells where those were found that are
        ready. While the store moves some pages, others are read and matched."""
        # A scan may give a job twice.
        parts = pages(list(dict.fromkeys(job_ids)), MAX_PER_CALL)
        room = asyncio.Semaphore(PAGES_AT_ONCE)
        # None: a reader has ended.
        placed: asyncio.Queue[_Moves | None] = asyncio.Queue()

        async def read() -> None:
            try:
                with contextlib.closing(parts):
                    for part in parts:
                        await room.acquire()
                        placed.put_nowait(await self._moves_of(rules.ruleset, part, lanes))
            finally:
                placed.put_nowait(None)

        readers = [asyncio.create_task(read()) for _ in range(PAGES_READ_AT_ONCE)]
        reading, count = len(readers), 0
        try:
            while reading:
                taken = [await placed.get()]
                while not placed.empty():
                    taken.append(placed.get_nowait())
                reading -= taken.count(None)
                moves = [move for move in taken if move]
                moved = await self._relane(epoch, rules, moves)
                if not moved:
                    return moved
                count += moved.jobs
                for _ in moves:
                    room.release()
        finally:
            for reader in readers:
                reader.cancel()
            outcomes = await asyncio.gather(*readers, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return Moved(count)

    async def older_lanes(self, edition: int) -> list[OldLane]:
        """Lanes of older editions, those first whose jobs would be the next to start."""
        lanes: list[OldLane] = []
        for raw in await self._client.command("SMEMBERS", self._keys.names):
            name = raw.decode()
            found = await self._client.command("ZRANGEBYSCORE", self._keys.lanes(name), "-inf", f"({edition}")
            lanes += [OldLane(lane.decode(), name) for lane in found]
        order: dict[OldLane, tuple[bool, int, str]] = {}
        for page in pages(lanes, MAX_PER_CALL):
            replies = await self._client.pipeline([("GET", self._keys.lane(lane.id)) for lane in page])
            for lane, raw in zip(page, replies, strict=True):
                order[lane] = (True, 0, "")
                # One that is gone or cannot be read comes last; scripts make it anew.
                with contextlib.suppress(DamagedError):
                    stored = StoredLane.read(raw or b"")
                    order[lane] = (bool(stored.at) or not stored.member, stored.score, stored.member)
        return sorted(lanes, key=order.__getitem__)

    async def ready_in(self, lanes: Sequence[OldLane], count: int) -> list[list[str]]:
        """Return the first `count` jobs of each."""
        replies = await self._client.pipeline(
            [("ZRANGE", self._keys.ready(lane.id), 0, count - 1) for lane in lanes]
        )
        return [[raw.decode() for raw in reply] for reply in replies]

    async def waiting_for_time(self) -> AsyncIterator[list[str]]:
        """Yield pages of the jobs that wait for a time or for other jobs; those that were there all along are all among
        them."""
        for index in (self._keys.index(state) for state in (*TIMED, JobState.AWAITING_JOBS)):
            async for flat in scanned(self._client, "ZSCAN", index, count=RECORDS_PER_READ):
                for page in pages([raw.decode() for raw in flat[::2]], MAX_PER_CALL):
                    yield page

    async def prune(self, epoch: str, lanes: Sequence[str]) -> None:
        """Remove those of the lanes that have no unfinished job."""
        for page in pages(lanes, LANES_PER_READ):
            await self._client.run("prune_lanes", (self._keys.epoch,), (self._keys.tag, epoch, *page))

    async def lane_pages(self) -> AsyncIterator[list[str]]:
        """Yield all lanes of all names, in pages."""
        for name in await self._client.command("SMEMBERS", self._keys.names):
            key = self._keys.lanes(name.decode())
            async for flat in scanned(self._client, "ZSCAN", key, count=LANES_PER_READ):
                yield [raw.decode() for raw in flat[::2]]

    async def _relane(self, epoch: str, rules: Rules, pages_of_moves: Sequence[_Moves]) -> Moved:
        k = self._keys
        replies = await self._client.run_all(
            [
                ScriptCall(
                    load("relane"),
                    (k.epoch, k.rules, k.damaged),
                    (
                        self._shard.now_arg,
                        k.tag,
                        epoch,
                        rules.ruleset.edition,
                        moves.lanes.packed(),
                        "whole" if moves.are_short else "beginnings",
                        b"".join(moves.homes),
                        *moves.job_ids,
                    ),
                )
                for moves in pages_of_moves
                if moves.job_ids
            ]
        )
        return Moved(sum(data[0] for _, data in replies) if all(word == "ok" for word, _ in replies) else -1)

    async def _moves_of(
        self, ruleset: Ruleset, job_ids: Sequence[str], lanes: Mapping[str, OldLane]
    ) -> _Moves:
        """Match the jobs of a page. Records are read of those whose names do not decide where they wait."""
        moves, unread = _Moves(), []
        for job_id in job_ids:
            old = lanes.get(job_id)
            if old and (lane := ruleset.lane_of_name(old.name)):
                moves.add(job_id, bytes.fromhex(old.id), moves.lanes.number(lane))
                moves.are_short = False
            else:
                unread.append(_Found(job_id, old))
        # Arguments may be large: few whole records are held at once, and many are moved.
        for some in pages(unread, RECORDS_PER_READ if "argument" in ruleset.reads else MAX_PER_CALL):
            records = await self._records(some, "argument" in ruleset.reads)
            # The store gets its next pages first, and moves them while these are matched.
            await asyncio.sleep(0)
            for found, record in zip(some, records, strict=True):
                moves.place(ruleset, found, record)
        return moves

    async def _records(self, found: Sequence[_Found], with_argument: bool) -> list[bytes | None]:
        keys = [self._keys.job(one.job_id) for one in found]
        if with_argument:
            whole: list[bytes | None] = await self._client.command("MGET", *keys)
            return whole
        beginnings = await self._client.pipeline(
            [("GETRANGE", key, 0, HEAD_READ - 1) for key in keys], skip_damaged=True
        )
        return [
            await self._whole_head(one.job_id, record) if record else None
            for one, record in zip(found, beginnings, strict=True)
        ]

    async def _whole_head(self, job_id: str, record: bytes) -> bytes | None:
        """Return the record, read again where its extras reach beyond what was read; None where it is damaged."""
        try:
            if len(record) == HEAD_READ and codec.head_length(job_id, record) > HEAD_READ:
                record = await self._client.command("GET", self._keys.job(job_id))
        except DamagedError:
            return None
        return record
