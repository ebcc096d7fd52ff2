"""The handler `noop` as a task: the difference is what checks of arguments and results cost."""

from worker_sdk import Tasks

tasks = Tasks()


@tasks.task("noop_task")
async def noop_task(k: int, x: str) -> None:
    """Do nothing."""
