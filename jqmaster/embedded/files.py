"""The append-only files of a data directory while no server has them open."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MANIFEST: Final = "appendonly.aof.manifest"
BEGIN_ANEW: Final = "To begin with an empty queue, move the whole data directory away"
_NAMED: Final = re.compile(r"^file (\S+) seq (\d+) type ([bih])", re.MULTILINE)
_PIECE_BYTES: Final = 1024 * 1024
# The maximum number of zero bytes to cut off. With `appendfsync always`, a power cut leaves far fewer zeros. More
# zeros mean damage, and an operator must handle it.
_MAX_ZEROS: Final = 16 * 1024 * 1024
# Maximum size of the first file that a server writes; it contains no key yet.
_EMPTY_BASE_BYTES: Final = 512


def private(path: str, flags: int) -> int:
    """Open a file. Only this user can read a new file, regardless of the umask. This function is an `opener` for
    `open`."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@dataclass(frozen=True, slots=True)
class CutZeros:
    """The result of `cut_zeros`: `count` zeros were cut off `file` at byte `at`, and `kept` contains them."""

    file: Path
    at: int
    count: int
    kept: Path


class AppendOnlyFiles:
    """The append-only files below `path`, the data directory."""

    def __init__(self, path: Path) -> None:
        self.directory = path / "appendonlydir"
        self._data_dir = path

    def damage(self, *, expects_data: bool) -> str:
        """Return the fault that prevents a complete read of these files, if it is visible without reading them.
        Return "" if there is no fault.

        If a server finds no manifest, it starts with an empty store and overwrites the existing files.
        """
        try:
            text = (self.directory / MANIFEST).read_text("utf-8", "replace")
        except FileNotFoundError:
            return self._damage_without_manifest(expects_data=expects_data)
        named = self._named(text)
        if not named:
            return f"{MANIFEST} names no file"
        missing = [name for name in named if not (self.directory / name).exists()]
        return f"{MANIFEST} names {missing[0]}, which is gone" if missing else ""

    def names(self) -> frozenset[str]:
        """Return the names of the files from which the server reads the data."""
        return frozenset(self._named((self.directory / MANIFEST).read_text("utf-8", "replace")))

    def cut_zeros(self) -> CutZeros | None:
        """Cut zeros off the end of the last file, and keep a copy of them in a separate file.

        Some file systems leave zeros at the end after a power cut. No command ends with a zero, so they contain
        nothing that was acknowledged."""
        try:
            named = self._named((self.directory / MANIFEST).read_text("utf-8", "replace"))
        except FileNotFoundError:
            return None
        if not named or not named[-1].endswith(".incr.aof"):
            return None
        file = self.directory / named[-1]
        size = file.stat().st_size
        end = _end_before_zeros(file, size)
        if not 0 < size - end <= _MAX_ZEROS:
            return None
        kept = file.with_name(f"{file.name}.zeros-from-{end}")
        with open(kept, "wb", opener=private) as copy:
            copy.truncate(size - end)  # a hole in the file: it reads as zeros but takes no space
        with file.open("r+b") as stream:
            stream.truncate(end)
            os.fsync(stream.fileno())
        return CutZeros(file, end, size - end, kept)

    def sync(self) -> None:
        """Sync the files and their names to the disk. Raises OSError."""
        for path in (*(self.directory / name for name in (*self.names(), MANIFEST)), self.directory):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _damage_without_manifest(self, *, expects_data: bool) -> str:
        if (self._data_dir / "appendonly.aof").exists():
            return ""  # written by Redis before 7.0: the server converts it and writes a manifest
        if self._holds_data():
            return (
                f"{self.directory.name}/{MANIFEST} is gone, and without it the files beside it are not read"
            )
        if any(self._data_dir.glob("*.rdb")):
            return "there is an *.rdb, which no server with an append-only file reads"
        return f"{self.directory.name} is gone, with all data. {BEGIN_ANEW}" if expects_data else ""

    def _holds_data(self) -> bool:
        """Return whether there are data. The result is also False if the very first start was interrupted before
        it wrote the manifest."""
        if not self.directory.is_dir():
            return False
        for file in self.directory.iterdir():
            size = file.stat().st_size
            if file.name.startswith("temp"):
                continue
            if file.suffix == ".aof" and size > 0:
                return True
            if file.suffix == ".rdb" and size > _EMPTY_BASE_BYTES:
                return True
        return False

    @staticmethod
    def _named(manifest: str) -> list[str]:
        """Return the files in the order in which the server reads them. Leave out files that it is about to
        delete."""
        return [name for name, _, kind in _NAMED.findall(manifest) if kind != "h"]


def _end_before_zeros(file: Path, size: int) -> int:
    end = size
    with file.open("rb") as stream:
        while end > 0:
            begin = max(0, end - _PIECE_BYTES)
            stream.seek(begin)
            piece = stream.read(end - begin).rstrip(b"\0")
            if piece:
                return begin + len(piece)
            end = begin
    return 0
