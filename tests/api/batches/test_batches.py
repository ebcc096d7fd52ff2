"""Batches over HTTP: create, fill, seal, list, cancel, retry and refuse them."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.master import Api
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("S7"), real_time.MASTER]

CALLBACKS = {f"on_{when}": {"name": f"told.{when}"} for when in ("success", "complete", "failure")}


async def make(api: Api, **fields: Any) -> str:
    status, answer = await api.call("POST", "/api/batches", fields)
    assert status == 201, answer
    return str(answer["id"])


async def push(api: Api, **fields: Any) -> str:
    status, answer = await api.call("POST", "/api/jobs", {"name": "work", **fields})
    assert status == 201, answer
    return str(answer["id"])


async def shown(api: Api, batch: str) -> dict[str, Any]:
    status, view = await api.call("GET", f"/api/batches/{batch}")
    assert status == 200, view
    found: dict[str, Any] = view
    return found


async def test_a_batch_is_made_filled_sealed_and_seen(api: Api) -> None:
    batch = await make(api, description="Album 7", tags=["album"], **CALLBACKS)
    first = await push(api, batch=batch)
    second = await push(api, batch=batch, delay=3600, tags=["late"])
    view = await shown(api, batch)
    assert (view["state"], view["description"], view["tags"], view["batch"]) == (
        "open",
        "Album 7",
        ["album"],
        None,
    )
    assert (
        view["counts"] | {"total": 2, "unfinished": 2, "ready": 1, "scheduled": 1, "gone": 0}
        == view["counts"]
    )
    assert view["callbacks"]["on_success"]["name"] == "told.success"
    assert view["callbacks"]["on_success"]["state"] == "waiting"
    status, job = await api.call("GET", f"/api/jobs/{second}")
    assert (status, job["batch"], job["callback_of"]) == (200, batch, None)
    status, page = await api.call("GET", f"/api/batches/{batch}/jobs?limit=1")
    assert [one["id"] for one in page["jobs"]] == [first]
    status, page = await api.call("GET", f"/api/batches/{batch}/jobs?limit=1&cursor={page['next_cursor']}")
    assert [one["id"] for one in page["jobs"]] == [second]
    status, page = await api.call("GET", f"/api/batches/{batch}/jobs?state=scheduled")
    assert ([one["id"] for one in page["jobs"]], page["next_cursor"]) == ([second], None)
    status, answer = await api.call("GET", f"/api/batches/{batch}/why")
    assert [reason["code"] for reason in answer["reasons"]] == ["open", "jobs"]
    assert [one["id"] for one in answer["jobs"]] == [first, second]
    status, view = await api.call("POST", f"/api/batches/{batch}/seal")
    assert (status, view["state"]) == (200, "sealed")
    status, view = await api.call("POST", f"/api/batches/{batch}/cancel")
    assert status == 202

    async def is_complete() -> bool:
        return (await shown(api, batch))["callbacks"]["on_complete"]["state"] == "enqueued"

    await wait_until(is_complete)
    view = await shown(api, batch)
    assert (view["state"], view["counts"]["canceled"]) == ("complete", 2)
    status, job = await api.call("GET", f"/api/jobs/{view['callbacks']['on_complete']['job_id']}")
    assert (job["name"], job["callback_of"]) == ("told.complete", {"batch": batch, "callback": "on_complete"})
    status, answer = await api.call("POST", "/api/jobs", {"name": "work", "batch": batch})
    assert (status, answer["code"]) == (409, "batch_over")
    status, answer = await api.call("GET", f"/api/batches/{batch}/why")
    assert answer["reasons"] == [
        {"code": "failed", "text": "on_success waits until all members have succeeded: 2 canceled."}
    ]


async def test_a_bulk_makes_its_batch(api: Api) -> None:
    batch, ids = new_id(), [new_id() for _ in range(3)]
    body = {
        "batch": {"id": batch, "on_success": {"name": "told", "argument": [1]}},
        "jobs": [{"name": "work", "id": one} for one in ids],
    }
    for reordered in (body, dict(reversed(body.items()))):
        status, answer = await api.call("POST", "/api/jobs/bulk", reordered)
        assert (status, answer) == (201, {"ids": ids, "batch": batch})
    view = await shown(api, batch)
    assert (view["state"], view["counts"]["total"]) == ("sealed", 3)
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": [{"name": "work"}], "batch": None})
    assert (status, len(answer["ids"])) == (201, 1)
    own = {"jobs": [{"name": "work"}, {"name": "work", "batch": batch}], "batch": {}}
    status, answer = await api.call("POST", "/api/jobs/bulk", own)
    assert (status, answer["errors"][0]["loc"]) == (422, ["jobs", 1, "batch"])
    other = {"jobs": [{"name": "work"}], "batch": {"id": batch}}
    status, answer = await api.call("POST", "/api/jobs/bulk", other)
    assert (status, answer["code"]) == (409, "id_taken")
    bad = {"jobs": [{"name": "work"}], "batch": {"on_success": {"name": ""}}}
    status, answer = await api.call("POST", "/api/jobs/bulk", bad)
    assert (status, answer["errors"][0]["loc"]) == (422, ["batch", "on_success", "name"])


async def test_a_bulk_that_is_refused_leaves_no_batch_and_starts_no_callback(api: Api) -> None:
    taken = await push(api, argument=1)
    limited = {"matcher": {"field": "name", "op": "eq", "value": "few"}, "max_backlog": 1}
    status, answer = await api.call("PUT", "/api/constraints/few", limited)
    assert status in (200, 201), answer
    for jobs, more, expected in (
        ([{"name": "work"}, {"name": "work", "id": taken}], {}, (409, "id_taken")),
        ([{"name": "few"}, {"name": "few"}], {}, (429, "backlog_full")),
        ([{"name": "work"}], {"batch": new_id()}, (422, "invalid")),
        ([{"name": "work"}, {"name": ""}], {}, (422, "invalid")),
    ):
        batch = new_id()
        body = {"batch": {"id": batch, **CALLBACKS, **more}, "jobs": jobs}
        status, answer = await api.call("POST", "/api/jobs/bulk", body)
        assert (status, answer["code"]) == expected
        status, answer = await api.call("GET", f"/api/batches/{batch}")
        assert (status, answer["code"]) == (404, "unknown_batch")
    _, page = await api.call("GET", "/api/jobs?name=told.complete")
    assert page["jobs"] == []


async def test_batches_are_listed_newest_first(api: Api) -> None:
    ids = [await make(api, description=f"number {n}", tags=["odd"] if n % 2 else []) for n in range(5)]
    found, cursor = [], ""
    for _ in range(3):
        _, page = await api.call("GET", f"/api/batches?limit=2{cursor}")
        found += [view["id"] for view in page["batches"]]
        cursor = f"&cursor={page['next_cursor']}"
    assert found == ids[::-1]
    assert page["next_cursor"] is None
    await api.call("POST", f"/api/batches/{ids[0]}/seal")
    for query, expected in (
        ("state=complete", [ids[0]]),
        ("tag=odd", [ids[3], ids[1]]),
        ("q=number%204", [ids[4]]),
        (f"q={ids[2]}", [ids[2]]),
    ):
        _, page = await api.call("GET", f"/api/batches?{query}")
        assert [view["id"] for view in page["batches"]] == expected
    assert page["batches"][0]["counts"]["ready"] is None


async def test_the_answer_names_each_fault(api: Api) -> None:
    unknown = new_id()
    for method, path in (
        ("GET", ""), ("GET", "/jobs"), ("GET", "/why"), ("POST", "/seal"), ("POST", "/cancel"), ("POST", "/retry"),
    ):  # fmt: skip
        for batch in (unknown, "nonsense"):
            status, answer = await api.call(method, f"/api/batches/{batch}{path}")
            assert (status, answer["code"]) == (404, "unknown_batch")
    status, answer = await api.call("POST", "/api/jobs", {"name": "work", "batch": unknown})
    assert (status, answer["code"], answer["errors"][0]["loc"]) == (422, "unknown_batch", ["batch"])
    status, answer = await api.call("POST", "/api/jobs", {"name": "work", "batch": "nonsense"})
    assert (status, answer["code"], answer["errors"][0]["loc"]) == (422, "invalid", ["batch"])
    status, answer = await api.call("POST", "/api/batches", {"batch": unknown})
    assert (status, answer["errors"][0]["loc"]) == (422, ["batch"])
    for query in ("state=late", "limit=0", "cursor=1"):
        status, answer = await api.call("GET", f"/api/batches?{query}")
        assert status == 422
    batch = await make(api)
    for query in ("state=late", "limit=0", "cursor=1"):
        status, answer = await api.call("GET", f"/api/batches/{batch}/jobs?{query}")
        assert status == 422
    await api.call("POST", f"/api/batches/{batch}/seal")
    status, answer = await api.call("POST", f"/api/batches/{batch}/cancel")
    assert (status, answer["code"]) == (409, "batch_complete")


async def test_a_batch_with_the_same_id_and_content_is_made_once(api: Api) -> None:
    batch = new_id()
    body = {"id": batch, "on_success": {"name": "told", "argument": msgpack.packb("x").hex(), "delay": 5}}
    assert await api.call("POST", "/api/batches", body) == (201, {"id": batch})
    assert await api.call("POST", "/api/batches", body) == (200, {"id": batch})
    status, answer = await api.call("POST", "/api/batches", {"id": batch})
    assert (status, answer["code"]) == (409, "id_taken")


async def test_retry_runs_the_failed_jobs_again(api: Api) -> None:
    batch = await make(api, **CALLBACKS)
    await push(api, batch=batch)
    status, view = await api.call("POST", f"/api/batches/{batch}/retry")
    assert (status, view["counts"]["unfinished"]) == (202, 1)


@pytest.mark.req("J15", "M9")
async def test_jobs_are_listed_counted_and_acted_upon_by_their_batch(api: Api) -> None:
    batch, other = await make(api), await make(api)
    members = [await push(api, batch=batch, delay=3600.0 * (n % 2)) for n in range(4)]
    alien = await push(api, batch=other)
    for order in ("", "&order=oldest"):
        _, page = await api.call("GET", f"/api/jobs?batch={batch}{order}")
        assert ([job["id"] for job in page["jobs"]], page["looked_at"]) == (members, 4)
    _, page = await api.call("GET", f"/api/jobs?batch={batch}&order=newest&state=scheduled")
    assert [job["id"] for job in page["jobs"]] == [members[3], members[1]]
    _, counted = await api.call("GET", f"/api/jobs/count?batch={batch}")
    assert (counted["count"], counted["is_exact"], counted["states"]["scheduled"]["count"]) == (4, True, 2)
    status, problem = await api.call("GET", "/api/jobs?batch=album")
    assert (status, problem["errors"][0]["loc"]) == (422, ["query", "batch"])
    status, _ = await api.call(
        "POST", "/api/jobs/actions", {"action": "cancel", "filter": {"batch": "album"}}
    )
    assert status == 422

    body = {"action": "cancel", "filter": {"batch": batch, "state": "ready"}}
    _, counted = await api.call("POST", "/api/jobs/actions", {**body, "dry_run": True})
    assert (counted["count"], counted["is_exact"]) == (2, True)
    status, begun = await api.call("POST", "/api/jobs/actions", body)
    assert (status, begun["filter"]["batch"]) == (202, batch)

    async def is_done() -> bool:
        return (await api.call("GET", f"/api/jobs/actions/{begun['id']}"))[1]["state"] == "done"

    await wait_until(is_done, what="the action is over")
    states = [(await api.job(one))["state"] for one in (*members, alien)]
    assert states == ["canceled", "scheduled", "canceled", "scheduled", "ready"]
