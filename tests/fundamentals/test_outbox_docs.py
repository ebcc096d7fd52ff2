"""The code in docs/outbox.md works as written, each block as its own file."""

import asyncio
import importlib
from pathlib import Path

import httpx
import pytest

from tests.support import real_time
from tests.support.pages import PageFolder
from worker_sdk import configure


@pytest.mark.req("S11")
@real_time.MASTER
async def test_the_blocks_of_the_page_work_one_after_another(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PageFolder(tmp_path, "docs/outbox.md")

    def run() -> None:
        with page.importable():
            app = importlib.import_module("app")
            for file in page.files[1:]:
                page.run(file)
            app.outbox.close()
            app.engine.dispose()

    assert page.files[0].name == "app.py"
    monkeypatch.chdir(tmp_path)
    configure(url=url)
    try:
        await asyncio.to_thread(run)
    finally:
        configure()
    async with httpx.AsyncClient(base_url=url) as http:
        jobs = (await http.get("/api/jobs")).json()["jobs"]
    assert sorted(job["name"] for job in jobs) == ["mail.send", *["post.distribute"] * 3]
