"""Find the address of a server on this machine if its URL was not given."""

import socket
from typing import Final

# Wildcard addresses: a server that listens on a wildcard listens on every address of the machine.
WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104  compared, not bound


def url_of(scheme: str, host: str, port: int) -> str:
    """Return the URL of a server."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def outgoing_address(peer: str, port: int) -> str:
    """Return the address that this machine uses for calls to `peer`. The look-up of `peer` may block. Raise OSError if
    it fails."""
    family, kind, protocol, _, address = socket.getaddrinfo(peer, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # this sends nothing; the kernel chooses the address
        return str(probe.getsockname()[0])
