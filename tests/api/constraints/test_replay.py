"""Replay the last hour under a constraint over HTTP, from the jobs that are still stored."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.service.constraints import replay as replays
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import PATIENT, Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Worker

pytestmark = [pytest.mark.req("J13"), real_time.MASTER]

PATH = "/api/constraints/preview/last-hour"
WORK = {"field": "name", "op": "eq", "value": "work"}


@pytest.fixture
async def api(store_server: StoreServer) -> AsyncIterator[Api]:
    """A client of a master whose leases outlast a busy machine: a job that ran twice would not run beside the
    others."""
    async with master_on(store_server.url, previews_per_minute=10_000, **PATIENT) as (_, one):
        yield one


async def ran(api: Api, arguments: list[Any]) -> None:
    """Run jobs at the same time, so that a limit of one would have held all but the first."""
    started = 0
    worker = Worker([str(api.http.base_url)], max_jobs=len(arguments))

    @worker.handler("work")
    async def work(argument: Any) -> None:
        nonlocal started
        started += 1
        await wait_until(lambda: started == len(arguments), what="all jobs have started")

    async with worker.running():
        jobs = [await api.enqueue("work", argument) for argument in arguments]
        for job in jobs:
            await api.until_state(job, "succeeded")


async def test_it_tells_what_would_have_been_held_and_changes_nothing(api: Api) -> None:
    await ran(api, [{"host": "a"}, {"host": "a"}, {"host": "b"}, {}])
    _, found = await api.call("POST", PATH, {"matcher": WORK, "concurrency": 4})
    assert (found["started"], found["held"], found["longest_ms"]) == (4, 0, None)

    async def has_let_all_go() -> dict[str, Any] | None:
        status, found = await api.call("POST", PATH, {"matcher": WORK, "concurrency": 1})
        assert (status, found["started"], found["held"]) == (200, 4, 3)
        return found if found["held_now"] == 0 else None

    # The jobs would have taken longer one after the other than they took side by side.
    found = await wait_until(has_let_all_go, what="the last of them would have begun by now")
    assert (found["looked_at"], found["is_whole"], found["gone"], found["keys"]) == (4, True, 0, None)
    assert sum(point["started"] for point in found["points"]) == 4
    _, found = await api.call("POST", PATH, {"matcher": WORK, "key": "argument.host", "concurrency": 1})
    assert (found["started"], found["held"], found["without_key"], found["distinct_keys"]) == (3, 1, 1, 2)
    assert [(one["value"], one["started"], one["held"]) for one in found["keys"]] == [
        ("a", 2, 1),
        ("b", 1, 0),
    ]
    assert (await api.call("GET", "/api/constraints"))[1] == {"constraints": []}


@pytest.mark.req("D30")
async def test_it_counts_units_for_a_constraint_with_a_weight(api: Api) -> None:
    await ran(api, [{"tokens": 300}, {"tokens": 700}, {}])
    weight = {"from": "argument.tokens", "default": 50.5, "unit": "tokens"}
    body = {"matcher": WORK, "rate": {"limit": 700, "period_s": 3600}, "weight": weight}
    _, found = await api.call("POST", PATH, body)
    assert found["held"] >= 1
    units = found["units"]
    assert (units["unit"], units["started"]) == ("tokens", 1050.5)
    assert units["held"] == units["most_held"] >= 350.5
    assert sum(point["started_units"] for point in found["points"]) == 1050.5
    assert max(point["held_units"] for point in found["points"]) == units["most_held"]
    _, found = await api.call("POST", PATH, {"matcher": WORK, "concurrency": 1})
    assert (found["units"], found["points"][0]["held_units"]) == (None, None)


async def test_it_counts_the_jobs_that_are_gone(api: Api) -> None:
    await ran(api, [1, 2])
    deleted = {"action": "delete", "filter": {"state": "succeeded"}}
    assert (await api.call("POST", "/api/jobs/actions", deleted))[0] == 202

    async def are_counted() -> bool:
        _, history = await api.call("GET", "/api/stats/history?span=1h")
        return sum(point["succeeded"] for point in history["points"]) == 2

    await wait_until(are_counted, what="the history has the jobs")
    _, found = await api.call("POST", PATH, {"matcher": WORK, "concurrency": 1})
    assert (found["started"], found["gone"]) == (0, 2)


async def test_it_is_bounded_and_says_how_far_it_came(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await ran(api, [1, 2, 3])
    monkeypatch.setattr(replays, "REPLAY_MAX_JOBS", 1)
    monkeypatch.setattr(replays, "MAX_LOOKED_AT", 1)
    _, found = await api.call("POST", PATH, {"matcher": WORK, "concurrency": 1})
    assert (found["looked_at"], found["is_whole"]) == (1, False)
    _, ended = await api.call("GET", "/api/jobs?state=succeeded&order=newest&limit=1")
    assert found["from"] == ended["jobs"][0]["finished_at"]


@for_each(
    ("fields", "loc"),
    [
        ({"matcher": {}}, "matcher"),
        ({"key": "tags"}, "key"),
        ({"concurrency": 0}, "concurrency"),
        ({"x": 1}, "x"),
    ],
)
async def test_it_refuses_what_a_constraint_would(api: Api, fields: dict[str, Any], loc: str) -> None:
    status, problem = await api.call("POST", PATH, {"matcher": WORK, "concurrency": 1, **fields})
    assert (status, ".".join(map(str, problem["errors"][0]["loc"]))) == (422, loc)
