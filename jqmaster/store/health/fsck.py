"""Checks whether the data structures agree. Read-only, at run time, in bounded steps.

One script call reads a job together with everything that names it, so jobs that move meanwhile cause no false findings.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from itertools import chain
from typing import Final

from jqmaster.domain.constraints.constraint import WEIGHTED_CID, gate_id
from jqmaster.domain.constraints.weight import units_text
from jqmaster.domain.jobs.job import FINISHED, HOLDS_SLOTS, INDEXED, Job, JobState
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.constraints.documents import decode_constraint
from jqmaster.store.health.batches import batch_faults, unlisted_batches
from jqmaster.store.health.document_checks import check_definitions, event_faults
from jqmaster.store.health.findings import KEYS_PER_READ, ChargeFault, Finding, HandedOver, NamedJobs
from jqmaster.store.health.key_types import compare_keys
from jqmaster.store.jobs.slot_gates import slot_gate_pages
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pages import pages, scanned
from jqmaster.store.link.scripts import Arg, ScriptCall, load

PAGE: Final = 200
# Number of names per round trip. It is small, because each name may have hundreds of lanes.
NAMES_PER_READ: Final = 10
# Number of logs per round trip. It is small, because up to 2 MiB of each log are read.
LOGS_PER_READ: Final = 10
HEAD_BYTES: Final = 64 * 1024


def charge_fault(numbers: Sequence[int]) -> str:
    """Return the fault of the charges at a gate in words. `numbers`: see inspect_charges.lua."""
    leaked, missing, counted, sum_of_charges, counted_starts, sum_of_starts = numbers
    parts = []
    if leaked:
        parts.append(f"{leaked} charged jobs do not run there")
    if missing:
        parts.append(f"{missing} running jobs are not charged")
    if counted != sum_of_charges:
        parts.append(
            f"the sum of charges of running jobs is {units_text(counted)} instead of {units_text(sum_of_charges)}"
        )
    if counted_starts != sum_of_starts:
        parts.append(
            f"the sum of its window is {units_text(counted_starts)} instead of {units_text(sum_of_starts)}"
        )
    return (
        "; ".join(parts)
        or "the charges of jobs handed over to another system do not agree with the list of these jobs"
    )


async def check(
    client: StoreClient,
    keys: Keys,
    now: Callable[[], int] | None = None,
    *,
    on_keys: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[Finding]:
    """Yield all findings of one shard, at most one for each job. Change nothing. Scans all keys of the server in small
    steps.

    * `now`: see `Shard`.
    * `on_keys`: called during the first step, which compares keys with the table of keys. It gets the number of keys
      compared so far.
    """
    client.bind(keys.tag)
    compared, told = await compare_keys(client, keys, on_page=on_keys), set[str]()
    try:
        async for finding in _check_contents(client, keys, now):
            told.add(finding.key)
            yield finding
    except DamagedError:
        # A key of a wrong type hides its data, so stop this check. People can repeat the check once they have removed
        # the key.
        if not compared.mistyped.count:
            raise
    for rule, faults in (("type", compared.mistyped), ("foreign", compared.unknown)):
        for name, detail in faults.details.items():
            if name not in told:
                yield Finding(rule, name, detail)
        if faults.unnamed:
            yield Finding(rule, f"{keys.tag}*", f"{faults.unnamed} more keys like those above")


async def _check_contents(
    client: StoreClient, keys: Keys, now: Callable[[], int] | None
) -> AsyncIterator[Finding]:
    checker = Checker(client, keys, now)
    told: set[str] = set()
    async for groups in checker.everything_named():
        for finding in chain.from_iterable(await checker.check_jobs(groups)):
            # Report each job once, because several keys of a page may name it.
            if (job_id := finding.key.removeprefix(keys.job_prefix)) not in told:
                told.add(job_id)
                yield finding
    async for job_ids in checker.set_aside():
        for job_id in job_ids:
            if job_id not in told:
                yield Finding("damaged", keys.job(job_id), "was set aside as damaged; delete it")
    async for finding in _apart_from_jobs(checker, client, keys):
        yield finding


async def _apart_from_jobs(checker: "Checker", client: StoreClient, keys: Keys) -> AsyncIterator[Finding]:
    for look in (
        checker.check_documents,
        checker.check_slots,
        checker.check_charges,
        checker.check_handed_over,
        checker.check_logs,
    ):
        async for finding in look():
            yield finding
    for pages_of in (checker.lane_pages, checker.name_pages, checker.unique_pages):
        async for findings in pages_of():
            for finding in findings:
                yield finding
    for faults_of in (batch_faults, unlisted_batches):
        async for fault in faults_of(client, keys):
            yield Finding("batch", keys.batch(fault.batch_id), fault.detail)


class Checker:
    """The steps of a check. Each page is read at one instant.

    The check follows the indexes of the shard.

    * `finds_strays`: also find keys that no index names.
    * `known`: the keys of the shard. None: to find strays, scan all keys of the server, which other programs may share.
    """

    def __init__(
        self,
        client: StoreClient,
        keys: Keys,
        now: Callable[[], int] | None = None,
        *,
        finds_strays: bool = True,
        known: Sequence[str] | None = None,
    ) -> None:
        self._client = client
        self._keys = keys
        self._now = now
        self._plain = [keys.index(state) for state in INDEXED]
        self._finds_strays = finds_strays
        self._known = known
        # By prefix: the function that lists the keys with this prefix. Keys with other prefixes belong to jobs, which
        # other indexes name.
        self._named: dict[str, Callable[[], AsyncIterator[list[str]]]] = {
            keys.ready_prefix: self._lanes,
            keys.lane_prefix: self._lanes,
            keys.lanes_prefix: self._names,
            keys.claims_prefix: self._workers,
            keys.slots_prefix: lambda: slot_gate_pages(client, keys),
            keys.handed_over_prefix: self._handed_over_gates,
        }

    async def everything_named(self) -> AsyncIterator[list[NamedJobs]]:
        """Yield pages of about `PAGE` jobs from all indexes, lanes, claims and slots. To find strays, also yield the
        jobs of all records, results and histories."""
        k = self._keys
        for prefix in (
            k.job_prefix,
            k.result_prefix,
            k.history_prefix,
            k.progress_prefix,
            k.challenges_prefix,
            k.awaits_prefix,
            k.dependents_prefix,
            k.log_prefix,
        ):
            async for page in self._keys_with(prefix):
                yield [NamedJobs(page)]
        async for _, page in self._members("ZSCAN", [*self._plain, k.results], step=2):
            yield [NamedJobs(page)]
        for prefix, command, step in (
            (k.ready_prefix, "ZSCAN", 2),
            (k.claims_prefix, "SSCAN", 1),
            (k.slots_prefix, "HSCAN", 2),
        ):
            async for owners in self._keys_with(prefix):
                groups, count = list[NamedJobs](), 0
                async for key, page in self._members(
                    command, [prefix + owner for owner in owners], step=step
                ):
                    groups.append(NamedJobs(page, key))
                    count += len(page)
                    if count >= PAGE:
                        yield groups
                        groups, count = [], 0
                yield groups
        async for page in self.set_aside():
            yield [NamedJobs(page)]

    async def set_aside(self) -> AsyncIterator[list[str]]:
        """Yield pages of IDs of jobs that were set aside because their records could not be read."""
        async for _, page in self._members("SSCAN", [self._keys.damaged], step=1):
            yield page

    async def check_jobs(self, groups: Sequence[NamedJobs]) -> list[list[Finding]]:
        """Return the faults of the jobs of each group."""
        k = self._keys
        now_arg = "" if self._now is None else self._now()
        calls, asked = [], list[tuple[list[Finding], list[str]]]()
        findings: list[list[Finding]] = [[] for _ in groups]
        for group, found in zip(groups, findings, strict=True):
            for page in pages(list(dict.fromkeys(group.job_ids)), PAGE):
                args: tuple[Arg, ...] = (now_arg, k.tag, HEAD_BYTES, group.found_in, *page)
                calls.append(ScriptCall(load("inspect_jobs"), (k.results, k.rules), args))
                asked.append((found, page))
        replies = await self._client.run_all(calls) if calls else []
        for (found, page), (_, (states,)) in zip(asked, replies, strict=True):
            for job_id, state in zip(page, states, strict=True):
                (
                    head,
                    flat,
                    holders,
                    has_result,
                    is_discarded,
                    has_history,
                    slots,
                    needed,
                    has_lane,
                    callback_fault,
                    order_fault,
                    expiry_fault,
                ) = state
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
                        f"a deleted job holds slots at {[gate.decode() for gate in slots[::2]]}",
                    )
                if detail is None and has_result != is_discarded:
                    detail = (
                        "result",
                        "a result that will never be removed"
                        if has_result
                        else "the removal of a result that does not exist",
                    )
                if detail is None and callback_fault:
                    detail = "callback", callback_fault.decode()
                if detail is None and order_fault:
                    detail = "order", order_fault.decode()
                if detail is None and expiry_fault:
                    detail = "expiry", expiry_fault.decode()
                if detail:
                    found.append(Finding(detail[0], k.job(job_id), detail[1]))
        return findings

    def _judge(
        self, job_id: str, head: bytes, inside: dict[str, float], holders: list[str], has_history: bool
    ) -> tuple[str, str] | None:
        if not head:
            if inside or holders:
                return "missing", f"no record, but named by {sorted(inside) + holders}"
            return (
                ("history", "history, progress, challenges or predecessors of a deleted job")
                if has_history
                else None
            )
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
            return "lane", f"its lane {job.lane_id.hex()} does not exist"
        if job.state not in HOLDS_SLOTS:
            return ("slot", f"{job.state} job holds slots at {sorted(tokens)}") if tokens else None
        if missing := needed - set(tokens):
            return "slot", f"runs without a slot at {sorted(missing)}"
        if job.state is JobState.AWAITING_CALLBACK:
            return None  # no claim holds the job while it waits, so the slot's token may be an old one
        foreign = [gate for gate, token in tokens.items() if token != job.token]
        return ("slot", f"its slots at {foreign} belong to another claim") if foreign else None

    def _home(self, job: Job) -> str:
        return (
            self._keys.ready(job.lane_id.hex())
            if job.state is JobState.READY
            else self._keys.index(job.state)
        )

    async def check_documents(self) -> AsyncIterator[Finding]:
        async for finding in self.check_constraints():
            yield finding
        async for finding in check_definitions(self._client, self._keys):
            yield finding
        for fault in await event_faults(self._client, self._keys):
            yield fault.finding(self._keys)

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
            async for lanes in self._keys_with(prefix):
                _, (faults,) = await self._client.run("inspect_lanes", (k.rules,), (k.tag, *lanes))
                yield [
                    Finding("lane", k.lane(lane), fault.decode())
                    for lane, fault in zip(lanes, faults, strict=True)
                    if fault
                ]

    async def name_pages(self) -> AsyncIterator[list[Finding]]:
        """Yield the faults of names that have lanes, page by page; a page may be empty."""
        k = self._keys
        async for names in self._keys_with(k.lanes_prefix):
            for page in pages(names, NAMES_PER_READ):
                _, (faults,) = await self._client.run(
                    "inspect_names", (k.names, k.ready_counts), (k.tag, *page)
                )
                yield [
                    Finding("lane", k.lanes(name), fault.decode())
                    for name, fault in zip(page, faults, strict=True)
                    if fault
                ]

    async def unique_pages(self) -> AsyncIterator[list[Finding]]:
        """Yield the faults of uniqueness keys, page by page; a page may be empty."""
        k = self._keys
        async for found in self._keys_with(k.unique_prefix):
            for page in pages(found, PAGE):
                _, (faults,) = await self._client.run("inspect_unique", (), (k.tag, *page))
                yield [
                    Finding("unique", k.unique(digest), fault.decode())
                    for digest, fault in zip(page, faults, strict=True)
                    if fault
                ]

    async def check_logs(self) -> AsyncIterator[Finding]:
        told: set[str] = set()
        async for findings in self.log_pages():
            for finding in findings:
                # Report each log once, because several keys may name it.
                if finding.key not in told:
                    told.add(finding.key)
                    yield finding

    async def log_pages(self) -> AsyncIterator[list[Finding]]:
        """Yield the faults of job logs, page by page. The last page has the fault of their sum. A page may be empty."""
        k = self._keys
        for prefix in (k.log_prefix, k.logs_prefix):
            async for page in self._keys_with(prefix):
                yield await self._check_logs(page)
        for command, keys, step in (
            ("SSCAN", [k.logged], 1),
            ("ZSCAN", [k.log_times, k.log_waits, k.log_erasures, k.log_erased], 2),
        ):
            async for _, page in self._members(command, keys, step=step):
                yield await self._check_logs(page)
        _, (fault, _) = await self._client.run("inspect_logs", (), (k.tag,))
        yield [Finding("log", k.log_totals, fault.decode())] if fault else []

    async def _check_logs(self, job_ids: Sequence[str]) -> list[Finding]:
        k, found = self._keys, list[Finding]()
        for page in pages(job_ids, LOGS_PER_READ):
            _, (_, faults) = await self._client.run("inspect_logs", (), (k.tag, *page))
            found += [
                Finding("log", k.log(job_id), fault.decode())
                for job_id, fault in zip(page, faults, strict=True)
                if fault
            ]
        return found

    async def check_slots(self) -> AsyncIterator[Finding]:
        k = self._keys
        gates = await self.slot_gates()
        for start in range(0, max(1, len(gates)), PAGE):
            _, (unlisted, wrong) = await self._client.run(
                "inspect_slots", (k.slot_lists, k.slot_counts), (k.tag, *gates[start : start + PAGE])
            )
            for name in unlisted:
                yield Finding("slot", k.slots(name.decode()), "is not listed: its holders are not found")
            # Each call checks all sums, so report them only for the first page.
            for gate, counted, held in wrong if start == 0 else ():
                yield Finding(
                    "slot", k.slot_counts, f"{counted} slots counted at {gate.decode()}, {held} held"
                )

    async def check_charges(self) -> AsyncIterator[Finding]:
        async for found in self.charge_pages():
            for fault in found:
                yield fault.finding

    async def charge_pages(self) -> AsyncIterator[list[ChargeFault]]:
        """Yield the faults of charges at gates whose constraint has a weight, page by page; a page may be empty."""
        seen = set[str]()
        async for gates in self._charged_gates():
            # Check each gate once, because several indexes may name it.
            fresh = [gate for gate in dict.fromkeys(gates) if gate not in seen]
            seen.update(fresh)
            left = [(gate, "0") for gate in fresh]
            while left:
                page, left = left[:KEYS_PER_READ], left[KEYS_PER_READ:]
                found, pieces = await self._charge_faults(page)
                left = pieces + left
                yield found

    async def _charge_faults(
        self, page: Sequence[tuple[str, str]]
    ) -> tuple[list[ChargeFault], list[tuple[str, str]]]:
        """Return the faults in these pieces of the charges of gates, and the pieces that are still to be checked."""
        k = self._keys
        flat = [part for piece in page for part in piece]
        _, (count, cursors, faulty) = await self._client.run("inspect_charges", (), (k.tag, *flat))
        found = []
        for number, *numbers in faulty:
            gate, cursor = page[number]
            found.append(ChargeFault(gate, cursor, Finding("charge", k.charges(gate), charge_fault(numbers))))
        ahead = [
            (gate, cursor.decode())
            for (gate, _), cursor in zip(page, cursors, strict=False)
            if cursor != b"0"
        ]
        return found, [*ahead, *page[count:]]

    async def _charged_gates(self) -> AsyncIterator[list[str]]:
        """Yield pages of the gates that may have charges."""
        k = self._keys
        for raw in sorted(await self._client.command("SMEMBERS", k.counted)):
            cid = raw.decode()
            if cid.startswith(WEIGHTED_CID):
                yield [gate_id(cid, None)]
                async for _, gates in self._members("HSCAN", [k.gates(cid)], step=2):
                    yield gates
        if self._finds_strays:
            async for gates in self._keys_with(k.charges_prefix):
                yield gates
            async for _, gates in self._members("HSCAN", [k.charge_sums], step=2):
                yield gates

    async def check_handed_over(self) -> AsyncIterator[Finding]:
        async for fault in self.handed_over_pages():
            for finding in fault.findings():
                yield finding

    async def handed_over_pages(self) -> AsyncIterator[HandedOver]:
        """Yield, page by page, the faults of jobs that were handed over to another system."""
        k = self._keys
        async for page in self._keys_with(k.handed_over_prefix):
            by_key = {k.handed_over(gate): gate for gate in page}
            async for key, ids in self._members("SSCAN", list(by_key), step=1):
                gate = by_key[key]
                _, (is_listed, wrong) = await self._client.run(
                    "inspect_handed_over", (k.handed_over_gates,), (k.tag, gate, *ids)
                )
                if wrong or not is_listed:
                    yield HandedOver(key, gate, bool(is_listed), [one.decode() for one in wrong])

    async def slot_gates(self) -> list[str]:
        """Return the names under which slots are stored, as in slots:{gates}."""
        return [name async for page in self._keys_with(self._keys.slots_prefix) for name in page]

    async def _keys_with(self, prefix: str) -> AsyncIterator[list[str]]:
        """Yield pages of the keys with this prefix. The prefix is cut off."""
        named = self._named.get(prefix)
        if self._known is not None:
            known = [key.removeprefix(prefix) for key in self._known if key.startswith(prefix)]
            for page in pages(known, PAGE):
                yield page
            # List the named keys, too: repairs may have created keys since the scan.
            if named:
                async for page in named():
                    yield page
        elif self._finds_strays:
            # The pattern begins with the shard's tag, so that a Cluster scans only the slot of the tag (since Valkey 8
            # and Redis 7.4).
            async for found in scanned(self._client, "SCAN", count=PAGE, match=f"{prefix}*"):
                yield [key.decode().removeprefix(prefix) for key in found]
        elif named:
            async for page in named():
                yield page

    async def _names(self) -> AsyncIterator[list[str]]:
        async for _, page in self._members("SSCAN", [self._keys.names], step=1):
            yield page

    async def _lanes(self) -> AsyncIterator[list[str]]:
        async for names in self._names():
            async for _, page in self._members("ZSCAN", [self._keys.lanes(name) for name in names], step=2):
                yield page

    async def _workers(self) -> AsyncIterator[list[str]]:
        async for _, page in self._members("ZSCAN", [self._keys.workers], step=2):
            yield page

    async def _handed_over_gates(self) -> AsyncIterator[list[str]]:
        async for _, page in self._members("SSCAN", [self._keys.handed_over_gates], step=1):
            yield page

    async def _members(
        self, command: str, keys: Sequence[str], *, step: int
    ) -> AsyncIterator[tuple[str, list[str]]]:
        """Yield pages of the members of these keys, each page with its key."""
        # Read the first pages of several keys at once, because most keys have few members.
        for some in pages(keys, KEYS_PER_READ):
            first = await self._client.pipeline([(command, key, "0", "COUNT", PAGE) for key in some])
            for key, (cursor, flat) in zip(some, first, strict=True):
                while True:
                    if flat:
                        yield key, [raw.decode() for raw in flat[::step]]
                    if cursor == b"0":
                        break
                    cursor, flat = await self._client.command(command, key, cursor, "COUNT", PAGE)
