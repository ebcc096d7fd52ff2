"""Predecessors and dependents: the consequences of a job's end for its dependents, and the results that a job gets from
its predecessors."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS, ConstraintSet
from jqmaster.domain.jobs.job import Job, JobState
from jqmaster.domain.jobs.predecessors import Links, SkippedBy
from jqmaster.domain.operations.tally import Tally
from jqmaster.store import codec
from jqmaster.store.jobs.claims import ClaimedJob, OmissionReason, PredecessorResult
from jqmaster.store.jobs.placement import LaneTable, StaleConstraints, lane_of_job, new_extras
from jqmaster.store.link.pages import MAX_PER_CALL, pages
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobDelayed, JobsReady

# The approximate number of dependents that one call handles.
PER_PAGE: Final = 200
# Maximum total bytes of predecessors' results that a job gets.
MAX_INPUT_BYTES: Final = 1024 * 1024
# A view of a job lists at most this many of its dependents.
MAX_SHOWN: Final = 100
_ROOT: Final = b"root"


class Released(NamedTuple):
    """The outcome for one page of dependents: the cursor of the next page (`None` after the last page), and skipped
    dependents that may have to be revived.
    """

    cursor: str | None
    revivable: list[str]


class Dependents(NamedTuple):
    """The first dependents of a job, and the number of all its dependents."""

    first: list[str]
    total: int


class PredecessorStore:
    """Predecessors and dependents of one shard. `tally` counts the jobs that are skipped. Raises what `StoreClient.run`
    raises."""

    def __init__(self, shard: Shard, tally: Tally) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys

    # --- for the leader

    async def release(self, job_id: str, cursor: str, epoch: str) -> Released:
        """Update one page of a job's dependents to match the job's current state. Raise StaleEpochError."""
        k = self._keys
        _, (next_cursor, names, revivable) = await self._client.run(
            "release_dependents",
            (k.epoch, k.awaiting_jobs, k.scheduled, k.skipped, k.expiring),
            (self._shard.now_arg, k.tag, epoch, self._shard.wake_channel, k.finished_channel, job_id, cursor,
             PER_PAGE),
        )  # fmt: skip
        self._tally.skipped(raw.decode() for raw in names)
        self._shard.leader.wake(JobsReady())
        self._shard.leader.wake(JobDelayed())
        return Released(
            None if next_cursor == b"0" else next_cursor.decode(), [raw.decode() for raw in revivable]
        )

    async def revive(self, jobs: Sequence[Job], constraints: ConstraintSet = NO_CONSTRAINTS) -> int:
        """Revive skipped jobs if their predecessors allow it; return how many.

        Raise StaleConstraints.
        """
        k = self._keys
        extras = await new_extras(self._shard, jobs, constraints)
        replies = await self._client.run_all(
            [
                ScriptCall(
                    load("revive"),
                    (k.job(job.id), k.expiring, k.rules, k.awaiting_jobs, k.scheduled, k.skipped),
                    (
                        self._shard.now_arg,
                        k.tag,
                        job.id,
                        self._shard.wake_channel,
                        constraints.edition,
                        LaneTable(lane_of_job(constraints, job)).packed(),
                        job.finished_at_ms,
                        extras.get(job.id, b""),
                    ),
                )
                for job in jobs
            ]
        )
        if any(word == "stale_constraints" for word, _ in replies):
            raise StaleConstraints
        self._shard.leader.wake(JobsReady())
        return sum(data[0] for _, data in replies)

    # --- for a worker that runs a job

    async def give_inputs(self, jobs: Collection[ClaimedJob]) -> None:
        """Give claimed jobs the states and results of their predecessors."""
        for job in jobs:
            if job.record.after is not None:
                job.inputs = await self._inputs(job.record.after.jobs)

    async def _inputs(self, job_ids: Sequence[str]) -> list[PredecessorResult]:
        k = self._keys
        states: list[JobState | None] = []
        sizes: list[int] = []
        for page in pages(job_ids, MAX_PER_CALL):
            states += await self._states(page)
            found = await self._client.pipeline(
                [("STRLEN", k.result(one)) for one in page], skip_damaged=True
            )
            sizes += [size or 0 for size in found]
        left = MAX_INPUT_BYTES
        given: list[str] = []
        for job_id, size in zip(job_ids, sizes, strict=True):
            if 0 < size <= left:
                left -= size
                given.append(job_id)
        results: dict[str, bytes | None] = {}
        for page in pages(given, MAX_PER_CALL):
            replies = await self._client.pipeline([("GET", k.result(one)) for one in page], skip_damaged=True)
            results.update(zip(page, replies, strict=True))
        return [
            PredecessorResult(
                job_id,
                state,
                results.get(job_id),
                OmissionReason.TOO_LARGE if size and job_id not in results else OmissionReason.NOT_KEPT,
            )
            for job_id, state, size in zip(job_ids, states, sizes, strict=True)
        ]

    # --- for views of jobs

    async def links(self, job: Job) -> Links:
        """Return the links of a job to its predecessors and dependents."""
        k = self._keys
        flat, first, count = await self._client.pipeline(
            [
                ("HGETALL", k.awaits(job.id)),
                ("ZRANGE", k.dependents(job.id), 0, MAX_SHOWN - 1),
                ("ZCARD", k.dependents(job.id)),
            ],
            skip_damaged=True,
        )
        awaits = dict(zip(flat[::2], flat[1::2], strict=True)) if flat else {}
        predecessors = job.after.jobs if job.after else ()
        dependents = [raw.decode() for raw in first or ()]
        states: list[JobState | None] = []
        for page in pages([*predecessors, *dependents], MAX_PER_CALL):
            states += await self._states(page)
        told = [None if state is None else str(state) for state in states]
        root = awaits.pop(_ROOT, None)
        return Links(
            predecessors=dict(zip(predecessors, told, strict=False)),
            pending=[one for one in predecessors if one.encode() in awaits],
            dependents=dict(zip(dependents, told[len(predecessors) :], strict=True)),
            dependents_count=count or 0,
            skipped_by=_root(root.decode()) if root and job.state is JobState.SKIPPED else None,
        )

    async def dependents(self, job_ids: Sequence[str], most: int) -> dict[str, Dependents]:
        """Return, for each of these jobs, the number of its dependents and some of their IDs. The answer has at most
        `most` IDs in total.
        """
        counts: dict[str, int] = {}
        named: dict[str, int] = {}
        left = most
        for page in pages(job_ids, MAX_PER_CALL):
            replies = await self._client.pipeline(
                [("ZCARD", self._keys.dependents(one)) for one in page], skip_damaged=True
            )
            for one, count in zip(page, replies, strict=True):
                counts[one] = count or 0
                if wanted := min(counts[one], left):
                    named[one] = wanted
                    left -= wanted
        first: dict[str, list[str]] = {}
        for page in pages(list(named), MAX_PER_CALL):
            replies = await self._client.pipeline(
                [("ZRANGE", self._keys.dependents(one), 0, named[one] - 1) for one in page], skip_damaged=True
            )
            first |= {one: [raw.decode() for raw in ids] for one, ids in zip(page, replies, strict=True)}
        return {one: Dependents(first.get(one, []), count) for one, count in counts.items()}

    async def _states(self, job_ids: Sequence[str]) -> list[JobState | None]:
        codes = await self._client.pipeline(
            [("GETRANGE", self._keys.job(one), "1", "1") for one in job_ids], skip_damaged=True
        )
        return [codec.known_state(code[0]) if code else None for code in codes]


def _root(text: str) -> SkippedBy:
    job_id, _, code = text.partition(" ")
    state = codec.known_state(int(code)) if code.isdecimal() else None
    return SkippedBy(job_id, str(state or ""))
