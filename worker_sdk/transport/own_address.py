"""The address at which others find a server of this machine that was not told its URL."""

import socket
from typing import Final

# A server that listens on one of these listens on every address.
WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104  compared, not bound


def url_of(scheme: str, host: str, port: int) -> str:
    """Return the URL of a server."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def outgoing_address(peer: str, port: int) -> str:
    """Return the address of this machine from which it reaches `peer`. Look up `peer`, which may block. Raise
    OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(peer, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # this sends nothing; the kernel chooses the address
        return str(probe.getsockname()[0])
