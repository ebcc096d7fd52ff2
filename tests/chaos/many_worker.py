"""The worker of `tests.chaos.many`: each job logs its start and end, and adds its value to its inputs."""

import os
import random
import time
from typing import Any, Final

from worker_sdk import Context, Worker

worker: Final = Worker(os.environ["MASTERS"].split(), max_jobs=8, pull=os.environ.get("PULL") == "1")
_lines: Final = os.open(os.environ["LINES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _write(what: str, job_id: str) -> None:
    # One write each: a kill does not leave half a line.
    os.write(_lines, f"{what} {job_id} {time.monotonic()}\n".encode())


@worker.handler("many.step")
async def step(argument: dict[str, Any], ctx: Context) -> int:
    _write("begin", ctx.job_id)
    if grown := argument.get("grows"):
        await ctx.enqueue("many.step", grown["argument"], batch=ctx.batch, **grown["options"])
    if argument["kind"] == "failing" or (argument["kind"] == "flaky" and ctx.attempt == 1):
        raise RuntimeError("as planned")
    time.sleep(random.uniform(0.0, 0.02))
    value: int = argument["value"] + sum(one.result for one in ctx.inputs if one.is_success)
    _write("end", ctx.job_id)
    return value


@worker.handler("many.on_success")
@worker.handler("many.on_complete")
@worker.handler("many.on_failure")
async def told(argument: str) -> None:
    pass


if __name__ == "__main__":
    worker.run()
