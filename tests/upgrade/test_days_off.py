"""Definitions with days off, which masters of 0.3.0 do not know, while one of these leads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.cli import Cli
from tests.support.master import assert_sound, master_on
from tests.support.processes import running
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.upgrade.former import FormerMaster

pytestmark = [
    pytest.mark.req("M12", "D6"), pytest.mark.system, pytest.mark.timeout(120), real_time.PROCESSES
]  # fmt: skip

# The instants of two minutes pass while no master leads.
PASSED_MS = 120_000
PLAIN = """
[[definition]]
name = "applied"
schedule = {daily_at = "02:30"}
job = {name = "applied"}
"""
WITH_DAYS = """
[[calendar]]
name = "office"
dates = []
"""


def _around(day: datetime) -> list[dict[str, str]]:
    """Return holidays around a day, which may end meanwhile."""
    days = (day + timedelta(days=n) for n in (-1, 0, 1))
    return [{"date": f"{one:%Y-%m-%d}", "name": "Holiday"} for one in days]


async def _let_instants_pass(store_url: str, shard: str, on_days: dict[str, bool]) -> None:
    """Set the clocks of definitions back, as if no master had led for a while."""
    client, k = StoreClient(store_url, connections=2), Keys(shard)
    redis = admin_of(client)
    try:
        for name, has_days in on_days.items():
            clock = await redis.hget(k.definition_clocks, name)
            handled, _, rest = clock.partition(b" ")
            back = b"%d %b" % (int(handled) - PASSED_MS, rest)
            await redis.hset(k.definition_clocks, name, back)
            due = k.definitions_due_on_days if has_days else k.definitions_due
            await redis.zincrby(due, -PASSED_MS, name)
    finally:
        await client.close()


async def test_definitions_with_days_off_rest_while_0_3_leads_and_are_made_up_for(
    store_server: StoreServer, tmp_path: Path, last_release: Path
) -> None:
    shard = f"u{uuid4().hex[:10]}"
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "on-workdays": {"days": {"calendar": "open", "rule": "skip_holidays"}},
        "on-holidays": {"days": {"calendar": "shut", "rule": "skip_holidays"}},
    }
    async with master_on(store_server.url, shard=shard) as (_, api):
        today = datetime.now(UTC)
        for name, dates in (("open", []), ("shut", _around(today))):
            body = {"dates": dates, "weekend": []}
            assert (await api.call("PUT", f"/api/calendars/{name}", body))[0] == 201
        for name, days in kinds.items():
            definition = {"job": {"name": name}, "schedule": {"every_minutes": 1}, **days}
            assert (await api.call("PUT", f"/api/definitions/{name}", definition))[0] == 201
    await _let_instants_pass(store_server.url, shard, {name: bool(days) for name, days in kinds.items()})
    former = FormerMaster(last_release, tmp_path, store_server.url, shard=shard)
    with running(former):
        async with httpx.AsyncClient(base_url=former.url, trust_env=False) as http:

            async def pushed(name: str) -> int:
                answer = await http.get(f"/api/jobs?name={name}", headers={"Accept": "application/json"})
                return len(answer.json()["jobs"])

            await wait_until(lambda: pushed("plain"), timeout_s=30, what="the former master fires others")
            assert [await pushed(name) for name in kinds if name != "plain"] == [0, 0]
            # Whatever would show one of them fails, and nothing else does.
            codes = [
                (await http.get(f"/api/definitions{path}")).status_code
                for path in ("", "/on-workdays", "/plain")
            ]
            assert codes == [500, 500, 200]
            # `apply` reads all definitions.
            cli = Cli(former.url, tmp_path)
            done = await cli("apply", cli.file("plain.toml", PLAIN))
            assert (done.code, "on-holidays" in done.err) == (5, True), done.err
    async with master_on(store_server.url, shard=shard) as (_, api):

        async def records(name: str) -> list[tuple[str, str | None]]:
            _, answer = await api.call("GET", f"/api/definitions/{name}/runs")
            return [(one["outcome"], one["reason"]) for one in answer["runs"]]

        made_up = await wait_until(lambda: records("on-workdays"), what="late instants fire")
        assert {outcome for outcome, _ in made_up} == {"fired"}
        left_out = await wait_until(lambda: records("on-holidays"), what="days off are recorded")
        assert set(left_out) == {("skipped", "calendar: Holiday")}
        status, listed = await api.call("GET", "/api/definitions")
        assert status == 200
        assert {one["name"] for one in listed["definitions"]} == kinds.keys()


async def test_apply_works_with_masters_of_0_3_without_calendars(
    store_server: StoreServer, tmp_path: Path, last_release: Path
) -> None:
    shard = f"u{uuid4().hex[:10]}"
    former = FormerMaster(last_release, tmp_path, store_server.url, shard=shard)
    cli = Cli(former.url, tmp_path)
    with running(former):
        for told in ("+ definition applied", "nothing to change"):
            done = await cli("apply", cli.file("plain.toml", PLAIN))
            assert done.code == 0, done.err
            assert told in done.out
        done = await cli("apply", cli.file("days.toml", WITH_DAYS))
        assert (done.code, "Stopped at calendar office" in done.err) == (3, True), done.err
    await assert_sound(store_server.url, shard, then_forget=True)
