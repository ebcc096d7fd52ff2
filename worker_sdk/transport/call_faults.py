"""Describe faults of a connection: what happened, and how to fix it."""

import http.client
import socket
import ssl
from dataclasses import dataclass
from typing import Final

# Exceptions for a connection that ended without an answer, perhaps because the server speaks TLS or requires a
# certificate.
_CLOSED: Final = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected, EOFError)
_CLOSED_BY_TLS: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
# The remedy to show if the address has answered earlier calls.
HUNG_UP: Final = "it answered before, so it may have restarted, or it or a proxy accepts no more connections"


@dataclass(frozen=True, slots=True)
class Remedies:
    """Remedies of one kind of caller.

    * `refused`: the text for a refused connection.
    * `cafile` and `certfile`: the names of the settings for the authorities that the caller trusts, and for the
      certificate that it presents.
    """

    refused: str
    cafile: str
    certfile: str


OF_CLIENTS: Final = Remedies(
    "is `jqmaster serve` running there?", "JQMASTER_CLIENT_CAFILE", "JQMASTER_CLIENT_CERTFILE"
)


def fault_text(exc: BaseException) -> str:
    """Return the description of the fault, in the words of the system or of OpenSSL."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {exc.verify_message.rstrip('.')}"
    if isinstance(exc, _CLOSED_BY_TLS):
        return "the connection was closed during TLS"
    if isinstance(exc, ssl.SSLError):
        return f"TLS: {exc.reason.replace('_', ' ').lower()}" if exc.reason else f"TLS: {exc}"
    if isinstance(exc, socket.gaierror):
        return f"the host name is not known ({exc.strerror or exc})"
    if isinstance(exc, TimeoutError):
        return "timed out"
    if isinstance(exc, ConnectionRefusedError) or "Connect call failed" in str(exc):
        return "connection refused"
    if isinstance(exc, http.client.RemoteDisconnected):
        return "the connection was closed without an answer"
    if isinstance(exc, ConnectionResetError):
        return "connection reset"
    if isinstance(exc, http.client.HTTPException):
        return f"the answer is not HTTP ({type(exc).__name__})"
    text = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return text or type(exc).__name__


def remedy(exc: BaseException, address: str, remedies: Remedies, *, has_answered: bool = False) -> str:
    """Return the remedy for the fault of a call to `address`. Return an empty text if no remedy is known.
    `has_answered`: a call to this address was answered before, so its scheme is right."""
    is_tls = address.startswith(("https:", "rediss:"))
    if isinstance(exc, ssl.SSLCertVerificationError):
        return _certificate_remedy(exc, remedies)
    reason = (exc.reason or "").upper() if isinstance(exc, ssl.SSLError) else ""
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return f"it requires a client certificate: set {remedies.certfile}"
    if "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason or "CERTIFICATE_EXPIRED" in reason:
        return f"it does not accept the certificate in {remedies.certfile}"
    if isinstance(exc, socket.gaierror):
        return "is the host name right?"
    if isinstance(exc, ConnectionRefusedError) or "Connect call failed" in str(exc):
        return remedies.refused
    if (
        reason
        and is_tls
        and ("WRONG_VERSION" in reason or "RECORD_LAYER" in reason or "HTTP_REQUEST" in reason)
    ):
        return "does it serve TLS? Its address may begin with http://"
    if isinstance(exc, _CLOSED + _CLOSED_BY_TLS):
        if has_answered:
            return HUNG_UP
        if is_tls:
            return (
                f"does it require a client certificate ({remedies.certfile})? does it serve TLS at all, or is its "
                "address http://?"
            )
        return "is it https?"
    if isinstance(exc, http.client.HTTPException):
        return "is it https?" if not is_tls and not has_answered else ""
    return ""


def explained(exc: BaseException, address: str, remedies: Remedies, *, has_answered: bool = False) -> str:
    """Return the description of the fault and its remedy. `has_answered`: as for `remedy`."""
    advice = remedy(exc, address, remedies, has_answered=has_answered)
    return f"{fault_text(exc)}; {advice}" if advice else fault_text(exc)


def cause_of(exc: BaseException) -> BaseException:
    """Return the error of the system or of OpenSSL that caused an error of a client. If there is no such cause, return
    the client's error."""
    while exc.__cause__ is not None and not isinstance(exc, OSError):
        exc = exc.__cause__
    return exc


def is_final(exc: BaseException) -> bool:
    """Return whether the same call would fail again until somebody changes a file or an address."""
    return isinstance(cause_of(exc), ssl.SSLCertVerificationError)


def _certificate_remedy(exc: ssl.SSLCertVerificationError, remedies: Remedies) -> str:
    text = exc.verify_message.lower()
    if "expired" in text:
        return "renew the server's certificate"
    if "not yet valid" in text:
        return "is the clock of this machine right?"
    if "hostname mismatch" in text or "ip address mismatch" in text:
        return "call it by a name that its certificate has, or add this name to the certificate"
    return f"set {remedies.cafile} to the authorities that sign the server's certificate"
