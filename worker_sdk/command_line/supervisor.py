"""Run one command as several processes: start them, restart those that end by themselves, and stop them all."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from worker_sdk.command_line.ends import FAILED
from worker_sdk.command_line.interpreter import module_command

logger = logging.getLogger(__name__)

FIRST_BACKOFF_S: Final = 0.1
LAST_BACKOFF_S: Final = 5.0
# If a process ran for longer than this before it ended, the backoff restarts with its shortest pause.
STEADY_AFTER_S: Final = 30.0
# How long to wait for the end of a process, by default. An orderly end takes less time: a master ends its requests and
# duties, and a worker ends its jobs within its default grace.
END_WITHIN_S: Final = 60.0
KILLED_WITHIN_S: Final = 5.0


class ChildFailedError(Exception):
    """A process ended before it worked. It has printed the reason. `code` is its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"a process ended with {code} while it started")
        self.code = code


class Supervisor:
    """Starts and supervises the children. `child`: the module that children run (see `worker_sdk.command_line.child`).

    Each of `orders` is the work of one child. It is sent through a pipe, so that its secrets do not appear in `ps` or
    in the environment of the child's own children.

    The pipe stays open as long as this process lives, so a child notices when this process is killed.
    """

    def __init__(
        self, child: str, orders: Sequence[Mapping[str, Any]], *, end_within_s: float = END_WITHIN_S
    ) -> None:
        self._child = child
        self._orders = orders
        self._end_within_s = end_within_s
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def pids(self) -> list[int]:
        """Return the process IDs of the running children, by their number."""
        return [self._children[number].pid for number in sorted(self._children)]

    async def start(self) -> None:
        """Start the children, and return when all of them work. Raise ChildFailedError if a child ends before that, and
        OSError if the system cannot start a child."""
        loop = asyncio.get_running_loop()
        working: list[asyncio.Future[None]] = [loop.create_future() for _ in self._orders]
        for number, order in enumerate(self._orders):
            keeping = self._keep(number, order, working[number])
            self._tasks.append(asyncio.create_task(keeping, name=f"supervisor.{number}"))
        try:
            await asyncio.gather(*working)
        finally:
            for one in working:
                one.cancel()

    async def stop(self) -> None:
        """Tell all children to end, and kill those that have not ended in time."""
        self._is_stopping = True
        self.terminate()
        await self._until_ended(self._end_within_s)
        self.kill()
        await self._until_ended(KILLED_WITHIN_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _until_ended(self, timeout_s: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def terminate(self) -> None:
        """Tell the children to end. After a second call, children end sooner if they support this."""
        for child in self._children.values():
            _send(child, signal.SIGTERM)

    def kill(self) -> None:
        """Kill all children at once."""
        for child in self._children.values():
            _send(child, signal.SIGKILL)

    def _has_stopped(self) -> bool:
        return self._is_stopping

    async def _keep(self, number: int, order: Mapping[str, Any], working: "asyncio.Future[None]") -> None:
        backoff_s = FIRST_BACKOFF_S
        while not self._has_stopped():
            began_s = time.monotonic()
            try:
                code = await self._run_once(number, order, working)
            except Exception as error:  # one process that cannot be started must not stop the others
                if not working.done():
                    working.set_exception(error)
                    return
                code = None
                logger.error(
                    "process %d cannot be started: %s", number, error, exc_info=not isinstance(error, OSError)
                )
            if self._has_stopped():
                return
            if not working.done():
                working.set_exception(ChildFailedError(code if code and code > 0 else FAILED))
                return
            if time.monotonic() - began_s > STEADY_AFTER_S:
                backoff_s = FIRST_BACKOFF_S
            logger.error("process %d ended (%s); it starts again in %.1f s", number, _named(code), backoff_s)
            await asyncio.sleep(backoff_s)
            backoff_s = min(LAST_BACKOFF_S, backoff_s * 2)

    async def _run_once(
        self, number: int, order: Mapping[str, Any], working: "asyncio.Future[None]"
    ) -> int | None:
        ready, tell_ready = os.pipe()
        try:
            child = await asyncio.create_subprocess_exec(
                *module_command(self._child, str(tell_ready)),
                stdin=subprocess.PIPE,
                pass_fds=(tell_ready,),
                # Ctrl-C then reaches only this process, which ends the children in order.
                start_new_session=True,
            )
        except BaseException:
            os.close(ready)
            raise
        finally:
            os.close(tell_ready)
        self._children[number] = child
        if self._has_stopped():  # `stop` was called while the child was being created
            _send(child, signal.SIGTERM)
        watching = asyncio.create_task(_wait_until_ready(ready))
        try:
            assert child.stdin
            with contextlib.suppress(ConnectionError):  # the child has ended: its exit code shows why
                child.stdin.write(json.dumps(order).encode() + b"\n")
                await child.stdin.drain()
            ending = asyncio.create_task(child.wait())
            await asyncio.wait({watching, ending}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done() and watching.result() and not working.done():
                working.set_result(None)
            return await ending
        finally:
            watching.cancel()
            self._children.pop(number, None)


async def _wait_until_ready(ready: int) -> bool:
    """Wait until something is written to the pipe, or until it is closed. Close it here, and return whether something
    was written."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    os.set_blocking(ready, False)
    loop.add_reader(ready, readable.set)
    try:
        await readable.wait()
        return bool(os.read(ready, 1))
    finally:
        loop.remove_reader(ready)
        os.close(ready)


def _send(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(number)


def _named(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    return signal.Signals(-code).name
