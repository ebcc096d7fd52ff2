"""The variables that stand in for what a worker or a pusher was not told."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from worker_sdk.transport.tls import LiveContext

DEFAULT_MASTER: Final = "http://127.0.0.1:8080"


def masters_or_default(given: str | Sequence[str] | None) -> str | Sequence[str]:
    """Return `given`; else the addresses in JQMASTER_URL, separated by blanks; else that of a master on this
    machine."""
    if given is not None:
        return given
    return os.environ.get("JQMASTER_URL", "").split() or DEFAULT_MASTER


def token_or_default(given: str | None) -> str | None:
    """Return `given`, which may be empty for none; else that of JQMASTER_TOKEN."""
    return given if given is not None else os.environ.get("JQMASTER_TOKEN") or None


def tls_of_calls() -> "LiveContext | None":
    """Return the TLS context of calls to masters, or None if no variable is set.

    `JQMASTER_CLIENT_CAFILE` names the authorities that sign the masters' certificates, `…_CERTFILE` and `…_KEYFILE` the
    certificate that is shown to masters. Raises OSError for files that cannot be used.
    """
    from worker_sdk.transport.tls import client_context

    cafile, certfile, keyfile = (
        _file(f"JQMASTER_CLIENT_{name}") for name in ("CAFILE", "CERTFILE", "KEYFILE")
    )
    if cafile is None and certfile is None:
        return None
    return client_context(cafile, certfile, keyfile)


def tls_of_server() -> "LiveContext | None":
    """Return the TLS context of a worker's own server, or None for plain HTTP.

    `JQMASTER_WORKER_CERTFILE` and `…_KEYFILE` name its certificate. With `…_CLIENT_CAFILE` masters must show a
    certificate of these authorities. Raises OSError for files that cannot be used, ValueError for variables that do not
    fit together.
    """
    from worker_sdk.transport.tls import server_context

    certfile, keyfile = _file("JQMASTER_WORKER_CERTFILE"), _file("JQMASTER_WORKER_KEYFILE")
    client_cafile = _file("JQMASTER_WORKER_CLIENT_CAFILE")
    if certfile is None:
        if keyfile is not None or client_cafile is not None:
            raise ValueError("JQMASTER_WORKER_KEYFILE and …_CLIENT_CAFILE need JQMASTER_WORKER_CERTFILE")
        return None
    return server_context(certfile, keyfile, client_cafile)


def _file(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None
