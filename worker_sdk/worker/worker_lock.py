"""A lock that shows whether the process that served a URL before has ended.

The lock is a socket in Linux's abstract namespace. The kernel frees it when the process ends in any way. A copy of the
machine does not hold it, and a container elsewhere does not, either. So the process that holds the lock knows that no
other worker at this URL is alive on this machine.
"""

import contextlib
import hashlib
import socket
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# The inode of this file identifies the network namespace. Abstract names of sockets are unique in it.
_NAMESPACE: Final = Path("/proc/self/ns/net")


class WorkerLock:
    """The lock of one worker."""

    def __init__(self) -> None:
        self._lock: socket.socket | None = None

    def take(self, url: str) -> str:
        """Take the lock of `url`. Return a name of this machine for the registration; the name stays valid until the
        machine restarts. Return "" if another process holds the lock, or if the system has no such locks."""
        try:
            name = f"{_BOOT_ID.read_text().strip()} {_NAMESPACE.stat().st_ino}"
            if self._lock is None:
                lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                try:
                    lock.bind(b"\0jqmaster-worker-" + hashlib.sha256(url.encode()).hexdigest()[:32].encode())
                except BaseException:
                    lock.close()
                    raise
                self._lock = lock
        except OSError:
            return ""
        return hashlib.sha256(name.encode()).hexdigest()[:32]

    def leave(self, *, is_idle: bool) -> None:
        """Release the lock when the worker is stopped. While one of its handlers still runs, the lock stays until the
        process ends."""
        if self._lock is None:
            return
        if is_idle:
            self._lock.close()
        else:
            with contextlib.suppress(OSError):
                self._lock.detach()
        self._lock = None
