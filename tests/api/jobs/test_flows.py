"""The flow around a job or of a batch, in one bounded answer."""

from typing import Any
from urllib.parse import urlencode

import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("P9"), real_time.MASTER]

NOTHING = {"jobs": [], "is_complete": True, "failures": [], "critical_path": []}


async def pushed(api: Api, jobs: list[dict[str, Any]], **fields: Any) -> None:
    body = {"jobs": [{"name": "work", "delay": 3600, **job} for job in jobs], **fields}
    status, answer = await api.call("POST", "/api/jobs/bulk", body)
    assert status == 201, answer


async def flow_of(api: Api, path: str, **query: Any) -> dict[str, Any]:
    status, view = await api.call("GET", f"/api/{path}/flow?{urlencode(query)}")
    assert status == 200, view
    return dict(view)


async def diamond(api: Api, **fields: Any) -> list[str]:
    """Push a job, two that wait for it, and one that waits for these two."""
    ids = [new_id() for _ in range(4)]
    jobs: list[dict[str, Any]] = [
        {"id": ids[0], "name": "load"},
        *({"id": one, "after": {"jobs": [ids[0]]}} for one in ids[1:3]),
        {"id": ids[3], "name": "publish", "after": {"jobs": ids[1:3], "when": "finished"}},
    ]
    await pushed(api, jobs, **fields)
    return ids


async def test_all_jobs_of_a_flow_are_found_from_each_of_them(api: Api) -> None:
    ids = await diamond(api)
    for one in ids:
        view = await flow_of(api, f"jobs/{one}")
        assert view["is_complete"]
        assert view["jobs"][0]["id"] == one
        by_id = {job["id"]: job for job in view["jobs"]}
        assert {job_id: by_id[job_id]["after"] for job_id in ids} == {
            ids[0]: [],
            ids[1]: [ids[0]],
            ids[2]: [ids[0]],
            ids[3]: ids[1:3],
        }
    assert [by_id[job_id]["name"] for job_id in ids] == ["load", "work", "work", "publish"]
    assert [by_id[job_id]["state"] for job_id in ids] == ["scheduled", *["awaiting_jobs"] * 3]
    assert [by_id[job_id]["when"] for job_id in ids] == [None, "succeeded", "succeeded", "finished"]
    assert {(job["more_before"], job["more_behind"], job["batch"]) for job in view["jobs"]} == {(0, 0, None)}


async def test_a_job_without_order_is_a_flow_of_its_own(api: Api) -> None:
    job_id = await api.enqueue("work", delay=3600)
    view = await flow_of(api, f"jobs/{job_id}")
    assert ([one["id"] for one in view["jobs"]], view["is_complete"]) == ([job_id], True)


async def test_a_limit_leaves_out_what_is_far_and_says_so(api: Api) -> None:
    ids = await diamond(api)
    view = await flow_of(api, f"jobs/{ids[0]}", limit=2)
    assert [one["id"] for one in view["jobs"]] == ids[:2]
    assert [(one["more_before"], one["more_behind"]) for one in view["jobs"]] == [(0, 1), (0, 1)]
    assert not view["is_complete"]
    view = await flow_of(api, f"jobs/{ids[3]}", limit=3)
    assert [one["id"] for one in view["jobs"]] == [ids[3], *ids[1:3]]
    assert [(one["more_before"], one["more_behind"]) for one in view["jobs"]] == [(0, 0), (1, 0), (1, 0)]
    assert not view["is_complete"]


async def test_a_job_that_was_deleted_stays_in_the_flow_without_a_name(api: Api) -> None:
    ids = await diamond(api)
    assert (await api.call("POST", f"/api/jobs/{ids[0]}/cancel"))[0] == 200
    await api.until_state(ids[1], "skipped")
    assert (await api.call("DELETE", f"/api/jobs/{ids[0]}"))[0] == 204
    view = await flow_of(api, f"jobs/{ids[3]}")
    gone = next(job for job in view["jobs"] if job["id"] == ids[0])
    assert (gone["name"], gone["state"], gone["after"], gone["more_before"]) == (None, None, [], 0)
    other = next(job for job in view["jobs"] if job["id"] == ids[1])
    assert (other["cause"], other["after"]) == ("dependency", [ids[0]])


async def test_the_flow_of_a_batch_has_its_linked_members_and_what_they_are_linked_with(api: Api) -> None:
    before = await api.enqueue("work", delay=3600)
    batch, (alone, first, second) = new_id(), (new_id() for _ in range(3))
    jobs: list[dict[str, Any]] = [
        {"id": alone},
        {"id": first, "after": {"jobs": [before]}},
        {"id": second, "after": {"jobs": [first]}},
    ]
    await pushed(api, jobs, batch={"id": batch})
    view = await flow_of(api, f"batches/{batch}")
    assert view["is_complete"]
    assert {one["id"]: (one["batch"], one["after"]) for one in view["jobs"]} == {
        first: (batch, [before]),
        second: (batch, [first]),
        before: (None, []),
    }
    view = await flow_of(api, f"batches/{batch}", limit=1)
    assert ([one["id"] for one in view["jobs"]], view["is_complete"]) == ([first], False)


async def test_a_batch_without_order_has_no_flow_however_large_it_is(api: Api) -> None:
    batch = new_id()
    await pushed(api, [{} for _ in range(1_200)], batch={"id": batch})
    assert await flow_of(api, f"batches/{batch}") == NOTHING
    many = new_id()
    for _ in range(2):
        assert (await api.call("POST", "/api/batches", {"id": many}))[0] in (200, 201)
        await pushed(api, [{"batch": many} for _ in range(1_000)])
    assert (await flow_of(api, f"batches/{many}"))["is_complete"]
    await pushed(api, [{"batch": many}])
    assert await flow_of(api, f"batches/{many}") == {**NOTHING, "is_complete": False}


async def test_a_flow_says_where_it_broke_why_and_which_chain_took_the_time(
    store_server: StoreServer,
) -> None:
    tokens = ["read:t-viewer", "operate+push+read:t-operator", "work:t-worker"]
    async with master_on(store_server.url, tokens=tokens) as (master, _):
        operator, viewer = (Api(master.server.url, f"t-{who}") for who in ("operator", "viewer"))
        api = Api(master.server.url, "t-worker")
        async with worker_at(api, "load", "resize", max_jobs=1) as worker:
            load, small, large, publish = (new_id() for _ in range(4))
            jobs: list[dict[str, Any]] = [
                {"id": load, "name": "load"},
                {
                    "id": small,
                    "name": "resize",
                    "argument": {"width": 160, "secret": "MARKpw"},
                    "after": {"jobs": [load]},
                },
                {
                    "id": large,
                    "name": "resize",
                    "argument": {"width": 320, "secret": "MARKpw"},
                    "max_retry": 0,
                    "after": {"jobs": [load]},
                },
                {"id": publish, "name": "publish", "after": {"jobs": [small, large]}},
            ]
            assert (await operator.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201
            for _ in range(3):
                job = await worker.next_job()
                if job["job_id"] == large:
                    await worker.end(job, "failure", message="OSError: the disk is full")
                else:
                    await worker.end(job)
            await operator.until_state(publish, "skipped")
        view = await flow_of(operator, f"jobs/{publish}")
        by_id = {job["id"]: job for job in view["jobs"]}
        assert (view["failures"], view["critical_path"]) == ([large], [load, large])
        assert [by_id[one]["label"] for one in (load, small, large)] == [None, "width=160", "width=320"]
        assert [by_id[one]["error"] for one in (small, large)] == [None, "OSError: the disk is full"]
        assert by_id[large]["attempt"] == 1
        assert by_id[large]["created_at"] <= by_id[large]["started_at"] <= by_id[large]["finished_at"]
        # A caller without the right to content sees the shape alone.
        view = await flow_of(viewer, f"jobs/{publish}")
        assert {(job["label"], job["error"]) for job in view["jobs"]} == {(None, None)}
        assert (view["failures"], view["critical_path"]) == ([large], [load, large])
        for caller in (operator, viewer, api):
            await caller.http.aclose()


async def test_a_wide_flow_shows_500_jobs_at_once(api: Api) -> None:
    root, last = new_id(), new_id()
    middle = [new_id() for _ in range(600)]
    jobs: list[dict[str, Any]] = [{"id": root}]
    jobs += [{"id": one, "after": {"jobs": [root]}} for one in middle]
    await pushed(api, [*jobs, {"id": last, "after": {"jobs": middle}}])
    view = await flow_of(api, f"jobs/{root}")
    assert len(view["jobs"]) == 500
    assert view["jobs"][0]["more_behind"] == 101
    view = await flow_of(api, f"jobs/{last}", limit=1000)
    assert (len(view["jobs"]), view["is_complete"]) == (602, True)


async def test_missing_flows_and_bad_requests_are_refused(api: Api) -> None:
    for path, code in (("jobs", "unknown_job"), ("batches", "unknown_batch")):
        for wrong in (new_id(), "no-id"):
            status, problem = await api.call("GET", f"/api/{path}/{wrong}/flow")
            assert (status, problem["code"]) == (404, code)
    job_id = await api.enqueue("work", delay=3600)
    for limit in ("0", "1001", "many"):
        status, problem = await api.call("GET", f"/api/jobs/{job_id}/flow?limit={limit}")
        assert status == 422, problem
        assert problem["errors"][0]["loc"] == ["query", "limit"]
