"""Records and histories of jobs, read whole and by their heads; an unreadable one hides no other."""

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import CONTINUED, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.store import codec
from jqmaster.store.jobs.records import HEAD_READ
from tests.support.store import StoreWorld

LONG = {f"header-{n}": "x" * 100 for n in range(30)}


async def test_a_head_that_reaches_further_is_read_again(world: StoreWorld) -> None:
    short = await world.enqueue()
    long = await world.enqueue(argument="y" * 5_000, headers=LONG)
    found = await world.records.get_without_argument([short, long, new_id()])
    assert found.keys() == {short, long}
    assert found[long].headers == LONG
    assert len(found[long].argument) < 5_000
    record = await world.redis.get(world.shard.keys.job(long))
    assert (await world.records.decode_head(long, record[:HEAD_READ])).headers == LONG


async def test_whole_jobs_come_without_those_that_cannot_be_read(world: StoreWorld) -> None:
    ids = await world.enqueue_many(3)
    damaged, gone = ids[1], new_id()
    whole = await world.redis.get(world.shard.keys.job(damaged))
    await world.redis.set(world.shard.keys.job(damaged), b"\xff")
    found = await world.records.get_all([*ids, gone])
    assert list(found) == [ids[0], ids[2]]
    assert found[ids[2]] == await world.get(ids[2])
    assert await world.records.get_all([]) == {}
    await world.redis.set(world.shard.keys.job(damaged), whole)


async def test_the_last_end_of_a_job_is_the_newest_entry_that_tells_of_one(world: StoreWorld) -> None:
    worker_id, job = await world.running(max_retry=3)
    await world.fail(worker_id, job, Decision(JobState.RETRYING, "failure", delay_ms=1, is_counted=True))
    key = world.shard.keys.history(job.job_id)
    (entry,) = await world.redis.lrange(key, 0, -1)
    told = codec.decode_attempt(entry)
    fresh = await world.enqueue()
    assert await world.records.last_ends([job.job_id, fresh]) == [told, None]
    continued = bytes(8) + codec.encode_attempt(await world.get(job.job_id), CONTINUED, "", None)
    assert codec.decode_attempt(continued).outcome == CONTINUED
    await world.redis.rpush(key, continued, b"\xc1")
    assert await world.records.last_ends([job.job_id]) == [told]
    await world.redis.delete(key)
    await world.redis.rpush(key, continued)
    assert await world.records.last_ends([job.job_id]) == [None]
    await world.redis.delete(key)
    await world.redis.rpush(key, entry)


async def test_short_jobs_come_whole_and_long_ones_not_at_all(world: StoreWorld) -> None:
    short, long = await world.enqueue(argument=1), await world.enqueue(argument="y" * 500)
    size = await world.redis.strlen(world.shard.keys.job(short))
    found = await world.records.get_short([short, long, new_id()], size)
    assert found == {short: await world.get(short)}
    assert await world.records.get_short([short], size - 1) == {}
