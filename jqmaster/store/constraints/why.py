"""Reads, at one instant, the facts about why a job waits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jqmaster.domain.constraints.gate_check import GateCheck, Holder
from jqmaster.domain.jobs.job import Attempt, JobState
from jqmaster.domain.matching.requirement import name_of
from jqmaster.domain.why.facts import Accuracy, JobsAhead, Snapshot
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.jobs.records import HEAD_READ, RecordStore
from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard

MAX_HOLDERS: Final = 10
# Maximum number of lanes to check, because each costs a few reads. If there are more, the counts are lower bounds.
MAX_LANES: Final = 500
MAX_NAMES: Final = 100
MAX_AWAITED: Final = 20
# Number of jobs that one round trip examines. A single job may cost thousands of reads.
ASKED_PER_CALL: Final = 4
_BOUNDS: Final = (Accuracy.EXACT, Accuracy.AT_LEAST, Accuracy.ABOUT)


class WhyStore:
    """Finds out why jobs of one shard wait. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, records: RecordStore) -> None:
        self._shard = shard
        self._records = records

    async def last_end(self, job_id: str) -> Attempt | None:
        """Return the end of the last attempt in the job's history, or None if there is none."""
        return (await self._records.last_ends([job_id]))[0]

    async def keyed_gates(self, job_ids: Sequence[str]) -> list[bytes]:
        """Return the keyed gates of each job as its record has them; empty if the record is gone or damaged. Jobs of
        one lane with the same gates wait for the same thing."""
        found = []
        for page in pages(job_ids, MAX_PER_CALL):
            beginnings = await self._shard.client.pipeline(
                [("GETRANGE", self._shard.keys.job(job_id), 0, HEAD_READ - 1) for job_id in page],
                skip_damaged=True,
            )
            for beginning in beginnings:
                try:
                    found.append(codec.keyed_gates(beginning or b""))
                except DamagedError:
                    found.append(b"")
        return found

    async def snapshot(
        self, job_id: str, rivals: Sequence[str] = (), *, is_keyed: bool = True
    ) -> Snapshot | None:
        """Return the facts about one job: see `snapshots`."""
        return (await self.snapshots({job_id: rivals}, is_keyed=is_keyed))[job_id]

    async def snapshots(
        self, asked: Mapping[str, Sequence[str]], *, is_keyed: bool = True
    ) -> dict[str, Snapshot | None]:
        """Return by job ID the facts about why these jobs wait, or None if there is no such job.

        * `asked`: by job ID, other names whose jobs may start before it.
        * `is_keyed`: whether any constraint has a key, so that jobs have to be checked one by one.
        """
        found = {}
        for page in pages(list(asked), ASKED_PER_CALL):
            calls = [self._call(job_id, asked[job_id], is_keyed=is_keyed) for job_id in page]
            for job_id, (word, data) in zip(page, await self._shard.client.run_all(calls), strict=True):
                rivals = asked[job_id]
                found[job_id] = None if word == "unknown" else await self._snapshot(job_id, rivals, data)
        return found

    def _call(self, job_id: str, rivals: Sequence[str], *, is_keyed: bool) -> ScriptCall:
        k = self._shard.keys
        return ScriptCall(
            load("why"),
            (k.rules, k.leader, k.running),
            (
                self._shard.now_arg,
                k.tag,
                job_id,
                HEAD_READ,
                MAX_HOLDERS,
                MAX_LANES,
                int(is_keyed),
                *rivals[:MAX_NAMES],
            ),
        )

    async def _snapshot(self, job_id: str, rivals: Sequence[str], data: Sequence[Any]) -> Snapshot:
        (
            now_ms,
            head,
            has_leader,
            edition,
            settled,
            lane_edition,
            lease_ms,
            gates,
            is_ready,
            ahead,
            bound,
            fault,
        ) = data
        job = await self._records.decode_head(job_id, head)
        awaits, count = await self._awaited(job_id) if job.state is JobState.AWAITING_JOBS else ([], 0)
        jobs_ahead = None
        if is_ready:
            by_name = Counter[str]()
            for n in range(0, len(ahead), 2):
                by_name[name_of(ahead[n].decode())] += int(ahead[n + 1])
            was_cut = len(rivals) > MAX_NAMES and bound == 0
            jobs_ahead = JobsAhead(by_name, Accuracy.AT_LEAST if was_cut else _BOUNDS[bound])
        return Snapshot(
            now_ms=now_ms,
            job=job,
            has_leader=bool(has_leader),
            edition=edition,
            settled_edition=settled,
            lane_edition=lane_edition,
            lease_until_ms=_or_none(lease_ms),
            gates=tuple(map(_gate, gates)),
            jobs_ahead=jobs_ahead,
            index_fault=fault.decode(),
            awaits=tuple(awaits),
            awaits_count=count,
        )

    async def _awaited(self, job_id: str) -> tuple[list[tuple[str, str | None]], int]:
        """Return some of the predecessors for which a job waits, each with its state (None: unknown), and the number of
        all of them.
        """
        k = self._shard.keys
        count, raws = await self._shard.client.pipeline(
            [("HLEN", k.awaits(job_id)), ("HKEYS", k.awaits(job_id))], skip_damaged=True
        )
        ids = sorted(raw.decode() for raw in raws or ())[:MAX_AWAITED]
        codes = await self._shard.client.pipeline(
            [("GETRANGE", k.job(one), "1", "1") for one in ids], skip_damaged=True
        )
        states = (codec.known_state(code[0]) if code else None for code in codes)
        found = [(one, None if state is None else str(state)) for one, state in zip(ids, states, strict=True)]
        return found, count or 0


def _gate(row: Sequence[Any]) -> GateCheck:
    gate_id, value, waiting, is_closed, is_override, figures, holders = row
    return GateCheck(
        gate_id=gate_id.decode(),
        value=value.decode(errors="replace"),
        waiting=waiting,
        is_closed=bool(is_closed),
        is_override=bool(is_override),
        figures={figures[n].decode(): int(figures[n + 1]) for n in range(0, len(figures), 2)},
        holders=tuple(
            Holder(holders[n].decode(), codec.id_text(holders[n + 2]), holders[n + 1])
            for n in range(0, len(holders), 3)
        ),
    )


def _or_none(number: int) -> int | None:
    return None if number < 0 else number
