"""The life of jobs in the store: every transition of docs/job_lifecycle.md, one script each.

All methods raise StoreUnavailableError (nothing happened), OutcomeUnknownError (it may have) and DamagedError.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NoReturn

from jqmaster.domain.constraint import NO_RULES, Ruleset
from jqmaster.domain.ids import TOKEN_BYTES, new_tokens
from jqmaster.domain.job import Job, JobSpec, JobState
from jqmaster.domain.outcome import Decision
from jqmaster.domain.tally import Tally
from jqmaster.domain.worker import DetachedBy
from jqmaster.errors import DamagedError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.store import codec
from jqmaster.store.client import Along, Call
from jqmaster.store.pages import GATES_PER_CALL, MAX_PER_CALL, pages
from jqmaster.store.placement import LaneTable, lane_of_job
from jqmaster.store.records import RecordStore
from jqmaster.store.scripts import Arg, load
from jqmaster.store.shard import Shard

# Of records that the claims of one round trip give out; each may go beyond its part by its last job.
MAX_CLAIM_BYTES: Final = 8 * 1024 * 1024

# What is due later than this the leader finds by itself: it looks every second.
SOON_MS: Final = 2000

# Each is looked for among the claims of every worker.
SET_ASIDE_PER_CALL: Final = 50

FULL: Final = -2
# How `settle` tells of an attempt that did not end by this call.
NOT_ENDED: Final = -1


class Accepted(Enum):
    """What became of one enqueue."""

    NEW = 1
    KNOWN = 0
    TAKEN = -1


# Looked up for each job of a push; asking the class takes ten times as long.
_ACCEPTED: Final = {accepted.value: accepted for accepted in Accepted}


@dataclass(frozen=True, slots=True)
class Due:
    """`moved` jobs were skipped or made ready; `is_partial`: there were more than one call may move. `next_ms` until the
    next is due (-1: none is). `is_told`: the leader has sent claims along."""

    moved: int
    is_partial: bool
    next_ms: int
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class BacklogFull:
    """Refused: as many jobs as its constraint allows wait at this gate."""

    gate_id: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Jobs claimed for one worker; tokens are 32 hex characters. `passed_over` were expired or damaged.
    `is_exhausted`: the names that were asked for have no more jobs that may start. `opens_in_ms`: a gate that closed
    opens then by itself (-1: none does)."""

    now_ms: int
    busy: int
    not_after_ms: int
    lease_until_ms: int
    jobs: list["ClaimedJob"]
    passed_over: int = 0
    is_exhausted: bool = False
    opens_in_ms: int = -1
    # Of a worker that pulls: its poll hung at this master, so that nobody else was told.
    is_ours_to_tell: bool = False


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a claim was sent with and its answer is read by."""

    tokens: bytes
    lease_ms: int
    offer_ms: int
    polls_here: bool


@dataclass(frozen=True, slots=True)
class PreparedClaims:
    """Claims that are still to be sent."""

    calls: Sequence[Call]
    terms: Sequence[_Terms]


@dataclass(slots=True)
class ClaimedJob:
    job_id: str
    token: str
    fence: int
    record: codec.ClaimedRecord


@dataclass(frozen=True, slots=True)
class ClaimOrder:
    """Up to `limit` jobs of these names for a worker. `polls_here`: its poll hangs at this master, which will answer it."""

    worker_id: str
    names: Sequence[str]
    limit: int
    polls_here: bool = False


class NotClaimed(Enum):
    """Why a claim gave nothing and never will as things stand. `NO_POLL`: the worker pulls, and does not ask. For a claim of one job to itself: the worker is busy, the
    job does not wait for that any more, a gate is closed."""

    STALE_EPOCH = "stale_epoch"
    STALE_RULES = "stale_rules"
    GONE = "gone"
    NO_POLL = "no_poll"
    FULL = "full"
    BUSY = "busy"
    OVER = "over"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Settlement:
    """How one attempt ends: `decision` by the domain, `entry` for its history, `result` if the job ends with it. `name` of
    the job and `message` of the attempt are what it is counted by; without a name it is not."""

    job_id: str
    token: str
    decision: Decision
    entry: bytes = b""
    result: bytes = b""
    hold: "Hold | None" = None
    name: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing passes this gate for so long: the outside system behind it asked for it."""

    gate_id: str
    for_ms: int


@dataclass(frozen=True, slots=True)
class ExpiredLease:
    """`job` is None where its record cannot be read: see `JobStore.set_aside`. `detached_by` as in `Worker`."""

    job: Job | None
    job_id: str
    worker_seen_ms: int
    worker_as_of_ms: int
    detached_by: DetachedBy | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """To a waiting job; None leaves a field as it is."""

    priority: int | None = None
    run_at_ms: int | None = None
    max_retry: int | None = None
    timeout_ms: int | None = None

    def applied_to(self, job: Job) -> Job:
        """The job as matchers will see it."""
        return replace(
            job,
            priority=job.priority if self.priority is None else self.priority,
            max_retry=job.max_retry if self.max_retry is None else self.max_retry,
            timeout_ms=job.timeout_ms if self.timeout_ms is None else self.timeout_ms,
        )


class StaleRules(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """The constraints have another edition: match again and repeat."""


class StateConflict(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """The job is in a state that does not admit the change."""

    def __init__(self, state: JobState) -> None:
        super().__init__(state)
        self.state = state


STALE_RULES: Final = "stale_rules"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one of many was left as it is: `unknown`, `state` (which one), or `stale_rules` (match again and repeat)."""

    word: str
    state: JobState | None = None

    def throw(self) -> NoReturn:
        """As the call for one job does: raises StateConflict, KeyError, StaleRules."""
        if self.word == STALE_RULES:
            raise StaleRules
        if self.state is not None:
            raise StateConflict(self.state)
        raise KeyError


class JobStore:
    """Jobs of one shard. Lease, offer and grace are milliseconds from the settings. `tally` counts what happens here, once
    the store has confirmed it."""

    def __init__(
        self,
        shard: Shard,
        records: RecordStore,
        *,
        lease_ms: int,
        offer_ms: int,
        grace_ms: int,
        result_ttl_ms: int,
        tally: Tally | None = None,
    ) -> None:
        self._shard = shard
        self._records = records
        self._tally = tally or Tally()
        self._client = shard.client
        self._keys = shard.keys
        self.tune(lease_ms=lease_ms, offer_ms=offer_ms, grace_ms=grace_ms, result_ttl_ms=result_ttl_ms)

    def tune(self, *, lease_ms: int, offer_ms: int, grace_ms: int, result_ttl_ms: int) -> None:
        """From the next call on."""
        self._lease_ms = lease_ms
        self._offer_ms = offer_ms
        self._grace_ms = grace_ms
        self._result_ttl_ms = result_ttl_ms

    @property
    def offer_s(self) -> float:
        return self._offer_ms / 1000

    # --- accepting

    async def enqueue(
        self,
        specs: Sequence[JobSpec],
        rules: Ruleset = NO_RULES,
        *,
        is_whole: bool = False,
        replicas: int | None = None,
    ) -> list[Accepted | BacklogFull]:
        """Accepts each job by itself, in one round trip; `is_whole`: a full backlog refuses all of them. `replicas`: how
        many must have them before they count as accepted (None: as many as every write needs).

        Raises StaleRules; what was accepted nevertheless is KNOWN to the repeat.
        """
        calls = self._enqueue_calls(specs, rules, is_whole=is_whole)
        # The first call of a whole push speaks for all of it: when it is let in, so is the rest.
        first = calls[:1] if is_whole else calls
        rest = calls[len(first) :]
        along = None if rest else self._claims_of(specs, replicas)
        replies = await self._client.run_all(first, along=along, replicas=replicas)
        if any(word == "stale_rules" for word, _ in replies):
            raise StaleRules
        statuses = _enqueued(replies)
        if is_whole and isinstance(statuses[0], BacklogFull):
            return [statuses[0]] * len(specs)
        self._count_pushed(specs, statuses)
        others: list[Accepted | BacklogFull] = []
        if rest:
            along = self._claims_of(specs, replicas)
            try:
                replies = await self._client.run_all(rest, along=along, replicas=replicas)
            except StoreUnavailableError as exc:
                raise OutcomeUnknownError(
                    f"the store did a part of it; repeat with the same IDs ({exc.detail})",
                    retry_after_s=exc.retry_after_s,
                ) from exc
            if any(word == "stale_rules" for word, _ in replies):
                raise StaleRules
            others = _enqueued(replies)
        if along is None and not all(spec.delay_ms for spec in specs):
            self._shard.woke("ready")
        if any(spec.run_at_ms is not None or 0 < (spec.delay_ms or 0) <= SOON_MS for spec in specs):
            self._shard.woke("due")
        self._count_pushed(specs[len(statuses) :], others)
        return statuses + others

    def _claims_of(self, specs: Sequence[JobSpec], replicas: int | None) -> Along | None:
        """Claims of those that become ready at once, if there are any."""
        if replicas not in (None, self._client.quorum_replicas):
            # A claim counts as any write does, whatever its job was pushed with.
            return None
        names = {spec.name for spec in specs if spec.run_at_ms is None and not spec.delay_ms}
        return self._shard.along("ready", names) if names else None

    def _count_pushed(self, specs: Sequence[JobSpec], statuses: Sequence[Accepted | BacklogFull]) -> None:
        accepted = [
            spec.name for spec, status in zip(specs, statuses, strict=False) if status is Accepted.NEW
        ]
        for name, count in Counter(accepted).items():
            self._tally.of(name).pushed += count

    def _enqueue_calls(self, specs: Sequence[JobSpec], rules: Ruleset, *, is_whole: bool) -> list[Call]:
        k = self._keys
        calls = []
        for start in range(0, len(specs), MAX_PER_CALL):
            chunk = specs[start : start + MAX_PER_CALL]
            table = LaneTable()
            jobs: list[Arg] = []
            for spec in chunk:
                lane, gates = table.place(rules, spec)
                terms, digest, rest = codec.encode_new(spec, gates)
                jobs += (spec.id, terms + lane.to_bytes(2, "big"), digest, rest)
            following = Counter[int]()
            if is_whole and start == 0:
                following.update(table.place(rules, spec)[0] for spec in specs[MAX_PER_CALL:])
            push = "each" if not is_whole else "rest" if start else "whole"
            head: tuple[Arg, ...] = (
                self._shard.now_arg, k.tag, self._shard.wake_channel, rules.edition, push,
                codec.pack(list(following.items())), table.packed(),
            )  # fmt: skip
            calls.append(Call(load("enqueue"), (k.scheduled, k.expiring, k.rules), (*head, *jobs)))
        return calls

    async def find_taken(self, specs: Sequence[JobSpec]) -> list[int]:
        """Positions of those whose ID stands for another request already."""
        prefix = self._keys.job_prefix
        known = await self._client.pipeline(
            [("EXISTS", *[prefix + spec.id for spec in chunk]) for chunk in pages(specs, MAX_PER_CALL)]
        )
        if not any(known):
            return []
        calls = []
        for chunk in pages(specs, MAX_PER_CALL):
            args: list[Arg] = [self._keys.job_prefix]
            for spec in chunk:
                args += (spec.id, codec.encode_new(spec)[1])
            calls.append(Call(load("find_taken"), (), args))
        replies = await self._client.run_all(calls)
        return [n * MAX_PER_CALL + index for n, (_, data) in enumerate(replies) for index in data[0]]

    async def reserve_id(
        self, key_digest: str, spec: JobSpec, *, life_ms: int, replicas: int | None = None
    ) -> tuple[str, bool] | None:
        """The job ID that an Idempotency-Key stands for, and whether it was accepted; None: it stands for another request."""
        word, data = await self._client.run(
            "reserve_id",
            (self._keys.idempotency(key_digest),),
            (spec.id, codec.encode_new(spec)[1], life_ms),
            replicas=replicas,
        )
        return (data[0].decode(), bool(data[1])) if word == "ok" else None

    async def mark_accepted(self, key_digest: str, *, replicas: int | None = None) -> None:
        """To be called when the job of an Idempotency-Key was accepted."""
        await self._client.run(
            "mark_accepted", (self._keys.idempotency(key_digest),), ("+",), replicas=replicas
        )

    # --- dispatching (leader only)

    async def claim(
        self,
        epoch: str,
        worker_id: str,
        names: Sequence[str],
        limit: int,
        edition: int = 0,
        *,
        polls_here: bool = False,
    ) -> Claim | NotClaimed:
        """Up to `limit` jobs for a worker that no constraint of this edition holds back, the smallest priority and
        then the oldest first. `polls_here`: the worker's poll hangs at this master, which will answer it."""
        order = ClaimOrder(worker_id, names, limit, polls_here)
        (claim,) = await self.claim_each(epoch, [order], edition)
        if isinstance(claim, Exception):
            raise claim
        return claim

    async def claim_each(
        self, epoch: str, orders: Sequence[ClaimOrder], edition: int = 0
    ) -> list[Claim | NotClaimed | Exception]:
        """What `claim` does, for each by itself and in this order, in one round trip; together they give out no more
        bytes than one would. In the place of one that failed alone: what `claim` would have raised."""
        prepared = self.prepare_claims(epoch, orders, edition)
        return self.read_claims(prepared, await self._client.run_each(prepared.calls))

    def prepare_claims(self, epoch: str, orders: Sequence[ClaimOrder], edition: int = 0) -> "PreparedClaims":
        """The calls by which `claim_each` does it, for whoever sends them."""
        # The worker is told what the store was told, also where the settings change meanwhile.
        terms = [
            _Terms(
                new_tokens(min(order.limit, MAX_PER_CALL)), self._lease_ms, self._offer_ms, order.polls_here
            )
            for order in orders
        ]
        max_bytes = MAX_CLAIM_BYTES // len(orders)
        calls = [
            self._claim_call(epoch, o, edition, t, max_bytes) for o, t in zip(orders, terms, strict=True)
        ]
        return PreparedClaims(calls, terms)

    def read_claims(
        self, prepared: "PreparedClaims", replies: Sequence[tuple[str, list[Any]] | Exception]
    ) -> list[Claim | NotClaimed | Exception]:
        """What the store answered to the calls of `prepare_claims`."""
        return [
            reply if isinstance(reply, Exception) else self._claimed(reply, terms)
            for reply, terms in zip(replies, prepared.terms, strict=True)
        ]

    def _claim_call(
        self, epoch: str, order: ClaimOrder, edition: int, terms: "_Terms", max_bytes: int
    ) -> Call:
        k, worker_id = self._keys, order.worker_id
        keys = (
            k.epoch,
            k.worker(worker_id),
            k.claims(worker_id),
            k.running,
            k.fence,
            k.finished(JobState.SKIPPED),
            k.damaged,
            k.rules,
            k.mail(worker_id),
        )
        return Call(
            load("claim"),
            keys,
            (self._shard.now_arg, epoch, edition, codec.id_bytes(worker_id), len(terms.tokens) // TOKEN_BYTES,
             terms.lease_ms, terms.offer_ms, self._grace_ms, k.tag, terms.tokens, k.finished_channel, worker_id,
             "" if order.polls_here else k.wake_channel, max_bytes, *dict.fromkeys(order.names)),
        )  # fmt: skip

    def _claimed(self, reply: tuple[str, list[Any]], terms: "_Terms") -> Claim | NotClaimed:
        word, data = reply
        if word != "ok":
            return NotClaimed(word)
        now_ms, busy, first_fence, passed_over, is_exhausted, opens_in_ms, flat, expired = data
        self._count_skipped(expired)
        jobs = []
        waits: defaultdict[str, list[int]] = defaultdict(list)
        tokens = terms.tokens.hex()
        for n, (job_id, record) in enumerate(zip(flat[::2], flat[1::2], strict=True)):
            try:
                claimed = codec.decode_claimed(record)
            except DamagedError:
                # Nobody can run it; when its lease ends the leader sets it aside.
                passed_over += 1
                continue
            token = tokens[n * 2 * TOKEN_BYTES : (n + 1) * 2 * TOKEN_BYTES]
            jobs.append(ClaimedJob(job_id.decode(), token, first_fence + n, claimed))
            if claimed.ready_since_ms:
                waits[claimed.name].append(now_ms - claimed.ready_since_ms)
        for name, waits_ms in waits.items():
            self._tally.claimed(name, waits_ms)
        return Claim(
            now_ms,
            busy,
            now_ms + terms.offer_ms,
            now_ms + terms.lease_ms,
            jobs,
            passed_over,
            bool(is_exhausted),
            opens_in_ms,
            terms.polls_here,
        )

    async def suspects(self, limit: int) -> list[str]:
        """IDs of jobs that may wait for a worker to themselves, in no order."""
        found = await self._client.command("SRANDMEMBER", self._keys.suspects, limit)
        return [job_id.decode() for job_id in found]

    async def drop_suspects(self, epoch: str, job_ids: Sequence[str]) -> bool:
        """Takes those off the list that wait no more. False under a stale epoch."""
        k = self._keys
        word, _ = await self._client.run(
            "drop_suspects", (k.epoch, k.suspects), (epoch, k.job_prefix, *job_ids)
        )
        return word == "ok"

    async def claim_alone(
        self, epoch: str, worker_id: str, job_id: str, edition: int = 0, *, polls_here: bool = False
    ) -> Claim | NotClaimed:
        """One job that workers were lost under, for a worker that holds nothing and gets nothing else meanwhile.
        `polls_here` as in `claim`."""
        k = self._keys
        token = new_tokens(1)
        lease_ms, offer_ms = self._lease_ms, self._offer_ms
        word, data = await self._client.run(
            "claim_alone",
            (
                k.epoch,
                k.worker(worker_id),
                k.claims(worker_id),
                k.running,
                k.retrying,
                k.suspects,
                k.fence,
                k.rules,
                k.mail(worker_id),
            ),
            (self._shard.now_arg, epoch, edition, codec.id_bytes(worker_id), job_id, token, lease_ms,
             offer_ms, self._grace_ms, k.tag, worker_id, "" if polls_here else k.wake_channel),
        )  # fmt: skip
        if word != "ok":
            return NotClaimed(word)
        now_ms, fence, record = data
        job = ClaimedJob(job_id, token.hex(), fence, codec.decode_claimed(record))
        if job.record.ready_since_ms:
            self._tally.claimed(job.record.name, [now_ms - job.record.ready_since_ms])
        not_after_ms, lease_until_ms = now_ms + offer_ms, now_ms + lease_ms
        return Claim(now_ms, 1, not_after_ms, lease_until_ms, [job], is_ours_to_tell=polls_here)

    async def return_offers(self, epoch: str, worker_id: str, claims: Sequence[tuple[str, str]]) -> bool:
        """Undoes claims that were never started. False under a stale epoch; claims that are over are passed by."""
        return await self._return(epoch, worker_id, claims)

    async def refuse_offers(self, worker_id: str, claims: Sequence[tuple[str, str]]) -> None:
        """The same by the word of the worker: the tokens are its right to do so."""
        await self._return("", worker_id, claims)
        self._shard.woke(_freed(worker_id, len(claims)))
        self._shard.woke("ready")

    async def _return(self, epoch: str, worker_id: str, claims: Sequence[tuple[str, str]]) -> bool:
        k = self._keys
        for chunk in pages(claims, MAX_PER_CALL):
            args: list[Arg] = [
                k.tag, epoch, worker_id, codec.id_bytes(worker_id), "" if epoch else self._shard.wake_channel,
            ]  # fmt: skip
            for job_id, token in chunk:
                args += (job_id, bytes.fromhex(token))
            word, data = await self._client.run(
                "return_offers", (k.epoch, k.running, k.claims(worker_id)), args
            )
            if word != "ok":
                return False
            self._tally.returned_offers += sum(data[0])
        return True

    async def come_due(self, epoch: str, *, expects_some: bool = False) -> "Due | None":
        """`expire`, then `promote` of both states, in one round trip: no job that is due waits for the others' answers.
        `expects_some`: so that claims may go along. None under a stale epoch."""
        calls = [self._expiry(epoch)]
        calls += [self._promotion(epoch, state) for state in (JobState.SCHEDULED, JobState.RETRYING)]
        along = self._shard.along("ready") if expects_some else None
        counts, nexts = [], []
        for word, data in await self._client.run_all(calls, along=along):
            if word != "ok":
                return None
            counts.append(data[0])
            nexts.append(data[1])
            self._count_skipped(data[2] if len(data) > 2 else ())
        next_ms = min((ms for ms in nexts if ms >= 0), default=-1)
        return Due(sum(counts), max(counts) == MAX_PER_CALL, next_ms, along is not None)

    async def promote(self, epoch: str, state: JobState) -> tuple[int, int] | None:
        """Jobs made ready, and ms until the next is due (-1: none). None under a stale epoch."""
        word, data = (await self._client.run_all([self._promotion(epoch, state)]))[0]
        return (data[0], data[1]) if word == "ok" else None

    def _promotion(self, epoch: str, state: JobState) -> Call:
        k = self._keys
        return Call(
            load("promote"),
            (k.epoch, k.index(state), k.damaged),
            (self._shard.now_arg, k.tag, epoch, MAX_PER_CALL, codec.STATE_CODES[state]),
        )

    async def expire(self, epoch: str) -> tuple[int, int] | None:
        """Jobs skipped because their time passed, and ms until the next (-1: none). None under a stale epoch."""
        word, data = (await self._client.run_all([self._expiry(epoch)]))[0]
        if word != "ok":
            return None
        self._count_skipped(data[2])
        return data[0], data[1]

    def _expiry(self, epoch: str) -> Call:
        k = self._keys
        return Call(
            load("expire"),
            (k.epoch, k.expiring, k.scheduled, k.retrying, k.finished(JobState.SKIPPED)),
            (self._shard.now_arg, k.tag, epoch, MAX_PER_CALL, k.finished_channel),
        )

    def _count_skipped(self, names: Sequence[bytes]) -> None:
        for name in names:
            self._tally.of(name.decode()).skipped += 1

    async def expired_leases(self) -> tuple[int, list[ExpiredLease], int]:
        """Store time, claims whose lease or time is over, and ms until the next (-1: none)."""
        k = self._keys
        _, (now_ms, flat, next_ms) = await self._client.run(
            "expired_leases",
            (k.running, k.workers),
            (self._shard.now_arg, MAX_PER_CALL, k.job_prefix, k.worker_prefix),
        )
        found = []
        for n in range(0, len(flat), 5):
            job_id, head, seen_ms, as_of_ms, detached_by = flat[n : n + 5]
            text = job_id.decode()
            found.append(
                ExpiredLease(
                    await self._records.job_or_none(text, head),
                    text,
                    seen_ms,
                    as_of_ms,
                    detached_by.decode() or None,
                )
            )
        return now_ms, found, next_ms

    async def shorten_leases(self, epoch: str) -> bool:
        """Lets no lease last longer than a new one. False under a stale epoch."""
        k = self._keys
        while True:
            args = (self._shard.now_arg, epoch, self._lease_ms, MAX_PER_CALL)
            word, data = await self._client.run("shorten_leases", (k.epoch, k.running), args)
            if word != "ok":
                return False
            if data[0] < MAX_PER_CALL:
                return True

    async def set_aside(self, epoch: str, job_ids: Sequence[str]) -> int | None:
        """Takes claims whose records cannot be read out of the way; how many. None under a stale epoch."""
        k = self._keys
        count, has_opened = 0, False
        untold: list[bytes] = []
        for page in pages(job_ids, SET_ASIDE_PER_CALL):
            word, data = await self._client.run(
                "set_aside",
                (k.epoch, k.running, k.damaged, k.workers),
                (k.tag, epoch, *page),
            )
            if word != "ok":
                return None
            count += data[0]
            untold += data[1]
            has_opened = has_opened or bool(data[2])
        for freed in pages(untold, MAX_PER_CALL):
            opened = await self._free_slots(epoch, freed)
            if opened is None:
                return None
            has_opened = has_opened or opened
        if has_opened:
            self._shard.woke("ready")
        return count

    async def _free_slots(self, epoch: str, job_ids: Sequence[bytes]) -> bool | None:
        """Looks at every gate, as nothing tells which one these jobs passed; whether one opened."""
        k, has_opened = self._keys, False
        if not await self._client.command("EXISTS", k.constraints):
            return False
        packed = codec.pack([job_id.decode() for job_id in job_ids])
        cursor = b"0"
        while True:
            cursor, found = await self._client.command(
                "SCAN", cursor, "MATCH", f"{k.slots_prefix}*", "COUNT", MAX_PER_CALL
            )
            gates = [key.decode().removeprefix(k.slots_prefix) for key in found]
            for page in pages(gates, GATES_PER_CALL):
                word, data = await self._client.run(
                    "free_slots",
                    (k.epoch, k.running),
                    (k.tag, epoch, packed, *page),
                )
                if word != "ok":
                    return None
                has_opened = has_opened or bool(data[0])
            if cursor == b"0":
                return has_opened

    async def reclaim(self, epoch: str, settlements: Sequence[Settlement]) -> list[bool] | None:
        """Ends attempts whose lease is over, unless renewed or settled meanwhile. None under a stale epoch."""
        k = self._keys
        ended: list[bool] = []
        for chunk in pages(settlements, MAX_PER_CALL):
            args: list[Arg] = [self._shard.now_arg, k.tag, epoch, self._result_ttl_ms, k.finished_channel]
            for s in chunk:
                d = s.decision
                args += (
                    s.job_id,
                    bytes.fromhex(s.token),
                    *self._target(d),
                    int(d.is_counted),
                    int(d.is_loss),
                    s.entry,
                    s.result,
                )
            word, data = await self._client.run("reclaim", (k.epoch, k.running, k.results, k.suspects), args)
            if word != "ok":
                return None
            for s, is_ended in zip(chunk, data[0], strict=True):
                if is_ended and s.name:
                    self._tally.ended(s.name, s.decision, job_id=s.job_id, message=s.message)
            ended += map(bool, data[0])
        self._shard.woke("ready")
        self._shard.woke("due")
        return ended

    # --- settling (workers)

    async def settle_success(self, worker_id: str, ended: Sequence[tuple[str, str, bytes]]) -> list[bool]:
        """Ends attempts of (job ID, token, encoded result) as succeeded; False: the token is stale."""
        k = self._keys
        calls = []
        for chunk in pages(ended, MAX_PER_CALL):
            args: list[Arg] = [
                self._shard.now_arg, k.tag, codec.id_bytes(worker_id), self._result_ttl_ms, self._shard.wake_channel,
                k.finished_channel,
            ]  # fmt: skip
            for job_id, token, result in chunk:
                args += (job_id, bytes.fromhex(token), result)
            calls.append(
                Call(
                    load("settle_success"),
                    (k.running, k.claims(worker_id), k.finished(JobState.SUCCEEDED), k.results),
                    args,
                )
            )
        along = self._shard.along(_freed(worker_id, len(ended)))
        replies = await self._client.run_all(calls, along=along)
        verdicts = [bool(code) for _, data in replies for code in data[0]]
        for _, data in replies:
            runs = iter(data[2])
            for name, run_ms, jobs in zip(runs, runs, runs, strict=True):
                self._tally.succeeded(name.decode(), [run_ms] * jobs)
        self._woke_freed(worker_id, sum(verdicts), replies, along)
        return verdicts

    async def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> list[bool]:
        """Ends attempts that did not succeed as decided; False: the token is stale."""
        k = self._keys
        calls = []
        for chunk in pages(settlements, MAX_PER_CALL):
            args: list[Arg] = [
                self._shard.now_arg, k.tag, codec.id_bytes(worker_id), self._result_ttl_ms, self._shard.wake_channel,
                k.finished_channel,
            ]  # fmt: skip
            for s in chunk:
                args += (
                    s.job_id,
                    bytes.fromhex(s.token),
                    *self._target(s.decision),
                    int(s.decision.is_counted),
                    s.entry,
                    s.result,
                    s.hold.gate_id if s.hold else "",
                    s.hold.for_ms if s.hold else 0,
                )
            calls.append(Call(load("settle"), (k.running, k.results), args))
        along = self._shard.along(_freed(worker_id, len(settlements)))
        replies = await self._client.run_all(calls, along=along)
        verdicts = [bool(code) for _, data in replies for code in data[0]]
        runs = [run_ms for _, data in replies for run_ms in data[2]]
        for s, run_ms in zip(settlements, runs, strict=True):
            if run_ms != NOT_ENDED and s.name:
                self._tally.ended(s.name, s.decision, job_id=s.job_id, message=s.message, run_ms=run_ms)
        self._woke_freed(worker_id, sum(verdicts), replies, along)
        self._shard.woke("due")
        if any(s.hold for s in settlements):
            self._shard.woke("gates")
        return verdicts

    def _woke_freed(
        self, worker_id: str, count: int, replies: Sequence[tuple[str, list[Any]]], along: Along | None
    ) -> None:
        if along is None:
            self._shard.woke(_freed(worker_id, count))
        if any(data[1] for _, data in replies):
            self._shard.woke("ready")

    async def confirm_start(self, worker_id: str, claims: Sequence[tuple[str, str]]) -> list[bool]:
        """Whether each (job ID, token) is still the worker's to start, its lease not being over."""
        confirmed: list[bool] = []
        for chunk in pages(claims, MAX_PER_CALL):
            args: list[Arg] = [self._shard.now_arg, codec.id_bytes(worker_id), self._keys.job_prefix]
            for job_id, token in chunk:
                args += (job_id, bytes.fromhex(token))
            _, data = await self._client.run("confirm_start", (self._keys.running,), args)
            confirmed += map(bool, data[0])
        return confirmed

    # --- steering one job

    async def cancel(self, job_id: str) -> tuple[str, str] | None:
        """Ends a waiting or running job as canceled; (worker ID, token) if it ran. Raises StateConflict, KeyError."""
        (end,) = await self.cancel_all([job_id])
        if isinstance(end, Refusal):
            end.throw()
        return end

    async def cancel_all(self, job_ids: Sequence[str]) -> list[tuple[str, str] | Refusal | None]:
        """What `cancel` does, to each by itself, in one round trip."""
        replies = await self._client.run_all([self._cancel_call(job_id) for job_id in job_ids])
        ends: list[tuple[str, str] | Refusal | None] = []
        for word, data in replies:
            if word != "ok":
                ends.append(_refusal(word, data))
                continue
            worker, token, has_opened, name = data
            if name:
                self._tally.of(name.decode()).canceled += 1
            if has_opened:
                self._shard.woke("ready")
            if worker:
                worker_id = codec.id_text(worker)
                self._shard.woke(_freed(worker_id, 1))
                ends.append((worker_id, token.hex()))
            else:
                ends.append(None)
        return ends

    def _cancel_call(self, job_id: str) -> Call:
        k = self._keys
        return Call(
            load("cancel"),
            (
                k.job(job_id),
                k.scheduled,
                k.retrying,
                k.running,
                k.finished(JobState.CANCELED),
                k.history(job_id),
            ),
            (self._shard.now_arg, k.tag, job_id, self._shard.wake_channel, k.finished_channel),
        )

    async def retry(self, job: Job, rules: Ruleset = NO_RULES) -> None:
        """Makes a finished job ready again, `job` as it was when read. Raises StateConflict, KeyError, StaleRules."""
        _throw_any(await self.retry_all([job], rules))

    async def retry_all(self, jobs: Sequence[Job], rules: Ruleset = NO_RULES) -> list["Refusal | None"]:
        """What `retry` does, to each by itself, in one round trip. None: done."""
        return await self._steer([self._retry_call(job, rules) for job in jobs])

    def _retry_call(self, job: Job, rules: Ruleset) -> Call:
        k = self._keys
        lane = lane_of_job(rules, job)
        entry = codec.encode_attempt(job, "success", "", None) if job.state is JobState.SUCCEEDED else b""
        return Call(
            load("retry"),
            (
                k.job(job.id),
                *self._finished(),
                k.result(job.id),
                k.results,
                k.expiring,
                k.rules,
                k.history(job.id),
            ),
            (
                k.tag,
                job.id,
                self._shard.wake_channel,
                rules.edition,
                LaneTable(lane).packed(),
                entry,
                job.finished_at_ms,
            ),
        )

    async def run_now(self, job_id: str) -> None:
        """Makes a job ready that waits for a time. Raises StateConflict, KeyError."""
        _throw_any(await self.run_all_now([job_id]))

    async def run_all_now(self, job_ids: Sequence[str]) -> list["Refusal | None"]:
        """What `run_now` does, to each by itself, in one round trip. None: done."""
        k = self._keys
        return await self._steer(
            [
                Call(
                    load("run_now"),
                    (k.job(job_id), k.scheduled, k.retrying),
                    (k.tag, job_id, self._shard.wake_channel),
                )
                for job_id in job_ids
            ]
        )

    async def patch(self, job: Job, changes: "Changes", rules: Ruleset = NO_RULES) -> None:
        """Changes a waiting job, `job` as it was when read. Raises StateConflict, KeyError, StaleRules."""
        _throw_any(await self.patch_all([job], changes, rules))

    async def patch_all(
        self, jobs: Sequence[Job], changes: "Changes", rules: Ruleset = NO_RULES
    ) -> list["Refusal | None"]:
        """What `patch` does, to each by itself, in one round trip. None: done."""
        return await self._steer([self._patch_call(job, changes, rules) for job in jobs])

    def _patch_call(self, job: Job, changes: "Changes", rules: Ruleset) -> Call:
        k = self._keys
        lane = lane_of_job(rules, changes.applied_to(job))
        given = (changes.priority, changes.run_at_ms, changes.max_retry, changes.timeout_ms)
        return Call(
            load("patch"),
            (k.job(job.id), k.scheduled, k.retrying, k.rules),
            (self._shard.now_arg, k.tag, job.id, self._shard.wake_channel, rules.edition, LaneTable(lane).packed(), *("" if value is None else value for value in given)),
        )  # fmt: skip

    async def delete(self, job_id: str) -> None:
        """Removes a job that does not run, or that was set aside. Raises StateConflict, KeyError."""
        _throw_any(await self.delete_all([job_id]))

    async def delete_all(self, job_ids: Sequence[str]) -> list["Refusal | None"]:
        """What `delete` does, to each by itself, in one round trip. None: done."""
        return await self._steer([self._delete_call(job_id) for job_id in job_ids])

    def _delete_call(self, job_id: str) -> Call:
        k = self._keys
        return Call(
            load("delete"),
            (
                k.job(job_id),
                k.history(job_id),
                k.result(job_id),
                k.damaged,
                k.results,
                k.scheduled,
                k.retrying,
                k.expiring,
                *self._finished(),
            ),
            (k.tag, job_id, self._shard.wake_channel),
        )

    def _finished(self) -> list[str]:
        states = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED, JobState.SKIPPED)
        return [self._keys.finished(state) for state in states]

    async def _steer(self, calls: Sequence[Call]) -> list["Refusal | None"]:
        replies = await self._client.run_all(calls)
        ends = [None if word == "ok" else _refusal(word, data) for word, data in replies]
        if None in ends:
            self._shard.woke("ready")
            self._shard.woke("due")
        return ends

    def _target(self, decision: Decision) -> tuple[Arg, ...]:
        index = "" if decision.state is JobState.READY else self._keys.index(decision.state)
        return codec.STATE_CODES[decision.state], index, decision.delay_ms, int(decision.cause)


def _freed(worker_id: str, count: int) -> str:
    return f"freed:{worker_id}:{count}"


def _enqueued(replies: Sequence[tuple[str, list[Any]]]) -> list[Accepted | BacklogFull]:
    return [
        BacklogFull(data[2].decode()) if code == FULL else _ACCEPTED[code]
        for _, data in replies
        for code in data[1]
    ]


def _refusal(word: str, data: list[Any]) -> Refusal:
    match word:
        case "stale_rules":
            return Refusal(STALE_RULES)
        case "state":
            return Refusal("state", codec.state_of(data[0]))
        case _:
            return Refusal("unknown")


def _throw_any(ends: Sequence[Refusal | None]) -> None:
    for end in ends:
        if end:
            end.throw()
