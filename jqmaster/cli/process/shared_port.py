"""A port on which several processes listen. Their parent process keeps the port bound."""

import socket
from types import TracebackType
from typing import Any, Self

from jqmaster.errors import JqmasterError


class SharedPort:
    """A bound socket that never listens. It gets no connections, but it reserves the port. So a restarted process
    can use the port again, even if the system chose the port. Only processes of the same user can share the port.

    Use it as a context manager. Raises OSError if the port is taken, even by another `serve` that shares its port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._sockets: list[socket.socket] = []

    @property
    def number(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    def url(self, *, is_tls: bool) -> str:
        host = self._sockets[0].getsockname()[0]
        named = f"[{host}]" if ":" in host else host
        return f"{'https' if is_tls else 'http'}://{named}:{self.number}"

    def __enter__(self) -> Self:
        if not hasattr(socket, "SO_REUSEPORT"):
            raise JqmasterError("several processes cannot share a port on this system", code="store_unfit")
        addresses = _resolved(self._host, self._port)
        try:
            for family, address in addresses:
                # Bind once without sharing. Otherwise, a second service that was started by mistake would share
                # the port.
                with _socket(family, is_shared=False) as alone:
                    alone.bind(address)
                    found = alone.getsockname()
                shared = _socket(family, is_shared=True)
                self._sockets.append(shared)
                shared.bind(found)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        while self._sockets:
            self._sockets.pop().close()


def _resolved(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # If the system chooses the port, use only one address, because each address would get a different port.
    return [(family, address) for family, _, _, _, address in (found if port else found[:1])]


def _socket(family: socket.AddressFamily, *, is_shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    # Set the same option as listeners. Otherwise, connections of an earlier process in TIME_WAIT would prevent
    # the bind.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return made
