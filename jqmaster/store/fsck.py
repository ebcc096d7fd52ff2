"""Do the structures agree? Read-only, online, in bounded steps.

Each job is read with everything that names it in one script, hence at one instant: jobs that move meanwhile raise
no false alarm.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.job import Job, JobState
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.client import StoreClient
from jqmaster.store.keys import Keys

PAGE: Final = 200
_HEAD_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """`rule` is stable; `key` is where to look; `detail` says what disagrees."""

    rule: str
    key: str
    detail: str


async def check(client: StoreClient, keys: Keys) -> AsyncIterator[Finding]:
    """Every disagreement of one shard, each job told once. Nothing is changed."""
    checker = _Checker(client, keys)
    told: set[str] = set()
    async for job_ids, worker_id in checker.everything_named():
        new = [job_id for job_id in dict.fromkeys(job_ids) if job_id not in told]
        for finding in await checker.check_jobs(new, worker_id):
            told.add(finding.key.removeprefix(keys.job_prefix))
            yield finding
    async for job_ids in checker.set_aside():
        for job_id in job_ids:
            if job_id not in told:
                yield Finding("damaged", keys.job(job_id), "was set aside as damaged; delete it")
    async for finding in checker.check_lanes():
        yield finding


class _Checker:
    def __init__(self, client: StoreClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._plain = [keys.index(state) for state in JobState if state is not JobState.READY]

    async def everything_named(self) -> AsyncIterator[tuple[list[str], str]]:
        """Pages of IDs from every record, index, claim, result and history, with the worker whose claims name them."""
        k = self._keys
        for prefix in (k.job_prefix, k.result_prefix, k.history_prefix):
            async for page in self._scan_keys(prefix):
                yield page, ""
        for index in [*self._plain, *await self._lanes(), k.results]:
            async for page in self._scan_members("ZSCAN", index, step=2):
                yield page, ""
        async for workers in self._scan_keys(k.claims_prefix):
            for worker_id in workers:
                async for page in self._scan_members("SSCAN", k.claims(worker_id), step=1):
                    yield page, worker_id
        async for page in self.set_aside():
            yield page, ""

    def set_aside(self) -> AsyncIterator[list[str]]:
        """Pages of IDs whose record could not be read when an index named them."""
        return self._scan_members("SSCAN", self._keys.damaged, step=1)

    async def check_jobs(self, job_ids: Sequence[str], worker_id: str) -> list[Finding]:
        """What is wrong with these jobs."""
        k, found = self._keys, []
        lanes = await self._lanes()
        for start in range(0, len(job_ids), PAGE):
            page = job_ids[start : start + PAGE]
            _, (states,) = await self._client.run(
                "inspect_jobs",
                (*(k.index(s) for s in _INDEX_ORDER), k.results, *lanes),
                (
                    k.job_prefix,
                    k.ready_prefix,
                    k.claims_prefix,
                    k.result_prefix,
                    k.history_prefix,
                    _HEAD_BYTES,
                    worker_id,
                    *page,
                ),
            )
            for job_id, (head, flat, holders, has_result, is_discarded, has_history) in zip(
                page, states, strict=True
            ):
                inside = {flat[i].decode(): float(flat[i + 1]) for i in range(0, len(flat), 2)}
                detail = self._judge(job_id, head, inside, [h.decode() for h in holders], bool(has_history))
                if detail is None and has_result != is_discarded:
                    detail = (
                        "result",
                        "a result that nothing will discard"
                        if has_result
                        else "a result's end without a result",
                    )
                if detail:
                    found.append(Finding(detail[0], k.job(job_id), detail[1]))
        return found

    def _judge(
        self, job_id: str, head: bytes, inside: dict[str, float], holders: list[str], has_history: bool
    ) -> tuple[str, str] | None:
        if not head:
            if inside or holders:
                return "missing", f"no record, but named by {sorted(inside) + holders}"
            return ("history", "attempts of a job that is gone") if has_history else None
        try:
            job = codec.decode_job(job_id, head)
        except DamagedError as exc:
            return "record", exc.detail
        home = self._home(job)
        if set(inside) != {home}:
            return "membership", f"{job.state} job is in {sorted(inside)}, not just in {home}"
        if job.state is JobState.READY and inside[home] != job.priority:
            return "priority", f"priority {job.priority}, ordered as {inside[home]:.0f}"
        if holders != ([job.worker_id] if job.state is JobState.RUNNING else []):
            return (
                "claim",
                f"{job.state} job of worker {job.worker_id or 'none'}, held by {holders or 'none'}",
            )
        return None

    def _home(self, job: Job) -> str:
        return self._keys.ready(job.name) if job.state is JobState.READY else self._keys.index(job.state)

    async def check_lanes(self) -> AsyncIterator[Finding]:
        k = self._keys
        async for names in self._scan_keys(k.ready_prefix):
            for name in names:
                exists, known = await self._client.pipeline(
                    [("EXISTS", k.ready(name)), ("SISMEMBER", k.names, name)]
                )
                if exists and not known:
                    yield Finding("lane", k.ready(name), "its name is not in the set of names")

    async def _lanes(self) -> list[str]:
        return [
            self._keys.ready(raw.decode()) for raw in await self._client.command("SMEMBERS", self._keys.names)
        ]

    async def _scan_keys(self, prefix: str) -> AsyncIterator[list[str]]:
        cursor = b"0"
        while True:
            cursor, found = await self._client.command("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", PAGE)
            if found:
                yield [key.decode().removeprefix(prefix) for key in found]
            if cursor == b"0":
                return

    async def _scan_members(self, command: str, key: str, *, step: int) -> AsyncIterator[list[str]]:
        cursor = b"0"
        while True:
            cursor, flat = await self._client.command(command, key, cursor, "COUNT", PAGE)
            if flat:
                yield [raw.decode() for raw in flat[::step]]
            if cursor == b"0":
                return


# The order in which inspect_jobs.lua takes the indexes.
_INDEX_ORDER: Final = (
    JobState.SCHEDULED,
    JobState.RETRYING,
    JobState.RUNNING,
    JobState.SUCCEEDED,
    JobState.FAILED,
    JobState.CANCELED,
    JobState.SKIPPED,
)
