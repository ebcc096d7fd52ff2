"""Calls to masters from a thread of their own, with the standard library only: nothing in them needs the event loop."""

import contextlib
import http.client
from typing import Final
from urllib.parse import urlsplit

from worker_sdk.masters import Answer, Masters, MasterUnreachableError, headers_for, read_answer

_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024


class BlockingClient:
    """One kept connection, for one thread."""

    def __init__(self, masters: Masters, token: str | None) -> None:
        self._masters = masters
        self._headers = headers_for(token)
        self._connection: http.client.HTTPConnection | None = None
        self._address = ""

    def call(self, method: str, path: str, body: bytes | None, *, timeout_s: float) -> Answer:
        """Raises MasterUnreachableError; then it is another master's turn, as it is after a 5xx."""
        address = self._masters.current
        is_kept = self._connection is not None and self._address == address
        try:
            try:
                answer = self._exchange(address, method, path, body, timeout_s)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                # A kept connection that the master closed meanwhile says nothing about the master.
                self.close()
                if not is_kept:
                    raise
                answer = self._exchange(address, method, path, body, timeout_s)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            self.close()
            self._masters.failed(address)
            raise MasterUnreachableError(f"{address}: {type(exc).__name__}") from None
        except MasterUnreachableError:
            self.close()
            self._masters.failed(address)
            raise
        if answer.status >= 500:
            self._masters.failed(address)
        return answer

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def _exchange(self, address: str, method: str, path: str, body: bytes | None, timeout_s: float) -> Answer:
        parts = urlsplit(address)
        if self._connection is None or self._address != address:
            self.close()
            assert parts.hostname
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)
            self._address = address
        connection = self._connection
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        connection.request(method, parts.path + path, body=body, headers=self._headers)
        response = connection.getresponse()
        data = response.read(_MAX_ANSWER_BYTES + 1)
        if len(data) > _MAX_ANSWER_BYTES:
            raise ValueError("the answer is too long")
        return read_answer(
            response.status, response.getheader("Content-Type", ""), response.getheader("Retry-After"), data
        )
