"""Scripts that end a job record whom to notify, and record nothing if nobody is to be notified."""

import msgpack
import pytest

from jqmaster.domain.jobs.job import OUTCOMES, Cause, JobState, Notify
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.notices.webhook import JobEnd, delivery_id, read_end
from jqmaster.errors import StoreUnavailableError
from jqmaster.service.notices.webhooks import WebhookFollowUps
from jqmaster.store.jobs.follow_ups import FollowUpStore
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("M10")

ALL = Notify("http://receiver.example/", OUTCOMES)
FAILED = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
RETRYING = Decision(JobState.RETRYING, "failure", delay_ms=1000, cause=Cause.ERROR, is_counted=True)
DISCARDED = Decision(JobState.DISCARDED, "discarded")


async def ends(world: StoreWorld) -> list[JobEnd]:
    entries = await FollowUpStore(world.shard).oldest()
    assert {entry.kind for entry in entries} <= {"notify"}
    return [end for entry in entries if (end := read_end(entry.subject))]


async def forget_ends(world: StoreWorld) -> None:
    store = FollowUpStore(world.shard)
    await store.end(world.epoch, await store.oldest())


def follow_ups(world: StoreWorld, prepared: list[int]) -> WebhookFollowUps:
    async def prepare() -> None:
        prepared.append(1)

    return WebhookFollowUps(
        world.acceptance, world.records, world.results, world.constraints, prepare=prepare
    )


async def test_each_way_to_end_is_written_down(world: StoreWorld) -> None:
    worker = await world.worker()
    expected = []
    for decision in (FAILED, DISCARDED):
        await world.enqueue(notify=ALL)
        (job,) = await world.claim(worker, "work")
        assert await world.fail(worker, job, decision)
        expected.append((job.job_id, decision.state))
    await world.enqueue(notify=ALL)
    (job,) = await world.claim(worker, "work")
    assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]
    expected.append((job.job_id, JobState.SUCCEEDED))
    waiting = await world.enqueue(notify=ALL)
    await world.operator_actions.cancel_all([waiting])
    expected.append((waiting, JobState.CANCELED))
    late = await world.enqueue(notify=ALL, expires_at_ms=world.now_ms + 1000)
    world.pass_ms(2000)
    await world.due.come_due(world.epoch)
    expected.append((late, JobState.SKIPPED))
    found = await ends(world)
    assert [(end.job_id, end.state) for end in found] == expected
    for end in found:
        assert end.finished_at_ms == (await world.get(end.job_id)).finished_at_ms
    await forget_ends(world)


async def test_nothing_is_written_where_nobody_is_told(world: StoreWorld) -> None:
    worker = await world.worker()
    await world.enqueue()
    (job,) = await world.claim(worker, "work")
    await world.fail(worker, job, FAILED)
    await world.enqueue(notify=Notify(ALL.url, (JobState.SUCCEEDED,)))
    (job,) = await world.claim(worker, "work")
    await world.fail(worker, job, FAILED)
    await world.enqueue(notify=ALL)
    (job,) = await world.claim(worker, "work")
    await world.fail(worker, job, RETRYING)
    assert await ends(world) == []


async def test_a_delivery_is_made_once_however_often_it_is_carried_out(world: StoreWorld) -> None:
    worker = await world.worker()
    job_id = await world.enqueue(notify=Notify(ALL.url, OUTCOMES, with_result=True), keep_result=True)
    (job,) = await world.claim(worker, "work")
    result = msgpack.packb({"type": "success", "finished_at": None, "result": 1})
    await world.settlements.settle_success(worker, [(job.job_id, job.token, result)])
    (entry,) = await FollowUpStore(world.shard).oldest()
    prepared: list[int] = []
    carried = follow_ups(world, prepared)
    assert list(await carried.enqueue([entry.subject, "damaged"], world.epoch)) == []
    own_id = delivery_id(job_id, (await world.get(job_id)).finished_at_ms)
    delivery = await world.get(own_id)
    told = msgpack.unpackb(delivery.argument)
    assert (delivery.name, told["url"]) == ("jq.webhook", ALL.url)
    assert '"result":1' in told["body"]
    # The result is gone meanwhile, so the delivery would have changed.
    await world.redis.delete(world.shard.keys.result(job_id))
    await world.redis.zrem(world.shard.keys.results, job_id)
    assert list(await carried.enqueue([entry.subject], world.epoch)) == []
    assert (await world.get(own_id)).argument == delivery.argument
    assert world.tally.of("jq.webhook").pushed == 1
    assert prepared == [1, 1]
    await forget_ends(world)


async def test_an_end_stays_written_down_while_nobody_runs_deliveries(world: StoreWorld) -> None:
    job_id = await world.enqueue(notify=ALL)
    await world.operator_actions.cancel_all([job_id])
    (entry,) = await FollowUpStore(world.shard).oldest()

    async def prepare() -> None:
        raise StoreUnavailableError("nobody", retry_after_s=1)

    carried = WebhookFollowUps(
        world.acceptance, world.records, world.results, world.constraints, prepare=prepare
    )
    with pytest.raises(StoreUnavailableError):
        await carried.enqueue([entry.subject], world.epoch)
    assert len(await ends(world)) == 1
    await forget_ends(world)


async def test_a_job_is_kept_until_its_end_was_told_of(world: StoreWorld) -> None:
    told, untold = await world.enqueue(notify=ALL), await world.enqueue(notify=ALL)
    await world.operator_actions.cancel_all([told, untold])
    store = FollowUpStore(world.shard)
    await store.end(world.epoch, [entry for entry in await store.oldest() if entry.subject.startswith(told)])
    world.pass_ms(10_000)
    await world.retention.sweep(world.epoch, JobState.CANCELED, retention_ms=5_000, max_jobs=100)
    assert set(await world.records.get_all([told, untold])) == {untold}
    await forget_ends(world)
    world.pass_ms(10_000)
    await world.retention.sweep(world.epoch, JobState.CANCELED, retention_ms=5_000, max_jobs=100)
    assert await world.records.get_all([untold]) == {}


async def test_a_job_that_people_deleted_is_not_told_of(world: StoreWorld) -> None:
    job_id = await world.enqueue(notify=ALL)
    await world.operator_actions.cancel_all([job_id])
    (entry,) = await FollowUpStore(world.shard).oldest()
    await world.operator_actions.delete_all([job_id])
    prepared: list[int] = []
    assert list(await follow_ups(world, prepared).enqueue([entry.subject], world.epoch)) == []
    assert prepared == []
    await forget_ends(world)
