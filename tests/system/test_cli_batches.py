"""`jqmaster batches` as operators use it: real processes against a real master."""

from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import Api
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.req("S7"), real_time.PROCESSES]


@pytest.fixture
def cli(api: Api, tmp_path: Path) -> Cli:
    return Cli(str(api.http.base_url), tmp_path)


async def test_a_batch_is_listed_shown_sealed_and_canceled(api: Api, cli: Cli) -> None:
    body = {"description": "Album 7", "tags": ["album"], "on_complete": {"name": "told"}}
    _, answer = await api.call("POST", "/api/batches", body)
    batch = answer["id"]
    enqueued = await cli("enqueue", "work", "--batch", batch)
    assert enqueued.code == 0, enqueued.err
    (listed,) = (await cli("batches", "--json")).lines()
    assert (listed["id"], listed["counts"]["total"]) == (batch, 1)
    assert "0 of 1" in (await cli("batches", "list", "--state", "open", "--tag", "album", "-q", "Album")).out
    assert batch not in (await cli("batches", "list", "--state", "complete")).out
    await api.enqueue("work", None)
    (member,) = (await cli("jobs", "--batch", batch, "--json")).lines()
    assert member["name"] == "work"
    counted = await cli("bulk", "cancel", "--batch", batch, "--dry-run")
    assert (counted.code, "1 jobs to cancel" in counted.out) == (0, True)
    shown = await cli("batches", "show", batch)
    assert "told  waiting" in shown.out
    assert "waits  It is not sealed" in shown.out
    assert "state        sealed" in (await cli("batches", "seal", batch)).out
    assert (await cli("batches", "retry", batch)).code == 0
    assert "canceled" in (await cli("batches", "cancel", batch)).out

    async def is_told() -> bool:
        _, view = await api.call("GET", f"/api/batches/{batch}")
        return bool(view["callbacks"]["on_complete"]["state"] == "enqueued")

    await wait_until(is_told)
    (view,) = (await cli("batches", "show", batch, "--json")).lines()
    assert (view["state"], view["counts"]["canceled"]) == ("complete", 1)
    gone = await cli("batches", "show", "none")
    assert (gone.code != 0, "no batch" in gone.err) == (True, True)
