"""The code in docs/flows.md works as written, against a master and in the test kit."""

import asyncio
from typing import Any

import pytest

from tests.fundamentals.test_docs import blocks
from tests.support import real_time
from worker_sdk import Worker, configure

PAGE = "docs/flows.md"

pytestmark = [pytest.mark.req("P9"), real_time.MASTER]


def names_of_the_page() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(PAGE):
        exec(compile(block, PAGE, "exec"), names)  # our own page
    return names


def test_the_test_of_the_page_passes() -> None:
    names_of_the_page()["test_an_album_is_published"]()


async def test_the_flows_of_the_page_run(url: str) -> None:
    page = names_of_the_page()
    configure(url=url)
    try:
        async with Worker(url, tasks=page["tasks"]).running():
            assert (
                await asyncio.to_thread(page["publish_in_sizes"], "http://photos/1")
                == "One photo: 3 pictures"
            )
            urls = [f"http://photos/{n}" for n in range(4)]
            assert await asyncio.to_thread(page["publish_album"], urls) == "Album: 4 pictures"
            lines = await asyncio.to_thread(page["publish_and_report"], urls)
    finally:
        configure()
    assert [line.endswith(" long") for line in lines] == [True] * 9
