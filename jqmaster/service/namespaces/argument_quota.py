"""The quota of a namespace for the argument of one job."""

import sys
from collections.abc import Mapping
from typing import Final

from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.live_value import LiveValue
from jqmaster.service.namespaces.registry import NamespaceRegistry

UNBOUNDED: Final = sys.maxsize


class ArgumentQuota:
    """Component. `most`: the bytes that the argument of a job may have by the quota of its namespace, or `UNBOUNDED`.
    The settings have a limit of their own."""

    def __init__(self, registry: NamespaceRegistry, name: str) -> None:
        self.most: LiveValue[int] = LiveValue(UNBOUNDED)
        self._registry = registry
        self._name = name

    async def start(self) -> None:
        self._registry.follow(self._obey)
        self._obey(self._registry.current)

    async def stop(self) -> None:
        self._registry.unfollow(self._obey)

    def _obey(self, namespaces: Mapping[str, Namespace]) -> None:
        namespace = namespaces.get(self._name)
        quota = namespace.quotas.argument_bytes if namespace else None
        self.most.current = UNBOUNDED if quota is None else quota
