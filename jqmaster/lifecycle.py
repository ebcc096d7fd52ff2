"""Start components in order, stop them in reverse."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

from jqmaster.clock import Clock
from jqmaster.errors import JqmasterError

logger = logging.getLogger(__name__)

CANCEL_AGAIN_S = 1.0
# Failures of one loop that are further apart than this do not belong to one series.
_ROW_GAP_S: Final = 5.0


class Component(Protocol):
    """Something that runs: `start` returns when it works, `stop` when nothing of it runs any more."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class FailingLoop(NamedTuple):
    """`seconds`: from the first failure of the series to the last. `error` is the last one."""

    seconds: float
    name: str
    error: str


class LoopFailures:
    """Background loops that fail again and again for an unexpected reason."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By loop: first and last failure of the current series, and the last error.
        self._rows: dict[str, tuple[float, float, str]] = {}

    def add(self, name: str, error: Exception) -> None:
        # These errors are expected and reported to people. No new process and no new connection fixes them.
        if isinstance(error, JqmasterError):
            return
        now_s = self._clock.monotonic_s()
        first_s, last_s, _ = self._rows.get(name, (now_s, now_s, ""))
        if now_s - last_s > _ROW_GAP_S:
            first_s = now_s
        self._rows[name] = (first_s, now_s, f"{type(error).__name__}: {error}"[:200])

    def longest(self) -> FailingLoop | None:
        """Return the loop that has been failing for the longest time and still fails."""
        now_s = self._clock.monotonic_s()
        failing = [
            FailingLoop(last_s - first_s, name, error)
            for name, (first_s, last_s, error) in self._rows.items()
            if now_s - last_s <= _ROW_GAP_S
        ]
        return max(failing, default=None)


# The place where loops report failures. It is set while components start, so their tasks, and what these start,
# inherit it.
_failures: ContextVar[LoopFailures | None] = ContextVar("loop_failures", default=None)


@contextlib.asynccontextmanager
async def running(
    components: Sequence[Component], *, failures: LoopFailures | None = None
) -> AsyncIterator[None]:
    """Start in order, stop in reverse, and try each stop even if another fails.

    The order is the order of need: what others use starts first and stops last (the store outlives everything).
    `failures` records failures of these components' loops, and of the loops that they start.
    """
    started: list[Component] = []
    try:
        token = _failures.set(failures or _failures.get())
        try:
            for component in components:
                started.append(component)
                await component.start()
        finally:
            _failures.reset(token)
        yield
    finally:
        for component in reversed(started):
            try:
                await asyncio.shield(component.stop())
            except Exception:
                logger.exception("could not stop %s", type(component).__name__)


class BackgroundLoops:
    """Owns the tasks of one component. A loop that fails is logged and restarted, and none outlives `stop`."""

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
            except Exception as exc:
                logger.exception(
                    "%s.%s failed; it starts again in %s s", self._name, role, self._restart_after_s
                )
                if failures := _failures.get():
                    failures.add(f"{self._name}.{role}", exc)
            await asyncio.sleep(self._restart_after_s)

    async def ended(self, timeout_s: float) -> None:
        """Return when the loops have ended by themselves, or after `timeout_s`."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)

    async def stop(self) -> None:
        tasks = set(self._tasks)
        while tasks:
            for task in tasks:
                task.cancel()
            # Cancel again and again: before Python 3.12, asyncio.wait_for, which libraries use, can swallow a
            # cancellation.
            _, tasks = await asyncio.wait(tasks, timeout=CANCEL_AGAIN_S)


class LoopBody(Protocol):
    async def __call__(self) -> None: ...
