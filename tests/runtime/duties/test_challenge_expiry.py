"""The leader ends attempts whose callbacks did not come in time."""

import pytest

from jqmaster.domain.challenges.challenge import CallbackAnswer, ChallengeFigures
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.workers.silence import CrowdRules
from jqmaster.errors import StaleEpochError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.challenge_expiry import ChallengeExpiry
from jqmaster.runtime.duties.due_loop import POLL_S
from jqmaster.runtime.duties.grace import Grace, GracePolicy
from jqmaster.store.leadership.leadership import Leadership
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("P6")
DAY_MS = 86_400_000
GRACE_S = 10.0


class Expiring:
    def __init__(self, world: StoreWorld) -> None:
        self.clock = ManualClock()
        self.figures = ChallengeFigures()
        grace = Grace(self.clock, LiveValue(GracePolicy(GRACE_S, 5, CrowdRules(5_000, 0.3, 3))))
        self.duty = ChallengeExpiry(
            Leadership(world.epoch, "master-1"),
            world.challenges,
            grace,
            self.clock,
            figures=self.figures,
            on_stale=lambda: None,
        )


async def test_a_callback_that_does_not_come_for_a_day_ends_the_attempt(world: StoreWorld) -> None:
    expiring = Expiring(world)
    _, job, request = await world.awaiting(wait_ms=DAY_MS, max_retry=0, keep_result=True)
    world.pass_ms(DAY_MS)
    # Callers may have been without a master for a while.
    assert await expiring.duty._round() == POLL_S
    assert await world.state(job.job_id) is JobState.AWAITING_CALLBACK
    expiring.clock.jump(GRACE_S)
    assert await expiring.duty._round() == POLL_S
    failed = await world.get(job.job_id)
    assert (failed.state, failed.cause, failed.failures) == (JobState.FAILED, Cause.CALLBACK_TIMEOUT, 1)
    (attempt,) = await world.records.history(job.job_id)
    assert (attempt.outcome, attempt.message) == ("callback_timeout", "no callback came in time")
    assert expiring.figures.expired == 1
    # The callback comes a day late.
    world.pass_ms(DAY_MS)
    async with world.unchanged():
        assert await world.call_back(request) is CallbackAnswer.OVER


async def test_it_looks_again_when_the_next_is_due(world: StoreWorld) -> None:
    expiring = Expiring(world)
    expiring.clock.jump(GRACE_S)
    await world.awaiting(wait_ms=1_250)
    assert await expiring.duty._round() == POLL_S
    world.pass_ms(1_000)
    assert await expiring.duty._round() == 0.25
    world.pass_ms(250)
    await expiring.duty._round()
    assert expiring.figures.expired == 1


async def test_a_record_that_cannot_be_read_is_set_aside(world: StoreWorld) -> None:
    expiring = Expiring(world)
    expiring.clock.jump(GRACE_S)
    _, job, _ = await world.awaiting(wait_ms=1)
    world.pass_ms(1)
    await world.redis.setrange(world.shard.keys.job(job.job_id), 0, b"\xff")
    await expiring.duty._round()
    assert await world.redis.smembers(world.shard.keys.damaged) == {job.job_id.encode()}
    await world.operator_actions.delete(job.job_id)


async def test_a_leader_of_an_older_epoch_ends_nothing(world: StoreWorld) -> None:
    expiring = Expiring(world)
    expiring.clock.jump(GRACE_S)
    _, job, _ = await world.awaiting(wait_ms=1)
    world.pass_ms(1)
    await world.reelect()
    with pytest.raises(StaleEpochError):
        await expiring.duty._round()
    assert await world.state(job.job_id) is JobState.AWAITING_CALLBACK
