"""Calls to masters from the event loop."""

import ssl
from typing import Final

from worker_sdk.environment import tls_of_calls
from worker_sdk.masters.masters import (
    MAX_ANSWER_BYTES,
    MasterAnswer,
    Masters,
    MasterUnreachableError,
    headers_for,
    read_answer,
)
from worker_sdk.transport.call_faults import OF_CLIENTS, cause_of, is_final, remedy
from worker_sdk.transport.http_client import DirectRoute, HttpClient, NoAnswerError, NotSentError, field_lines
from worker_sdk.transport.loop_clients import LoopClients
from worker_sdk.transport.variables import check_variables

_CONNECT_TIMEOUT_S: Final = 3.0
_KEPT_FIELDS: Final = frozenset(
    {b"content-type", b"retry-after", b"jq-job-id", b"jq-store", b"jq-unserved-names"}
)


class MasterClient:
    """Makes each call once. The caller repeats it if needed."""

    def __init__(
        self, masters: Masters, token: str | None, *, timeout_s: float = 15.0, durability: str | None = None
    ) -> None:
        check_variables()
        self._masters = masters
        self._timeout_s = timeout_s
        self._tls = tls_of_calls()
        self._default_context: ssl.SSLContext | None = None
        self._headers = headers_for(token, durability)
        if not all(text.isprintable() for field in self._headers.items() for text in field):
            raise ValueError("a header, such as the token, has characters that cannot be sent")
        self._fields = field_lines(self._headers)
        self._store = ""
        self._http = LoopClients(
            lambda: HttpClient(
                DirectRoute(self._context), max_answer_bytes=MAX_ANSWER_BYTES, kept_fields=_KEPT_FIELDS
            )
        )

    async def stop(self) -> None:
        """Close the connections. No more calls may follow."""
        await self._http.close()

    def disown(self) -> None:
        """Give up the connections, which belong to the parent of this forked process. No more calls may follow."""
        self._http.disown()

    def drop_idle(self) -> None:
        """Stop using the connections that are idle now."""
        self._http.drop_idle()

    async def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        timeout_s: float | None = None,
        fields: str = "",
    ) -> MasterAnswer:
        """Make one call.

        * `timeout_s`: the timeout, for calls that wait at the master on purpose.
        * `fields`: further header fields, as `field_lines` writes them.

        Raise MasterUnreachableError if no answer comes. The caller then tries another master, as after a 5xx."""
        if self._tls:
            self._tls.refresh()
        address = self._masters.current
        if self._store != self._masters.affinity.store:
            self._store = self._masters.affinity.store
            self._fields = field_lines({**self._headers, **self._masters.store_headers()})
        http = await self._http.get()
        try:
            received = await http.call(
                method,
                address,
                path,
                body,
                self._fields + fields,
                is_repeatable=True,
                timeout_s=self._timeout_s if timeout_s is None else timeout_s,
                connect_timeout_s=_CONNECT_TIMEOUT_S,
            )
            answer = read_answer(
                received.status,
                received.fields.get(b"content-type", ""),
                received.fields.get(b"retry-after"),
                received.body,
                received.fields.get(b"jq-job-id"),
                store=received.fields.get(b"jq-store", ""),
                unserved=received.fields.get(b"jq-unserved-names", ""),
            )
        except (NotSentError, NoAnswerError) as exc:
            self._masters.failed(address)
            advice = remedy(
                cause_of(exc), address, OF_CLIENTS, has_answered=self._masters.has_answered(address)
            )
            raise MasterUnreachableError(
                f"{address}: {exc}" + (f"; {advice}" if advice else ""), is_final=is_final(exc)
            ) from None
        except ValueError as exc:
            self._masters.failed(address)
            raise MasterUnreachableError(f"{address}: {exc}") from None
        except MasterUnreachableError:
            self._masters.failed(address)
            raise
        return self._masters.verified(address, answer)

    def _context(self) -> ssl.SSLContext:
        if self._tls:
            return self._tls.context
        if self._default_context is None:
            self._default_context = ssl.create_default_context()
        return self._default_context
