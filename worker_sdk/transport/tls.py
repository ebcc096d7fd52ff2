"""TLS contexts of listeners and of calls. They follow their files, so that certificates are renewed without a
restart."""

import errno
import logging
import os
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from worker_sdk.transport.certificate import not_after_s
from worker_sdk.transport.handshakes import HandshakeLog

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0
# How long before a certificate expires the first warning is logged, and how often the warning is repeated.
WARN_BEFORE_S: Final = 14 * 86_400.0
_WARN_EVERY_S: Final = 86_400.0


class TlsFileError(OSError):
    """A file with certificates or a key cannot be used. The text names the file."""

    def __str__(self) -> str:
        return str(self.strerror)


class LiveContext:
    """An SSL context that reads its files again when they change. Open connections keep the former certificates.

    Raises TlsFileError if the files cannot be used at the start. If they cannot be used later, the former content stays
    in use.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        certfile: Path | None = None,
        keyfile: Path | None = None,
        cafile: Path | None = None,
    ) -> None:
        self.context = context
        self._certfile, self._keyfile, self._cafile = certfile, keyfile, cafile
        try:
            self._load(context)
            self._seen = self._stamp()
        except OSError as exc:
            raise _named(exc, (certfile, keyfile, cafile)) from exc
        self._look_at_s = time.monotonic() + LOOK_EVERY_S
        self._fault = ""
        self._ends_s: float | None = None
        self._warned_s = float("-inf")
        self._note_end()

    @property
    def ends_s(self) -> float | None:
        """Return when the certificate ends, in Unix time. None: there is no certificate, or it cannot be read."""
        return self._ends_s

    def refresh(self) -> None:
        """Read the files again if they changed. Frequent calls are cheap: they check the files at most once in
        `LOOK_EVERY_S`."""
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_EVERY_S
        self._warn_of_end()
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            # Test both files in a separate context: perhaps only one of certificate and key has been replaced yet. If
            # so, the next check tries again.
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(self.context)
        except OSError as exc:
            fault = str(_named(exc, (self._certfile, self._keyfile, self._cafile)))
            if fault != self._fault:
                self._fault = fault
                logger.warning("%s; the former content stays in use", fault)
            return
        self._seen, self._fault = stamp, ""
        logger.info("%s was read anew", self._certfile or self._cafile)
        self._note_end()

    def _note_end(self) -> None:
        self._ends_s = not_after_s(self._certfile) if self._certfile is not None else None
        self._warned_s = float("-inf")
        self._warn_of_end()

    def _warn_of_end(self) -> None:
        if self._ends_s is None:
            return
        now_s = time.time()
        if self._ends_s - now_s > WARN_BEFORE_S or now_s - self._warned_s < _WARN_EVERY_S:
            return
        self._warned_s = now_s
        ends = datetime.fromtimestamp(self._ends_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
        if self._ends_s <= now_s:
            logger.warning("the certificate in %s expired on %s: renew it", self._certfile, ends)
        else:
            logger.warning("the certificate in %s ends on %s: renew it", self._certfile, ends)

    def _load(self, context: ssl.SSLContext) -> None:
        if self._certfile is not None:
            context.load_cert_chain(self._certfile, self._keyfile)
        if self._cafile is not None:
            # Authorities are only added: a removed one stays trusted until the process ends.
            context.load_verify_locations(self._cafile)

    def _stamp(self) -> list[tuple[int, int, int]]:
        found = (file.stat() for file in (self._certfile, self._keyfile, self._cafile) if file is not None)
        return [(one.st_mtime_ns, one.st_size, one.st_ino) for one in found]


def check_files(certfile: Path | None, keyfile: Path | None, cafile: Path | None) -> None:
    """Raise TlsFileError if a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        if certfile is not None:
            context.load_cert_chain(certfile, keyfile)
        if cafile is not None:
            context.load_verify_locations(cafile)
    except OSError as exc:
        raise _named(exc, (certfile, keyfile, cafile)) from exc


def server_context(certfile: Path, keyfile: Path | None, client_cafile: Path | None) -> LiveContext:
    """Return the context of a listener. With `client_cafile`, clients must present a certificate that an authority in
    this file signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_cafile is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    HandshakeLog(client_cafile).watch(context)
    return LiveContext(context, certfile=certfile, keyfile=keyfile, cafile=client_cafile)


def client_context(
    cafile: Path | None, certfile: Path | None, keyfile: Path | None, *, verifies: bool = True
) -> LiveContext:
    """Return the context of calls. Without `cafile`, the authorities of the system are trusted. `certfile` is presented
    to servers that request a certificate."""
    try:
        context = ssl.create_default_context(cafile=cafile)
    except OSError as exc:
        raise _named(exc, (cafile,)) from exc
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return LiveContext(context, certfile=certfile, keyfile=keyfile, cafile=cafile)


def _named(exc: OSError, files: tuple[Path | None, ...]) -> TlsFileError:
    """Return the error with the name of the file, which OpenSSL omits."""
    given = [file for file in files if file is not None]
    for file in given:
        if not file.is_file():
            return TlsFileError(errno.ENOENT, f"{file}: no such file")
        if not os.access(file, os.R_OK):
            return TlsFileError(errno.EACCES, f"{file}: not readable by this process")
    names = " and ".join(map(str, given[:2]) if len(given) > 1 else map(str, given))
    reason = (exc.reason or "").upper() if isinstance(exc, ssl.SSLError) else ""
    if "KEY_VALUES_MISMATCH" in reason:
        return TlsFileError(errno.EINVAL, f"{names}: the key does not belong to the certificate")
    if "NO_CERTIFICATE_OR_CRL_FOUND" in reason or "NO_START_LINE" in reason or reason == "PEM_LIB":
        return TlsFileError(errno.EINVAL, f"{names}: contains no certificate or no key in PEM form")
    words = reason.replace("_", " ").lower() or exc.strerror or str(exc)
    return TlsFileError(exc.errno or errno.EINVAL, f"{names}: {words}")
