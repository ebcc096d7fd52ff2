"""Orders to all workers of a version, a machine or a label."""

from typing import Any

import pytest

from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.scripted_worker import ScriptedWorker, puller_at

pytestmark = [real_time.MASTER, pytest.mark.req("D11", "D14")]


async def registered(api: Api, **fields: Any) -> str:
    status, answer = await ScriptedWorker(api, ("work",), 5).register(url=None, **fields)
    assert status == 201
    return answer["worker_id"]


async def states(api: Api) -> dict[str, str]:
    return {one["id"]: one["state"] for one in (await api.call("GET", "/api/workers"))[1]["workers"]}


async def draining(api: Api) -> set[str]:
    return {worker_id for worker_id, state in (await states(api)).items() if state == "draining"}


async def order(api: Api, name: str, **selection: Any) -> dict[str, Any]:
    status, answer = await api.call("POST", f"/api/workers/{name}", selection)
    assert status == 200, answer
    return answer


async def test_a_set_is_counted_drained_and_resumed(api: Api) -> None:
    old = [await registered(api, version="1", node_id=f"n{n}", labels={"zone": "a"}) for n in range(2)]
    new = await registered(api, version="2", node_id="n0", labels={"zone": "b"})
    async with puller_at(api) as busy:
        await api.enqueue("work")
        await busy.claim(1)
        counted = await order(api, "drain", label={"name": "zone", "value": "b"}, dry_run=True)
        assert (counted["dry_run"], counted["count"], counted["jobs"]) == (True, 2, 1)
        assert set(counted["worker_ids"]) == {new, busy.id}
        assert await draining(api) == set()
        done = await order(api, "drain", version="1")
        assert (done["count"], set(done["worker_ids"])) == (2, set(old))
        assert await draining(api) == set(old)
        # Workers that already drain are not counted again.
        assert (await order(api, "drain", node_id="n0"))["worker_ids"] == [new]
        assert (await order(api, "drain", version="1", node_id="n0"))["count"] == 0
        audit = (await api.call("GET", "/api/audit"))[1]["entries"]
        assert {entry["target"] for entry in audit if entry["action"] == "worker.drain"} == {*old, new}
        # The undo affects the same workers, and no others.
        assert (await order(api, "resume", worker_ids=done["worker_ids"]))["count"] == 2
        assert await draining(api) == {new}
        assert (await order(api, "resume", worker_ids=[*old, new], version="2"))["count"] == 1
        assert (await order(api, "drain", version="no such"))["count"] == 0


async def test_detached_workers_take_no_order(api: Api) -> None:
    gone = await registered(api, version="1")
    assert (await api.call("POST", f"/api/workers/{gone}/detach"))[0] == 200
    assert (await order(api, "drain", version="1"))["count"] == 0


@for_each(
    "body", [{}, {"dry_run": True}, {"worker_ids": []}, {"worker_ids": ["x"]}, {"label": {"name": "zone"}}]
)
@for_each("name", ["drain", "resume"])
async def test_a_selection_that_selects_nothing_in_particular_is_refused(
    api: Api, name: str, body: dict[str, Any]
) -> None:
    assert (await api.call("POST", f"/api/workers/{name}", body))[0] == 422
