"""The archive of job logs: objects in a directory or in storage of the S3 kind."""

import asyncio
import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from jqmaster.config import Settings
from jqmaster.domain.logs.piece import PieceName
from jqmaster.errors import ArchiveUnavailableError, JqmasterError

# Timeout of one operation. An archive that takes longer counts as unavailable.
TIMEOUT_S: Final = 20.0
RETRY_AFTER_S: Final = 10.0
_MAX_REASON: Final = 400
# The address of the metadata service of a cloud. Without configured credentials, a machine gets them from this service.
_CREDENTIALS_OF_A_MACHINE: Final = "169.254.169.254"
_SAID: Final = re.compile(
    r"<Code>(\w{1,60})</Code>|status(?: code)?:? (\d{3}(?: [A-Z][A-Za-z ]{1,40})?)|"
    r"(Connection refused|Connection reset|IncompleteMessage|dns error|certificate verify failed|UnknownIssuer)"
)


@dataclass(frozen=True, slots=True)
class ArchiveAddress:
    """The address of the archive.

    * `url`: `file:///directory` or `s3://bucket/prefix`. Without a key, credentials come from the environment, where
      AWS tools find them.
    * `endpoint`: for storage outside AWS.
    * `cafile`: CA certificates to trust there, in addition to the system's.
    """

    url: str
    endpoint: str | None = None
    region: str | None = None
    key_id: SecretStr | None = None
    secret: SecretStr | None = None
    cafile: Path | None = None

    @classmethod
    def of(cls, settings: Settings) -> "ArchiveAddress | None":
        """Return the configured address, or None if no archive is configured."""
        if settings.log_archive_url is None:
            return None
        return cls(
            settings.log_archive_url,
            settings.log_archive_endpoint,
            settings.log_archive_region,
            settings.log_archive_key_id,
            settings.log_archive_secret,
            settings.log_archive_cafile,
        )


class LogArchive:
    """The archived logs of one shard, as objects `SHARD/JOB_ID/PIECE`. Methods raise ArchiveUnavailableError."""

    def __init__(self, address: ArchiveAddress, shard: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Raise JqmasterError if the extra `archive` is not installed. Do not contact the archive yet."""
        try:
            import obstore
            from obstore import exceptions, store
        except ImportError as exc:
            raise JqmasterError("log_archive_url is set: install jqmaster[archive]") from exc
        self._obstore = obstore
        self._stores = store
        self._failures: tuple[type[Exception], ...] = (exceptions.BaseError, OSError, TimeoutError)
        self._address = address
        self._shard = shard
        self._timeout_s = timeout_s
        self._opened: Any = None
        # The archive as messages show it: its URL, and the endpoint if one is set.
        self.place = address.url if address.endpoint is None else f"{address.url} at {address.endpoint}"
        url = urlsplit(address.url)
        self._directory = Path(unquote(url.path)) if url.scheme == "file" else None

    def ref(self, job_id: str) -> str:
        """Return the path of a job's log below the URL of the archive."""
        return f"{self._shard}/{job_id}/"

    async def put(self, job_id: str, name: PieceName, data: bytes) -> None:
        """Write an object. A file is synced to the disk."""
        path = f"{self.ref(job_id)}{name}"
        async with self._asking("write to"):
            if self._directory:
                # Create the private folders here: the library would create them with the process's umask, but log lines
                # are confidential.
                await asyncio.to_thread(_make_private, self._directory / self.ref(job_id))
            await self._obstore.put_async(self._store(), path, data)
            if self._directory:
                await asyncio.to_thread(_sync, self._directory, path)

    async def get(self, job_id: str, name: PieceName) -> bytes | None:
        """Return the bytes of an object, or None if there is none."""
        async with self._asking("read"):
            try:
                found = await self._obstore.get_async(self._store(), f"{self.ref(job_id)}{name}")
                return bytes(await found.bytes_async())
            except FileNotFoundError:
                return None

    async def probe(self) -> None:
        """Write a small object, read it, and remove it. Raise ArchiveUnavailableError, whose text names the step that
        failed.
        """
        path, data = f"{self._shard}/.probe-{secrets.token_hex(8)}", b"jqmaster"
        async with self._asking("write to"):
            if self._directory:
                await asyncio.to_thread(_make_private, self._directory / self._shard)
            await self._obstore.put_async(self._store(), path, data)
        async with self._asking("read"):
            found = await self._obstore.get_async(self._store(), path)
            if bytes(await found.bytes_async()) != data:
                raise OSError("it returned other bytes than were written")
        async with self._asking("remove from"):
            await self._obstore.delete_async(self._store(), path)

    async def names(self, job_id: str) -> list[PieceName]:
        """Return the names of all pieces of a job's log, in no particular order."""
        paths = await self._paths(job_id)
        found = [PieceName.parse(path.rpartition("/")[2]) for path in paths]
        return [name for name in found if name is not None]

    async def erase(self, job_id: str, deleted_ms: int) -> int:
        """Remove a job's whole log from the archive; return the number of objects. `deleted_ms`: when the job was
        deleted. Pieces of a later job with the same ID stay.
        """
        paths = [path for path in await self._paths(job_id) if _belongs_to_earlier(path, deleted_ms)]
        async with self._asking("remove from"):
            for path in paths:
                # Ignore an object that is missing: another master may have removed it.
                with contextlib.suppress(FileNotFoundError):
                    await self._obstore.delete_async(self._store(), path)
            if self._directory:
                await asyncio.to_thread(_remove_directory, self._directory / self.ref(job_id))
        return len(paths)

    async def _paths(self, job_id: str) -> list[str]:
        async with self._asking("list"):
            found = await self._obstore.list(self._store(), self.ref(job_id)).collect_async()
            return [str(one["path"]) for one in found]

    @contextlib.asynccontextmanager
    async def _asking(self, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except self._failures as exc:
            raise ArchiveUnavailableError(
                f"cannot {what} the archive of logs {self.place}: {_reason(exc)}", retry_after_s=RETRY_AFTER_S
            ) from exc

    def _store(self) -> Any:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> Any:
        if self._directory:
            _make_private(self._directory)
            return self._stores.LocalStore(self._directory)
        address = self._address
        given = {
            "endpoint": address.endpoint,
            "region": address.region,
            "access_key_id": address.key_id and address.key_id.get_secret_value(),
            "secret_access_key": address.secret and address.secret.get_secret_value(),
        }
        return self._stores.S3Store.from_url(
            address.url,
            config=cast(Any, {key: value for key, value in given.items() if value}),
            client_options={
                "allow_http": (address.endpoint or "").startswith("http://"),
                "timeout": timedelta(seconds=self._timeout_s),
                **({"root_certificate": address.cafile.read_bytes()} if address.cafile else {}),
            },
            # Retry only once here: the archiving duty tries again later, and readers of logs are told to do so.
            retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=self._timeout_s)},
        )


def _reason(exc: BaseException) -> str:
    """Return the text of an error, with its status and code first, because the library puts long addresses before
    them."""
    text = " ".join(str(exc).split())
    if _CREDENTIALS_OF_A_MACHINE in text:
        return "no credentials: set log_archive_key_id and log_archive_secret, or AWS_ACCESS_KEY_ID"
    said = dict.fromkeys(word for found in _SAID.finditer(text) for word in found.groups() if word)
    if len(text) > _MAX_REASON:
        text = f"{text[: _MAX_REASON // 2]} … {text[-_MAX_REASON // 2 :]}"
    if isinstance(exc, TimeoutError) and not text:
        text = "timed out"
    return ": ".join([*([", ".join(said)] if said else []), text or type(exc).__name__])


def _belongs_to_earlier(path: str, deleted_ms: int) -> bool:
    name = PieceName.parse(path.rpartition("/")[2])
    return name is None or name.created_ms <= deleted_ms


def _make_private(directory: Path) -> None:
    """Create a directory, and missing directories above it, for this user alone. Existing ones keep their modes."""
    for at in (*reversed(directory.parents), directory):
        with contextlib.suppress(FileExistsError):
            at.mkdir(mode=0o700)


def _sync(directory: Path, path: str) -> None:
    """Make a file readable by this user alone. Sync it and the directories above it to the disk."""
    at = directory / path
    at.chmod(0o600)
    while True:
        number = os.open(at, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
        if at == directory:
            return
        at = at.parent


def _remove_directory(directory: Path) -> None:
    # Best effort: an empty directory contains no log.
    with contextlib.suppress(OSError):
        directory.rmdir()
