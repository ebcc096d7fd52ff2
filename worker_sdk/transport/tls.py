"""TLS contexts of listeners and of calls. They follow their files, so that certificates are renewed without a
restart."""

import logging
import ssl
import time
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0


class LiveContext:
    """An SSL context that reads its files again when they change. Open connections keep the former certificates.

    Raises OSError, such as ssl.SSLError, if the files cannot be used at the start. If they cannot be used later, the
    former content stays in use.
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
        self._seen = self._stamp()
        self._load(context)
        self._look_at_s = time.monotonic() + LOOK_EVERY_S

    def refresh(self) -> None:
        """Read the files if they changed. It may be called often: it checks them at most every `LOOK_EVERY_S`."""
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_EVERY_S
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            # Certificate and key are two files, and only one of them may be new so far. Try them in a separate context
            # first, and try again at the next check.
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(self.context)
        except OSError as exc:
            logger.warning(
                "%s cannot be used yet, the old one stays: %s", self._certfile or self._cafile, exc
            )
            return
        self._seen = stamp
        logger.info("%s was read anew", self._certfile or self._cafile)

    def _load(self, context: ssl.SSLContext) -> None:
        if self._certfile is not None:
            context.load_cert_chain(self._certfile, self._keyfile)
        if self._cafile is not None:
            # This only adds authorities: one that was removed stays trusted until the process ends.
            context.load_verify_locations(self._cafile)

    def _stamp(self) -> list[tuple[int, int, int]]:
        found = (file.stat() for file in (self._certfile, self._keyfile, self._cafile) if file is not None)
        return [(one.st_mtime_ns, one.st_size, one.st_ino) for one in found]


def server_context(certfile: Path, keyfile: Path | None, client_cafile: Path | None) -> LiveContext:
    """Return the context of a listener. With `client_cafile`, clients must show a certificate of these authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_cafile is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return LiveContext(context, certfile=certfile, keyfile=keyfile, cafile=client_cafile)


def client_context(
    cafile: Path | None, certfile: Path | None, keyfile: Path | None, *, verifies: bool = True
) -> LiveContext:
    """Return the context of calls. Without `cafile` the system's authorities are trusted; `certfile` is shown to
    servers that ask."""
    context = ssl.create_default_context(cafile=cafile)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return LiveContext(context, certfile=certfile, keyfile=keyfile, cafile=cafile)
