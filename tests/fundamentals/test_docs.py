"""The code in both READMEs and docs/tutorial.md works as written."""

import asyncio
import re
import types
from pathlib import Path
from typing import Any

import httpx
import pytest

from jqmaster.domain.ids import is_id
from tests.support import real_time
from worker_sdk import Worker

pytestmark = real_time.MASTER

ROOT = Path(__file__).parents[2]
WRITTEN_URL = "http://127.0.0.1:8080"


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def run(source: str, url: str) -> types.ModuleType:
    module = types.ModuleType("page")
    exec(compile(source.replace(WRITTEN_URL, url), "page", "exec"), module.__dict__)  # our own pages
    return module


@pytest.mark.parametrize(
    ("page", "result"),
    [("README.md", "width"), ("worker_sdk/README.md", "width"), ("docs/tutorial.md", None)],
)
async def test_the_first_worker_and_pusher_of_the_page_work(
    page: str, result: str | None, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    worker_page, pusher_page = blocks(page)[:2]
    # The process of an isolated handler imports a module from disk, and a test has none.
    worker: Worker = run(worker_page.replace(", isolated=True", ""), url).worker
    async with worker.running():
        await asyncio.to_thread(run, pusher_page, url)
    if result:
        assert result in capsys.readouterr().out


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
def test_the_tasks_of_the_readme_are_defined_enqueued_and_tested_in_fifteen_lines(url: str) -> None:
    (page,) = [block for block in blocks("README.md") if "Tasks()" in block]
    run(page, url)
    assert len([line for line in page.splitlines() if line.strip()]) <= 15


@pytest.mark.parametrize("number", range(2, len(blocks("docs/tutorial.md"))))
async def test_the_other_blocks_of_the_tutorial_work(number: int, url: str) -> None:
    await asyncio.to_thread(run, blocks("docs/tutorial.md")[number], url)
