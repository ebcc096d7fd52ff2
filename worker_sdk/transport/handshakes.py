"""Log the TLS handshakes that fail at a server, with their cause. Clients may not learn the cause."""

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

logger = logging.getLogger(__name__)

# How long to wait before the same cause is logged again.
QUIET_S: Final = 60.0
_MAX_CAUSES: Final = 100


class HandshakeLog:
    """Logs each cause at most once in `QUIET_S` seconds, with the number of handshakes that failed meanwhile."""

    def __init__(self, client_cafile: Path | None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._client_cafile = client_cafile
        self._now_s = now_s
        self._causes: dict[str, tuple[float, int]] = {}

    def watch(self, context: ssl.SSLContext) -> None:
        """Log failed handshakes of `context` from now on."""
        log = self

        class Watched(ssl.SSLObject):
            def do_handshake(self) -> None:
                try:
                    super().do_handshake()
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    raise
                except ssl.SSLError as exc:
                    log.note(exc)
                    raise

        context.sslobject_class = Watched

    def note(self, exc: ssl.SSLError) -> None:
        """Log a failed handshake if its cause was not logged a short time ago."""
        cause, now_s = self._cause(exc), self._now_s()
        logged_s, count = self._causes.get(cause, (float("-inf"), 0))
        if now_s - logged_s < QUIET_S:
            self._causes[cause] = (logged_s, count + 1)
            return
        if len(self._causes) >= _MAX_CAUSES:
            self._causes.clear()
        self._causes[cause] = (now_s, 0)
        again = f" ({count} more since the last message)" if count else ""
        logger.warning("a TLS handshake failed: %s%s", cause, again)

    def _cause(self, exc: ssl.SSLError) -> str:
        reason = (exc.reason or "").upper()
        words: Any = reason.replace("_", " ").lower() or str(exc)
        if "DID_NOT_RETURN_A_CERTIFICATE" in reason:
            return f"the client presented no certificate, but {self._client_cafile} requires one"
        if isinstance(exc, ssl.SSLCertVerificationError):
            return f"the client's certificate is not accepted: {exc.verify_message}"
        if "HTTP_REQUEST" in reason:
            return "the client speaks plain HTTP; its address of this server must begin with https://"
        if "ALERT" in reason and ("UNKNOWN_CA" in reason or "CERTIFICATE" in reason):
            return f"the client does not accept the certificate of this server ({words})"
        return str(words)
