"""Usage of constraints: waiting, running and started jobs at their gates. Bounded reads only.

All methods raise what `StoreClient.run` raises.
"""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.jobs.job import Job
from jqmaster.store.jobs.ready_lanes import ready_names
from jqmaster.store.jobs.records import HEAD_READ, RecordStore
from jqmaster.store.link.pages import LANES_PER_READ, MAX_PER_CALL, RECORDS_PER_READ, pages, scanned
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

# Maximum number of gates of one constraint to examine. Those with the most waiting jobs come first.
MAX_GATES: Final = 1_000
NAMES_PER_READ: Final = 500
# How often to check for lanes of older editions. Once all lanes have the present edition, only damage brings back a
# lane of an older edition, so not every caller has to check.
LOOK_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class GateUsage:
    """One gate at one instant.

    * `running`, `starts`: None if no limit counts them.
    * `opens_at_ms`: set if the gate is closed and opens by itself.
    * `condition`: the ID of the conditional override that applies to the jobs of its key value. Empty: none.
    * `running_units`: thousandths that running jobs are charged. None: no limit counts them.
    * `window_units`: thousandths that were charged within the period. None: no limit counts them.
    * `observed`: thousandths that another system still admits until `observed_until_ms`, if a worker reported so.
    """

    gate_id: str
    text: str
    waiting: int
    running: int | None
    starts: int | None
    opens_at_ms: int | None
    held_until_ms: int | None
    is_open: bool
    condition: str = ""
    running_units: int | None = None
    window_units: int | None = None
    observed: int | None = None
    observed_until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SlotUsage:
    """A running job that has a slot; `text` shows its key value."""

    job_id: str
    worker_id: str
    since_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class WaitingLane:
    """A lane with ready jobs."""

    id: str
    name: str
    count: int


class UsageStore:
    """Usage of the constraints of one shard."""

    def __init__(self, shard: Shard, records: RecordStore) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._records = records
        # The edition that all lanes had at the last check, and the time of the next check.
        self._of_edition = (-1, 0.0)

    async def gates(self, gate_ids: Sequence[str]) -> list[GateUsage]:
        """Return the usage of each of these gates."""
        found = []
        for page in pages(gate_ids, MAX_PER_CALL):
            _, (_, usages) = await self._client.run(
                "constraint_usage", (), (self._shard.now_arg, self._keys.tag, *page)
            )
            for gate_id, usage in zip(page, usages, strict=True):
                (
                    waiting,
                    running,
                    starts,
                    due_ms,
                    held_ms,
                    is_open,
                    text,
                    condition,
                    *units,
                    observed_until_ms,
                ) = usage
                running_units, window_units, observed = (None if one < 0 else one for one in units)
                found.append(
                    GateUsage(
                        gate_id,
                        text.decode(),
                        max(0, waiting),
                        None if running < 0 else running,
                        None if starts < 0 else starts,
                        due_ms or None,
                        held_ms or None,
                        bool(is_open),
                        condition.decode(),
                        running_units,
                        window_units,
                        observed,
                        observed_until_ms or None,
                    )
                )
        return found

    async def known_gates(self, cid: str) -> tuple[list[str], int]:
        """Return the gates of a constraint that have unfinished jobs, and the total number of these gates. The gates
        with the most waiting jobs come first.
        """
        total, crowded = await self._client.pipeline(
            [
                ("HLEN", self._keys.gates(cid)),
                ("ZRANGE", self._keys.crowded(cid), 0, MAX_GATES - 1, "REV"),
            ]
        )
        found = dict.fromkeys(raw.decode() for raw in crowded)
        cursor = b"0"
        while len(found) < MAX_GATES:
            cursor, flat = await self._client.command(
                "HSCAN", self._keys.gates(cid), cursor, "COUNT", MAX_GATES
            )
            found.update(dict.fromkeys(raw.decode() for raw in flat[::2]))
            if cursor == b"0":
                break
        return list(found)[:MAX_GATES], int(total)

    async def first_gates(self, counts: Mapping[str, int]) -> list[str]:
        """Return gates that unfinished jobs have to pass. `counts`: by constraint, how many of its gates to return."""
        cids = [cid for cid, count in counts.items() if count]
        replies = await self._client.pipeline(
            [("HSCAN", self._keys.gates(cid), 0, "COUNT", counts[cid]) for cid in cids]
        )
        return [
            raw.decode()
            for cid, (_, flat) in zip(cids, replies, strict=True)
            for raw in flat[: 2 * counts[cid] : 2]
        ]

    async def counts(self, cids: Sequence[str]) -> list[tuple[int, int]]:
        """Return for each constraint the number of its gates, and of the starts that it would have delayed in shadow
        mode.
        """
        if not cids:
            return []
        commands: list[tuple[Arg, ...]] = [("HLEN", self._keys.gates(cid)) for cid in cids]
        replies = await self._client.pipeline([*commands, ("HMGET", self._keys.shadowed, *cids)])
        return [(int(count), int(delayed or 0)) for count, delayed in zip(replies, replies[-1], strict=False)]

    async def holders(self, gates: Sequence[GateUsage], limit: int) -> list[SlotUsage]:
        """Return up to `limit` running jobs that have slots at these gates, ordered by gate."""
        text_of: dict[str, str] = {}
        lists = [raw.decode() for raw in await self._client.command("SMEMBERS", self._keys.slot_lists)]
        # All unkeyed gates of a job share one list of slots. The name of the list joins the IDs of these gates.
        held = [
            (key, gate.text)
            for gate in gates
            if gate.running
            for key in [name for name in lists if gate.gate_id in name] or [gate.gate_id]
        ]
        for page in pages(held, LANES_PER_READ):
            replies = await self._client.pipeline(
                [("HSCAN", self._keys.slots(key), 0, "COUNT", limit) for key, _ in page]
            )
            for (_, text), (_, flat) in zip(page, replies, strict=True):
                for raw in flat[::2]:
                    text_of.setdefault(raw.decode(), text)
            if len(text_of) >= limit:
                break
        ids = list(text_of)[:limit]
        jobs = await self._records.get_without_argument(ids)
        return [
            SlotUsage(job.id, job.worker_id, job.started_at_ms, text_of[job.id])
            for job in (jobs.get(job_id) for job_id in ids)
            if job
        ]

    async def has_older_lanes(self, edition: int) -> bool:
        """Return whether lanes of older editions still have jobs. Such jobs have not been matched to this edition
        yet."""
        if self._of_edition[0] == edition and time.monotonic() < self._of_edition[1]:
            return False
        for page in pages(await self._names(), NAMES_PER_READ):
            replies = await self._client.pipeline(
                [
                    ("ZRANGE", self._keys.lanes(name), "-inf", f"({edition}", "BYSCORE", "LIMIT", 0, 1)
                    for name in page
                ]
            )
            if any(replies):
                return True
        self._of_edition = edition, time.monotonic() + LOOK_AGAIN_S
        return False

    async def lanes(self) -> AsyncIterator[list[WaitingLane]]:
        """Yield pages of the lanes that have ready jobs."""
        for name in await ready_names(self._shard):
            async for flat in scanned(self._client, "ZSCAN", self._keys.lanes(name), count=LANES_PER_READ):
                for page in pages([raw.decode() for raw in flat[::2]], LANES_PER_READ):
                    counts = await self._client.pipeline([("ZCARD", self._keys.ready(lane)) for lane in page])
                    yield [
                        WaitingLane(lane, name, count)
                        for lane, count in zip(page, counts, strict=True)
                        if count
                    ]

    async def ready_in(self, lanes: Sequence[WaitingLane], count: int) -> AsyncIterator[list[str]]:
        """Yield pages of the first `count` ready jobs of each lane."""
        for page in pages(lanes, LANES_PER_READ):
            replies = await self._client.pipeline(
                [("ZRANGE", self._keys.ready(lane.id), 0, min(count, RECORDS_PER_READ) - 1) for lane in page]
            )
            yield [raw.decode() for reply in replies for raw in reply]
            for lane in page:
                for start in range(RECORDS_PER_READ, min(count, lane.count), RECORDS_PER_READ):
                    reply = await self._client.command(
                        "ZRANGE",
                        self._keys.ready(lane.id),
                        start,
                        min(start + RECORDS_PER_READ, count) - 1,
                    )
                    yield [raw.decode() for raw in reply]

    async def jobs(self, job_ids: Sequence[str], *, with_argument: bool) -> list[Job]:
        """Return the jobs that can be read, in order."""
        end = -1 if with_argument else HEAD_READ - 1
        found = []
        for page in pages(job_ids, RECORDS_PER_READ):
            records = await self._client.pipeline(
                [("GETRANGE", self._keys.job(job_id), 0, end) for job_id in page], skip_damaged=True
            )
            for job_id, record in zip(page, records, strict=True):
                if record and (job := await self._records.job_or_none(job_id, record)):
                    found.append(job)
        return found

    async def _names(self) -> list[str]:
        return sorted(name.decode() for name in await self._client.command("SMEMBERS", self._keys.names))
