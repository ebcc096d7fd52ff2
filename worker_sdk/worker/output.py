"""Read the outputs of a process in a separate thread, so that nothing waits for them."""

import contextlib
import os
import selectors
import threading
from types import TracebackType
from typing import Final, Self

from worker_sdk import forked
from worker_sdk.worker.job_log import STDERR_LEVEL, STDOUT_LEVEL, LogLines, OutputLines

_PIECE_BYTES: Final = 64 * 1024
# How long to read the outputs after the process has ended. An escaped child may keep them open, so their end may never
# come.
_LOOK_S: Final = 0.2


class OutputReader:
    """Copies the outputs of a process to the outputs of this process, and their lines to the log of the job.

    `stdout` and `stderr`: the descriptors for the process. The block that starts the process closes them here.
    """

    def __init__(self, log: LogLines) -> None:
        out, self.stdout = os.pipe()
        err, self.stderr = os.pipe()
        self._selector = selectors.DefaultSelector()
        for fd, own_fd, level in ((out, 1, STDOUT_LEVEL), (err, 2, STDERR_LEVEL)):
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ, (own_fd, OutputLines(log, level)))
        self._is_over = False
        forked.renew_in_child(self)

    def renew(self) -> None:
        # A process forked by another handler must not read these outputs or keep the pipes open.
        for key in list(self._selector.get_map().values()):
            forked.replace_with_devnull(key.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        os.close(self.stdout)
        os.close(self.stderr)
        if exc is not None:
            self.end()
        threading.Thread(target=self._read, name="jq-output", daemon=True).start()

    def end(self) -> None:
        """Record that the process has ended. Its output so far is still read."""
        self._is_over = True

    def _read(self) -> None:
        with contextlib.closing(self._selector):
            while self._selector.get_map():
                is_over = self._is_over
                found = self._selector.select(0 if is_over else _LOOK_S)
                for key, _ in found:
                    own_fd, lines = key.data
                    if not self._read_from(key.fd, own_fd, lines):
                        self._close(key.fd, lines)
                if is_over and not found:
                    for key in list(self._selector.get_map().values()):
                        self._close(key.fd, key.data[1])
        forked.leave(self)

    def _close(self, fd: int, lines: OutputLines) -> None:
        lines.end()
        self._selector.unregister(fd)
        os.close(fd)

    @staticmethod
    def _read_from(fd: int, own_fd: int, lines: OutputLines) -> bool:
        """Read once, and return whether there may be more."""
        try:
            piece = os.read(fd, _PIECE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not piece:
            return False
        lines.feed(piece)
        with contextlib.suppress(OSError):  # best effort: this process may have no outputs
            os.write(own_fd, piece)
        return True
