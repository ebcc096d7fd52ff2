"""Calls to masters from the event loop."""

import io
from typing import Any, Final

import aiohttp

from worker_sdk import tls
from worker_sdk.masters import (
    MAX_ANSWER_BYTES,
    Answer,
    Masters,
    MasterUnreachableError,
    headers_for,
    read_answer,
)

_LARGE_BODY_BYTES: Final = 512 * 1024
_CONNECT_TIMEOUT_S: Final = 3.0


class MasterClient:
    """One call, one try: repeating is the caller's business. aiohttp, because httpx costs ten times the CPU here."""

    def __init__(
        self, masters: Masters, token: str | None, *, timeout_s: float = 15.0, durability: str | None = None
    ) -> None:
        self._masters = masters
        self._timeout = aiohttp.ClientTimeout(
            total=timeout_s, sock_connect=min(timeout_s, _CONNECT_TIMEOUT_S)
        )
        self._headers = headers_for(token, durability)
        self._tls = tls.to_masters()
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """In the event loop that will make the calls."""
        self._session = aiohttp.ClientSession(
            # No limit of our own: a call that waits for a connection would look like a master that does not answer.
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls.context if self._tls else True),
            timeout=self._timeout,
            headers=self._headers,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(
        self, method: str, path: str, body: bytes | None = None, *, timeout_s: float | None = None
    ) -> Answer:
        """`timeout_s`: for calls that wait on purpose. Raises MasterUnreachableError; then it is another master's turn, as
        it is after a 5xx."""
        assert self._session is not None
        if self._tls:
            self._tls.refresh()
        address = self._masters.current
        timeout = self._timeout
        if timeout_s is not None:
            timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_TIMEOUT_S)
        # Large bytes are sent in one piece, which aiohttp warns of: it would hold the loop.
        data = io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY_BYTES else body
        try:
            async with self._session.request(
                method, address + path, data=data, allow_redirects=False, timeout=timeout
            ) as response:
                received = bytearray()
                async for piece in response.content.iter_any():
                    received += piece
                    if len(received) > MAX_ANSWER_BYTES:
                        raise MasterUnreachableError("the answer is too long")
                fields: Any = response.headers
                answer = read_answer(
                    response.status,
                    fields.get("Content-Type", ""),
                    fields.get("Retry-After"),
                    bytes(received),
                )
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as exc:
            self._masters.failed(address)
            raise MasterUnreachableError(f"{address}: {type(exc).__name__}") from None
        except MasterUnreachableError:
            self._masters.failed(address)
            raise
        if answer.status >= 500:
            self._masters.failed(address)
        return answer
