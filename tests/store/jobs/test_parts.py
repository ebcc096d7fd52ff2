"""save_parts.lua and read_parts.lua: partial results of the running attempt."""

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.parts import BEGINNING, PartPosition
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from tests.store.jobs.test_settle import HANDED_BACK
from tests.support.store import RESULT_TTL_MS, StoreWorld

pytestmark = pytest.mark.req("D21")


async def _claimed(world: StoreWorld, worker: str) -> ClaimedJob:
    claim = await world.claims.claim(world.epoch, worker, ["work"], 1)
    assert isinstance(claim, Claim)
    (job,) = claim.jobs
    return job


async def _values(world: StoreWorld, job_id: str, after: PartPosition = BEGINNING) -> list[tuple[str, bytes]]:
    page = await world.parts.read(job_id, after, watch=False)
    assert page is not None
    return [(str(part.position), part.value) for part in page.parts]


async def test_parts_are_kept_in_order_and_read_from_any_place(world: StoreWorld) -> None:
    worker, job = await world.running()
    assert await world.parts.save(worker, job.job_id, job.token, 1, [b"a", b"b"]) == "ok"
    assert await world.parts.save(worker, job.job_id, job.token, 3, [b"c"]) == "ok"
    assert await _values(world, job.job_id) == [("1-1", b"a"), ("1-2", b"b"), ("1-3", b"c")]
    assert await _values(world, job.job_id, PartPosition(1, 2)) == [("1-3", b"c")]
    page = await world.parts.read(job.job_id, PartPosition(1, 3), watch=True)
    assert page is not None
    assert (page.state, page.attempt, page.parts, page.is_last) == (JobState.RUNNING, 1, [], False)
    assert page.end(PartPosition(1, 3)) == PartPosition(1, 3)
    key = world.shard.keys.parts(job.job_id)
    assert 0 < await world.redis.pttl(key) <= RESULT_TTL_MS


async def test_a_call_that_is_repeated_keeps_nothing_twice(world: StoreWorld) -> None:
    worker, job = await world.running()
    for values in ([b"a", b"b"], [b"a", b"b"], [b"a", b"b", b"c"]):
        assert await world.parts.save(worker, job.job_id, job.token, 1, values) == "ok"
    assert [value for _, value in await _values(world, job.job_id)] == [b"a", b"b", b"c"]


@pytest.mark.req("M3", "M4")
async def test_a_stale_claim_adds_nothing(world: StoreWorld) -> None:
    worker, job = await world.running()
    stranger = await world.worker()
    async with world.unchanged():
        assert await world.parts.save(worker, job.job_id, "0" * 32, 1, [b"a"]) == "stale"
        assert await world.parts.save(stranger, job.job_id, job.token, 1, [b"a"]) == "stale"
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    async with world.unchanged():
        assert await world.parts.save(worker, job.job_id, job.token, 1, [b"a"]) == "stale"


@pytest.mark.parametrize("values", [[b"x"] * 3, [b"x" * 99]], ids=["too many", "too large"])
async def test_parts_that_exceed_the_limits_are_refused_whole(world: StoreWorld, values: list[bytes]) -> None:
    worker, job = await world.running()
    assert await world.parts.save(worker, job.job_id, job.token, 1, [b"a", b"b"]) == "ok"
    async with world.unchanged():
        assert await world.parts.save(worker, job.job_id, job.token, 3, values) == "full"
    # A smaller part is kept.
    assert await world.parts.save(worker, job.job_id, job.token, 3, [b"c" * 98]) == "ok"


async def test_the_next_attempt_begins_anew_and_drops_the_parts_of_the_one_before(world: StoreWorld) -> None:
    worker, job = await world.running()
    assert await world.parts.save(worker, job.job_id, job.token, 1, [b"a", b"b", b"c", b"d"]) == "ok"
    await world.fail(worker, job, HANDED_BACK)
    other = await world.worker()
    again = await _claimed(world, other)
    # Parts of a finished attempt are not taken for parts of the present one.
    page = await world.parts.read(job.job_id, PartPosition(1, 4), watch=False)
    assert page is not None
    assert (page.attempt, page.parts, page.end(PartPosition(1, 4))) == (2, [], PartPosition(2, 0))
    assert await world.parts.save(other, again.job_id, again.token, 1, [b"z"]) == "ok"
    assert await _values(world, job.job_id) == [("2-1", b"z")]
    assert await world.redis.xlen(world.shard.keys.parts(job.job_id)) == 1


async def test_parts_outlive_the_end_of_their_job_and_go_with_it(world: StoreWorld) -> None:
    worker, job = await world.running()
    await world.parts.save(worker, job.job_id, job.token, 1, [b"a"])
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    page = await world.parts.read(job.job_id, BEGINNING, watch=True)
    assert page is not None
    assert (page.state, page.is_last, len(page.parts)) == (JobState.SUCCEEDED, True, 1)
    await world.operator_actions.delete(job.job_id)
    assert await world.parts.read(job.job_id, BEGINNING, watch=False) is None
    assert not await world.redis.exists(world.shard.keys.parts(job.job_id))


async def test_a_key_of_another_type_is_damaged_and_begins_anew(world: StoreWorld) -> None:
    worker, job = await world.running()
    key = world.shard.keys.parts(job.job_id)
    await world.redis.set(key, b"damaged", ex=60)
    assert await _values(world, job.job_id) == []
    assert await world.parts.save(worker, job.job_id, job.token, 1, [b"a"]) == "ok"
    assert await _values(world, job.job_id) == [("1-1", b"a")]
