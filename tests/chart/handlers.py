"""Handlers that the images of workers hold in these tests. They keep a journal of their runs outside the system."""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from tests.chart.kubelet import Spec
from worker_sdk import INJECTED, Context, Tasks


async def run(run_s: float, ctx: Context = INJECTED) -> None:
    """Take `run_s`. One write(2) to an O_APPEND file keeps lines whole, even under SIGKILL."""
    file = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, f"start {ctx.job_id} {ctx.attempt} {time.monotonic()}\n".encode())
        await asyncio.sleep(run_s)
        os.write(file, f"end {ctx.job_id} {ctx.attempt} {time.monotonic()}\n".encode())
    finally:
        os.close(file)


def tasks_of(*names: str) -> Tasks:
    """Return tasks of these names."""
    tasks = Tasks()
    for name in names:
        tasks.task(name)(run)
    return tasks


def write_image(pod: Spec, folder: Path, names: Sequence[str]) -> None:
    """Write the modules that a worker's pod runs, with handlers of these names, into the folder of its image."""
    arguments: list[str] = pod["spec"]["containers"][0].get("args", [])
    modules = [one.partition("=")[2] + ".tasks" for one in arguments if one.startswith("--autodiscover=")]
    modules += [one.partition(":")[0] for one in arguments[:1] if not one.startswith("-")]
    for module in modules:
        file = folder / f"{module.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        for parent in [*file.relative_to(folder).parents][:-1]:
            (folder / parent / "__init__.py").touch()
        file.write_text(
            f"from tests.chart.handlers import tasks_of\n\ntasks = reports = tasks_of(*{list(names)})\n"
        )
