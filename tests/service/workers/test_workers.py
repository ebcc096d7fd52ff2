"""How registrations of workers begin and end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.ids import new_id
from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.errors import AddressRefusedError, NotFoundError, StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.service.workers.registrations import Registrations
from jqmaster.service.workers.workers import WorkerService
from tests.support.egress import loopback_guard
from tests.support.fake_worker import FakeWorker
from tests.support.store import StoreWorld


@pytest.fixture
async def service(world: StoreWorld) -> AsyncIterator[WorkerService]:
    client = WorkerClient(loopback_guard(), timeout_s=LiveValue(1))
    await client.start()
    registrations = Registrations(client, SystemClock(), failures_per_minute=LiveValue(60))
    yield WorkerService(world.workers, registrations, world.records, world.progress)
    await client.stop()


@pytest.fixture
async def endpoint() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().serving() as one:
        yield one


def spec_of(endpoint: FakeWorker, *names: str) -> WorkerSpec:
    return WorkerSpec(endpoint.url, names or ("work",), 5, "node", 1, {"zone": "a"}, "1", endpoint.secret)


@pytest.mark.req("D10", "D18")
async def test_a_worker_that_proves_the_address_is_registered(
    world: StoreWorld, service: WorkerService, endpoint: FakeWorker
) -> None:
    registration = await service.register(spec_of(endpoint))
    assert registration.store_time_ms == world.now_ms
    assert str(registration.epoch) == world.epoch.split(":")[0]
    assert (await service.get(registration.worker_id)).spec == spec_of(endpoint)
    assert len(endpoint.challenges) == 1


@pytest.mark.req("D18")
@pytest.mark.parametrize("proof", ["0" * 64, "", "é", "f" * 5000])
async def test_a_worker_that_does_not_know_the_secret_is_not_registered(
    world: StoreWorld, service: WorkerService, endpoint: FakeWorker, proof: str
) -> None:
    endpoint.proof = lambda nonce: proof
    async with world.unchanged():
        with pytest.raises(AddressRefusedError) as refused:
            await service.register(spec_of(endpoint))
    assert refused.value.code == "address_unverified"


@pytest.mark.req("D18")
async def test_every_registration_is_challenged_anew(service: WorkerService, endpoint: FakeWorker) -> None:
    """A proof that was used once is worthless."""
    await service.register(spec_of(endpoint))
    old = endpoint.right_proof(endpoint.challenges[0][0])
    endpoint.proof = lambda nonce: old
    with pytest.raises(AddressRefusedError):
        await service.register(spec_of(endpoint))


@pytest.mark.req("D10", "M14")
async def test_a_registration_that_was_held_up_does_not_replace_a_later_one(
    world: StoreWorld, service: WorkerService, endpoint: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker gave up waiting for a master that stood still, and registered by another one. The first master goes on
    before or after it has asked for the proof."""
    held_up, goes_on = asyncio.Event(), asyncio.Event()
    check = Registrations.check

    async def slow(self: Registrations, url: str, secret: str, caller: str) -> None:
        await check(self, url, secret, caller)
        if not held_up.is_set():
            held_up.set()
            await goes_on.wait()

    monkeypatch.setattr(Registrations, "check", slow)
    given_up = spec_of(endpoint)
    first = asyncio.create_task(service.register(given_up))
    await held_up.wait()
    endpoint.secret = "another-" * 5
    later = await service.register(spec_of(endpoint))
    goes_on.set()
    with pytest.raises(StoreUnavailableError):
        await first
    with pytest.raises(AddressRefusedError):
        await service.register(given_up)
    assert [(one.id, one.is_detached) for one in await service.all()] == [(later.worker_id, False)]


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


@pytest.mark.req("D10")
async def test_an_unknown_worker_is_told_to_register(service: WorkerService) -> None:
    for worker_id in (new_id(), "no id", ""):
        for act in (service.heartbeat(worker_id, [], 1), service.leave(worker_id), service.get(worker_id)):
            with pytest.raises(NotFoundError) as unknown:
                await act
            assert unknown.value.code == "unknown_worker"


async def test_a_worker_that_leaves_is_known_no_more(world: StoreWorld, service: WorkerService) -> None:
    worker = await world.worker()
    await service.leave(worker)
    with pytest.raises(NotFoundError):
        await service.heartbeat(worker, [], 1)
    assert await service.all() == []
