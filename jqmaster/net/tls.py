"""TLS of the listener and of calls: contexts that follow their files, so that certificates are renewed without a restart."""

import logging
import ssl
import time
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0


class LiveContext:
    """An SSL context whose files are read anew when they change. Open connections go on; new ones get what is new.

    Raises OSError (ssl.SSLError among them) where the files cannot be used at the start; later, what was read stays.
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
        """Reads the files if they changed; looks at them every `LOOK_EVERY_S` at most, and so may be called often."""
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_EVERY_S
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            # Certificate and key are two files, and one of them may be new already: tried elsewhere first, and again at
            # the next look.
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
            # Adds: an authority that is taken out is trusted until the process ends.
            context.load_verify_locations(self._cafile)

    def _stamp(self) -> list[tuple[int, int, int]]:
        found = (file.stat() for file in (self._certfile, self._keyfile, self._cafile) if file is not None)
        return [(one.st_mtime_ns, one.st_size, one.st_ino) for one in found]


def server_context(certfile: Path, keyfile: Path | None, client_cafile: Path | None) -> LiveContext:
    """For a listener. `client_cafile`: only clients come in that show a certificate of these authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_cafile is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return LiveContext(context, certfile=certfile, keyfile=keyfile, cafile=client_cafile)


def client_context(
    cafile: Path | None, certfile: Path | None, keyfile: Path | None, *, verifies: bool = True
) -> LiveContext:
    """For calls. `cafile` None: the system's authorities are trusted; `certfile`: what is shown to who asks."""
    context = ssl.create_default_context(cafile=cafile)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return LiveContext(context, certfile=certfile, keyfile=keyfile, cafile=cafile)
