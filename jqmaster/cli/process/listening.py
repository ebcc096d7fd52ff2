"""Check that a master can listen on its address, before it creates any file."""

import errno
import socket


def check_address(host: str, port: int) -> None:
    """Bind the address for a moment. Raise OSError if it cannot be bound; `fault_text` explains the error."""
    fault: OSError | None = None
    for family, kind, _, _, address in socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        try:
            with socket.socket(family, kind) as tried:
                # Set the same option as listeners. Otherwise, connections of an earlier process in TIME_WAIT
                # would prevent the bind.
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                tried.bind(address)
            return
        except OSError as exc:
            fault = exc
    if fault is not None:
        raise fault


def fault_text(error: OSError, host: str, port: int) -> str | None:
    """Return a text that explains why the address cannot be bound, with a remedy. Return None if the error does
    not concern the address."""
    if isinstance(error, socket.gaierror):
        return f"--host {host}: the name is not known; give an address of this machine, or 0.0.0.0 for all of them"
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use; choose another one with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"--host {host}: not an address of this machine; 0.0.0.0 means all its addresses"
    if error.errno == errno.EACCES and error.filename is None and 0 < port < 1024:
        return f"port {port} is reserved for the administrator; choose one from 1024 on with --port"
    return None
