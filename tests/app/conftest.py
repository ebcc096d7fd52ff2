"""Stores of tests of the whole process."""

from collections.abc import Iterator

import pytest

from tests.support.server import StoreServer, started


@pytest.fixture
def other() -> Iterator[StoreServer]:
    """A further store, which only this test uses."""
    server = StoreServer()
    with started(server):
        yield server
