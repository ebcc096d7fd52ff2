"""The ASGI application of a master."""

from starlette.routing import Route, Router

from jqmaster.api.auth import AccessPolicy
from jqmaster.api.endpoint import Endpoint, Limits, Operation, not_found
from jqmaster.api.routes import OPERATIONS
from jqmaster.api.scan import ScanLimits
from jqmaster.api.services import Services
from jqmaster.api.static import Site
from jqmaster.config import Settings


class LiveLimits:
    """The limits of a request, as the settings are now."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._settings: Settings | None = None

    def __call__(self) -> Limits:
        if (settings := self._services.settings) is not self._settings:
            self._settings = settings
            scan = ScanLimits(settings.max_nesting, settings.max_argument_nodes)
            self._limits = Limits(settings.max_body_bytes, scan)
        return self._limits


def build_app(services: Services, policy: AccessPolicy) -> Router:
    """Deny by default: a path or method without an operation, and that is no file of the web UI, answers 404 or 405.

    No middleware stands in between.
    """
    limits = LiveLimits(services)
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    routes = [
        # Names of jobs may hold slashes, and clients escape them or not.
        Route(path.replace("{job_name}", "{job_name:path}"), Endpoint(operations, policy, limits, services))
        for path, operations in by_path.items()
    ]
    return Router(routes, redirect_slashes=False, default=Site(not_found))
