"""Run a worker or a master as the first process of a container, which must reap all orphans and handle signals.

A process that reaps all orphans also reaps its own children, and loses exit codes that are still needed. So the work
continues in a child, and the first process becomes a small program that forwards signals and reaps processes.
"""

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

from worker_sdk.worker.init_process import FORWARDED

logger = logging.getLogger(__name__)

_PROGRAM: Final = Path(__file__).with_name("init_process.py")
_FIRST: Final = 1


def give_way() -> None:
    """If this is the first process, return in a child; the first process then ends with the child's exit code. Call
    this before anything else is started."""
    if os.getpid() != _FIRST or not hasattr(os, "fork"):
        return
    if len(os.listdir("/proc/self/task")) > 1:
        # Do not fork: the threads of the application would be missing in the child.
        logger.warning(
            "this process is the first process of a container and has threads already, so orphans of handlers stay "
            "zombies: start it under an init (docker run --init)"
        )
        return
    # Block signals until `init_process` handles them: before that, they would be lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        # Put the child into another process group, because Ctrl-C in a terminal would otherwise reach it twice.
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    os.execv(sys.executable, [sys.executable, "-I", "-S", str(_PROGRAM), str(child)])  # noqa: S606 - our own program
