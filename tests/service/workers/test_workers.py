from collections.abc import AsyncIterator

import msgpack
import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.ids import new_id
from jqmaster.domain.job import Cause, JobState
from jqmaster.domain.outcome import Outcome
from jqmaster.domain.worker import WorkerSpec
from jqmaster.errors import AddressRefusedError, NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.service.workers.registrations import Registrations
from jqmaster.service.workers.workers import MAX_MESSAGE, WorkerOrder, WorkerService
from jqmaster.store.jobs.claims import ClaimedJob
from tests.support.egress import loopback_guard
from tests.support.fake_worker import FakeWorker
from tests.support.store import StoreWorld


@pytest.fixture
async def service(world: StoreWorld) -> AsyncIterator[WorkerService]:
    client = WorkerClient(loopback_guard(), timeout_s=LiveValue(1))
    await client.start()
    yield WorkerService(
        world.workers,
        world.rules,
        Registrations(client, SystemClock(), failures_per_minute=LiveValue(60)),
        settlements=world.settlements,
        records=world.records,
        tell=nobody,
    )
    await client.stop()


async def nobody(worker_id: str, order: WorkerOrder) -> None:
    """Orders reach no worker."""


@pytest.fixture
async def endpoint() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().serving() as one:
        yield one


def spec_of(endpoint: FakeWorker, *names: str) -> WorkerSpec:
    return WorkerSpec(endpoint.url, names or ("work",), 5, "node", 1, {"zone": "a"}, "1", endpoint.secret)


def outcome(job: ClaimedJob, kind: str = "success", **fields: object) -> Outcome:
    return Outcome(job.job_id, job.token, kind, finished_at="2026-11-21T00:00:00.000Z", **fields)  # type: ignore[arg-type]


# --- registration


@pytest.mark.req("D10", "D18")
async def test_who_proves_the_address_is_registered(
    world: StoreWorld, service: WorkerService, endpoint: FakeWorker
) -> None:
    registration = await service.register(spec_of(endpoint))
    assert registration.store_time_ms == world.now_ms
    assert str(registration.epoch) == world.epoch.split(":")[0]
    assert (await service.get(registration.worker_id)).spec == spec_of(endpoint)
    assert len(endpoint.challenges) == 1


@pytest.mark.req("D18")
@pytest.mark.parametrize("proof", ["0" * 64, "", "é", "f" * 5000])
async def test_who_does_not_know_the_secret_is_not_registered(
    world: StoreWorld, service: WorkerService, endpoint: FakeWorker, proof: str
) -> None:
    endpoint.proof = lambda nonce: proof
    async with world.unchanged():
        with pytest.raises(AddressRefusedError) as refused:
            await service.register(spec_of(endpoint))
    assert refused.value.code == "address_unverified"


@pytest.mark.req("D18")
async def test_every_registration_is_challenged_anew(service: WorkerService, endpoint: FakeWorker) -> None:
    """A proof that was seen once is worth nothing."""
    await service.register(spec_of(endpoint))
    old = endpoint.right_proof(endpoint.challenges[0][0])
    endpoint.proof = lambda nonce: old
    with pytest.raises(AddressRefusedError):
        await service.register(spec_of(endpoint))


async def test_nobody_at_the_url_is_not_registered(
    world: StoreWorld, service: WorkerService, endpoint: FakeWorker
) -> None:
    endpoint.die()
    async with world.unchanged():
        with pytest.raises(AddressRefusedError):
            await service.register(spec_of(endpoint))


@pytest.mark.req("D10")
async def test_a_second_worker_at_one_url_replaces_the_first(
    service: WorkerService, endpoint: FakeWorker
) -> None:
    first = await service.register(spec_of(endpoint))
    second = await service.register(spec_of(endpoint))
    assert (await service.get(first.worker_id)).is_detached
    assert not (await service.get(second.worker_id)).is_detached


# --- what registered workers say


@pytest.mark.req("D10")
async def test_an_unknown_worker_is_told_to_register(service: WorkerService) -> None:
    for worker_id in (new_id(), "no id", ""):
        for act in (service.heartbeat(worker_id, [], 1), service.leave(worker_id), service.get(worker_id)):
            with pytest.raises(NotFoundError) as unknown:
                await act
            assert unknown.value.code == "unknown_worker"
    with pytest.raises(NotFoundError):
        await service.results("no id", [])
    with pytest.raises(NotFoundError):
        await service.confirm_start("no id", [])


async def test_a_worker_that_leaves_is_known_no_more(world: StoreWorld, service: WorkerService) -> None:
    worker = await world.worker()
    await service.leave(worker)
    with pytest.raises(NotFoundError):
        await service.heartbeat(worker, [], 1)
    assert await service.all() == []


@pytest.mark.req("M3")
async def test_a_start_is_confirmed_for_the_holder_of_the_token_alone(
    world: StoreWorld, service: WorkerService
) -> None:
    worker, job = await world.running()
    other = await world.worker()
    claims = [(job.job_id, job.token), (job.job_id, "00" * 16), (new_id(), job.token)]
    confirmed, stale = await service.confirm_start(worker, claims)
    assert (confirmed, stale) == ([job.job_id], [job.job_id, claims[2][0]])
    assert await service.confirm_start(other, claims[:1]) == ([], [job.job_id])


@pytest.mark.req("J8", "J9", "M4", "M9", "P1")
async def test_every_kind_of_ending_in_one_call(world: StoreWorld, service: WorkerService) -> None:
    ids = await world.enqueue_many(8, keep_result=True, max_retry=3)
    worker = await world.worker()
    jobs = {job.job_id: job for job in await world.claim(worker)}
    one = [jobs[job_id] for job_id in ids]
    outcomes = [
        outcome(one[0], result=msgpack.packb(42)),
        outcome(one[1], "failure", error=b"\xc3", message="no"),
        outcome(one[2], "failure", should_retry=False, message="never", error=b"\xc2"),
        outcome(one[3], "failure", reason="timeout"),
        outcome(one[4], "deferred", retry_after_s=7.0),
        outcome(one[5], "handed_back"),
        outcome(one[6], "canceled"),
        Outcome(ids[7], "00" * 16, "failure"),
        Outcome(new_id(), "00" * 16, "failure"),
        Outcome(new_id(), "00" * 16, "success"),
    ]
    accepted, stale = await service.results(worker, outcomes)
    assert sorted(accepted) == sorted(ids[:7])
    assert sorted(stale) == sorted([ids[7], outcomes[8].job_id, outcomes[9].job_id])
    found = [await world.get(job_id) for job_id in ids]
    assert [job.state for job in found] == [
        JobState.SUCCEEDED, JobState.RETRYING, JobState.FAILED, JobState.RETRYING, JobState.SCHEDULED, JobState.READY,
        JobState.CANCELED, JobState.RUNNING,
    ]  # fmt: skip
    assert [job.failures for job in found] == [0, 1, 1, 1, 0, 0, 0, 0]
    assert found[2].cause == Cause.ERROR
    assert found[4].due_at_ms == world.now_ms + 7000
    results = [await world.results.fetch_result(job_id, watch=False) for job_id in (ids[0], ids[2])]
    assert [msgpack.unpackb(result) for result in results] == [
        {"type": "success", "finished_at": "2026-11-21T00:00:00.000Z", "result": 42},
        {
            "type": "failure", "finished_at": "2026-11-21T00:00:00.000Z", "reason": "other", "should_retry": False,
            "message": "never", "error": False,
        },
    ]  # fmt: skip
    (attempt,) = await world.records.history(ids[1])
    assert (attempt.attempt, attempt.worker_id, attempt.outcome, attempt.message, attempt.error) == (
        1, worker, "failure", "no", b"\xc3",
    )  # fmt: skip


@pytest.mark.req("M3", "D5")
async def test_a_repeat_of_what_was_accepted_is_accepted_and_changes_nothing(
    world: StoreWorld, service: WorkerService
) -> None:
    await world.enqueue_many(2, keep_result=True)
    worker = await world.worker()
    one, two = await world.claim(worker)
    outcomes = [outcome(one, result=b"\x01"), outcome(two, "failure", message="no")]
    first = await service.results(worker, outcomes)
    before = [await world.get(job.job_id) for job in (one, two)]
    assert await service.results(worker, outcomes) == first == ([one.job_id, two.job_id], [])
    assert [await world.get(job.job_id) for job in (one, two)] == before
    assert len(await world.records.history(two.job_id)) == 1


@pytest.mark.req("M3", "D5")
async def test_a_result_of_another_worker_is_stale(world: StoreWorld, service: WorkerService) -> None:
    _, job = await world.running()
    other = await world.worker()
    async with world.unchanged():
        for kind in ("success", "failure", "handed_back"):
            assert await service.results(other, [outcome(job, kind)]) == ([], [job.job_id])


async def test_a_result_for_a_deleted_job_is_stale(world: StoreWorld, service: WorkerService) -> None:
    worker, job = await world.running()
    assert await service.results(worker, [outcome(job)]) == ([job.job_id], [])
    await world.steering.delete(job.job_id)
    for kind in ("success", "failure"):
        assert await service.results(worker, [outcome(job, kind)]) == ([], [job.job_id])


@pytest.mark.req("J5")
async def test_max_retry_is_exact(world: StoreWorld, service: WorkerService) -> None:
    job_id = await world.enqueue(max_retry=2)
    worker = await world.worker()
    starts = 0
    while (await world.get(job_id)).state != JobState.FAILED:
        (job,) = await world.claim(worker)
        starts += 1
        await service.results(worker, [outcome(job, "failure")])
        if (await world.get(job_id)).state == JobState.RETRYING:
            await world.steering.run_now(job_id)
    assert (starts, (await world.get(job_id)).cause) == (3, Cause.ERROR)


@pytest.mark.req("M4")
async def test_a_long_message_is_cut_in_the_history(world: StoreWorld, service: WorkerService) -> None:
    worker, job = await world.running()
    await service.results(worker, [outcome(job, "failure", message="ä" * 50_000)])
    (attempt,) = await world.records.history(job.job_id)
    assert attempt.message == "ä" * MAX_MESSAGE


async def test_a_damaged_record_hurts_only_itself(world: StoreWorld, service: WorkerService) -> None:
    good, bad = await world.enqueue_many(2)
    worker = await world.worker()
    jobs = {job.job_id: job for job in await world.claim(worker)}
    redis, key = world.redis, world.shard.keys.job(bad)
    kept = await redis.get(key)
    await redis.set(key, b"x")
    outcomes = [outcome(jobs[bad], "failure"), outcome(jobs[good], "failure")]
    assert await service.results(worker, outcomes) == ([good], [bad])
    await redis.set(key, kept)
