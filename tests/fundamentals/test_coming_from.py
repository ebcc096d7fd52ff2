"""The jqmaster code blocks in docs/coming_from_*.md work as written."""

import asyncio
from typing import Any

import pytest

from tests.fundamentals.test_docs import ROOT, blocks
from tests.support import real_time
from worker_sdk.tasks.client import process_pushers

pytestmark = real_time.MASTER

PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("coming_from_*.md"))


@pytest.mark.parametrize("page", PAGES)
async def test_the_blocks_of_the_page_work_one_after_another(
    page: str, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JQMASTER_URL", url)
    definition, *others = blocks(page)
    assert others
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(definition, page, "exec"), names)  # our own pages
    async with names["worker"].running():
        for block in others:
            await asyncio.to_thread(exec, compile(block, page, "exec"), names)
    process_pushers.get().sync_pusher().close()
    if "celery" in page:
        assert capsys.readouterr().out == "42-320.webp\n"
