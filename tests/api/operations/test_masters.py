"""The masters of a store over HTTP: which one leads, and an operator who makes another one lead."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster import __version__
from jqmaster.app import Master, running_master
from jqmaster.config import Settings
from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.master import QUICK, Api, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk.transport.http_client import NotSentError

pytestmark = real_time.MASTER

# The lock lives so long that nothing here happens because it expired.
CALM: dict[str, Any] = {"leader_ttl_s": 30.0}


async def listed(api: Api) -> dict[str, dict[str, Any]]:
    status, answer = await api.call("GET", "/api/masters")
    assert status == 200, answer
    return {one["id"]: one for one in answer["masters"]}


async def roles(api: Api) -> dict[str, str]:
    return {master_id: one["role"] for master_id, one in (await listed(api)).items()}


@contextlib.asynccontextmanager
async def follower_of(url: str, master: Master, **settings: Any) -> AsyncIterator[tuple[Master, Api]]:
    """A second master on the same shard; the first one already knows it."""
    given = {**QUICK, "redis_url": url, "shard": master.settings.shard, **settings}
    async with running_master(Settings(**given)) as second:
        api = Api(second.server.url)

        async def is_known() -> bool:
            return second.id in await listed(api)

        await wait_until(is_known, what="the second master is known")
        yield second, api
        await api.http.aclose()


@pytest.mark.req("D1")
async def test_a_master_alone_leads_and_says_who_it_is(store_server: StoreServer) -> None:
    async with master_on(store_server.url, node_id="rack-7", advertised_url="http://jobs.example:80") as (
        master,
        api,
    ):
        await wait_until(lambda: master.shard._membership._record)
        status, answer = await api.call("GET", "/api/masters")
        assert status == 200
        assert master.shard.leader.leadership
        assert answer["epoch"] == master.shard.leader.leadership.number
        (one,) = answer["masters"]
        assert one.pop("started_at") <= one.pop("last_seen_at")
        assert one == {
            "id": master.id, "role": "leader", "state": "fresh", "node_id": "rack-7", "pid": os.getpid(),
            "url": "http://jobs.example:80", "version": __version__,
        }  # fmt: skip


@pytest.mark.req("D1", "D3")
async def test_all_masters_name_the_same_leader_and_sub_leader(store_server: StoreServer) -> None:
    async with (
        master_on(store_server.url, node_id="a", **CALM) as (first, api),
        follower_of(store_server.url, first, node_id="a", **CALM) as (near, near_api),
        follower_of(store_server.url, first, node_id="b", **CALM) as (far, far_api),
    ):
        expected = {first.id: "leader", near.id: "follower", far.id: "sub_leader"}
        for one in (api, near_api, far_api):
            assert await roles(one) == expected
        assert (await listed(api))[far.id]["url"] == far.server.url


@pytest.mark.req("D1")
async def test_a_master_that_ended_is_listed_no_more(store_server: StoreServer) -> None:
    async with master_on(store_server.url, **CALM) as (first, api):
        async with follower_of(store_server.url, first, **CALM) as (second, _):
            assert set(await listed(api)) == {first.id, second.id}
        assert set(await listed(api)) == {first.id}


@pytest.mark.req("D3", "D4", "D16")
async def test_an_operator_has_another_master_lead(store_server: StoreServer) -> None:
    async with (
        master_on(store_server.url, node_id="a", **CALM) as (first, api),
        follower_of(store_server.url, first, node_id="b", **CALM) as (second, second_api),
    ):
        assert first.shard.leader.leadership
        epoch = first.shard.leader.leadership.number
        # Any master accepts the order.
        assert await second_api.call("POST", f"/api/masters/{first.id}/demote") == (
            202, {"id": first.id, "epoch": epoch},
        )  # fmt: skip
        await wait_until(lambda: second.shard.leader.leadership, timeout_s=9)
        assert first.shard.leader.leadership is None
        assert await roles(api) == {first.id: "follower", second.id: "leader"}
        status, page = await api.call("GET", f"/api/audit?target={first.id}")
        assert status == 200
        (entry,) = page["entries"]
        assert (entry["who"], entry["action"]) == ("local", "master.demote")
        assert (entry["before"], entry["after"]) == ({"leader": first.id, "epoch": epoch}, {"leader": None})
        # The demoted master goes on serving, and its enqueues wake the other.
        async with worker_at(second_api) as worker:
            job_id = await api.enqueue("work")
            await worker.next_job()
            assert await api.state(job_id) == "running"


@pytest.mark.req("D3")
async def test_only_a_leader_with_others_beside_it_is_demoted(store_server: StoreServer) -> None:
    async with master_on(store_server.url, **CALM) as (first, api):
        status, problem = await api.call("POST", f"/api/masters/{first.id}/demote")
        assert (status, problem["code"]) == (409, "no_other_master")
        status, problem = await api.call("POST", f"/api/masters/{new_id()}/demote")
        assert (status, problem["code"]) == (404, "not_found")
        async with follower_of(store_server.url, first, **CALM) as (second, _):
            status, problem = await api.call("POST", f"/api/masters/{second.id}/demote")
            assert (status, problem["code"]) == (409, "not_leader")
        assert (await api.call("GET", "/api/audit"))[1]["entries"] == []
        assert first.shard.leader.leadership


@pytest.mark.req("D1")
async def test_a_follower_serves_the_whole_api_and_wakes_the_leader(store_server: StoreServer) -> None:
    """Enqueue, work, result, cancel and constraints all work at a master that does not lead."""
    async with (
        master_on(store_server.url, **CALM) as (first, _),
        follower_of(store_server.url, first, **CALM) as (second, api),
        worker_at(api) as worker,
    ):
        assert second.shard.leader.leadership is None
        job_id = await api.enqueue("work", 3, keep_result=True)
        job = await worker.next_job()
        assert job["job_id"] == job_id
        await worker.end(job, result=9)
        _, result = await api.call("GET", f"/api/jobs/{job_id}/result?wait=10")
        assert result["result"] == 9
        paused = {"matcher": {"field": "name", "op": "eq", "value": "work"}, "paused": True}
        assert (await api.call("PUT", "/api/constraints/stop", paused))[0] == 201
        held = await api.enqueue("work", 4)
        assert (await api.call("POST", f"/api/jobs/{held}/cancel"))[0] == 200
        assert await api.state(held) == "canceled"
        assert (await api.call("DELETE", "/api/constraints/stop"))[0] == 204
        status, ready = await api.call("GET", "/readyz")
        assert (status, ready["leader"]) == (200, False)


@pytest.mark.req("D1", "D12", "M6")
async def test_a_leader_that_reaches_no_worker_takes_nothing_from_those_that_reach_another_master(
    store_server: StoreServer,
) -> None:
    """The leader's pushes and pings reach no worker. The workers' heartbeats come through the follower."""
    async with (
        master_on(store_server.url, max_missed_pings=1, ping_timeout_s=0.2, **CALM) as (first, _),
        follower_of(store_server.url, first, **CALM) as (_, api),
        contextlib.AsyncExitStack() as stack,
    ):
        workers = [await stack.enter_async_context(worker_at(api, max_jobs=2)) for _ in range(4)]
        running = [await api.enqueue("work", max_retry=0) for _ in workers]
        jobs = [(worker, await worker.next_job()) for worker in workers]
        with pytest.MonkeyPatch.context() as patch:

            async def no_way(*_: object, **__: object) -> None:
                raise NotSentError("no way there")

            patch.setattr(first.shared.workers._http, "call", no_way)
            waiting = [await api.enqueue("work", max_retry=0) for _ in range(3)]
            records = first.shard.services.stores.records

            async def was_tried() -> bool:
                return all([(await api.job(job_id))["state"] == "ready" for job_id in waiting]) and any(
                    [(await records.get(job_id)).returned_offers > 1 for job_id in waiting]  # type: ignore[union-attr]
                )

            await wait_until(was_tried, what="offers come back")
            beats = [len(worker.beats) for worker in workers]
            # Wait for three leases, measured in heartbeats at ten a second.
            await wait_until(
                lambda: all(len(w.beats) > n + 40 for w, n in zip(workers, beats, strict=True)), timeout_s=20
            )
            _, answer = await api.call("GET", "/api/workers")
            assert {one["state"] for one in answer["workers"]} == {"fresh"}
            for job_id in running:
                job = await api.job(job_id)
                assert (job["state"], job["attempt"], job["losses"]) == ("running", 1, 0)
        for worker, job in jobs:
            await worker.end(job)
        taken: set[str] = set()
        while len(taken) < len(waiting):
            for worker in workers:
                while not worker.offers.empty():
                    taken.add((await worker.next_job())["job_id"])
            await asyncio.sleep(0.01)
        assert taken == set(waiting)
        for job_id in waiting:
            job = await api.job(job_id)
            assert (job["attempt"], job["failures"], job["losses"]) == (1, 0, 0)
