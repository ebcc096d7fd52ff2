import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from tests.support.server import StoreServer

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, LoopFactory]:
    """Test the edge on both loops: they differ in how they close, buffer and report."""
    if item.path.name == "test_http_server.py":
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture
async def store() -> AsyncIterator[StoreServer]:
    """A separate server, which the test may disturb."""
    server = StoreServer()
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.stop)
