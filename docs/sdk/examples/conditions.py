# Shows: ready_when, SinceLastRun, OutstandingBelow, JobIs, DefinitionRan, HttpOk
import asyncio

from worker_sdk import (
    Context,
    Defer,
    DefinitionRan,
    HttpOk,
    JobIs,
    OutsideWork,
    OutstandingBelow,
    Ready,
    SinceLastRun,
    Worker,
    ready_when,
)
from worker_sdk.testing import WorkerHarness

worker = Worker()
QUIET = SinceLastRun("stock.sync", 600)


class SyncStock(OutsideWork):
    name = "stock.sync"

    async def prepare(self, argument: dict[str, str], ctx: Context) -> Ready | Defer:
        return await ready_when(
            ctx,
            QUIET,
            OutstandingBelow("stock.sync", 5),
            JobIs(argument["import"]),
            DefinitionRan("nightly-import", within_s=86_400),
            HttpOk("https://warehouse.example/healthz"),
        )

    async def challenge(self, argument: dict[str, str], ctx: Context) -> None:
        await ctx.open_challenge()


worker.outside(SyncStock())


async def main() -> None:
    argument = {"import": "01989fa2-0000-7000-8000-000000000001"}
    met = WorkerHarness(worker)  # asks nobody: all conditions are met
    assert (await met.run("stock.sync", argument)).type == "challenged"
    unmet = WorkerHarness(worker, unmet=[QUIET])
    assert (await unmet.run("stock.sync", argument)).type == "deferred"


asyncio.run(main())
