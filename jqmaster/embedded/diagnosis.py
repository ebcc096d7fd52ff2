"""Why a server ended, read from its log and its disk."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Cause = Literal["disk_full", "disk_error", "damaged", "crashed"]

_TAIL_BYTES = 16 * 1024
# A server that found no room for its data often found none for the line that says so either.
_FULL_BELOW_BYTES = 1024 * 1024

# The first line that matches decides; the words are those of Redis 7.0 to Valkey 9.
_SIGNS: tuple[tuple[Cause, tuple[str, ...]], ...] = (
    ("disk_full", ("No space left on device", "Short write while writing to the AOF", "Disk quota exceeded")),
    ("disk_error", ("Input/output error", "Read-only file system", "AOF write error", "AOF for fsync error")),
    (
        "damaged",
        (
            "Bad file format reading the append only file",
            "Internal error in RDB reading",
            "Wrong RDB checksum",
            "Unexpected end of file reading the append only file",
            "Unable to obtain the AOF file",
            "AOF manifest file",
            "AOF loading didn't",
            "the AOF file",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Ending:
    """`line` is the server's own last word on it."""

    cause: Cause
    line: str


def diagnose(log: Path, since_byte: int, *, was_serving: bool) -> Ending:
    """What ended the server whose log lines begin at `since_byte`."""
    lines = _tail(log, since_byte)
    for cause, signs in _SIGNS:
        # A server that has served has read its files: whatever it died of, they were sound.
        if cause == "damaged" and was_serving:
            continue
        for line in reversed(lines):
            if any(sign in line for sign in signs):
                return Ending(cause, _message(line))
    if free_bytes(log.parent) < _FULL_BELOW_BYTES:
        return Ending("disk_full", "no space left")
    return Ending("crashed", _message(lines[-1]) if lines else "it left no message")


def free_bytes(directory: Path) -> int:
    space = os.statvfs(directory)
    return space.f_bavail * space.f_frsize


def _tail(log: Path, since_byte: int) -> list[str]:
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(min(since_byte, size), size - _TAIL_BYTES))
            text = stream.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()]


def _message(line: str) -> str:
    """Without process, time and level: `1:M 21 Nov 2026 04:46:12.457 # Short write` → `Short write`."""
    for mark in (" # ", " * "):
        if mark in line:
            line = line.split(mark, 1)[1]
    return line[:300]
