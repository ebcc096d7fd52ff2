"""The handler `noop` as a task: what checks of arguments and results cost is the difference."""

from worker_sdk import Tasks

tasks = Tasks()


@tasks.task("noop_task")
async def noop_task(k: int, x: str) -> None:
    """Nothing."""
