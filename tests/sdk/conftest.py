from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support.waiting import wait_until
from worker_sdk import Worker


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    """Yield a master, and finally assert that all calls to it were in order."""
    one = FakeMaster()
    try:
        yield one
        assert one.faults == []
    finally:
        one.close()


@pytest.fixture
def worker(master: FakeMaster) -> Worker:
    return Worker(master.url, token=master.token, grace_s=0.2, max_jobs=4)


@pytest.fixture
async def up(master: FakeMaster, worker: Worker) -> AsyncIterator[Callable[[], Any]]:
    """Yield a function to call once the handlers exist. It starts the worker and waits for its registration."""
    async with AsyncExitStack() as stack:

        async def start() -> Worker:
            await stack.enter_async_context(worker.running())
            await wait_until(lambda: worker.worker_id)
            return worker

        yield start
