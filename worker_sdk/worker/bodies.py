"""Read the bodies of requests before the sender is authenticated, within limits."""

import asyncio
from collections.abc import Mapping
from typing import Final

from worker_sdk.transport.asgi_types import Receive

MAX_TOTAL_BYTES: Final = 64 * 1024 * 1024
_DEADLINE_S: Final = 30.0


class Bodies:
    """Limits the bodies that are arriving to `max_total_bytes` in total, plus one chunk. Above this limit, the largest
    body is dropped, so that a sender of huge bodies cannot block the usual small pushes.
    """

    def __init__(self, max_total_bytes: int = MAX_TOTAL_BYTES) -> None:
        self._max_total_bytes = max_total_bytes
        self._arriving: set[_Arriving] = set()

    async def read(
        self, headers: Mapping[bytes, bytes], receive: Receive, max_bytes: int
    ) -> tuple[int, bytes]:
        """Return (0, body), or (status, b"") if the body is refused. Never hold more than `max_bytes` of a body."""
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
            # Wake the reader of this body, which may wait for the next piece.
            self.deadline.reschedule(asyncio.get_running_loop().time())
