"""GET /api/demand: the number by which a fleet of workers is scaled."""

from jqmaster.domain.identity.access import Scope
from tests.api.operations.test_metrics import scraped, value
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.scripted_worker import worker_at
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER


async def test_jobs_that_a_constraint_holds_back_are_no_demand(api: Api) -> None:
    limit = {"matcher": {"field": "name", "op": "eq", "value": "work"}, "concurrency": 5}
    assert (await api.call("PUT", "/api/constraints/limit", limit))[0] == 201
    for _ in range(10):
        await api.enqueue("work")
    await api.enqueue("other")
    status, found = await api.call("GET", "/api/demand?name=work")
    assert (status, found.pop("oldest_wait_s") >= 0) == (200, True)
    assert found == {
        "ready": 5, "blocked": 5, "running": 0, "slots": 0, "demand": 5, "is_exact": True,
    }  # fmt: skip
    _, found = await api.call("GET", "/api/demand?name=work&name=other")
    assert (found["demand"], found["blocked"]) == (6, 5)
    _, found = await api.call("GET", "/api/demand")
    assert found["demand"] == 6
    _, found = await api.call("GET", "/api/demand?name=nothing")
    assert found == {
        "ready": 0, "blocked": 0, "running": 0, "slots": 0, "oldest_wait_s": None, "demand": 0, "is_exact": True,
    }  # fmt: skip


async def test_running_jobs_and_slots_are_also_metrics(api: Api) -> None:
    async with worker_at(api) as worker:
        await api.enqueue("work")
        job = await worker.next_job()
        _, found = await api.call("GET", "/api/demand?name=work")
        assert (found["running"], found["ready"], found["demand"]) == (1, 0, 1)
        slots = found["slots"]
        assert slots > 0

        async def is_scraped() -> bool:
            samples = await scraped(api)
            return (
                value(samples, "jqmaster_running_jobs", name="work") == 1
                and value(samples, "jqmaster_slots", name="work") == slots
            )

        await wait_until(is_scraped)
        await worker.end(job, "success")
    _, found = await api.call("GET", "/api/demand?name=work")
    assert found["running"] == 0


@for_each(
    ("query", "field"),
    [
        ("label=pool", "label"),
        ("label==big", "label"),
        ("label=pool%3Dbig&label=pool%3Dsmall", "label"),
        ("name=", "name"),
        ("names=work", "names"),
    ],
)
async def test_a_wrong_query_is_refused_with_its_field(api: Api, query: str, field: str) -> None:
    status, problem = await api.call("GET", f"/api/demand?{query}")
    assert (status, problem["errors"][0]["loc"]) == (422, ["query", field])


def test_reading_needs_the_scope_read_only() -> None:
    from jqmaster.api.operations.stats_routes import OPERATIONS

    (operation,) = [one for one in OPERATIONS if one.path == "/api/demand"]
    assert operation.access is Scope.READ
