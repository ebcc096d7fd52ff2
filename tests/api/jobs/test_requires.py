"""Jobs that require labels of their worker, by push and by pull."""

from typing import Any

import pytest

from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.scripted_worker import ScriptedWorker, puller_at, worker_at
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER


async def labeled(api: Api, worker: ScriptedWorker, **labels: str) -> None:
    """Register the worker again with these labels."""
    status, answer = await worker.register(labels=labels, **({} if worker.url else {"url": None}))
    assert status == 201
    worker.id = answer["worker_id"]


@pytest.mark.req("D24")
async def test_a_pushed_job_reaches_a_worker_with_its_labels_and_no_other(api: Api) -> None:
    async with worker_at(api) as plain, worker_at(api) as able:
        await labeled(api, able, gpu="1", zone="b")
        needs = [await api.enqueue("work", requires={"gpu": "1"}) for _ in range(5)]
        plains = [await api.enqueue("work") for _ in range(5)]
        taken = {(await able.next_job())["job_id"] for _ in range(5)}
        assert set(needs) <= taken | {
            job["job_id"] for job in [await able.next_job() for _ in range(able.offers.qsize())]
        }
        await wait_until(lambda: len(plain.running) + len(able.running) == 10)
        assert set(plain.running) <= set(plains)
        view = (await api.call("GET", f"/api/jobs/{needs[0]}"))[1]
        assert view["requires"] == {"gpu": "1"}
        assert (await api.call("GET", f"/api/jobs/{plains[0]}"))[1]["requires"] is None


@pytest.mark.req("D24", "M8")
async def test_a_worker_that_pulls_gets_those_whose_labels_it_has(api: Api) -> None:
    async with puller_at(api) as plain, puller_at(api) as able:
        await labeled(api, able, gpu="1")
        needs = await api.enqueue("work", requires={"gpu": "1"})
        assert await plain.claim(wait=0.3) == []
        assert [job["job_id"] for job in await able.claim(wait=5)] == [needs]


@pytest.mark.req("D24")
async def test_why_tells_which_workers_nearly_match(api: Api) -> None:
    async with worker_at(api) as worker:
        await labeled(api, worker, zone="b", gpu="2")
        job_id = await api.enqueue("work", requires={"gpu": "1", "zone": "b", "disk": "ssd"})
        _, why = await api.call("GET", f"/api/jobs/{job_id}/why")
        (verdict,) = [one for one in why["verdicts"] if one["code"] == "no_matching_worker"]
        assert (verdict["name"], verdict["workers"]) == ("work", 1)
        (near,) = verdict["nearest"]
        assert near["worker_id"] == worker.id
        assert near["missing"] == {
            "gpu": {"wanted": "1", "has": "2"},
            "disk": {"wanted": "ssd", "has": None},
        }
        assert "gpu=2 instead of 1" in verdict["text"]
        await labeled(api, worker, zone="b", gpu="1", disk="ssd")
        assert (await worker.next_job())["job_id"] == job_id


@pytest.mark.req("D24")
async def test_bulk_definitions_and_callbacks_of_batches_can_require_labels(api: Api) -> None:
    gpu = {"gpu": "1"}
    status, made = await api.call(
        "POST", "/api/jobs/bulk", {"jobs": [{"name": "work", "requires": gpu}, {"name": "work"}]}
    )
    assert status == 201
    views = [(await api.call("GET", f"/api/jobs/{job_id}"))[1]["requires"] for job_id in made["ids"]]
    assert views == [gpu, None]
    job: dict[str, Any] = {"name": "nightly", "requires": gpu}
    status, definition = await api.call(
        "PUT", "/api/definitions/night",
        {"kind": "time", "schedule": {"daily_at": "02:30"}, "job": job},
    )  # fmt: skip
    assert (status, definition["job"]["requires"]) == (201, gpu)
    status, run = await api.call("POST", "/api/definitions/night/run")
    assert (await api.call("GET", f"/api/jobs/{run['id']}"))[1]["requires"] == gpu
    status, batch = await api.call("POST", "/api/batches", {"on_complete": {"name": "told", "requires": gpu}})
    await api.call("POST", f"/api/batches/{batch['id']}/seal")

    async def told() -> list[Any]:
        jobs: list[Any] = (await api.call("GET", "/api/jobs?name=told"))[1]["jobs"]
        return jobs

    (callback,) = await wait_until(told)
    assert (await api.call("GET", f"/api/jobs/{callback['id']}"))[1]["requires"] == gpu


@for_each(
    ("requires", "loc"),
    [
        ({}, ["requires"]),
        ({"": "1"}, ["requires", ""]),
        ({"gpu": 1}, ["requires", "gpu"]),
        ({"gpu": "x" * 201}, ["requires", "gpu"]),
        ({f"l{n}": "1" for n in range(9)}, ["requires"]),
        (["gpu"], ["requires"]),
    ],
)
async def test_requirements_that_make_no_sense_are_refused(api: Api, requires: Any, loc: list[str]) -> None:
    status, problem = await api.call("POST", "/api/jobs", {"name": "work", "requires": requires})
    assert status == 422
    assert problem["errors"][0]["loc"][: len(loc)] == loc


@pytest.mark.req("D24")
async def test_many_that_nobody_may_run_hold_up_nobody(api: Api) -> None:
    for _ in range(20):
        await api.enqueue("work", requires={"gpu": "1"}, priority=-5)
    async with worker_at(api, max_jobs=1) as worker:
        first = await api.enqueue("work")
        assert (await worker.next_job())["job_id"] == first
