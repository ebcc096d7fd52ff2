"""Why a job is not running, from the real store and the registered workers."""

from dataclasses import replace

import pytest

from jqmaster.domain.constraints.constraint import Mode
from jqmaster.domain.content.content import full_access
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.why.facts import Reachability
from jqmaster.domain.why.verdict import Ahead, ByConstraint, Running
from jqmaster.domain.why.worker_verdicts import WorkersUnavailable
from jqmaster.errors import NotFoundError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.why import FOLLOW_MS, Explanation, WhyPolicy, WhyService
from jqmaster.store.constraints.why import WhyStore
from jqmaster.store.health.repair import Repair
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.store import TIMES, StoreWorld

pytestmark = pytest.mark.req("J13")

URL = "http://127.0.0.1:1"


@pytest.fixture
def limited(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


class Desk:
    """A caller that asks why. `reach` is what this leader knows about its workers."""

    def __init__(self, world: StoreWorld, shard: Shard | None = None) -> None:
        self.reach: dict[str, Reachability] | None = {}
        self._service = WhyService(
            WhyStore(shard or world.shard, world.records),
            world.workers,
            world.constraints,
            policy=LiveValue(WhyPolicy(5_000, 10_000)),
            reach=lambda: self.reach,
        )

    async def why(self, job_id: str) -> Explanation:
        return await self._service.why(job_id, full_access([]))

    async def codes(self, job_id: str) -> list[str]:
        return [verdict.code for verdict in (await self.why(job_id)).verdicts]


@pytest.fixture
def desk(world: StoreWorld) -> Desk:
    return Desk(world)


@pytest.mark.parametrize("job_id", ["", "x", "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"])
async def test_an_unknown_job_is_not_found(desk: Desk, job_id: str) -> None:
    with pytest.raises(NotFoundError) as raised:
        await desk.why(job_id)
    assert raised.value.code == "unknown_job"


async def test_the_life_of_a_job_from_one_reason_to_the_next(world: StoreWorld, desk: Desk) -> None:
    job = await world.enqueue(delay_ms=5_000)
    assert await desk.codes(job) == ["scheduled", "no_worker"]
    world.pass_ms(5_000)
    assert await world.due.promote(world.epoch, JobState.SCHEDULED)
    assert await desk.codes(job) == ["no_worker"]
    worker = await world.worker("work", "mail", max_jobs=1, url=URL)
    assert await desk.codes(job) == ["next"]
    before = await world.enqueue("mail", priority=-1)
    assert await desk.codes(job) == ["ahead"]
    (ahead,) = (await desk.why(job)).verdicts
    assert isinstance(ahead, Ahead)
    assert (ahead.count, ahead.others) == (1, {"mail": 1})
    (claimed,) = await world.claim(worker, "work", "mail")
    assert claimed.job_id == before
    assert await desk.codes(job) == ["workers_unavailable", "next"]
    await world.fail(worker, claimed)
    (claimed,) = await world.claim(worker, "work", "mail")
    answer = await desk.why(job)
    (running,) = answer.verdicts
    assert isinstance(running, Running)
    assert (answer.state, running.worker_id, running.since_ms) == (JobState.RUNNING, worker, world.now_ms)
    assert running.deadline_ms == world.now_ms + 40_000
    assert running.lease_until_ms == world.now_ms + 15_000
    again = Decision(JobState.RETRYING, "failure", delay_ms=2_000, cause=Cause.ERROR, is_counted=True)
    await world.fail(worker, claimed, again)
    assert await desk.codes(job) == ["retrying"]
    await world.operator_actions.cancel(job)
    answer = await desk.why(job)
    assert ([v.code for v in answer.verdicts], answer.state) == (["finished"], JobState.CANCELED)


@pytest.mark.parametrize(
    ("ending", "is_told"), [("timeout", True), ("canceled", True), ("handed_back", True), ("failure", False)]
)
async def test_an_attempt_that_waits_for_the_handler_of_the_earlier_one_says_so(
    world: StoreWorld, desk: Desk, ending: str, is_told: bool
) -> None:
    job = await world.enqueue()
    worker, other = await world.worker(url=URL), await world.worker(url="http://127.0.0.1:2")

    async def earlier_end(by: str) -> str:
        (claimed,) = await world.claim(by)
        (running,) = (await desk.why(job)).verdicts
        assert isinstance(running, Running)
        await world.fail(by, claimed, Decision(JobState.READY, ending))
        return running.earlier_end

    assert await earlier_end(worker) == ""
    assert await earlier_end(worker) == (ending if is_told else "")
    # Another worker runs nothing of this job.
    assert await earlier_end(other) == ""
    (claimed,) = await world.claim(other)
    world.pass_ms(FOLLOW_MS + 1)
    (running,) = (await desk.why(job)).verdicts
    assert isinstance(running, Running)
    assert running.earlier_end == "", "by now it runs, or has been handed back"
    await world.fail(other, claimed)


@pytest.mark.parametrize("lost", ["open", "ready:", "lanes:"])
async def test_a_ready_job_that_no_claim_finds_is_not_called_the_next(
    world: StoreWorld, desk: Desk, lost: str
) -> None:
    job = await world.enqueue()
    await world.worker(url=URL)
    assert await desk.codes(job) == ["next"]
    for key in await world.redis.keys(f"{world.shard.keys.tag}{lost}*"):
        await world.redis.delete(key)
    (verdict,) = (await desk.why(job)).verdicts
    assert verdict.code == "index_missing"
    assert "no claim finds it" in verdict.text
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    _ = [step async for step in repair.steps()]
    assert "index_missing" not in await desk.codes(job)


async def test_without_a_leader_nobody_gives_jobs_out(world: StoreWorld, desk: Desk) -> None:
    job = await world.enqueue(expires_at_ms=world.now_ms + 1_000)
    await world.worker(url=URL)
    await world.redis.delete(world.shard.keys.leader)
    assert await desk.codes(job) == ["no_leader"]
    world.pass_ms(1_000)
    assert await desk.codes(job) == ["no_leader", "expired"]


async def test_a_worker_that_fell_silent_is_no_worker(world: StoreWorld, desk: Desk) -> None:
    job = await world.enqueue()
    await world.worker(url=URL)
    world.pass_ms(5_000)
    assert await desk.codes(job) == ["next"]
    world.pass_ms(1)
    assert await desk.codes(job) == ["no_worker"]


async def test_the_leader_alone_knows_some_facts_about_workers(world: StoreWorld, desk: Desk) -> None:
    job = await world.enqueue()
    worker = await world.worker(url=URL)
    for reach in (
        Reachability("open"),
        Reachability(paused_ms=1),
        Reachability(refused_names=frozenset({"work"})),
    ):
        desk.reach = {worker: reach}
        assert await desk.codes(job) == ["workers_unavailable", "next"]
    desk.reach = None
    assert await desk.codes(job) == ["next"]
    await world.worker(url=None)
    await world.operator_actions.cancel(job)


async def test_a_worker_without_an_address_is_told_apart(world: StoreWorld, desk: Desk) -> None:
    job = await world.enqueue()
    await world.worker(url=None)
    first = (await desk.why(job)).verdicts[0]
    assert isinstance(first, WorkersUnavailable)
    assert first.pulling == 1


async def test_all_constraints_of_a_job_are_told_and_the_closed_ones_are_verdicts(
    world: StoreWorld, limited: ConstrainedWorld, desk: Desk
) -> None:
    await limited.put(
        constraint("a-full", key="argument.host", concurrency=1),
        constraint("b-open", rate=(100, 1000)),
        constraint("c-shadow", paused=True, mode=Mode.SHADOW),
        constraint("d-other", {"field": "name", "op": "eq", "value": "mail"}, paused=True),
        constraint("e-off", paused=True, enabled=False),
    )
    worker = await world.worker(url=URL)
    holder = await limited.enqueue(argument={"host": "example.org"})
    job = await limited.enqueue(argument={"host": "example.org"})
    assert await limited.take(worker) == [holder]
    answer = await desk.why(job)
    assert [one.name for one, _ in answer.constraints] == ["a-full", "b-open", "c-shadow"]
    assert [(use.is_closed, use.is_shadow) for _, use in answer.constraints] == [
        (True, False),
        (False, False),
        (True, True),
    ]
    (verdict,) = answer.verdicts
    assert isinstance(verdict, ByConstraint)
    assert verdict.constraint.name == "a-full"
    assert [held.job_id for held in verdict.gate.holders] == [holder]
    assert f"a-full (argument.host = example.org): 1 of 1 slots taken: job {holder}" in verdict.text


async def test_a_constraint_removed_meanwhile_holds_nothing_back(
    world: StoreWorld, limited: ConstrainedWorld, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.worker(url=URL)
    await limited.limit("gone", paused=True)
    job = await limited.enqueue()
    assert await desk.codes(job) == ["constraint"]
    look = WhyStore.snapshots

    async def look_and_remove(store: WhyStore, *args: object, **named: object) -> object:
        found = await look(store, *args, **named)  # type: ignore[arg-type]
        assert await limited.change("gone", None)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(WhyStore, "snapshots", look_and_remove)
        answer = await desk.why(job)
    assert (answer.constraints, [v.code for v in answer.verdicts]) == ([], ["next"])
    await limited.follow_up()


async def test_until_the_leader_followed_a_change_up_it_says_that_rules_change(
    world: StoreWorld, limited: ConstrainedWorld, desk: Desk
) -> None:
    await world.worker(url=URL)
    job = await world.enqueue()
    assert await limited.change("new", constraint("new", concurrency=3))
    assert await desk.codes(job) == ["rules_changing"]
    assert await limited.settle()
    assert await desk.codes(job) == ["rules_changing"]
    await limited.follow_up()
    assert await desk.codes(job) == ["next"]


async def test_a_store_that_is_away_is_the_stores_trouble(world: StoreWorld) -> None:
    client = StoreClient("redis://127.0.0.1:1/0", connections=1)
    try:
        with pytest.raises(StoreUnavailableError):
            await Desk(world, replace(world.shard, client=client)).why(new_id())
    finally:
        await client.close()
