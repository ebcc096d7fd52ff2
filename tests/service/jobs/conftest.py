"""The services for jobs."""

from collections.abc import AsyncIterator

import pytest

from tests.support.jobs import Served
from tests.support.store import StoreWorld


@pytest.fixture
async def served(world: StoreWorld) -> AsyncIterator[Served]:
    one = Served(world)
    yield one
    await one.stop()
