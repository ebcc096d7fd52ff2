"""A real MariaDB or MySQL server for tests, if the machine has one. CI does not need one."""

import os
import shutil
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.ports import free_port

# Servers refuse to run as root unless told to.
_NOBODY: Final = 65534
_AS_NOBODY: Final[dict[str, Any]] = (
    {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
)
# Debian installs servers where only administrators look.
_PLACES: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
# The input ends with the test process, however that ends.
_WATCH: Final = """
read -r _; kill -KILL "$1"
while [ -d "/proc/$1" ] && ! grep -q "^State:.Z" "/proc/$1/status"; do sleep 0.05; done
rm -rf -- "$2"
"""


class MySqlServer:
    """A server on its own port. Durability is off, because tests kill clients and not this server."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._directory = Path(tempfile.mkdtemp(prefix="jqmy"))
        self._port = free_port()
        self._count = 0

    def start(self) -> None:
        """Create the files and start."""
        if os.geteuid() == 0:
            os.chown(self._directory, _NOBODY, _NOBODY)
        data = f"--datadir={self._directory / 'data'}"
        if installer := shutil.which("mariadb-install-db", path=_PLACES):
            self._run(
                installer, "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db"
            )
        else:
            self._run(self._program, "--no-defaults", "--initialize-insecure", data)
        self._serve()

    def restart(self) -> None:
        """Crash, cutting all connections, and restart with the committed data."""
        self._end()
        self._serve()

    def new_database(self) -> str:
        """Create an empty database, and return its address without the scheme."""
        self._count += 1
        name = f"t{self._count}"
        with self._connection() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return f"root@127.0.0.1:{self._port}/{name}"

    def stop(self) -> None:
        """Stop at once and remove the files."""
        self._end()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _serve(self) -> None:
        options = (
            "--no-defaults",
            f"--datadir={self._directory / 'data'}",
            f"--socket={self._directory / 'socket'}",
            f"--pid-file={self._directory / 'pid'}",
            "--bind-address=127.0.0.1",
            f"--port={self._port}",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-flush-method=nosync",
            "--innodb-buffer-pool-size=64M",
        )
        with (self._directory / "log").open("ab") as output:
            self._process = subprocess.Popen(
                [self._program, *options],
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
        import pymysql

        deadline_s = time.monotonic() + 60
        while True:
            try:
                self._connection().close()
            except pymysql.Error as exc:
                if self._process.poll() is not None or time.monotonic() > deadline_s:
                    raise RuntimeError((self._directory / "log").read_text()[-2000:]) from exc
                time.sleep(0.05)
            else:
                return

    def _connection(self) -> Any:
        import pymysql

        return pymysql.connect(host="127.0.0.1", port=self._port, user="root")

    def _end(self) -> None:
        # The watch removes the files if this process dies.
        self._watch.kill()
        self._watch.wait()
        assert self._watch.stdin is not None
        self._watch.stdin.close()
        self._process.kill()
        self._process.wait()

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
            **_AS_NOBODY,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {(done.stdout + done.stderr)[-2000:]}")


def mysql_or_skip() -> MySqlServer:
    """Return a started server, or skip the test with the reason."""
    program = shutil.which("mariadbd", path=_PLACES) or shutil.which("mysqld", path=_PLACES)
    if program is None:
        pytest.skip("MySQL: neither mariadbd nor mysqld is installed")
    if find_spec("pymysql") is None:
        pytest.skip("MySQL: the driver PyMySQL is not installed")
    server = MySqlServer(program)
    try:
        server.start()
    except (OSError, RuntimeError) as exc:
        pytest.skip(f"MySQL: {program} does not start here: {exc}")
    return server
