"""S3 storage: moto's server behind a proxy that can deny, delay, cut short or be away."""

import contextlib
import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from pydantic import SecretStr

from jqmaster.store.logs.archive import ArchiveAddress
from tests.support.ports import free_port

BUCKET = "job-logs"
STARTS_WITHIN_S = 60.0

_REGION = b"<LocationConstraint>eu-west-1</LocationConstraint>"
_CONSTRAINT = b"<CreateBucketConfiguration>" + _REGION + b"</CreateBucketConfiguration>"

Fault = Literal["", "denied", "slow", "slow reads", "truncated", "away"]


class S3Server:
    """`fault` applies to requests, and `requests` counts them. Slow requests are `held` until `let_go` is set."""

    def __init__(self) -> None:
        self.fault: Fault = ""
        self.requests = 0
        self.held = 0
        self.let_go = threading.Event()
        self._port = free_port()
        self._moto: subprocess.Popen[bytes] | None = None
        self._door = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._door.daemon_threads = True

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._door.server_address[1]}"

    @property
    def address(self) -> ArchiveAddress:
        return ArchiveAddress(
            f"s3://{BUCKET}/logs", self.endpoint, "eu-west-1", SecretStr("key"), SecretStr("secret")
        )

    @contextlib.contextmanager
    def serving(self) -> Iterator["S3Server"]:
        self._moto = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        door = threading.Thread(target=self._door.serve_forever, kwargs={"poll_interval": 0.05})
        try:
            self._make_bucket()
            door.start()
            yield self
        finally:
            self.let_go.set()
            if door.ident is not None:
                self._door.shutdown()
                door.join()
            self._door.server_close()
            self._moto.kill()
            self._moto.wait()

    def forget_all(self) -> None:
        """Start again with an empty bucket and without a fault."""
        self.fault, self.requests = "", 0
        self.let_go.clear()
        self.forward("POST", "/moto-api/reset", {}, b"")
        self._make_bucket()

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)) as moto:
            moto.request(method, path, body, headers)
            answer = moto.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def _make_bucket(self) -> None:
        ends_at_s = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                status, _, text = self.forward(
                    "PUT", f"/{BUCKET}", {"Host": "s3.eu-west-1.amazonaws.com"}, _CONSTRAINT
                )
                assert status == 200, text
                return
            except OSError:
                if time.monotonic() > ends_at_s:
                    raise
                time.sleep(0.05)


def _handler(server: S3Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.requests += 1
            fault = server.fault
            self.close_connection = True
            if fault == "away":
                return
            is_object_read = self.command == "GET" and "list-type" not in self.path
            if fault == "slow" or (fault == "slow reads" and is_object_read):
                server.held += 1
                server.let_go.wait()
            if fault == "denied":
                self._send(403, [], b"<Error><Code>AccessDenied</Code></Error>", 0)
                return
            status, headers, found = server.forward(self.command, self.path, dict(self.headers), body)
            is_cut = fault == "truncated" and is_object_read
            self._send(status, headers, found, 10 if is_cut else 0)

        def _send(self, status: int, headers: list[tuple[str, str]], body: bytes, missing: int) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # the caller may have given up
            with contextlib.suppress(OSError):
                self.wfile.write(body[: len(body) - missing] if self.command != "HEAD" else b"")

    for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", Handler._answer)
    return Handler
