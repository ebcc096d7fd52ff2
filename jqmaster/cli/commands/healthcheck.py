"""`jqmaster healthcheck`: the health check of containers, for masters and for workers."""

import http.client
import os
import ssl
import time
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from jqmaster.cli.console import exits

_ANYWHERE: Final = frozenset({"", "0.0.0.0", "::", "localhost"})  # noqa: S104 - a comparison
# A worker sends a heartbeat every second. After this long without an answer, its leases have ended as well.
_FRESH_S: Final = 30.0


def healthcheck(
    url: Annotated[
        str | None,
        typer.Option(
            help="Ask this address, such as http://127.0.0.1:9000/ping, instead of the configured master."
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the answer.")] = 2.0,
) -> None:
    """Check that the master or worker of this container is alive.

    A worker keeps the file that JQMASTER_HEALTH_FILE names fresh while a master answers its heartbeats. If the
    file exists, it decides, so that a worker that pulls can be checked too. Otherwise, the check calls /healthz at
    the host and port of the settings. Liveness only: a master whose store is unreachable is alive.
    """
    file = os.environ.get("JQMASTER_HEALTH_FILE")
    if url is None and file and (age_s := _age_s(Path(file))) is not None:
        if age_s > _FRESH_S:
            exits.fail(
                exits.UNREACHABLE, f"no master has answered a heartbeat of this worker for {age_s:.0f} s"
            )
        return
    address = url or _own_address()
    try:
        status = _get(address, timeout)
    except (OSError, http.client.HTTPException, ValueError) as error:
        exits.fail(exits.UNREACHABLE, f"no answer from {address}: {error or type(error).__name__}")
    if status != 200:
        exits.fail(exits.UNREACHABLE, f"{address} answered {status}")


def _age_s(file: Path) -> float | None:
    try:
        return max(0.0, time.time() - file.stat().st_mtime)
    except OSError:
        return None


def _own_address() -> str:
    from jqmaster.cli.console.settings import load_settings

    settings = load_settings()
    host = "127.0.0.1" if settings.host in _ANYWHERE else settings.host
    scheme = "https" if settings.tls_certfile else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}/healthz"


def _get(address: str, timeout_s: float) -> int:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected http://host:port/path")
    connection = (
        http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=_unverified())
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    )
    try:
        connection.request("GET", parts.path or "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


def _unverified() -> ssl.SSLContext:
    # The certificate is for the name that clients use, but this calls the loopback address. It sends no secrets.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    certificate, key = os.environ.get("JQMASTER_CLIENT_CERTFILE"), os.environ.get("JQMASTER_CLIENT_KEYFILE")
    if certificate:
        context.load_cert_chain(certificate, key)
    return context
