"""The data directory of the embedded store: its owner, its secret, its paths and the configuration of the server."""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import tempfile
from pathlib import Path
from typing import IO
from urllib.parse import quote

from jqmaster.embedded.files import private
from jqmaster.errors import DataDirInUseError, StoreUnfitError

# Maximum length of a socket's path. In Linux, sun_path has 108 bytes, with the closing zero.
MAX_SOCKET_PATH_BYTES = 107
# Files that may exist before the first start: the master's first token, and the files of a new file system.
_HARMLESS = frozenset({"first_token", "lost+found"})
# Prefix of the names of copies of the registry of namespaces. Such copies are from a time at which this master
# used another store.
_COPY_PREFIX = "namespaces-"
MAX_LOG_BYTES = 8 * 1024 * 1024

# `hz` is the number of times per second that the server runs its background tasks. It is low, because these tasks
# are useless while the server is idle. Jobs do not wait for them. An expired key counts as expired when it is
# read, and is removed soon in any case.
_CONFIG = """\
# Written at each start by jqmaster for {binary}
port 0
unixsocket {socket}
unixsocketperm 700
requirepass {password}
dir {directory}
pidfile {pidfile}
logfile {logfile}
databases 1
hz 5
appendonly yes
appendfsync always
no-appendfsync-on-rewrite no
aof-use-rdb-preamble yes
aof-load-truncated yes
save ""
maxmemory-policy noeviction
"""


class DataDirectory:
    """A data directory, with at most one master and one server.

    Two kernel locks ensure this. The kernel releases a lock when the process that holds it ends, regardless of
    the reason. The master holds `lock`. The server itself holds `server.lock` through an inherited descriptor. So
    a master can detect a server that has outlived its master without trusting a pid file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.log = self.path / "valkey.log"
        self.config = self.path / "valkey.conf"
        self.password_file = self.path / "password"
        # Files of a private server, which serves no clients; see `EmbeddedValkey`.
        self.private_config = self.path / "valkey.private.conf"
        self.pidfile = self.path / "valkey.pid"
        self._master_lock: int | None = None

    def hold(self) -> None:
        """Lock the directory for this process. Raises DataDirInUseError, or StoreUnfitError if the directory
        cannot or must not be used."""
        try:
            self._prepare()
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreUnfitError(f"cannot use the data directory {self.path}: {error.strerror}") from error
        if not _try_lock(descriptor):
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise DataDirInUseError(
                f"the data directory {self.path} is in use by another master or a restore (process "
                f"{holder}); stop that process, or use another directory with --data-dir"
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._master_lock = descriptor

    def release(self) -> None:
        # Keep the file. If it were removed, two masters could lock two files of the same name.
        if self._master_lock is not None:
            os.close(self._master_lock)
            self._master_lock = None

    def try_server_lock(self) -> int | None:
        """Return a locked descriptor for a new server, or None while a server uses this directory."""
        descriptor = os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if _try_lock(descriptor):
            return descriptor
        os.close(descriptor)
        return None

    def holds_server_lock(self, pid: int) -> bool:
        """Return whether the process `pid` has our `server.lock` open. A pid file alone may name an unrelated
        process by now."""
        lock = str(self.path / "server.lock")
        with contextlib.suppress(OSError):
            return any(
                os.readlink(f"/proc/{pid}/fd/{number}") == lock for number in os.listdir(f"/proc/{pid}/fd")
            )
        return False

    def password(self) -> str:
        """Return the password of the server. It is generated at the first start and kept in a file that only this
        user can read."""
        with contextlib.suppress(FileNotFoundError):
            if kept := self.password_file.read_text("ascii").strip():
                return kept
        password = secrets.token_hex(32)
        _write_private(self.password_file, password + "\n")
        return password

    def doubt(self) -> None:
        """Record that bytes of the append-only file may never reach the disk. The record survives a power cut."""
        descriptor = os.open(self._doubt_mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        os.close(descriptor)
        self._sync()

    def is_in_doubt(self) -> bool:
        return self._doubt_mark.exists()

    def trust(self) -> None:
        """Record that the append-only file was rewritten, so that it can be trusted again."""
        self._doubt_mark.unlink(missing_ok=True)
        self._sync()

    def marks(self) -> dict[str, str]:
        """Return the marks of the data in this directory, by their key in the store; see
        `jqmaster.store.health.generation`."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.path / "generation").read_text("utf-8").splitlines()
            return dict(line.split(" ", 1) for line in lines if " " in line)
        return {}

    def keep_mark(self, key: str, mark: str) -> None:
        marks = {**self.marks(), key: mark}
        _write_private(
            self.path / "generation", "".join(f"{key} {mark}\n" for key, mark in sorted(marks.items()))
        )
        self._sync()

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @property
    def _doubt_mark(self) -> Path:
        return self.path / "unsynced"

    def private_socket(self) -> Path:
        """Return the socket of a server that serves only this process."""
        return self.socket().with_name("own.sock")

    def url(self) -> str:
        """Return the address of the server, with its password."""
        return f"unix://:{self.password()}@{quote(str(self.socket()))}"

    def socket(self) -> Path:
        """Return the server's socket. It is in the directory, or in a private directory with a short path if the
        path is too long."""
        inside = self.path / "valkey.sock"
        if len(os.fsencode(inside)) <= MAX_SOCKET_PATH_BYTES:
            return inside
        base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        short = base / f"jqmaster-{os.getuid()}-{name}"
        if len(os.fsencode(short / inside.name)) > MAX_SOCKET_PATH_BYTES:
            raise StoreUnfitError(
                f"the path of the socket is too long, and so is {short}; choose a shorter --data-dir"
            )
        with contextlib.suppress(FileExistsError):
            short.mkdir(mode=0o700)
        found = short.lstat()
        # Check the directory: in a shared parent directory, somebody else may have created it first.
        if (
            not stat.S_ISDIR(found.st_mode)
            or found.st_uid != os.getuid()
            or stat.S_IMODE(found.st_mode) != 0o700
        ):
            raise StoreUnfitError(f"other users can use {short}, or it is not a directory; remove it")
        return short / inside.name

    def wanted_config(self, binary: Path, *, is_private: bool = False) -> str:
        return _CONFIG.format(
            binary=binary,
            socket=_quoted(self.private_socket() if is_private else self.socket()),
            password=self.password(),
            directory=_quoted(self.path),
            pidfile=_quoted(self.pidfile),
            logfile=_quoted(self.log),
        )

    def written_config(self) -> str:
        try:
            return self.config.read_text("utf-8", "surrogateescape")
        except FileNotFoundError:
            return ""

    def pid_in_file(self) -> int:
        """Return the process ID that the server wrote, or 0. Check the ID with `holds_server_lock`."""
        try:
            return int(self.pidfile.read_text("ascii"))
        except (OSError, ValueError):
            return 0

    def prepare_server_start(self, binary: Path, *, is_private: bool) -> int:
        """Write the configuration, limit the log's size, and remove the files that a dead server left. Return the
        size of the log in bytes."""
        if is_private:
            _write_private(self.private_config, self.wanted_config(binary, is_private=True))
        # Write the configuration only if it differs, so that a restart on a full disk does not fail here.
        elif self.written_config() != (config := self.wanted_config(binary)):
            _write_private(self.config, config)
        self.socket().unlink(missing_ok=True)
        self.private_socket().unlink(missing_ok=True)
        self.pidfile.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > MAX_LOG_BYTES:
                self.log.replace(self.log.with_suffix(".log.1"))
        with self.open_log() as log:
            return log.tell()

    def open_log(self) -> IO[bytes]:
        """Open the server's log to append to it."""
        return open(self.log, "ab", opener=private)

    def _prepare(self) -> None:
        make_directory(self.path)
        if self.path.stat().st_uid != os.getuid():
            raise OSError(errno.EPERM, "it belongs to another user")
        names = os.listdir(self.path)
        if "lock" not in names and not all(map(_is_harmless, names)):
            # Refuse the directory. If somebody named it by mistake, for example a home directory, restricting
            # access to it would do harm.
            raise OSError(
                errno.ENOTEMPTY,
                "it is not empty and is not a data directory of jqmaster; name an empty or a new directory",
            )
        self.path.chmod(0o700)


def _is_harmless(name: str) -> bool:
    return name in _HARMLESS or name.startswith(_COPY_PREFIX)


def make_directory(path: Path) -> None:
    """Create the data directory if it does not exist. Raise StoreUnfitError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise StoreUnfitError(
            f"cannot use the data directory {path}: it is a file; name a directory with --data-dir"
        ) from None
    except OSError as error:
        raise StoreUnfitError(
            f"cannot make the data directory {path}: {error.strerror}; "
            "use --data-dir to name a directory that can be created"
        ) from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_private(file: Path, text: str) -> None:
    """Write the file completely or not at all. A master that is killed during the write must not leave half a
    password."""
    partial = file.with_name(file.name + ".new")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)


def _quoted(path: Path) -> str:
    """Quote a path as one word of a Valkey configuration file. The path may contain any bytes."""
    return (
        '"'
        + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in os.fsencode(path))
        + '"'
    )
