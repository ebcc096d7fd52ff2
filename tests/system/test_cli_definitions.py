"""`jqmaster definitions` as operators use it: real processes against a real master."""

from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import Api

pytestmark = [pytest.mark.system, pytest.mark.req("D6"), real_time.PROCESSES]

FILE = """
schedule = {daily_at = "02:30"}
time_zone = "Europe/Berlin"

[job]
name = "report"
argument = {kind = "daily"}
"""


@pytest.fixture
def cli(api: Api, tmp_path: Path) -> Cli:
    return Cli(str(api.http.base_url), tmp_path)


async def test_a_definition_is_put_shown_paused_run_and_deleted(api: Api, cli: Cli) -> None:
    file = cli.file("nightly.toml", FILE)
    done = await cli("definitions", "put", "nightly", file)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("nightly  created  next 20")
    assert (await cli("definitions", "put", "nightly", file, "--new")).code != 0

    listed = await cli("definitions")
    assert "daily_at 02:30" in listed.out
    (view,) = (await cli("definitions", "list", "--json")).lines()
    assert view["job"]["argument"] == {"kind": "daily"}
    assert '"kind"' in (await cli("definitions", "show", "nightly")).out

    assert "paused" in (await cli("definitions", "pause", "nightly")).out
    assert (await api.call("GET", "/api/definitions/nightly"))[1]["enabled"] is False
    assert "resumed" in (await cli("definitions", "resume", "nightly")).out
    assert (await api.call("GET", "/api/definitions/nightly"))[1]["job"]["argument"] == {"kind": "daily"}

    job_id = (await cli("definitions", "run", "nightly")).out.strip()
    assert (await api.call("GET", f"/api/jobs/{job_id}"))[1]["name"] == "report"
    runs = await cli("definitions", "runs", "nightly", "--json")
    assert [(run["reason"], run["job_id"]) for run in runs.lines()] == [("manual", job_id)]

    counted = await cli(
        "definitions",
        "backfill",
        "nightly",
        "2026-01-01T00:00:00Z",
        "2026-01-04T00:00:00Z",
        "--dry-run",
        "--json",
    )
    nothing = {"due": 3, "fired_before": 0, "forgotten": 0, "forgotten_until": None, "started": None}
    assert counted.lines() == [nothing]
    for what in ("nightly", file):
        coming = await cli("definitions", "next", what, "--count", "2", "--json")
        assert [one["local"][11:16] for one in coming.lines()] == ["02:30", "02:30"]

    assert (await cli("definitions", "delete", "nightly")).code == 0
    gone = await cli("definitions", "show", "nightly")
    assert gone.code != 0
    assert "no definition nightly" in gone.err

    # One that is made again does not know what the former one ran.
    assert (await cli("definitions", "put", "nightly", file)).code == 0
    past = ("definitions", "backfill", "nightly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z")
    refused = await cli(*past)
    assert refused.code != 0
    assert "also_forgotten" in refused.err
    done = await cli(*past, "--also-forgotten", "--json")
    assert [(one["forgotten"], one["started"]) for one in done.lines()] == [(3, 3)]


async def test_a_file_that_makes_no_sense_is_refused_with_its_place(cli: Cli) -> None:
    file = cli.file("bad.toml", FILE.replace("02:30", "25:30"))
    done = await cli("definitions", "put", "nightly", file)
    assert done.code != 0
    assert "schedule.daily_at" in done.err
    assert (await cli("definitions", "put", "nightly", cli.directory / "none.toml")).code != 0
    assert (await cli("definitions", "put", "nightly", cli.file("broken.json", "{"))).code != 0
