# Shows: CancelSignal
import asyncio
import time

from worker_sdk import CancelSignal, Context, Worker
from worker_sdk.testing import WorkerHarness

worker = Worker()


def wait_for_file(cancelled: CancelSignal) -> str:
    while not cancelled.wait(timeout_s=0.02):  # sleeps, and wakes when the job is to stop
        pass
    return "stopped"


@worker.handler("file.await")
def await_file(path: str, ctx: Context) -> str:
    return wait_for_file(ctx.cancelled)


async def main() -> None:
    began = time.monotonic()
    ending = await WorkerHarness(worker).run("file.await", "none", timeout=0.1)
    assert (ending.type, ending.fields["reason"]) == ("failure", "timeout")
    assert time.monotonic() - began < 10


asyncio.run(main())
