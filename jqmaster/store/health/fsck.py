"""Do the structures agree? Read-only, online, in bounded steps.

Each job is read with everything that names it in one script, hence at one instant: jobs that move meanwhile raise
no false alarm.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.job import FINISHED, INDEXED, Job, JobState
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.constraints.documents import decode_constraint
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import pages, scanned

PAGE: Final = 200
# Each may have hundreds of lanes.
NAMES_PER_READ: Final = 10
HEAD_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """`rule` is stable; `key` is where to look; `detail` says what disagrees."""

    rule: str
    key: str
    detail: str


async def check(client: StoreClient, keys: Keys) -> AsyncIterator[Finding]:
    """Yield every disagreement of one shard, each job told once. Nothing is changed."""
    client.bind(keys.tag)
    checker = Checker(client, keys)
    told: set[str] = set()
    async for job_ids, found_in in checker.everything_named():
        new = [job_id for job_id in dict.fromkeys(job_ids) if job_id not in told]
        for finding in await checker.check_jobs(new, found_in):
            told.add(finding.key.removeprefix(keys.job_prefix))
            yield finding
    async for job_ids in checker.set_aside():
        for job_id in job_ids:
            if job_id not in told:
                yield Finding("damaged", keys.job(job_id), "was set aside as damaged; delete it")
    async for finding in checker.check_constraints():
        yield finding
    async for findings in checker.lane_pages():
        for finding in findings:
            yield finding
    async for findings in checker.name_pages():
        for finding in findings:
            yield finding
    async for finding in checker.check_slots():
        yield finding


class Checker:
    """The parts of a check, each page of it at one instant."""

    def __init__(self, client: StoreClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._plain = [keys.index(state) for state in INDEXED]

    async def everything_named(self) -> AsyncIterator[tuple[list[str], str]]:
        """Yield pages of IDs from all records, indexes, lanes, claims, slots, results and histories, with the naming
        key.
        """
        k = self._keys
        for prefix in (k.job_prefix, k.result_prefix, k.history_prefix):
            async for page in self._scan_keys(prefix):
                yield page, ""
        for index in [*self._plain, k.results]:
            async for page in self._scan_members("ZSCAN", index, step=2):
                yield page, ""
        for prefix, command, step in (
            (k.ready_prefix, "ZSCAN", 2),
            (k.claims_prefix, "SSCAN", 1),
            (k.slots_prefix, "HSCAN", 2),
        ):
            async for owners in self._scan_keys(prefix):
                for owner in owners:
                    async for page in self._scan_members(command, prefix + owner, step=step):
                        yield page, prefix + owner
        async for page in self.set_aside():
            yield page, ""

    def set_aside(self) -> AsyncIterator[list[str]]:
        """Yield pages of IDs whose record could not be read when an index named them."""
        return self._scan_members("SSCAN", self._keys.damaged, step=1)

    async def check_jobs(self, job_ids: Sequence[str], found_in: str) -> list[Finding]:
        """Return the faults of these jobs."""
        k, found = self._keys, []
        for page in pages(job_ids, PAGE):
            _, (states,) = await self._client.run(
                "inspect_jobs",
                (k.results, k.rules),
                (k.tag, HEAD_BYTES, found_in, *page),
            )
            for job_id, state in zip(page, states, strict=True):
                head, flat, holders, has_result, is_discarded, has_history, slots, needed, has_lane = state
                inside = {flat[i].decode(): float(flat[i + 1]) for i in range(0, len(flat), 2)}
                detail = self._judge(job_id, head, inside, [h.decode() for h in holders], bool(has_history))
                if detail is None and head:
                    tokens = {slots[i].decode(): slots[i + 1].hex() for i in range(0, len(slots), 2)}
                    detail = self._judge_lane(
                        job_id, head, tokens, {gate.decode() for gate in needed}, bool(has_lane)
                    )
                elif detail is None and slots:
                    detail = (
                        "slot",
                        f"a job that is gone holds slots at {[gate.decode() for gate in slots[::2]]}",
                    )
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

    def _judge_lane(
        self, job_id: str, head: bytes, tokens: dict[str, str], needed: set[str], has_lane: bool
    ) -> tuple[str, str] | None:
        job = codec.decode_job(job_id, head)
        if job.state not in FINISHED and not has_lane:
            return "lane", f"its lane {job.lane_id.hex()} is not there"
        if job.state is not JobState.RUNNING:
            return ("slot", f"{job.state} job holds slots at {sorted(tokens)}") if tokens else None
        if missing := needed - set(tokens):
            return "slot", f"runs without a slot at {sorted(missing)}"
        foreign = [gate for gate, token in tokens.items() if token != job.token]
        return ("slot", f"its slots at {foreign} belong to another claim") if foreign else None

    def _home(self, job: Job) -> str:
        return (
            self._keys.ready(job.lane_id.hex())
            if job.state is JobState.READY
            else self._keys.index(job.state)
        )

    async def check_constraints(self) -> AsyncIterator[Finding]:
        flat = await self._client.command("HGETALL", self._keys.constraints)
        for n in range(0, len(flat), 2):
            try:
                decode_constraint(flat[n].decode(), flat[n + 1])
            except DamagedError as exc:
                yield Finding("constraint", self._keys.constraints, exc.detail)

    async def lane_pages(self) -> AsyncIterator[list[Finding]]:
        """Yield the faults of lanes, page by page; a page may be empty."""
        k = self._keys
        for prefix in (k.lane_prefix, k.ready_prefix):
            async for lanes in self._scan_keys(prefix):
                _, (faults,) = await self._client.run("inspect_lanes", (k.rules,), (k.tag, *lanes))
                yield [
                    Finding("lane", k.lane(lane), fault.decode())
                    for lane, fault in zip(lanes, faults, strict=True)
                    if fault
                ]

    async def name_pages(self) -> AsyncIterator[list[Finding]]:
        """Yield the faults of names that have lanes, page by page; a page may be empty."""
        k = self._keys
        async for names in self._scan_keys(k.lanes_prefix):
            for page in pages(names, NAMES_PER_READ):
                _, (faults,) = await self._client.run(
                    "inspect_names", (k.names, k.ready_counts), (k.tag, *page)
                )
                yield [
                    Finding("lane", k.lanes(name), fault.decode())
                    for name, fault in zip(page, faults, strict=True)
                    if fault
                ]

    async def check_slots(self) -> AsyncIterator[Finding]:
        k = self._keys
        gates = await self.slot_gates()
        for start in range(0, max(1, len(gates)), PAGE):
            _, (unlisted, wrong) = await self._client.run(
                "inspect_slots", (k.slot_lists, k.slot_counts), (k.tag, *gates[start : start + PAGE])
            )
            for name in unlisted:
                yield Finding("slot", k.slots(name.decode()), "is not listed: its holders are not found")
            # The sums are looked at with each page, and told once.
            for gate, counted, held in wrong if start == 0 else ():
                yield Finding(
                    "slot", k.slot_counts, f"{counted} slots counted at {gate.decode()}, {held} held"
                )

    async def slot_gates(self) -> list[str]:
        """Under what slots are kept, as slots:{gates} names it."""
        return [name async for page in self._scan_keys(self._keys.slots_prefix) for name in page]

    async def _scan_keys(self, prefix: str) -> AsyncIterator[list[str]]:
        async for found in scanned(self._client, "SCAN", count=PAGE, match=f"{prefix}*"):
            yield [key.decode().removeprefix(prefix) for key in found]

    async def _scan_members(self, command: str, key: str, *, step: int) -> AsyncIterator[list[str]]:
        async for flat in scanned(self._client, command, key, count=PAGE):
            yield [raw.decode() for raw in flat[::step]]
