"""Names whose jobs only wait make no read more expensive: what a call asks of the store does not grow with them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from jqmaster.api.routes import OPERATIONS
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.jobs.job import LISTED
from jqmaster.log_context import REQUEST
from jqmaster.store.link.client import StoreClient
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("M2"), real_time.MASTER]

# More than a page even at first, so that a page reads as many records each time.
FEW, MANY = 60, 1_500
LATER = "2035-01-01T00:00:00Z"
QUERIES = (
    "limit=50",
    "limit=50&state=ready",
    "limit=50&q=zzz",
    "limit=50&tag=zzz",
    "limit=50&min_attempt=3",
    "limit=50&order=newest",
    "limit=50&order=oldest&state=ready",
    "limit=50&name=wait.1&state=ready",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the commands and script calls that requests send to the store. The loops of the master are not
    counted."""
    counted = Counter[str]()

    def counting(name: str, size_of: Any) -> None:
        original = getattr(StoreClient, name)

        async def counted_call(self: StoreClient, *args: Any, **named: Any) -> Any:
            if REQUEST.get(None) is not None:
                counted[name] += size_of(args)
            return await original(self, *args, **named)

        monkeypatch.setattr(StoreClient, name, counted_call)

    counting("run", lambda args: 1)
    counting("command", lambda args: 1)
    counting("pipeline", lambda args: len(args[0]))
    counting("run_all", lambda args: len(args[0]))
    return counted


def reads() -> Iterator[tuple[str, str, Any]]:
    for operation in OPERATIONS:
        is_read = operation.method == "GET" and operation.access is Scope.READ
        if is_read and "{" not in operation.path and not (operation.is_stream or operation.is_text):
            yield "GET", operation.path, None
    for query in QUERIES:
        yield "GET", f"/api/jobs?{query}", None
    for query in ("", "?q=zzz", "?state=ready&tag=zzz"):
        yield "GET", f"/api/jobs/count{query}", None
    for wanted in ({"state": "ready"}, {"q": "zzz"}):
        yield "POST", "/api/jobs/actions", {"action": "cancel", "filter": wanted, "dry_run": True}


async def test_reads_ask_the_store_for_as_much_with_many_waiting_names_as_with_few(
    store_server: StoreServer, asked: Counter[str]
) -> None:
    async with master_on(store_server.url) as (_, api):
        await api.enqueue("ready.1")
        costs: list[dict[str, int]] = []
        for first, last in ((0, FEW), (FEW, MANY)):
            await _wait_under(api, range(first, last))
            costs.append({})
            for method, path, body in reads():
                status, _ = await api.call(method, path, body)
                asked.clear()
                status, _ = await api.call(method, path, body)
                if status in (200, 202):
                    costs[-1][f"{method} {path} {body or ''}"] = asked.total()
        few, many = costs
        assert many.keys() == few.keys()
        assert len(many) > 15
        dearer = {call: (few[call], many[call]) for call in few if many[call] > few[call] + 10}
        assert dearer == {}


async def _wait_under(api: Api, numbers: range) -> None:
    jobs = [{"name": f"wait.{number}", "run_at": LATER} for number in numbers]
    status, _ = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert status == 201


async def test_ready_jobs_of_many_names_take_few_calls_and_each_is_listed_once(
    store_server: StoreServer, asked: Counter[str]
) -> None:
    async with master_on(store_server.url) as (_, api):
        jobs = [{"name": f"many.{number % 700}", "priority": number % 3} for number in range(1_400)]
        status, made = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
        assert status == 201
        for query in ("state=ready&limit=500", "limit=300"):
            found: list[str] = []
            cursor = ""
            while True:
                asked.clear()
                _, page = await api.call("GET", f"/api/jobs?{query}{cursor}")
                assert asked["run"] <= 5 + len(LISTED)
                found += [job["id"] for job in page["jobs"]]
                if page["next_cursor"] is None:
                    break
                cursor = f"&cursor={page['next_cursor']}"
            assert sorted(found) == sorted(made["ids"])
        asked.clear()
        _, page = await api.call("GET", "/api/jobs?q=zzz&limit=50")
        assert (page["jobs"], page["next_cursor"]) == ([], None)
        assert asked["run"] < 40
