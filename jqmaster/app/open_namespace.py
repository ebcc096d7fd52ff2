"""The parts that serve one namespace while its shard is open."""

import contextvars
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, Literal

from jqmaster.api.app import build_app
from jqmaster.api.http.auth import AccessPolicy
from jqmaster.api.http.endpoint import LimitsInForce
from jqmaster.api.http.namespace_paths import Application
from jqmaster.api.operations.live_feed import LiveFeed
from jqmaster.app.services import RequestServices
from jqmaster.app.shard import ServedShard
from jqmaster.lifecycle import Component
from jqmaster.service.operations.metrics import Metrics

# The stages of a namespace, which are also those of a process. They start in this order and stop in reverse:
# first everything that requests need, then polls and streams, and last the lead.
Stage = Literal["requests", "polls", "lead"]
STAGES: Final[tuple[Stage, ...]] = ("requests", "polls", "lead")


class _LateFeed:
    """Component: opens the feed that the first request creates. Failures of the feed are reported as failures of
    this component."""

    def __init__(self) -> None:
        self._feed: LiveFeed | None = None
        self._context = contextvars.copy_context()

    async def start(self) -> None:
        # Run the feed's loops in this context, because the context determines where loops report failures.
        self._context = contextvars.copy_context()

    async def stop(self) -> None:
        if self._feed:
            await self._feed.stop()

    def begin(self, feed: LiveFeed) -> None:
        self._feed = feed
        self._context.run(feed.open)


class OpenNamespace:
    """The parts of one open namespace.

    * `follows`: components that watch documents in the shard's store for changes.
    * `make_requests`: builds the services for requests when the first request comes.
    * `metrics`: the metrics of the namespace.
    """

    def __init__(
        self,
        shard: ServedShard,
        make_requests: Callable[[], RequestServices],
        *,
        follows: Sequence[Component],
        policy: AccessPolicy,
        limits: LimitsInForce,
        metrics: Metrics,
    ) -> None:
        self.shard = shard
        self.metrics = metrics
        self._make_requests = make_requests
        self._feed = _LateFeed()
        self._follows = follows
        self._policy = policy
        self._limits = limits

    @cached_property
    def app(self) -> Application:
        """Return the application for the namespace's requests. It is built for the first request."""
        requests = self._make_requests()
        self._feed.begin(requests.feed)
        return build_app(requests.bundle(), self._policy, limits=self._limits)

    def components(self, stage: Stage) -> Sequence[Component]:
        """Return the components of a stage in the order of their dependencies."""
        match stage:
            case "requests":
                return [*self._follows, *self.shard.lower_components()]
            case "polls":
                return [self._feed, *self.shard.asking_components()]
            case "lead":
                return self.shard.leading_components()
