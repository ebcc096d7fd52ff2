"""Serve the paths below `/ns/NAME`. Each namespace has the same paths as the default namespace."""

from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jqmaster.api.encoding.answers import encode
from jqmaster.api.encoding.negotiation import join_fields, negotiate
from jqmaster.api.http.auth import AccessPolicy
from jqmaster.api.http.problems import problem_response
from jqmaster.api.http.security_headers import DATA_HEADERS
from jqmaster.domain.identity.access import Scope as AccessScope
from jqmaster.domain.namespaces.namespace import DEFAULT, PATHS
from jqmaster.errors import (
    JqmasterError,
    NamespaceUnavailableError,
    NotFoundError,
    StoreUnavailableError,
    unknown_namespace,
)

NAMESPACES: Final = PATHS
# Prefix of the paths of namespaces below another namespace. No such path exists, because namespaces are not nested.
_NESTED: Final = NAMESPACES.lstrip("/")
# An application that serves the requests of one namespace.
Application = ASGIApp


class NamespacePaths:
    """ASGI application. Removes the prefix from the path and passes the request to the namespace that the prefix
    names. `app_of` returns the application of a namespace, or raises an error that says why the namespace is not
    served."""

    def __init__(self, app_of: Callable[[str], Application], policy: AccessPolicy) -> None:
        self._app_of = app_of
        self._policy = policy
        self._under_way: Counter[str] = Counter()

    def is_busy(self, name: str) -> bool:
        """Return whether requests to this namespace are being answered."""
        return self._under_way[name] > 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, slash, rest = scope["path"].removeprefix(NAMESPACES).partition("/")
        try:
            if rest.startswith(_NESTED):
                raise unknown_namespace(rest.removeprefix(_NESTED).partition("/")[0])
            app = self._app_of(name)
        except JqmasterError as exc:
            answer = self._refusal(
                exc, scope, is_probe=rest == "readyz" and not isinstance(exc, NotFoundError)
            )
            await answer(scope, receive, send)
            return
        if not slash:
            await _lead_to_root(name, send)
            return
        prefix = f"{NAMESPACES}{name}"
        self._under_way[name] += 1
        try:
            await app(
                {**scope, "path": f"/{rest}", "raw_path": scope["raw_path"].removeprefix(prefix.encode())},
                receive,
                send,
            )
        finally:
            self._under_way[name] -= 1

    def _refusal(self, exc: JqmasterError, scope: Scope, *, is_probe: bool) -> Response:
        fields = join_fields(scope["headers"])
        client = scope.get("client")
        try:
            self._policy.authorize("GET", fields, client[0] if client else None, AccessScope.READ)
            may_read = True
        except JqmasterError:
            may_read = False
        shown, encoding = _shown(exc, may_read=may_read), negotiate(fields, strict=False)
        if not is_probe or scope["method"] != "GET":
            return problem_response(shown, encoding)
        fault = shown.detail if may_read else exc.code
        headers = {"retry-after": "1"}
        response = Response(encode(_not_ready(fault), encoding), 503, headers, encoding.value)
        response.raw_headers += DATA_HEADERS
        return response


class RootPaths:
    """ASGI application of a master that could not serve its default namespace at the start, because the store was
    unreachable.

    As long as that namespace is not served, `/healthz` and `/readyz` describe the process. `is_useful` returns
    whether the process serves any other namespace."""

    def __init__(
        self,
        namespaces: NamespacePaths,
        *,
        is_default_served: Callable[[], bool],
        is_useful: Callable[[], bool],
        master_id: str,
    ) -> None:
        self._namespaces = namespaces
        self._is_default_served = is_default_served
        self._is_useful = is_useful
        self._master_id = master_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path.startswith(NAMESPACES):
            await self._namespaces(scope, receive, send)
            return
        answer: dict[str, Any] | None = None
        if not self._is_default_served():
            if path == "/healthz":
                answer = {"status": "ok", "id": self._master_id}
            elif path == "/readyz" and self._is_useful():
                answer = {**_not_ready(""), "status": "ready", "faults": [], "duty_faults": [_DEFAULT_AWAY]}
        if answer is None:
            prefix = f"{NAMESPACES}{DEFAULT}"
            below = {"path": f"{prefix}{path}", "raw_path": prefix.encode() + scope["raw_path"]}
            await self._namespaces({**scope, **below}, receive, send)
            return
        encoding = negotiate(join_fields(scope["headers"]), strict=False)
        response = Response(encode(answer, encoding), 200, media_type=encoding.value)
        response.raw_headers += DATA_HEADERS
        await response(scope, receive, send)


_DEFAULT_AWAY: Final = (
    f"the namespace {DEFAULT} is not served: its store has been unreachable since the master started"
)


def _shown(exc: JqmasterError, *, may_read: bool) -> JqmasterError:
    """Return the error in the form that the caller may see. Only callers with the right to read see the reason,
    because the reason may name paths and addresses."""
    if isinstance(exc, StoreUnavailableError) and not may_read:
        return StoreUnavailableError("the store of the namespace does not answer", retry_after_s=1.0)
    if isinstance(exc, NamespaceUnavailableError) and exc.reason and may_read:
        detail = f"{exc.detail}: {exc.reason}"
        return NamespaceUnavailableError(detail, code=exc.code, retry_after_s=exc.retry_after_s or 1.0)
    return exc


def _not_ready(fault: str) -> dict[str, Any]:
    """Return the answer of `/readyz` for a namespace that is not served."""
    return {
        "status": "not_ready",
        "durability": "besteffort",
        "durability_available": "besteffort",
        "leader": False,
        "store": "not serving",
        "faults": [fault],
        "duty_faults": [],
    }


async def _lead_to_root(name: str, send: Send) -> None:
    """Redirect from `/ns/NAME` to `/ns/NAME/`: relative addresses in the web UI need the final slash."""
    headers = [(b"location", f"./{name}/".encode()), (b"content-length", b"0"), *DATA_HEADERS]
    await send({"type": "http.response.start", "status": HTTPStatus.FOUND, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
