"""`jqmaster fireworq import`: queues and routings come over, from a running Fireworq or from a file."""

import json
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.fireworq import PREFIX, gateway_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.system, pytest.mark.req("J19"), real_time.PROCESSES]

QUEUES = [
    {"name": "mail", "polling_interval": 100, "max_workers": 10},
    {
        "name": "sms",
        "polling_interval": 100,
        "max_workers": 3,
        "max_dispatches_per_second": 2.5,
        "max_burst_size": 5,
    },
]
ROUTINGS = [
    {"queue_name": "mail", "job_category": "mail/welcome"},
    {"queue_name": "sms", "job_category": "sms"},
]


async def test_a_file_is_imported_and_from_there_to_another_master(
    store_server: StoreServer, tmp_path: Path
) -> None:
    file = tmp_path / "fireworq.json"
    file.write_text(json.dumps({"queues": QUEUES, "routings": ROUTINGS}))
    async with gateway_on(store_server.url, fireworq_default_queue="") as client:
        url = str(client.http.base_url).rstrip("/")
        cli = Cli(url.removesuffix(PREFIX), tmp_path)
        would = await cli("fireworq", "import", str(file), "--dry-run")
        assert "2 queues and 2 routings would be put" in would.out
        assert await client.get("/queues") == []
        for _ in range(2):
            assert "2 queues and 2 routings put" in (await cli("fireworq", "import", str(file))).out
            assert await client.get("/queues") == QUEUES
            assert await client.get("/routings") == ROUTINGS
        # The gateway answers as Fireworq does, so it can be the source as well.
        async with gateway_on(store_server.url, fireworq_default_queue="") as other:
            there = Cli(str(other.http.base_url).rstrip("/").removesuffix(PREFIX), tmp_path)
            said = await there("fireworq", "import", url, "--json")
            assert [json.loads(line)["name"] for line in said.out.splitlines()[:2]] == ["mail", "sms"]
            assert await other.get("/queues") == QUEUES
            assert await other.get("/routings") == ROUTINGS


async def test_the_import_names_what_it_cannot_take(store_server: StoreServer, tmp_path: Path) -> None:
    async with gateway_on(store_server.url) as client:
        url = str(client.http.base_url).rstrip("/").removesuffix(PREFIX)
        cli = Cli(url, tmp_path)
        for number, (document, code, word) in enumerate(
            (
                ("[]", 2, "not a map"),
                ('{"queues": {}}', 2, "queues is not a list"),
                ('{"queues": [{"max_workers": 3}]}', 2, "no name"),
                ('{"queues": [{"name": "a", "max_workers": -1}]}', 2, "max_workers"),
                ('{"routings": [{"queue_name": "nosuch", "job_category": "c"}]}', 4, "nosuch"),
            )
        ):
            file = tmp_path / f"{number}.json"
            file.write_text(document)
            done = await cli("fireworq", "import", str(file))
            assert done.code == code, (document, done.err)
            assert word in done.err, document
        file.write_text(json.dumps({"queues": QUEUES}))
        done = await cli("fireworq", "import", str(file), "--prefix", "/nosuch")
        assert (done.code, "--fireworq" in done.err) == (4, True)
        assert (await cli("fireworq", "import", "http://127.0.0.1:9")).code == 5
        # Something else than a Fireworq answers there.
        done = await cli("fireworq", "import", f"{url}/nosuch")
        assert (done.code, "is it a Fireworq?" in done.err) == (4, True)
