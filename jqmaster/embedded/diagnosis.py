"""Determine why a server ended, from its log, its exit status and its disk."""

import os
import re
import shlex
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jqmaster.errors import DamagedError, JqmasterError, StoreUnavailableError, StoreUnfitError

Cause = Literal["disk_full", "disk_error", "damaged", "crashed"]

_TAIL_BYTES = 16 * 1024
# A disk with less free space than this counts as full, even if the log does not say so. A server without room for
# its data often has no room for the log line, either.
_FULL_BELOW_BYTES = 1024 * 1024
# The exit status of a server that stopped itself after a fatal error.
_ENDED_ITSELF = 1

# Texts in the log that show each cause, in the words of Redis 7.0 to Valkey 9. The first cause with a match counts.
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
            "AOF manifest",
            "AOF loading didn't",
            "the AOF file",
        ),
    ),
)
_FSYNC_SIGN = "AOF for fsync error"
_BEGINS, _SERVES, _ENDS_WELL = "oO0OoO0OoO0Oo", "Ready to accept connections", "bye bye"


@dataclass(frozen=True, slots=True)
class EndDiagnosis:
    """The reason why a server ended.

    * `line`: the server's last message about it.
    * `leaves_doubt`: some bytes of the append-only file may never reach the disk, although they can be read.
      Linux treats the pages of a failed fsync as clean, so no later fsync writes them.
    """

    cause: Cause
    line: str
    leaves_doubt: bool = False


def diagnose(log: Path, since_byte: int, *, was_serving: bool, status: int | None = None) -> EndDiagnosis:
    """Return the reason why a server ended.
    * `since_byte`: the position in the log at which the server's lines begin.
    * `status`: the exit status as in `Popen.returncode`, if it is known.
    """
    return _judge(_tail(log, since_byte), log.parent, was_serving=was_serving, status=status)


def last_ending(log: Path) -> EndDiagnosis | None:
    """Return the reason why the last server in the log ended. Return None if it was shut down normally or there
    was no server."""
    lines = _tail(log, 0)
    begins = [n for n, line in enumerate(lines) if _BEGINS in line]
    lines = lines[begins[-1] :] if begins else lines
    if not lines or any(_ENDS_WELL in line for line in lines):
        return None
    return _judge(lines, log.parent, was_serving=any(_SERVES in line for line in lines), status=None)


def _judge(lines: list[str], directory: Path, *, was_serving: bool, status: int | None) -> EndDiagnosis:
    if status is not None and status < 0:
        return EndDiagnosis("crashed", _killed_by(-status))
    ended_itself = was_serving and status == _ENDED_ITSELF
    for cause, signs in _SIGNS:
        # Skip this cause if the server has served. It had then read its files, so they were valid.
        if cause == "damaged" and was_serving:
            continue
        for line in reversed(lines):
            if any(sign in line for sign in signs):
                # A failed write leaves no gap in the file, because the server truncates the file.
                is_hole = _FSYNC_SIGN in line or (cause == "disk_error" and status in (None, _ENDED_ITSELF))
                return EndDiagnosis(cause, _message(line), leaves_doubt=was_serving and is_hole)
    if free_bytes(directory) < _FULL_BELOW_BYTES:
        return EndDiagnosis("disk_full", "no space left", leaves_doubt=ended_itself)
    return EndDiagnosis(
        "crashed", _message(lines[-1]) if lines else "it left no message", leaves_doubt=ended_itself
    )


def free_bytes(directory: Path) -> int:
    space = os.statvfs(directory)
    return space.f_bavail * space.f_frsize


def advice(ending: EndDiagnosis, directory: Path, binary: Path) -> str:
    """Return a text for operators about the event and its remedy. `binary`: the program of the server."""
    log = directory / "valkey.log"
    match ending.cause:
        case "disk_full":
            text = f"the disk of {directory} is full; free some space. No accepted job is lost"
        case "disk_error":
            text = f"the disk of {directory} has faults; read the system log"
        case "damaged":
            text = f"the data in {directory} is damaged; nothing was changed. Restore a backup"
            if named := re.search(r"appendonly\.aof\.\d+\.incr\.aof", ending.line):
                file = directory / "appendonlydir" / named.group()
                if file.exists():
                    text += _advice_to_cut(file, binary)
        case "crashed":
            text = f"the server ended; see {log}"
    return f"{text} [{ending.line}]"


def error_of(ending: EndDiagnosis, told: str) -> JqmasterError:
    """Return the error to raise when a start fails. `told`: its text."""
    if ending.cause == "damaged":
        return DamagedError(told)
    return (StoreUnfitError if ending.cause == "crashed" else StoreUnavailableError)(told)


def _advice_to_cut(file: Path, binary: Path) -> str:
    # The package contains only the server. If the server is called by the checker's name, it runs as the checker.
    whole = shlex.quote(f"{file}.whole")
    checker = f"exec -a valkey-check-aof {shlex.quote(str(binary))}"
    return (
        ", or cut off the part that cannot be read; the queue loses everything after that point, and the whole "
        f"file is kept as {file.name}.whole: (cp -p {shlex.quote(str(file))} {whole} && {checker} --fix "
        f"{shlex.quote(str(file))})"
    )


def _killed_by(number: int) -> str:
    name = signal.Signals(number).name if number in signal.valid_signals() else "?"
    return f"killed by signal {number} ({name})" + (": memory?" if number == signal.SIGKILL else "")


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
    """Strip process, time and level: `1:M 21 Nov 2026 04:46:12.457 # Short write` → `Short write`."""
    for mark in (" # ", " * "):
        if mark in line:
            line = line.split(mark, 1)[1]
    return line[:300]
