"""Random histories of the store against a model of it. JQMASTER_HYPOTHESIS=nightly looks much longer."""

import asyncio
import uuid
from dataclasses import dataclass, field
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

from jqmaster.domain.jobs.job import FINISHED, TRANSITIONS, WAITING, Cause, Job, JobSpec, JobState
from jqmaster.domain.jobs.outcome import Decision, ExpiryRules, Outcome, decide, decide_expired
from jqmaster.errors import StaleEpochError
from jqmaster.store.jobs.claims import Claim, NotClaimed
from jqmaster.store.jobs.enqueue_outcomes import Accepted, IdTaken
from jqmaster.store.jobs.operator_actions import Changes, StateConflict
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import long
from tests.support.admin import forget_keys
from tests.support.histories import NIGHTLY, history_settings
from tests.support.server import StoreServer
from tests.support.store import GRACE_MS, LEASE_MS, OFFER_MS, StoreWorld

RULES = ExpiryRules(stale_ms=5_000, max_losses=3, lease_ms=LEASE_MS)
NAMES = ("a", "b")


@dataclass
class ModelJob:
    """Check one job. `ended` are tokens that must never count again."""

    spec: JobSpec
    state: JobState
    due_at_ms: int
    expires_at_ms: int
    priority: int
    max_retry: int
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    token: str = ""
    worker: str = ""
    lease_ms: int = 0
    deadline_ms: int = 0
    result: bytes | None = None
    settled_by: str = ""
    ended: set[str] = field(default_factory=set)
    terminal: int = 0
    retries_by_hand: int = 0

    def end(self) -> None:
        self.ended.add(self.token)
        self.token = ""


class QueueMachine(RuleBasedStateMachine):
    """Rules act on the store and on the model alike; each reply is compared at once, the whole state after each
    step."""

    server: StoreServer

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.client = StoreClient(self.server.url, connections=2)
        self.world = StoreWorld(Shard.bound(self.client, Keys(f"t{uuid.uuid4().hex[:10]}")))
        self.jobs: dict[str, ModelJob] = {}
        self.deleted: set[str] = set()
        self.workers: dict[str, int] = {}
        self.tokens: set[str] = set()
        self.fence = 0
        self.epochs: list[str] = []
        self.replay: Any = None

    def run(self, awaitable: Any) -> Any:
        return self.runner.run(awaitable)

    def teardown(self) -> None:
        try:
            self.run(self.world.assert_sound())
            self.run(forget_keys(self.world.shard))
        finally:
            self.run(self.client.close())
            self.runner.close()

    # --- helpers

    def pick(self, data: st.DataObject, *states: JobState) -> str | None:
        among = [job_id for job_id, job in self.jobs.items() if not states or job.state in states]
        return data.draw(st.sampled_from(among)) if among else None

    def finish(self, job: ModelJob, state: JobState) -> None:
        job.state = state
        job.terminal += 1
        assert job.terminal <= 1 + job.retries_by_hand  # I9

    def became_ready_or_waits(self, job: ModelJob, decision: Decision) -> None:
        job.failures += decision.is_counted
        job.losses += decision.is_loss
        job.due_at_ms = self.world.now_ms + decision.delay_ms
        if decision.state in FINISHED:
            self.finish(job, decision.state)
        else:
            job.state = decision.state

    # --- leadership and time

    @initialize()
    def begin(self) -> None:
        self.elect()
        for _ in range(2):
            worker = self.run(self.world.worker(*NAMES, max_jobs=3))
            self.workers[worker] = self.world.now_ms

    def elect(self) -> None:
        leadership = self.run(self.world.leadership.elect("m", uuid.uuid4().hex, ttl_ms=600_000))
        assert leadership
        assert all(int(old.split(":")[0]) < leadership.number for old in self.epochs)
        self.world.epoch = leadership.epoch
        self.epochs.append(leadership.epoch)

    @rule()
    def reelection(self) -> None:
        self.run(self.world.redis.delete(self.world.shard.keys.leader))
        self.elect()

    @precondition(lambda self: len(self.epochs) > 1)
    @rule(data=st.data())
    def an_old_leader_is_refused(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(self.epochs[:-1]))
        worker = next(iter(self.workers))
        running = self.pick(data, JobState.RUNNING)

        async def attempts() -> None:
            async with self.world.unchanged():
                with pytest.raises(StaleEpochError):
                    await self.world.claims.claim(old, worker, NAMES, 1)
                with pytest.raises(StaleEpochError):
                    await self.world.due.promote(old, JobState.SCHEDULED)
                with pytest.raises(StaleEpochError):
                    await self.world.due.expire(old)
                with pytest.raises(StaleEpochError):
                    await self.world.retention.sweep(old, JobState.FAILED, retention_ms=0, max_jobs=0)
                with pytest.raises(StaleEpochError):
                    await self.world.retention.sweep_results(old)
                if running:
                    job = await self.world.get(running)
                    lost = Decision(JobState.READY, "lost", is_loss=True)
                    with pytest.raises(StaleEpochError):
                        await self.world.leases.reclaim(old, [self.world.settlement(job, job.token, lost)])
                    with pytest.raises(StaleEpochError):
                        await self.world.leases.return_offers(old, job.worker_id, [(running, job.token)])

        self.run(attempts())

    @rule(ms=st.sampled_from([1, 400, 3_000, 15_000, 40_000]))
    def time_passes(self, ms: int) -> None:
        self.world.pass_ms(ms)

    # --- pushers

    @rule(
        name=st.sampled_from(NAMES), priority=st.sampled_from([-(2**31), -1, 0, 2**31 - 1]),
        max_retry=st.integers(0, 2), keep=st.booleans(), delay_ms=st.sampled_from([None, None, 0, 500, 20_000]),
        expires_in_ms=st.sampled_from([None, None, 2_000, 30_000]), timeout_ms=st.sampled_from([1_000, 600_000]),
        rerun_lost=st.booleans(),
    )  # fmt: skip
    def enqueue(
        self, name: str, priority: int, max_retry: int, keep: bool, delay_ms: int | None,
        expires_in_ms: int | None, timeout_ms: int, rerun_lost: bool,
    ) -> None:  # fmt: skip
        expires = None if expires_in_ms is None else self.world.now_ms + expires_in_ms
        spec = self.world.spec(
            name, len(self.jobs), priority=priority, max_retry=max_retry, keep_result=keep, delay_ms=delay_ms,
            expires_at_ms=expires, timeout_ms=timeout_ms, rerun_lost=rerun_lost,
        )  # fmt: skip
        assert self.run(self.world.acceptance.enqueue([spec])) == [Accepted.NEW]
        due = self.world.now_ms + delay_ms if delay_ms else 0
        state = JobState.SCHEDULED if delay_ms else JobState.READY
        self.jobs[spec.id] = ModelJob(spec, state, due, expires or 0, priority, max_retry)
        self.replay = lambda: self.expect(self.world.acceptance.enqueue([spec]), [Accepted.KNOWN])

    @rule(data=st.data(), same=st.booleans())
    def enqueue_a_known_id(self, data: st.DataObject, same: bool) -> None:
        job_id = self.pick(data)
        if job_id:
            spec = self.jobs[job_id].spec
            other = spec if same else self.world.spec(spec.name, "other", id=job_id)
            expected: Accepted | IdTaken = Accepted.KNOWN if same else IdTaken(spec.id)
            self.run(self.unchanged(self.world.acceptance.enqueue([other]), [expected]))

    async def unchanged(self, call: Any, expected: Any) -> None:
        async with self.world.unchanged():
            assert await call == expected

    async def expect(self, call: Any, expected: Any) -> None:
        assert await call == expected

    # --- the leader

    @rule(data=st.data(), limit=st.integers(1, 4), names=st.sampled_from([NAMES, ("a",), ("b",)]))
    def claim(self, data: st.DataObject, limit: int, names: tuple[str, ...]) -> None:
        worker = data.draw(st.sampled_from(list(self.workers)))
        now = self.world.now_ms
        held = sum(j.state is JobState.RUNNING and j.worker == worker for j in self.jobs.values())
        claim = self.run(self.world.claims.claim(self.world.epoch, worker, names, limit))
        if held >= 3:
            assert claim is NotClaimed.FULL
            return
        assert isinstance(claim, Claim)
        order = sorted(
            (job.priority, job_id)
            for job_id, job in self.jobs.items()
            if job.state is JobState.READY and job.spec.name in names
        )
        expected: list[str] = []
        passed_over = 0
        for _, job_id in order:  # I16: the best jobs, and no others
            if len(expected) == min(limit, 3 - held):
                break
            job = self.jobs[job_id]
            if 0 < job.expires_at_ms <= now:
                self.finish(job, JobState.SKIPPED)
                passed_over += 1
            else:
                expected.append(job_id)
        assert [c.job_id for c in claim.jobs] == expected
        assert claim.passed_over == passed_over
        for claimed in claim.jobs:
            job = self.jobs[claimed.job_id]
            assert claimed.token not in self.tokens
            assert claimed.fence >= max(now, self.fence + 1)
            self.tokens.add(claimed.token)
            self.fence = claimed.fence
            if job.settled_by:
                job.ended.add(job.settled_by)
            job.state, job.token, job.worker, job.settled_by = JobState.RUNNING, claimed.token, worker, ""
            job.attempt += 1
            job.due_at_ms = 0
            job.deadline_ms = now + OFFER_MS + job.spec.timeout_ms + GRACE_MS
            job.lease_ms = min(now + LEASE_MS, job.deadline_ms)
            assert claimed.record.attempt == job.attempt

    @rule(data=st.data())
    def return_an_offer(self, data: st.DataObject) -> None:
        job_id = self.pick(data, JobState.RUNNING)
        if job_id:
            job = self.jobs[job_id]
            is_confirmed = self.run(self.world.get(job_id)).is_confirmed
            token = job.token

            def call() -> Any:
                return self.world.leases.return_offers(self.world.epoch, job.worker, [(job_id, token)])

            self.run(call())
            if not is_confirmed:
                job.end()
                job.state, job.attempt = JobState.READY, job.attempt - 1
            self.replay = lambda: self.unchanged(call(), None)

    @rule(state=st.sampled_from([JobState.SCHEDULED, JobState.RETRYING]))
    def promote(self, state: JobState) -> None:
        due = [j for j in self.jobs.values() if j.state is state and j.due_at_ms <= self.world.now_ms]
        assert self.run(self.world.due.promote(self.world.epoch, state))[0] == len(due)
        for job in due:
            job.state = JobState.READY

    @rule()
    def expire(self) -> None:
        now = self.world.now_ms
        over = [
            job
            for job_id, job in self.jobs.items()
            if job.state in WAITING and 0 < job.expires_at_ms <= now and self.is_looked_at(job_id)
        ]
        assert self.run(self.world.due.expire(self.world.epoch))[0] == len(over)
        for job in over:
            self.finish(job, JobState.SKIPPED)

    def is_looked_at(self, job_id: str) -> bool:
        """A job that ran at its expiry is checked again a little later."""
        score = self.run(self.world.score(self.world.shard.keys.expiring, job_id))
        assert score is not None
        assert score <= self.world.now_ms + 60_000
        return bool(score <= self.world.now_ms)

    @rule(jitter=st.floats(0, 0.99))
    def reclaim(self, jitter: float) -> None:
        now, leases, _ = self.run(self.world.leases.expired_leases())
        over = {i for i, j in self.jobs.items() if j.state is JobState.RUNNING and j.lease_ms <= now}
        assert {lease.job_id for lease in leases} == over
        decisions, undecided = [], []
        for lease in leases:
            assert lease.job
            assert lease.worker_seen_ms == self.workers[lease.job.worker_id]
            assert lease.lease_until_ms == self.jobs[lease.job_id].lease_ms
            deadline_ms = self.jobs[lease.job_id].deadline_ms
            decision = decide_expired(
                lease.job, now_ms=now, deadline_ms=deadline_ms, lease_until_ms=lease.lease_until_ms,
                worker_seen_ms=lease.worker_seen_ms, worker_as_of_ms=lease.worker_as_of_ms, rules=RULES, jitter=jitter,
            )  # fmt: skip
            if decision is None:
                undecided.append((lease.job_id, now + 500))
                continue
            decisions.append(self.world.settlement(lease.job, lease.job.token, decision, b"lost"))
        self.run(self.world.leases.look_later(self.world.epoch, undecided))
        for job_id, look_at_ms in undecided:
            self.jobs[job_id].lease_ms = look_at_ms
        assert self.run(self.world.leases.reclaim(self.world.epoch, decisions)) == [True] * len(decisions)
        for settlement in decisions:
            job = self.jobs[settlement.job_id]
            job.end()
            self.became_ready_or_waits(job, settlement.decision)
            if settlement.decision.state is JobState.FAILED and job.spec.keep_result:
                job.result = b"lost"
            assert job.losses < 3 or job.state is JobState.FAILED  # I13
        epoch = self.world.epoch
        self.replay = lambda: self.unchanged(
            self.world.leases.reclaim(epoch, decisions), [False] * len(decisions)
        ) if epoch == self.world.epoch else None  # fmt: skip

    # --- workers

    @rule(data=st.data(), confirm=st.booleans())
    def heartbeat(self, data: st.DataObject, confirm: bool) -> None:
        worker = data.draw(st.sampled_from(list(self.workers)))
        mine = [
            i for i, j in self.jobs.items() if confirm and j.state is JobState.RUNNING and j.worker == worker
        ]
        dead = [(i, t) for i, j in self.jobs.items() for t in j.ended]
        claims = [(i, self.jobs[i].token) for i in mine] + dead
        answer = self.run(self.world.workers.renew(worker, claims, 0))
        now = self.workers[worker] = self.world.now_ms
        assert answer.to_cancel | answer.lost == set(dead)
        for job_id in mine:
            self.jobs[job_id].lease_ms = min(now + LEASE_MS, self.jobs[job_id].deadline_ms)

    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        job_id = self.pick(data, JobState.RUNNING)
        if job_id:
            job = self.jobs[job_id]
            ended = [(job_id, job.token, b"success")]
            assert self.run(self.world.settlements.settle_success(job.worker, ended)) == [True]
            job.settled_by, job.token = job.token, ""
            job.result = b"success" if job.spec.keep_result else None
            self.finish(job, JobState.SUCCEEDED)
            self.replay = lambda: self.unchanged(
                self.world.settlements.settle_success(job.worker, ended), [True]
            ) if job.settled_by == ended[0][1] else None  # fmt: skip

    @rule(
        data=st.data(), kind=st.sampled_from(["failure", "deferred", "handed_back", "canceled", "discarded"]),
        should_retry=st.booleans(), jitter=st.floats(0, 0.99),
    )  # fmt: skip
    def end_otherwise(self, data: st.DataObject, kind: Any, should_retry: bool, jitter: float) -> None:
        job_id = self.pick(data, JobState.RUNNING)
        if job_id:
            job = self.jobs[job_id]
            stored = self.run(self.world.get(job_id))
            outcome = Outcome(job_id, job.token, kind, should_retry=should_retry, retry_after_s=0.5)
            settlement = self.world.settlement(
                stored, job.token, decide(stored, outcome, jitter=jitter), b"failure"
            )
            assert self.run(self.world.settlements.settle(job.worker, [settlement])) == [True]
            job.settled_by, job.token = job.token, ""
            self.became_ready_or_waits(job, settlement.decision)
            if job.state is JobState.FAILED and job.spec.keep_result:
                job.result = b"failure"
            assert job.failures <= job.max_retry or job.state in FINISHED  # I12
            self.replay = lambda: self.unchanged(
                self.world.settlements.settle(job.worker, [settlement]), [True]
            ) if job.settled_by == settlement.token else None  # fmt: skip

    @rule(data=st.data())
    def a_dead_token_changes_nothing(self, data: st.DataObject) -> None:
        dead = [(i, t, j.worker) for i, j in self.jobs.items() for t in sorted(j.ended)]
        if dead:
            job_id, token, worker = data.draw(st.sampled_from(dead))
            lost = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)

            async def attempts() -> None:
                stored = await self.world.get(job_id)
                async with self.world.unchanged():
                    assert await self.world.settlements.settle_success(worker, [(job_id, token, b"")]) == [
                        False
                    ]
                    assert await self.world.settlements.settle(
                        worker, [self.world.settlement(stored, token, lost)]
                    ) == [False]
                    assert await self.world.settlements.confirm_start(worker, [(job_id, token)]) == [False]

            self.run(attempts())

    # --- people

    def steer(self, call: Any, state: JobState, event: str) -> bool:
        """Return whether it was done, which must match the table of transitions."""
        allowed = (state, event) in TRANSITIONS
        refused: JobState | None = None
        try:
            self.run(call)
        except StateConflict as conflict:
            refused = conflict.state
        if refused:
            assert refused is state
            assert not allowed
            return False
        assert allowed or (event, state) in {("cancel", JobState.CANCELED), ("run_now", JobState.READY)}
        return allowed

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = self.pick(data)
        if job_id:
            job = self.jobs[job_id]
            if self.steer(self.world.operator_actions.cancel(job_id), job.state, "cancel"):
                if job.token or job.settled_by:
                    job.ended.add(job.token or job.settled_by)
                job.token = job.settled_by = ""
                self.finish(job, JobState.CANCELED)
                self.replay = lambda: self.unchanged(self.world.operator_actions.cancel(job_id), None) if (
                    job.state is JobState.CANCELED
                ) else None  # fmt: skip

    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        job_id = self.pick(data)
        if job_id:
            job = self.jobs[job_id]
            if self.steer(
                self.world.operator_actions.retry(self.run(self.world.get(job_id))), job.state, "retry"
            ):
                if job.settled_by:
                    job.ended.add(job.settled_by)
                job.settled_by, job.result = "", None
                job.state, job.failures, job.losses = JobState.READY, 0, 0
                job.due_at_ms = job.expires_at_ms = 0
                job.retries_by_hand += 1

    @rule(data=st.data())
    def run_now(self, data: st.DataObject) -> None:
        job_id = self.pick(data)
        if job_id and self.steer(
            self.world.operator_actions.run_now(job_id), self.jobs[job_id].state, "run_now"
        ):
            self.jobs[job_id].state, self.jobs[job_id].due_at_ms = JobState.READY, 0

    @rule(
        data=st.data(), priority=st.sampled_from([None, -5, 7]), in_ms=st.sampled_from([None, -1, 0, 700]),
        max_retry=st.sampled_from([None, 9]),
    )  # fmt: skip
    def patch(
        self, data: st.DataObject, priority: int | None, in_ms: int | None, max_retry: int | None
    ) -> None:
        job_id = self.pick(data)
        if job_id:
            job = self.jobs[job_id]
            run_at = None if in_ms is None else self.world.now_ms + in_ms
            stored: Job = self.run(self.world.get(job_id))
            call = self.world.operator_actions.patch(stored, Changes(priority, run_at, max_retry))
            if self.steer(call, job.state, "patch"):
                job.priority = job.priority if priority is None else priority
                job.max_retry = job.max_retry if max_retry is None else max_retry
                if run_at is not None:
                    job.due_at_ms = run_at
                    if run_at <= self.world.now_ms:
                        job.state = JobState.READY
                    elif job.state is JobState.READY:
                        job.state = JobState.SCHEDULED

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        job_id = self.pick(data)
        if job_id:
            if self.jobs[job_id].state is JobState.RUNNING:
                with pytest.raises(StateConflict):
                    self.run(self.world.operator_actions.delete(job_id))
            else:
                self.run(self.world.operator_actions.delete(job_id))
                del self.jobs[job_id]
                self.deleted.add(job_id)
                self.replay = None

    @rule(state=st.sampled_from(sorted(FINISHED)), max_jobs=st.integers(0, 3))
    def sweep(self, state: JobState, max_jobs: int) -> None:
        before = [i for i, j in self.jobs.items() if j.state is state]
        count = self.run(
            self.world.retention.sweep(self.world.epoch, state, retention_ms=10**12, max_jobs=max_jobs)
        )
        assert count == max(0, len(before) - max_jobs)
        stored = self.run(self.world.records.get_without_argument(before))
        for job_id in set(before) - set(stored):
            del self.jobs[job_id]
            self.deleted.add(job_id)
        if count:
            self.run(self.world.redis.unlink("none", *self.orphaned_results()))
            self.replay = None

    def orphaned_results(self) -> list[str]:
        """Results have their own life; here they end with their jobs, so that the model need not keep both."""
        k = self.world.shard.keys
        for job_id in self.deleted:
            self.run(self.world.redis.zrem(k.results, job_id))
        return [k.result(job_id) for job_id in self.deleted]

    @rule()
    def the_last_call_comes_again(self) -> None:
        """The answer was lost, and the caller repeats the call."""
        if self.replay:
            call = self.replay()
            if call:
                self.run(call)

    # --- what must hold after each step

    @invariant()
    def the_store_is_as_the_model_says(self) -> None:
        if not self.epochs:
            return
        self.run(self.compare())

    async def compare(self) -> None:
        stored = await self.world.records.get_without_argument(list(self.jobs))
        assert stored.keys() == self.jobs.keys()  # I2
        counts = await self.world.inspector.counts()
        assert sum(counts.values()) == len(self.jobs)  # I4; at the end, fsck says which index is right
        redis, k = self.world.redis, self.world.shard.keys
        for job_id, job in self.jobs.items():
            now = stored[job_id]
            assert (now.name, now.argument, now.max_retry) == (
                job.spec.name,
                job.spec.argument,
                job.max_retry,
            )  # I3
            assert (now.state, now.priority, now.expires_at_ms) == (
                job.state,
                job.priority,
                job.expires_at_ms,
            )
            assert (now.attempt, now.failures, now.losses) == (job.attempt, job.failures, job.losses)  # I12
            assert now.token == (job.token or job.settled_by) or now.token in job.ended  # I5
            if job.state in (JobState.SCHEDULED, JobState.RETRYING):
                assert now.due_at_ms == job.due_at_ms
            if job.state is JobState.RUNNING:
                assert await self.world.score(k.running, job_id) == job.lease_ms
            assert await redis.get(k.result(job_id)) == job.result
        for worker in self.workers:
            held = {
                i.encode() for i, j in self.jobs.items() if j.state is JobState.RUNNING and j.worker == worker
            }
            assert await redis.smembers(k.claims(worker)) == held


@pytest.mark.req("J5", "J12", "M2", "M3", "M4", "M9", "D5")
@pytest.mark.sized
@pytest.mark.timeout(3_600 if NIGHTLY else 300)
def test_random_histories(store_server: StoreServer) -> None:
    QueueMachine.server = store_server
    run_state_machine_as_test(
        QueueMachine,
        settings=history_settings(examples=long.size(40, 60)),
    )
