"""The parts that serve one namespace while its shard is open."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final, Literal

from jqmaster.api.app import build_app
from jqmaster.api.http.auth import AccessPolicy
from jqmaster.api.http.endpoint import LimitsInForce
from jqmaster.api.http.namespace_paths import Application
from jqmaster.app.services import RequestServices
from jqmaster.app.shard import ServedShard
from jqmaster.lifecycle import Component

# A namespace starts in this order and stops in reverse, as a whole process does: first what requests need, then polls
# and streams, and then the lead.
Stage = Literal["requests", "polls", "lead"]
STAGES: Final[tuple[Stage, ...]] = ("requests", "polls", "lead")


class OpenNamespace:
    """A shard, its services for requests, and `follows`: components that follow documents in the shard's store."""

    def __init__(
        self,
        shard: ServedShard,
        requests: RequestServices,
        *,
        follows: Sequence[Component],
        policy: AccessPolicy,
        limits: LimitsInForce,
    ) -> None:
        self._shard = shard
        self._requests = requests
        self._follows = follows
        self._policy = policy
        self._limits = limits

    @cached_property
    def app(self) -> Application:
        """The application for the namespace's requests, which is built for the first of them."""
        return build_app(self._requests.bundle(), self._policy, limits=self._limits)

    def components(self, stage: Stage) -> Sequence[Component]:
        """Return the components of a stage in the order of need."""
        match stage:
            case "requests":
                return [*self._follows, *self._shard.lower_components()]
            case "polls":
                return [self._requests.feed, *self._shard.asking_components()]
            case "lead":
                return self._shard.leading_components()
