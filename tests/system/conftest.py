from collections.abc import Iterator

import pytest

from tests.support.server import StoreServer, started


@pytest.fixture(scope="session")
def store_server() -> Iterator[StoreServer]:
    """A server for these tests alone: masters that are processes leave what they had."""
    server = StoreServer()
    with started(server):
        yield server
