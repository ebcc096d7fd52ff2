# Shows: Gather, GatherContext
import asyncio
from collections.abc import Sequence

from worker_sdk import Gather, GatherContext, Tasks
from worker_sdk.testing import WorkerHarness

tasks = Tasks()


@tasks.task("row.insert", gather=Gather(max=500, within_s=0.5))
def insert(rows: list[int], ctx: GatherContext) -> Sequence[int | Exception]:
    return [row * 10 if row >= 0 else ValueError("a negative row") for row in rows]


async def main() -> None:
    endings = await WorkerHarness(tasks).run_together([insert.to_job(row) for row in (1, -2, 3)])
    assert [ending.result for ending in endings] == [10, None, 30]
    assert endings[1].fields["message"] == "ValueError: a negative row"


asyncio.run(main())
