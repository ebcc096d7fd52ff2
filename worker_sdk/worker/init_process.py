"""The first process of a container whose child is a worker or a master: forward signals to it, and reap everything
that ended.

It runs as a file of its own, with the standard library alone. Its argument is the process ID of the child.
"""

import contextlib
import os
import signal
import sys

FORWARDED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip


def main(child: int) -> int:
    """Return the exit code of the child."""
    awaited = {*FORWARDED, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    while True:
        # Look before each wait: several signals of one kind arrive as one.
        if (code := _reap(child)) is not None:
            return code
        number = signal.sigwait(awaited)
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)


def _reap(child: int) -> "int | None":
    """Reap all that ended. Return the exit code of the child, as shells have it; None: it runs."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 1
        if pid == 0:
            return None
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1])))
