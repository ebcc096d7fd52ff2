"""Bodies of requests, read while nobody has proven yet who sends them."""

import asyncio
from collections.abc import Mapping
from typing import Final

from worker_sdk.transport.guarded import Receive

MAX_TOTAL_BYTES: Final = 64 * 1024 * 1024
_DEADLINE_S: Final = 30.0


class Bodies:
    """All that are arriving hold at most `max_total_bytes` together, and one chunk: beyond that the largest gives way,
    so that who fills the memory does not keep the usual small push out.
    """

    def __init__(self, max_total_bytes: int = MAX_TOTAL_BYTES) -> None:
        self._max_total_bytes = max_total_bytes
        self._arriving: set[_Arriving] = set()

    async def read(
        self, headers: Mapping[bytes, bytes], receive: Receive, max_bytes: int
    ) -> tuple[int, bytes]:
        """(0, body), or a status that refuses it; more than `max_bytes` is never held."""
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > max_bytes:
            return 413, b""
        one = _Arriving()
        self._arriving.add(one)
        try:
            async with asyncio.timeout(_DEADLINE_S) as one.deadline:
                while True:
                    message = await receive()
                    if one.is_shed:
                        return 503, b""
                    if message["type"] == "http.disconnect":
                        return 400, b""
                    piece: bytes = message.get("body", b"")
                    if len(one.data) + len(piece) > max_bytes:
                        return 413, b""
                    has_more = message.get("more_body", False)
                    if not has_more and not one.data:
                        return 0, piece
                    one.data += piece
                    if not has_more:
                        return 0, bytes(one.data)
                    if sum(len(each.data) for each in self._arriving) > self._max_total_bytes:
                        max(self._arriving, key=lambda each: len(each.data)).shed()
        except TimeoutError:
            return (503 if one.is_shed else 408), b""
        finally:
            self._arriving.remove(one)


class _Arriving:
    def __init__(self) -> None:
        self.data = bytearray()
        self.is_shed = False
        self.deadline: asyncio.Timeout

    def shed(self) -> None:
        self.data, self.is_shed = bytearray(), True
        if not self.deadline.expired():
            # A reader that waits for the next piece wakes up at once.
            self.deadline.reschedule(asyncio.get_running_loop().time())
