"""The first process of a container. It forwards signals to its child, a worker or a master, and reaps all processes
that have ended.

It runs as a separate file, and uses only the standard library. Its argument is the process ID of the child.
"""

import contextlib
import os
import signal
import sys

FORWARDED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip


def main(child: int) -> int:
    """Forward signals and reap processes until the child has ended. Return the child's exit code."""
    awaited = {*FORWARDED, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    while True:
        # Check for ended children before each wait: several signals of one kind arrive as one.
        if (code := _reap(child)) is not None:
            return code
        number = signal.sigwait(awaited)
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)


def _reap(child: int) -> "int | None":
    """Reap all processes that have ended. Return the exit code of the child in the form of shells, or None if the child
    still runs."""
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
