"""The copy of the registry on a master's disk. A master uses it while the registry's store is away."""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Final

from jqmaster.errors import DamagedError
from jqmaster.store.namespaces.documents import fields_of, namespace_of
from jqmaster.store.namespaces.namespaces import StoredNamespaces

# The prefix of every copy's file name. It shows that a directory is a data directory.
FILE_PREFIX: Final = "namespaces-"
_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError)


class RegistryCopy:
    """A file in the data directory: a line with the SHA-256 of the rest, and the registry as JSON.

    The masters of an installation on one machine may share the file. The name of the file follows from the address of
    the store and the shard, so that other installations on the machine have separate copies.
    """

    def __init__(self, data_dir: Path, url: str, shard: str) -> None:
        # Derive the file name from the URL without credentials, because the credentials may change.
        scheme, _, rest = url.partition("://")
        origin = f"{scheme}://{rest.rpartition('@')[2]} {shard}"
        self.path = data_dir / f"{FILE_PREFIX}{hashlib.sha256(origin.encode()).hexdigest()[:12]}"

    def read(self) -> StoredNamespaces | None:
        """Return the last copy of the registry, or None if there is none. Blocks. Raise DamagedError, OSError."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        digest, _, text = content.partition(b"\n")
        try:
            if digest.decode() != hashlib.sha256(text).hexdigest():
                raise ValueError("its digest differs")
            document = json.loads(text)
            namespaces = {name: namespace_of(name, fields) for name, fields in document["namespaces"].items()}
            return StoredNamespaces(int(document["version"]), namespaces)
        except _UNREADABLE as exc:
            raise DamagedError(f"{self.path}, the copy of the registry of namespaces, is damaged") from exc

    def write(self, registry: StoredNamespaces) -> None:
        """Replace the copy as a whole. Blocks. Raise OSError."""
        document = {
            "version": registry.version,
            "namespaces": {name: fields_of(one) for name, one in registry.namespaces.items()},
        }
        text = json.dumps(document, indent=1).encode()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # First write a file with a name of its own, because another master may write the same copy at this moment.
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
        descriptor = os.open(
            partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(self.path)
