"""Checks a namespace's quotas for waiting jobs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from jqmaster.clock import Clock, WakeFlag, sleep_to_tick
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.namespaces.quotas import Quotas
from jqmaster.errors import JqmasterError, RateLimitedError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.service.namespaces.registry import NamespaceRegistry

LOOK_S: Final = 1.0
# Retry-After while a namespace has as many waiting jobs as its quota allows. The number falls only as fast as workers
# take jobs.
RETRY_AFTER_S: Final = 5.0
# A quota counts as nearly used up once this share of it is used.
NEARLY: Final = 0.8


class NamespaceRoom:
    """Component: counts the waiting jobs of the namespace and their bytes once a second, if the namespace has a quota
    for them. Between two counts, more jobs may be accepted than the quota allows.

    `count` returns the number of waiting jobs, and `size` estimates the bytes of their records. `on_change` is called
    when `check` starts or stops refusing.
    """

    def __init__(
        self,
        registry: NamespaceRegistry,
        name: str,
        clock: Clock,
        *,
        count: Callable[[], Awaitable[int]],
        size: Callable[[], Awaitable[int]],
        on_change: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._name = name
        self._clock = clock
        self._count = count
        self._size = size
        self._on_change = on_change
        self._fullness = ""
        self._nearly_used: Mapping[str, str] = {}
        self._has_quota = WakeFlag()
        self._loops = BackgroundLoops(f"quotas {name}", is_vital=False)

    async def start(self) -> None:
        self._registry.follow(self._obey)
        self._obey(self._registry.current)
        self._loops.spawn("look", self._run)

    async def stop(self) -> None:
        self._registry.unfollow(self._obey)
        await self._loops.stop()

    def check(self) -> None:
        """Raise RateLimitedError while as many jobs or bytes wait as the quotas allow."""
        if self._fullness:
            raise RateLimitedError(
                f"{self._fullness} of namespace {self._name} wait, as many as its quota allows; nothing was accepted",
                code="namespace_full",
                retry_after_s=RETRY_AFTER_S,
            )

    def nearly_used(self) -> Mapping[str, str]:
        """Return a text by name for each quota that was at least 80 % used at the last count."""
        return self._nearly_used

    @property
    def _quotas(self) -> Quotas:
        return self._registry.quotas_of(self._name)

    def _obey(self, _: Mapping[str, Namespace]) -> None:
        quotas = self._quotas
        if quotas.waiting_jobs is None and quotas.waiting_bytes is None:
            self._has_quota.clear()
            self._nearly_used = {}
            self._become("")
        else:
            self._has_quota.set()

    async def _run(self) -> None:
        while True:
            await self._has_quota.wait()
            try:
                fullness = await self._look()
            except JqmasterError:
                pass  # the pushes will report the fault of the store
            else:
                self._become(fullness)
            self._loops.worked("look")
            await sleep_to_tick(self._clock, LOOK_S)

    async def _look(self) -> str:
        """Count the waiting jobs. Return, in words, the amount that uses up a quota. Empty: no quota is used up."""
        jobs = await self._count() if self._quotas.waiting_jobs else 0
        size = await self._size() if self._quotas.waiting_bytes else 0
        # Read the quotas only now, because they may have changed while the counts were read.
        quotas = self._quotas
        used = {"waiting_jobs": (jobs, quotas.waiting_jobs), "waiting_bytes": (size, quotas.waiting_bytes)}
        self._nearly_used = {
            name: f"{name}: {100 * value / most:.0f} % of {most} are used"
            for name, (value, most) in used.items()
            if most is not None and value >= NEARLY * most
        }
        if quotas.waiting_jobs is not None and jobs >= quotas.waiting_jobs:
            return f"{quotas.waiting_jobs} jobs"
        if quotas.waiting_bytes is not None and size >= quotas.waiting_bytes:
            return f"{quotas.waiting_bytes} bytes of jobs"
        return ""

    def _become(self, fullness: str) -> None:
        if fullness != self._fullness:
            self._fullness = fullness
            self._on_change()
