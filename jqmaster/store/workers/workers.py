"""The registry of workers."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

import msgpack

from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.workers.slot_rule import SlotRule, rule_id
from jqmaster.domain.workers.worker import DetachedBy, Worker, WorkerSpec
from jqmaster.errors import DamagedError, RateLimitedError, StoreUnavailableError, unknown_worker
from jqmaster.live_value import LiveValue
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.job_times import JobTimes
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import GateClosed, JobsReady, WorkersChanged

logger = logging.getLogger(__name__)

# How long the store remembers that a worker announced its end. The leases of the worker end within a minute, but all
# masters may be down at that time.
LEFT_NOTE_MS: Final = 24 * 3600 * 1000
FULL_RETRY_AFTER_S: Final = 5.0


class WorkerQuota(NamedTuple):
    """How many workers may be registered. Workers that have been silent for `stale_ms` do not count."""

    most: int
    stale_ms: int


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The store's answer to a heartbeat. Each claim is a pair (job ID, token).

    * `epoch`: 0 before the first election.
    * `fence`: the newest fence; 0 before the first claim.
    * `max_jobs`: how many jobs the worker may have.
    * `outdated`: claims about which the store has a later report than this heartbeat.
    """

    now_ms: int
    epoch: int
    is_draining: bool
    detached_by: DetachedBy | None
    to_cancel: frozenset[tuple[str, str]]
    lost: frozenset[tuple[str, str]]
    fence: int = 0
    max_jobs: int = 0
    outdated: frozenset[tuple[str, str]] = frozenset()

    @property
    def is_detached(self) -> bool:
        return self.detached_by is not None

    @property
    def is_renewed(self) -> bool:
        """Return whether the heartbeat renewed the leases of all claims that are not in `to_cancel` and not in `lost`.
        A detached worker keeps the rest of its old leases.
        """
        return self.detached_by in (None, "silence")


@dataclass(frozen=True, slots=True)
class WorkerOwner:
    """The owner of a worker (`name`: empty if it has none), and the data that decide about a change of owner."""

    name: str
    secret: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FleetSeen:
    """All registered workers at one instant. `queues`: the queues of jobs that require labels."""

    workers: list[Worker]
    now_ms: int
    queues: list[str]


class Commanded(Enum):
    """The outcome of an operator's command."""

    NEW = "new"
    SAME = "same"  # the command changed nothing
    DETACHED = "detached"
    UNKNOWN = "unknown"


class WorkerStore:
    """Workers of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, times: LiveValue[JobTimes]) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._times = times
        self._known_ids: list[str] = []

    async def serving(self, url: str) -> str:
        """Return the ID of the worker that serves this URL now; empty if none does."""
        found = await self._client.command("HGET", self._keys.worker_urls, url)
        return found.decode() if found else ""

    async def register(
        self,
        worker_id: str,
        spec: WorkerSpec,
        owner: str = "",
        companion_of: str = "",
        *,
        former: str | None = None,
        quota: WorkerQuota | None = None,
    ) -> tuple[int, int]:
        """Register the worker. Return the store time, and the epoch (0: nobody has led yet). `former`: the answer of
        `serving` before the address was proven. None: read it now.

        A former worker at the same URL is detached. If the former worker is known to have ended, its claims end at
        once. A slot rule for the node and labels of the new worker replaces the number of slots that it registers.

        Raise RateLimitedError if the `quota` is used up. Also raise StoreUnavailableError if the call reached the store
        too late: its caller may have given up, or another worker has registered at the URL.
        """
        k = self._keys
        if former is None:
            former = await self.serving(spec.url) if spec.url else ""
        # Read the store's clock first and set a deadline for the command. A connection may deliver the command long
        # after the worker has registered at another master.
        until_ms = await self._now_ms() + round(self._client.gives_up_after_s * 1000)
        fields = [part for field in _described(spec, owner, companion_of).items() for part in field]
        word, data = await self._client.run(
            "register_worker",
            (k.worker(worker_id), k.workers, k.worker_urls, k.epoch, k.running, k.slot_rules),
            (
                self._shard.now_arg,
                worker_id,
                spec.url or "",
                k.worker_prefix,
                k.claims_prefix,
                self._shard.wake_channel,
                until_ms,
                rule_id(spec.node_id, spec.labels),
                former,
                quota.most if quota else "",
                quota.stale_ms if quota else "",
                RESERVED_PREFIX,
                *fields,
            ),
        )
        if word == "late":
            raise StoreUnavailableError("the store was reached too late", retry_after_s=1)
        if word == "full":
            raise RateLimitedError(
                f"{quota.most if quota else 0} workers of the namespace are registered, as many as its quota allows",
                code="namespace_full",
                retry_after_s=FULL_RETRY_AFTER_S,
            )
        now_ms, epoch, _replaced = data
        self._shard.leader.wake(WorkersChanged())
        return now_ms, codec.epoch_number(epoch)

    async def owner(self, worker_id: str) -> WorkerOwner | None:
        """Return the owner of a worker, or None if the worker is unknown, or its record cannot be read."""
        owner, secret, names = await self._client.command(
            "HMGET", self._keys.worker(worker_id), "owner", "secret", "names"
        )
        try:
            return WorkerOwner((owner or b"").decode(), secret.decode(), tuple(msgpack.unpackb(names)))
        except (AttributeError, ValueError, TypeError, msgpack.UnpackException):
            return None

    async def adopt(self, worker_id: str, *, expected: str, owner: str) -> bool:
        """Make another token the owner of a worker. Return False if the worker is gone or its owner is not the expected
        one."""
        word, _ = await self._client.run("adopt_worker", (self._keys.worker(worker_id),), (expected, owner))
        return word == "ok"

    async def _now_ms(self) -> int:
        if self._shard.now:
            return self._shard.now()
        seconds, microseconds = await self._client.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def renew(
        self,
        worker_id: str,
        claims: Sequence[tuple[str, str]],
        free: int,
        as_of_ms: int = 0,
        *,
        max_jobs: int | None = None,
    ) -> HeartbeatReply | None:
        """Renew the leases of the claims in a heartbeat: pairs (job ID, token) that were listed at `as_of_ms` or later.
        Return None if the worker is unknown. `max_jobs`: the slots that the worker offers from now on. None: the number
        stays.
        """
        k = self._keys
        answer: HeartbeatReply | None = None
        for start in range(0, max(len(claims), 1), MAX_PER_CALL):
            # Only the last call reports `as_of_ms`. During earlier calls, the store has not yet seen all claims of the
            # heartbeat, so a missing claim proves nothing.
            is_last = start + MAX_PER_CALL >= len(claims)
            args: list[Arg] = [
                self._shard.now_arg, worker_id, codec.id_bytes(worker_id), free, as_of_ms if is_last else -1,
                self._times.current.lease_ms, self._times.current.offer_ms, self._times.current.grace_ms, k.job_prefix,
                max_jobs or 0,
            ]  # fmt: skip
            for job_id, token in claims[start : start + MAX_PER_CALL]:
                args += (job_id, bytes.fromhex(token))
            word, data = await self._client.run(
                "renew", (k.worker(worker_id), k.workers, k.running, k.epoch, k.fence), args
            )
            if word != "ok":
                return None
            now_ms, epoch, draining, detached_by, to_cancel, lost, fence, most = data
            earlier = answer or HeartbeatReply(now_ms, 0, False, None, frozenset(), frozenset())
            answer = HeartbeatReply(
                # Return the store time of the first call, because the leases that it renewed end first.
                earlier.now_ms,
                codec.epoch_number(epoch),
                bool(draining),
                detached_by.decode() or None,
                earlier.to_cancel | {claims[start + n] for n in to_cancel},
                earlier.lost | {claims[start + n] for n in lost},
                fence,
                most,
            )
        return answer

    async def reattach(self, worker_id: str, claims: Sequence[tuple[str, str, bytes]]) -> bool:
        """Let a worker continue that was detached because it had been silent. `claims`: (job ID, token, history entry).
        Write the entries of the claims that the worker still holds. Return False if the worker was not detached, or was
        detached permanently.
        """
        k = self._keys
        for start in range(0, len(claims) or 1, MAX_PER_CALL):
            is_last = start + MAX_PER_CALL >= len(claims)
            args: list[Arg] = [
                self._shard.now_arg, codec.id_bytes(worker_id), k.tag, int(is_last), self._shard.wake_channel,
            ]  # fmt: skip
            for job_id, token, entry in claims[start : start + MAX_PER_CALL]:
                args += (job_id, bytes.fromhex(token), entry)
            word, _ = await self._client.run("continue_worker", (k.worker(worker_id), k.running), args)
            if word != "ok":
                return False
        self._shard.leader.wake(WorkersChanged())
        return True

    async def change_target_worker(
        self, worker_id: str, names: Sequence[str], max_jobs: int, unreachable: str
    ) -> bool:
        """Change the names and slots of a worker that delivers to a target. `unreachable`: why the target cannot be
        reached; empty if it can. Return False if the worker is not registered."""
        word, _ = await self._client.run(
            "change_target_worker",
            (self._keys.worker(worker_id),),
            (codec.pack(list(names)), max_jobs, unreachable, self._shard.wake_channel),
        )
        self._shard.leader.wake(WorkersChanged())
        return word == "ok"

    # --- commands of operators, each with its audit entry

    async def drain(self, worker_id: str, audit_entry: bytes) -> Commanded:
        """Drain the worker: it gets no more jobs, and finishes those that it runs."""
        return await self._command("drain_worker", worker_id, audit_entry)

    async def resume(self, worker_id: str, audit_entry: bytes) -> Commanded:
        """Let the worker take jobs again."""
        return await self._command("resume_worker", worker_id, audit_entry)

    async def detach(self, worker_id: str, audit_entry: bytes) -> Commanded:
        """Detach the worker permanently: it gets no more jobs, and its leases are not renewed."""
        return await self._command("detach_worker", worker_id, audit_entry)

    async def set_slots(
        self, worker_id: str, max_jobs: int | None, audit_entry: bytes, *, kept: SlotRule | None = None
    ) -> Commanded:
        """Set how many jobs the worker may hold. None: the number that it registered. `kept`: a rule that sets this
        number for workers that later register on the rule's node with its labels.
        """
        rule = codec.pack([kept.node_id, dict(kept.labels), kept.set_by, kept.set_at_ms]) if kept else b""
        word, data = await self._client.run(
            "set_slots",
            (self._keys.worker(worker_id), self._keys.slot_rules, self._keys.audit),
            (self._shard.now_arg, max_jobs or 0, kept.id if kept else "", rule, audit_entry, MAX_ENTRIES,
             self._shard.wake_channel),
        )  # fmt: skip
        if word != "ok":
            return Commanded(word)
        self._shard.leader.wake(WorkersChanged())
        return Commanded.NEW if data[0] else Commanded.SAME

    async def observe(
        self, worker_id: str, gate_id: str, remaining: int, for_ms: int, as_of_ms: int = 0
    ) -> bool:
        """Record that another system still admits `remaining` thousandths at a gate for `for_ms`, counted from
        `as_of_ms`. `as_of_ms`: the time of the observation or an earlier time (0: now).

        Return False if a later observation is stored. Raise NotFoundError if the worker is not registered.
        """
        k = self._keys
        word, _ = await self._client.run(
            "observe",
            (k.worker(worker_id), k.observed, k.gates_due),
            (self._shard.now_arg, k.tag, gate_id, remaining, for_ms, as_of_ms, self._shard.wake_channel),
        )
        if word == "unknown":
            raise unknown_worker(worker_id)
        if word == "outdated":
            return False
        self._shard.leader.wake(GateClosed())
        self._shard.leader.wake(JobsReady())
        return True

    async def slot_rules(self) -> list[SlotRule]:
        """Return the slot rules, by node and labels, without those that cannot be read."""
        flat = await self._client.command("HGETALL", self._keys.slot_rules)
        rules = []
        for raw_id, raw in zip(flat[::2], flat[1::2], strict=True):
            try:
                max_jobs, _, packed = raw.partition(b" ")
                node_id, labels, set_by, set_at_ms, *_ = msgpack.unpackb(packed)
                rules.append(SlotRule(node_id, labels, int(max_jobs), set_by, set_at_ms))
            except (ValueError, TypeError, msgpack.UnpackException):
                logger.error("slot rule %s cannot be read", raw_id.decode(errors="replace"))
        return sorted(rules, key=lambda rule: (rule.node_id, sorted(rule.labels.items())))

    async def add_slot_rule(self, rule: SlotRule) -> bool:
        """Add a slot rule for workers that register from now on. Return False if there is one for that node and these
        labels."""
        if await self._client.command("HEXISTS", self._keys.slot_rules, rule.id):
            return False
        packed = codec.pack([rule.node_id, dict(rule.labels), rule.set_by, rule.set_at_ms])
        await self._client.command("HSET", self._keys.slot_rules, rule.id, b"%d %b" % (rule.max_jobs, packed))
        return True

    async def drop_slot_rule(self, rule_id: str, audit_entry: bytes) -> bool:
        """Remove a slot rule. Return False if there is none. Registered workers keep their slots."""
        word, _ = await self._client.run(
            "drop_slot_rule",
            (self._keys.slot_rules, self._keys.audit),
            (self._shard.now_arg, rule_id, audit_entry, MAX_ENTRIES),
        )
        return word == "ok"

    async def _command(self, script: str, worker_id: str, audit_entry: bytes) -> Commanded:
        word, data = await self._client.run(
            script,
            (self._keys.worker(worker_id), self._keys.audit),
            (self._shard.now_arg, audit_entry, MAX_ENTRIES, self._shard.wake_channel),
        )
        if word != "ok":
            return Commanded(word)
        self._shard.leader.wake(WorkersChanged())
        return Commanded.NEW if data[0] else Commanded.SAME

    # --- leaving

    async def announce_leave(self, worker_id: str) -> bool:
        """Record that the worker's process is ending. The worker gets no more jobs, and the end of a lease does not
        count as a loss. Return False if it is not registered."""
        word, _ = await self._client.run(
            "announce_leave", (self._keys.worker(worker_id),), (self._shard.now_arg, self._shard.wake_channel)
        )
        self._shard.leader.wake(WorkersChanged())
        return word == "ok"

    async def forget(self, worker_id: str) -> bool:
        """Remove a worker. Return False if it was unknown. Claims that it holds end with their leases. If the worker
        announced its end, the announcement stays recorded until then.
        """
        k = self._keys
        word, _ = await self._client.run(
            "forget_worker",
            (k.worker(worker_id), k.workers, k.worker_urls, k.claims(worker_id), k.left(worker_id)),
            (worker_id, LEFT_NOTE_MS),
        )
        self._shard.leader.wake(WorkersChanged())
        return word == "ok"

    async def forget_silent(self, epoch: str, worker_id: str, *, silent_ms: int) -> bool:
        """Remove a worker that has been silent for `silent_ms` and holds no claim. Return False if it has sent a
        heartbeat since, or is gone."""
        k = self._keys
        word, _ = await self._client.run(
            "forget_silent_worker",
            (k.epoch, k.worker(worker_id), k.workers, k.worker_urls, k.claims(worker_id)),
            (self._shard.now_arg, epoch, worker_id, silent_ms),
        )
        return word == "ok"

    async def detach_silent(self, epoch: str, worker_id: str, *, silent_ms: int) -> bool:
        """Detach a worker that has been silent for `silent_ms`, until it asks to continue. Return False if it has sent
        a heartbeat since, or is gone."""
        k = self._keys
        word, _ = await self._client.run(
            "detach_silent_worker",
            (k.epoch, k.worker(worker_id), k.workers),
            (self._shard.now_arg, epoch, worker_id, silent_ms),
        )
        return word == "ok"

    # --- reading

    async def claims(self, worker_id: str) -> list[str]:
        """Return the IDs of the jobs that the worker holds, the oldest first."""
        return sorted(
            raw.decode() for raw in await self._client.command("SMEMBERS", self._keys.claims(worker_id))
        )

    async def get(self, worker_id: str) -> Worker | None:
        found = await self._load([worker_id], {})
        return found[0] if found else None

    async def names_of(self, worker_ids: Sequence[str]) -> dict[str, str]:
        """Return the node and the process of each of these workers that is registered, such as `web-1:4242`."""
        found = await self._client.pipeline(
            [("HMGET", self._keys.worker(worker_id), "node_id", "pid") for worker_id in worker_ids],
            skip_damaged=True,
        )
        names = {}
        for worker_id, fields in zip(worker_ids, found, strict=True):
            if fields and fields[0]:
                pid = (fields[1] or b"0").decode()
                names[worker_id] = fields[0].decode() + (f":{pid}" if pid != "0" else "")
        return names

    async def all(self) -> list[Worker]:
        """Return every registered worker, by age."""
        return (await self.all_with_time())[0]

    async def all_with_time(self) -> tuple[list[Worker], int]:
        """Return every registered worker, by age, and the store time at which they were read."""
        found = await self.fleet()
        return found.workers, found.now_ms

    async def fleet(self) -> FleetSeen:
        """Return every registered worker, by age, and the other facts that the leader needs."""
        # Read the registry together with the workers that the last call found. These usually are all workers, so one
        # round trip is enough.
        known = self._known_ids
        flat, (seconds, microseconds), queues, *replies = await self._client.pipeline(
            [
                ("ZRANGE", self._keys.workers, 0, -1, "WITHSCORES"),
                ("TIME",),
                ("HKEYS", self._keys.requirements),
                *self._reads(known),
            ],
            skip_damaged=True,
        )
        if flat is None:
            raise DamagedError("the registry of workers has the wrong type; `jqmaster fsck` names the key")
        seen = {flat[i].decode(): int(float(flat[i + 1])) for i in range(0, len(flat), 2)}
        now_ms = self._shard.now() if self._shard.now else int(seconds) * 1000 + int(microseconds) // 1000
        worker_ids = self._known_ids = sorted(seen)
        if worker_ids != known:
            replies = await self._client.pipeline(self._reads(worker_ids), skip_damaged=True)
        return FleetSeen(
            self._loaded(worker_ids, seen, replies), now_ms, [raw.decode() for raw in queues or ()]
        )

    async def _load(self, worker_ids: Sequence[str], seen: Mapping[str, int]) -> list[Worker]:
        replies = await self._client.pipeline(self._reads(worker_ids), skip_damaged=True)
        return self._loaded(worker_ids, seen, replies)

    def _reads(self, worker_ids: Sequence[str]) -> list[tuple[Arg, ...]]:
        k = self._keys
        commands: list[tuple[Arg, ...]] = []
        for worker_id in worker_ids:
            commands += [
                ("HGETALL", k.worker(worker_id)),
                ("SCARD", k.claims(worker_id)),
                ("ZSCORE", k.workers, worker_id),
            ]
        return commands

    def _loaded(
        self, worker_ids: Sequence[str], seen: Mapping[str, int], replies: Sequence[Any]
    ) -> list[Worker]:
        workers = []
        for n, worker_id in enumerate(worker_ids):
            flat, busy, score = replies[n * 3 : n * 3 + 3]
            fields = {flat[i].decode(): flat[i + 1] for i in range(0, len(flat or ()), 2)}
            if "max_jobs" not in fields:
                continue  # the worker was removed between the two reads
            try:
                last_seen_ms = seen.get(worker_id) or int(float(score or 0))
                workers.append(_worker(worker_id, fields, last_seen_ms, busy or 0))
            except (KeyError, ValueError, TypeError, msgpack.UnpackException):
                logger.error("worker %s: its record cannot be read; it gets no jobs", worker_id)
        return workers


def _worker(worker_id: str, fields: dict[str, bytes], last_seen_ms: int, busy: int) -> Worker:
    return Worker(
        id=worker_id,
        spec=WorkerSpec(
            url=fields["url"].decode() or None,
            names=tuple(msgpack.unpackb(fields["names"])),
            max_jobs=int(fields["max_jobs"]),
            node_id=fields["node_id"].decode(),
            pid=int(fields["pid"]),
            labels=msgpack.unpackb(fields["labels"]),
            version=fields["version"].decode(),
            secret=fields["secret"].decode(),
            contracts=msgpack.unpackb(fields["contracts"]) if "contracts" in fields else {},
            target=fields.get("target", b"").decode(),
        ),
        registered_at_ms=int(fields["registered_at_ms"]),
        last_seen_ms=last_seen_ms,
        is_draining=fields["is_draining"] == b"1",
        is_detached=fields["is_detached"] == b"1",
        busy=busy,
        detached_by=_detached_by(fields),
        silent_since_ms=int(fields.get("silent_since_ms", 0)),
        alone_with=fields.get("alone_with", b"").decode(),
        polls_until_ms=int(fields.get("poll_until_ms", 0)),
        own_max_jobs=int(fields.get("own_max_jobs") or fields["max_jobs"]),
        companion_of=fields.get("companion_of", b"").decode(),
        unreachable=fields.get("unreachable", b"").decode(errors="replace"),
    )


def _detached_by(fields: Mapping[str, bytes]) -> DetachedBy | None:
    if fields["is_detached"] != b"1":
        return None
    match fields.get("detached_by"):
        case b"silence":
            return "silence"
        case b"successor":
            return "successor"
        case _:
            return "operator"


def _described(spec: WorkerSpec, owner: str, companion_of: str) -> dict[str, Arg]:
    """Return the fields of a worker's record that it describes itself."""
    described: dict[str, Arg] = {
        "url": spec.url or "",
        "names": codec.pack(spec.names),
        "max_jobs": spec.max_jobs,
        "own_max_jobs": spec.max_jobs,
        "node_id": spec.node_id,
        "pid": spec.pid,
        "labels": codec.pack(dict(spec.labels)),
        "version": spec.version,
        "secret": spec.secret,
        "owner": owner,
        "place": spec.place,
    }
    if companion_of:
        described["companion_of"] = companion_of
    if spec.target:
        described["target"] = spec.target
    if spec.contracts:
        described["contracts"] = codec.pack(dict(spec.contracts))
    return described
