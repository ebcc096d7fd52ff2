"""A piece of a job's log, as the archive keeps it: JSON lines, compressed."""

import gzip
import hashlib
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from jqmaster.domain.logs.lines import LEVELS, RANK, LogLevel
from jqmaster.domain.logs.page import NumberedLine
from jqmaster.errors import ArchiveDamagedError

# Maximum decompressed size, because an object that no master wrote may expand without end.
MAX_BYTES: Final = 256 * 1024 * 1024
_NAME: Final = re.compile(r"(\d{1,16})-(\d{1,15})-(\d{1,15})-([0-9a-f]{64})\.jsonl\.gz")
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, order=True)
class PieceName:
    """The name of an object: the creation time of its job, the numbers of its first and last line, and the SHA-256 of
    its bytes. The creation time distinguishes the logs of jobs that had the same ID one after another."""

    created_ms: int
    first: int
    last: int
    sha256: str

    @classmethod
    def of(cls, created_ms: int, entries: Sequence[NumberedLine], data: bytes) -> "PieceName":
        """Return the name of the object that holds these entries."""
        return cls(created_ms, entries[0].seq, entries[-1].seq, hashlib.sha256(data).hexdigest())

    @classmethod
    def parse(cls, text: str) -> "PieceName | None":
        """Return the parsed name, or None if it is not the name of a piece."""
        match = _NAME.fullmatch(text)
        return cls(int(match[1]), int(match[2]), int(match[3]), match[4]) if match else None

    def __str__(self) -> str:
        lines = f"{self.first:0{_DIGITS}}-{self.last:0{_DIGITS}}"
        return f"{self.created_ms}-{lines}-{self.sha256}.jsonl.gz"


class _PieceHead(msgspec.Struct, frozen=True):
    """The first line of an object. `dropped`: the number of lines that were missing when the object was written."""

    job_id: str
    name: str
    dropped: int


class _PieceLine(msgspec.Struct, frozen=True):
    seq: int
    attempt: int
    at_ms: int
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Entries of the log of a job with this name. `dropped`: the number of lines that were missing from the log when
    the entries were archived."""

    job_id: str
    name: str
    dropped: int
    entries: list[NumberedLine]

    def encode(self) -> bytes:
        """Return the bytes of its object. Equal pieces give equal bytes."""
        lines = [_PieceLine(e.seq, e.attempt, e.at_ms, LEVELS[e.rank], e.text) for e in self.entries]
        text = msgspec.json.Encoder().encode_lines([_PieceHead(self.job_id, self.name, self.dropped), *lines])
        return gzip.compress(text, mtime=0)

    @classmethod
    def decode(cls, name: PieceName, data: bytes) -> "Piece":
        """Return the piece that the bytes of an object hold. Raise ArchiveDamagedError."""
        if hashlib.sha256(data).hexdigest() != name.sha256:
            raise ArchiveDamagedError(
                f"the archived log is damaged: lines {name.first} to {name.last} fail their checksum"
            )
        try:
            unpacker = zlib.decompressobj(wbits=31)
            text = unpacker.decompress(data, MAX_BYTES)
            if not unpacker.eof:
                raise ValueError("too long, or cut short")
            head, _, rest = text.partition(b"\n")
            known = msgspec.json.decode(head, type=_PieceHead)
            lines = msgspec.json.Decoder(_PieceLine).decode_lines(rest)
            entries = [
                NumberedLine(line.seq, line.attempt, line.at_ms, _rank(line.level), line.text)
                for line in lines
            ]
        except (ValueError, RecursionError, zlib.error, msgspec.MsgspecError) as exc:
            # The object matches the checksum in its name, so it was written in this form and not damaged later.
            raise ArchiveDamagedError(
                f"the archived log is damaged: lines {name.first} to {name.last} cannot be read"
            ) from exc
        return cls(known.job_id, known.name, known.dropped, entries)


def newest(names: Sequence[PieceName]) -> list[PieceName]:
    """Return the pieces of the job that was created last, in the order of their lines. Leave out a piece if a longer
    piece has its lines, too: an interrupted move can leave such pieces behind."""
    found = list[PieceName]()
    created_ms = max((name.created_ms for name in names), default=0)
    for name in sorted((n for n in names if n.created_ms == created_ms), key=lambda n: (n.first, -n.last)):
        if not found or name.last > found[-1].last:
            found.append(name)
    return found


def _rank(level: str) -> int:
    return RANK[LogLevel(level)]
