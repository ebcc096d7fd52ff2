# Shows: Worker
from typing import Any

from worker_sdk import Context, Worker

worker = Worker(max_jobs=10)  # JQMASTER_URL


@worker.handler("thumbnail.make", retry_on=OSError)
async def make_thumbnail(argument: dict[str, Any], ctx: Context) -> dict[str, Any]:
    ctx.logger.info("photo %s", argument["photo_id"])
    return {"width": 320}


@worker.handler("text.count")
def count(argument: str) -> int:  # a `def` runs in a thread
    return len(argument.split())


if __name__ == "__main__":
    worker.run()
