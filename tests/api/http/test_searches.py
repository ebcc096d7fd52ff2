"""Lists, counts and searches wait for one of their caller's turns, and nothing else does."""

import pytest

from jqmaster.service.operations import search_turns
from tests.support import real_time
from tests.support.master import Api

pytestmark = real_time.MASTER

SEARCHES = (
    "/api/jobs", "/api/jobs?q=zzz", "/api/jobs/count", "/api/events?type=zzz", "/api/audit", "/api/names",
    "/api/failures", "/api/stats/history", "/api/definitions", "/api/batches", "/api/challenges",
)  # fmt: skip


async def test_a_caller_with_no_turn_left_may_still_push_and_read_jobs(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await api.enqueue("work")
    for path in SEARCHES:
        assert (await api.call("GET", path))[0] == 200, path
    monkeypatch.setattr(search_turns, "MAX_WAITING", -search_turns.MAX_AT_ONCE)
    for path in (*SEARCHES, f"/api/jobs/{job_id}/flow"):
        status, problem = await api.call("GET", path)
        assert (status, problem["code"]) == (503, "overloaded"), path
    await api.enqueue("work")
    for path in (f"/api/jobs/{job_id}", f"/api/jobs/{job_id}/why", "/api/stats", "/api/workers"):
        assert (await api.call("GET", path))[0] == 200, path
