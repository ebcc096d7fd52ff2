"""Find handlers that prevent the rest of their process from running, and log a warning.

An `async` handler that blocks stops the event loop, and with it all other async handlers. Native code that holds
Python's global lock stops every thread, even the heartbeat thread.
"""

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Final

from worker_sdk.worker.lease import now_s
from worker_sdk.worker.registry import HandlerKind
from worker_sdk.worker.run import JobRun

logger = logging.getLogger(__name__)

BLOCKED_S: Final = 5.0
_NAMED: Final = 5
_OWN: Final = str(Path(__file__).parents[1])


class LoopWatch:
    """Finds blocking handlers. Create it in the thread of the event loop, and call `look` from the heartbeat thread.
    `running`: the runs that occupy slots."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        running: Callable[[], Iterable[JobRun]],
        *,
        blocked_s: float | None = None,
        now_s: Callable[[], float] = now_s,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._running = running
        self._blocked_s = BLOCKED_S if blocked_s is None else blocked_s
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._looked_s = now_s()
        self._cpu_seen_s = cpu_s()
        # When the event loop was last asked to call `_answer`. None: it has answered, or was not asked.
        self._asked_s: float | None = None
        self._is_told = False

    def look(self, late_s: float = 0.0) -> None:
        """Check whether all threads and the event loop have run since the last call. `late_s`: seconds by which this
        call is late."""
        now, cpu_s = self._now_s(), self._cpu_s()
        gap_s, used_s = now - self._looked_s, cpu_s - self._cpu_seen_s
        self._looked_s, self._cpu_seen_s = now, cpu_s
        # Warn only if the process used CPU time: it did not if the whole machine was suspended.
        if late_s >= self._blocked_s and used_s >= gap_s / 2:
            logger.warning(
                "no other thread of this process could run for %.0f s: native code held Python's global lock, so no "
                "heartbeat was sent and leases may have ended; declare such a handler with isolated=True. Running: %s",
                late_s,
                self._named_runs(),
            )
        if not self._loop.is_running():
            # The worker has stopped its loop, and remaining handlers continue in their threads.
            self._asked_s = None
        elif self._asked_s is None:
            self._asked_s = now
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
                self._loop.call_soon_threadsafe(self._answer)
        elif now - self._asked_s >= self._blocked_s and not self._is_told:
            self._is_told = True
            logger.warning(
                "the event loop has been blocked for %.0f s, in %s%s: use await, asyncio.to_thread or a def handler "
                "there",
                now - self._asked_s,
                self._place(),
                self._named_task(),
            )

    def _answer(self) -> None:
        asked_s, self._asked_s = self._asked_s, None
        if self._is_told and asked_s is not None:
            self._is_told = False
            logger.warning("the event loop runs again, after %.0f s", self._now_s() - asked_s)

    def _place(self) -> str:
        """Return the innermost line of code, as file and number, that the loop's thread executes outside of the SDK and
        of packages."""
        frame = innermost = sys._current_frames().get(self._loop_thread)
        while frame is not None and not _is_of_user(frame):
            frame = frame.f_back
        found = frame or innermost
        return f"{Path(found.f_code.co_filename).name}:{found.f_lineno}" if found else "an unknown place"

    def _named_task(self) -> str:
        try:
            task = asyncio.current_task(self._loop)
        except RuntimeError:
            return ""
        for run in list(self._running()):
            if task is not None and run.task is task:
                return f" ({run.name}, job {run.job_id})"
        return ""

    def _named_runs(self) -> str:
        runs = [run for run in list(self._running()) if run.handler.kind is not HandlerKind.ISOLATED]
        names = [f"{run.name} (job {run.job_id})" for run in runs[:_NAMED]]
        return ", ".join(names) + (f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else "")


def _is_of_user(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return not (
        name.startswith((_OWN, "<", sys.base_prefix + "/lib/python", sys.prefix + "/lib/python"))
        or "site-packages" in name
    )
