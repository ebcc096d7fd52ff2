"""Jobs that require labels: a claim that does not name their queue gets none of them, and they do not hold it up."""

import pytest

from jqmaster.domain.challenges.challenge import CallbackAnswer
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.matching.requirement import queue_of
from jqmaster.store import codec
from jqmaster.store.health.repair import Repair
from jqmaster.store.job_documents import job_document, read_job_document
from jqmaster.store.jobs.placement import StoredLane
from jqmaster.store.link.wake import QueueOpened, decode, encode
from tests.support.constraints import ConstrainedWorld
from tests.support.store import TIMES, StoreWorld

GPU = {"gpu": "1"}
QUEUE = queue_of("work", GPU)


@pytest.fixture
def constraints(world: StoreWorld) -> ConstrainedWorld:
    return ConstrainedWorld(world)


async def queues(world: StoreWorld) -> list[str]:
    return (await world.workers.fleet()).queues


@pytest.mark.req("D24")
async def test_a_job_that_asks_for_labels_is_given_to_claims_that_name_its_queue(world: StoreWorld) -> None:
    first = await world.enqueue(requires=GPU, priority=-1)
    plain = await world.enqueue()
    other = await world.enqueue(requires={"gpu": "2"})
    assert sorted(await queues(world)) == [QUEUE, queue_of("work", {"gpu": "2"})]
    worker = await world.worker()
    # A more urgent job that the worker cannot run holds nothing up.
    assert [job.job_id for job in await world.claim(worker)] == [plain]
    assert [job.job_id for job in await world.claim(worker, "work", QUEUE)] == [first]
    assert await world.state(other) is JobState.READY
    job = await world.get(first)
    assert (job.requires, job.queue, job.name) == (GPU, QUEUE, "work")
    await world.assert_sound()


@pytest.mark.req("D24")
async def test_a_queue_that_opens_is_told_once(world: StoreWorld) -> None:
    channel = world.shard.keys.wake_channel
    async with world.published(channel, f"queue:{QUEUE}", "ready", "ready", "ready"):
        await world.enqueue(requires=GPU)
        await world.enqueue(requires=GPU)
        await world.enqueue()
    message = decode(f"queue:{QUEUE}")
    assert message == QueueOpened(QUEUE)
    assert encode(message) == f"queue:{QUEUE}"


@pytest.mark.req("D24")
async def test_lists_and_counts_of_a_name_have_all_of_its_jobs(world: StoreWorld) -> None:
    await world.enqueue(requires=GPU)
    await world.enqueue()
    assert await world.redis.hgetall(world.shard.keys.ready_counts) == {b"work": b"2"}
    assert await world.redis.smembers(world.shard.keys.names) == {b"work"}


async def test_the_order_of_labels_makes_no_other_queue_and_no_other_request(world: StoreWorld) -> None:
    one = world.spec(requires={"a": "1", "b": "2"})
    other = world.spec(id=one.id, requires={"b": "2", "a": "1"})
    assert codec.encode_new(one) == codec.encode_new(other)
    assert one.queue == other.queue


@pytest.mark.req("D24")
async def test_a_retried_job_asks_for_its_labels_again(world: StoreWorld) -> None:
    job_id = await world.enqueue(requires=GPU, delay_ms=5_000)
    world.pass_ms(5_001)
    await world.due.promote(world.epoch, JobState.SCHEDULED)
    worker = await world.worker()
    assert await world.claim(worker) == []
    (job,) = await world.claim(worker, "work", QUEUE)
    assert job.job_id == job_id


@pytest.mark.req("D24", "J13")
async def test_gates_close_for_jobs_that_ask_for_labels_as_for_the_others(
    constraints: ConstrainedWorld,
) -> None:
    world = constraints.world
    await constraints.limit(concurrency=1)
    first, second = await constraints.enqueue_many([None, None], requires=GPU)
    worker = await world.worker()
    assert (await world.get(first)).lane_id == (await world.get(second)).lane_id
    (job,) = await constraints.claim(worker, "work", QUEUE)
    assert job.job_id == first
    assert await constraints.claim(worker, "work", QUEUE) == []
    await constraints.succeed(worker, job)
    assert [one.job_id for one in await constraints.claim(worker, "work", QUEUE)] == [second]
    await world.assert_sound()


@pytest.mark.req("D24", "J13")
@pytest.mark.parametrize(
    "matcher", [{"field": "name", "op": "eq", "value": "work"}, {"field": "argument", "op": "eq", "value": 1}]
)
async def test_a_change_of_constraints_leaves_the_labels_in_force(
    constraints: ConstrainedWorld, matcher: dict[str, object]
) -> None:
    world = constraints.world
    ready = await world.enqueue(argument=1, requires=GPU)
    later = await world.enqueue(argument=1, requires=GPU, delay_ms=60_000)
    await constraints.limit(matcher=matcher, concurrency=5)
    await constraints.relocate()
    worker = await world.worker()
    assert await constraints.claim(worker) == []
    assert [job.job_id for job in await constraints.claim(worker, "work", QUEUE)] == [ready]
    world.pass_ms(60_001)
    await world.due.promote(world.epoch, JobState.SCHEDULED)
    assert await constraints.claim(worker) == []
    assert [job.job_id for job in await constraints.claim(worker, "work", QUEUE)] == [later]
    await world.assert_sound()


@pytest.mark.req("D24")
async def test_keyed_gates_and_labels_together(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    await constraints.limit(key="argument.host", concurrency=1)
    await constraints.enqueue_many([{"host": host} for host in ("x", "x", "y")], requires=GPU)
    worker = await world.worker()
    assert await constraints.claim(worker) == []
    first = await constraints.claim(worker, "work", QUEUE)
    assert len(first) == 2
    await constraints.succeed(worker, *first)
    assert len(await constraints.claim(worker, "work", QUEUE)) == 1
    await world.assert_sound()


@pytest.mark.req("D24", "P2")
async def test_the_callback_of_such_a_job_goes_to_a_worker_with_its_labels(world: StoreWorld) -> None:
    await world.enqueue(requires=GPU)
    worker = await world.worker()
    (job,) = await world.claim(worker, "work", QUEUE)
    request = await world.open_challenge(worker, job)
    assert await world.challenges.await_callbacks(worker, [(job.job_id, job.token, request.digest)]) == [1]
    await world.assert_sound()
    assert await world.call_back(request) is CallbackAnswer.TAKEN
    await world.assert_sound()
    assert await world.claim(await world.worker()) == []
    (again,) = await world.claim(await world.worker(), "work", QUEUE)
    assert again.job_id == job.job_id
    await world.assert_sound()


async def test_an_empty_queue_goes_with_its_last_lane(world: StoreWorld) -> None:
    await world.enqueue(requires=GPU)
    worker = await world.worker()
    (job,) = await world.claim(worker, "work", QUEUE)
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"\xc0")])
    async for page in world.lanes.lane_pages():
        await world.lanes.prune(world.epoch, page)
    assert await queues(world) == []


async def test_a_queue_that_no_claim_would_look_for_is_found_and_put_right(world: StoreWorld) -> None:
    await world.enqueue(requires=GPU)
    await world.redis.delete(world.shard.keys.requirements)
    found = await world.findings()
    assert {finding.rule for finding in found} == {"lane"}
    assert any("no claim would find it" in finding.detail for finding in found)
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    assert [one async for step in repair.steps() for one in step.repaired]
    assert await world.findings() == []
    assert await queues(world) == [QUEUE]


async def test_a_lost_lane_is_made_anew_for_the_labels_of_its_jobs(constraints: ConstrainedWorld) -> None:
    world = constraints.world
    job_id = await world.enqueue(requires=GPU)
    key = world.shard.keys.lane((await world.get(job_id)).lane_id.hex())
    lane = StoredLane.read(await world.redis.get(key))
    assert (lane.queue, lane.name) == (QUEUE, "work")
    await world.redis.delete(key, world.shard.keys.open_lanes(lane.group))
    repair = Repair(world.shard, world.epoch, who="test", times=TIMES)
    assert [one async for step in repair.steps() for one in step.repaired]
    worker = await world.worker()
    assert await world.claim(worker, "work", QUEUE) == []
    await constraints.limit(concurrency=5)
    assert await constraints.claim(worker) == []
    assert [job.job_id for job in await constraints.claim(worker, "work", QUEUE)] == [job_id]


def test_damaged_labels_read_as_none() -> None:
    assert codec._decode_requires(codec.pack(["requires"])) is None
    assert codec._decode_requires(codec.pack({"requires": None})) is None


def test_documents_of_jobs_to_come_keep_the_labels(world: StoreWorld) -> None:
    plain, needs = world.spec(id="0"), world.spec(id="0", requires={"b": "2", "a": "1"})
    assert "requires" not in job_document(plain)
    assert read_job_document(job_document(plain)).requires is None
    assert read_job_document(job_document(needs)).requires == {"a": "1", "b": "2"}
