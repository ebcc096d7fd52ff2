"""Calls to masters that block a thread. They use only the standard library, and need no event loop."""

import functools
import http.client
import io
import socket
import time
from typing import Any, Final
from urllib.parse import urlsplit

from worker_sdk import forked
from worker_sdk.environment import tls_of_calls
from worker_sdk.masters.masters import (
    JOB_ID_FIELD,
    MAX_ANSWER_BYTES,
    UNSERVED_FIELD,
    MasterAnswer,
    Masters,
    MasterUnreachableError,
    headers_for,
    read_answer,
)
from worker_sdk.masters.store_affinity import HEADER
from worker_sdk.transport.call_faults import OF_CLIENTS, explained, is_final
from worker_sdk.transport.variables import check_variables

_CLOSED_MEANWHILE: Final = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class BlockingClient:
    """A client with one kept connection, for one thread at a time."""

    def __init__(self, masters: Masters, token: str | None, *, durability: str | None = None) -> None:
        check_variables()
        self._masters = masters
        self._headers = headers_for(token, durability)
        self._connection: _BlockingConnection | None = None
        self._address = ""
        self._tls = tls_of_calls()
        forked.renew_in_child(self)

    @property
    def masters(self) -> Masters:
        return self._masters

    def call(self, method: str, path: str, body: bytes | None, *, timeout_s: float) -> MasterAnswer:
        """Make one call. `timeout_s` limits the whole call, even if the answer arrives slowly.

        Raise MasterUnreachableError if no answer comes. The caller then tries another master, as after a 5xx.
        """
        forked.check()
        end_s = time.monotonic() + timeout_s
        address = self._masters.current
        is_kept = self._connection is not None and self._address == address
        try:
            try:
                answer = self._exchange(address, method, path, body, end_s)
            except _CLOSED_MEANWHILE:
                # If the connection was kept from an earlier call, the master may have closed it since. That does not
                # mean that the master has failed.
                self.close()
                if not is_kept:
                    raise
                answer = self._exchange(address, method, path, body, end_s)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            self.close()
            self._masters.failed(address, was_silent=isinstance(exc, TimeoutError))
            told = explained(exc, address, OF_CLIENTS, has_answered=self._masters.has_answered(address))
            raise MasterUnreachableError(f"{address}: {told}", is_final=is_final(exc)) from None
        except MasterUnreachableError:
            self.close()
            self._masters.failed(address)
            raise
        except BaseException:
            # The call was interrupted, for example by a signal handler. Close the connection, so that the next call
            # does not read the answer to this call.
            self.close()
            raise
        return self._masters.verified(address, answer)

    def close(self) -> None:
        if self._connection is not None:
            # Do not use contextlib: `__del__` may run while Python exits, when the names of modules no longer exist.
            try:  # noqa: SIM105
                self._connection.close()
            except OSError:
                pass
            self._connection = None

    def __del__(self) -> None:
        # Close the connection only here: when a pusher of tasks is replaced, other threads may still use it.
        if getattr(self, "_connection", None) is not None:
            self.close()

    def renew(self) -> None:
        # Closing the copy in this process does not affect the connection of the parent. A TCP connection stays open as
        # long as the parent has it open, and closing a socket of `ssl` sends no close_notify.
        self.close()

    def _exchange(
        self, address: str, method: str, path: str, body: bytes | None, end_s: float
    ) -> MasterAnswer:
        parts = urlsplit(address)
        if self._connection is None or self._address != address:
            self.close()
            assert parts.hostname
            if parts.scheme == "https":
                if self._tls:
                    self._tls.refresh()
                context = self._tls.context if self._tls else None
                self._connection = _TlsConnection(parts.hostname, parts.port, context=context)
            else:
                self._connection = _BlockingConnection(parts.hostname, parts.port)
            self._address = address
        connection = self._connection
        connection.end_at(end_s)
        headers = {**self._headers, **self._masters.store_headers()}
        connection.request(method, parts.path + path, body=body, headers=headers)
        response = connection.getresponse()
        data = response.read(MAX_ANSWER_BYTES + 1)
        if len(data) > MAX_ANSWER_BYTES:
            raise ValueError("the answer is too long")
        return read_answer(
            response.status,
            response.getheader("Content-Type", ""),
            response.getheader("Retry-After"),
            data,
            response.getheader(JOB_ID_FIELD),
            store=response.getheader(HEADER, ""),
            unserved=response.getheader(UNSERVED_FIELD, ""),
        )


# Give each operation on the socket the remaining time of the call. With a fixed timeout for each operation, an answer
# of one byte a minute would never end.


class _BlockingConnection(http.client.HTTPConnection):
    _end_s = 0.0

    def end_at(self, end_s: float) -> None:
        self._end_s = end_s
        self.response_class = functools.partial(_Response, end_s=end_s)  # type: ignore[assignment]

    def connect(self) -> None:
        self.timeout = _left_s(self._end_s)
        super().connect()

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        self.sock.settimeout(_left_s(self._end_s))
        super().send(data)


class _TlsConnection(_BlockingConnection, http.client.HTTPSConnection):
    pass


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, end_s: float, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        assert isinstance(self.fp, io.BufferedReader)
        self.fp = io.BufferedReader(_Reader(sock, self.fp.detach(), end_s))


class _Reader(io.RawIOBase):
    def __init__(self, sock: socket.socket, raw: io.RawIOBase, end_s: float) -> None:
        self._sock = sock
        self._raw = raw
        self._end_s = end_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left_s(self._end_s))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left_s(end_s: float) -> float:
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the call timed out")
    return left_s
