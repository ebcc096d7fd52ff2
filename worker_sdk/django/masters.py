"""The masters that get the requests of the web UI."""

import asyncio
import functools
import json
import time
import weakref
from collections.abc import Sequence
from typing import Final

import httpx

from worker_sdk.django.ui_settings import ui_settings

CONNECT_TIMEOUT_S: Final = 5.0
# Timeout of reading an answer: longer than the pauses of long polls and event streams.
READ_TIMEOUT_S: Final = 90.0
# After a master has confirmed that it trusts this site, it is not asked again for this long.
KNOWN_S: Final = 60.0

Fields = Sequence[tuple[str, bytes]]


class UnknownSiteError(Exception):
    """The master does not trust this site to say who the user is."""


class MasterTransport:
    """Sends requests to the first master that accepts the connection. Raises httpx.TransportError if no master accepts
    it, and UnknownSiteError if the master does not trust this site to say who the user is."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._first = 0
        self._timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, pool=CONNECT_TIMEOUT_S)
        self._limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._known_until_s: dict[str, float] = {}
        self._sync: httpx.Client | None = None
        # One client for each event loop, because a connection can only be used in the loop that opened it.
        self._async: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    async def send(
        self, method: str, target: str, fields: Fields, content: bytes, *, probe: Fields
    ) -> httpx.Response:
        """Send a request, and return its answer. The body of the answer is not read yet. `probe`: fields that name a
        user. A first request with these fields checks whether the master trusts this site."""
        loop = asyncio.get_running_loop()
        if (client := self._async.get(loop)) is None:
            client = self._async[loop] = httpx.AsyncClient(timeout=self._timeout, limits=self._limits)
        for url in self._in_turn():
            try:
                if not self._is_known(url):
                    self._judge(url, await client.get(f"{url}/api/session", headers=_raw(_asking(probe))))
                request = client.build_request(
                    method, f"{url}/{target}", headers=_raw(fields), content=content
                )
                return await client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        raise httpx.ConnectError("no master accepts a connection")

    def send_sync(
        self, method: str, target: str, fields: Fields, content: bytes, *, probe: Fields
    ) -> httpx.Response:
        """Do what `send` does, without an event loop."""
        if self._sync is None:
            self._sync = httpx.Client(timeout=self._timeout, limits=self._limits)
        for url in self._in_turn():
            try:
                if not self._is_known(url):
                    self._judge(url, self._sync.get(f"{url}/api/session", headers=_raw(_asking(probe))))
                request = self._sync.build_request(
                    method, f"{url}/{target}", headers=_raw(fields), content=content
                )
                return self._sync.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        raise httpx.ConnectError("no master accepts a connection")

    def _in_turn(self) -> list[str]:
        """Return the addresses, starting with a different one at each call."""
        first = self._first
        self._first = (first + 1) % len(self._urls)
        return self._urls[first:] + self._urls[:first]

    def _is_known(self, url: str) -> bool:
        return time.monotonic() < self._known_until_s.get(url, float("-inf"))

    def _judge(self, url: str, answer: httpx.Response) -> None:
        """Raise UnknownSiteError if the master would ignore who the user is, as a master without tokens does for
        requests from its own machine."""
        try:
            method = json.loads(answer.content).get("method")
        except (ValueError, AttributeError):
            method = None
        if method != "proxy":
            raise UnknownSiteError(
                f"the master at {url} does not trust this site to say who the user is: compare login_user_header, "
                "login_proxies, login_proxy_secret and group_roles with JQMASTER_UI"
            )
        self._known_until_s[url] = time.monotonic() + KNOWN_S


def _asking(fields: Fields) -> list[tuple[str, bytes]]:
    """Return the header fields that name the user, without those about the message itself."""
    names = {"accept", "accept-encoding", "content-type", "if-match", "if-none-match", "idempotency-key"}
    kept = [(name, value) for name, value in fields if name not in names]
    return [*kept, ("accept", b"application/json"), ("accept-encoding", b"identity")]


def _raw(fields: Fields) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value) for name, value in fields]


@functools.cache
def _masters(urls: tuple[str, ...]) -> MasterTransport:
    return MasterTransport(urls)


def masters() -> MasterTransport:
    """Return the masters of the settings."""
    return _masters(ui_settings().masters)
