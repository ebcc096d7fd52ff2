"""The worker of both trees. A claim searches the jobs of each name that its worker serves. So the workers of both trees
must serve the same number of names."""

from typing import Any

from worker_sdk import Worker

worker = Worker(max_jobs=200)


@worker.handler("noop")
async def noop(argument: Any) -> None:
    """Do nothing."""


for name in ("mail.send", "feed.write", "image.resize", "report.build"):
    worker.handler(name)(noop)
