"""Random histories of unique jobs, against a model of which job holds a key."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.store.jobs.claims import ClaimedJob
from jqmaster.store.jobs.enqueue_outcomes import Accepted, Conflict, NotUnique, Outcome
from jqmaster.store.jobs.operator_actions import KeyHeld
from tests.support.histories import NIGHTLY
from tests.support.store import StoreWorld
from tests.support.unique import unique

pytestmark = pytest.mark.req("S7")

WINDOW_MS = 60_000
RETRYING = Decision(JobState.RETRYING, "failure", delay_ms=1_000_000, is_counted=True)


@dataclass(eq=False)
class ModelJob:
    id: str
    key: str
    scope: str
    number: int
    created_at_ms: int
    phase: str = "waits"
    has_started: bool = False
    # Its claim is not confirmed; `is_first`: and nothing is counted if it comes back.
    is_offered: bool = False
    is_first: bool = False
    has_succeeded: bool = False
    claim: tuple[str, ClaimedJob] | None = None

    def holds(self, now_ms: int) -> bool:
        if self.scope == "until_start":
            return self.phase == "waits" and not self.has_started
        in_window = self.scope == "window" and now_ms < self.created_at_ms + WINDOW_MS
        return self.phase in ("waits", "running") or in_window


class History:
    """One history: each step acts on the store and on the model."""

    def __init__(self, world: StoreWorld, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.jobs: list[ModelJob] = []
        self.holders: dict[str, ModelJob] = {}
        self.worker_id = ""
        self.numbers = iter(range(10_000))

    async def run(self, steps: int) -> None:
        self.worker_id = await self.world.worker(max_jobs=1_000)
        kinds: list[Callable[[], Awaitable[None]]] = [
            self.push, self.push, self.push, self.claim, self.confirm, self.give_back, self.end, self.cancel,
            self.retry, self.delete, self.pass_time,
        ]  # fmt: skip
        for _ in range(steps):
            await self.random.choice(kinds)()
        for job in self.jobs:
            stored = await self.world.records.get(job.id)
            assert (stored is None) == (job.phase == "gone")
            if stored is not None:
                assert stored.argument == self.world.spec(argument=job.number).argument

    def _one(self, *phases: str) -> ModelJob | None:
        found = [job for job in self.jobs if job.phase in phases]
        return self.random.choice(found) if found else None

    async def push(self) -> None:
        pushes = [self._new() for _ in range(self.random.choice((1, 1, 3)))]
        specs = [
            self.world.spec(
                argument=job.number,
                id=job.id,
                unique=unique(job.key, job.scope, how, ttl_ms=WINDOW_MS if job.scope == "window" else 0),
                delay_ms=self.random.choice((None, 10**9)),
            )
            for job, how in pushes
        ]
        expected = [self._judged(job, how) for job, how in pushes]
        assert await self.world.acceptance.enqueue(specs) == expected

    def _new(self) -> tuple[ModelJob, str]:
        choice = self.random.choice
        spec: Any = self.world.spec()
        scope = choice(("until_start", "until_finished", "window"))
        job = ModelJob(spec.id, choice("ab"), scope, next(self.numbers), self.world.now_ms)
        return job, choice(("reject", "existing", "replace"))

    def _judged(self, job: ModelJob, how: str) -> Outcome:
        holder = self.holders.get(job.key)
        if holder is None or not holder.holds(self.world.now_ms):
            self.jobs.append(job)
            self.holders[job.key] = job
            return Accepted.NEW
        if how == "reject":
            return NotUnique(holder.id, Conflict.REFUSED)
        if how == "replace" and holder.phase == "waits" and not holder.has_started:
            holder.scope, holder.number = job.scope, job.number
            return NotUnique(holder.id, Conflict.REPLACED)
        if how == "replace" and holder.phase == "running" and holder.is_offered and holder.is_first:
            return NotUnique(holder.id, Conflict.OFFERED)
        return NotUnique(holder.id, Conflict.EXISTING)

    async def claim(self) -> None:
        for claimed in await self.world.claim(self.worker_id, limit=1):
            job = next(job for job in self.jobs if job.id == claimed.job_id)
            job.phase, job.is_offered, job.is_first = "running", True, not job.has_started
            job.has_started, job.claim = True, (self.worker_id, claimed)

    async def confirm(self) -> None:
        job = self._one("running")
        if job is not None and job.claim is not None:
            worker_id, claimed = job.claim
            await self.world.workers.renew(worker_id, [(job.id, claimed.token)], 0)
            job.is_offered = False

    async def give_back(self) -> None:
        """The worker refuses the offer."""
        job = self._one("running")
        if job is None or job.claim is None or not job.is_offered:
            return
        worker_id, claimed = job.claim
        await self.world.leases.return_offers(self.world.epoch, worker_id, [(job.id, claimed.token)])
        job.phase, job.has_started = "waits", not job.is_first
        holder = self.holders[job.key]
        if job.scope == "until_start" and job.is_first and holder is not job:
            if holder.phase in ("waits", "running") or (holder.phase == "finished" and holder.has_succeeded):
                job.phase, job.has_succeeded = "finished", False
            else:
                self.holders[job.key] = job
        assert await self.world.state(job.id) in (
            (JobState.READY,) if job.phase == "waits" else (JobState.SKIPPED,)
        )

    async def end(self) -> None:
        job = self._one("running")
        if job is None or job.claim is None:
            return
        worker_id, claimed = job.claim
        if self.random.random() < 0.4:
            assert await self.world.fail(worker_id, claimed, RETRYING)
            job.phase = "waits"
        else:
            ended = [(job.id, claimed.token, b"")]
            assert await self.world.settlements.settle_success(worker_id, ended) == [True]
            job.phase, job.has_succeeded = "finished", True

    async def cancel(self) -> None:
        if job := self._one("waits", "running"):
            await self.world.operator_actions.cancel(job.id)
            job.phase, job.has_succeeded = "finished", False

    async def retry(self) -> None:
        job = self._one("finished")
        if job is None:
            return
        takes_key = job.scope != "until_start" or not job.has_started
        holder = self.holders.get(job.key)
        stored = await self.world.get(job.id)
        if takes_key and holder is not None and holder is not job and holder.holds(self.world.now_ms):
            with pytest.raises(KeyHeld) as held:
                await self.world.operator_actions.retry(stored)
            assert held.value.holder == holder.id
            return
        await self.world.operator_actions.retry(stored)
        job.phase = "waits"
        if takes_key:
            self.holders[job.key] = job

    async def delete(self) -> None:
        if job := self._one("waits", "finished"):
            await self.world.operator_actions.delete(job.id)
            job.phase = "gone"

    async def pass_time(self) -> None:
        self.world.pass_ms(self.random.choice((1, 1_000, WINDOW_MS // 2)))


@pytest.mark.parametrize("seed", range(200 if NIGHTLY else 12))
async def test_a_key_is_held_as_the_model_says(world: StoreWorld, seed: int) -> None:
    await History(world, seed).run(120)
