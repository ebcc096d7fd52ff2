"""Restores a backup into a shard. Ends the attempts that were running at the time of the backup, and reports jobs that
may have run since."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from jqmaster.domain.ids import new_id
from jqmaster.domain.instant import iso_ms, span
from jqmaster.domain.jobs.job import FINISHED, TIMED, Job, JobState
from jqmaster.domain.jobs.outcome import Outcome, decide_restored
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import ConflictError
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.backup import loading
from jqmaster.store.backup.files import BackupReader, Manifest
from jqmaster.store.backup.hold import RestoreHold
from jqmaster.store.definitions.definitions import DefinitionStore
from jqmaster.store.health import generation
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.job_times import JobTimes
from jqmaster.store.jobs.leases import LeaseStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.settlements import Settlement
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.pages import pages

WHO: Final = "restore"
MESSAGE: Final = (
    "the store was restored from a backup that was taken while the job was running; its outcome is not known"
)
# A master counts as stopped if its last heartbeat is older than this.
FRESH_MS: Final = 10_000
_LEAD_MS: Final = 60_000
_DEFINITIONS_PER_READ: Final = 1_000
_JOBS_PER_READ: Final = 500


@dataclass(frozen=True, slots=True)
class Risk:
    """A job that may run a second time: it will run again, and may have run since the backup. `state`: its state in the
    backup."""

    job: Job
    state: JobState


@dataclass(slots=True)
class Restored:
    """The outcome of a restore.

    * `jobs`: the number of all jobs, by their state in the backup.
    * `may_run_again`: the number of jobs that may run a second time, by their state in the backup.
    * `failed`: the number of jobs that were running in the backup and have failed now, because they must not run twice.
    * `definitions`: maps each definition with due instants since the backup to its `catch_up`.
    """

    manifest: Manifest
    restored_at_ms: int
    jobs: Counter[str] = field(default_factory=Counter)
    may_run_again: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    definitions: dict[str, str] = field(default_factory=dict)


class Restoring:
    """Restores a backup into the shard that `hold` protects. Methods raise what `StoreClient.run` and
    `RestoreHold.renew` raise."""

    def __init__(self, hold: RestoreHold, times: JobTimes) -> None:
        self._hold = hold
        self._shard = shard = hold.shard
        self._records = RecordStore(shard)
        self._leadership = LeadershipStore(shard)
        self._leases = LeaseStore(shard, self._records, Tally(), LiveValue(times))

    async def refuse_masters(self) -> None:
        """Raise ConflictError while a master runs on the shard, or while an interrupted restore still has its lead."""
        registry = await MasterStore(self._shard).look()
        if registry.leadership is not None and registry.leadership.master_id == WHO:
            left_ms = await self._shard.client.command("PTTL", self._shard.keys.leader)
            raise ConflictError(
                "an interrupted restore still has the lead of the shard: run the command again in "
                f"{span(max(left_ms, 0))}, when this lead has ended"
            )
        running = [
            seen.record.url or seen.record.id
            for seen in registry.seen
            if registry.now_ms - seen.last_seen_ms <= FRESH_MS
        ]
        if running or registry.leadership is not None:
            raise ConflictError(
                f"masters run on the shard ({', '.join(running) or 'its leader'}): stop them, wait ten seconds, and "
                "run the command again"
            )

    async def run(
        self, backup: BackupReader, *, keeps_mark: bool, on_risk: Callable[[Risk], None]
    ) -> Restored:
        """Empty the shard, and load a checked backup into it. Raise ConflictError while a master runs.

        * `on_risk`: called with each job that may run a second time.
        * `keeps_mark`: keep the mark of the data, because it belongs to the embedded store.
        """
        shard, manifest = self._shard, backup.manifest
        await self.refuse_masters()
        was_under_way = await loading.is_under_way(shard)
        await loading.begin(shard, f"{manifest.shard} of {iso_ms(manifest.cut_at_ms)}")
        try:
            # Check again, because a master may have started since the first check. From now on, no master can start.
            await self.refuse_masters()
        except ConflictError:
            if not was_under_way:
                await loading.end(shard)
            raise
        await loading.clear(self._hold, keeps_mark=keeps_mark)
        is_elsewhere = manifest.shard != shard.keys.shard
        left_out = loading.LEFT_OUT_ELSEWHERE if is_elsewhere else loading.LEFT_OUT
        await loading.load(self._hold, backup.records(), left_out=left_out)
        # Write a new mark of the data. The original data have changed since the backup, and masters that knew them must
        # notice that these are other data.
        await generation.mark(shard, new_id().replace("-", ""))
        restored = Restored(manifest, await shard.now_ms())
        await self._tell_risks(restored, on_risk)
        leadership = await self._leadership.elect(WHO, new_id().replace("-", ""), ttl_ms=_LEAD_MS)
        if leadership is None:
            raise ConflictError("a master leads the shard: stop it, and run the command again")
        await self._end_attempts(leadership, restored)
        await self._look_at_definitions(restored)
        await AuditStore(shard).write(_entry(restored))
        await self._leadership.resign(leadership)
        await loading.end(shard)
        return restored

    async def _tell_risks(self, restored: Restored, on_risk: Callable[[Risk], None]) -> None:
        async for job in self._all_jobs():
            restored.jobs[job.state] += 1
            is_later = job.state in TIMED and job.due_at_ms > restored.restored_at_ms
            if (
                job.state in FINISHED
                or is_later
                or (job.state is JobState.RUNNING and not _may_run_again(job))
            ):
                continue
            restored.may_run_again[job.state] += 1
            on_risk(Risk(job, job.state))

    async def _all_jobs(self) -> AsyncIterator[Job]:
        prefix = self._shard.keys.job_prefix.encode()
        async for page in loading.key_pages(self._shard):
            # SCAN may return a key on two pages, but a page lists each key once.
            ids = [key[len(prefix) :].decode() for key in page if key.startswith(prefix)]
            await self._hold.renew()
            for part in pages(ids, _JOBS_PER_READ):
                for job in (await self._records.get_without_argument(part)).values():
                    yield job

    async def _end_attempts(self, leadership: Leadership, restored: Restored) -> None:
        """End all attempts that were running in the backup. After that, their tokens are stale."""
        while True:
            await self._hold.renew()
            now_ms, expired, _ = await self._leases.expired_leases()
            settlements, damaged = [], []
            for lease in expired:
                job = lease.job
                if job is None or job.state is not JobState.RUNNING:
                    damaged.append(lease.job_id)
                    continue
                decision = decide_restored(job)
                result = b""
                if decision.state is JobState.FAILED:
                    restored.failed += 1
                    outcome = Outcome(
                        job.id,
                        job.token,
                        "failure",
                        should_retry=False,
                        message=MESSAGE,
                        finished_at=iso_ms(now_ms),
                    )
                    result = codec.encode_result(outcome)
                entry = codec.encode_attempt(job, decision.ending, MESSAGE, None)
                settlements.append(Settlement(job.id, job.token, decision, entry, result))
            if damaged:
                await self._leases.set_aside(leadership.epoch, damaged)
            if not settlements:
                if not damaged:
                    return
                continue
            await self._leases.reclaim(leadership.epoch, settlements)

    async def _look_at_definitions(self, restored: Restored) -> None:
        due = await DefinitionStore(self._shard, Tally()).due(_DEFINITIONS_PER_READ)
        for known in due.found:
            definition = known.stored.definition
            restored.definitions[definition.name] = definition.of_time.catch_up.value


def _may_run_again(job: Job) -> bool:
    return decide_restored(job).state is JobState.READY


def _entry(restored: Restored) -> bytes:
    manifest = restored.manifest
    return encode_entry(
        who=WHO,
        action="restore",
        target=manifest.shard,
        before=None,
        after={
            "backup_of": iso_ms(manifest.cut_at_ms),
            "jobs": dict(restored.jobs),
            "may_run_again": dict(restored.may_run_again),
            "failed": restored.failed,
            "definitions": len(restored.definitions),
        },
    )
