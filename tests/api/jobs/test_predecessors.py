"""Jobs that wait for others, over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.master import Api
from tests.support.scripted_worker import ScriptedWorker, puller_at

pytestmark = [pytest.mark.req("P9"), real_time.MASTER]


@pytest.fixture
async def puller(api: Api) -> AsyncIterator[ScriptedWorker]:
    async with puller_at(api) as one:
        yield one


async def bulk(api: Api, jobs: list[dict[str, Any]]) -> tuple[int, Any]:
    return await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})


async def test_a_worker_gets_the_results_of_the_predecessors(api: Api, puller: ScriptedWorker) -> None:
    first, last = new_id(), new_id()
    jobs: list[dict[str, Any]] = [
        {"name": "work", "id": last, "after": {"jobs": [first]}},
        {"name": "work", "id": first},
    ]
    assert await bulk(api, jobs) == (201, {"ids": [last, first]})
    view = (await api.call("GET", f"/api/jobs/{last}"))[1]
    assert view["state"] == "awaiting_jobs"
    assert view["after"] == {
        "when": "succeeded",
        "jobs": [{"id": first, "state": "ready", "pending": True}],
    }
    told = (await api.call("GET", f"/api/jobs/{last}/why"))[1]
    assert "verdicts" in told, told
    verdict = told["verdicts"][0]
    assert (verdict["code"], verdict["jobs"], verdict["count"]) == (
        "awaiting_jobs",
        [{"id": first, "state": "ready"}],
        1,
    )
    (job,) = await puller.claim()
    assert job["job_id"] == first
    assert "inputs" not in job
    await puller.end(job, result={"rows": 3})
    (job,) = await puller.claim()
    (given,) = job["inputs"]
    assert (given["job_id"], given["state"], given["omitted"]) == (first, "succeeded", None)
    assert given["result"]["result"] == {"rows": 3}
    view = (await api.call("GET", f"/api/jobs/{first}"))[1]
    assert view["dependents"] == [{"id": last, "state": "running"}]
    await puller.end(job)


async def test_the_first_cause_of_a_skipped_job_is_named(api: Api, puller: ScriptedWorker) -> None:
    ids = [new_id() for _ in range(3)]
    jobs: list[dict[str, Any]] = [{"name": "other", "id": ids[0]}]
    jobs += [{"name": "work", "id": ids[n], "after": {"jobs": [ids[n - 1]]}} for n in (1, 2)]
    assert (await bulk(api, jobs))[0] == 201
    assert (await api.call("POST", f"/api/jobs/{ids[0]}/cancel"))[0] == 200
    await api.until_state(ids[2], "skipped")
    view = (await api.call("GET", f"/api/jobs/{ids[2]}"))[1]
    assert (view["cause"], view["skipped_by"]) == ("dependency", {"id": ids[0], "state": "canceled"})


async def test_errors_name_the_field(api: Api) -> None:
    own, unknown = new_id(), new_id()
    status, problem = await api.call("POST", "/api/jobs", {"name": "work", "after": {"jobs": [unknown]}})
    assert (status, problem["code"]) == (422, "unknown_predecessor")
    assert problem["errors"] == [{"loc": ["after", "jobs"], "msg": f"no job has the ID {unknown}"}]
    requests: list[dict[str, Any]] = [
        {"id": own, "after": {"jobs": [own]}},
        {"after": {"jobs": [unknown, unknown]}},
        {"after": {"jobs": []}},
        {"after": {"jobs": ["no ID"]}},
        {"after": {"jobs": [unknown], "when": "sometime"}},
        {"after": {"jobs": [new_id() for _ in range(1_001)]}},
        {"after": {"jobs": [unknown]}, "unique": {}},
    ]
    for request in requests:
        status, problem = await api.call("POST", "/api/jobs", {"name": "work", **request})
        assert status == 422, request
        assert problem["errors"], request


@pytest.mark.parametrize(("when", "state"), [("succeeded", "skipped"), ("finished", "ready")])
async def test_the_condition_tells_whether_a_job_runs_after_a_cancellation(
    api: Api, when: str, state: str
) -> None:
    first = (await api.call("POST", "/api/jobs", {"name": "work"}))[1]["id"]
    second = (
        await api.call("POST", "/api/jobs", {"name": "work", "after": {"jobs": [first], "when": when}})
    )[1]["id"]
    assert (await api.job(second))["after"]["when"] == when
    await api.call("POST", f"/api/jobs/{first}/cancel")
    await api.until_state(second, state)


async def test_jobs_that_wait_for_each_other_are_refused(api: Api) -> None:
    one, two, free = new_id(), new_id(), new_id()
    jobs: list[dict[str, Any]] = [
        {"name": "work", "id": free},
        {"name": "work", "id": one, "after": {"jobs": [two]}},
        {"name": "work", "id": two, "after": {"jobs": [one, free]}},
    ]
    status, problem = await bulk(api, jobs)
    assert status == 422
    assert [error["loc"] for error in problem["errors"]] == [["jobs", 1, "after"], ["jobs", 2, "after"]]
    assert (await api.call("GET", f"/api/jobs/{free}"))[0] == 404


async def test_a_push_names_10000_predecessors_at_most(api: Api) -> None:
    ids = [new_id() for _ in range(1_000)]
    first: list[dict[str, Any]] = [{"name": "other", "id": job_id} for job_id in ids]
    status, problem = await bulk(
        api, [*first, *({"name": "work", "after": {"jobs": ids}} for _ in range(11))]
    )
    assert status == 422
    assert problem["errors"][0]["loc"] == ["jobs", 1010, "after"]
