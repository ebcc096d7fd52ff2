"""The worker: three handlers. It is started with `jqmaster worker examples.stdlib.worker:worker --master URL`."""

from pathlib import Path
from typing import Any

from examples.stdlib.analysis import analyse, summarise
from worker_sdk import Context, Defer, NotFinishedError, Worker

worker = Worker(max_jobs=16)


@worker.handler("source.analyse", discard_on=SyntaxError)
def analyse_file(path: str) -> dict[str, Any]:
    """A plain function runs in a thread. A file that does not parse ends its job quietly; anything else is retried."""
    return analyse(Path(path))


@worker.handler("archive.connect")
async def connect(archive: str, ctx: Context) -> str:
    """Fails twice, as other people's systems do, and succeeds then."""
    if ctx.attempt <= 2:
        raise ConnectionError(f"{archive} is not reachable (attempt {ctx.attempt})")
    return f"connected at attempt {ctx.attempt}"


@worker.handler("source.summarise")
async def summarise_files(job_ids: list[str], ctx: Context) -> dict[str, Any]:
    """Collects the results of other jobs; while some are missing it waits its turn without using up a retry."""
    try:
        results = [await ctx.pusher.result(job_id) for job_id in job_ids]
    except NotFinishedError:
        raise Defer(0.2) from None
    return summarise([result.result for result in results if result and result.is_success])
