# Shows: Inputs, Input, InputMissing
import asyncio

from worker_sdk import Context, Input, InputMissing, Inputs, Worker
from worker_sdk.testing import WorkerHarness

worker = Worker()


def told(one: Input) -> str:
    return f"{one.result}" if one.is_success else f"{one.state}"


@worker.handler("rows.join")
def join(argument: None, ctx: Context) -> str:
    inputs: Inputs = ctx.inputs
    try:
        return f"{sum(inputs.results())} rows"
    except InputMissing as missing:  # uncaught, it fails the job for good
        ctx.logger.warning("no result of %s", missing.job_id)
        return ", ".join(told(one) for one in inputs)


async def main() -> None:
    harness = WorkerHarness(worker)
    assert (await harness.run("rows.join", inputs=[2, 3])).result == "5 rows"


asyncio.run(main())
