"""docs/architecture.md names existing files and the path that a job really takes."""

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jqmaster.store.link.client import StoreClient
from tests.support.master import master_on
from tests.support.server import StoreServer, started
from worker_sdk import JobResult, Pusher, Worker

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "architecture.md").read_text("utf-8")
# Where file names begin: those of the product's own layers omit the package.
BASES = (ROOT, ROOT / "jqmaster", ROOT / "jqmaster" / "store")
PATH = re.findall(r"^(\d+)\. `([\w/]+\.(?:py|lua))`", DOCUMENT, re.MULTILINE)
MOST_FILES = 30


def test_every_file_that_the_document_names_exists() -> None:
    named = set(re.findall(r"[\w/]+/\w+\.(?:py|lua)", DOCUMENT))
    assert len(named) > len(PATH)
    assert {name for name in named if not any((base / name).is_file() for base in BASES)} == set()


def test_the_path_of_a_job_is_numbered_and_not_long() -> None:
    assert [int(number) for number, _ in PATH] == list(range(1, len(PATH) + 1))
    assert len({name for _, name in PATH}) == len(PATH) <= MOST_FILES


async def test_a_job_enters_every_file_of_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: set[str] = set()
    scripts: set[str] = set()
    replies = StoreClient._replies

    async def noted(self: StoreClient, calls: Any, replicas: int | None) -> list[Any]:
        scripts.update(call.script.name for call in calls)
        return await replies(self, calls, replicas)

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    monkeypatch.setattr(StoreClient, "_replies", noted)
    server = StoreServer()
    with started(server):
        async with master_on(server.url) as (master, _):
            worker = Worker(master.server.url)

            @worker.handler("work")
            async def work(argument: Any) -> Any:
                return argument

            async with worker.running(), Pusher(master.server.url) as pusher:
                # The leader learns about the worker.
                await pusher.result(await pusher.enqueue("work", 1, keep_result=True), wait=30)
                scripts.clear()
                before = sys.getprofile()
                sys.setprofile(note)
                try:
                    found = await pusher.result(await pusher.enqueue("work", 2, keep_result=True), wait=30)
                finally:
                    sys.setprofile(before)
    assert isinstance(found, JobResult)
    assert found.result == 2
    missed = {name for _, name in PATH if name.endswith(".py") and str(ROOT / name) not in entered}
    assert missed == set()
    assert {Path(name).stem for _, name in PATH if name.endswith(".lua")} <= scripts
