"""Where masters find a worker that was not told its URL."""

import socket
from urllib.parse import urlsplit


def url_of(host: str, port: int, master: str, *, scheme: str = "http") -> str:
    """Of a server on `host`; for a wildcard host, with the address from which `master` is reached."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - a comparison
        host = _outgoing_address(master)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _outgoing_address(master: str) -> str:
    parts = urlsplit(master)
    infos = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, address = infos[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # sends nothing; the kernel chooses the address
        return str(probe.getsockname()[0])
