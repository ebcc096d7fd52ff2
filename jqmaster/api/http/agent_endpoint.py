"""`/mcp`: agents' tools over HTTP. Each tool calls this master's API in the same process, with the caller's token."""

import asyncio
import importlib
import importlib.util
from http import HTTPStatus
from time import perf_counter
from types import ModuleType
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from jqmaster.api.encoding.negotiation import join_fields, negotiate
from jqmaster.api.http.auth import AccessPolicy
from jqmaster.api.http.connection_room import PROVE
from jqmaster.api.http.endpoint import FENCE, delivery_loop
from jqmaster.api.http.problems import problem_response
from jqmaster.api.services import Services
from jqmaster.domain.identity.access import Scope as AccessScope
from jqmaster.errors import NotFoundError
from jqmaster.log_context import REQUEST, RequestContext

PATH: Final = "/mcp"
EXTRA: Final = "mcp"


class AgentEndpoint:
    """ASGI application of `/mcp`. It imports the packages of the extra `mcp` at the first request. `api`: the
    application that serves the calls of the tools."""

    def __init__(self, api: ASGIApp, policy: AccessPolicy, services: Services) -> None:
        self._api = api
        self._policy = policy
        self._services = services
        self._traffic = services.traffic.of("POST", PATH)
        self._other_traffic = services.traffic.of("other", PATH)

    @staticmethod
    def is_installed() -> bool:
        """Return whether the extra that the tools need is installed."""
        return importlib.util.find_spec(EXTRA) is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = perf_counter()
        fields = join_fields(scope["headers"])
        request = RequestContext(fields.get(b"x-request-id"), {})
        REQUEST.set(request)
        client = scope.get("client")
        try:
            if scope["method"] != "POST":
                raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})
            self._policy.authorize("POST", fields, client[0] if client else None, AccessScope.READ)
            if FENCE in fields:
                raise delivery_loop()
            if (prove := scope.get(PROVE)) is not None:
                prove(is_worker=False)
            if not self.is_installed():
                raise NotFoundError(
                    "this master has no tools for agents: install jqmaster[mcp] and restart it",
                    code="agents_off",
                )
            # Import the module in a thread, because the import takes most of a second and would block the master.
            server = await asyncio.to_thread(_server_module)
        except Exception as exc:
            problem = problem_response(exc, negotiate(fields, strict=False))
            await problem(scope, receive, send)
            traffic = self._traffic if scope["method"] == "POST" else self._other_traffic
            traffic.add(problem.status_code, perf_counter() - began_s)
            return
        credential = fields.get(b"authorization", b"")
        headers = {"Host": fields.get(b"host", b"").decode("latin-1")}
        if credential:
            headers["Authorization"] = credential.decode("latin-1")
        for name in (b"x-forwarded-for", b"x-forwarded-proto"):
            if name in fields:
                headers[name.decode()] = fields[name].decode("latin-1")
        import httpx

        transport = httpx.ASGITransport(self._api, client=tuple(client) if client else ("", 0))
        async with httpx.AsyncClient(transport=transport, base_url="http://master", headers=headers) as http:
            key = server.key_of(self._services.store_id, credential)
            app = server.http_app(server.MasterCalls(http), server.Confirmations(key))
            await app(scope, receive, send)
        self._traffic.add(HTTPStatus.OK, perf_counter() - began_s)


def _server_module() -> ModuleType:
    return importlib.import_module("jqmaster.agents.server")
