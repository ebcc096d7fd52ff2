"""Calls to masters from the event loop."""

from typing import Final

from worker_sdk.environment import tls_of_calls
from worker_sdk.masters.masters import (
    MAX_ANSWER_BYTES,
    Answer,
    Masters,
    MasterUnreachableError,
    headers_for,
    read_answer,
)
from worker_sdk.transport.http_client import HttpClient, HttpError

_CONNECT_TIMEOUT_S: Final = 3.0


class MasterClient:
    """One call, one try: repeating is the caller's business."""

    def __init__(
        self, masters: Masters, token: str | None, *, timeout_s: float = 15.0, durability: str | None = None
    ) -> None:
        self._masters = masters
        self._timeout_s = timeout_s
        self._tls = tls_of_calls()
        self._headers = headers_for(token, durability)
        self._store = ""
        self._http = HttpClient(
            self._headers,
            max_answer_bytes=MAX_ANSWER_BYTES,
            context=self._tls.context if self._tls else None,
        )

    async def stop(self) -> None:
        """There are no more calls."""
        await self._http.close()

    def disown(self) -> None:
        """Make no more calls, in a forked process."""
        self._http.disown()

    def drop_idle(self) -> None:
        """Use none of the open connections any more."""
        self._http.drop_idle()

    async def call(
        self, method: str, path: str, body: bytes | None = None, *, timeout_s: float | None = None
    ) -> Answer:
        """`timeout_s`: for calls that wait on purpose. Raises MasterUnreachableError; then it is another master's turn, as
        it is after a 5xx."""
        if self._tls:
            self._tls.refresh()
        address = self._masters.current
        if self._store != self._masters.home.store:
            self._store = self._masters.home.store
            self._http.send_always({**self._headers, **self._masters.store_headers()})
        try:
            received = await self._http.call(
                method,
                address,
                path,
                body,
                timeout_s=self._timeout_s if timeout_s is None else timeout_s,
                connect_timeout_s=_CONNECT_TIMEOUT_S,
            )
            answer = read_answer(
                received.status,
                received.content_type,
                received.retry_after,
                received.body,
                received.job_id,
                store=received.store,
            )
        except (HttpError, OSError, ValueError) as exc:
            self._masters.failed(address)
            raise MasterUnreachableError(f"{address}: {type(exc).__name__}") from None
        except MasterUnreachableError:
            self._masters.failed(address)
            raise
        return self._masters.heard(address, answer)
