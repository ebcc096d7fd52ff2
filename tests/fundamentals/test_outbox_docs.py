"""The code in docs/outbox.md works as written, one block after another."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fundamentals.test_docs import blocks
from tests.support import real_time
from worker_sdk import configure

PAGE = "docs/outbox.md"


@pytest.mark.req("S11")
@real_time.MASTER
async def test_the_blocks_of_the_page_work_one_after_another(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    def run() -> None:
        names: dict[str, Any] = {"__name__": "page"}
        for block in blocks(PAGE):
            exec(compile(block, PAGE, "exec"), names)  # our own page
        names["outbox"].close()
        names["engine"].dispose()

    monkeypatch.chdir(tmp_path)
    configure(url=url)
    try:
        await asyncio.to_thread(run)
    finally:
        configure()
    async with httpx.AsyncClient(base_url=url) as http:
        jobs = (await http.get("/api/jobs")).json()["jobs"]
    assert sorted(job["name"] for job in jobs) == ["mail.send", *["post.distribute"] * 3]
