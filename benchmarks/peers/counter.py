"""Counts the jobs that a peer's worker has run, in eight bytes of the file that `COUNT_FILE` names. Also prints what
the pusher costs."""

import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

ARGUMENT = "x" * 98  # 100 bytes of MessagePack


class Counter:
    """The count of jobs, in a file. Only one process writes the file."""

    def __init__(self) -> None:
        with Path(os.environ["COUNT_FILE"]).open("r+b") as file:
            self._file = mmap.mmap(file.fileno(), 8)
        self._count = 0

    def one(self) -> None:
        self._count += 1
        struct.pack_into("<q", self._file, 0, self._count)


def tell(push: Callable[[int], object]) -> None:
    """Push as many jobs as the command line says. Print when the pushes began and ended, and their CPU time."""
    before, began = os.times(), time.monotonic()
    push(int(sys.argv[1]))
    after = os.times()
    cpu_s = after.user + after.system - before.user - before.system
    json.dump({"began_s": began, "ended_s": time.monotonic(), "cpu_s": cpu_s}, sys.stdout)
