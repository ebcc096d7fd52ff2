"""Constraints under test: create, change and follow them up as a leader does, and read them without the code under
test."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from jqmaster.clock import Clock
from jqmaster.domain.constraints.constraint import Constraint, GateLimits, Override, needs_rematch, new_cid
from jqmaster.domain.constraints.gate_check import Rate
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.relocation import Relocation
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.constraints.preview import MAX_PREVIEWS, PreviewTurns
from jqmaster.shared_bound import SharedBound
from jqmaster.store.constraints.constraints import Change, ConstraintStore
from jqmaster.store.constraints.documents import StoredConstraint
from jqmaster.store.constraints.lanes import LaneStore
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from jqmaster.store.jobs.enqueue_outcomes import Accepted, Outcome
from jqmaster.store.jobs.placement import StoredLane
from tests.support.store import StoreWorld

EVERY_JOB: Mapping[str, Any] = {"field": "name", "op": "exists"}
EMPTY_MAP = b"\x80"


def preview_turns(clock: Clock) -> PreviewTurns:
    """Return the turns of an installation with one namespace."""
    return PreviewTurns(clock, SharedBound(LiveValue(MAX_PREVIEWS)).portion())


def constraint(
    name: str = "limit",
    matcher: Mapping[str, Any] = EVERY_JOB,
    *,
    key: str | None = None,
    rate: tuple[int, int] | None = None,
    overrides: Iterable[Override] = (),
    **fields: Any,
) -> Constraint:
    """Return a constraint. `rate` is (limit, period_ms); other fields are those of `Constraint`."""
    return Constraint(
        name=name,
        cid=fields.pop("cid", None) or new_cid(is_weighted=fields.get("weight") is not None),
        matcher=parse_matcher(matcher),
        key=None if key is None else parse_path(key),
        rate=None if rate is None else Rate(*rate),
        overrides=tuple(overrides),
        **fields,
    )


def override(
    value: object,
    *,
    concurrency: int | None = None,
    rate: tuple[int, int] | None = None,
    paused: bool = False,
) -> Override:
    return Override(value, GateLimits(concurrency, Rate(*rate) if rate else None, paused))


@dataclass(frozen=True, slots=True)
class Structures:
    """The lanes and gates of a shard with their contents."""

    slots: dict[str, dict[str, str]]
    starts: dict[str, dict[str, int]]
    waiting: dict[str, int]
    lanes: dict[str, StoredLane]
    # Unfinished jobs of each non-empty lane.
    lane_jobs: dict[str, int]


class ConstrainedWorld:
    """`world` with constraints. The test decides when the leader takes its steps."""

    def __init__(
        self, world: StoreWorld, store: ConstraintStore | None = None, lanes: LaneStore | None = None
    ) -> None:
        self.world = world
        self.store = store or world.rule_store
        self.constraints = ConstraintCache(self.store) if store else world.constraints
        self.lanes, self.gates = lanes or world.lanes, world.gates
        self._changes = 0

    async def change(self, name: str, new: Constraint | None) -> bool:
        """Create, change or remove a constraint without following it up. Keep the cid where the counts remain valid."""
        constraints = await self.store.load()
        old = constraints.named(name)
        self._changes += 1
        now_ms, etag = self.world.now_ms, os.urandom(8).hex()
        stored = StoredConstraint(new, etag, now_ms, now_ms) if new else None
        before = old.constraint if old else None
        return await self.store.change(
            Change(name, old.etag if old else "", stored, before, needs_rematch(before, new), EMPTY_MAP)
        )

    async def put(self, *constraints: Constraint) -> None:
        """Create or change constraints and put them in force for every job."""
        for one in constraints:
            assert await self.change(one.name, one)
        await self.follow_up()

    async def limit(
        self, name: str = "limit", matcher: Mapping[str, Any] = EVERY_JOB, **fields: Any
    ) -> Constraint:
        one = constraint(name, matcher, **fields)
        await self.put(one)
        return one

    async def edit(self, one: Constraint, **fields: Any) -> Constraint:
        """Put the constraint in force with other limits or another matcher."""
        changed = replace(one, **fields)
        await self.put(changed)
        return changed

    async def remove(self, name: str = "limit") -> None:
        assert await self.change(name, None)
        await self.follow_up()

    async def settle(self) -> bool:
        return bool(await self.lanes.settle(self.world.epoch, await self.constraints.reload()))

    async def open_gates(self) -> bool:
        """Open gates whose time has come or whose constraint changed, as the leader does."""
        has_opened = False
        for cid, version in await self.gates.reopened():
            has_opened = bool(await self.gates.reopen(self.world.epoch, cid, version)) or has_opened
        opened = await self.gates.open(self.world.epoch)
        assert opened is not None
        return opened[1] or has_opened

    async def relocate(self) -> int:
        """Return how many waiting jobs moved. Afterwards, lanes of older rules are empty."""
        relocation = Relocation(self.lanes, self.world.epoch, await self.constraints.reload())
        moved = 0
        while not relocation.is_over:
            moved += await relocation.step()
        return moved

    async def follow_up(self) -> None:
        assert await self.settle()
        await self.open_gates()
        await self.relocate()
        await self.constraints.reload()
        assert await self.lanes.older_lanes(self.constraints.current.constraint_set.edition) == []

    # --- jobs

    async def enqueue(self, name: str = "work", argument: Any = None, **fields: Any) -> str:
        spec = self.world.spec(name, argument, **fields)
        assert await self.push([spec]) == [Accepted.NEW]
        return spec.id

    async def enqueue_many(self, arguments: Iterable[Any], name: str = "work", **fields: Any) -> list[str]:
        """Return IDs in order of age."""
        specs = [self.world.spec(name, argument, **fields) for argument in arguments]
        for start in range(0, len(specs), 5000):
            assert set(await self.push(specs[start : start + 5000])) == {Accepted.NEW}
        return [spec.id for spec in specs]

    async def push(self, specs: list[JobSpec], *, is_whole: bool = False) -> list[Outcome]:
        return await self.constraints.under(
            lambda constraints: self.world.acceptance.enqueue(specs, constraints, is_whole=is_whole)
        )

    async def claim_once(self, worker_id: str, *names: str, limit: int = 100) -> Claim:
        await self.constraints.reload()
        edition = self.constraints.current.constraint_set.edition
        claim = await self.world.claims.claim(self.world.epoch, worker_id, names or ("work",), limit, edition)
        assert isinstance(claim, Claim), claim
        return claim

    async def claim(self, worker_id: str, *names: str, limit: int = 100) -> list[ClaimedJob]:
        """Claim as often as a dispatcher would: until it has enough jobs or the store has no more."""
        jobs: list[ClaimedJob] = []
        for _ in range(1000):
            claim = await self.claim_once(worker_id, *names, limit=limit - len(jobs))
            jobs += claim.jobs
            if claim.is_exhausted or len(jobs) >= limit:
                return jobs
        raise AssertionError("claims go on for ever without a result")

    async def take(self, worker_id: str, *names: str, limit: int = 100) -> list[str]:
        """Return the IDs of the claimed jobs in order."""
        return [job.job_id for job in await self.claim(worker_id, *names, limit=limit)]

    async def succeed(self, worker_id: str, *jobs: ClaimedJob) -> None:
        ended = [(job.job_id, job.token, b"") for job in jobs]
        assert await self.world.settlements.settle_success(worker_id, ended) == [True] * len(jobs)

    # --- reading the shard itself

    async def structures(self) -> Structures:
        redis: Any = self.world.redis
        k = self.world.shard.keys
        slots: dict[str, dict[str, str]] = {}
        starts: dict[str, dict[str, int]] = {}
        waiting: dict[str, int] = {}
        lanes: dict[str, StoredLane] = {}
        keys = sorted([raw async for raw in redis.scan_iter(match=f"{k.tag}*", count=5000)])
        for raw in keys:
            key = raw.decode()
            if key.startswith(k.slots_prefix):
                found = {i.decode(): t.hex() for i, t in (await redis.hgetall(key)).items()}
                gates = key.removeprefix(k.slots_prefix)
                for at in range(0, len(gates), 24):
                    slots.setdefault(gates[at : at + 24], {}).update(found)
            elif key.startswith(k.starts_prefix):
                pairs = await redis.zrange(key, 0, -1, withscores=True)
                starts[key.removeprefix(k.starts_prefix)] = {t.hex(): int(at) for t, at in pairs}
            elif key.startswith(k.gates("")):
                for gate, note in (await redis.hgetall(key)).items():
                    waiting[gate.decode()] = int(note.partition(b":")[0])
            elif key.startswith(k.lane_prefix):
                lanes[key.removeprefix(k.lane_prefix)] = StoredLane.read(await redis.get(key))
        lane_jobs = {lane: stored.jobs for lane, stored in lanes.items() if stored.jobs}
        return Structures(slots, starts, waiting, lanes, lane_jobs)

    async def gates_of(self, job_id: str, lanes: Mapping[str, StoredLane]) -> list[str]:
        """Return the gates that the store will make this job pass: those of its lane and those in its record."""
        redis: Any = self.world.redis
        record: bytes = await redis.get(self.world.shard.keys.job(job_id))
        lane = lanes[record[128:136].hex()]
        text = lane.shared + lane.keyed
        at = 137 + record[136]
        if not lane.keyed and record[at] != 255:
            text += record[at + 1 : at + 1 + record[at] * 24].decode()
        return [text[n : n + 24] for n in range(0, len(text), 24)]

    async def slots(self, one: Constraint) -> dict[str, set[str]]:
        """Return job IDs by gate, without empty gates."""
        found = (await self.structures()).slots
        return {gate: set(jobs) for gate, jobs in found.items() if gate.startswith(one.cid)}


def unpacked(argument: bytes) -> Any:
    return msgpack.unpackb(argument)
