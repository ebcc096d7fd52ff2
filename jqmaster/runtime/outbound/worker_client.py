"""Call workers. Calls return the outcome and do not raise, because a worker that misbehaves is an everyday outcome."""

import asyncio
import functools
import logging
import math
import ssl
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgpack

from jqmaster.domain.workers.worker import Worker
from jqmaster.errors import AddressRefusedError
from jqmaster.live_value import LiveValue
from jqmaster.net.egress import EgressGuard, GuardedRoute
from jqmaster.runtime.outbound.push_body import encode_push
from jqmaster.store.jobs.claims import Claim
from worker_sdk.transport.call_faults import Remedies, cause_of, remedy
from worker_sdk.transport.http_client import (
    HttpAnswer,
    HttpClient,
    NoAnswerError,
    NotSentError,
    field_lines,
    split_address,
)
from worker_sdk.transport.signature import signed_headers
from worker_sdk.transport.tls import LiveContext

logger = logging.getLogger(__name__)

CONTENT_TYPE: Final = "application/msgpack"
# Maximum size of a worker's answer. Workers' answers are small; a larger one is invalid and is not read.
MAX_ANSWER_BYTES: Final = 256 * 1024
CONNECT_TIMEOUT_S: Final = 1.0
# Timeout of a command. It is short, because people wait for commands, and the answer to the next heartbeat repeats
# them.
COMMAND_TIMEOUT_S: Final = 1.5
MAX_RETRY_AFTER_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Rejection:
    job_id: str
    reason: str
    retry_after_s: float | None


@dataclass(frozen=True, slots=True)
class Delivered:
    """The worker answered, and took all jobs except those that it rejected."""

    rejections: list[Rejection] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """No job of the push was started: it never arrived, or was refused as a whole. `is_answer`: the worker answered
    with a status that does not concern the worker as a whole. So another push may succeed."""

    why: str
    retry_after_s: float | None = None
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The worker cannot read or use the push, and has started no job: 400, 413, or 422."""

    why: str


@dataclass(frozen=True, slots=True)
class MaybeDelivered:
    """Bytes were sent, but no valid answer came back. `is_answer`: an invalid answer came back."""

    why: str
    is_answer: bool = False


PushResult = Delivered | NotDelivered | Refused | MaybeDelivered


# Status codes of refusals: first those because of the content of the push, then those because of the worker's state.
_ABOUT_THE_PUSH: Final = frozenset({400, 413, 422})
_ABOUT_THE_WORKER: Final = frozenset({429, 503})
# Status codes of a gateway whose worker did not answer.
_OF_A_GATEWAY: Final = frozenset({502, 504})
_MAX_SAID: Final = 300

_REMEDIES: Final = Remedies("does the worker listen there?", "calls_cafile", "calls_certfile")
_NO_CALL: Final = (AddressRefusedError, NotSentError, NoAnswerError, TimeoutError)
# Ask for uncompressed answers. This client never decompresses, because a small answer could become a huge one.
_FIELD_LINES: Final = field_lines(
    {
        "User-Agent": "jqmaster",
        "Content-Type": CONTENT_TYPE,
        "Accept": CONTENT_TYPE,
        "Accept-Encoding": "identity",
    }
)


class WorkerClient:
    """Component: calls workers. It connects only where `guard` lets it."""

    def __init__(
        self, guard: EgressGuard, *, timeout_s: LiveValue[float], tls: LiveContext | None = None
    ) -> None:
        """`tls`: the TLS context of calls by https. None: trust the system's certificate authorities."""
        self._tls = tls
        self._http = HttpClient(
            GuardedRoute(guard, self._context), max_answer_bytes=MAX_ANSWER_BYTES, is_end_an_answer=True
        )
        self._timeout_s = timeout_s

    async def start(self) -> None:
        """Do nothing: nothing runs before the first call."""

    async def stop(self) -> None:
        await self._http.close()

    def _context(self) -> ssl.SSLContext:
        return self._tls.context if self._tls else _system_context()

    async def push(self, worker: Worker, epoch: int, claim: Claim) -> PushResult:
        """Offer claimed jobs to their worker."""
        body = encode_push(worker.id, epoch, claim)
        try:
            answer = await self._call(worker, "/jobs", body)
        except (AddressRefusedError, NotSentError) as exc:
            return NotDelivered(f"cannot connect ({_explained(exc, worker.spec.url, is_proven=True)})")
        except NoAnswerError as exc:
            return MaybeDelivered(_explained(exc, worker.spec.url, is_proven=True))
        status = answer.status
        if status == 200:
            return _read_push_answer(answer.body, [job.job_id for job in claim.jobs])
        if 200 <= status < 300 or (status >= 500 and status != 503):
            return MaybeDelivered(f"status {status}", is_answer=status not in _OF_A_GATEWAY)
        if status == HTTPStatus.UNAUTHORIZED:
            return NotDelivered(
                "status 401: it rejects the signature; do the clocks of master and worker agree within five minutes?"
            )
        if status in _ABOUT_THE_PUSH:
            return Refused(f"status {status}{_problem_detail(answer.body)}")
        is_answer = status not in _ABOUT_THE_WORKER
        return NotDelivered(f"status {status}", _retry_after(answer.retry_after), is_answer)

    async def cancel(self, worker: Worker, epoch: int, job_id: str, token: str) -> bool:
        """Tell a worker to stop a job. Return False if it could not be reached."""
        try:
            answer = await self._call(
                worker, f"/jobs/{job_id}/cancel", msgpack.packb({"token": token, "epoch": epoch})
            )
        except _NO_CALL:
            return False
        return answer.status == 200

    async def command(self, worker: Worker, epoch: int, command: str) -> bool:
        """Send a worker the command `drain`, `resume` or `detach`. Return False if it could not be reached."""
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_S):
                answer = await self._call(worker, f"/{command}", msgpack.packb({"epoch": epoch}))
        except _NO_CALL:
            return False
        return answer.status == 200

    async def ping(self, worker: Worker, timeout_s: float) -> bool:
        """Return whether the worker's address answers with a success (2xx) within `timeout_s`. The call is unsigned,
        because it has no content."""
        if worker.spec.url is None:
            return False
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._send("GET", worker.spec.url, "/ping", b"", {})
        except _NO_CALL:
            return False
        return 200 <= answer.status < 300

    async def prove(self, url: str, nonce: str) -> Any:
        """Return the proof that the server at `url` gives. None: it gives no proof. Raise AddressRefusedError."""
        try:
            answer = await self._send("POST", url, "/challenge", msgpack.packb({"nonce": nonce}), {})
            if answer.status != 200:
                raise AddressRefusedError(f"it answered with status {answer.status}")
            return msgpack.unpackb(answer.body).get("proof")
        except AddressRefusedError:
            raise
        except Exception as exc:
            # A worker would not answer in this way, so something else is at this address.
            reason = (
                _explained(exc, url)
                if isinstance(exc, NotSentError | NoAnswerError)
                else "its answer is not valid"
            )
            raise AddressRefusedError(reason or type(exc).__name__) from None

    async def _call(self, worker: Worker, path: str, body: bytes) -> HttpAnswer:
        assert worker.spec.url
        # Use the path exactly as registered, because the signature covers its bytes.
        _, prefix = split_address(worker.spec.url)
        signed = signed_headers(
            secret=worker.spec.secret, method="POST", path=prefix + path, worker_id=worker.id, body=body
        )
        return await self._send("POST", worker.spec.url, path, body, signed)

    async def _send(
        self, method: str, address: str, path: str, body: bytes, fields: dict[str, str]
    ) -> HttpAnswer:
        if self._tls:
            self._tls.refresh()
        return await self._http.call(
            method,
            address,
            path,
            body,
            field_lines(fields) + _FIELD_LINES,
            timeout_s=self._timeout_s.current,
            connect_timeout_s=CONNECT_TIMEOUT_S,
        )


@functools.cache
def _system_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _explained(exc: Exception, address: str | None, *, is_proven: bool = False) -> str:
    """Return the text of an error with its remedy. `is_proven`: the worker proved the address when it registered."""
    advice = remedy(cause_of(exc), address or "", _REMEDIES, has_answered=is_proven)
    return f"{exc}; {advice}" if advice else str(exc)


def _read_push_answer(answer: bytes, job_ids: list[str]) -> PushResult:
    try:
        fields = msgpack.unpackb(answer)
        rejections = [
            Rejection(str(item["job_id"]), str(item["reason"]), _retry_after(item.get("retry_after")))
            for item in fields["rejected"]
        ]
        accepted = fields["accepted"]
        if not isinstance(accepted, list):
            raise TypeError("accepted is a list of job IDs")
        # Compare the lists first: usually the worker takes all jobs, in order.
        if accepted != job_ids and not {*accepted, *(r.job_id for r in rejections)}.issuperset(job_ids):
            raise ValueError("the answer does not name every job")
        return Delivered(rejections)
    except Exception:
        # This answer is invalid, so it does not show what the worker did with the jobs.
        return MaybeDelivered("its answer is not valid", is_answer=True)


def _problem_detail(body: bytes) -> str:
    """Return the detail of a problem, for people. It comes from the worker, and may be anything."""
    try:
        detail = msgpack.unpackb(body)["detail"]
    except Exception:  # a worker can send anything
        return ""
    if not isinstance(detail, str) or not detail:
        return ""
    shown = "".join(char if char.isprintable() else " " for char in detail[:_MAX_SAID])
    return f" ({shown})"


def _retry_after(value: object) -> float | None:
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
