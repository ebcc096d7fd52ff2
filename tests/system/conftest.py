from collections.abc import Iterator

import pytest

from tests.support.server import StoreServer, started


@pytest.fixture(scope="session")
def store_server() -> Iterator[StoreServer]:
    """Start a server for these tests alone, because masters in separate processes leave their data behind."""
    server = StoreServer()
    with started(server):
        yield server
