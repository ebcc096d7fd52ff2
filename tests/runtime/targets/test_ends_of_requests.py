"""Requests under way when their target, their share or their master goes: each may end, and none is sent again
silently."""

import asyncio
from typing import Any

import pytest

from jqmaster.domain.workers.worker import WorkerSpec
from jqmaster.errors import DamagedError, StoreUnavailableError
from jqmaster.service.challenges.challenges import ChallengeService
from jqmaster.service.workers.workers import WorkerService
from tests.support import real_time
from tests.support.endpoint import Endpoint, Hang, Request, endpoint, reply
from tests.support.master import PATIENT, Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("M13"), real_time.MASTER]

SETTINGS: dict[str, Any] = {"allowed_webhook_networks": "127.0.0.0/8"}


class Gate:
    """An endpoint's answers wait until the test opens it."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def answer(self, _: Request) -> bytes:
        await self.opened.wait()
        return reply(200, {"done": True})


async def put(api: Api, shop: Endpoint, **fields: Any) -> None:
    status, shown = await api.call(
        "PUT", "/api/targets/shop", {"names": ["order"], "url": shop.url, **fields}
    )
    assert status in (200, 201), shown


async def push(api: Api, **fields: Any) -> str:
    return await api.enqueue("order", None, **{"keep_result": True, "max_retry": 0, **fields})


async def test_a_request_ends_as_usual_after_its_target_was_deleted(store_server: StoreServer) -> None:
    gate = Gate()
    async with master_on(store_server.url, **SETTINGS) as (master, api), endpoint(gate.answer) as shop:
        await put(api, shop)
        job_id = await push(api)
        await shop.until(1)
        assert (await api.call("DELETE", "/api/targets/shop"))[0] == 204
        deliveries = master.shard.services.target_deliveries
        await wait_until(lambda: deliveries.leaving == {"shop": 1}, what="the worker leaves")
        late = await push(api)
        job = await api.job(job_id)
        assert (job["state"], job["attempt"]) == ("running", 1)
        gate.opened.set()
        job = await api.until_state(job_id, "succeeded")
        assert (job["attempt"], job["losses"], len(shop.requests)) == (1, 0, 1)
        assert await api.state(late) == "ready"

        async def has_left() -> bool:
            return not (await api.call("GET", "/api/workers"))[1]["workers"]

        await wait_until(has_left, what="no worker is left")


async def test_a_target_that_is_made_anew_waits_for_the_requests_of_the_former_one(
    store_server: StoreServer,
) -> None:
    gate = Gate()
    async with master_on(store_server.url, **SETTINGS) as (master, api), endpoint(gate.answer) as shop:
        await put(api, shop, max_running=1)
        first = await push(api)
        await shop.until(1)
        await api.call("DELETE", "/api/targets/shop")
        deliveries = master.shard.services.target_deliveries
        await wait_until(lambda: deliveries.leaving == {"shop": 1}, what="the worker leaves")
        await put(api, shop, max_running=1)
        second = await push(api)
        await wait_until(lambda: "shop" in deliveries.targets, what="the target is there again")
        assert (shop.most_open, await api.state(second)) == (1, "ready")
        gate.opened.set()
        for job_id in (first, second):
            await api.until_state(job_id, "succeeded")
        assert shop.most_open == 1


async def test_a_master_that_stops_waits_for_its_requests(store_server: StoreServer) -> None:
    gate = Gate()
    settings = SETTINGS | {"target_grace_s": 30.0}
    async with endpoint(gate.answer) as shop, master_on(store_server.url, **settings) as (master, api):
        await put(api, shop)
        job_id = await push(api)
        await shop.until(1)
        deliveries = master.shard.services.target_deliveries
        stopping = asyncio.create_task(deliveries.stop())
        await wait_until(lambda: deliveries.leaving == {"shop": 1}, what="the worker leaves")
        assert not stopping.done()
        gate.opened.set()
        await stopping
        job = await api.until_state(job_id, "succeeded")
    assert (job["attempt"], len(shop.requests)) == (1, 1)


async def test_a_request_that_a_stop_cuts_off_counts_as_lost(store_server: StoreServer) -> None:
    """The endpoint may have done the job, so a job that must not run twice is not sent again."""

    def hang(_: Request) -> bytes:
        raise Hang

    async with master_on(store_server.url, **SETTINGS) as (master, api), endpoint(hang) as shop:
        await put(api, shop)
        once, again = await push(api), await push(api, max_retry=3)
        await shop.until(2)
        await master.shard.services.target_deliveries.stop()
        job = await api.until_state(once, "failed")
        assert (job["cause"], job["attempt"], job["losses"]) == ("lost", 1, 1)
        job = await api.until_state(again, "ready")
        assert (job["attempt"], job["losses"]) == (1, 1)
        assert [attempt["outcome"] for attempt in job["attempts"]] == ["lost"]
    assert len(shop.requests) == 2


async def test_a_result_is_kept_for_as_long_as_its_lease_lives(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    monkeypatch.setattr("jqmaster.runtime.targets.target_worker.RETRY_S", 0.001)
    async with (
        master_on(store_server.url, **SETTINGS, **PATIENT) as (master, api),
        endpoint(gate.answer) as shop,
    ):
        await put(api, shop)
        job_id = await push(api)
        await shop.until(1)
        reports = master.shard.services.reports
        real, tries = reports.results, 0

        async def refuse_often(worker_id: str, outcomes: Any) -> Any:
            nonlocal tries
            tries += 1
            if tries <= 50:
                raise StoreUnavailableError("the store has no memory left")
            return await real(worker_id, outcomes)

        monkeypatch.setattr(type(reports), "results", lambda _, *args: refuse_often(*args))
        gate.opened.set()
        job = await api.until_state(job_id, "succeeded")
    assert (job["attempt"], tries) == (1, 51)


async def test_a_callback_that_cannot_be_awaited_yet_is_awaited_later(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = ChallengeService.open, 0

    async def refuse_twice(*args: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise StoreUnavailableError("the store has no memory left")
        return await real(*args)

    monkeypatch.setattr("jqmaster.runtime.targets.target_worker.RETRY_S", 0.001)
    monkeypatch.setattr(ChallengeService, "open", refuse_twice)
    async with (
        master_on(store_server.url, **SETTINGS, **PATIENT) as (_, api),
        endpoint(lambda _: reply(202, JQ_Await="60")) as shop,
    ):
        await put(api, shop)
        await api.until_state(await push(api), "awaiting_callback")
    assert (tries, len(shop.requests)) == (3, 1)


async def test_a_callback_that_can_never_be_awaited_counts_as_lost(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def refuse(*_: Any) -> None:
        nonlocal tries
        tries += 1
        raise DamagedError("the challenges of the job cannot be read")

    monkeypatch.setattr("jqmaster.runtime.targets.target_worker.RETRY_S", 0.001)
    monkeypatch.setattr(ChallengeService, "open", refuse)
    async with (
        master_on(store_server.url, **SETTINGS) as (_, api),
        endpoint(lambda _: reply(202, JQ_Await="60")) as shop,
    ):
        await put(api, shop)
        job = await api.until_state(await push(api), "failed")
    assert (job["cause"], job["losses"], tries) == ("lost", 1, 1)


async def test_a_worker_that_registers_anew_without_a_share_has_a_slot(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker may register without one."""
    gate = Gate()
    register = WorkerService.register
    registered: list[int] = []

    async def watched(self: WorkerService, spec: WorkerSpec, owner: str) -> Any:
        registered.append(spec.max_jobs)
        return await register(self, spec, owner)

    monkeypatch.setattr(WorkerService, "register", watched)
    async with master_on(store_server.url, **SETTINGS) as (master, api), endpoint(gate.answer) as shop:
        await put(api, shop)
        await push(api)
        await shop.until(1)
        await api.call("DELETE", "/api/targets/shop")
        services = master.shard.services
        await wait_until(lambda: services.target_deliveries.leaving == {"shop": 1}, what="the worker leaves")

        async def slots() -> dict[str, int]:
            workers = (await api.call("GET", "/api/workers"))[1]["workers"]
            return {one["id"]: one["max_jobs"] for one in workers if one["names"] == ["order"]}

        async def has_slots(count: int) -> bool:
            return list((await slots()).values()) == [count]

        # The request that is under way takes one of them.
        await put(api, shop, max_running=3)
        await wait_until(lambda: has_slots(2), what="the next worker registers")
        await put(api, shop, max_running=1)
        await wait_until(lambda: has_slots(1), what="it has no share left")
        (former,) = await slots()
        await services.workers.leave(former)
        await wait_until(lambda: len(registered) == 3, what="it registers anew")
        assert registered[1:] == [2, 1]
        gate.opened.set()


async def test_a_canceled_job_leaves_no_slot_taken(store_server: StoreServer) -> None:
    def hang(_: Request) -> bytes:
        raise Hang

    async with master_on(store_server.url, **SETTINGS) as (_, api), endpoint(hang) as shop:
        await put(api, shop)
        job_id = await push(api)
        await shop.until(1)
        await api.call("POST", f"/api/jobs/{job_id}/cancel")
        await api.until_state(job_id, "canceled")

        async def is_free() -> bool:
            return (await api.call("GET", "/api/targets/shop"))[1]["running"] == 0

        await wait_until(is_free, what="no slot is taken")
