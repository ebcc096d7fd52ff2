"""The bare ASGI application that a worker serves. It answers requests that are not part of the protocol with an empty
404 or 405."""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from worker_sdk.transport.asgi_types import Receive, Scope, Send
from worker_sdk.transport.signature import SignatureCheck
from worker_sdk.wire import CONTENT_TYPE, DecodeError, decode, decode_jobs, encode
from worker_sdk.worker.admission import Admission, MalformedError
from worker_sdk.worker.bodies import Bodies
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.registry import Registry

if TYPE_CHECKING:
    from worker_sdk import protocol

logger = logging.getLogger(__name__)

Reply = tuple[int, Any]

_CONTENT_TYPE: Final = CONTENT_TYPE.encode()
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
_MAX_CHALLENGE_BYTES: Final = 1024
# How long a signed call waits until a registration in progress has ended. Masters wait longer for the answer to the
# call.
_REGISTRATION_WAIT_S: Final = 2.0

_ORDERS: Final = ("/drain", "/resume", "/detach")
_METHODS: Final = {
    "/jobs": "POST",
    "/status": "GET",
    "/ping": "GET",
    "/challenge": "POST",
    **dict.fromkeys(_ORDERS, "POST"),
}


class Lifespan(Protocol):
    async def start_mounted(self) -> None: ...

    async def stop(self) -> object: ...


class WorkerEndpoint:
    """Handles the calls of masters. `url` is the registered URL: its path is part of the signed text. `bodies`: the
    request bodies of the whole server, if several endpoints share it."""

    def __init__(
        self,
        *,
        url: str,
        registry: Registry,
        signature: SignatureCheck,
        identity: WorkerIdentity,
        admission: Admission,
        executor: Executor,
        beat_now: Callable[[], None],
        bodies: Bodies | None = None,
    ) -> None:
        self._prefix = urlsplit(url).path.rstrip("/")
        self._registry = registry
        self._signature = signature
        self._identity = identity
        self._admission = admission
        self._executor = executor
        self._beat_now = beat_now
        self._bodies = bodies or Bodies()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request."""
        route = self._route(scope)
        allowed = _METHODS.get(route) or ("POST" if _cancel_target(route) is not None else None)
        if allowed is None:
            return await _answer(send, 404)
        method = scope["method"]
        if method != allowed:
            return await _answer(send, 405, headers=[(b"allow", allowed.encode())])
        if route == "/ping":
            return await _answer(send, 204)
        headers = _fields(scope["headers"])
        if route == "/challenge":
            status, value = await self._challenge(headers, receive)
        else:
            status, value = await self._signed(method, route, headers, receive)
        return await _answer(send, status, value)

    def _route(self, scope: Scope) -> str:
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        # Remove the prefix. In a mounted application, the path may contain the mount point (root_path); behind a proxy,
        # it may contain the prefix of the URL.
        for prefix in (root, self._prefix):
            if prefix and path.startswith(prefix + "/"):
                return path[len(prefix) :]
        return path

    async def _challenge(self, headers: dict[bytes, bytes], receive: Receive) -> Reply:
        status, body = await self._read_body(headers, receive, _MAX_CHALLENGE_BYTES)
        if status:
            return status, None
        try:
            fields = decode(body)
        except DecodeError:
            return 400, None
        proof = self._signature.prove(fields.get("nonce") if isinstance(fields, dict) else None)
        return (422, None) if proof is None else (200, {"proof": proof})

    async def _signed(self, method: str, route: str, headers: dict[bytes, bytes], receive: Receive) -> Reply:
        if self._identity.is_registering:
            await self._identity.settled(_REGISTRATION_WAIT_S)
        worker_id = self._identity.worker_id
        if worker_id is None or not self._signature.may_be_valid(headers, worker_id):
            return 401, None
        status, body = await self._read_body(headers, receive, MAX_BODY_BYTES)
        if status:
            return status, None
        if not self._signature.is_valid(method, self._prefix + route, headers, worker_id, body):
            return 401, None
        if route == "/status":
            return 200, self._status(worker_id)
        try:
            fields = decode_jobs(body) if route == "/jobs" else decode(body)
            if not isinstance(fields, dict):
                raise MalformedError("not a map")
            if route == "/jobs":
                return self._push(fields, worker_id)
            if route in _ORDERS:
                return self._order(route, fields)
            return self._cancel(_cancel_target(route) or "", fields)
        except DecodeError as exc:
            return 400, _problem(400, "unparsable", str(exc))
        except MalformedError as exc:
            return 422, _problem(422, "invalid", str(exc))

    async def _read_body(
        self, headers: dict[bytes, bytes], receive: Receive, max_bytes: int
    ) -> tuple[int, bytes]:
        """Return (0, body), or (status, b"") if the body is refused."""
        status, body = await self._bodies.read(headers, receive, max_bytes)
        if body and headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _CONTENT_TYPE:
            return 415, b""
        return status, body

    def _push(self, fields: dict[str, Any], worker_id: str) -> Reply:
        epoch, jobs = fields.get("epoch"), fields.get("jobs")
        if type(epoch) is not int or not isinstance(jobs, list) or fields.get("worker_id") != worker_id:
            raise MalformedError("the body needs epoch, jobs, and the worker_id of this worker")
        return 200, self._admission.offer(epoch, jobs)

    def _cancel(self, job_id: str, fields: dict[str, Any]) -> Reply:
        token, epoch = fields.get("token"), fields.get("epoch")
        if type(token) is not str or type(epoch) is not int:
            raise MalformedError("token and epoch are needed")
        if epoch < self._identity.epoch:
            return _STALE_ORDER
        self._identity.note_epoch(epoch)
        return (200, {}) if self._executor.cancel(job_id, token) else (404, None)

    def _order(self, route: str, fields: dict[str, Any]) -> Reply:
        epoch = fields.get("epoch")
        if epoch is not None:
            if type(epoch) is not int:
                raise MalformedError("epoch must be an integer")
            if epoch < self._identity.epoch:
                return _STALE_ORDER
            self._identity.note_epoch(epoch)
        if route != "/detach":
            self._identity.is_drain_ordered = route == "/drain"
        # The worker obeys only answers to heartbeats. An answer to a heartbeat that was sent before this command may
        # contradict the command, so send a new heartbeat at once.
        self._beat_now()
        return 200, {}

    def _status(self, worker_id: str) -> "protocol.WorkerStatus":
        return {
            "worker_id": worker_id,
            "running": [{"job_id": run.job_id, "token": run.token} for run in self._executor.owed_runs()],
            "free": self._admission.free,
            "max_jobs": self._executor.max_jobs,
            "names": self._registry.names,
            "draining": self._admission.is_draining,
        }


class ServedEndpoint(Protocol):
    """Handles the calls of masters, for one namespace or for several."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class AsgiApp:
    """The ASGI application of a worker. `endpoint`: returns the current endpoint, or None before the start and after
    the end."""

    def __init__(self, lifespan: Lifespan, endpoint: Callable[[], ServedEndpoint | None]) -> None:
        self._lifespan = lifespan
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            endpoint = self._endpoint()
            if endpoint is None:
                await _answer(send, 503, headers=[(b"retry-after", b"1")])
            else:
                await endpoint.handle(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            # Refuse a websocket before it is opened.
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self._lifespan.start_mounted()
                except Exception as exc:
                    await send({"type": "lifespan.startup.failed", "message": f"{type(exc).__name__}: {exc}"})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._lifespan.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _cancel_target(route: str) -> str | None:
    """Return the job ID in `/jobs/{id}/cancel`."""
    parts = route.split("/")
    if len(parts) == 4 and parts[1] == "jobs" and parts[3] == "cancel" and parts[2]:
        return parts[2]
    return None


def _fields(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        # Join the values of a repeated field. All checks refuse the joined value.
        fields[name] = fields[name] + b", " + value if name in fields else value
    return fields


def _problem(status: int, code: str, detail: str) -> "protocol.Problem":
    return {
        "type": "about:blank",
        "title": code,
        "status": status,
        "detail": detail,
        "code": code,
        "errors": [],
    }


_STALE_ORDER: Final = (409, _problem(409, "stale_epoch", "a command of an older leader"))


async def _answer(
    send: Send, status: int, value: Any = None, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    body = b"" if value is None else encode(value)
    fields = [*headers]
    if status != 204:
        fields.append((b"content-length", str(len(body)).encode()))
    if body:
        fields.append((b"content-type", _CONTENT_TYPE))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
