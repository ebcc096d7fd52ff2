"""The code in docs/flows.md works as written, against a master and in the test kit."""

import asyncio
import importlib
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.pages import PageFolder
from worker_sdk import Worker, configure

pytestmark = [pytest.mark.req("P9"), real_time.MASTER]


@pytest.fixture
def page(tmp_path: Path) -> PageFolder:
    return PageFolder(tmp_path, "docs/flows.md")


def test_the_test_of_the_page_passes(page: PageFolder) -> None:
    with page.importable():
        page.run(page.folder / "test_albums.py")["test_an_album_is_published"]()


async def test_the_flows_of_the_page_run(url: str, page: PageFolder) -> None:
    configure(url=url)
    try:
        with page.importable():
            albums, reports = (importlib.import_module(name) for name in ("albums", "reports"))
            async with Worker(url, tasks=albums.tasks).running():
                assert (
                    await asyncio.to_thread(albums.publish_in_sizes, "http://photos/1")
                    == "One photo: 3 pictures"
                )
                urls = [f"http://photos/{n}" for n in range(4)]
                assert await asyncio.to_thread(albums.publish_album, urls) == "Album: 4 pictures"
                shapes = page.run(page.folder / "shapes.py")
                lines = await asyncio.to_thread(shapes["publish_and_report"], urls)
            assert reports.report.name == "album.report"
    finally:
        configure()
    assert [line.endswith(" long") for line in lines] == [True] * 9
