"""The handler `noop` as tasks. `noop_task` shows what the checks of arguments and results cost. The other tasks show
what a job costs in a call of its own, and what it costs in a call for many jobs."""

from typing import Any

from worker_sdk import Gather, GatherContext, Tasks

tasks = Tasks()


@tasks.task("noop_task")
async def noop_task(k: int, x: str) -> None:
    """Do nothing."""


@tasks.task("single_async")
async def single_async(rows: dict[str, Any]) -> None:
    """Do nothing with one row."""


@tasks.task("single_def")
def single_def(rows: dict[str, Any]) -> None:
    """Do nothing with one row, in a thread."""


@tasks.task("gathered_async", gather=Gather(max=500, within_s=0.5))
async def gathered_async(rows: list[dict[str, Any]], ctx: GatherContext) -> None:
    """Do nothing with many rows."""


@tasks.task("gathered_def", gather=Gather(max=500, within_s=0.5))
def gathered_def(rows: list[dict[str, Any]], ctx: GatherContext) -> None:
    """Do nothing with many rows, in a thread."""
