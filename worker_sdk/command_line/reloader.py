"""Run a command again whenever a Python file changes: --reload of workers, for development."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from worker_sdk.command_line.interpreter import module_command

POLL_S: Final = 0.5
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class Reloader:
    """Run `python -m MODULE` with these arguments in a process of its own, and again after each change of a Python file
    under the directory. Before it restarts, the process drains, as on SIGTERM."""

    def __init__(self, module: str, arguments: Sequence[str], directory: Path) -> None:
        self._command = module_command(module, *arguments)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._is_told = False

    def run(self) -> int:
        """Run until SIGTERM, SIGINT or SIGHUP, and return the exit code of the process."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._forward_signal)
        while True:
            seen = dict(files_of(self._directory))
            self._process = process = subprocess.Popen(self._command)  # noqa: S603 - our own command
            while not self._is_told and dict(files_of(self._directory)) == seen:
                time.sleep(POLL_S)
            if not self._is_told:
                sys.stderr.write("a file changed: the worker starts again\n")
                if process.poll() is None:
                    process.terminate()
            code = process.wait()
            if self._is_told:
                return code

    def _forward_signal(self, number: int, _frame: object) -> None:
        self._is_told = True
        # Do not forward SIGINT: a terminal sends it to both processes.
        if self._process is not None and self._process.poll() is None and number != signal.SIGINT:
            self._process.send_signal(number)


def files_of(directory: Path) -> Iterator[tuple[str, int]]:
    """Yield each Python file, and when it was changed."""
    for path, folders, names in os.walk(directory):
        folders[:] = [one for one in folders if one not in _SKIPPED and not one.startswith(".")]
        for name in names:
            if name.endswith(".py"):
                try:
                    yield (file := os.path.join(path, name)), os.stat(file).st_mtime_ns
                except FileNotFoundError:  # an editor is replacing the file
                    continue
