"""Jobs that wait for others, from the command line."""

from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.system, pytest.mark.req("P9"), real_time.PROCESSES]


async def test_a_job_waits_for_those_that_the_command_names(
    store_server: StoreServer, tmp_path: Path
) -> None:
    async with master_on(store_server.url) as (_, api):
        cli = Cli(str(api.http.base_url), tmp_path)
        first, second = [(await cli("enqueue", "work")).out.strip() for _ in range(2)]
        both = (await cli("enqueue", "work", "--after", first, "--after", second)).out.strip()
        any_end = (await cli("enqueue", "work", "--after", first, "--after-finished")).out.strip()
        assert [one["id"] for one in (await api.job(both))["after"]["jobs"]] == [first, second]
        shown = (await cli("job", both)).out
        assert "runs when these have succeeded" in shown
        rows = [line.split() for line in shown.splitlines()]
        assert ["AFTER", "STATE", "AWAITED"] in rows
        assert [first, "ready", "yes"] in rows
        rows = [line.split() for line in (await cli("job", first)).out.splitlines()]
        assert {tuple(row) for row in rows if row[-1:] == ["awaiting_jobs"]} == {
            (both, "awaiting_jobs"),
            (any_end, "awaiting_jobs"),
        }
        await cli("cancel", first)
        await api.until_state(both, "skipped")
        rows = [line.split() for line in (await cli("job", both)).out.splitlines()]
        assert [first, "canceled", "no"] in rows
        await api.until_state(any_end, "ready")
        effect = {"jobs": 1, "held": 0, "gone": 0, "is_complete": True}
        assert (await api.job(first))["revives"] == effect
        retried = (await cli("retry", first)).out.strip()
        assert retried == f"{first}  ready; 1 of the jobs behind it wait again"
        await api.until_state(both, "awaiting_jobs")
        await cli("cancel", first)
        await api.until_state(both, "skipped")
        status, answer = await api.call("POST", f"/api/jobs/{first}/retry")
        assert (status, answer["state"], answer["revives"]) == (200, "ready", effect)
        assert (await api.job(first))["revives"] is None
        refused = await cli("enqueue", "work", "--after-finished")
        assert (refused.code, "--after-finished needs --after" in refused.err) == (2, True)
