"""`jqmaster notices` as operators use it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.mail_server import MailServer, mail_server
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.req("M5"), real_time.PROCESSES]

NOTICE = """
when = "job_failed"
threshold = 3
at_most_every_s = 60
to = [{mail = ["ops@shop.example"]}, {slack = "http://127.0.0.1:9/services/credential"}]
"""


@pytest.fixture
async def mails() -> AsyncIterator[MailServer]:
    async with mail_server() as server:
        yield server


@pytest.fixture
async def api(store_server: StoreServer, mails: MailServer) -> AsyncIterator[Api]:
    settings = {"smtp_url": f"smtp://127.0.0.1:{mails.port}", "mail_from": "jq@shop.example"}
    async with master_on(store_server.url, **settings) as (_, one):
        yield one


async def test_a_notice_from_file_to_test_to_deletion(api: Api, mails: MailServer, tmp_path: Path) -> None:
    cli = Cli(str(api.http.base_url), tmp_path)
    file = tmp_path / "failures.toml"
    file.write_text(NOTICE)
    assert "created" in (await cli("notices", "put", "failures", str(file), "--new")).out
    assert "exists" in (await cli("notices", "put", "failures", str(file), "--new")).err
    assert "is in force" in (await cli("notices", "put", "failures", str(file))).out
    listed = (await cli("notices")).out
    assert "failures" in listed
    assert "ops@shop.example" in listed
    shown = (await cli("notices", "show", "failures")).out
    assert "http://127.0.0.1:9/…" in shown
    assert "credential" not in shown
    assert "about to be sent" in (await cli("notices", "test", "failures")).out
    ((_, mail),) = await mails.until(1)
    assert mail["Subject"] == "[jqmaster] Test of notice failures"

    async def is_sent() -> bool:
        return "sent at" in (await cli("notices", "show", "failures")).out

    await wait_until(is_sent)
    assert "muted until 20" in (await cli("notices", "mute", "failures", "--for", "2h")).out
    assert "no longer muted" in (await cli("notices", "mute", "failures", "--off")).out
    assert "give one of" in (await cli("notices", "mute", "failures")).err
    assert "0 incidents acknowledged" in (await cli("notices", "ack", "failures")).out
    view = json.loads((await cli("notices", "show", "failures", "--json")).out)
    etag = view["etag"]
    assert (await cli("notices", "delete", "failures", "--if-match", "0123456789abcdef")).code != 0
    assert "deleted" in (await cli("notices", "delete", "failures", "--if-match", etag)).out
    assert "no notice" in (await cli("notices", "show", "failures")).err
