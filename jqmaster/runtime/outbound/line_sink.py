"""Write lines for other programs to a file, which may be rotated, or to the standard output."""

import contextlib
import os
import select
import sys
import threading
from typing import Final

STDOUT: Final = "stdout"
# The number of bytes that a pipe accepts without blocking once it is ready.
_CHUNK: Final = select.PIPE_BUF
_LOOK_S: Final = 0.5


class SinkClosedError(OSError):
    """The sink was closed while a write waited for its reader."""


class LineSink:
    """Appends whole lines, and returns only when they are written. Its methods block."""

    def __init__(self, target: str) -> None:
        self._path = None if target == STDOUT else target
        self._descriptor: int | None = None
        self._is_ended = False
        # A write whose caller has been cancelled goes on in its thread. While it does, the file must not be closed, and
        # its descriptor must not be reused for another file.
        self._lock = threading.Lock()

    def write(self, lines: bytes) -> None:
        """Append the lines. Raise OSError, possibly after a part of the lines was written."""
        with self._lock:
            try:
                if self._path is None:
                    self._write_to_pipe(sys.stdout.fileno(), lines)
                else:
                    descriptor = self._opened(self._path)
                    left = memoryview(lines)
                    while left:
                        left = left[os.write(descriptor, left) :]
                    os.fsync(descriptor)
            except OSError:
                self._drop()
                raise

    def end(self) -> None:
        """Make a write that waits for its reader raise SinkClosedError. This call does not block."""
        self._is_ended = True

    def close(self) -> None:
        """Wait for a write that is under way, and close the file."""
        with self._lock:
            self._drop()

    def _opened(self, path: str) -> int:
        """Return a descriptor of the file at `path`. If the file was rotated, open the new file."""
        if self._descriptor is not None:
            mine = os.fstat(self._descriptor)
            with contextlib.suppress(FileNotFoundError):
                now = os.stat(path)
                if (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino):
                    return self._descriptor
            self._drop()
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._descriptor = descriptor
        size = os.fstat(descriptor).st_size
        # If an interrupted write left an incomplete line, end it, so that the next line is separate.
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")
        return descriptor

    def _write_to_pipe(self, descriptor: int, lines: bytes) -> None:
        left = memoryview(lines)
        while left:
            if self._is_ended:
                raise SinkClosedError(
                    "the log sink was closed while the reader of standard output was not keeping up"
                )
            if select.select([], [descriptor], [], _LOOK_S)[1]:
                left = left[os.write(descriptor, left[:_CHUNK]) :]

    def _drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
