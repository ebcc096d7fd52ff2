# Shows: Challenged, Challenge
import asyncio

from worker_sdk import Challenge, Challenged, Context, Worker
from worker_sdk.testing import WorkerHarness

worker = Worker()


async def call_warehouse(order: int, challenge: Challenge) -> None: ...  # give it `challenge.callback_url`


@worker.handler("order.pack")
async def pack(order: int, ctx: Context) -> str:
    if ctx.callback is None:
        opened = await ctx.open_challenge(timeout_s=3600)
        await call_warehouse(order, opened)
        raise Challenged(opened.request_id)  # the worker is free until the callback comes
    return ctx.callback.text()


async def main() -> None:
    harness = WorkerHarness(worker)
    assert (await harness.run("order.pack", 7)).type == "challenged"
    assert (await harness.run("order.pack", 7, callback=b"packed")).result == "packed"


asyncio.run(main())
