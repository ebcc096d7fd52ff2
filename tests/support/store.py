"""A shard under test: seed and read it in terms of jobs, not keys."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgpack

from jqmaster.domain.challenges.challenge import Callback, CallbackAnswer, RequestId, new_request_id
from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS
from jqmaster.domain.constraints.lane import Lane
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import FINISHED, HOLDS_SLOTS, Cause, Job, JobSpec, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.jobs.parts import PartLimits
from jqmaster.domain.logs.lines import LogLimits
from jqmaster.domain.operations.tally import Tally
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.errors import DamagedError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.leadership.local_leader import LocalLeader
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.store import codec
from jqmaster.store.constraints.constraints import ConstraintStore
from jqmaster.store.constraints.gates import GateStore
from jqmaster.store.constraints.lanes import LaneStore
from jqmaster.store.definitions.definitions import DefinitionStore
from jqmaster.store.health import fsck
from jqmaster.store.health.findings import Finding
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.health.repair import Repair
from jqmaster.store.job_times import JobTimes
from jqmaster.store.jobs.challenges import ChallengeStore, OpenedChallenge, ReceivedCallback
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from jqmaster.store.jobs.enqueue import EnqueueStore
from jqmaster.store.jobs.enqueue_outcomes import Accepted
from jqmaster.store.jobs.leases import LeaseStore
from jqmaster.store.jobs.listing import JobLists
from jqmaster.store.jobs.operator_actions import OperatorActionStore
from jqmaster.store.jobs.parts import PartStore
from jqmaster.store.jobs.placement import StoredLane
from jqmaster.store.jobs.predecessors import PredecessorStore
from jqmaster.store.jobs.progress import ProgressStore
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.results import ResultStore
from jqmaster.store.jobs.retention import RetentionStore
from jqmaster.store.jobs.settlements import Settlement, SettlementStore
from jqmaster.store.keys import KEYS
from jqmaster.store.leadership.leadership import Leadership, LeadershipStore
from jqmaster.store.link.pages import pages
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import encode
from jqmaster.store.logs.logs import LogStore
from jqmaster.store.workers.polls import PollStore
from jqmaster.store.workers.workers import WorkerStore
from tests.support.admin import admin_of
from tests.support.single_calls import SingleClaimStore, SingleTimerStore

LEASE_MS, OFFER_MS, GRACE_MS = 15_000, 5_000, 5_000
RESULT_TTL_MS, RESULT_GRACE_MS = 86_400_000, 60_000
PART_LIMITS = LiveValue(PartLimits(max_parts=4, max_bytes=100, keep_ms=RESULT_TTL_MS))
LOG_LIMITS = LiveValue(LogLimits(max_line_bytes=300, max_job_bytes=2_000, max_bytes=4_000))
TIMES = LiveValue(JobTimes(LEASE_MS, OFFER_MS, GRACE_MS, RESULT_TTL_MS, RESULT_GRACE_MS))
START_MS = 1_800_000_000_000
# The end of the ID of a gate without a key.
NO_KEY = "0" * 16
READS_PER_BATCH = 500


class StoreWorld:
    """Time stands still until `pass_ms` moves it. A leader exists from the start."""

    def __init__(self, shard: Shard, *, has_store_time: bool = False) -> None:
        self.now_ms = START_MS
        self.leader = LocalLeader()
        now = None if has_store_time else lambda: self.now_ms
        self.shard = shard = replace(shard, now=now, leader=self.leader)
        self.tally = Tally()
        self.records = RecordStore(shard)
        self.acceptance = EnqueueStore(shard, self.tally)
        self.due = SingleTimerStore(shard, self.tally)
        self.claims = SingleClaimStore(shard, self.tally, TIMES)
        self.leases = LeaseStore(shard, self.records, self.tally, TIMES)
        self.settlements = SettlementStore(shard, self.tally, TIMES)
        self.operator_actions = OperatorActionStore(shard, self.tally)
        self.results = ResultStore(shard, TIMES)
        self.progress = ProgressStore(shard)
        self.parts = PartStore(shard, PART_LIMITS)
        self.logs = LogStore(shard, LOG_LIMITS)
        self.challenges = ChallengeStore(shard, self.records, self.tally, TIMES)
        self.predecessors = PredecessorStore(shard, self.tally)
        self.retention = RetentionStore(shard)
        self.workers = WorkerStore(shard, TIMES)
        self.polls = PollStore(shard, TIMES)
        self.leadership = LeadershipStore(shard)
        self.inspector = Inspector(shard, self.records)
        self.lists = JobLists(shard, self.records)
        self.rule_store = ConstraintStore(shard)
        self.constraints = ConstraintCache(self.rule_store)
        self.lanes = LaneStore(shard)
        self.gates = GateStore(shard)
        self.definitions = DefinitionStore(shard, self.tally)
        self.epoch = ""
        # By name: jobs whose records no longer identify their lane, which therefore still counts them.
        self.never_counted_out: Counter[str] = Counter()

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, shard: Shard) -> AsyncIterator["StoreWorld"]:
        world = cls(shard)
        leadership = await world.leadership.elect("master-1", "nonce", ttl_ms=600_000)
        assert leadership
        world.epoch = leadership.epoch
        yield world
        await world.assert_sound()

    def on_store_time(self) -> "StoreWorld":
        """Return the same shard on the store's clock, as in production."""
        world = StoreWorld(self.shard, has_store_time=True)
        world.epoch = self.epoch
        return world

    @property
    def redis(self) -> Any:
        """A client for actions outside the product: damage, and raw looks at keys."""
        return admin_of(self.shard.client)

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms

    def spec(self, name: str = "work", argument: Any = None, **fields: Any) -> JobSpec:
        return JobSpec(
            id=fields.pop("id", None) or new_id(), name=name, argument=msgpack.packb(argument), **fields
        )

    async def enqueue(self, name: str = "work", argument: Any = None, **fields: Any) -> str:
        spec = self.spec(name, argument, **fields)
        assert await self.acceptance.enqueue([spec]) == [Accepted.NEW]
        return spec.id

    async def enqueue_many(self, count: int, name: str = "work", **fields: Any) -> list[str]:
        """Return IDs in order of age."""
        specs = [self.spec(name, n, **fields) for n in range(count)]
        assert set(await self.acceptance.enqueue(specs)) == {Accepted.NEW}
        return [spec.id for spec in specs]

    async def worker(
        self,
        *names: str,
        max_jobs: int = 10,
        url: str | None = "",
        worker_id: str | None = None,
        target: str = "",
    ) -> str:
        """Register a worker at its own address by default, or at `url`. None: it pulls. `target`: the HTTP target to
        which it delivers."""
        worker_id = worker_id or new_id()
        own_url = f"http://{worker_id}" if url == "" else url
        spec = WorkerSpec(
            own_url, names or ("work",), max_jobs, "node-1", 1, {}, "1", "s" * 32, target=target
        )
        await self.workers.register(worker_id, spec)
        return worker_id

    async def claim(self, worker_id: str, *names: str, limit: int = 100) -> list[ClaimedJob]:
        claim = await self.claims.claim(self.epoch, worker_id, names or ("work",), limit)
        assert isinstance(claim, Claim), claim
        return claim.jobs

    async def running(
        self, name: str = "work", argument: Any = None, **fields: Any
    ) -> tuple[str, ClaimedJob]:
        """Return a worker and the one job that it runs."""
        await self.enqueue(name, argument, **fields)
        worker_id = await self.worker(name)
        (job,) = await self.claim(worker_id, name)
        return worker_id, job

    async def challenged(self, **fields: Any) -> tuple[str, ClaimedJob, RequestId]:
        """Return a worker, the one job that it runs, and the job's open challenge."""
        terms = {
            key: fields.pop(key)
            for key in ("wait_ms", "expect", "form", "audience", "remind_ms", "meta")
            if key in fields
        }
        worker_id, job = await self.running(**fields)
        return worker_id, job, await self.open_challenge(worker_id, job, **terms)

    async def open_challenge(
        self,
        worker_id: str,
        job: ClaimedJob,
        *,
        wait_ms: int = 60_000,
        expect: int = 1,
        meta: bytes | None = None,
        **terms: Any,
    ) -> RequestId:
        request = new_request_id(job.job_id)
        opened = await self.challenges.open(
            worker_id, job.token, request, wait_ms=wait_ms, expect=expect, meta=meta, **terms
        )
        assert isinstance(opened, OpenedChallenge), opened
        return request

    async def awaiting(self, **fields: Any) -> tuple[str, ClaimedJob, RequestId]:
        """Like `challenged`, but its attempt has reported the challenge."""
        worker_id, job, request = await self.challenged(**fields)
        reports = [(job.job_id, job.token, request.digest)]
        assert await self.challenges.await_callbacks(worker_id, reports) == [1]
        return worker_id, job, request

    async def awaiting_of(self, job_id: str) -> tuple[str, ClaimedJob, RequestId]:
        """Like `awaiting`, but for this job, which must be the next one waiting."""
        worker_id = await self.worker()
        (job,) = await self.claim(worker_id, limit=1)
        assert job.job_id == job_id
        request = await self.open_challenge(worker_id, job)
        assert await self.challenges.await_callbacks(worker_id, [(job_id, job.token, request.digest)]) == [1]
        return worker_id, job, request

    async def call_back(self, request: RequestId, body: bytes = b"done") -> CallbackAnswer:
        callback = Callback("text/plain", body)
        received = await self.challenges.take(request, callback, callback.digest)
        assert isinstance(received, ReceivedCallback)
        return received.answer

    async def reelect(self) -> str:
        """Start another leadership, and return the former epoch."""
        old = self.epoch
        assert await self.leadership.resign(Leadership(old, "master-1"))
        leadership = await self.leadership.elect("master-1", "nonce", ttl_ms=600_000)
        assert leadership
        self.epoch = leadership.epoch
        return old

    def settlement(self, job: Job, token: str, decision: Decision, result: bytes = b"") -> Settlement:
        entry = codec.encode_attempt(job, decision.ending, "message", None)
        return Settlement(job.id, token, decision, entry, result)

    async def fail(self, worker_id: str, job: ClaimedJob, decision: Decision | None = None) -> bool:
        """Settle a failure, as final by default."""
        decision = decision or Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
        settlement = self.settlement(await self.get(job.job_id), job.token, decision, b"failed result")
        (accepted,) = await self.settlements.settle(worker_id, [settlement])
        return accepted

    def ready(self, name: str = "work") -> str:
        """Return the key that orders a name's ready jobs without constraints."""
        return self.shard.keys.ready(unconstrained(name).id.hex())

    async def prune(self) -> None:
        """Prune as the leader does once a minute."""
        async for lanes in self.lanes.lane_pages():
            await self.lanes.prune(self.epoch, lanes)
        await self.prune_gates()

    async def prune_gates(self) -> None:
        """Prune all gates, as the leader does between its other work."""
        for cid in await self.gates.counted():
            cursor = None
            while cursor != "0":
                done = await self.gates.prune(self.epoch, cid, cursor or "0")
                assert done
                cursor = done[1]

    async def score(self, key: str, member: str) -> float | None:
        return await self.redis.zscore(key, member)

    @contextlib.asynccontextmanager
    async def unchanged(self) -> AsyncIterator[None]:
        """Assert that the block leaves the shard unchanged."""
        before = await self.contents()
        yield
        after = await self.contents()
        assert after.keys() == before.keys()
        assert [key for key in before if before[key] != after[key]] == []

    @contextlib.asynccontextmanager
    async def published(self, channel: str, *messages: str) -> AsyncIterator[None]:
        """Assert that the block publishes exactly these messages on the channel."""
        async with self.redis.pubsub() as pubsub:
            client = self.shard.client
            await (pubsub.ssubscribe if client.publishes_sharded else pubsub.subscribe)(channel)
            assert (await pubsub.get_message(timeout=5))["type"].endswith("subscribe")
            yield
            await client.publish(channel, "end")
            heard = []
            while (text := (await pubsub.get_message(timeout=5))["data"].decode()) != "end":
                heard.append(text)
        assert heard == list(messages)

    @contextlib.contextmanager
    def leading_here(self) -> Iterator[list[str]]:
        """Make this process the leader: wake-up messages are collected instead of published."""
        words: list[str] = []
        self.leader.connect(lambda message: words.append(encode(message)))
        yield words
        self.leader.disconnect()

    async def get(self, job_id: str) -> Job:
        job = await self.records.get(job_id)
        assert job is not None
        return job

    async def state(self, job_id: str) -> JobState:
        return (await self.get(job_id)).state

    async def key_names(self) -> list[str]:
        """Return the names of all keys of the shard, sorted."""
        redis, pattern = self.redis, f"{self.shard.keys.tag}*"
        return sorted({key.decode() async for key in redis.scan_iter(match=pattern, count=1_000)})

    async def dump(self) -> dict[str, bytes]:
        """Return every key of the shard in RESTORE format."""
        names = await self.key_names()
        return dict(zip(names, await self._all(("DUMP", name) for name in names), strict=True))

    async def used_bytes(self) -> int:
        """Return the memory that the keys of the shard take. That of the whole server also changes with what earlier
        tests left there."""
        return sum(
            await self._all(("MEMORY", "USAGE", name, "SAMPLES", 0) for name in await self.key_names())
        )

    async def contents(self) -> dict[str, Any]:
        """Return the full contents of all keys of the shard. Equal contents mean that nothing has changed."""
        names = await self.key_names()
        types = await self._all(("TYPE", name) for name in names)
        # Redis moves members between tables while it serves other calls, and DUMP reveals their order.
        reads = [("SMEMBERS" if of == b"set" else "HGETALL" if of == b"hash" else "DUMP") for of in types]
        return dict(zip(names, await self._all(zip(reads, names, strict=True)), strict=True))

    async def _all(self, commands: Iterable[tuple[str | int, ...]]) -> list[Any]:
        """Return the reply to each command, read in batches. A failed command raises."""
        replies: list[Any] = []
        for batch in pages(list(commands), READS_PER_BATCH):
            pipeline = self.redis.pipeline(transaction=False)
            for command in batch:
                pipeline.execute_command(*command)
            replies += await pipeline.execute()
        return replies

    async def findings(self) -> list[Finding]:
        return [found async for found in fsck.check(self.shard.client, self.shard.keys, self.shard.now)]

    async def assert_sound(self, allowed: Sequence[str] = ()) -> None:
        """Assert that fsck finds nothing and that the key table knows every key."""
        assert [f for f in await self.findings() if f.rule not in allowed] == []
        names = await self.key_names()
        if not allowed:
            await self._assert_counts([name.removeprefix(self.shard.keys.tag) for name in names])
            await self._assert_nothing_to_repair(names)
        known = {info.pattern.split("{")[0] for info in KEYS}
        for key in names:
            rest = key.removeprefix(self.shard.keys.tag)
            assert rest in known or f"{rest.split(':')[0]}:" in known, f"unknown key {key}"

    async def _assert_counts(self, names: Sequence[str]) -> None:
        """Assert that each lane counts its unfinished jobs, each gate counts the jobs that wait behind it, and a lane
        or gate without jobs leaves nothing behind. Lanes without keys and gates without jobs may stay until pruned."""
        redis, k = self.redis, self.shard.keys
        damaged = {raw.decode() for raw in await redis.smembers(k.damaged)}
        unfinished: Counter[str] = Counter()
        waiting: Counter[str] = Counter()
        running: set[str] = set()
        waiting_in: defaultdict[str, list[bytes]] = defaultdict(list)
        ids = [name.removeprefix("job:") for name in names if name.startswith("job:")]
        # MGET returns nothing for a key of another type, so it does not count as a record.
        records = [
            record
            for batch in pages(ids, READS_PER_BATCH)
            for record in await redis.mget([k.job(job_id) for job_id in batch])
        ]
        for job_id, record in zip(ids, records, strict=True):
            job = _readable(job_id, record)
            if job and job_id not in damaged and job.state not in FINISHED:
                unfinished[job.lane_id.hex()] += 1
                waiting[job.lane_id.hex()] += job.state not in HOLDS_SLOTS
                if job.state in HOLDS_SLOTS:
                    running.add(job_id)
                else:
                    waiting_in[job.lane_id.hex()].append(record)
        behind: Counter[str] = Counter()
        gates: set[str] = set()
        groups: set[str] = set()
        surplus: Counter[str] = Counter()
        ids_of_lanes = [name.removeprefix("lane:") for name in names if name.startswith("lane:")]
        notes_of_lanes = await self._all(("GET", k.lane(lane)) for lane in ids_of_lanes)
        lanes = {lane: StoredLane.read(note) for lane, note in zip(ids_of_lanes, notes_of_lanes, strict=True)}
        assert set(unfinished) <= set(lanes)
        for lane, stored in lanes.items():
            if stored.name in self.never_counted_out:
                surplus[stored.name] += stored.jobs - unfinished[lane]
            else:
                assert stored.jobs == unfinished[lane], f"lane {lane}: {stored}"
                assert unfinished[lane] or not stored.keyed, f"nothing is in lane {lane} any more: {stored}"
            own = {
                text[at : at + 24] for text in (stored.shared, stored.keyed) for at in range(0, len(text), 24)
            }
            for gate in own:
                behind[gate] += waiting[lane]
            # In a lane without keys, each job has its own gates.
            for record in [] if stored.keyed else waiting_in[lane]:
                behind.update(own_gates(record))
            gates |= own
            groups.add(stored.group)
        assert surplus == self.never_counted_out
        ready: Counter[str] = Counter()
        lengths = await self._all(("ZCARD", k.ready(lane)) for lane in lanes)
        for stored, length in zip(lanes.values(), lengths, strict=True):
            ready[stored.name] += length
        kept = {name.decode(): int(count) for name, count in (await redis.hgetall(k.ready_counts)).items()}
        assert {name: count for name, count in kept.items() if count} == dict(+ready)
        slot_lists, slot_counts = set[str](), Counter[str]()
        lists = [name.removeprefix("slots:") for name in names if name.startswith("slots:")]
        holders = await self._all(("HKEYS", k.slots(rest)) for rest in lists)
        for rest, raws in zip(lists, holders, strict=True):
            held = {raw.decode() for raw in raws}
            assert held <= running
            if rest.endswith(NO_KEY):
                slot_lists.add(rest)
                for at in range(0, len(rest), 24):
                    slot_counts[rest[at : at + 24]] += len(held)
        for name in names:
            kind, _, rest = name.partition(":")
            match kind:
                case "gates":
                    notes = await redis.hgetall(k.gates(rest))
                    counted = {gate.decode(): int(note.partition(b":")[0]) for gate, note in notes.items()}
                    assert {gate: count for gate, count in counted.items() if count} == {
                        gate: count for gate, count in behind.items() if gate.startswith(rest) and count
                    }
                    crowded = await redis.zrange(k.crowded(rest), 0, -1, withscores=True)
                    assert {gate.decode(): int(level) for gate, level in crowded} == {
                        gate: count.bit_length() - 1 for gate, count in counted.items() if count > 1
                    }
                case "waiters":
                    assert rest in gates, f"{name} is of no lane"
                case "open" | "parked":
                    assert rest[-16:] in groups, f"{name} is of no lane"
                case "ready" | "lanes":
                    assert kind == "lanes" or rest in lanes, f"{name} is of no lane"
        assert {raw.decode() for raw in await redis.smembers(k.slot_lists)} == slot_lists
        summed = {gate.decode(): int(count) for gate, count in (await redis.hgetall(k.slot_counts)).items()}
        assert summed == dict(slot_counts)

    async def _assert_nothing_to_repair(self, names: Sequence[str]) -> None:
        """Assert that repair changes nothing, even when applied to everything here regardless of fsck's findings."""
        k, epoch = self.shard.keys, await self.redis.get(self.shard.keys.epoch)
        if epoch is None:
            return
        repair = Repair(self.shard, epoch.decode(), who="test", times=TIMES)

        def all_of(prefix: str) -> list[str]:
            return [name for name in names if name.startswith(prefix)]

        def suspected(keys: Sequence[str]) -> list[Finding]:
            return [Finding("suspected", key, "") for key in keys]

        # Cover everything that a usual test has, and only a few where there are hundreds or thousands.
        owners = [
            name for kind in (k.ready_prefix, k.claims_prefix, k.slots_prefix) for name in all_of(kind)[:4]
        ]
        jobs = suspected(all_of(k.job_prefix)[:1_000])
        assert await repair.repair_jobs(jobs, "") == []
        for owner in owners:
            assert await repair.repair_jobs(jobs[:100], owner) == []
        assert await repair.repair_lanes(suspected(all_of(k.lane_prefix)[:1_000])) == []
        assert await repair.repair_names(suspected(all_of(k.lanes_prefix))) == []
        assert await repair.repair_slots(suspected([k.slot_counts])) == []


def _readable(job_id: str, record: bytes | None) -> Job | None:
    try:
        return codec.decode_job(job_id, record) if record else None
    except DamagedError:
        return None


def own_gates(record: bytes) -> list[str]:
    """Return the keyed gates in a job's record."""
    at = codec.HEAD_SIZE + 1 + record[codec.HEAD_SIZE]
    count = 0 if record[at : at + 1] == codec.GATES_IN_LANE else record[at]
    return [record[at + 1 + 24 * n :][:24].decode() for n in range(count)]


def unconstrained(name: str) -> Lane:
    """Return the lane of a name without constraints."""
    lane = NO_CONSTRAINTS.lane_of_queue(name)
    assert lane
    return lane
