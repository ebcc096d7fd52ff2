"""Random constraints that change at any time, against a model that checks every job and every constraint again.

JQMASTER_HYPOTHESIS=nightly looks much longer.
"""

import asyncio
import contextlib
import uuid
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jqmaster.domain.constraints.constraint import Constraint, GateLimits, Mode, gate_id, needs_rematch
from jqmaster.domain.constraints.gate_check import Rate
from jqmaster.domain.jobs.job import WAITING, Job, JobSpec, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.matching.key_value import key_value
from jqmaster.errors import StaleEpochError
from jqmaster.runtime.duties.relocation import Relocation
from jqmaster.store.constraints.constraints import ConstraintSnapshot
from jqmaster.store.constraints.lanes import LaneStore, Moved, OldLane
from jqmaster.store.jobs.claims import Claim, NotClaimed
from jqmaster.store.jobs.enqueue_outcomes import Accepted, BacklogFull, Outcome, PushRefused
from jqmaster.store.jobs.operator_actions import Changes, StateConflict
from jqmaster.store.jobs.placement import StoredLane
from jqmaster.store.jobs.settlements import GateHold
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import long
from tests.support.admin import forget_keys
from tests.support.constraints import ConstrainedWorld, constraint, override, unpacked
from tests.support.histories import NIGHTLY, history_settings
from tests.support.server import StoreServer
from tests.support.store import LEASE_MS, StoreWorld

NAMES = ("a", "b")
JOBS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from([None, 0, 1, 2]),
        st.sampled_from([None, 0, "x"]),
        st.sampled_from([-1, 0, 0, 5]),
        # From this many milliseconds on
        st.sampled_from([None, None, None, None, 400]),
        # and only until this many have passed.
        st.sampled_from([None, None, None, None, 15_000]),
    ),
    min_size=1,
    max_size=8,
)
# How far the leader gets with a change before the next step.
THEN = st.sampled_from(["", "settle", "all", "all", "all", "all"])
MAX_JOBS = 4
# The longest period is within the time for which a gate always remembers its starts.
PERIOD_MS = 60_000
RATES = st.sampled_from([None, None, (1, PERIOD_MS), (3, PERIOD_MS), (2, 20_000), (1, 400)])
MATCHERS: tuple[Mapping[str, Any], ...] = (
    {"field": "name", "op": "exists"},
    {"field": "name", "op": "eq", "value": "a"},
    {"field": "argument.k", "op": "eq", "value": 0},
    {"field": "priority", "op": "ge", "value": 0},
    {"field": "argument.t", "op": "exists"},
)
KEYS = (None, "argument.k", "argument.k", "argument.t", "name")


@dataclass(slots=True)
class Seen:
    job: Job
    argument: Mapping[str, Any]

    def gate(self, one: Constraint) -> str | None:
        """Return the gate of this constraint that the job passes."""
        return gate_at(one, self.job.name, self.job.priority, self.argument)


def gate_at(one: Constraint, name: str, priority: int, argument: Mapping[str, Any]) -> str | None:
    """Find the gate of a constraint that such a job passes, in other code. No argument of this test is null."""
    values = {"name": name, "priority": priority, **{f"argument.{key}": argument[key] for key in argument}}
    matcher: Any = one.matcher.document
    value = values.get(matcher["field"])
    match matcher["op"]:
        case "exists":
            is_matched = value is not None
        case "eq":
            is_matched = value == matcher["value"]
        case "ge":
            is_matched = value is not None and value >= matcher["value"]
        case _:
            raise AssertionError(matcher)
    if not one.enabled or not is_matched:
        return None
    if one.key is None:
        return gate_id(one.cid, None)
    split = values.get(str(one.key))
    return None if split is None else gate_id(one.cid, key_value(split))


@dataclass(slots=True)
class Snapshot:
    """Every job, and what follows from looking at each."""

    seen: dict[str, Seen]
    constraints: list[Constraint]
    edition: int
    editions: dict[bytes, int]

    def is_old(self, job: Job) -> bool:
        """Return whether its lane belongs to older rules."""
        return self.editions[job.lane_id] < self.edition

    def in_state(self, *states: JobState) -> list[str]:
        return [job_id for job_id, one in self.seen.items() if one.job.state in states]

    def running_at(self, gate: str, one: Constraint) -> set[str]:
        return {i for i in self.in_state(JobState.RUNNING) if self.seen[i].gate(one) == gate}


class MeddlingLanes(LaneStore):
    """Somebody else acts between its reads and its writes of jobs."""

    meddle: Callable[[], Awaitable[None]] | None = None

    async def move(
        self,
        epoch: str,
        constraints: ConstraintSnapshot,
        job_ids: Sequence[str],
        lanes: Mapping[str, OldLane] = {},
    ) -> Moved:
        meddle, self.meddle = self.meddle, None
        if meddle:
            await meddle()
        return await super().move(epoch, constraints, job_ids, lanes)


@dataclass
class Model:
    """The state of the store besides its jobs."""

    starts: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    holds: dict[str, int] = field(default_factory=dict)
    served: dict[str, str] = field(default_factory=dict)
    stamp: int = 0

    def next_stamp(self, now_ms: int) -> str:
        self.stamp = max(self.stamp + 1, now_ms * 1000)
        ms = self.stamp // 1000
        return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-{self.stamp % 1000:03d}"


def limits_at(one: Constraint, gate: str) -> GateLimits:
    own = GateLimits(one.concurrency, one.rate, bool(one.paused))
    for other in one.overrides:
        if gate_id(one.cid, key_value(other.value)) == gate:
            limits = other.limits
            return GateLimits(
                own.concurrency if limits.concurrency is None else limits.concurrency,
                own.rate if limits.rate is None else limits.rate,
                own.paused or limits.paused,
            )
    return own


class GatesMachine(RuleBasedStateMachine):
    server: StoreServer

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.client = StoreClient(self.server.url, connections=2)
        self.world = StoreWorld(Shard.bound(self.client, Keys(f"t{uuid.uuid4().hex[:10]}")))
        self.lanes = MeddlingLanes(self.world.shard)
        self.limits = ConstrainedWorld(self.world, lanes=self.lanes)
        self.model = Model()
        self.ids: list[str] = []
        self.workers: list[str] = []
        self.constraints: dict[str, Constraint] = {}
        self.relocation: Relocation | None = None
        self.is_settled = True
        # Whether every gate was opened that may have opened since.
        self.is_followed = True
        self.tokens: set[str] = set()
        self.is_begun = False

    def run(self, awaitable: Any) -> Any:
        return self.runner.run(awaitable)

    def teardown(self) -> None:
        try:
            if self.is_begun:
                self.run(self.let_all_end())
            self.run(forget_keys(self.world.shard))
        finally:
            self.run(self.client.close())
            self.runner.close()

    # --- what the model knows

    async def snapshot(self) -> Snapshot:
        seen: dict[str, Seen] = {}
        constraint_set = (await self.limits.constraints.reload()).constraint_set
        editions: dict[bytes, int] = {}
        for job_id in self.ids:
            job = await self.world.records.get(job_id)
            if job:
                seen[job_id] = Seen(job, unpacked(job.argument))
                if job.lane_id not in editions:
                    lane: Any = await self.world.redis.get(self.world.shard.keys.lane(job.lane_id.hex()))
                    editions[job.lane_id] = StoredLane.read(lane).edition if lane else -2
        return Snapshot(seen, list(self.constraints.values()), constraint_set.edition, editions)

    def starts_at(self, gate: str, period_ms: int) -> int:
        since = self.world.now_ms - period_ms
        return sum(at_ms >= since for at_ms in self.model.starts[gate].values())

    def is_closed(self, one: Constraint, gate: str, running: int) -> bool:
        """Judge by the limits, whether they are enforced or not."""
        limits = limits_at(one, gate)
        return (
            limits.paused
            or (limits.concurrency is not None and running >= limits.concurrency)
            or (limits.rate is not None and self.starts_at(gate, limits.rate.period_ms) >= limits.rate.limit)
            or self.model.holds.get(gate, 0) > self.world.now_ms
        )

    def gates_of(self, one: Seen, shot: Snapshot) -> list[tuple[Constraint, str]]:
        return [(c, gate) for c in shot.constraints if (gate := one.gate(c)) is not None]

    def is_admissible(self, job_id: str, shot: Snapshot) -> bool:
        return not any(
            c.mode is Mode.ENFORCE and self.is_closed(c, gate, len(shot.running_at(gate, c)))
            for c, gate in self.gates_of(shot.seen[job_id], shot)
        )

    def order(self, job_id: str, shot: Snapshot) -> tuple[int, str, str]:
        """The smallest comes first: by priority; then by age, or by when its key was last served; age decides a
        tie."""
        job = shot.seen[job_id].job
        instant = job_id
        for c, gate in self.gates_of(shot.seen[job_id], shot):
            if c.fair and c.mode is Mode.ENFORCE:
                instant = max(instant, self.model.served.get(gate, ""))
        return job.priority, instant, job_id

    def start(self, job_id: str, token: str, shot: Snapshot) -> None:
        stamp = ""
        for c, gate in self.gates_of(shot.seen[job_id], shot):
            if c.counted.starts:
                self.model.starts[gate][token] = self.world.now_ms
            if c.fair and c.key and c.mode is Mode.ENFORCE:
                stamp = stamp or self.model.next_stamp(self.world.now_ms)
                self.model.served[gate] = stamp

    def candidates(self, names: Sequence[str], shot: Snapshot) -> list[str]:
        """Return the ready jobs of these names in their lanes of the present rules."""
        return [
            job_id
            for job_id in shot.in_state(JobState.READY)
            if shot.seen[job_id].job.name in names and not shot.is_old(shot.seen[job_id].job)
        ]

    def best(self, names: Sequence[str], shot: Snapshot) -> str | None:
        fitting = [i for i in self.candidates(names, shot) if self.is_admissible(i, shot)]
        return min(fitting, key=lambda i: self.order(i, shot)) if fitting else None

    def set_state(self, job_id: str, state: JobState, shot: Snapshot) -> None:
        shot.seen[job_id].job = replace(shot.seen[job_id].job, state=state)

    # --- the start

    @initialize(data=st.data(), jobs=JOBS, more=JOBS)
    def begin(self, data: st.DataObject, jobs: list[Any], more: list[Any]) -> None:
        self.elect()
        for _ in range(2):
            self.workers.append(self.run(self.world.worker(*NAMES, max_jobs=MAX_JOBS)))
        self.is_begun = True
        self.put_constraint(data, "one", "all")
        self.enqueue(jobs, is_whole=False)
        self.put_constraint(data, "two", "all")
        self.enqueue(more, is_whole=False)

    def elect(self) -> None:
        leadership = self.run(self.world.leadership.elect("m", uuid.uuid4().hex, ttl_ms=600_000))
        assert leadership
        self.world.epoch = leadership.epoch
        self.relocation = None

    def reelection(self) -> None:
        """The relocating leader is gone; its last step may still arrive."""
        old = self.relocation
        self.run(self.world.redis.delete(self.world.shard.keys.leader))
        self.elect()
        if old:
            self.run(self.end_stale(old))

    async def end_stale(self, relocation: Relocation) -> None:
        before = (await self.snapshot()).seen
        with contextlib.suppress(StaleEpochError):
            while not relocation.is_over:
                await relocation.step()
        assert (await self.snapshot()).seen == before

    # --- constraints

    @rule(data=st.data(), name=st.sampled_from(["one", "two", "three"]), then=THEN)
    def put_constraint(self, data: st.DataObject, name: str, then: str) -> None:
        draw = data.draw
        key = draw(st.sampled_from(KEYS))
        old = self.constraints.get(name)
        kinds: dict[str, Any] = {
            "concurrency": draw(st.sampled_from([None, 1, 1, 2, 3])),
            "rate": draw(RATES),
            "paused": draw(st.sampled_from([None, None, None, False, True])),
            "max_backlog": draw(st.sampled_from([None, None, 0, 2, 5])),
            "fair": key is not None and draw(st.booleans()),
        }
        overrides = []
        if key:
            overrides = [
                override(
                    value,
                    concurrency=draw(st.sampled_from([None, 1, 3])),
                    rate=draw(RATES),
                    paused=draw(st.sampled_from([False, False, True])),
                )
                for value in draw(st.sets(st.sampled_from([0, 1, "a"]), max_size=2))
            ]
        if not overrides and not kinds["fair"] and all(kinds[k] is None for k in kinds if k != "fair"):
            kinds["concurrency"] = 1
        new = constraint(
            name,
            draw(st.sampled_from(MATCHERS)),
            key=key,
            overrides=overrides,
            mode=draw(st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.SHADOW])),
            enabled=draw(st.sampled_from([True, True, True, False])),
            **kinds,
        )
        if old and str(old.key) == str(new.key):
            new = replace(new, cid=old.cid)
        self.change(name, new, then)

    @precondition(lambda self: bool(self.constraints))
    @rule(data=st.data(), then=THEN)
    def change_limits(self, data: st.DataObject, then: str) -> None:
        old = data.draw(st.sampled_from(list(self.constraints.values())))
        concurrency = data.draw(st.sampled_from([1, 2, 3]))
        paused = data.draw(st.booleans())
        self.change(old.name, replace(old, concurrency=concurrency, paused=paused), then)

    @precondition(lambda self: any(c.rate for c in self.constraints.values()))
    @rule(data=st.data(), then=THEN)
    def change_rate(self, data: st.DataObject, then: str) -> None:
        old = data.draw(st.sampled_from([c for c in self.constraints.values() if c.rate]))
        limit = data.draw(st.integers(1, 4))
        period_ms = data.draw(st.sampled_from([400, 20_000, PERIOD_MS]))
        self.change(old.name, replace(old, rate=Rate(limit, period_ms)), then)

    @precondition(lambda self: bool(self.constraints))
    @rule(data=st.data(), then=THEN)
    def remove_constraint(self, data: st.DataObject, then: str) -> None:
        self.change(data.draw(st.sampled_from(list(self.constraints))), None, then)

    def change(self, name: str, new: Constraint | None, then: str) -> None:
        self.run(self.change_now(name, new))
        if then in ("settle", "all"):
            self.settle()
        if then == "all":
            self.run(self.follow())
            self.run(self.limits.relocate())

    async def change_now(self, name: str, new: Constraint | None) -> None:
        old = self.constraints.get(name)
        assert await self.limits.change(name, new)
        if new:
            self.constraints[name] = new
        else:
            del self.constraints[name]
        self.is_followed = False
        if needs_rematch(old, new):
            self.is_settled = False
            self.relocation = None

    # --- the leader follows up

    def settle(self) -> None:
        assert self.run(self.limits.settle())
        self.run(self.settled())

    async def settled(self) -> None:
        if self.is_settled:
            return
        self.is_settled = True
        shot = await self.snapshot()
        # Jobs that run when a constraint starts to count are counted from then on.
        for job_id in shot.in_state(JobState.RUNNING):
            job = shot.seen[job_id].job
            for c, gate in self.gates_of(shot.seen[job_id], shot):
                if c.counted.starts:
                    self.model.starts[gate][job.token] = job.started_at_ms

    async def follow(self) -> None:
        await self.limits.open_gates()
        self.is_followed = True

    @precondition(lambda self: self.is_settled)
    @rule(
        data=st.data(),
        steps=st.integers(1, 4),
        what=st.sampled_from(["", "", "cancel", "run_now", "patch", "change"]),
    )
    def relocate(self, data: st.DataObject, steps: int, what: str) -> None:
        meddle: Callable[[], Awaitable[None]] | None = None
        if what == "change":
            name = data.draw(st.sampled_from(["one", "two"]))
            new = constraint(name, data.draw(st.sampled_from(MATCHERS)), concurrency=1, key="argument.k")

            async def change() -> None:
                await self.change_now(name, new)

            meddle = change
        elif what and (job_id := self.pick(data, *WAITING)):

            async def steer() -> None:
                await self.steer(what, job_id)

            meddle = steer
        self.lanes.meddle = meddle
        for _ in range(steps):
            if self.relocation is None:
                self.relocation = Relocation(
                    self.lanes, self.world.epoch, self.run(self.limits.constraints.reload())
                )
            if not self.relocation.is_over:
                self.run(self.relocation.step())
        self.lanes.meddle = None

    async def prune(self) -> None:
        async for lanes in self.lanes.lane_pages():
            await self.lanes.prune(self.world.epoch, lanes)
        await self.world.prune_gates()

    async def promote(self) -> None:
        for state in (JobState.SCHEDULED, JobState.RETRYING):
            assert await self.world.due.promote(self.world.epoch, state) is not None

    @rule(what=st.sampled_from(["elect", "settle", "open", "prune", "promote", "promote", "expire"]))
    def leader_acts(self, what: str) -> None:
        match what:
            case "elect":
                self.reelection()
            case "settle":
                self.settle()
            case "open":
                self.run(self.follow())
            case "prune":
                self.run(self.prune())
            case "promote":
                self.run(self.promote())
            case "expire":
                assert self.run(self.world.due.expire(self.world.epoch)) is not None

    @rule(ms=st.sampled_from([1, 400, 15_000, PERIOD_MS - 1, PERIOD_MS, PERIOD_MS + 1]))
    def time_passes(self, ms: int) -> None:
        self.world.pass_ms(ms)
        self.is_followed = False

    # --- pushers

    async def outcomes(self, specs: list[JobSpec], *, is_whole: bool) -> Sequence[Outcome]:
        try:
            return await self.limits.push(specs, is_whole=is_whole)
        except PushRefused as exc:
            return [exc.refused[0]] * len(specs)

    @rule(jobs=JOBS, is_whole=st.booleans())
    def enqueue(self, jobs: list[Any], is_whole: bool) -> None:
        specs = []
        for name, k, t, priority, delay_ms, expires_in_ms in jobs:
            argument = {key: value for key, value in (("k", k), ("t", t)) if value is not None}
            expires = None if expires_in_ms is None else self.world.now_ms + expires_in_ms
            specs.append(
                self.world.spec(
                    name,
                    argument,
                    priority=priority,
                    delay_ms=delay_ms,
                    expires_at_ms=expires,
                    timeout_ms=600_000,
                )
            )
        before = self.run(self.limits.structures())
        answers = self.run(self.outcomes(specs, is_whole=is_whole))
        rooms: dict[str, int] = {}
        expected = []
        for spec in specs:
            argument = unpacked(spec.argument)
            bounding = []
            for c in self.constraints.values():
                gate = gate_at(c, spec.name, spec.priority, argument)
                if gate and c.max_backlog is not None and c.mode is Mode.ENFORCE:
                    rooms.setdefault(gate, c.max_backlog - before.waiting.get(gate, 0))
                    bounding.append(gate)
            is_full = any(rooms[gate] <= 0 for gate in bounding)
            expected.append(not is_full)
            if not is_full:
                for gate in bounding:
                    rooms[gate] -= 1
        if is_whole and not all(expected):
            expected = [False] * len(specs)
        assert [answer is Accepted.NEW for answer in answers] == expected
        assert all(isinstance(answer, BacklogFull) or answer is Accepted.NEW for answer in answers)
        self.ids += [spec.id for spec, is_new in zip(specs, expected, strict=True) if is_new]

    # --- claims

    @rule(
        data=st.data(), limit=st.integers(1, 4), names=st.sampled_from([NAMES, NAMES, ("a",), ("b",)]),
        follow=st.sampled_from([True, True, True, False]),
    )  # fmt: skip
    def claim(self, data: st.DataObject, limit: int, names: tuple[str, ...], follow: bool) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        self.run(self.claim_now(worker, limit, names, follow))

    @rule(data=st.data(), ends=st.integers(1, 3), ms=st.sampled_from([0, 0, 1, PERIOD_MS + 1]))
    def work_goes_on(self, data: st.DataObject, ends: int, ms: int) -> None:
        """Some jobs succeed, time passes, and all workers claim more."""
        for _ in range(ends):
            if job_id := self.pick(data, JobState.RUNNING):
                self.run(self.end_now(job_id, "success"))
        self.world.pass_ms(ms)
        self.is_followed = False
        for worker in self.workers:
            self.run(self.claim_now(worker, MAX_JOBS, NAMES, follow=True))

    async def claim_now(self, worker: str, limit: int, names: tuple[str, ...], follow: bool) -> int:
        if follow:
            await self.follow()
        shot = await self.snapshot()
        edition = self.limits.constraints.current.constraint_set.edition
        if not self.is_settled:
            answer = await self.world.claims.claim(self.world.epoch, worker, names, limit, edition)
            assert answer is NotClaimed.STALE_CONSTRAINTS
            return 0
        busy = sum(shot.seen[i].job.worker_id == worker for i in shot.in_state(JobState.RUNNING))
        if busy >= MAX_JOBS:
            answer = await self.world.claims.claim(self.world.epoch, worker, names, limit, edition)
            assert answer is NotClaimed.FULL
            return 0
        wanted, count = min(limit, MAX_JOBS - busy), 0
        is_exhausted = False
        for _ in range(30):
            answer = await self.world.claims.claim(self.world.epoch, worker, names, wanted - count, edition)
            assert isinstance(answer, Claim), answer
            for claimed in answer.jobs:
                assert claimed.token not in self.tokens
                self.tokens.add(claimed.token)
                if self.is_followed:
                    self.pass_expired(names, shot)
                    best = self.best(names, shot)
                    assert best == claimed.job_id, self.told(shot, claimed.job_id, "instead of", best)
                else:
                    assert claimed.job_id in self.candidates(names, shot)
                    assert self.is_admissible(claimed.job_id, shot)
                self.start(claimed.job_id, claimed.token, shot)
                self.set_state(claimed.job_id, JobState.RUNNING, shot)
                count += 1
            is_exhausted = answer.is_exhausted
            if is_exhausted or count == wanted:
                break
        else:
            raise AssertionError("claims go on for ever without a result")
        if self.is_followed and count < wanted:
            self.pass_expired(names, shot)
            best = self.best(names, shot)
            assert best is None, self.told(shot, "nothing claimed", best)
        return count

    def told(self, shot: Snapshot, *parts: str | None) -> str:
        """Return the facts of the model about the jobs among `parts`."""
        lines = [f"{self.world.now_ms}", *(repr(c) for c in shot.constraints)]
        for part in parts:
            lines.append(str(part))
            if part in shot.seen:
                one = shot.seen[part]
                lines.append(f"{one.job.name} {one.argument} {one.job.priority} {one.job.lane_id.hex()}")
                for c, gate in self.gates_of(one, shot):
                    lines.append(
                        f"  {c.name} {gate}: running {sorted(shot.running_at(gate, c))} "
                        f"starts {self.starts_at(gate, PERIOD_MS)} "
                        f"hold {self.model.holds.get(gate)} served {self.model.served.get(gate)} {limits_at(c, gate)}"
                    )
        return "\n".join(lines)

    def pass_expired(self, names: Sequence[str], shot: Snapshot) -> None:
        """A finished job is passed over, even if it is the best of all."""
        while best := self.best(names, shot):
            if not 0 < shot.seen[best].job.expires_at_ms <= self.world.now_ms:
                return
            self.set_state(best, JobState.SKIPPED, shot)

    # --- how claims end

    def pick(self, data: st.DataObject, *states: JobState) -> str | None:
        among = self.run(self.snapshot()).in_state(*states)
        return data.draw(st.sampled_from(among)) if among else None

    @rule(
        data=st.data(),
        how=st.sampled_from(
            ["success", "success", "failure", "retry", "hand back", "defer", "return", "cancel"]
        ),
        hold=st.booleans(),
    )
    def end(self, data: st.DataObject, how: str, hold: bool) -> None:
        job_id = self.pick(data, JobState.RUNNING)
        if job_id:
            gates = [gate for c in self.constraints.values() if (gate := self.run(self.seen(job_id)).gate(c))]
            held = data.draw(st.sampled_from(gates)) if hold and gates and how in ("defer", "retry") else None
            self.run(self.end_now(job_id, how, held))

    async def seen(self, job_id: str) -> Seen:
        job = await self.world.get(job_id)
        return Seen(job, unpacked(job.argument))

    async def end_now(self, job_id: str, how: str, held: str | None = None) -> None:
        job = await self.world.get(job_id)
        if how == "success":
            assert await self.world.settlements.settle_success(job.worker_id, [(job_id, job.token, b"")]) == [
                True
            ]
        elif how == "cancel":
            assert await self.world.operator_actions.cancel(job_id)
        elif how == "return":
            await self.world.leases.return_offers(self.world.epoch, job.worker_id, [(job_id, job.token)])
            for starts in self.model.starts.values():
                starts.pop(job.token, None)
        else:
            decision = {
                "failure": Decision(JobState.FAILED, "failure", is_counted=True),
                "retry": Decision(JobState.RETRYING, "failure", delay_ms=400, is_counted=True),
                "hand back": Decision(JobState.READY, "handed_back"),
                "defer": Decision(JobState.SCHEDULED, "deferred", delay_ms=400),
            }[how]
            settlement = self.world.settlement(job, job.token, decision)
            if held:
                settlement = replace(settlement, hold=GateHold(held, 15_000))
                self.model.holds[held] = max(self.model.holds.get(held, 0), self.world.now_ms + 15_000)
            assert await self.world.settlements.settle(job.worker_id, [settlement]) == [True]

    @rule(back=st.booleans())
    def leases_end(self, back: bool) -> None:
        self.world.pass_ms(LEASE_MS + 1)
        self.is_followed = False
        _, leases, _ = self.run(self.world.leases.expired_leases())
        state = JobState.READY if back else JobState.RETRYING
        decision = Decision(state, "lost", delay_ms=0 if back else 400, is_loss=True)
        lost = [self.world.settlement(lease.job, lease.job.token, decision) for lease in leases if lease.job]
        assert self.run(self.world.leases.reclaim(self.world.epoch, lost)) == [True] * len(lost)

    # --- what else moves jobs

    @rule(
        data=st.data(),
        what=st.sampled_from(["cancel", "cancel", "retry", "run_now", "patch", "patch", "delete"]),
    )
    def steer_one(self, data: st.DataObject, what: str) -> None:
        job_id = self.pick(data, *JobState)
        if job_id:
            self.run(
                self.steer(what, job_id, data.draw(st.sampled_from([-3, 0, 7])) if what == "patch" else 0)
            )

    async def steer(self, what: str, job_id: str, priority: int = 7) -> None:
        job = await self.world.get(job_id)
        try:
            match what:
                case "cancel":
                    await self.world.operator_actions.cancel(job_id)
                case "retry":
                    await self.limits.constraints.under(
                        lambda constraints: self.world.operator_actions.retry(job, constraints)
                    )
                case "run_now":
                    await self.world.operator_actions.run_now(job_id)
                case "delete":
                    await self.world.operator_actions.delete(job_id)
                case "patch":
                    changes = Changes(priority=priority)
                    await self.limits.constraints.under(
                        lambda constraints: self.world.operator_actions.patch(job, changes, constraints)
                    )
        except StateConflict:
            pass

    # --- what must hold after each step

    @invariant()
    def what_is_written_agrees(self) -> None:
        if self.is_begun:
            self.run(self.compare())

    async def compare(self) -> None:
        shot, there = await self.snapshot(), await self.limits.structures()
        running = set(shot.in_state(JobState.RUNNING))
        # A slot does not outlive its claim.
        for gate, holders in there.slots.items():
            assert set(holders) <= running, f"a slot of {gate} outlives its claim"
            for job_id, token in holders.items():
                assert shot.seen[job_id].job.token == token
        if self.is_settled:
            for c in shot.constraints:
                if c.enabled and c.counted.slots:
                    wanted: dict[str, set[str]] = defaultdict(set)
                    for job_id in running:
                        if own := shot.seen[job_id].gate(c):
                            wanted[own].add(job_id)
                    written = {gate: set(ids) for gate, ids in there.slots.items() if gate.startswith(c.cid)}
                    assert written == wanted, f"slots of {c.name}"
        # Counts are exact.
        unfinished = [
            one.job for one in shot.seen.values() if one.job.state in WAITING or one.job.id in running
        ]
        lane_jobs = Counter(job.lane_id.hex() for job in unfinished)
        assert there.lane_jobs == lane_jobs
        waiting = Counter[str]()
        enabled = {c.cid for c in shot.constraints if c.enabled}
        for job in unfinished:
            gates = await self.limits.gates_of(job.id, there.lanes)
            if job.id not in running:
                waiting.update(gates)
            if (job.id in running and not self.is_settled) or shot.is_old(job):
                continue
            # The job knows every constraint that was made meanwhile; constraints that are gone let it pass.
            passed = {gate for _, gate in self.gates_of(shot.seen[job.id], shot)}
            assert passed <= set(gates)
            assert {gate for gate in gates if gate[:8] in enabled} <= passed
        assert {gate: count for gate, count in there.waiting.items() if count} == waiting
        findings = await self.world.findings()
        assert findings == []

    # --- the end

    async def let_all_end(self) -> None:
        """Once the constraints allow it, every job starts and ends: nothing waits for ever."""
        for name in list(self.constraints):
            c = self.constraints[name]
            if c.paused or any(o.limits.paused for o in c.overrides):
                await self.change_now(name, None)
        assert await self.limits.settle()
        await self.settled()
        await self.follow()
        await self.limits.relocate()
        for _ in range(400):
            self.world.pass_ms(PERIOD_MS // 2)
            await self.promote()
            for job_id in (await self.snapshot()).in_state(JobState.RUNNING):
                await self.end_now(job_id, "success")
            count = 0
            for worker in self.workers:
                count += await self.claim_now(worker, MAX_JOBS, NAMES, follow=True)
            left = (await self.snapshot()).in_state(*WAITING, JobState.RUNNING)
            if not left:
                break
        else:
            raise AssertionError(f"{left} wait for ever")
        for worker in self.workers:
            assert await self.world.redis.scard(self.world.shard.keys.claims(worker)) == 0
        assert await self.world.findings() == []
        await self.nothing_is_left()

    async def nothing_is_left(self) -> None:
        """Assert that all that was kept of lanes and gates went with the last job, whatever became of their
        constraints.
        """
        # These expire by the server's own clock.
        for gate in (await self.limits.structures()).starts:
            await self.world.redis.unlink(self.world.shard.keys.starts(gate))
        await self.prune()
        kinds = ("slots", "gates", "crowded", "waiters", "parked", "open", "lane", "lanes", "open_groups", "served",
                 "names", "closed", "ready")  # fmt: skip
        left = [
            key
            for key in await self.world.dump()
            if key.removeprefix(self.world.shard.keys.tag).split(":")[0] in kinds
        ]
        assert left == []


@pytest.mark.req("J13")
@pytest.mark.sized
@pytest.mark.timeout(3_600 if NIGHTLY else 300)
def test_random_constraints(store_server: StoreServer) -> None:
    GatesMachine.server = store_server
    run_state_machine_as_test(
        GatesMachine,
        settings=history_settings(examples=long.size(6, 10)),
    )
