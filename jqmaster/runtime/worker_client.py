"""Calls to workers. They return what happened and do not raise: a worker that misbehaves is an everyday outcome."""

import asyncio
import io
import logging
import math
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import msgpack
from yarl import URL

from jqmaster.domain.worker import Worker
from jqmaster.errors import AddressRefusedError
from jqmaster.runtime.push_body import encode_push
from jqmaster.runtime.signing import signed_headers
from jqmaster.store.jobs import Claim
from jqmaster.tls import LiveContext

logger = logging.getLogger(__name__)

CONTENT_TYPE: Final = "application/msgpack"
# What a worker answers is small; more is garbage, and is not read.
MAX_ANSWER_BYTES: Final = 256 * 1024
WRITE_AT_ONCE_BYTES: Final = 512 * 1024
CONNECT_TIMEOUT_S: Final = 1.0
# People wait for it, and a heartbeat says the same.
ORDER_TIMEOUT_S: Final = 1.5
MAX_RETRY_AFTER_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Rejection:
    job_id: str
    reason: str
    retry_after_s: float | None


@dataclass(frozen=True, slots=True)
class Delivered:
    """The worker answered: it has taken all but those that it rejected."""

    rejections: list[Rejection] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """Nothing of the push was started: it never got there, or was refused whole."""

    why: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class MaybeDelivered:
    """Bytes went out and no answer that makes sense came back."""

    why: str


PushResult = Delivered | NotDelivered | MaybeDelivered


class WorkerClient:
    """Component. Connects only where `connector` lets it (the egress guard); follows no redirects, reads no proxy settings."""

    def __init__(
        self, connector: aiohttp.BaseConnector, *, timeout_s: float, tls: LiveContext | None = None
    ) -> None:
        """`tls`: the context of the connector, if it follows files."""
        self._connector = connector
        self._tls = tls
        self.tune(timeout_s=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    def tune(self, *, timeout_s: float) -> None:
        """From the next call on."""
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            raise_for_status=False,
        )

    async def stop(self) -> None:
        if self._session:
            await self._session.close()

    async def push(self, worker: Worker, epoch: int, claim: Claim) -> PushResult:
        """Offers claimed jobs to their worker."""
        body = encode_push(worker.id, epoch, claim)
        try:
            status, headers, answer = await self._call(worker, "POST", "/jobs", body)
        except (
            aiohttp.ClientConnectorError,
            aiohttp.InvalidURL,
            aiohttp.ConnectionTimeoutError,
            AddressRefusedError,
        ) as exc:
            return NotDelivered(f"cannot connect ({type(exc).__name__})")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as exc:
            return MaybeDelivered(type(exc).__name__)
        if status == 200:
            return _read_push_answer(answer)
        if 200 <= status < 300 or (status >= 500 and status != 503):
            return MaybeDelivered(f"status {status}")
        if status == HTTPStatus.UNAUTHORIZED:
            return NotDelivered("status 401: the signature; do the clocks of both agree within five minutes?")
        return NotDelivered(f"status {status}", _retry_after(headers.get("Retry-After")))

    async def cancel(self, worker: Worker, epoch: int, job_id: str, token: str) -> bool:
        """Orders a worker to stop a job; False when it could not be told."""
        try:
            status, _, _ = await self._call(
                worker, "POST", f"/jobs/{job_id}/cancel", msgpack.packb({"token": token, "epoch": epoch})
            )
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, AddressRefusedError):
            return False
        return status == 200

    async def order(self, worker: Worker, epoch: int, order: str) -> bool:
        """Orders a worker to `drain`, `resume` or `detach`; False when it could not be told."""
        try:
            async with asyncio.timeout(ORDER_TIMEOUT_S):
                status, _, _ = await self._call(worker, "POST", f"/{order}", msgpack.packb({"epoch": epoch}))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, AddressRefusedError):
            return False
        return status == 200

    async def ping(self, worker: Worker, timeout_s: float) -> bool:
        """Whether anything answers at its address within so short a time; unsigned, as it says nothing."""
        if worker.spec.url is None:
            return False
        try:
            async with asyncio.timeout(timeout_s):
                status, _, _ = await self._send(URL(worker.spec.url + "/ping", encoded=True), "GET", b"", {})
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, AddressRefusedError):
            return False
        return 200 <= status < 300

    async def prove(self, url: str, nonce: str) -> str:
        """The proof of whoever serves `url`. Raises AddressRefusedError."""
        try:
            status, _, answer = await self._send(
                URL(url + "/challenge", encoded=True), "POST", msgpack.packb({"nonce": nonce}), {}
            )
            proof = msgpack.unpackb(answer)["proof"] if status == 200 else None
        except AddressRefusedError:
            raise
        except Exception as exc:
            raise AddressRefusedError(
                f"the worker's URL cannot be reached ({type(exc).__name__})", code="address_unverified"
            ) from None
        if not isinstance(proof, str):
            raise AddressRefusedError("what serves the worker's URL is no worker", code="address_unverified")
        return proof

    async def _call(self, worker: Worker, method: str, path: str, body: bytes) -> tuple[int, Any, bytes]:
        assert worker.spec.url
        # As registered: what is signed must be what is sent, to the byte.
        url = URL(worker.spec.url + path, encoded=True)
        headers = signed_headers(
            secret=worker.spec.secret, method=method, path=url.raw_path, worker_id=worker.id, body=body
        )
        return await self._send(url, method, body, headers)

    async def _send(
        self, url: URL, method: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, Any, bytes]:
        assert self._session
        if self._tls:
            self._tls.refresh()
        # Answers are not unpacked (a small one could become a huge one), so none may come packed.
        headers = {
            **headers,
            "Content-Type": CONTENT_TYPE,
            "Accept": CONTENT_TYPE,
            "Accept-Encoding": "identity",
        }
        # A large body is written piece by piece; at once it would hold up the event loop.
        data = body if len(body) <= WRITE_AT_ONCE_BYTES else io.BytesIO(body)
        async with self._session.request(
            method, url, data=data, headers=headers, allow_redirects=False, timeout=self._timeout
        ) as response:
            answer = await response.content.read(MAX_ANSWER_BYTES + 1)
            while not response.content.at_eof() and len(answer) <= MAX_ANSWER_BYTES:
                answer += await response.content.read(MAX_ANSWER_BYTES)
            if len(answer) > MAX_ANSWER_BYTES:
                response.close()
                raise ValueError("the answer is too long")
            return response.status, response.headers, answer


def _read_push_answer(answer: bytes) -> PushResult:
    try:
        fields = msgpack.unpackb(answer)
        rejections = [
            Rejection(str(item["job_id"]), str(item["reason"]), _retry_after(item.get("retry_after")))
            for item in fields["rejected"]
        ]
        if not isinstance(fields["accepted"], list):
            raise TypeError("accepted is a list of job IDs")
        return Delivered(rejections)
    except Exception:
        # Whatever a worker can send; what it did with the jobs cannot be known from this.
        return MaybeDelivered("its answer makes no sense")


def _retry_after(value: object) -> float | None:
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
