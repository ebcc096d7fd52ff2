"""The files of a backup: data files of compressed frames, and a manifest that is written last and names them all.

A directory without a manifest is not a backup. The manifest has the SHA-256 of each data file, and its last line has
the SHA-256 of all lines before it. So a single flipped bit in any file is detected.
"""

import contextlib
import errno
import hashlib
import hmac
import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any, Final

import msgpack

from jqmaster.errors import ConflictError, DamagedError, InvalidError, JqmasterError, NotFoundError
from jqmaster.store.backup.encryption import BackupCipher, KeyDerivation
from jqmaster.store.backup.values import TYPES, Record

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
_MAGIC: Final = b"jqmaster backup\n"
_FRAME_BYTES: Final = 1 << 20
_FILE_BYTES: Final = 256 << 20
# Maximum length of a valid frame. Even a frame with the largest possible argument is far shorter.
_MAX_FRAME_BYTES: Final = 1 << 30
_LENGTH: Final = struct.Struct(">I")
_UNFINISHED: Final = ".unfinished"
_MAX_MANIFEST_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class DataFile:
    name: str
    bytes: int
    sha256: str
    records: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a backup.

    * `mark`: the mark of the data (see `generation`).
    * `epoch`: the number of the newest epoch at the instant of the copy.
    * `jobs`: the number of jobs by state.
    * `objects`: the number of other objects by kind.
    """

    format: int
    version: str
    shard: str
    cut_at_ms: int
    paused_ms: int
    store: str
    mark: str
    epoch: int
    jobs: dict[str, int]
    objects: dict[str, int]
    encryption: dict[str, Any] | None
    files: tuple[DataFile, ...] = ()


class BackupWriter:
    """Writes one backup into a new or empty directory. Leaving the context without `finish` removes everything."""

    def __init__(self, directory: Path, passphrase: str | None) -> None:
        self._directory = directory
        self._derivation = KeyDerivation.fresh() if passphrase is not None else None
        self._cipher = BackupCipher(passphrase, self._derivation) if passphrase and self._derivation else None
        self._pack = msgpack.Packer(autoreset=True)
        self._files: list[DataFile] = []
        self._stream: IO[bytes] | None = None
        self._manifest: IO[bytes] | None = None
        self._pending: list[bytes] = []
        self._pending_bytes = self._frames = self._records = self._bytes = 0
        self._is_finished = False
        self._is_ours = False

    @property
    def encryption(self) -> dict[str, Any] | None:
        return self._derivation.document() if self._derivation else None

    @property
    def written_bytes(self) -> int:
        return sum(file.bytes for file in self._files) + self._bytes

    def __enter__(self) -> "BackupWriter":
        """Create the directory and the manifest. Raises ConflictError for a directory that is not empty, InvalidError
        for one that cannot be written."""
        try:
            self._is_ours = not self._directory.exists()
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # An empty file system may have the directory lost+found.
            found = sorted(one.name for one in self._directory.iterdir() if one.name != "lost+found")
            found = found or self._begin_manifest()
        except OSError as error:
            raise InvalidError(f"DIR: {self._directory} cannot be written: {error.strerror}") from error
        if found:
            self._is_finished = True
            raise ConflictError(
                f"DIR: {self._directory} is not empty (it has {found[0]}): name a new directory for each backup"
            )
        return self

    def _begin_manifest(self) -> list[str]:
        """Create the manifest. If another backup has created it first, return the name of that file."""
        name = MANIFEST + _UNFINISHED
        try:
            self._manifest = _created(self._directory / name)
        except FileExistsError:
            return [name]
        return []

    def __exit__(self, *_: object) -> None:
        for stream in (self._stream, self._manifest):
            if stream:
                with contextlib.suppress(OSError):  # a failing disk was reported before
                    stream.close()
        if self._is_finished:
            return
        # Best effort: files that remain have no manifest, so nobody takes them for a backup.
        with contextlib.suppress(OSError):
            for one in self._directory.glob("data-*"):
                one.unlink()
            for one in self._directory.glob(f"{MANIFEST}*"):
                one.unlink()
            if self._is_ours:
                self._directory.rmdir()

    def add(self, record: Record) -> None:
        """Add a record. Raises JqmasterError if the disk is full or fails."""
        packed = self._pack.pack(tuple(record))
        self._pending.append(packed)
        self._pending_bytes += len(packed)
        if self._pending_bytes >= _FRAME_BYTES:
            with _told(self._directory):
                self._write_frame()

    def finish(self, manifest: Manifest) -> None:
        """Write the pending records and the manifest. `manifest` lists no files yet."""
        assert self._manifest
        with _told(self._directory):
            if self._pending:
                self._write_frame()
            if self._stream:
                self._end_file()
            document = asdict(manifest) | {"files": [asdict(file) for file in self._files]}
            line = json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
            mac = b"hmac-sha256 " + self._cipher.mac(line).encode() + b"\n" if self._cipher else b""
            text = line + mac + b"sha256 " + hashlib.sha256(line + mac).hexdigest().encode() + b"\n"
            self._manifest.write(text)
            _to_disk(self._manifest)
            # Sync the data files to the disk first, so that a manifest never names files that a crash lost.
            _sync_directory(self._directory)
            (self._directory / (MANIFEST + _UNFINISHED)).rename(self._directory / MANIFEST)
            _sync_directory(self._directory)
            _sync_directory(self._directory.absolute().parent)
        self._is_finished = True

    def _write_frame(self) -> None:
        plain = zlib.compress(b"".join(self._pending), 1)
        number = len(self._files) + 1
        if self._stream is None:
            self._stream = _created(self._directory / (_name(number) + _UNFINISHED))
            self._digest = hashlib.sha256()
            self._frames = self._records = self._bytes = 0
            self._put(_MAGIC)
        frame = self._cipher.encrypt(number, self._frames, plain) if self._cipher else plain
        self._put(_LENGTH.pack(len(frame)))
        self._put(frame)
        self._frames += 1
        self._records += len(self._pending)
        self._pending, self._pending_bytes = [], 0
        if self._bytes >= _FILE_BYTES:
            self._end_file()

    def _put(self, text: bytes) -> None:
        assert self._stream
        self._stream.write(text)
        self._digest.update(text)
        self._bytes += len(text)

    def _end_file(self) -> None:
        assert self._stream
        _to_disk(self._stream)
        self._stream.close()
        self._stream = None
        name = _name(len(self._files) + 1)
        (self._directory / (name + _UNFINISHED)).rename(self._directory / name)
        self._files.append(DataFile(name, self._bytes, self._digest.hexdigest(), self._records))
        self._bytes = 0


class BackupReader:
    """A finished backup. The manifest is checked when the reader is created, and the data files as they are read."""

    def __init__(self, directory: Path, passphrase: str | None = None) -> None:
        """Raises NotFoundError (no backup), InvalidError (newer format, or wrong passphrase), DamagedError."""
        self._directory = directory
        line, mac = _read_manifest(directory)
        self.manifest = manifest = _manifest_of(line)
        self._cipher: BackupCipher | None = None
        if manifest.encryption is not None and passphrase is not None:
            self._cipher = BackupCipher(passphrase, KeyDerivation.of(manifest.encryption))
            if not hmac.compare_digest(mac, self._cipher.mac(line)):
                raise InvalidError(
                    "the passphrase is wrong, or somebody without it changed the manifest of the backup"
                )

    @property
    def is_readable(self) -> bool:
        """Return whether the content can be read. An encrypted backup can be read only with its passphrase."""
        return self.manifest.encryption is None or self._cipher is not None

    def check(self) -> int:
        """Check every bit of the data files, and every record if the records can be read. Return the number of records.
        Raises DamagedError."""
        if self.is_readable:
            return sum(1 for _ in self.records())
        for number, file in enumerate(self.manifest.files, 1):
            for _ in self._frames(number, file):
                pass  # reading to the end checks the digest of the file
        return sum(file.records for file in self.manifest.files)

    def records(self) -> Iterator[Record]:
        """Yield all records in order. The check of a file is complete when its last record has been yielded. Raises
        DamagedError.
        """
        for number, file in enumerate(self.manifest.files, 1):
            count = 0
            for frame, text in self._frames(number, file):
                try:
                    plain = zlib.decompress(
                        self._cipher.decrypt(number, frame, text) if self._cipher else text
                    )
                    for found in msgpack.Unpacker(_Whole(plain), raw=True, use_list=True, max_buffer_size=0):
                        record = Record(*found)
                        if not isinstance(record.key, bytes) or record.kind not in range(len(TYPES)):
                            raise ValueError(record.kind)
                        count += 1
                        yield record
                except (zlib.error, ValueError, TypeError, msgpack.UnpackException) as error:
                    raise DamagedError(
                        f"{self._directory / file.name}: frame {frame} cannot be read"
                    ) from error
            if count != file.records:
                raise DamagedError(
                    f"{self._directory / file.name} has {count} records, and the manifest says {file.records}"
                )

    def _frames(self, number: int, file: DataFile) -> Iterator[tuple[int, bytes]]:
        path, digest, size = self._directory / file.name, hashlib.sha256(), len(_MAGIC)
        try:
            with path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size != file.bytes:
                    raise DamagedError(f"{path} does not have the {file.bytes} bytes that the manifest says")
                magic = stream.read(len(_MAGIC))
                digest.update(magic)
                frame = 0
                while head := stream.read(_LENGTH.size):
                    digest.update(head)
                    length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else -1
                    if not 0 <= length <= min(_MAX_FRAME_BYTES, file.bytes - size - _LENGTH.size):
                        raise DamagedError(f"{path}: frame {frame} has a wrong length")
                    text = stream.read(length)
                    digest.update(text)
                    size += _LENGTH.size + length
                    # The digest is complete only at the end of the file, so the last frame is checked before it is
                    # used.
                    if size == file.bytes and digest.hexdigest() != file.sha256:
                        raise DamagedError(f"{path} does not have the SHA-256 that the manifest says")
                    yield frame, text
                    frame += 1
                if magic != _MAGIC or digest.hexdigest() != file.sha256:
                    raise DamagedError(f"{path} does not have the SHA-256 that the manifest says")
        except OSError as error:
            raise DamagedError(f"{path} cannot be read: {error.strerror}") from error


class _Whole:
    """A frame as a stream for msgpack, so that msgpack does not copy all of it."""

    def __init__(self, text: bytes) -> None:
        self._text, self._at = memoryview(text), 0

    def read(self, size: int) -> bytes:
        found = bytes(self._text[self._at : self._at + size])
        self._at += len(found)
        return found


def _read_manifest(directory: Path) -> tuple[bytes, str]:
    """Return the first line of the manifest, and its HMAC ("": it has none)."""
    path = directory / MANIFEST
    try:
        with path.open("rb") as stream:
            text = stream.read(_MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        raise NotFoundError(
            f"{directory} has no {MANIFEST}: it is not a backup, or the backup was not finished"
        ) from None
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}") from error
    line, *macs, digest = text.splitlines(keepends=True) if text.count(b"\n") in (2, 3) else (b"", b"")
    mac = b"".join(macs)
    if digest != b"sha256 " + hashlib.sha256(line + mac).hexdigest().encode() + b"\n":
        raise DamagedError(f"{path} is damaged: its checksum is wrong")
    return line, mac.decode("ascii", "replace").removeprefix("hmac-sha256 ").strip()


def _manifest_of(line: bytes) -> Manifest:
    try:
        document = json.loads(line)
        number = int(document["format"])
        if number > FORMAT:
            raise InvalidError(
                f"the backup has format {number}, written by jqmaster {document.get('version')}; this version reads "
                f"formats up to {FORMAT}: use that version or a newer one"
            )
        known = {field.name for field in fields(Manifest)}
        found = {name: value for name, value in document.items() if name in known}
        return Manifest(**found | {"files": tuple(DataFile(**file) for file in document["files"])})
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"the manifest cannot be read: {error}") from error


def _name(number: int) -> str:
    return f"data-{number:05}.jqb"


def _created(path: Path) -> IO[bytes]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "wb")


def _to_disk(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _told(directory: Path) -> Iterator[None]:
    """Turn an error of the disk into an error with a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise JqmasterError(
                f"the disk of {directory} is full: nothing was kept; free some space, or name another directory"
            ) from error
        raise JqmasterError(f"{directory} cannot be written: {error}") from error
