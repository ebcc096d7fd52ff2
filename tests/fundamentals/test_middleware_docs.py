"""The code in docs/middleware.md works as written, one block after another."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fundamentals.test_docs import blocks
from worker_sdk import configure

PAGE = "docs/middleware.md"


@pytest.fixture(autouse=True)
def _restored(kept_root_logger: None) -> Iterator[None]:
    yield
    configure()


@pytest.mark.req("S7", "S9")
def test_the_blocks_of_the_page_work_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(PAGE):
        exec(compile(block, PAGE, "exec"), names)  # our own page
    assert names["worker"].middleware
    assert asyncio.run(names["score"]("abc", names["Model"]())) == 3
    assert '"job_name": "feed.add"' in capsys.readouterr().err
