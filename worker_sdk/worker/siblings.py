"""Coordinate the processes of a web server that mount the same worker: only one process may serve its URL."""

import asyncio
import contextlib
import hashlib
import logging
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from worker_sdk import forked

logger = logging.getLogger(__name__)

# How long a new process waits for the old one to end. A server that is reloaded starts the new process before the old
# process ends.
HANDOVER_S: Final = 5.0
_PAUSE_S: Final = 0.05


class SiblingError(RuntimeError):
    """Another process of this machine serves the same URL."""


class ProcessLock:
    """A lock between the processes of this machine. The kernel frees it when the process ends in any way."""

    def __init__(self, name: str) -> None:
        self._name = f"jqmaster-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        self._fd = -1
        forked.renew_in_child(self)

    def take(self) -> bool:
        """Take the lock, and return whether this process has it. Return True if the system has no such locks."""
        if self._fd < 0:
            try:
                self._fd = lock_of_system(self._name)
            except BlockingIOError:
                return False
        return True

    def free(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
        self._fd = -1

    def renew(self) -> None:
        # A process forked by a handler must not hold the lock after the worker has ended.
        if self._fd >= 0:
            forked.replace_with_devnull(self._fd)
        self._fd = -1


class Siblings:
    """The right of one process to serve `url`: `serving` while it takes jobs, `present` until its last job is over."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._serving = ProcessLock(f"serving {url}")
        self._present = ProcessLock(f"present {url}")

    async def claim(self, handover_s: float = HANDOVER_S) -> None:
        """Make this the process that serves the URL. Raise SiblingError if another one serves it and does not stop."""
        end_s = time.monotonic() + handover_s
        while not self._serving.take():
            if time.monotonic() >= end_s:
                raise SiblingError(
                    f"another process of this machine serves this worker at {self._url}, but a URL leads to only "
                    "one process. If several processes serve your application, use Worker(pull=True), or omit url, "
                    "so that each process listens at its own address"
                )
            await asyncio.sleep(_PAUSE_S)

    def may_register(self) -> bool:
        """Return whether the process that served the URL before has ended. Before that, a registration would end the
        leases of that process's jobs."""
        return self._present.take()

    def drain(self) -> None:
        """Let the next process take over. The next process registers when this process has left."""
        self._serving.free()

    def leave(self, *, is_idle: bool) -> None:
        """Release the locks when the worker is stopped. While a handler of this process still runs, the next process
        waits for the end of this process."""
        self._serving.free()
        if is_idle:
            self._present.free()


def abstract_lock(name: str) -> int:
    """Take the lock, and return its descriptor. Raise BlockingIOError if it is taken. Abstract names belong to a
    network namespace, as ports do."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(b"\0" + name.encode())
    except OSError as exc:
        lock.close()
        raise BlockingIOError(name) from exc
    return lock.detach()


def file_lock(name: str) -> int:
    """Take the lock, and return its descriptor. Raise BlockingIOError if it is taken. Return -1 if the system has no
    such locks."""
    try:
        import fcntl
    except ImportError:
        return -1
    try:
        fd = os.open(Path(tempfile.gettempdir()) / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        # best effort: the file belongs to another user, or no directory for it exists.
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(fd)
        raise BlockingIOError(name) from exc
    return fd


lock_of_system = abstract_lock if sys.platform == "linux" else file_lock
