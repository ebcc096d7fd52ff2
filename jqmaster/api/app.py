"""The ASGI application of a master."""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.api.http.agent_endpoint import PATH, AgentEndpoint
from jqmaster.api.http.auth import AccessPolicy
from jqmaster.api.http.endpoint import (
    Call,
    CallLimits,
    Endpoint,
    LimitsInForce,
    Operation,
    Reply,
    not_found,
)
from jqmaster.api.http.namespace_paths import NAMESPACES
from jqmaster.api.http.static import Site
from jqmaster.api.routes import OPERATIONS
from jqmaster.api.services import Services
from jqmaster.config import MIB, Settings
from jqmaster.errors import NotFoundError
from jqmaster.service.operations.live_settings import LiveSettings

_WORKERS: Final = "/api/workers/"
_OF_WORKER: Final = _WORKERS + "{worker_id}/"


# Lower bounds for the limits of vital calls, which no setting can reduce (see `Operation.is_vital`). A body of
# this size can hold the largest result that the settings allow, even as JSON.
VITAL_BODY_BYTES: Final = 32 * MIB
VITAL_SCAN: Final = ScanLimits(max_nesting=64, max_nodes=100_000)


def _usual(settings: Settings) -> CallLimits:
    scan = ScanLimits(settings.max_nesting, settings.max_argument_nodes)
    return CallLimits(settings.max_body_bytes, scan, scan)


def _vital(settings: Settings) -> CallLimits:
    usual = _usual(settings)
    scan = usual.scan
    return CallLimits(
        max(usual.max_body_bytes, VITAL_BODY_BYTES),
        ScanLimits(max(scan.max_nesting, VITAL_SCAN.max_nesting), max(scan.max_nodes, VITAL_SCAN.max_nodes)),
        scan,
    )


def limits_in_force(live: LiveSettings) -> LimitsInForce:
    """Return the limits for requests. All namespaces of a process share them."""
    return LimitsInForce(live.derive(_usual), live.derive(_vital))


def build_app(
    services: Services,
    policy: AccessPolicy,
    *,
    limits: LimitsInForce | None = None,
    namespaces: ASGIApp | None = None,
) -> Router:
    """Return the application. It answers 404 for unknown paths and 405 for unknown methods.

    * `limits`: None: the settings decide.
    * `namespaces`: serves the paths that begin with `/ns/`.

    It has no middleware.
    """
    limits = limits or limits_in_force(services.live)
    by_path: dict[str, list[Operation]] = {}
    for known in OPERATIONS:
        is_refused = known.is_of_installation and services.prefix
        operation = replace(known, handler=_refuse_in_namespace) if is_refused else known
        by_path.setdefault(operation.path, []).append(operation)
    endpoints = {path: Endpoint(operations, policy, limits, services) for path, operations in by_path.items()}
    routes = [
        # Let job names contain slashes, which clients may or may not escape.
        Route(path.replace("{job_name}", "{job_name:path}"), endpoint)
        for path, endpoint in endpoints.items()
    ]
    if prefix := services.settings.fireworq_prefix:
        # Import the gateway only if it is on.
        from jqmaster.api.fireworq.routes import fireworq_router

        gateway = fireworq_router(prefix, services, policy, limits)
        routes[:0] = [Route(prefix, gateway), Route(prefix + "/{below:path}", gateway)]
    fixed: dict[str, ASGIApp] = {path: endpoint for path, endpoint in endpoints.items() if "{" not in path}
    app = _Paths(fixed, routes, Site(not_found), namespaces)
    fixed[PATH] = AgentEndpoint(app, policy, services)
    return app


async def _refuse_in_namespace(call: Call) -> Reply:
    raise NotFoundError(
        "namespaces and users belong to the installation: call this path without the prefix /ns/NAME"
    )


class _Paths(Router):
    """A router with a table of frequent paths.

    The table holds the paths that workers call and the paths without parameters, such as the path of pushes. For
    them, this router is faster than a plain router, which tries one route after another."""

    def __init__(
        self,
        fixed: Mapping[str, ASGIApp],
        routes: Sequence[Route],
        default: ASGIApp,
        namespaces: ASGIApp | None,
    ) -> None:
        super().__init__(routes, redirect_slashes=False, default=default)
        self._fixed = fixed
        self._namespaces = namespaces
        self._of_workers = {
            route.path.removeprefix(_OF_WORKER): route.app
            for route in routes
            if route.path.startswith(_OF_WORKER)
        }

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        path: str = scope.get("path", "")
        endpoint: ASGIApp | None = self._fixed.get(path)
        path_params = {}
        if endpoint is None and path.startswith(_WORKERS):
            worker_id, _, call = path[len(_WORKERS) :].partition("/")
            if worker_id and (endpoint := self._of_workers.get(call)) is not None:
                path_params = {"worker_id": worker_id}
        elif endpoint is None and path.startswith(NAMESPACES):
            endpoint = self._namespaces
        if endpoint is None or scope["type"] != "http":
            return super().__call__(scope, receive, send)
        scope["path_params"] = path_params
        # Return the coroutine of the endpoint. The caller awaits it.
        return cast(Coroutine[Any, Any, None], endpoint(scope, receive, send))
