# Shows: OutsideWork, Ready, Callback
import asyncio
from typing import Any

from worker_sdk import Callback, CodedError, Context, Defer, OutsideWork, Ready, Worker
from worker_sdk.testing import WorkerHarness

worker = Worker()
ordered: list[str] = []


class Ship(OutsideWork):
    name = "order.ship"
    answer_within_s = 3600
    retry_codes = {"BUSY"}

    def prepare(self, argument: int, ctx: Context) -> Ready | Defer:
        return Ready() if argument < 100 else Defer(30, "too many orders")

    async def challenge(self, argument: int, ctx: Context) -> None:
        opened = await ctx.open_challenge()
        ordered.append(f"order {argument}: answer to {opened.callback_url}")  # a call to the warehouse

    def on_callback(self, callback: Callback, ctx: Context) -> Any:
        answer = callback.json()
        if "error" in answer:
            raise CodedError(answer["error"])
        return answer["tracking"]


worker.outside(Ship())


async def main() -> None:
    harness = WorkerHarness(worker)
    assert (await harness.run("order.ship", 100)).type == "deferred"
    assert (await harness.run("order.ship", 7)).type == "challenged"
    assert len(ordered) == 1
    assert (await harness.run("order.ship", 7, callback={"tracking": "JP1"})).result == "JP1"
    failed = await harness.run("order.ship", 7, callback={"error": "BUSY"})
    assert (failed.fields["code"], failed.fields["should_retry"]) == ("BUSY", True)


asyncio.run(main())
