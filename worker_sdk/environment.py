"""Defaults of workers, pushers and tasks: the configuration of the process, and environment variables."""

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.suggesting import suggesting
from worker_sdk.transport.namespaces import in_namespace, namespace_of

if TYPE_CHECKING:
    from worker_sdk.enqueueing import EnqueueMiddleware
    from worker_sdk.transport.tls import LiveContext

DEFAULT_MASTER: Final = "http://127.0.0.1:8080"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The arguments of `configure`."""

    url: str | tuple[str, ...] | None = None
    token: str | None = field(default=None, repr=False)
    cafile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    timeout_s: float = 10.0
    max_wait_s: float = 10.0
    durability: str | None = None
    middleware: "tuple[EnqueueMiddleware, ...]" = ()
    namespace: str | None = None


class _Process:
    """The state of the process."""

    configuration = Configuration()


@suggesting("configure")
def configure(
    *,
    url: str | Sequence[str] | None = None,
    token: str | None = None,
    cafile: str | os.PathLike[str] | None = None,
    certfile: str | os.PathLike[str] | None = None,
    keyfile: str | os.PathLike[str] | None = None,
    timeout_s: float = 10.0,
    max_wait_s: float = 10.0,
    durability: str | None = None,
    middleware: "Iterable[EnqueueMiddleware]" = (),
    namespace: str | None = None,
) -> None:
    """Set the defaults of tasks, workers and pushers of this process. Each call replaces all settings of the previous
    call. Without arguments, the environment variables apply again.

    * `url`: address of the master, or a list of addresses. Default: `JQMASTER_URL`.
    * `token`: bearer token. Default: `JQMASTER_TOKEN`.
    * `cafile`, `certfile`, `keyfile`: PEM files for TLS. Default: `JQMASTER_CLIENT_CAFILE`, `…_CERTFILE` and
      `…_KEYFILE`.
    * `timeout_s`: timeout in seconds of one call of a task to a master.
    * `max_wait_s`: seconds for which a task repeats a call while no master answers.
    * `durability`: as for `Pusher`, for tasks.
    * `middleware`: instances of `Middleware`, the outermost first. Existing clients and workers keep theirs.
    * `namespace`: namespace of tasks, workers and pushers. It becomes a part of each address that names no namespace
      itself: `http://jobs.example.org` becomes `http://jobs.example.org/ns/shop`. `default` means the namespace of
      addresses without one. Default: `JQMASTER_NAMESPACE`.

    For example:

        configure(url="http://127.0.0.1:8080", max_wait_s=3)
    """
    if middleware:
        from worker_sdk.enqueueing import checked_middleware

        middleware = checked_middleware(middleware)
    _Process.configuration = Configuration(
        url if url is None or isinstance(url, str) else tuple(url),
        token,
        None if cafile is None else Path(cafile),
        None if certfile is None else Path(certfile),
        None if keyfile is None else Path(keyfile),
        timeout_s,
        max_wait_s,
        durability,
        tuple(middleware),
        namespace,
    )


def configuration() -> Configuration:
    """Return the last arguments of `configure`."""
    return _Process.configuration


def masters_or_default(given: str | Sequence[str] | None) -> str | Sequence[str]:
    """Return the addresses of the masters. The first of these that is set applies:

    * `given`
    * the addresses of `configure`
    * JQMASTER_URL, with addresses separated by blanks
    * the address of a master on this machine

    The namespace of this process is added to each address. Raise ValueError if the name of the namespace is invalid.
    """
    found = configuration().url if given is None else given
    if found is None:
        found = os.environ.get("JQMASTER_URL", "").split() or DEFAULT_MASTER
    if not (namespace := configuration().namespace or os.environ.get("JQMASTER_NAMESPACE")):
        return found
    return (
        in_namespace(found, namespace)
        if isinstance(found, str)
        else tuple(in_namespace(one, namespace) for one in found)
    )


def namespaces_of_variable() -> dict[str, int] | None:
    """Return the shares in JQMASTER_WORKER_NAMESPACES, by namespace. The form is `shop=3 mail=1`; a name alone has the
    share 1. Return None if the variable is not set. Raise ValueError for another form."""
    words = os.environ.get("JQMASTER_WORKER_NAMESPACES", "").split()
    return shares_of(words) if words else None


def shares_of(words: Iterable[str]) -> dict[str, int]:
    """Return the shares, by namespace, from words such as `NAME=SHARE` or `NAME`. Raise ValueError for anything
    else."""
    shares: dict[str, int] = {}
    for word in words:
        name, equals, share = word.partition("=")
        if not name or (equals and not (share.isascii() and share.isdecimal())):
            raise ValueError(f"namespace {word}: expected NAME or NAME=SHARE, such as shop=3")
        if name in shares:
            raise ValueError(f"namespace {name} is named twice")
        shares[name] = int(share[:6]) if equals else 1
    return shares


def check_without_namespace(address: str) -> None:
    """Raise ValueError if the address of a worker of several namespaces names a namespace. The namespace of this
    process is accepted, because `masters_or_default` may have added it.
    """
    named = namespace_of(address)
    if named is not None and named != (configuration().namespace or os.environ.get("JQMASTER_NAMESPACE")):
        raise ValueError(
            f"{address} names the namespace {named}, but this worker works in several namespaces: give the address "
            f"without /ns/{named}"
        )


def token_or_default(given: str | None) -> str | None:
    """Return `given`, or else the token of `configure`, or else the token in JQMASTER_TOKEN. An empty text in `given`
    means no token."""
    if given is None and (given := configuration().token) is None:
        return os.environ.get("JQMASTER_TOKEN") or None
    return given


def host_or_default(given: str | None) -> str:
    """Return `given`, or else JQMASTER_WORKER_HOST, or else the loopback address."""
    return given if given is not None else os.environ.get("JQMASTER_WORKER_HOST") or "127.0.0.1"


def set_up_logs(level: str | None = None) -> None:
    """Log to standard error, unless the program has set up its own logs. `level`: the lowest level to log. Default:
    JQMASTER_WORKER_LOG_LEVEL, or else info. Raise ValueError for a level that does not exist."""
    from worker_sdk.transport.console_log import console_handler

    level = level or os.environ.get("JQMASTER_WORKER_LOG_LEVEL") or "info"
    if level.lower() not in LOG_LEVELS:
        raise ValueError(f"JQMASTER_WORKER_LOG_LEVEL: {level!r} is not one of {', '.join(LOG_LEVELS)}")
    logging.basicConfig(level=level.upper(), handlers=[console_handler()])


def middleware_or_default(given: "Iterable[EnqueueMiddleware] | None") -> "tuple[Any, ...]":
    """Return `given`, even if it is empty. Without it, return the middleware of `configure`. Raise TypeError for an
    item of another type."""
    if given is None:
        return configuration().middleware
    from worker_sdk.enqueueing import checked_middleware

    return checked_middleware(given)


def tls_of_calls() -> "LiveContext | None":
    """Return the TLS context of calls to masters, or None if no file is named in `configure` or in a variable.

    `JQMASTER_CLIENT_CAFILE` names the authorities that sign the masters' certificates. `…_CERTFILE` and `…_KEYFILE`
    name the certificate to present to masters, and its key. Raise OSError for files that cannot be used.
    """
    from worker_sdk.transport.tls import TlsFileError, client_context

    files = tls_files_of_calls()
    try:
        return None if files is None else client_context(*files)
    except TlsFileError as exc:
        raise TlsFileError(
            exc.errno, f"{exc} (JQMASTER_CLIENT_CAFILE, …_CERTFILE and …_KEYFILE, or configure())"
        ) from None


def tls_files_of_calls() -> "tuple[Path | None, Path | None, Path | None] | None":
    """Return the files of authorities, certificate and key for calls to masters, or None if no file is named."""
    settings = configuration()
    cafile, certfile, keyfile = (
        given or _file(f"JQMASTER_CLIENT_{name}")
        for given, name in (
            (settings.cafile, "CAFILE"),
            (settings.certfile, "CERTFILE"),
            (settings.keyfile, "KEYFILE"),
        )
    )
    return None if cafile is None and certfile is None else (cafile, certfile, keyfile)


def tls_of_server() -> "LiveContext | None":
    """Return the TLS context of a worker's own server, or None for plain HTTP.

    `JQMASTER_WORKER_CERTFILE` and `…_KEYFILE` name the server's certificate and its key. If `…_CLIENT_CAFILE` names
    authorities, masters must present a certificate that they signed. Raise OSError for files that cannot be used, and
    ValueError for variables that do not fit together.
    """
    from worker_sdk.transport.tls import TlsFileError, server_context

    certfile, keyfile = _file("JQMASTER_WORKER_CERTFILE"), _file("JQMASTER_WORKER_KEYFILE")
    client_cafile = _file("JQMASTER_WORKER_CLIENT_CAFILE")
    if certfile is None:
        if keyfile is not None or client_cafile is not None:
            raise ValueError("JQMASTER_WORKER_KEYFILE and …_CLIENT_CAFILE need JQMASTER_WORKER_CERTFILE")
        return None
    try:
        return server_context(certfile, keyfile, client_cafile)
    except TlsFileError as exc:
        raise TlsFileError(
            exc.errno, f"{exc} (JQMASTER_WORKER_CERTFILE, …_KEYFILE and …_CLIENT_CAFILE)"
        ) from None


def _file(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None
