"""A master and a pusher. Each test writes its own worker, as a user would."""

from collections.abc import AsyncIterator

import pytest

from jqmaster.app import Master
from tests.support.master import PATIENT, master_on
from tests.support.server import StoreServer
from worker_sdk import Pusher


@pytest.fixture
async def master(store_server: StoreServer) -> AsyncIterator[Master]:
    """Yield a leading master whose leases outlast a machine that stands still: no test here loses a worker."""
    async with master_on(store_server.url, **PATIENT) as (one, _):
        yield one


@pytest.fixture
def url(master: Master) -> str:
    return master.server.url


@pytest.fixture
async def pusher(url: str) -> AsyncIterator[Pusher]:
    async with Pusher(url) as one:
        yield one
