"""The server side of HTTP/1.1: uvicorn's httptools protocol with the limits that uvicorn does not have.

A request must be well formed, small enough, and arrive in time. A refused request never reaches the application. Only
this module uses private parts of uvicorn's protocol; tests/contract/test_private_parts.py lists them.
"""

import math
from http import HTTPStatus
from typing import Final, Protocol

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from worker_sdk.transport.asgi_types import App

# Maximum length of the target in a request line. Login providers send codes of up to some thousand bytes in it.
MAX_TARGET_BYTES: Final = 8192
# How long the client may take to read a refusal before its connection closes. If a socket closes with unread input, the
# kernel sends a reset, and the client loses the answer.
LINGER_S: Final = 1.0
_BODY_BYTES_PER_S: Final = 64 * 1024
_TLS_HANDSHAKE: Final = 0x16
# Maximum number of first bytes of a request that are stored until its request line has been checked.
_MAX_LINE_BYTES: Final = MAX_TARGET_BYTES + 64


class ArrivalLimits(Protocol):
    """Limits of a request. `receipt_s`: seconds for the request to arrive, plus one second for each 64 KiB."""

    @property
    def head_bytes(self) -> int: ...

    @property
    def header_count(self) -> int: ...

    @property
    def receipt_s(self) -> float: ...


class CurrentLimits(Protocol):
    """Holds the limits that apply to requests now."""

    @property
    def current(self) -> ArrivalLimits: ...


class ParsingEndsError(Exception):
    """Raised in a callback of the parser, which converts it to its own error."""


def config_of(app: App) -> Config:
    """Return uvicorn's configuration of `app`, loaded, without lifespan, logs and default header fields."""
    config = Config(
        app,
        interface="asgi3",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    config.load()
    return config


class GuardedProtocol(HttpToolsProtocol):
    """One connection. A sweep over all connections enforces `_deadline_s`, so a request needs no timer of its own."""

    is_host_required_in_1_0 = True

    def __init__(self, config: Config, state: ServerState, limits: CurrentLimits) -> None:
        super().__init__(config, state, {})
        self._arrival_limits = limits
        self._deadline_s = math.inf
        # The state of the request that is arriving:
        self._is_arriving = False
        self._began_s = 0.0  # 0: it began in the chunk that is being parsed
        self._received = 0
        self._unused = (
            0  # bytes received since the parser last called back for a field or a piece of the body
        )
        self._has_ended = False  # whether a request ended in the chunk that is being parsed
        # The state of a connection that is about to close:
        self._close_after = False
        self._is_deaf = False  # whether further input is ignored
        self._refusal: tuple[HTTPStatus, str] | None = None
        # Stored input that begins with a request line, and the offset at which the last request line found in it ends.
        self._line = b""
        self._line_end = 0

    # --- for subclasses to define

    def begin_cycle(self, version: str) -> None:
        """Begin to answer a request after its head has arrived. `version`: the version of HTTP."""
        raise NotImplementedError

    def refusal_bytes(self, status: HTTPStatus, code: str) -> bytes:
        """Return the whole answer of a refusal. `code`: the reason, as in problems."""
        raise NotImplementedError

    def refuse_arriving(self, status: HTTPStatus, code: str) -> None:
        """Refuse the request that is arriving. Requests that arrived completely before this one are answered first."""
        raise NotImplementedError

    # --- for subclasses to use

    @property
    def is_answering(self) -> bool:
        """Return whether a request has arrived completely, but its answer is not complete."""
        cycle = self.cycle
        return bool(self.pipeline) or (
            cycle is not None and not cycle.response_complete and not cycle.more_body
        )

    def stop_parsing(self, status: HTTPStatus, code: str) -> None:
        """Refuse the request. Called in a callback of the parser."""
        self._refusal = (status, code)
        raise ParsingEndsError

    def _check_head(self) -> str:
        """Refuse a head with faults that the parser tolerates. Return its version of HTTP."""
        headers, limits = self.headers, self._arrival_limits.current
        if len(headers) > limits.header_count:
            self.stop_parsing(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too_many_headers")
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self.stop_parsing(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "http_version_not_supported")
        self._check_request_line(version)
        hosts = 0
        size = 0
        for name, value in headers:
            size += len(name) + len(value)
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding" and value.lower() != b"chunked":
                self.stop_parsing(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_transfer_encoding")
        if size > limits.head_bytes:
            self.stop_parsing(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large")
        if hosts != 1 and (hosts or version == "1.1" or self.is_host_required_in_1_0):
            self.stop_parsing(HTTPStatus.BAD_REQUEST, "bad_host")
        return version

    def refuse(self, status: HTTPStatus, code: str) -> None:
        """Write a refusal and close."""
        self._is_deaf = True
        self.transport.write(self.refusal_bytes(status, code))
        self.linger()

    def linger(self) -> None:
        """Give the client time to read the answer before the connection closes: it may still be sending a body."""
        self._is_deaf = True
        self._is_arriving = False
        self._deadline_s = self.loop.time() + LINGER_S
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()

    # --- called by the transport

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if not self._is_arriving:
            self._line, self._line_end = data, 0
        elif len(self._line) - self._line_end < _MAX_LINE_BYTES:
            self._line += data
        self._has_ended = False
        self._unused += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Answer the request, but ignore all input after it: the server has not agreed to switch to the protocol
            # that the client asks for.
            self._is_deaf = True
            return
        except httptools.HttpParserInvalidMethodError:
            if data[0] == _TLS_HANDSHAKE:
                self.transport.close()
            else:
                self.refuse_arriving(HTTPStatus.NOT_IMPLEMENTED, "unknown_method")
            return
        except httptools.HttpParserError:
            self.refuse_arriving(*(self._refusal or (HTTPStatus.BAD_REQUEST, "unparsable")))
            return
        if self._is_arriving:
            self._check_arriving(len(data))

    def _check_arriving(self, size: int) -> None:
        """Refuse an incomplete request that is already too large. Otherwise, extend its deadline for the `size` bytes
        that arrived."""
        if not self._began_s:
            self._began_s = self.loop.time()
        if not self._has_ended:
            self._received += size
        limits = self._arrival_limits.current
        self._deadline_s = self._began_s + limits.receipt_s + self._received / _BODY_BYTES_PER_S
        # The parser does not report unfinished header fields or trailers, so this count is the only sign of their size.
        if self._unused > limits.head_bytes:
            self.refuse_arriving(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large")
        elif len(self.headers) > limits.header_count:
            self.refuse_arriving(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too_many_headers")

    # --- called by the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_arriving = True
        self._began_s = 0.0
        self._received = self._unused = 0

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > MAX_TARGET_BYTES:
            self.stop_parsing(HTTPStatus.REQUEST_URI_TOO_LONG, "target_too_long")

    def on_headers_complete(self) -> None:
        self.begin_cycle(self._check_head())
        self._unused = 0
        if not self.cycle.keep_alive:
            # Keep uvicorn from closing the connection before the body has arrived: see LINGER_S.
            self._close_after = self.cycle.keep_alive = True
        # Collect trailers in a new list. The scope has the old list, and the application already processes the request.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._unused = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_arriving = False
        self._has_ended = True
        self._deadline_s = math.inf
        if self._close_after:
            self._close_after = self.cycle.keep_alive = False

    def _check_request_line(self, version: str) -> None:
        """Refuse a request line with another protocol or more than one blank, and line ends before it."""
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version.encode())
        # The first request line is at the beginning of the input. Later request lines follow bodies, so search from the
        # end of the previous line.
        found = self._line.find(line, self._line_end)
        if found < 0 or (self._line_end == 0 and found > 0):
            self.stop_parsing(HTTPStatus.BAD_REQUEST, "bad_request_line")
        self._line_end = found + len(line)
