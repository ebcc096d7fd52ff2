"""The code in docs/middleware.md works as written, each block as its own file."""

import asyncio
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import PageFolder
from worker_sdk import configure


@pytest.fixture(autouse=True)
def _restored(kept_root_logger: None) -> Iterator[None]:
    yield
    configure()


@pytest.mark.req("S7", "S9")
def test_the_blocks_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PageFolder(tmp_path, "docs/middleware.md")
    with page.importable():
        last = page.files[-1]
        page.run(last)
        assert [file for file in page.files if file.stem not in (*_imported(page), last.stem)] == []
        scoring = importlib.import_module("scoring")
        assert asyncio.run(scoring.score("abc", scoring.Model())) == 3
        assert importlib.import_module("program").worker.middleware
    assert '"job_name": "feed.add"' in capsys.readouterr().err


def _imported(page: PageFolder) -> list[str]:
    """Return the files that the last block has imported."""
    import sys

    return [file.stem for file in page.files if file.stem in sys.modules]
