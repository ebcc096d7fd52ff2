"""Dispatch calls of masters to a worker in several namespaces. The path of the URL names the namespace of each call."""

from collections.abc import Mapping

from worker_sdk.transport.asgi_types import Receive, Scope, Send
from worker_sdk.worker.asgi import WorkerEndpoint

PREFIX = "/ns/"


class NamespaceEndpoint(WorkerEndpoint):
    """Handles the calls of one namespace. Its registered URL ends in `/ns/NAME`."""

    def _route(self, scope: Scope) -> str:
        path = super()._route(scope)
        # Remove the rest of the prefix: the path may no longer contain the mount point or the prefix of a proxy.
        own = self._prefix[self._prefix.rindex(PREFIX) :]
        return path[len(own) :] if path.startswith(own + "/") else path


class NamespaceEndpoints:
    """Passes each call to the endpoint of its namespace. A call without a namespace goes to the first endpoint, which
    then answers only `/ping`."""

    def __init__(self, endpoints: Mapping[str, WorkerEndpoint]) -> None:
        self._endpoints = endpoints
        self._first = next(iter(endpoints.values()))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request."""
        name = scope["path"].rpartition(PREFIX)[2].partition("/")[0]
        await self._endpoints.get(name, self._first).handle(scope, receive, send)
