"""Ends claims that no worker settles: offers whose jobs never started, expired leases, unreadable records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.jobs.job import Job
from jqmaster.domain.jobs.outcome import OrderlyEnd
from jqmaster.domain.operations.tally import Tally
from jqmaster.domain.workers.worker import DetachedBy
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.job_times import JobTimes
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.settlements import Settlement, target_args, tell_left_to_others
from jqmaster.store.jobs.slot_gates import slot_gate_pages
from jqmaster.store.link.pages import GATES_PER_CALL, MAX_PER_CALL, pages
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobDelayed, JobsReady, SlotsFreed

# Maximum number of jobs that one call sets aside. It is small, because the call searches the claims of all workers for
# each job.
SET_ASIDE_PER_CALL: Final = 50


@dataclass(frozen=True, slots=True)
class ExpiredLease:
    """A lease that is over.

    * `worker_as_of_ms`: the instant for which the worker last listed its claims. 0: the worker does not send it.
      Negative: further calls of the same heartbeat follow.
    * `job`: None if its record cannot be read, see `LeaseStore.set_aside`.
    * `detached_by`: see `Worker`.
    * `is_worker_gone`: the worker's process is known to have ended.
    * `lease_until_ms`: the end of the lease in store time; no heartbeat renews it beyond the deadline of the run.
    """

    job: Job | None
    job_id: str
    worker_seen_ms: int
    worker_as_of_ms: int
    lease_until_ms: int
    detached_by: DetachedBy | None = None
    is_worker_gone: bool = False
    orderly_end: OrderlyEnd | None = None


class LeaseStore:
    """Leases of one shard. `tally` counts what the store has confirmed. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, records: RecordStore, tally: Tally, times: LiveValue[JobTimes]) -> None:
        self._shard = shard
        self._records = records
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys
        self._times = times

    async def return_offers(self, epoch: str, worker_id: str, claims: Sequence[tuple[str, str]]) -> None:
        """Undo claims of jobs that never started. Ignore claims that are over. A job gets the state `skipped` if
        another job took its uniqueness key meanwhile.
        """
        await self._return(epoch, worker_id, claims)

    async def refuse_offers(self, worker_id: str, claims: Sequence[tuple[str, str]]) -> None:
        """Undo claims that the worker refuses. The tokens of the claims authorize this call."""
        await self._return("", worker_id, claims)
        self._shard.leader.wake(SlotsFreed(worker_id, len(claims)))
        self._shard.leader.wake(JobsReady())

    async def _return(self, epoch: str, worker_id: str, claims: Sequence[tuple[str, str]]) -> None:
        k = self._keys
        for chunk in pages(claims, MAX_PER_CALL):
            args: list[Arg] = [
                self._shard.now_arg, k.tag, epoch, worker_id, codec.id_bytes(worker_id),
                "" if epoch else self._shard.wake_channel, k.finished_channel,
            ]  # fmt: skip
            for job_id, token in chunk:
                args += (job_id, bytes.fromhex(token))
            keys = (k.epoch, k.running, k.claims(worker_id), k.skipped)
            _, (returned, skipped) = await self._client.run("return_offers", keys, args)
            self._tally.returned_offers += sum(returned)
            self._tally.skipped(name.decode() for name in skipped)

    async def expired_leases(self) -> tuple[int, list[ExpiredLease], int]:
        """Return the store time, the claims whose lease or run time is over, and the milliseconds until the next lease
        ends (-1: no lease).
        """
        k = self._keys
        _, (now_ms, flat, next_ms) = await self._client.run(
            "expired_leases",
            (k.running, k.workers),
            (self._shard.now_arg, MAX_PER_CALL, k.job_prefix, k.worker_prefix, k.left_prefix),
        )
        found = []
        for n in range(0, len(flat), 8):
            job_id, head, seen_ms, as_of_ms, detached_by, is_gone, orderly_end, lease_until_ms = flat[
                n : n + 8
            ]
            text = job_id.decode()
            found.append(
                ExpiredLease(
                    await self._records.job_or_none(text, head),
                    text,
                    seen_ms,
                    as_of_ms,
                    lease_until_ms,
                    detached_by.decode() or None,
                    bool(is_gone),
                    orderly_end.decode() or None,
                )
            )
        return now_ms, found, next_ms

    async def shorten_leases(self, epoch: str) -> None:
        """Shorten leases that end later than a new lease would."""
        k = self._keys
        while True:
            args = (self._shard.now_arg, epoch, self._times.current.lease_ms, MAX_PER_CALL)
            _, data = await self._client.run("shorten_leases", (k.epoch, k.running), args)
            if data[0] < MAX_PER_CALL:
                return

    async def look_later(self, epoch: str, looks: Sequence[tuple[str, int]]) -> None:
        """Postpone the next check of these claims, whose leases are over, so that they do not delay the checks of other
        claims. `looks`: pairs of a job ID and the store time of its next check. Claims that were renewed or settled
        meanwhile stay as they are.
        """
        k = self._keys
        for chunk in pages(looks, MAX_PER_CALL):
            args: list[Arg] = [self._shard.now_arg, epoch]
            for job_id, look_at_ms in chunk:
                args += (job_id, look_at_ms)
            await self._client.run("look_later", (k.epoch, k.running), args)

    async def reclaim(self, epoch: str, settlements: Sequence[Settlement]) -> list[bool]:
        """End attempts whose lease is over, unless the lease was renewed or the attempt was settled meanwhile."""
        k = self._keys
        ended: list[bool] = []
        await tell_left_to_others(self._shard, settlements)
        for chunk in pages(settlements, MAX_PER_CALL):
            args: list[Arg] = [
                self._shard.now_arg,
                k.tag,
                epoch,
                self._times.current.result_ttl_ms,
                k.finished_channel,
            ]
            for s in chunk:
                d = s.decision
                args += (
                    s.job_id,
                    bytes.fromhex(s.token),
                    *target_args(k, d),
                    int(d.is_counted),
                    int(d.is_loss),
                    s.entry,
                    s.result,
                )
            _, data = await self._client.run("reclaim", (k.epoch, k.running, k.results, k.suspects), args)
            for s, is_ended in zip(chunk, data[0], strict=True):
                if is_ended and s.name:
                    self._tally.ended(
                        s.name, s.decision, job_id=s.job_id, message=s.message, worker_id=s.worker_id
                    )
                    if s.worker_id:
                        self._tally.on(s.worker_id).end(s.decision)
            ended += map(bool, data[0])
        self._shard.leader.wake(JobsReady())
        self._shard.leader.wake(JobDelayed())
        return ended

    async def set_aside(self, epoch: str, job_ids: Sequence[str]) -> int:
        """Set aside claims whose records cannot be read; return how many."""
        k = self._keys
        count, has_opened = 0, False
        untold: list[bytes] = []
        for page in pages(job_ids, SET_ASIDE_PER_CALL):
            _, data = await self._client.run(
                "set_aside",
                (k.epoch, k.running, k.damaged, k.workers),
                (k.tag, epoch, *page),
            )
            count += data[0]
            untold += data[1]
            has_opened = has_opened or bool(data[2])
        for part in pages(untold, MAX_PER_CALL):
            has_opened = await self._free_slots(epoch, part) or has_opened
        if has_opened:
            self._shard.leader.wake(JobsReady())
        return count

    async def _free_slots(self, epoch: str, job_ids: Sequence[bytes]) -> bool:
        """Search all gates for slots of these jobs, and free them, because the gates of the jobs are unknown. Return
        whether any gate opened.
        """
        k, has_opened = self._keys, False
        packed = codec.pack([job_id.decode() for job_id in job_ids])
        async for gates in slot_gate_pages(self._client, k):
            for page in pages(gates, GATES_PER_CALL):
                _, data = await self._client.run(
                    "free_slots",
                    (k.epoch, k.running),
                    (k.tag, epoch, packed, *page),
                )
                has_opened = has_opened or bool(data[0])
        return has_opened
