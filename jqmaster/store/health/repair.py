"""Repairs findings of fsck: makes all other data agree with the records of jobs. The records themselves are never
changed.

Each step is one script under the leader's epoch, small enough not to block the store, and writes its findings to the
audit log. Not repaired: records that cannot be read, jobs that were set aside, constraints that cannot be read.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.definitions.definition import new_did
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.health.batches import BatchFault, batch_faults
from jqmaster.store.health.document_checks import event_faults
from jqmaster.store.health.findings import ChargeFault, EventFault, Finding, HandedOver
from jqmaster.store.health.fsck import PAGE, Checker
from jqmaster.store.identity.audit import MAX_ENTRIES, encode_entry
from jqmaster.store.job_times import JobTimes
from jqmaster.store.link.pages import pages
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import EventsWaiting, JobDelayed, JobsReady

# These faults are only reported, because the content of a lost record or constraint is unknown.
_BEYOND_REPAIR: Final = frozenset({"record", "damaged", "constraint"})


@dataclass(frozen=True, slots=True)
class RepairPage:
    """The findings on one page that were repaired."""

    repaired: list[Finding]


class Repair:
    """One shard, under one epoch. `who` is for the audit log. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, epoch: str, *, who: str, times: LiveValue[JobTimes]) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._epoch = epoch
        self._who = who
        self._times = times
        # The shard's keys from the shared scan; None while the scan does not provide them.
        self._known: Sequence[str] | None = None

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """If several shards use the store, wait for this shard's turn to find strays, because these shards share one
        scan.
        """
        async with self._client.scan.keys_of(self._keys.tag) as self._known:
            try:
                yield
            finally:
                self._known = None

    def _checker(self, finds_strays: bool) -> Checker:
        known = self._known if finds_strays else None
        return Checker(self._client, self._keys, self._shard.now, finds_strays=finds_strays, known=known)

    async def steps(self, *, finds_strays: bool = True) -> AsyncIterator[RepairPage]:
        """Go through the whole shard once, in the order of dependencies. `finds_strays`: see `Checker`."""
        checker = self._checker(finds_strays)
        async for groups in checker.everything_named():
            findings = await checker.check_jobs(groups)
            for group, found in zip(groups, findings, strict=True):
                if found:
                    yield RepairPage(await self.repair_jobs(found, group.found_in))
            yield RepairPage([])
        async for step in self.order_steps(finds_strays=finds_strays):
            yield step
        yield RepairPage(await self.repair_slots([f async for f in checker.check_slots()]))
        async for faults in checker.charge_pages():
            yield RepairPage(await self.repair_charges(faults))
        async for fault in checker.handed_over_pages():
            yield RepairPage(await self.repair_handed_over(fault))
        async for found in checker.unique_pages():
            yield RepairPage(await self.repair_unique(found))
        async for found in checker.log_pages():
            yield RepairPage(await self.repair_logs(found))
        async for batch_fault in batch_faults(self._client, self._keys):
            yield RepairPage(await self.repair_batch(batch_fault))
        # Repair twice: the removal of a group may leave its slot behind, which the second run finds.
        for _ in range(2):
            yield RepairPage(await self.repair_events(await event_faults(self._client, self._keys)))
        self.wake()

    def wake(self) -> None:
        """Wake the leader in this process, so that it checks jobs and events again."""
        self._shard.leader.wake(EventsWaiting())
        self._shard.leader.wake(JobsReady())
        self._shard.leader.wake(JobDelayed())

    async def order_steps(self, *, finds_strays: bool = True) -> AsyncIterator[RepairPage]:
        """Check and repair only lanes and names, through which claims find ready jobs."""
        checker = self._checker(finds_strays)
        async for found in checker.lane_pages():
            yield RepairPage(await self.repair_lanes(found))
        async for found in checker.name_pages():
            yield RepairPage(await self.repair_names(found))
        self._shard.leader.wake(JobsReady())

    async def repair_jobs(self, found: Sequence[Finding], found_in: str) -> list[Finding]:
        """Repair these jobs, and return the repaired findings. Each fault is checked again. `found_in`: the order,
        claims or slots that named these jobs. Empty: none.
        """
        k, repaired = self._keys, list[Finding]()
        for page in pages([f for f in found if f.rule not in _BEYOND_REPAIR], PAGE):
            done = await self._run(
                "repair_jobs",
                (k.results, k.rules, k.damaged, k.audit),
                (
                    found_in,
                    self._times.current.lease_ms,
                    self._times.current.result_ttl_ms,
                    self._shard.wake_channel,
                ),
                page,
                [finding.key.removeprefix(k.job_prefix) for finding in page],
            )
            ids = {raw.decode() for raw in done}
            repaired += [f for f in page if f.key.removeprefix(k.job_prefix) in ids]
        return repaired

    async def repair_lanes(self, found: Sequence[Finding]) -> list[Finding]:
        """Repair these findings: see `repair_jobs`."""
        if not found:
            return []
        k = self._keys
        lanes = [finding.key.removeprefix(k.lane_prefix) for finding in found]
        done = await self._run("repair_lanes", (k.rules, k.audit), (self._shard.wake_channel,), found, lanes)
        ids = {raw.decode() for raw in done}
        return [finding for finding, lane in zip(found, lanes, strict=True) if lane in ids]

    async def repair_names(self, found: Sequence[Finding]) -> list[Finding]:
        """Repair these findings: see `repair_jobs`."""
        if not found:
            return []
        k = self._keys
        names = [finding.key.removeprefix(k.lanes_prefix) for finding in found]
        done = await self._run("repair_names", (k.names, k.ready_counts, k.audit), (), found, names)
        ids = {raw.decode() for raw in done}
        return [finding for finding, name in zip(found, names, strict=True) if name in ids]

    async def repair_unique(self, found: Sequence[Finding]) -> list[Finding]:
        """Repair these findings: see `repair_jobs`."""
        if not found:
            return []
        k = self._keys
        digests = [finding.key.removeprefix(k.unique_prefix) for finding in found]
        done = await self._run("repair_unique", (k.audit,), (), found, digests)
        removed = {raw.decode() for raw in done}
        return [finding for finding, digest in zip(found, digests, strict=True) if digest in removed]

    async def repair_logs(self, found: Sequence[Finding]) -> list[Finding]:
        """Repair these findings and the sum of all logs: see `repair_jobs`."""
        if not found:
            return []
        k = self._keys
        job_ids = [finding.key.removeprefix(k.log_prefix) for finding in found if finding.key != k.log_totals]
        await self._run("repair_logs", (k.log_totals, k.audit), (), found, job_ids)
        return list(found)

    async def repair_batch(self, fault: BatchFault) -> list[Finding]:
        """Repair the counts of a batch, unless it changed since they were counted."""
        finding = Finding("batch", self._keys.batch(fault.batch_id), fault.detail)
        if not fault.changes:
            return []
        done = await self._run(
            "repair_batch",
            (self._keys.audit,),
            (fault.batch_id, fault.changes, codec.pack(dict(fault.counts))),
            [finding],
            fault.missing,
        )
        return [finding] if done else []

    async def repair_events(self, faults: Sequence[EventFault]) -> list[Finding]:
        """Repair the data of events, and return the repaired findings."""
        k, repaired = self._keys, list[Finding]()
        for page in pages(faults, PAGE):
            found = [fault.finding(k) for fault in page]
            done = await self._run(
                "repair_events",
                (
                    k.events,
                    k.event_bodies,
                    k.event_groups,
                    k.event_slots,
                    k.event_definitions,
                    k.definitions,
                    k.event_edition,
                    k.audit,
                    k.forgotten_runs,
                    k.gone_definitions,
                ),
                (self._shard.wake_channel, new_did()),
                found,
                [text for fault in page for text in (fault.kind, fault.member)],
            )
            repaired += [found[number - 1] for number in done]
        return repaired

    async def repair_slots(self, found: Sequence[Finding]) -> list[Finding]:
        """Recompute all sums and lists if any of them is wrong."""
        if not found:
            return []
        k, count = self._keys, 0
        for page in pages(await self._checker(finds_strays=True).slot_gates() or [""], PAGE):
            count += await self._run(
                "repair_slots",
                (k.slot_lists, k.slot_counts, k.audit),
                (self._shard.wake_channel,),
                found,
                [gates for gates in page if gates],
            )
        return list(found) if count else []

    async def repair_charges(self, faults: Sequence[ChargeFault]) -> list[Finding]:
        """Make these charges agree with the running jobs: see `repair_jobs`."""
        if not faults:
            return []
        found = [fault.finding for fault in faults]
        pieces = [part for fault in faults for part in (fault.gate, fault.cursor)]
        count = await self._run(
            "repair_charges", (self._keys.audit,), (self._shard.wake_channel,), found, pieces
        )
        return found if count else []

    async def repair_handed_over(self, fault: HandedOver) -> list[Finding]:
        """Repair the list of these jobs."""
        k, found = self._keys, fault.findings()
        count = await self._run(
            "repair_handed_over", (k.handed_over_gates, k.audit), (fault.gate,), found, fault.job_ids
        )
        return found if count else []

    async def _run(
        self,
        script: str,
        keys: Sequence[str],
        args: Sequence[Arg],
        found: Sequence[Finding],
        rest: Sequence[str],
    ) -> Any:
        what = {finding.key: f"{finding.rule}: {finding.detail}" for finding in found[:PAGE]}
        entry = encode_entry(who=self._who, action="repair", target="store", before=what, after=None)
        _, data = await self._client.run(
            script,
            (self._keys.epoch, *keys),
            (self._shard.now_arg, self._keys.tag, self._epoch, *args, entry, MAX_ENTRIES, *rest),
        )
        return data[0]
