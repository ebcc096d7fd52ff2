"""End a process if its event loop is blocked, and send keep-alive messages to systemd.

A blocked loop cannot detect that it is blocked. If native code holds the interpreter's lock, no Python thread can
detect it. So two timers run, and each beat of the loop resets them:

* A timer of the kernel counts the CPU time of the process, and ends it with a signal that needs no interpreter. It
  detects a busy loop.
* A timer in a thread counts the seconds in which the loop's thread sleeps. It detects a loop that waits for a lock or a
  dead file system.

Neither timer counts while the process is stopped, the machine is suspended, or other processes use the CPU.
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
# The exit code that supervisors see after SIGPROF has ended a process with a busy loop. A process with a waiting
# loop ends itself with the same code.
EXIT_CODE: Final = 128 + signal.SIGPROF


@contextlib.asynccontextmanager
async def watched_loop(limit_s: float, *, environment: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """End the process if the running loop is blocked for `limit_s` seconds within the `with` block. 0: never.
    Send keep-alive messages to systemd if it expects them."""
    watchdog = LoopWatchdog(limit_s) if limit_s else None
    beating = asyncio.create_task(_beat(watchdog, _is_watched(environment), environment))
    try:
        yield
    finally:
        beating.cancel()
        if watchdog is not None:
            watchdog.stop()


def tell_systemd(message: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a message such as READY=1 to the service manager that started this process, if it requested such
    messages."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # best effort: a manager that does not listen must not stop the service.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(message.encode(), "\0" + address[1:] if address.startswith("@") else address)


class LoopWatchdog:
    """Watches the loop from its construction until `stop`. The loop must call `beat` every `step_s`."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self.step_s: Final = min(BEAT_S, limit_s / 4)
        self._silent_s = 0.0
        self._over = threading.Event()
        self._loop_thread = Path(f"/proc/self/task/{threading.get_native_id()}/stat")
        # Register a native handler, which works even if Python code is blocked. It writes the stack of each
        # thread. After that, the signal ends the process.
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
            # Count only one step even if this thread woke late, because then the whole process was probably
            # stopped.
            if self._sleeps():
                self._silent_s += self.step_s
            if self._silent_s >= self._limit_s:
                self._end()

    def _sleeps(self) -> bool:
        """Return whether the loop's thread waits for something other than CPU time."""
        try:
            # Split after the last parenthesis: the name of the program is in parentheses, and may contain any
            # characters.
            state = self._loop_thread.read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return True  # not every system has this file
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
    """Return whether systemd expects keep-alive messages from this process itself, and not only from its parent
    (sd_watchdog_enabled(3))."""
    if not environment.get("WATCHDOG_USEC", "").isdecimal():
        return False
    pid = environment.get("WATCHDOG_PID", "")
    return not pid or pid == str(os.getpid())
