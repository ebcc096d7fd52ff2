"""Resolve names without blocking other work."""

import asyncio
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

# Number of threads for lookups. If slow lookups occupy all threads, only other lookups must wait.
MAX_LOOKUPS: Final = 16

_Found = list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]]


@dataclass(slots=True)
class _Lookup:
    """One lookup in the queue of the threads. `waiters`: the number of callers that wait for it."""

    queued: Future[_Found]
    found: asyncio.Future[_Found]
    waiters: int = 0


class Resolver:
    """Looks up names in separate threads. All callers that ask for the same name at the same time share one lookup."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._under_way: dict[tuple[str, int], _Lookup] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a name. Raise OSError, UnicodeError."""
        lookup = self._under_way.get((host, port))
        if lookup is None or lookup.found.get_loop() is not asyncio.get_running_loop():
            lookup = self._begin(host, port)
        lookup.waiters += 1
        try:
            # Shield the lookup, because other callers may still wait for it after this caller has stopped.
            found = await asyncio.shield(lookup.found)
        finally:
            lookup.waiters -= 1
            # Cancel the lookup only if no thread has begun it. Otherwise, it continues, and later callers share
            # its result.
            if not lookup.waiters and lookup.queued.cancel():
                self._forget((host, port), lookup)
        return [str(info[4][0]) for info in found]

    def _begin(self, host: str, port: int) -> _Lookup:
        self._threads = self._threads or ThreadPoolExecutor(MAX_LOOKUPS, "resolver")
        queued = self._threads.submit(look_up, host, port)
        lookup = self._under_way[host, port] = _Lookup(queued, asyncio.wrap_future(queued))
        lookup.found.add_done_callback(lambda _: self._ended((host, port), lookup))
        return lookup

    def _ended(self, key: tuple[str, int], lookup: _Lookup) -> None:
        self._forget(key, lookup)
        if not lookup.found.cancelled():
            lookup.found.exception()  # mark the error as read, because no caller may be waiting for it

    def _forget(self, key: tuple[str, int], lookup: _Lookup) -> None:
        if self._under_way.get(key) is lookup:
            del self._under_way[key]


def look_up(host: str, port: int) -> _Found:
    """Look up the addresses with the system's resolver. This blocks."""
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
