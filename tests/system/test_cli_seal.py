"""Which keys jobs need, from the command line."""

from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.system, pytest.mark.req("S7"), real_time.PROCESSES]


async def test_seal_check_counts_the_jobs_that_need_each_key(
    store_server: StoreServer, tmp_path: Path
) -> None:
    async with master_on(store_server.url) as (_, api):
        cli = Cli(str(api.http.base_url), tmp_path)
        assert "no job that is not over is sealed" in (await cli("seal", "check", "--have", "2026a")).out
        for name, key, delay in (("card", "2026a", 0), ("card", "2026a", 600), ("mail", "2026b", 600)):
            await api.enqueue(name, delay=delay, tags=["import", f"sealed:{key}"])
        over = await api.enqueue("card", tags=["sealed:2025z"])
        await cli("cancel", over)
        shown = await cli("seal", "check")
        rows = [line.split() for line in shown.out.splitlines()]
        assert (shown.code, rows) == (
            0,
            [["KEY", "NAME", "JOBS", "MISSING"], ["2026a", "card", "2"], ["2026b", "mail", "1"]],
        )
        missing = await cli("seal", "check", "--have", "2026a")
        assert (missing.code, "jobs that are not over need 2026b" in missing.err) == (1, True)
        assert (await cli("seal", "check", "--have", "2026a", "--have", "2026b")).code == 0
