# Shows: WorkerHarness, Ending
import asyncio

from worker_sdk import Context, Retry, Worker
from worker_sdk.testing import Ending, WorkerHarness

worker = Worker()


@worker.handler("site.load")
async def load(url: str, ctx: Context) -> str:
    if ctx.attempt == 1:
        raise Retry(after_s=60, message="not yet")
    return f"{url}, {ctx.attempt}"


async def main() -> None:
    async with WorkerHarness(worker) as harness:
        first: Ending = await harness.run("site.load", "https://example.org")
        assert (first.type, first.fields["message"]) == ("failure", "not yet")
        second = await harness.run("site.load", "https://example.org", attempt=2)
        assert second.result == "https://example.org, 2"


asyncio.run(main())
