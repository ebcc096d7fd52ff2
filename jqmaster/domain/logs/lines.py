"""Lines of a job's log, as a worker sends them and as the store keeps them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

# Maximum size of a chunk, which is stored, read and dropped as a whole.
CHUNK_LINES: Final = 1_000
CHUNK_BYTES: Final = 64 * 1024
# The bytes that a line needs besides its text: sequence number, instant and level.
LINE_BYTES: Final = 16


class LogLevel(StrEnum):
    """The levels of log lines, the least important first."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


LEVELS: Final = tuple(LogLevel)
RANK: Final = {level: rank for rank, level in enumerate(LEVELS)}


class LogLine(NamedTuple):
    """A stored line. `seq` grows within the claim of the line. `rank` is the rank of its level."""

    seq: int
    at_ms: int
    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class LogLimits:
    """The most bytes of a line, of the log of one job, and of all logs together."""

    max_line_bytes: int
    max_job_bytes: int
    max_bytes: int


class LogChunk(NamedTuple):
    """Consecutive lines of one claim. `size`: the bytes that count against the limits."""

    lines: list[LogLine]
    size: int

    @property
    def first(self) -> int:
        return self.lines[0].seq

    @property
    def last(self) -> int:
        return self.lines[-1].seq


def chunks(lines: Iterable[LogLine]) -> Iterator[LogChunk]:
    """Yield the lines in chunks of bounded size."""
    found, size = list[LogLine](), 0
    for line in lines:
        # Count characters as bytes: most texts are ASCII, and a limit need not be exact for the others.
        cost = len(line.text) + LINE_BYTES
        if found and (len(found) == CHUNK_LINES or size + cost > CHUNK_BYTES):
            yield LogChunk(found, size)
            found, size = [], 0
        found.append(line)
        size += cost
    if found:
        yield LogChunk(found, size)


# Matches texts without any character that acts on a terminal. In other texts, colours and styles (\x1b[…m) stay. Other
# sequences are removed. A visible mark replaces other control characters, and characters that reorder text.
_HARMLESS: Final = re.compile(r"[\t\n\x20-\x7e\xa0-\u200d\u2010-\u2027\u2030-\u2065\u206a-\U0010ffff]*")
_SEQUENCE: Final = re.compile(
    r"(\x1b\[[0-9;:]{0,64}m)"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
MARK: Final = "\N{REPLACEMENT CHARACTER}"


def clean(text: str | bytes, max_bytes: int) -> str:
    """Return the text of a line without anything that acts on terminals, except colours. A text that is too
    long is cut, and its end says so."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    size = len(text)
    if size > max_bytes:
        text = text[:max_bytes]
    if not _HARMLESS.fullmatch(text):
        text = _cleaned(text)
    return f"{text} … (cut: {size:,} characters)" if size > max_bytes else text


def _cleaned(text: str) -> str:
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        # Keep only the text after the last return of each line, as a terminal shows it. It is the newest state of a
        # progress bar.
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    if "\x1b" in text or "\x9b" in text:
        text = _SEQUENCE.sub(lambda match: match[1] or "", text)
    return _CONTROL.sub(MARK, text)


def _last_state(line: str) -> str:
    states = [state for state in line.split("\r") if state]
    return states[-1] if states else ""


@dataclass(slots=True)
class LogFigures:
    """Counts of lines.

    * `kept`: stored lines.
    * `dropped`: lines left out because of limits of masters or workers.
    * `stale`: lines from claims that are over.
    """

    kept: int = 0
    dropped: int = 0
    stale: int = 0


@dataclass(slots=True)
class ArchiveFigures:
    """Counts of one master.

    * `logs`, `lines`: the logs and lines that were moved to the archive.
    * `erased`: logs of deleted jobs that were removed from the archive.
    * `failures`: failures of the archive.
    * `damaged`: logs that could not be read.
    * `given_up`: lines that were removed because they had waited for too long.
    """

    logs: int = 0
    lines: int = 0
    erased: int = 0
    failures: int = 0
    damaged: int = 0
    given_up: int = 0
