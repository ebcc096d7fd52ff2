"""The durability behind a 201 is set for the installation or for a push; the answer never promises more than was
kept."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.each import for_each
from tests.support.master import MSGPACK, Api, master_on
from tests.support.replicas import paused, replicated
from tests.support.scripted_worker import ending, worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Context, Pusher, RefusedError, SyncPusher, UnavailableError, Worker

pytestmark = real_time.MASTER

Pair = tuple[StoreServer, StoreServer]


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with replicated(1) as (primary, (replica,)):
        yield primary, replica


async def push(
    api: Api, job: dict[str, Any], level: str | None = None, **headers: str
) -> tuple[int, Any, str | None]:
    asked = {} if level is None else {"JQ-Durability": level}
    response = await api.http.post(
        "/api/jobs", content=msgpack.packb(job), headers={**MSGPACK, **asked, **headers}
    )
    return response.status_code, msgpack.unpackb(response.content), response.headers.get("JQ-Durability")


def job() -> dict[str, Any]:
    return {"name": "work", "id": new_id()}


async def is_ready(api: Api) -> bool:
    return (await api.http.get("/readyz")).status_code == 200


@pytest.mark.req("M1", "D20")
@pytest.mark.timeout(90)
async def test_under_a_quorum_a_push_that_no_replica_has_is_unknown_until_one_has(pair: Pair) -> None:
    primary, replica = pair
    async with master_on(primary.url, durability="fsync+quorum", store_timeout_s=1) as (_, api):
        status, answer = await api.call("GET", "/readyz")
        assert (status, answer["durability"], answer["durability_available"]) == (
            200,
            "fsync+quorum",
            "fsync+quorum",
        )
        assert (await push(api, job()))[::2] == (201, "fsync+quorum")
        one = job()
        with paused(replica):
            # The repeat is also refused: WAIT must not count a write that was already there.
            for _ in range(2):
                status, problem, _ = await push(api, one)
                assert (status, problem["code"]) == (503, "outcome_unknown")
            status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": [job(), job()]})
            assert (status, problem["code"]) == (503, "outcome_unknown")
            status, problem, _ = await push(api, {"name": "work"}, **{"Idempotency-Key": "k"})
            assert (status, problem["code"]) == (503, "outcome_unknown")
            # A push that asks for less gets less.
            assert (await push(api, job(), "fsync"))[::2] == (201, "fsync")
            assert (await push(api, job(), "besteffort"))[::2] == (201, "besteffort")
        assert await push(api, one) == (200, {"id": one["id"]}, "fsync+quorum")
        assert (await push(api, {"name": "work"}, **{"Idempotency-Key": "k"}))[0] == 201
        assert (await push(api, job()))[0] == 201
        await wait_until(lambda: is_ready(api), timeout_s=20)


@pytest.mark.req("M1", "D20")
@pytest.mark.timeout(90)
async def test_a_result_that_no_replica_has_is_unknown_and_accepted_again(pair: Pair) -> None:
    primary, replica = pair
    async with (
        # The lease is so long that none ends while there is no leader.
        master_on(primary.url, durability="fsync+quorum", store_timeout_s=1, lease_ms=20_000) as (_, api),
        worker_at(api, "work", "fails") as worker,
    ):
        ids = [
            await api.enqueue("work", keep_result=True),
            await api.enqueue("fails", max_retry=0, keep_result=True),
        ]
        done, failed = sorted(
            [await worker.next_job(), await worker.next_job()], key=lambda j: ids.index(j["job_id"])
        )
        results = [ending(done, result=1), ending(failed, "failure")]
        path = f"/api/workers/{worker.id}/results"
        with paused(replica):
            for _ in range(2):
                status, problem = await api.call("POST", path, {"results": results})
                assert (status, problem["code"]) == (503, "outcome_unknown")
        status, answer = await api.call("POST", path, {"results": results})
        assert (status, sorted(answer["accepted"]), answer["stale"]) == (200, sorted(ids), [])
        assert [await api.state(job_id) for job_id in ids] == ["succeeded", "failed"]


@pytest.mark.req("M1", "D20")
@pytest.mark.timeout(90)
async def test_a_claim_that_no_replica_has_reaches_no_worker(pair: Pair) -> None:
    """A new primary would not know the claim and would give the job to a second worker."""
    primary, replica = pair
    settings = {"store_timeout_s": 1, "lease_ms": 8_000, "offer_ms": 2_000}
    async with master_on(primary.url, durability="fsync+quorum", **settings) as (master, api):
        worker = Worker(master.server.url, grace_s=0.2)
        begun: list[str] = []

        @worker.handler("work")
        async def work(argument: Any, ctx: Context) -> None:
            begun.append(ctx.job_id)

        async with worker.running():
            await wait_until(lambda: worker.worker_id)
            one = job()
            with paused(replica):
                # The push asks for no replica: it is accepted, and the job is ready at once.
                assert (await push(api, one, "fsync"))[0] == 201
                # The leader's renewals are not confirmed either. It tries to claim until it stops leading.
                await wait_until(lambda: master.shard.leader.leadership is None, timeout_s=20)
                assert begun == []
            found = await api.until_state(one["id"], "succeeded", timeout_s=30)
            assert (found["attempt"], found["failures"], found["losses"]) == (1, 0, 0)
            assert begun == [one["id"]]


@pytest.mark.req("M1")
@pytest.mark.timeout(90)
async def test_a_push_may_ask_for_more_than_is_configured(pair: Pair) -> None:
    primary, replica = pair
    async with master_on(primary.url, store_timeout_s=1) as (_, api):
        _, answer = await api.call("GET", "/readyz")
        assert (answer["durability"], answer["durability_available"]) == ("fsync", "fsync+quorum")
        assert (await push(api, job(), "fsync+quorum"))[::2] == (201, "fsync+quorum")
        with paused(replica):
            status, problem, _ = await push(api, job(), "fsync+quorum")
            assert (status, problem["code"]) == (503, "outcome_unknown")
            assert (await push(api, job()))[::2] == (201, "fsync")
            assert await is_ready(api)


@pytest.mark.req("M1")
async def test_more_than_the_store_gives_is_refused_and_nothing_happened(api: Api) -> None:
    one = job()
    status, problem, _ = await push(api, one, "fsync+quorum")
    assert (status, problem["code"]) == (503, "durability_unavailable")
    response = await api.http.post(
        "/api/jobs/bulk",
        content=msgpack.packb({"jobs": [one]}),
        headers={**MSGPACK, "JQ-Durability": "fsync+quorum"},
    )
    assert (response.status_code, msgpack.unpackb(response.content)["code"]) == (
        503,
        "durability_unavailable",
    )
    assert (await api.call("GET", f"/api/jobs/{one['id']}"))[0] == 404


@pytest.mark.req("M1")
async def test_a_pusher_asks_for_it_with_each_job(pair: Pair) -> None:
    primary, replica = pair
    async with master_on(primary.url, store_timeout_s=1) as (_, api):
        url = str(api.http.base_url)
        async with Pusher(url, durability="fsync+quorum", max_wait_s=0) as careful, Pusher(url) as plain:
            await careful.enqueue("work")
            with paused(replica):
                await plain.enqueue("work")
                with pytest.raises(UnavailableError) as unsure:
                    await careful.enqueue("work")
                assert unsure.value.unknown_ids
        with SyncPusher(url, durability="FSYNC") as wrong, pytest.raises(RefusedError):
            await asyncio.to_thread(wrong.enqueue, "work")


@pytest.mark.req("M1")
@for_each("level", ["", "always", "FSYNC", "fsync quorum", "fsync,fsync"])
async def test_a_level_that_does_not_exist_is_refused(api: Api, level: str) -> None:
    status, problem, _ = await push(api, job(), level)
    assert (status, problem["code"]) == (422, "invalid")
    assert problem["errors"][0]["loc"] == ["header", "JQ-Durability"]


@pytest.mark.req("M1")
async def test_pushes_that_come_together_wait_for_the_replicas_once(pair: Pair) -> None:
    primary, _ = pair
    async with master_on(primary.url) as (master, api):
        redis = admin_of(master.shard.services.link.client)
        await redis.config_resetstat()
        answers = await asyncio.gather(*(push(api, job(), "fsync+quorum") for _ in range(60)))
        assert {(status, level) for status, _, level in answers} == {(201, "fsync+quorum")}
        waits = (await redis.info("commandstats"))["cmdstat_wait"]["calls"]
        assert 1 <= waits <= 30


@pytest.mark.req("M1")
@pytest.mark.timeout(60)
async def test_a_master_whose_store_loses_the_level_is_not_ready_and_says_why() -> None:
    server = StoreServer()
    server.start()
    try:
        async with master_on(server.url) as (master, api):
            redis = admin_of(master.shard.services.link.client)
            await redis.config_set("appendfsync", "everysec")
            await wait_until(lambda: not_ready(api), timeout_s=10)
            _, answer = await api.call("GET", "/readyz")
            assert (answer["durability"], answer["durability_available"]) == ("besteffort", "besteffort")
            assert "CONFIG SET appendfsync always" in answer["faults"][0]
            assert (await push(api, job()))[1]["code"] == "durability_unavailable"
            assert (await push(api, job(), "besteffort"))[0] == 201
            await redis.config_set("appendfsync", "always")
            await wait_until(lambda: is_ready(api), timeout_s=10)
            assert (await push(api, job()))[0] == 201
    finally:
        server.stop()


async def not_ready(api: Api) -> bool:
    return not await is_ready(api)
