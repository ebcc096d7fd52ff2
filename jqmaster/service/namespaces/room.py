"""The room that the quota of waiting jobs leaves to a namespace."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from jqmaster.clock import Clock, sleep_to_tick
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import JqmasterError, RateLimitedError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.service.namespaces.registry import NamespaceRegistry

LOOK_S: Final = 1.0
# A full namespace empties at the pace of its workers.
RETRY_AFTER_S: Final = 5.0


class NamespaceRoom:
    """Component. Counts the waiting jobs of a namespace once a second while it has a quota for them, so more than the
    quota may wait for as long. Without a quota, it does nothing.

    `waiting` returns their number. `on_change` is called when `check` begins or ceases to refuse.
    """

    def __init__(
        self,
        registry: NamespaceRegistry,
        name: str,
        waiting: Callable[[], Awaitable[int]],
        clock: Clock,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._name = name
        self._waiting = waiting
        self._clock = clock
        self._on_change = on_change
        self._full_at: int | None = None
        self._has_quota = asyncio.Event()
        self._loops = BackgroundLoops(f"quotas {name}", is_vital=False)

    async def start(self) -> None:
        self._registry.follow(self._obey)
        self._obey(self._registry.current)
        self._loops.spawn("look", self._run)

    async def stop(self) -> None:
        self._registry.unfollow(self._obey)
        await self._loops.stop()

    def check(self) -> None:
        """Raise RateLimitedError while as many jobs wait as the quota allows."""
        if self._full_at is not None:
            raise RateLimitedError(
                f"{self._full_at} jobs of namespace {self._name} wait, which is its quota; nothing was accepted",
                code="namespace_full",
                retry_after_s=RETRY_AFTER_S,
            )

    @property
    def _quota(self) -> int | None:
        namespace = self._registry.current.get(self._name)
        return namespace.quotas.waiting_jobs if namespace else None

    def _obey(self, _: Mapping[str, Namespace]) -> None:
        if self._quota is None:
            self._has_quota.clear()
            self._become(None)
        else:
            self._has_quota.set()

    async def _run(self) -> None:
        while True:
            await self._has_quota.wait()
            try:
                waiting = await self._waiting()
            except JqmasterError:
                pass  # the pushes themselves will report the fault
            else:
                quota = self._quota
                self._become(quota if quota is not None and waiting >= quota else None)
            self._loops.worked("look")
            await sleep_to_tick(self._clock, LOOK_S)

    def _become(self, full_at: int | None) -> None:
        if full_at != self._full_at:
            self._full_at = full_at
            self._on_change()
