"""The quotas that are in force in one namespace."""

import sys
from collections.abc import Mapping
from typing import Final

from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.live_value import LiveValue
from jqmaster.service.namespaces.registry import NamespaceRegistry

UNBOUNDED: Final = sys.maxsize


class QuotasInForce:
    """Component: has the quotas for pushes, registrations and streams. These are the namespace's own, or the defaults
    of the installation. The limits in the settings apply in addition.

    * `argument_bytes`: bytes of one argument.
    * `streams`: live event streams of this master; both are `UNBOUNDED` without a quota.
    * `pushes_per_s`: jobs pushed in a second.
    * `workers`: registered workers. None: there is no quota.
    """

    def __init__(self, registry: NamespaceRegistry, name: str) -> None:
        self.argument_bytes: LiveValue[int] = LiveValue(UNBOUNDED)
        self.pushes_per_s: LiveValue[int | None] = LiveValue(None)
        self.workers: LiveValue[int | None] = LiveValue(None)
        self.streams: LiveValue[int] = LiveValue(UNBOUNDED)
        self._registry = registry
        self._name = name

    async def start(self) -> None:
        self._registry.follow(self._obey)
        self._obey(self._registry.current)

    async def stop(self) -> None:
        self._registry.unfollow(self._obey)

    def _obey(self, _: Mapping[str, Namespace]) -> None:
        quotas = self._registry.quotas_of(self._name)
        self.argument_bytes.current = quotas.argument_bytes or UNBOUNDED
        self.pushes_per_s.current = quotas.pushes_per_s
        self.workers.current = quotas.workers
        self.streams.current = quotas.streams or UNBOUNDED
