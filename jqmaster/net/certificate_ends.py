"""The expiry of the certificates that a master presents."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from worker_sdk.transport.certificate import not_after_s
from worker_sdk.transport.tls import WARN_BEFORE_S


class CertificateFiles(Protocol):
    """The settings that name certificates."""

    @property
    def tls_certfile(self) -> Path | None: ...

    @property
    def calls_certfile(self) -> Path | None: ...

    @property
    def redis_certfile(self) -> Path | None: ...


def certificate_ends_s(files: CertificateFiles) -> dict[str, float]:
    """Read the files. Return the expiry of each certificate in Unix time, by the setting that names its file.
    Leave out files that cannot be read."""
    return {name: end_s for name, _, end_s in _ends(files)}


def ending_soon(files: CertificateFiles) -> list[str]:
    """Return a text for each certificate that has expired or will expire soon."""
    now_s, found = time.time(), []
    for name, file, end_s in _ends(files):
        if end_s - now_s <= WARN_BEFORE_S:
            when = datetime.fromtimestamp(end_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
            how = "ends" if end_s > now_s else "expired"
            found.append(f"the certificate in {file} ({name}) {how} on {when}")
    return found


def _ends(files: CertificateFiles) -> Iterator[tuple[str, Path, float]]:
    named = {
        "tls_certfile": files.tls_certfile,
        "calls_certfile": files.calls_certfile,
        "redis_certfile": files.redis_certfile,
    }
    for name, file in named.items():
        if file is not None and (end_s := not_after_s(file)) is not None:
            yield name, file, end_s
