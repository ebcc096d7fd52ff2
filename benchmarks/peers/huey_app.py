"""huey as a peer. `huey_consumer benchmarks.peers.huey_app.huey` runs the jobs; this file, run as a module, pushes
them."""

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
    # Import this module by its full name, which is stored in each task. As `__main__`, the worker could not find it.
    from benchmarks.peers import huey_app  # noqa: PLW0406

    tell(huey_app.push)
