"""Connections to servers of the store. A connection that has ended is replaced before its next use.

redis-py considers a connection usable until its stream has ended. A connection that failed while it was idle has an
exception instead: after a reset, a timeout of the kernel, or a closed handle. redis-py would use such a connection
again and again.
"""

import logging
from typing import Any, Final

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.exceptions import ConnectionError as RedisConnectionError

logger = logging.getLogger(__name__)


def is_lost(connection: Any) -> bool:
    """Return whether the connection was open and has ended, for whatever reason."""
    reader, writer = connection._reader, connection._writer
    return writer is not None and (
        writer.transport.is_closing() or reader.exception() is not None or reader.at_eof()
    )


class CheckedConnection(AbstractConnection):
    """Mixin that replaces lost connections. Every pool calls `connect` before it hands out a connection."""

    async def connect(self) -> None:
        if is_lost(self) or self.should_reconnect():  # type: ignore[no-untyped-call]
            await self.disconnect(nowait=True)
        if self.is_connected or not logger.isEnabledFor(logging.DEBUG):
            await super().connect()  # type: ignore[no-untyped-call]
            return
        try:
            await super().connect()  # type: ignore[no-untyped-call]
        except Exception as exc:
            logger.debug("no connection to the store at %s: %s", self._place(), exc)
            raise
        logger.debug("a new connection to the store at %s", self._place())

    def _place(self) -> str:
        """Return the address without credentials."""
        parts = dict(self.repr_pieces())  # type: ignore[no-untyped-call]
        return parts.get("path") or f"{parts.get('host')}:{parts.get('port')}"

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if is_lost(self):
            # Disconnect instead of writing to a closed transport. The write would raise RuntimeError from uvloop, which
            # callers do not recognize as a lost connection.
            await self.disconnect(nowait=True)
            raise RedisConnectionError("the connection was lost")
        await super().send_packed_command(command, check_health)


class TcpConnection(CheckedConnection, Connection):
    pass


class TlsConnection(CheckedConnection, SSLConnection):
    pass


class UnixConnection(CheckedConnection, UnixDomainSocketConnection):
    pass


_SOUND: Final[dict[type[AbstractConnection], type[CheckedConnection]]] = {
    Connection: TcpConnection,
    SSLConnection: TlsConnection,
    UnixDomainSocketConnection: UnixConnection,
}


def options_of(url: str) -> dict[str, Any]:
    """Return the options of a connection pool for the one server at `url`."""
    options: dict[str, Any] = {**parse_url(url)}
    options["connection_class"] = _SOUND[options.get("connection_class", Connection)]
    return options
