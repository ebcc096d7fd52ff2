"""A handler that reports progress and saves checkpoints, for workers of this release and of 0.3.0."""

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.upgrade.handlers import worker
from worker_sdk import Context


@worker.handler("import")
async def report(argument: Any, ctx: Context) -> Any:
    """Fail the first attempt after its last checkpoint, and return where the second one began."""
    begun_at = ctx.checkpoint or 0
    for row in range(begun_at, 3):
        ctx.progress((row + 1) / 4, f"row {row}")
        await ctx.save(row + 1)
    if begun_at == 0:
        raise RuntimeError("half done")
    ctx.progress(0.9, "nearly done")
    await ctx.save(argument)
    Path(os.environ["REPORTED"]).touch()
    while not Path(os.environ["MAY_END"]).exists():
        await asyncio.sleep(0.05)
    return begun_at


__all__ = ["worker"]
