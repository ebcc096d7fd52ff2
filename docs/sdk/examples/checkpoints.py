# Shows: CheckpointNotSaved, Interrupted
import asyncio

from worker_sdk import CheckpointNotSaved, Context, Interrupted, Worker
from worker_sdk.testing import WorkerHarness

worker = Worker()
done: list[int] = []


@worker.handler("rows.import")
def import_rows(first: int, ctx: Context) -> int:
    start = ctx.checkpoint or first
    try:
        for row in ctx.track(range(start, 5)):
            done.append(row)
            ctx.save(row + 1)
    except Interrupted:  # the worker ends: release what is held, and let it pass
        ctx.logger.info("stopped after %d rows", len(done))
        raise
    except CheckpointNotSaved:  # another worker has the job
        ctx.logger.warning("this run no longer counts")
        raise
    return len(done)


async def main() -> None:
    ending = await WorkerHarness(worker).run("rows.import", 0, checkpoint=3)
    assert (ending.result, ending.checkpoint, done) == (2, 5, [3, 4])


asyncio.run(main())
