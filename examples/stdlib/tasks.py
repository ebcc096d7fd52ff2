"""The tasks of the example. Run them with `jqmaster worker examples.stdlib.tasks:tasks --master URL`."""

from collections.abc import Sequence
from pathlib import Path

from examples.stdlib.analysis import Analysis, Summary, analyse, summarise
from worker_sdk import Context, Defer, JobHandle, NotFinished, Tasks, await_all

tasks = Tasks()


@tasks.task("source.analyse", keep_result=True, discard_on=SyntaxError)
def analyse_file(path: str) -> Analysis:
    """Analyse one file. If the file does not parse, the job ends as discarded. All other errors are retried.

    As a plain function, it runs in a thread of the worker.
    """
    return analyse(Path(path))


@tasks.task(
    "archive.connect", keep_result=True, retry={"base_s": 0.5, "factor": 2.0, "max_s": 5.0, "jitter": False}
)
async def connect(ctx: Context, archive: str) -> str:
    """Fail twice, as other systems may do, and then succeed."""
    if ctx.attempt <= 2:
        raise ConnectionError(f"{archive} is not reachable (attempt {ctx.attempt})")
    return f"connected at attempt {ctx.attempt}"


@tasks.task("nothing.do")
async def do_nothing() -> None:
    """Do nothing, so that the time of such a job is the cost of the queue."""


@tasks.task("source.summarise", keep_result=True, priority=10, timeout=60)
async def summarise_files(job_ids: Sequence[str]) -> Summary:
    """Summarise the results of other jobs. While some are missing, wait without using up a retry."""
    handles: list[JobHandle[Analysis]] = [analyse_file.handle(job_id) for job_id in job_ids]
    results = await await_all(handles, timeout=0, return_exceptions=True)
    if any(isinstance(result, NotFinished) for result in results):
        raise Defer(0.2)
    return summarise([result for result in results if isinstance(result, Analysis)])
