"""One server process that this process started or found alive. It is watched and ended through its pidfd, never
through a bare process ID."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import Self

from jqmaster.embedded.directory import DataDirectory

# Settings that only the allocator of glibc reads
# (https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html). By default, the
# allocator merges all small chunks whenever a large chunk is freed, which happens after each page of jobs.
# Merging takes a fifth of the server's time. With these values, it caches up to 32,000 chunks of each size up to
# 1 KB instead. With 8,000 chunks, the end of a job took 50 % more time while a million jobs were waiting.
_ALLOCATOR = "glibc.malloc.tcache_count=32000:glibc.malloc.mxfast=0"


class ServerProcess:
    """A server process. It needs a running event loop. `ended`: set when the process is gone."""

    def __init__(
        self, pid: int, pidfd: int, child: "subprocess.Popen[bytes] | None", log_start_byte: int
    ) -> None:
        self.pid = pid
        self.log_start_byte = log_start_byte
        self.ended = asyncio.Event()
        self._pidfd = pidfd
        self._child = child
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(pidfd, self._on_end)

    @classmethod
    def spawn(
        cls, directory: DataDirectory, binary: Path, server_lock: int, *, is_private: bool = False
    ) -> Self:
        """Start a server that holds `server_lock`. This process closes its descriptor, so the lock ends with the
        server. A private server listens on a socket that nobody else uses."""
        try:
            log_start_byte = directory.prepare_server_start(binary, is_private=is_private)
            config = directory.private_config if is_private else directory.config
            with directory.open_log() as log:
                child = subprocess.Popen(  # noqa: S603 - our own binary, no shell
                    [str(binary), str(config)],
                    stdin=subprocess.DEVNULL,
                    # Use a file, never a pipe: a full pipe that nobody reads blocks the server.
                    stdout=log,
                    stderr=log,
                    # Start a new session. Ctrl-C in a terminal ends the whole process group, but the server must
                    # outlive the draining master.
                    start_new_session=True,
                    pass_fds=(server_lock,),
                    # Do not pass our environment, because it contains tokens. The server does not need it.
                    env={"LC_ALL": "C", "GLIBC_TUNABLES": _ALLOCATOR},
                    umask=0o077,
                )
        finally:
            os.close(server_lock)
        return cls(child.pid, os.pidfd_open(child.pid), child, log_start_byte)

    @classmethod
    def adopt(cls, directory: DataDirectory, pid: int) -> Self | None:
        """Take over a server that outlived its master. Return None if `pid` is not or no longer the server of
        this directory."""
        try:
            pidfd = os.pidfd_open(pid)
        except (OSError, ValueError):
            return None
        # Check this after opening the pidfd: from then on, the process ID cannot be given to another process.
        if not directory.holds_server_lock(pid):
            os.close(pidfd)
            return None
        return cls(pid, pidfd, None, directory.log.stat().st_size if directory.log.exists() else 0)

    @property
    def status(self) -> int | None:
        """Return the exit status as in `Popen.returncode`. Return None while the server lives, and for a server
        that was taken over."""
        return self._child.returncode if self._child else None

    def send(self, number: signal.Signals) -> None:
        if not self.ended.is_set():
            signal.pidfd_send_signal(self._pidfd, number)

    async def wait(self, timeout_s: float) -> bool:
        """Wait, and return whether the process has ended within `timeout_s`."""
        try:
            await asyncio.wait_for(self.ended.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def forget(self) -> None:
        """Stop watching a process that continues to live."""
        if not self.ended.is_set():
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)

    def _on_end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._child is not None:
            self._child.wait()
        self.ended.set()
