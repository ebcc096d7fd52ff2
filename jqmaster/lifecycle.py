"""Ordered start, reverse stop."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

logger = logging.getLogger(__name__)

CANCEL_AGAIN_S = 1.0


class Component(Protocol):
    """Something that runs: `start` returns when it works, `stop` when nothing of it is left."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@contextlib.asynccontextmanager
async def running(components: Sequence[Component]) -> AsyncIterator[None]:
    """Start in order, stop in reverse, each stop attempted even when another fails.

    The order is the order of need: what others use starts first and stops last (the store outlives everything).
    """
    started: list[Component] = []
    try:
        for component in components:
            started.append(component)
            await component.start()
        yield
    finally:
        for component in reversed(started):
            try:
                await asyncio.shield(component.stop())
            except Exception:
                logger.exception("could not stop %s", type(component).__name__)


class BackgroundLoops:
    """Owns the tasks of one component: a loop that fails is logged and restarted, none outlives `stop`."""

    def __init__(self, name: str, *, restart_after_s: float = 1.0) -> None:
        self._name = name
        self._restart_after_s = restart_after_s
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, role: str, loop: "LoopBody") -> None:
        task = asyncio.create_task(self._keep_running(role, loop), name=f"{self._name}.{role}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_running(self, role: str, loop: "LoopBody") -> None:
        while True:
            try:
                await loop()
                return
            except asyncio.CancelledError:
                raise
            except Exception:
                logger.exception(
                    "%s.%s failed; it starts again in %s s", self._name, role, self._restart_after_s
                )
            await asyncio.sleep(self._restart_after_s)

    async def ended(self, timeout_s: float) -> None:
        """Returns when the loops have ended by themselves, or after the time."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)

    async def stop(self) -> None:
        tasks = set(self._tasks)
        while tasks:
            for task in tasks:
                task.cancel()
            # Again and again: before Python 3.12 asyncio.wait_for, which libraries use, can swallow a cancellation.
            _, tasks = await asyncio.wait(tasks, timeout=CANCEL_AGAIN_S)


class LoopBody(Protocol):
    async def __call__(self) -> None: ...
