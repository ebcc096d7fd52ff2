"""Figures of workers, from the counts of several masters in the last minutes."""

from dataclasses import replace

from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.operations.tally import Tally
from jqmaster.runtime.watch.history_keeper import HistoryKeeper
from jqmaster.service.workers.figures import LIVES_S, MINUTES, FiguresCache
from jqmaster.store.operations.history import STEP_MS, HistoryStore
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld

FAILED = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)


class Counted:
    """The figures of a shard whose own settlements are counted; `pass_s` advances all clocks and reports the counts."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock(lambda seconds: world.pass_ms(round(seconds * 1000)))
        history = HistoryStore(world.shard, master_id="master-1")
        self.keeper = HistoryKeeper(world.tally, history, self.clock)
        self.figures = FiguresCache(history, world.workers, self.clock)

    async def pass_s(self, seconds: float) -> None:
        await self.keeper.flush(is_last=True)
        self.clock.jump(seconds)

    async def run(self, worker_id: str, run_ms: int, *, fails: bool = False) -> None:
        await self.world.enqueue()
        (job,) = await self.world.claim(worker_id)
        self.world.pass_ms(run_ms)
        if fails:
            stored = await self.world.get(job.job_id)
            settlement = replace(self.world.settlement(stored, job.token, FAILED), name="work")
            await self.world.settlements.settle(worker_id, [settlement])
        else:
            await self.world.settlements.settle_success(worker_id, [(job.job_id, job.token, b"")])


async def test_the_last_minutes_of_each_worker(world: StoreWorld) -> None:
    counted = Counted(world)
    quick, slow = await world.worker(), await world.worker()
    for n in range(25):
        await counted.run(quick, 10)
        await counted.run(slow, 400, fails=n % 5 == 0)
    await counted.pass_s(LIVES_S)
    found = await counted.figures.of(await world.workers.all())
    assert (found[quick].counts.succeeded, found[quick].counts.failed, found[quick].marks) == (25, 0, ())
    assert (found[slow].counts.succeeded, found[slow].counts.failed) == (20, 5)
    assert found[slow].marks == ("slow", "failing")
    one = await counted.figures.of_one(next(w for w in await world.workers.all() if w.id == slow))
    assert one == found[slow]
    (group,) = await counted.figures.groups("node")
    assert (group.value, group.figures.attempts, len(group.workers)) == ("node-1", 50, 2)
    # Every finished minute is read once, and is dropped when it is too old.
    for _ in range(MINUTES):
        await counted.pass_s(STEP_MS["minute"] / 1000)
        assert (await counted.figures.of(await world.workers.all()))[quick].attempts == 25
    await counted.pass_s(STEP_MS["minute"] / 1000)
    assert (await counted.figures.of(await world.workers.all()))[quick].attempts == 0


async def test_within_seconds_the_answer_is_the_same(world: StoreWorld) -> None:
    counted = Counted(world)
    worker = await world.worker()
    workers = await world.workers.all()
    assert (await counted.figures.of(workers))[worker].attempts == 0
    await counted.run(worker, 0)
    await counted.keeper.flush(is_last=True)
    assert (await counted.figures.of(workers))[worker].attempts == 0
    counted.clock.jump(LIVES_S)
    assert (await counted.figures.of(workers))[worker].attempts == 1


async def test_workers_beyond_the_bound_are_counted_together_and_shown_nowhere(world: StoreWorld) -> None:
    tally = Tally(max_workers=2)
    for n in range(4):
        tally.on(f"worker-{n}").succeed(5, 1)
    taken = tally.take_workers()
    assert {worker_id: one.succeeded for worker_id, one in taken.items()} == {
        "worker-0": 1, "worker-1": 1, "(other)": 2,
    }  # fmt: skip
    assert tally.take_workers() == {}
