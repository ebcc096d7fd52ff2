"""`jqmaster events` as operators use it: real processes against a real master."""

import json
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import Api

pytestmark = [pytest.mark.system, pytest.mark.req("D9"), real_time.PROCESSES]


@pytest.fixture
def cli(api: Api, tmp_path: Path) -> Cli:
    return Cli(str(api.http.base_url), tmp_path)


async def test_an_event_is_sent_listed_shown_and_replayed(api: Api, cli: Cli) -> None:
    definition = {"kind": "event", "event_type": "order.*", "job": {"name": "ship"}}
    file = cli.file("ship.json", json.dumps(definition))
    assert (await cli("definitions", "put", "ship", file)).out.startswith("ship  created  with order.*")
    assert "events order.*" in (await cli("definitions")).out
    assert "events order.*" in (await cli("definitions", "show", "ship")).out
    assert "paused" in (await cli("definitions", "pause", "ship")).out
    assert "resumed" in (await cli("definitions", "resume", "ship")).out

    (answer,) = (await cli("events", "send", "order.paid", '{"n": 1}', "--key", "k", "--json")).lines()
    (job_id,) = answer["job_ids"]
    assert (await api.call("GET", f"/api/jobs/{job_id}"))[1]["argument"] == {"n": 1}
    again = await cli("events", "send", "order.paid", '{"n": 1}', "--key", "k")
    assert again.out.split("\n")[0] == f"{answer['event_id']}  known already"
    assert f"ship  fired  {job_id}" in again.out
    assert (await cli("events", "send", "user.made")).code == 0

    assert "order.paid" in (await cli("events")).out
    (listed,) = (await cli("events", "list", "--type", "order.*", "--json")).lines()
    assert (listed["event_id"], listed["payload"]) == (answer["event_id"], {"n": 1})
    shown = await cli("events", "show", answer["event_id"])
    assert "ship fired" in shown.out
    (replayed,) = (await cli("events", "replay", answer["event_id"], "--json")).lines()
    assert (replayed["duplicate"], len(replayed["job_ids"])) == (False, 1)

    assert (await cli("events", "send", "order.paid", "{")).code != 0
    gone = await cli("events", "show", job_id)
    assert (gone.code != 0, "no event" in gone.err) == (True, True)
