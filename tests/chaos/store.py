"""A chaos run's store. Where the machine allows it, the disk can be full and the clock can be set."""

import contextlib
import functools
import glob
import os
import subprocess
from pathlib import Path

from tests.chaos.plan import Planned, Powers
from tests.support.server import StoreServer, server_binary

ROOMY = "4g"
# Page size of the memory that serves as a disk.
PAGE_BYTES = 4096
TRIES = 20
# faketime reads its file at about this interval, in seconds. A shorter one would slow the store down.
CLOCK_LATENCY_S = 1
# Under faketime, a server prints its version within milliseconds.
_LONGEST_START_S = 3
_LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"


def faketime_library() -> str | None:
    """Return the library from FAKETIME_LIB, or the installed one."""
    return os.environ.get("FAKETIME_LIB") or next(iter(sorted(glob.glob(_LIBRARIES))), None)


@functools.cache
def powers() -> Powers:
    """Return the rights that this machine grants. A full disk needs a tmpfs, which only root may mount; the clock needs
    libfaketime."""
    library = faketime_library()
    return Powers(disk=os.geteuid() == 0, clock=library is not None and _starts_with(library))


def _starts_with(library: str) -> bool:
    """Return whether the server runs under faketime. With jemalloc, as in Debian's redis-server, it hangs: each of the
    two libraries calls the other before it is ready."""
    try:
        started = subprocess.run(
            [server_binary(), "--version"],
            env={**os.environ, "LD_PRELOAD": library},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_LONGEST_START_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return started.returncode == 0


class ChaosStore(StoreServer):
    """Prepare only what the plan needs, because a false clock costs time."""

    def __init__(self, plan: list[Planned]) -> None:
        kinds = {planned.kind for planned in plan}
        self._has_own_clock = "clock step" in kinds
        self._is_on_tmpfs = "disk full" in kinds
        self._offset_s = 0.0
        self._most_s = 0.0
        super().__init__()
        if self._is_on_tmpfs:
            _mount("-t", "tmpfs", "-o", f"size={ROOMY}", "tmpfs", str(self.directory))
        if self._has_own_clock:
            library = faketime_library()
            assert library
            self._environment |= {
                "LD_PRELOAD": library,
                "FAKETIME_TIMESTAMP_FILE": str(self._clock_file),
                "FAKETIME_CACHE_DURATION": str(CLOCK_LATENCY_S),
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1",
            }
            self.step_clock(0.0)

    @property
    def _clock_file(self) -> Path:
        return self.directory / "clock"

    @property
    def offset_s(self) -> float:
        return self._offset_s

    @property
    def ahead_s(self) -> float:
        """Return how far the latest time ever shown is ahead of now."""
        return self._most_s - self._offset_s

    def step_clock(self, by_s: float) -> None:
        """Move the clock. The change applies once TIME shows it."""
        self._offset_s += by_s
        self._most_s = max(self._most_s, self._offset_s)
        new = self._clock_file.with_suffix(".new")
        new.write_text(f"{self._offset_s:+.3f}\n")
        new.replace(self._clock_file)

    def fill_disk(self) -> None:
        """Leave no free byte on the disk. Retry if it grows during the measurement."""
        for _ in range(TRIES):
            used = os.statvfs(self.directory)
            taken = (used.f_blocks - used.f_bfree) * used.f_frsize
            with contextlib.suppress(subprocess.CalledProcessError):
                _mount("-o", f"remount,size={max(PAGE_BYTES, taken)}", str(self.directory))
                return

    def clear_disk(self) -> None:
        _mount("-o", f"remount,size={ROOMY}", str(self.directory))

    @property
    def is_down(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def stop(self) -> None:
        if self._is_on_tmpfs and not self.is_down:
            self.kill()
        if self._is_on_tmpfs:
            subprocess.run(["umount", "-l", str(self.directory)], check=True)
            self._is_on_tmpfs = False
        super().stop()


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, stdin=subprocess.DEVNULL, capture_output=True)
