"""Resolve names without holding up anything else."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

# Names that resolve slowly can take all of these, and then others wait. Nothing else waits for them.
MAX_LOOKUPS: Final = 16

_Found = list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]]


class Resolver:
    """Looks up names in threads of its own, each name once at a time, whoever asks for it."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._under_way: dict[tuple[str, int], asyncio.Future[_Found]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a name. Raise OSError, UnicodeError."""
        loop = asyncio.get_running_loop()
        lookup = self._under_way.get((host, port))
        if lookup is None or lookup.get_loop() is not loop:
            self._threads = self._threads or ThreadPoolExecutor(MAX_LOOKUPS, "resolver")
            lookup = loop.run_in_executor(self._threads, look_up, host, port)
            self._under_way[host, port] = lookup
            lookup.add_done_callback(lambda done: self._ended((host, port), done))
        # One that stops waiting does not end the lookup for the others.
        found = await asyncio.shield(lookup)
        return [str(info[4][0]) for info in found]

    def _ended(self, key: tuple[str, int], lookup: "asyncio.Future[_Found]") -> None:
        if self._under_way.get(key) is lookup:
            del self._under_way[key]
        if not lookup.cancelled():
            lookup.exception()  # nobody may wait for it any more


def look_up(host: str, port: int) -> _Found:
    """Ask the system. This blocks."""
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
