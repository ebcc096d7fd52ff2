# Shows: Context
import asyncio

from worker_sdk import Context, Worker
from worker_sdk.testing import WorkerHarness

worker = Worker()


@worker.handler("feed.update")
async def update(feed: str, ctx: Context) -> str:
    ctx.logger.info("attempt %d, %.0f s left", ctx.attempt, ctx.remaining())
    ctx.progress(0.5, "half of it")
    await ctx.enqueue("feed.notify", {"feed": feed}, once=True)
    return f"{feed} by {ctx.headers['tenant']}"


async def main() -> None:
    harness = WorkerHarness(worker)
    ending = await harness.run("feed.update", "news", headers={"tenant": "acme"})
    assert ending.result == "news by acme"
    assert ending.progress == (0.5, "half of it")
    assert [job["name"] for job in harness.enqueued] == ["feed.notify"]


asyncio.run(main())
