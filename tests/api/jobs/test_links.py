"""A job's view leads to its lines in other systems."""

import pytest

from tests.support import real_time
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("D28"), real_time.MASTER]


async def test_the_view_of_a_job_has_the_configured_links(store_server: StoreServer) -> None:
    templates = "Logs=https://logs.example/?job={job_id}&attempt={attempt} All_of=https://x.example/{name}"
    async with master_on(store_server.url, link_templates=templates) as (_, api):
        job_id = await api.enqueue("mail/send")
        assert (await api.job(job_id))["links"] == [
            {"label": "Logs", "url": f"https://logs.example/?job={job_id}&attempt=0"},
            {"label": "All of", "url": "https://x.example/mail%2Fsend"},
        ]
