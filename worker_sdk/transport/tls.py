"""TLS of a worker's server and of calls to masters: contexts that follow their files, so that certificates are renewed without
a restart. The files are named by variables, for a process has one identity, whatever runs in it."""

import logging
import os
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


def to_masters() -> LiveContext | None:
    """For calls: `JQMASTER_CLIENT_CAFILE` names who vouches for masters, `…_CERTFILE` and `…_KEYFILE` what is shown to them. None
    where no variable is set: the system's authorities are trusted."""
    cafile, certfile, keyfile = (
        _file(f"JQMASTER_CLIENT_{name}") for name in ("CAFILE", "CERTFILE", "KEYFILE")
    )
    if cafile is None and certfile is None:
        return None
    context = ssl.create_default_context(cafile=cafile)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return LiveContext(context, certfile=certfile, keyfile=keyfile, cafile=cafile)


def of_server() -> LiveContext | None:
    """For a worker's own server: `JQMASTER_WORKER_CERTFILE` and `…_KEYFILE`; with `…_CLIENT_CAFILE` only masters come in that
    show a certificate of these authorities. None: plain HTTP."""
    certfile, keyfile = _file("JQMASTER_WORKER_CERTFILE"), _file("JQMASTER_WORKER_KEYFILE")
    client_cafile = _file("JQMASTER_WORKER_CLIENT_CAFILE")
    if certfile is None:
        if keyfile is not None or client_cafile is not None:
            raise ValueError("JQMASTER_WORKER_KEYFILE and …_CLIENT_CAFILE need JQMASTER_WORKER_CERTFILE")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_cafile is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return LiveContext(context, certfile=certfile, keyfile=keyfile, cafile=client_cafile)


def _file(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None
