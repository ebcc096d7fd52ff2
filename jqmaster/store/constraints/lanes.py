"""Lanes after a change of the constraints: unfinished jobs are matched again and moved. Only the leader writes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.domain.jobs.job import INDEXED, WAITING
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.constraints.constraints import ConstraintSnapshot
from jqmaster.store.jobs.placement import LaneTable, StoredLane, fields_of_record
from jqmaster.store.jobs.records import HEAD_READ
from jqmaster.store.link.pages import LANES_PER_READ, MAX_PER_CALL, RECORDS_PER_READ, pages, scanned
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard


class OldLane(NamedTuple):
    """A lane of an older edition. `queue`: the queue of its jobs. Empty: only the records of the jobs name the
    queue."""

    id: str
    queue: str


class Moved(NamedTuple):
    """Number of jobs that moved to other lanes. -1: the constraints changed meanwhile; as a bool, this is False."""

    jobs: int

    def __bool__(self) -> bool:
        return self.jobs >= 0


class _Found(NamedTuple):
    """A job that may have to move. `old`: the lane where the job was found ready."""

    job_id: str
    old: OldLane | None


# One entry of `_Moves.homes` for relane.lua: the ID of the old lane (8 bytes), and the number of the new one.
_HOME: Final = Struct(">8sH")


@dataclass(slots=True)
class _Moves:
    """Jobs of a page that have to move, with the arguments of relane.lua for each."""

    lanes: LaneTable = field(default_factory=LaneTable)
    job_ids: list[str] = field(default_factory=list)
    # For each job: the ID of its old lane and the number of its new one, packed as _HOME.
    homes: list[bytes] = field(default_factory=list)
    # By number of the job, from 1: the new extras of its record. Contains only jobs whose weights change.
    extras: dict[int, bytes] = field(default_factory=dict)
    # True if no record of these jobs is longer than HEAD_READ bytes.
    are_short: bool = True

    def add(self, job_id: str, old_lane: bytes, number: int) -> None:
        """Add a job. `number`: the number of its new lane. 0: its record cannot be read."""
        self.job_ids.append(job_id)
        self.homes.append(_HOME.pack(old_lane, number))

    def place(self, constraint_set: ConstraintSet, found: _Found, record: bytes | None) -> None:
        """Add a job if it has to move. `record`: None if it cannot be read."""
        old, record = found.old, record or b""
        try:
            lane_id, fields = fields_of_record(record)
        except DamagedError:
            if old:
                self.add(found.job_id, bytes.fromhex(old.id), 0)
            return
        lane, keyed = constraint_set.place_of(fields)
        # If the job is in a lane of an older edition, skip the second comparison, because it needs a digest.
        is_older = old is not None and lane_id.hex() == old.id
        if is_older or lane_id not in (lane.base_id, lane.with_keyed(keyed).id):
            self.add(found.job_id, lane_id, self.lanes.number_at(lane, keyed))
            extras = codec.reweighed(record, constraint_set.weights_of(fields))
            if extras is not None:
                self.extras[len(self.job_ids)] = extras
            self.are_short = self.are_short and len(record) < HEAD_READ


# Number of pages at work at the same time: some are read and matched while the store moves the jobs of others.
PAGES_AT_ONCE: Final = 4
# Maximum bytes of records in one read. A page with more is read in parts. To estimate the size of a page, one of every
# `ONE_IN` records is measured.
BYTES_PER_READ: Final = 4 * 1024 * 1024
ONE_IN: Final = 20
LARGE_PARTS_AT_ONCE: Final = 2
NO_LANES: Final[Mapping[str, OldLane]] = {}


class LaneStore:
    """Lanes of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._large = asyncio.Semaphore(LARGE_PARTS_AT_ONCE)

    async def settle(self, epoch: str, constraints: ConstraintSnapshot) -> bool:
        """Give every running job the slots that the constraints demand, then put the edition in force. Return False if
        the constraints have changed meanwhile."""
        # No other job starts meanwhile, because nothing is claimed until the edition is in force.
        held = await self._client.pipeline(
            [("ZRANGE", key, 0, -1) for key in (self._keys.running, self._keys.awaiting_callback)]
        )
        running = [raw.decode() for ids in held for raw in ids]
        if not await self.move(epoch, constraints, running):
            return False
        word, _ = await self._client.run(
            "put_in_force", (self._keys.epoch, self._keys.rules), (epoch, constraints.constraint_set.edition)
        )
        return word == "ok"

    async def move(
        self,
        epoch: str,
        constraints: ConstraintSnapshot,
        job_ids: Sequence[str],
        lanes: Mapping[str, OldLane] = NO_LANES,
    ) -> Moved:
        """Move unfinished jobs to the lanes that they have under these constraints. `lanes`: the old lanes of the ready
        jobs. While the store moves some pages, others are read and matched."""
        # Remove duplicates, because a scan may return a job twice.
        parts = pages(list(dict.fromkeys(job_ids)), MAX_PER_CALL)
        count = 0

        async def carry() -> None:
            nonlocal count
            for part in parts:
                moved = await self._relane(
                    epoch, constraints, await self._moves_of(constraints.constraint_set, part, lanes)
                )
                # -1 after the store has refused a call, because the constraints changed. It then stays -1.
                count = count + moved.jobs if moved and count >= 0 else -1
                if count < 0:
                    parts.close()

        carriers = [asyncio.create_task(carry()) for _ in range(PAGES_AT_ONCE)]
        try:
            await asyncio.gather(*carriers)
        finally:
            for carrier in carriers:
                carrier.cancel()
            await asyncio.gather(*carriers, return_exceptions=True)
        return Moved(count)

    async def older_lanes(self, edition: int) -> list[OldLane]:
        """Return the lanes of older editions, in the order in which their jobs would start."""
        lanes: list[OldLane] = []
        for raw in await self._client.command("SMEMBERS", self._keys.names):
            name = raw.decode()
            found = await self._client.command("ZRANGEBYSCORE", self._keys.lanes(name), "-inf", f"({edition}")
            lanes += [OldLane(lane.decode(), "") for lane in found]
        order: dict[OldLane, tuple[bool, int, str]] = {}
        for page in pages(lanes, MAX_PER_CALL):
            replies = await self._client.pipeline([("GET", self._keys.lane(lane.id)) for lane in page])
            for found_lane, raw in zip(page, replies, strict=True):
                lane, place = found_lane, (True, 0, "")
                # Put lanes that are gone or unreadable at the end. Scripts recreate these lanes.
                with contextlib.suppress(DamagedError):
                    stored = StoredLane.read(raw or b"")
                    # A recreated lane lacks its queue: it stores only the name of its jobs.
                    lane = OldLane(lane.id, stored.queue if stored.edition >= 0 else "")
                    place = (bool(stored.at) or not stored.member, stored.score, stored.member)
                order[lane] = place
        return sorted(order, key=order.__getitem__)

    async def adopt(
        self, epoch: str, constraints: ConstraintSnapshot, lanes: Sequence[OldLane]
    ) -> tuple[list[OldLane], int]:
        """Move whole lanes to this edition if their queue alone determines the gates of their jobs. This takes as long
        for a million jobs as for one. Return the other lanes, and the number of jobs in the adopted lanes.

        Call this after `settle`, when no job of an older lane runs.
        """
        rules, k = constraints.constraint_set, self._keys
        # Adopted jobs keep the gates in their records, even gates that no longer apply. The gates of a deleted
        # constraint are open, so they do no harm. The gates of a keyed constraint with a changed matcher may be closed,
        # so in that case adopt nothing.
        if any(one.enabled and one.key for one in rules.constraints):
            return list(lanes), 0
        wanted = {one.id: lane for one in lanes if one.queue and (lane := rules.lane_of_queue(one.queue))}
        jobs, adopted = 0, set[str]()
        for page in pages(list(wanted.items()), LANES_PER_READ):
            args: list[Arg] = [k.tag, epoch, rules.edition]
            for lane_id, lane in page:
                args += (lane_id, lane.group, "".join(gate.id for gate in lane.shared))
            word, data = await self._client.run("adopt_lanes", (k.epoch, k.rules), args)
            if word != "ok":
                break  # the constraints have changed, so the caller will read them again
            adopted |= {raw.decode() for raw in data[0]}
            jobs += data[1]
        return [one for one in lanes if one.id not in adopted], jobs

    async def ready_in(self, lanes: Sequence[OldLane], count: int) -> list[list[str]]:
        """Return the first `count` jobs of each lane."""
        replies = await self._client.pipeline(
            [("ZRANGE", self._keys.ready(lane.id), 0, count - 1) for lane in lanes]
        )
        return [[raw.decode() for raw in reply] for reply in replies]

    async def waiting_not_ready(self) -> AsyncIterator[list[str]]:
        """Yield pages of the waiting jobs that are not ready yet. A job that waits during the whole scan is in at least
        one page.
        """
        for index in (self._keys.index(state) for state in INDEXED if state in WAITING):
            async for flat in scanned(self._client, "ZSCAN", index, count=RECORDS_PER_READ):
                for page in pages([raw.decode() for raw in flat[::2]], MAX_PER_CALL):
                    yield page

    async def prune(self, epoch: str, lanes: Sequence[str]) -> None:
        """Remove the lanes among these that have no unfinished job."""
        for page in pages(lanes, LANES_PER_READ):
            await self._client.run("prune_lanes", (self._keys.epoch,), (self._keys.tag, epoch, *page))

    async def lane_pages(self) -> AsyncIterator[list[str]]:
        """Yield all lanes of all names, in pages."""
        for name in await self._client.command("SMEMBERS", self._keys.names):
            key = self._keys.lanes(name.decode())
            async for flat in scanned(self._client, "ZSCAN", key, count=LANES_PER_READ):
                yield [raw.decode() for raw in flat[::2]]

    async def _relane(self, epoch: str, constraints: ConstraintSnapshot, moves: _Moves) -> Moved:
        if not moves.job_ids:
            return Moved(0)
        k = self._keys
        word, data = await self._client.run(
            "relane",
            (k.epoch, k.rules, k.damaged),
            (
                self._shard.now_arg,
                k.tag,
                epoch,
                constraints.constraint_set.edition,
                moves.lanes.packed(),
                "whole" if moves.are_short else "beginnings",
                b"".join(moves.homes),
                codec.pack_raw(moves.extras) if moves.extras else b"",
                *moves.job_ids,
            ),
        )
        return Moved(data[0] if word == "ok" else -1)

    async def _moves_of(
        self, constraint_set: ConstraintSet, job_ids: Sequence[str], lanes: Mapping[str, OldLane]
    ) -> _Moves:
        """Match the jobs of a page. Read the record of each job whose name does not determine its lane."""
        moves, unread = _Moves(), []
        # Remember the last lane, because consecutive jobs usually come from the same one.
        last, lane = None, None
        for job_id in job_ids:
            old = lanes.get(job_id)
            if old is not last:
                last, lane = old, constraint_set.lane_of_queue(old.queue) if old and old.queue else None
            if old and lane:
                moves.add(job_id, bytes.fromhex(old.id), moves.lanes.number(lane))
                moves.are_short = False
            else:
                unread.append(_Found(job_id, old))
        with_argument = "argument" in constraint_set.reads
        # If records are large, hold only a few whole ones in memory at once.
        is_short = not with_argument or await self._are_short(unread)
        for some in pages(unread, MAX_PER_CALL if is_short else RECORDS_PER_READ):
            async with contextlib.nullcontext() if is_short else self._large:
                records = await (self._records_of(some) if with_argument else self._heads(some))
                # Let other tasks send their pages to the store first, so that the store works while these records are
                # matched.
                await asyncio.sleep(0)
                for found, record in zip(some, records, strict=True):
                    moves.place(constraint_set, found, record)
                del records
        return moves

    async def _are_short(self, found: Sequence[_Found]) -> bool:
        """Estimate, from the lengths of some of the records, whether all may be read at once."""
        sample = [("STRLEN", self._keys.job(one.job_id)) for one in found[::ONE_IN]]
        lengths = await self._client.pipeline(sample, skip_damaged=True)
        return sum(length or 0 for length in lengths) * ONE_IN <= BYTES_PER_READ

    async def _records_of(self, found: Sequence[_Found]) -> list[bytes | None]:
        records: list[bytes | None] = await self._client.command(
            "MGET", *[self._keys.job(one.job_id) for one in found]
        )
        return records

    async def _heads(self, found: Sequence[_Found]) -> list[bytes | None]:
        beginnings = await self._client.pipeline(
            [("GETRANGE", self._keys.job(one.job_id), 0, HEAD_READ - 1) for one in found], skip_damaged=True
        )
        return [
            await self._whole_head(one.job_id, record) if record else None
            for one, record in zip(found, beginnings, strict=True)
        ]

    async def _whole_head(self, job_id: str, record: bytes) -> bytes | None:
        """Return the record up to its argument. If the extras do not end within `record`, read the record again. None:
        the record is damaged.
        """
        try:
            if len(record) == HEAD_READ and codec.head_length(job_id, record) > HEAD_READ:
                record = await self._client.command("GET", self._keys.job(job_id))
        except DamagedError:
            return None
        return record
