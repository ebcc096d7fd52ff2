"""Quotas over HTTP: what each refuses, and what none of them refuses."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from tests.api.operations.test_stream import dashboard_at
from tests.support import real_time
from tests.support.master import Api
from tests.support.namespaces import Installation, installed
from tests.support.scripted_worker import ScriptedWorker, puller_at
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]
JOB = {"name": "work"}


@pytest.fixture
def other() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


@pytest.fixture
async def installation(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> AsyncIterator[Installation]:
    async with installed(store_server, other, tmp_path) as one:
        await one.put("shop")
        await one.until_served("shop")
        yield one


async def limit(installation: Installation, **quotas: int) -> Api:
    """Give the namespace `shop` these quotas, and return a client of it."""
    document = {"quotas": quotas, "title": ""}
    assert (await installation.api().call("PUT", "/api/namespaces/shop", document))[0] == 200
    return installation.api("shop")


async def test_a_push_beyond_the_rate_is_refused_and_accepted_a_second_later(
    installation: Installation,
) -> None:
    shop = await limit(installation, pushes_per_s=3)
    answers = await asyncio.gather(*(shop.http.post("/api/jobs", json=JOB) for _ in range(30)))
    refused = [one for one in answers if one.status_code != 201]
    # The pushes may fall into two seconds.
    assert 24 <= len(refused) <= 27
    assert {(one.status_code, one.json()["code"], one.headers["retry-after"]) for one in refused} == {
        (429, "namespace_rate", "1")
    }

    async def is_accepted() -> bool:
        return (await shop.call("POST", "/api/jobs/bulk", {"jobs": [JOB] * 3}))[0] == 201

    await wait_until(is_accepted, what="the next second has room")
    status, problem = await shop.call("POST", "/api/jobs/bulk", {"jobs": [JOB] * 4})
    assert (status, problem["code"]) == (422, "push_over_quota")
    assert problem["errors"][0]["loc"] == ["jobs"]
    assert "push several times" in problem["detail"]
    # Others are not concerned.
    many = {"jobs": [JOB] * 10}
    assert (await installation.api().call("POST", "/api/jobs/bulk", many))[0] == 201


async def test_waiting_bytes_are_bounded(installation: Installation) -> None:
    shop = await limit(installation, waiting_bytes=5_000)
    large = {"name": "work", "argument": "x" * 6_000}
    job_id = (await shop.call("POST", "/api/jobs", large))[1]["id"]
    # However often it is pushed, it is one job.
    small = {**JOB, "id": new_id()}

    async def is_full() -> bool:
        return (await shop.call("POST", "/api/jobs", small))[1].get("code") == "namespace_full"

    await wait_until(is_full)
    problem = (await shop.call("POST", "/api/jobs", JOB))[1]
    assert "5000 bytes of jobs of namespace shop wait" in problem["detail"]
    assert (await shop.call("POST", f"/api/jobs/{job_id}/cancel"))[0] == 200

    async def is_accepted() -> bool:
        return (await shop.call("POST", "/api/jobs", JOB))[0] == 201

    await wait_until(is_accepted)


async def test_workers_and_streams_are_bounded(installation: Installation) -> None:
    shop = await limit(installation, workers=1, streams=1)
    async with puller_at(shop, "work"):
        body = ScriptedWorker(shop, ("work",), 1).registration(url=None)
        response = await shop.http.post("/api/workers", json=body)
        assert (response.status_code, response.json()["code"]) == (429, "namespace_full")
        assert response.headers["retry-after"] == "5"
    async with dashboard_at(f"{installation.url}/ns/shop") as one:
        await wait_until(lambda: "jobs" in one.newest, what="the stream runs")
        response = await shop.http.get("/api/stream", headers={"Accept": "*/*"})
        assert (response.status_code, response.json()["code"]) == (429, "namespace_full")
        async with dashboard_at(installation.url) as other:
            await wait_until(lambda: "jobs" in other.newest, what="another namespace has streams of its own")


async def test_no_quota_refuses_results_heartbeats_or_operators(installation: Installation) -> None:
    shop = installation.api("shop")
    jobs = [await shop.enqueue("work") for _ in range(4)]
    async with puller_at(shop, "work") as worker:
        job, *_ = await worker.claim(1)
        await limit(installation, waiting_jobs=1, waiting_bytes=1, pushes_per_s=1, workers=1, streams=1)

        async def is_full() -> bool:
            return (await shop.call("POST", "/api/jobs", JOB))[0] == 429

        await wait_until(is_full)
        assert (await worker.beat())[0] == 200
        await worker.end(job)
        assert await shop.state(job["job_id"]) == "succeeded"
        waiting = next(one for one in jobs if one != job["job_id"])
        calls: list[tuple[str, str, Any]] = [
            ("POST", f"/api/jobs/{waiting}/cancel", None),
            ("POST", f"/api/jobs/{waiting}/retry", None),
            (
                "PUT",
                "/api/constraints/all",
                {"matcher": {"field": "name", "op": "eq", "value": "work"}, "concurrency": 5},
            ),
            ("PUT", "/api/definitions/nightly", {"job": JOB, "schedule": {"daily_at": "02:30"}}),
            ("POST", "/api/definitions/nightly/run", {}),
        ]
        for method, path, body in calls:
            status, answer = await shop.call(method, path, body)
            assert status < 300, (path, answer)


async def test_the_installation_has_defaults(installation: Installation) -> None:
    plain, shop = installation.api(), await limit(installation, pushes_per_s=100)
    change = {"namespace_quotas": ["argument_bytes=100", "pushes_per_s=2"]}
    assert (await plain.call("PATCH", "/api/settings", change))[0] == 200
    large = {"name": "work", "argument": "x" * 101}
    for api in (plain, shop):
        assert (await api.call("POST", "/api/jobs", large))[1]["code"] == "argument_over_quota"
    bulk = {"jobs": [JOB] * 3}
    assert (await plain.call("POST", "/api/jobs/bulk", bulk))[1]["code"] == "push_over_quota"
    assert (await shop.call("POST", "/api/jobs/bulk", bulk))[0] == 201
    for value, text in (
        (["waiting=1"], "expected QUOTA=NUMBER"),
        (["workers=0"], "expected QUOTA=NUMBER"),
        (["workers=1", "workers=2"], "named twice"),
    ):
        status, problem = await plain.call("PATCH", "/api/settings", {"namespace_quotas": value})
        assert (status, problem["errors"][0]["loc"]) == (422, ["namespace_quotas"])
        assert text in problem["errors"][0]["msg"]
    assert (await plain.call("PATCH", "/api/settings", {"namespace_quotas": None}))[0] == 200
    assert (await plain.call("POST", "/api/jobs", large))[0] == 201
