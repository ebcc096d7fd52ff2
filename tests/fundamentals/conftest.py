"""A master and a pusher. Each test writes its own worker, as a user would."""

from collections.abc import AsyncIterator

import pytest

from jqmaster.app import Master
from worker_sdk import Pusher


@pytest.fixture
def url(master: Master) -> str:
    return master.server.url


@pytest.fixture
async def pusher(url: str) -> AsyncIterator[Pusher]:
    async with Pusher(url) as one:
        yield one
