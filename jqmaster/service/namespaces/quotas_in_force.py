"""The quotas that are in force in one namespace."""

import sys
from collections.abc import Mapping
from typing import Final

from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.live_value import LiveValue
from jqmaster.service.namespaces.registry import NamespaceRegistry

UNBOUNDED: Final = sys.maxsize


class QuotasInForce:
    """Component: has the quotas for pushes, registrations and streams. Each quota is the namespace's own or, if it has
    none, the default of the installation. The limits in the settings also apply.

    * `argument_bytes`: maximum bytes of one argument. `UNBOUNDED` without a quota.
    * `streams`: maximum number of open event streams at this master. `UNBOUNDED` without a quota.
    * `pushes_per_s`: maximum number of jobs that are pushed in a second. None: there is no quota.
    * `workers`: maximum number of registered workers. None: there is no quota.
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
