"""Where other masters find this one, if it was not told."""

import socket
from typing import Final
from urllib.parse import urlsplit

from jqmaster.net.store_url import StoreUrl

_WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104  compared, not bound


def own_url(bound_url: str, store_url: str) -> str:
    """The address that the server is bound to; for a wildcard, with the address from which the store is reached. May
    block on the look-up of the store's name. Raises OSError."""
    parts = urlsplit(bound_url)
    host = parts.hostname or ""
    if host not in _WILDCARDS:
        return bound_url
    return _url(parts.scheme, _outgoing_address(store_url), parts.port)


def at_port(url: str, port: int) -> str:
    """The same address with another port."""
    parts = urlsplit(url)
    return _url(parts.scheme, parts.hostname or "", port)


def _url(scheme: str, host: str, port: int | None) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _outgoing_address(store_url: str) -> str:
    endpoints = StoreUrl.parse(store_url).endpoints
    if not endpoints:
        return "127.0.0.1"  # all masters of a store on a unix socket are on this machine
    family, kind, _, _, address = socket.getaddrinfo(*endpoints[0], type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)  # sends nothing; the kernel chooses the address
        return str(probe.getsockname()[0])
