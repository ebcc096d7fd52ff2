# Shows: ApiLimits, Room
import asyncio

from worker_sdk import ApiLimits, Context, Room, Worker
from worker_sdk.testing import WorkerHarness

worker = Worker()
limits = ApiLimits(requests="model", tokens="model-tokens")


@worker.handler("text.summarize")
def summarize(text: str, ctx: Context) -> str:
    headers = {
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-remaining-tokens": "41000",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    rooms = limits.observe(ctx, headers, status=200)
    assert rooms == [Room("requests", 59, 1.0), Room("tokens", 41_000, 360.0)]
    ctx.used(tokens=len(text))
    return text[:10]


async def main() -> None:
    ending = await WorkerHarness(worker).run("text.summarize", "A long text that is to be summarized")
    assert ending.used == {"tokens": 36}
    assert [(one.constraint, one.remaining) for one in ending.observed] == [
        ("model", 59),
        ("model-tokens", 41_000),
    ]


asyncio.run(main())
