"""The worker that the conformance kit uses to test `worker_sdk`: `python -m examples.python.worker` (with PULL=1, it
pulls).

jqmaster conformance worker --run "python -m examples.python.worker"
"""

import asyncio
import os
from typing import Any

from worker_sdk import Fail, Tasks, Worker

tasks = Tasks()
worker = Worker(
    master=os.environ.get("JQMASTER_URL", "http://127.0.0.1:8080"),
    max_jobs=4,
    pull=bool(os.environ.get("PULL")),
    grace_s=2.0,
    tasks=tasks,
)


@tasks.task("conformance.fail")
async def fail(message: str, *, retry: bool) -> None:
    if not retry:
        raise Fail(message)
    raise RuntimeError(message)


# These two handlers accept any argument: the conformance kit gives them values that are not maps of parameters.


@worker.handler("conformance.echo")
async def echo(argument: Any) -> Any:
    return argument


@worker.handler("conformance.sleep")
async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


if __name__ == "__main__":
    worker.run()
