"""taskiq on a Redis list, as a peer. `taskiq worker benchmarks.peers.taskiq_app:broker` runs the jobs. This file pushes
them if it is run as a module."""

import asyncio
import os
from typing import Any

from taskiq_redis import ListQueueBroker

from benchmarks.peers.counter import ARGUMENT, Counter, tell

AT_A_TIME = 100
broker = ListQueueBroker(os.environ["REDIS_URL"])
counter = Counter()


@broker.task(task_name="noop")
async def noop(argument: Any) -> None:
    counter.one()


async def _push(count: int) -> None:
    await broker.startup()
    left = iter(range(count))

    async def one() -> None:
        for _ in left:
            await noop.kiq(ARGUMENT)

    await asyncio.gather(*(one() for _ in range(AT_A_TIME)))
    await broker.shutdown()


if __name__ == "__main__":
    tell(lambda count: asyncio.run(_push(count)))
