"""huey as a peer. `huey_consumer benchmarks.peers.huey_app.huey` runs the jobs. This file pushes them if it is run as a
module."""

import os
from typing import Any

from huey import RedisHuey

from benchmarks.peers.counter import ARGUMENT, Counter, tell

huey = RedisHuey("bench", url=os.environ["REDIS_URL"], results=False, utc=True)
counter = Counter()


@huey.task()  # type: ignore[untyped-decorator, unused-ignore]
def noop(argument: Any) -> None:
    counter.one()


def push(count: int) -> None:
    for _ in range(count):
        noop(ARGUMENT)


if __name__ == "__main__":
    # Import this module by its full name, which huey stores in each task. The worker could not find a module
    # `__main__`.
    from benchmarks.peers import huey_app  # noqa: PLW0406

    tell(huey_app.push)
