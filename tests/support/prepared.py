"""`jqmaster` processes that start in a tenth of the time: forks of one that has already imported all modules.

Each has its own environment, folder, files, signals and exit. A normal start of Python takes half a second for a
command and over a second for a master, hundreds of times in a run of all tests.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
# Variables that Python and the terminal libraries read once, at startup.
READ_AT_START: Final = ("PYTHON", "LC_", "LANG", "TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TZ")
# Modules that the command, masters and workers import, at once or when needed.
MODULES: Final = (
    "certifi", "encodings.idna", "h11", "httpcore", "httptools", "httpx", "jqmaster.app", "jqmaster.cli.root",
    "jqmaster.cli.console.logs", "jqmaster.embedded", "rich.console", "rich.table",
    "typer.rich_utils", "uvicorn.lifespan.off", "uvloop", "worker_sdk.middleware", "worker_sdk.pusher.by_process",
    "worker_sdk.tasks", "worker_sdk.worker.asgi", "worker_sdk.worker.assembly", "worker_sdk.worker.puller",
    "worker_sdk.command_line.supervisor", "worker_sdk.command_line.worker", "worker_sdk.worker.worker",
)  # fmt: skip
_FILES: Final = 4
_SIZE_BYTES: Final = 4
# Python's exit code if it cannot write what is left of the output.
_OUTPUT_LOST: Final = 120
_ONE_AT_A_TIME: Final = threading.Lock()


class Prepared:
    """One process, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, ended: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended
        self._reading = threading.Lock()

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["jqmaster"], timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and self._has_ended(timeout_s):
            # Several threads may wait for one end.
            with self._reading:
                if self.returncode is None:
                    told = os.read(self._ended, 16)
                    # If the preparing process was killed, there is no status to read.
                    self.returncode = int(told) if told else -signal.SIGKILL
        return self.returncode

    def _has_ended(self, timeout_s: float | None) -> bool:
        # A test may have more files open than `select` can watch.
        poll = select.poll()
        poll.register(self._ended, select.POLLIN | select.POLLHUP)
        return bool(poll.poll(None if timeout_s is None else 1000 * timeout_s))

    def __del__(self) -> None:
        os.close(self._ended)


def is_preparable(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether `python ARGUMENTS` can be a fork: it is a command and changes no variable that is read only at
    startup."""
    names = {name for name in {*environment, *os.environ} if name.startswith(READ_AT_START)}
    return list(arguments[:2]) == ["-m", "jqmaster"] and all(
        environment.get(name) == os.environ.get(name) for name in names
    )


def start(
    arguments: Sequence[str],
    *,
    stdin: int | None = None,
    stdout: int,
    stderr: int,
    cwd: Path | None,
    env: Mapping[str, str],
) -> Prepared:
    """Start `python ARGUMENTS` in its own session with these files. Without `stdin`, its input is empty."""
    request = {"arguments": list(arguments), "cwd": str(cwd or Path.cwd()), "environment": dict(env)}
    body = json.dumps(request).encode()
    ended, end = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        given = nothing if stdin is None else stdin
        with _ONE_AT_A_TIME:
            line = _line()
            socket.send_fds(line, [len(body).to_bytes(_SIZE_BYTES)], [given, stdout, stderr, end])
            line.sendall(body)
            pid = int.from_bytes(_received(line, _SIZE_BYTES))
    finally:
        os.close(end)
        os.close(nothing)
    return Prepared(pid, ended)


def run(
    arguments: Sequence[str],
    *,
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str],
    timeout_s: float = 60,
) -> "subprocess.CompletedProcess[str]":
    """Run `python ARGUMENTS` to its end, like `subprocess.run`."""
    if not is_preparable(arguments, env):
        return subprocess.run(
            [sys.executable, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            cwd=cwd,
            env=env,
            check=False,
        )
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        process = start(
            arguments, stdin=given.fileno(), stdout=out.fileno(), stderr=err.fileno(), cwd=cwd, env=env
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess(list(arguments), code, *texts)


@functools.cache
def _line() -> socket.socket:
    """Return the line to the preparing process, which starts on first use and ends with this one."""
    here, there = socket.socketpair()
    environment = {name: text for name, text in os.environ.items() if not name.startswith("JQMASTER_")}
    process = subprocess.Popen(
        [sys.executable, __file__, str(there.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment,
        pass_fds=[there.fileno()],
        start_new_session=True,
    )
    there.close()
    # The process runs unattended until this one ends.
    process.returncode = 0
    atexit.register(here.close)
    return here


def _received(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = line.recv(size - len(data))
        if not part:
            raise EOFError("the other end is gone")
        data += part
    return data


# --- in the process that prepares


def _prepare(line: socket.socket) -> dict[str, Any]:
    """Fork for each request, and return the request in the process that handles it."""
    import gc
    import importlib

    sys.path[0] = str(ROOT)
    for name in MODULES:
        importlib.import_module(name)
    for command in importlib.import_module("jqmaster.cli.root").COMMANDS:
        importlib.import_module(command.module)
    gc.collect()
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ends: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([line.fileno(), woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            _tell_ends(ends)
        if line.fileno() not in readable:
            continue
        head, files, _, _ = socket.recv_fds(line, _SIZE_BYTES, _FILES)
        if not head:
            os._exit(0)
        head += _received(line, _SIZE_BYTES - len(head)) if len(head) < _SIZE_BYTES else b""
        request: dict[str, Any] = json.loads(_received(line, int.from_bytes(head)))
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            for target, file in enumerate(files[:3]):
                os.dup2(file, target)
            for open_file in (*files, *ends.values(), woken, wake, line.fileno()):
                os.close(open_file)
            line.detach()
            return request
        ends[pid] = files.pop()
        for file in files:
            os.close(file)
        line.sendall(pid.to_bytes(_SIZE_BYTES))


def _tell_ends(ends: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            with contextlib.suppress(BrokenPipeError):
                os.write(ends[pid], str(os.waitstatus_to_exitcode(status)).encode())
            os.close(ends.pop(pid))


def _become(request: dict[str, Any]) -> int:
    """Become the process of `python -m MODULE ARGUMENTS`, and return its exit code."""
    import runpy

    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    time.tzset()
    # Python itself starts the same way.
    sys.path[0] = request["cwd"]
    _, module, *arguments = request["arguments"]
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # Python itself ends the process by the signal.
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(codes: Sequence[int]) -> None:
    """End the process without freeing all modules, which would copy the memory that it shares with the others."""
    import gc

    if not codes:
        return
    (code,) = codes
    # Objects that were left open warn when they are collected.
    gc.collect()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = _OUTPUT_LOST
    os._exit(code)


if __name__ == "__main__":
    # Registered before all others, it runs after them, when all threads have ended.
    exit_codes: list[int] = []
    atexit.register(_end, exit_codes)
    exit_codes.append(_become(_prepare(socket.socket(fileno=int(sys.argv[1])))))
