"""docs/architecture.md names existing files and the path that a job really takes."""

import itertools
import re
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

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
MAX_FILES = 30
PRODUCT = (str(ROOT / "jqmaster"), str(ROOT / "worker_sdk"))
MIN_JOBS: Final = 20
MAX_JOBS: Final = 300
# The most that one lone job may cost the master, the worker and the pusher together: files entered, changes from one
# file to another, and calls. A budget falls and never rises: lower it by each saving.
BUDGET: Final = {"files": 69, "turns": 292, "calls": 564}


def test_every_file_that_the_document_names_exists() -> None:
    named = set(re.findall(r"[\w/]+/\w+\.(?:py|lua)", DOCUMENT))
    assert len(named) > len(PATH)
    assert {name for name in named if not any((base / name).is_file() for base in BASES)} == set()


def test_the_path_of_a_job_is_numbered_and_not_long() -> None:
    assert [int(number) for number, _ in PATH] == list(range(1, len(PATH) + 1))
    assert len({name for _, name in PATH}) == len(PATH) <= MAX_FILES


class Recording:
    """The calls that the event loop's thread makes in files of the product while one job is enqueued, run and read."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(self._before)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := frame.f_code.co_filename).startswith(PRODUCT):
            self.files.append(file)

    def cost(self) -> Counter[str]:
        turns = sum(one != other for one, other in itertools.pairwise(self.files))
        return Counter(files=len(set(self.files)), turns=turns, calls=len(self.files))

    def above_budget(self) -> dict[str, int]:
        return {what: count for what, count in self.cost().items() if count > BUDGET[what]}


async def test_a_job_enters_every_file_of_its_path_and_costs_no_more_than_its_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripts: set[str] = set()
    recordings: list[Recording] = []
    replies = StoreClient._replies

    async def noted(self: StoreClient, calls: Any, replicas: int | None) -> list[Any]:
        scripts.update(call.script.name for call in calls)
        return await replies(self, calls, replicas)

    monkeypatch.setattr(StoreClient, "_replies", noted)
    server = StoreServer()
    with started(server):
        async with master_on(server.url) as (master, _):
            worker = Worker(master.server.url)

            @worker.handler("work")
            async def work(argument: Any) -> Any:
                return argument

            async with worker.running(), Pusher(master.server.url) as pusher:
                # The leader learns about the worker, and whatever is made once is made.
                for n in range(3):
                    await pusher.result(await pusher.enqueue("work", n, keep_result=True), wait=30)
                scripts.clear()
                # Loops that wake meanwhile are not part of a job: on a busy machine, many jobs meet one.
                for n in range(MAX_JOBS):
                    with Recording() as recording:
                        found = await pusher.result(
                            await pusher.enqueue("work", n, keep_result=True), wait=30
                        )
                    assert isinstance(found, JobResult)
                    assert found.result == n
                    recordings.append(recording)
                    if n >= MIN_JOBS and not recording.above_budget():
                        break
    entered = {file for recording in recordings for file in recording.files}
    missed = {name for _, name in PATH if name.endswith(".py") and str(ROOT / name) not in entered}
    assert missed == set()
    assert {Path(name).stem for _, name in PATH if name.endswith(".lua")} <= scripts
    least = min(recordings, key=lambda recording: tuple(recording.cost()[what] for what in BUDGET))
    listed = "\n".join(
        f"{calls:4} {Path(file).relative_to(ROOT)}" for file, calls in Counter(least.files).most_common()
    )
    print(f"{dict(least.cost())}\n{listed}")
    assert least.above_budget() == {}, listed
