"""Ends a process whose event loop stands still, and sends systemd its keep-alive messages.

A loop that stands still cannot detect that, and a Python thread cannot while native code holds the interpreter's lock.
So two timers run between the beats of the loop. The kernel's timer counts the processor time of the process, and ends
it by a signal that needs no interpreter. It finds a busy loop. The timer of a thread counts the seconds in which the
loop's thread sleeps. It finds a loop that waits for a lock or a dead file system. Both stand still while the process is
stopped, the machine is suspended, or other processes use the processor.
"""

import asyncio
import contextlib
import faulthandler
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

BEAT_S: Final = 1.0
# Supervisors see the same number for a busy process, which the signal ends.
EXIT_CODE: Final = 128 + signal.SIGPROF


@contextlib.asynccontextmanager
async def watched_loop(limit_s: float, *, environment: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """End the process if the running loop stands still for `limit_s` within the block; 0: never. Send systemd
    keep-alive messages if it expects them."""
    watchdog = LoopWatchdog(limit_s) if limit_s else None
    beating = asyncio.create_task(_beat(watchdog, _is_watched(environment), environment))
    try:
        yield
    finally:
        beating.cancel()
        if watchdog is not None:
            watchdog.stop()


def tell_systemd(message: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a message such as READY=1 to the service manager that started this process, if one asked for it."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # Best effort: a manager that does not listen must not stop the service.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(message.encode(), "\0" + address[1:] if address.startswith("@") else address)


class LoopWatchdog:
    """Watches from its construction on, until `stop`. `beat` must be called every `step_s`."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self.step_s: Final = min(BEAT_S, limit_s / 4)
        self._silent_s = 0.0
        self._over = threading.Event()
        self._loop_thread = Path(f"/proc/self/task/{threading.get_native_id()}/stat")
        # The handler is native code: it writes the stack of each thread, and then the signal ends the process.
        faulthandler.register(signal.SIGPROF, file=2, all_threads=True, chain=True)
        self.beat()
        threading.Thread(target=self._watch, name="jq-loop-watchdog", daemon=True).start()

    def beat(self) -> None:
        self._silent_s = 0.0
        signal.setitimer(signal.ITIMER_PROF, self._limit_s)

    def stop(self) -> None:
        self._over.set()
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.unregister(signal.SIGPROF)

    def _watch(self) -> None:
        while not self._over.wait(self.step_s):
            # A pause that took longer counts as one step, because this thread stood still as well.
            if self._sleeps():
                self._silent_s += self.step_s
            if self._silent_s >= self._limit_s:
                self._end()

    def _sleeps(self) -> bool:
        """Return whether the loop's thread waits for something other than a processor."""
        try:
            # The name of the program, in parentheses, may hold anything.
            state = self._loop_thread.read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return True  # not every system tells
        return state in ("S", "D")

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"the event loop has stood still for %d s; the process ends\n" % round(self._limit_s))
            faulthandler.dump_traceback(file=2, all_threads=True)
        os._exit(EXIT_CODE)


async def _beat(watchdog: LoopWatchdog | None, is_watched: bool, environment: Mapping[str, str]) -> None:
    step_s = BEAT_S if watchdog is None else watchdog.step_s
    while watchdog is not None or is_watched:
        if watchdog is not None:
            watchdog.beat()
        if is_watched:
            tell_systemd("WATCHDOG=1", environment)
        await asyncio.sleep(step_s)


def _is_watched(environment: Mapping[str, str]) -> bool:
    """Return whether systemd expects keep-alive messages from this process, and not only from its parent
    (sd_watchdog_enabled(3))."""
    if not environment.get("WATCHDOG_USEC", "").isdecimal():
        return False
    pid = environment.get("WATCHDOG_PID", "")
    return not pid or pid == str(os.getpid())
