# Shows: PartNotKept
import asyncio

from worker_sdk import Context, PartNotKept, Worker
from worker_sdk.testing import WorkerHarness

worker = Worker()


@worker.handler("text.write")
async def write(words: int, ctx: Context) -> None:
    for number in range(words):
        try:
            await ctx.emit(f"word {number}")
        except PartNotKept as lost:  # too many parts, or the job is another worker's
            ctx.logger.warning("nobody reads on: %s", lost)
            break


async def main() -> None:
    ending = await WorkerHarness(worker).run("text.write", 2)
    assert ending.parts == ["word 0", "word 1"]


asyncio.run(main())
