"""`jqmaster plan` and `jqmaster apply`: real processes against a real master."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import Api

pytestmark = [pytest.mark.system, pytest.mark.req("D6"), real_time.PROCESSES]

FILE = """
[[constraint]]
name = "reports"
concurrency = 2
matcher = {field = "name", op = "eq", value = "report"}

[[definition]]
name = "nightly"
schedule = {daily_at = "02:30"}
time_zone = "Europe/Berlin"

[definition.job]
name = "report"
argument = {kind = "daily", n = 1.0}

[[definition]]
name = "often"
schedule = {every_minutes = 5}
job = {name = "report"}
"""
EVERYTHING = """
[[constraint]]
name = "customers"
matcher = {field = "name", op = "eq", value = "summarize"}
key = "argument.customer"
rate = {limit = 96000, period_s = 60}
concurrency = 5000
weight = {from = "argument.tokens", default = 500, unit = "tokens"}
overrides = [{value = "acme", paused = true}, {match = {field = "tags", op = "eq", value = "pro"}, concurrency = 9000}]
max_backlog = 7
reason = "The plan of the API"
expires_at = "2099-01-01T00:00:00Z"

[[constraint]]
name = "shared"
matcher = {field = "name", op = "eq", value = "summarize"}
key = "argument.customer"
concurrency = 9
fair = {weights = [{value = "acme", weight = 10}], default = 2}
reserve = [{matcher = {field = "argument.plan", op = "eq", value = "pro"}, concurrency = 3}]
counts_awaiting = false
"""
MODULE = """
from datetime import timedelta

from worker_sdk import Tasks

tasks = Tasks()


@tasks.every(hours=1, name="hourly", arguments={"kind": "hourly"}, overlap="forbid")
@tasks.task("report.build", timeout=60, tags=["report"])
def report(kind: str, limit: int = 10) -> None:
    raise AssertionError("nobody calls it")


tasks.cron("*/5 * * * *", tz="Asia/Tokyo", arguments={"kind": "often"}, jitter=timedelta(seconds=3))(report)
"""


@pytest.fixture
def cli(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    # Modules are searched for in the folder where the command runs.
    monkeypatch.chdir(tmp_path)
    return Cli(str(api.http.base_url), tmp_path)


async def definition(api: Api, name: str) -> dict[str, Any]:
    status, view = await api.call("GET", f"/api/definitions/{name}")
    assert status == 200, view
    return dict(view)


async def changes(api: Api) -> int:
    return len((await api.call("GET", "/api/audit?limit=500"))[1]["entries"])


async def test_a_file_is_planned_applied_and_applied_again_without_a_write(api: Api, cli: Cli) -> None:
    file = cli.file("jobs.toml", FILE)
    planned = await cli("plan", file)
    assert (planned.code, planned.err) == (6, "")
    assert [line for line in planned.out.splitlines() if not line.startswith(" ")] == [
        "+ constraint reports", "+ definition nightly", "+ definition often",
    ]  # fmt: skip
    assert '    schedule: {"daily_at": "02:30"}' in planned.out
    # Only parts that the file mentions are listed.
    assert "priority" not in planned.out
    assert "overlap" not in planned.out
    assert await changes(api) == 0
    done = await cli("apply", file)
    assert (done.code, done.err, done.out) == (0, "", planned.out)
    before = await definition(api, "nightly")
    assert before["job"]["argument"] == {"kind": "daily", "n": 1.0}
    assert (await api.call("GET", "/api/constraints/reports"))[1]["concurrency"] == 2
    written = await changes(api)
    (kept,) = (await api.call("GET", "/api/declarations"))[1]["declarations"]
    for done in await asyncio.gather(*(cli("apply", file) for _ in range(3)), cli("plan", file)):
        assert (done.code, done.err, done.out) == (0, "", "nothing to change\n")
    assert await definition(api, "nightly") == before
    assert await changes(api) == written
    assert (await api.call("GET", "/api/declarations"))[1]["declarations"] == [kept]


@pytest.mark.req("D30", "D33")
async def test_a_constraint_with_all_that_it_may_have_is_applied_once(api: Api, cli: Cli) -> None:
    file = cli.file("limits.toml", EVERYTHING)
    applied = await cli("apply", file)
    assert (applied.code, applied.err) == (0, "")
    view = (await api.call("GET", "/api/constraints/customers"))[1]
    assert view["weight"] == {"from": "argument.tokens", "default": 500, "unit": "tokens"}
    assert (await api.call("GET", "/api/constraints/shared"))[1]["fair"]["default"] == 2.0
    assert (await cli("plan", file)).code == 0, "nothing is left to do"


async def test_objects_no_longer_declared_are_shown_and_removed_only_with_prune(api: Api, cli: Cli) -> None:
    body = {"job": {"name": "report"}, "schedule": {"hourly_at": 1}}
    assert (await api.call("PUT", "/api/definitions/by-hand", body))[0] == 201
    other = {"definition": [{"name": "others", **body}]}
    assert (await cli("apply", cli.file("other.json", json.dumps(other)))).code == 0
    file = cli.file("jobs.toml", FILE)
    assert (await cli("apply", file)).code == 0
    cli.file("jobs.toml", FILE[: FILE.rindex("[[definition]]")])
    planned = await cli("plan", file)
    assert planned.code == 0
    assert "jobs.toml no longer declares, kept without --prune: definition often" in planned.out
    assert (await cli("apply", file)).code == 0
    assert (await definition(api, "often"))["enabled"]
    planned = await cli("plan", file, "--prune", "--json")
    assert planned.code == 6
    assert [(one["action"], one["kind"], one["name"]) for one in planned.lines()] == [
        ("delete", "definition", "often")
    ]
    done = await cli("apply", file, "--prune")
    assert (done.code, done.out) == (0, "- definition often\n")
    _, page = await api.call("GET", "/api/definitions")
    # Definitions of other sources, and those made by hand, stay.
    assert [one["name"] for one in page["definitions"]] == ["by-hand", "nightly", "others"]
    assert (await cli("plan", file, "--prune")).code == 0


async def test_changes_by_hand_are_shown_and_a_pause_outlives_a_deploy(api: Api, cli: Cli) -> None:
    file = cli.file("jobs.toml", FILE)
    assert (await cli("apply", file)).code == 0
    await api.call("POST", "/api/definitions/nightly/pause", {"reason": "the printer is away"})
    assert (await cli("plan", file)).out == "nothing to change\n"
    assert (await cli("apply", file)).code == 0
    by_hand = await definition(api, "nightly")
    assert (by_hand["enabled"], by_hand["reason"]) == (False, "the printer is away")
    job = {"name": "report", "argument": {"kind": "daily", "n": 1.0}}
    body = {"job": job, "schedule": {"daily_at": "04:00"}, "time_zone": "Europe/Berlin", "enabled": False}
    await api.call("PUT", "/api/definitions/nightly", body)
    planned = await cli("plan", file)
    assert planned.code == 6
    assert planned.out == (
        "~ definition nightly\n"
        "    ! somebody else changed it since this source was applied\n"
        '    schedule: {"daily_at": "04:00"} -> {"daily_at": "02:30"}\n'
    )
    assert (await cli("apply", file)).code == 0
    assert (await definition(api, "nightly"))["schedule"] == {"daily_at": "02:30"}
    assert (await definition(api, "nightly"))["enabled"] is False
    cli.file("jobs.toml", FILE.replace('time_zone = "Europe/Berlin"', "enabled = true"))
    assert "enabled: false -> true" in (await cli("apply", file)).out
    assert (await definition(api, "nightly"))["enabled"] is True


async def test_tasks_declare_their_definitions_in_code(api: Api, cli: Cli) -> None:
    cli.file("shop_tasks.py", MODULE)
    target = "shop_tasks:tasks"
    planned = await cli("plan", target)
    assert planned.code == 6, planned
    assert [line for line in planned.out.splitlines() if line.startswith("+")] == [
        "+ definition hourly", "+ definition report.build",
    ]  # fmt: skip
    # Several workers of one deploy may do this: the second finds it done.
    for done in await asyncio.gather(cli("apply", target), cli("apply", target)):
        assert (done.code, done.err) == (0, "")
    assert await changes(api) == 2
    hourly, often = await definition(api, "hourly"), await definition(api, "report.build")
    assert hourly["schedule"] == {"every_minutes": 60, "offset": 0}
    assert (hourly["overlap"], hourly["job"]["timeout"], hourly["job"]["tags"]) == ("forbid", 60, ["report"])
    assert often["schedule"] == {"cron": "*/5 * * * *"}
    assert (often["time_zone"], often["jitter_s"]) == ("Asia/Tokyo", 3.0)
    assert often["job"]["argument"] == {"kind": "often"}
    cli.file("shop_tasks.py", MODULE.replace('"often"}', '"often", "limit": "many"}'))
    failed = await cli("plan", target)
    assert (failed.code, "limit" in failed.err, "Traceback" in failed.err) == (2, True, False)
    assert (await cli("plan", "shop_tasks:report")).code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "declares nothing"),
        ("[[constraints]]\nname = 'a'", "not `constraints`"),
        ("[[notice]]\nname = 'a'", "accepts no tables named notice"),
        ("definition = 3", "not a list of tables"),
        (FILE.replace("02:30", "25:30"), "schedule.daily_at"),
        (FILE.replace('"often"', '"nightly"'), "the same name as an earlier one: nightly"),
        (FILE.replace("concurrency = 2", "concurrency = 0"), "concurrency: must be 1 or more"),
        (FILE.replace("every_minutes = 5", "every_minutes = 5, at = 2026-01-01"), "definition often"),
    ],
)  # fmt: skip
async def test_a_file_with_a_fault_changes_nothing(api: Api, cli: Cli, text: str, said: str) -> None:
    file = cli.file("jobs.toml", text)
    for command in ("plan", "apply"):
        done = await cli(command, file)
        assert done.code == 2, done
        assert said in done.err
        assert "Traceback" not in done.err
    assert await changes(api) == 0


async def test_redacted_arguments_are_compared_by_the_master(api: Api, cli: Cli) -> None:
    file = cli.file("jobs.toml", FILE.replace("n = 1.0", 'password = "secret"'))
    await api.call("PATCH", "/api/settings", {"redact_paths": ["argument.password"]})
    assert (await cli("apply", file)).code == 0
    before = await definition(api, "nightly")
    assert before["job"]["argument_redacted"], before
    planned = await cli("plan", file)
    assert (planned.code, planned.out) == (0, "nothing to change\n")
    assert (await cli("apply", file)).code == 0
    assert (await definition(api, "nightly"))["etag"] == before["etag"]


CALENDARS = """
[[calendar]]
name = "office"
dates = [{date = 2026-12-29, name = "Closed"}, {date = "2026-12-28", name = "Closed"}]

[[definition]]
name = "payday"
schedule = {cron = "0 9 25 * *"}
days = {calendar = "office", rule = "previous_workday"}
job = {name = "salary.pay"}
"""


@pytest.mark.req("D33")
async def test_calendars_are_made_before_the_definitions_that_need_them_and_deleted_after(
    api: Api, cli: Cli
) -> None:
    file = cli.file("pay.toml", CALENDARS)
    done = await cli("apply", file)
    assert (done.code, done.err) == (0, "")
    assert [line for line in done.out.splitlines() if not line.startswith(" ")] == [
        "+ calendar office", "+ definition payday",
    ]  # fmt: skip
    assert (await definition(api, "payday"))["days"] == {"calendar": "office", "rule": "previous_workday"}
    assert (await cli("plan", file)).out == "nothing to change\n"
    before = await changes(api)
    assert (await cli("apply", file)).code == 0
    assert await changes(api) == before
    cli.file("pay.toml", CALENDARS.replace("Closed", "Shut").replace("previous", "next"))
    planned = await cli("plan", file)
    assert (planned.code, "~ calendar office" in planned.out, "~ definition payday" in planned.out) == (
        6,
        True,
        True,
    )
    cli.file("pay.toml", "definition = []\n")
    done = await cli("apply", file, "--prune")
    assert (done.code, done.err) == (0, "")
    assert [line for line in done.out.splitlines() if not line.startswith(" ")] == [
        "- definition payday", "- calendar office",
    ]  # fmt: skip
    assert (await api.call("GET", "/api/calendars/office"))[0] == 404
    shown = await cli("plan", cli.file("bad.toml", '[[calendar]]\nname = "a b"\nsubdivision = 3\n'))
    assert shown.code == 2
