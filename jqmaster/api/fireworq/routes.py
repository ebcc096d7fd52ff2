"""Routes of the Fireworq gateway, below its prefix."""

from typing import Final

from starlette.routing import Route, Router

from jqmaster.api.fireworq import handlers
from jqmaster.api.fireworq.endpoint import FireworqEndpoint
from jqmaster.api.http.auth import AccessPolicy
from jqmaster.api.http.endpoint import Handler, LimitsInForce, Operation, not_found
from jqmaster.api.services import Services
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.identity.caller import Networks

_READ: Final[dict[str, Handler]] = {
    "": handlers.version,
    "/": handlers.version,
    "/version": handlers.version,
    "/settings": handlers.settings,
    "/queues": handlers.list_queues,
    "/queues/stats": handlers.all_stats,
    "/queue/{queue}": handlers.get_queue,
    "/queue/{queue}/node": handlers.queue_node,
    "/queue/{queue}/stats": handlers.queue_stats,
    "/queue/{queue}/grabbed": handlers.list_grabbed,
    "/queue/{queue}/waiting": handlers.list_waiting,
    "/queue/{queue}/deferred": handlers.list_deferred,
    "/queue/{queue}/failed": handlers.list_failed,
    "/queue/{queue}/job/{id}": handlers.get_job,
    "/queue/{queue}/failed/{id}": handlers.get_failure,
    "/routings": handlers.list_routings,
    "/routing/{category}": handlers.get_routing,
}
CHANGES: Final[dict[tuple[str, str], Handler]] = {
    ("PUT", "/queue/{queue}"): handlers.put_queue,
    ("DELETE", "/queue/{queue}"): handlers.delete_queue,
    ("DELETE", "/queue/{queue}/job/{id}"): handlers.delete_job,
    ("DELETE", "/queue/{queue}/failed/{id}"): handlers.delete_failure,
    ("PUT", "/routing/{category}"): handlers.put_routing,
    ("DELETE", "/routing/{category}"): handlers.delete_routing,
}
_PUSH: Final = ("POST", "/job/{category}")


def fireworq_router(prefix: str, services: Services, policy: AccessPolicy, limits: LimitsInForce) -> Router:
    """Return the application of all paths below `prefix`."""
    networks = Networks(services.settings.fireworq_networks)
    by_path: dict[str, list[Operation]] = {}
    for path, handler in _READ.items():
        by_path.setdefault(path, []).append(_operation("GET", prefix + path, handler, Scope.READ))
    for (method, path), handler in CHANGES.items():
        by_path.setdefault(path, []).append(_operation(method, prefix + path, handler, Scope.OPERATE))
    method, path = _PUSH
    by_path[path] = [_operation(method, prefix + path, handlers.push, Scope.PUSH)]
    routes = [
        # Let categories contain slashes.
        Route(
            prefix + path.replace("{category}", "{category:path}"),
            FireworqEndpoint(operations, policy, limits, services, networks=networks),
        )
        for path, operations in by_path.items()
    ]
    return Router(routes, redirect_slashes=False, default=not_found)


def _operation(method: str, path: str, handler: Handler, access: Scope) -> Operation:
    return Operation(
        method,
        path,
        handler,
        access,
        "",
        "fireworq",
        {200: None},
        push="single" if access is Scope.PUSH else None,
        # Accept any content type, because clients of Fireworq send all kinds.
        takes_any_body=True,
    )
