"""The code of the SDK's README works as written, and parts of README.md and docs/tutorial.md do what they are for:
`tests/system/test_first_pages.py` runs these two as files."""

import asyncio
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import httpx
import pytest

from jqmaster.domain.ids import is_id
from tests.support import real_time
from tests.support.pages import WRITTEN_URL, PageFolder, blocks
from worker_sdk import Worker

pytestmark = real_time.MASTER


def run(source: str, url: str) -> types.ModuleType:
    module = types.ModuleType("page")
    exec(compile(source.replace(WRITTEN_URL, url), "page", "exec"), module.__dict__)  # our own pages
    return module


async def test_the_first_worker_and_pusher_of_the_sdk_work(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    worker_page, pusher_page = blocks("worker_sdk/README.md")[:2]
    worker: Worker = run(worker_page, url).worker
    async with worker.running():
        await asyncio.to_thread(run, pusher_page, url)
    assert "width" in capsys.readouterr().out


async def test_the_web_application_of_the_tutorial_enqueues(url: str) -> None:
    (page,) = [block for block in blocks("docs/tutorial.md") if "Starlette(" in block]

    app = run(page, url).app
    async with app.router.lifespan_context(app) as state:

        async def served(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": state}, receive, send)

        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(served), base_url="http://photos"
        ) as browser:
            answer = await browser.post("/photos")
    assert (answer.status_code, is_id(answer.json()["job_id"])) == (202, True)


@pytest.mark.req("S8", "S9")
def test_the_tasks_of_the_readme_are_defined_enqueued_and_tested_in_fifteen_lines(tmp_path: Path) -> None:
    page = PageFolder(tmp_path, "README.md")
    tasks, tests = page.folder / "thumbnails.py", page.folder / "test_thumbnails.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests.name],
        cwd=page.folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    # Without those that name the files.
    lines = [line for file in (tasks, tests) for line in file.read_text().splitlines()[1:] if line.strip()]
    assert len(lines) <= 15
