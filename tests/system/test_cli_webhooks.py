"""`jqmaster webhooks` as operators use it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jqmaster.net.webhook_secret import secret_bytes
from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.webhook_receiver import SECRET, receiver

pytestmark = [pytest.mark.system, pytest.mark.req("M10"), real_time.PROCESSES]


@pytest.fixture
async def api(store_server: StoreServer) -> AsyncIterator[Api]:
    settings = {"webhook_secrets": SECRET, "allowed_webhook_networks": "127.0.0.0/8"}
    async with master_on(store_server.url, **settings) as (_, one):
        yield one


async def test_deliveries_are_shown_and_sent_again(api: Api, tmp_path: Path) -> None:
    cli = Cli(str(api.http.base_url), tmp_path)
    async with receiver() as to:
        notify = f'{{"url": "{to.url}", "on": ["canceled"]}}'
        (job_id,) = (await cli("enqueue", "work", "--delay", "600", "--notify", notify)).out.split()
        assert "no deliveries" in (await cli("webhooks", "show", job_id)).out
        assert "no deliveries" in (await cli("webhooks", "resend", job_id)).err
        await cli("cancel", job_id)
        (told,) = await to.until(1)
        shown = (await cli("webhooks", "show", job_id)).out
        assert told.fields["webhook-id"] in shown
        assert "job.canceled" in shown
        assert "key=k1" not in shown
        await api.until_state(told.fields["webhook-id"], "succeeded")
        assert "is sent again" in (await cli("webhooks", "resend", job_id)).out
        first, second = await to.until(2)
        assert first.body == second.body
        short = (await cli("enqueue", "work", "--delay", "600", "--notify", to.url)).out.strip()
        assert (await api.job(short))["notify"]["on"][0] == "succeeded"
    made = (await cli("webhooks", "secret")).out.strip()
    assert len(secret_bytes(made)) == 32
