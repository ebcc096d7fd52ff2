"""One HTTP call on a connection of its own, for a quarter of the processor time of httpx: tests make tens of thousands.

The answer and the errors are those of httpx.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import httpx

_END_OF_HEAD: Final = b"\r\n\r\n"
_END_OF_LINE: Final = b"\r\n"


async def exchange(
    method: str, url: httpx.URL, headers: Mapping[str, str], content: bytes | None, *, timeout_s: float
) -> httpx.Response:
    """Send a request and return the answer. Raises httpx.TransportError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            try:
                transport, answer = await loop.create_connection(
                    lambda: _Answer(loop.create_future()), url.host, url.port or 80
                )
            except OSError as error:
                raise httpx.ConnectError(str(error)) from error
            try:
                transport.write(_request(method, url, headers, content))
                return await answer.whole
            finally:
                transport.abort()
    except TimeoutError as error:
        raise httpx.ReadTimeout(f"no answer within {timeout_s} s") from error


def _request(method: str, url: httpx.URL, headers: Mapping[str, str], content: bytes | None) -> bytes:
    fields = {"Host": url.netloc.decode(), "User-Agent": "tests", "Connection": "close", **headers}
    if content is not None or method in ("POST", "PUT", "PATCH"):
        fields["Content-Length"] = str(len(content or b""))
    lines = [f"{method} {url.raw_path.decode('ascii')} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items())]
    return "\r\n".join(lines).encode("latin-1") + _END_OF_HEAD + (content or b"")


class _Answer(asyncio.Protocol):
    def __init__(self, whole: "asyncio.Future[httpx.Response]") -> None:
        self.whole = whole
        self._data = bytearray()

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._look(is_over=False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._look(is_over=True)
        if not self.whole.done():
            kind = httpx.ReadError if exc else httpx.RemoteProtocolError
            self.whole.set_exception(kind(str(exc or "the connection ended before the answer")))

    def _look(self, *, is_over: bool) -> None:
        head_bytes = self._data.find(_END_OF_HEAD)
        if self.whole.done() or head_bytes < 0:
            return
        line, *rest = bytes(self._data[:head_bytes]).split(_END_OF_LINE)
        headers = httpx.Headers([_field(one) for one in rest])
        body = bytes(self._data[head_bytes + len(_END_OF_HEAD) :])
        if "content-length" in headers:
            whole = body if len(body) >= int(headers["content-length"]) else None
        elif headers.get("transfer-encoding") == "chunked":
            whole = _unchunked(body)
        else:
            whole = body if is_over or line[9:12] in (b"204", b"304") else None
        if whole is not None:
            fields = [pair for pair in headers.raw if pair[0].lower() != b"transfer-encoding"]
            self.whole.set_result(httpx.Response(int(line[9:12]), headers=fields, content=whole))


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.strip()


def _unchunked(body: bytes) -> bytes | None:
    """Return the content of a body in chunks, or None if its end is missing."""
    whole, at = b"", 0
    while (end := body.find(_END_OF_LINE, at)) >= 0:
        size = int(body[at:end].partition(b";")[0], 16)
        begin = end + len(_END_OF_LINE)
        if size == 0:
            return whole
        if len(body) < begin + size:
            return None
        whole += body[begin : begin + size]
        at = begin + size + len(_END_OF_LINE)
    return None
