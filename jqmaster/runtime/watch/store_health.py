"""Watch the store: how full it is, and whether it still has the durability that it had at the start."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from jqmaster.clock import Clock
from jqmaster.config import Durability, Settings
from jqmaster.errors import StoreUnavailableError
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.store.health.probe import look_again
from jqmaster.store.health.store_report import LEVELS, StoreReport
from jqmaster.store.link.client import StoreClient

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0
# Refuse new jobs beyond this share of maxmemory, so that results, heartbeats and removals still find room.
FULL_AT: Final = 0.8
MAX_OUTAGES: Final = 20
_RANKS: Final = {level: rank for rank, level in enumerate(LEVELS)}


class StoreHealth(PeriodicLoop):
    """Component: watches the store, and decides whether new jobs are admitted.

    * `report`: the probe's result at the start.
    * `quorum_of`: the clients whose writes wait for replicas, if that is configured.
    * `faults`: why new jobs are refused at present, by failed check. `space`: the store is full. `fitness`: the store
      must not get any data. `durability`: it is less than configured.
    * `is_away`: the store did not answer the last look.
    """

    is_vital = True

    def __init__(
        self,
        client: StoreClient,
        clock: Clock,
        settings: Settings,
        report: StoreReport,
        *,
        quorum_of: Sequence[StoreClient],
    ) -> None:
        super().__init__("store_health", clock, complaint="cannot look at the store", retry_s=POLL_S)
        self._client = client
        self._quorum_of = quorum_of
        self._settings = settings
        self._report = report
        self.faults: dict[str, str] = {}
        # Called after each look, which may have changed what `admit` returns.
        self.on_look: Callable[[], None] = lambda: None
        # The last outages, in monotonic seconds: each lasts from the last answer before it to the first answer after
        # it.
        self.outages: deque[tuple[float, float]] = deque(maxlen=MAX_OUTAGES)
        self._answered_s = clock.monotonic_s()
        self.is_away = False
        self._take(report)

    @property
    def report(self) -> StoreReport:
        """Return the store's last report, at most a second old."""
        return self._report

    @property
    def durability_available(self) -> Durability:
        """Return the highest level that the store provides."""
        return self._report.durability

    @property
    def durability(self) -> Durability:
        """Return the level that the store provides now, at most the configured one."""
        return min(self._settings.durability, self.durability_available, key=_RANKS.__getitem__)

    def admit(self, durability: Durability | None = None) -> int:
        """Return the number of replicas that must have a new job of this level. None stands for the configured level.
        Raise StoreUnavailableError while new jobs, or those of this level, are refused.
        """
        level = durability or self._settings.durability
        if self.faults:
            for check, code in (("fitness", "store_unfit"), ("space", "store_full")):
                if fault := self.faults.get(check):
                    raise StoreUnavailableError(fault, code=code, retry_after_s=5)
        if _RANKS[level] > _RANKS[self._report.durability]:
            raise StoreUnavailableError(
                f"the store provides {self.durability_available} at present, which is less than {level}; "
                "nothing was accepted",
                code="durability_unavailable",
                retry_after_s=5,
            )
        return self._report.replicas_needed if level == "fsync+quorum" else 0

    async def _round(self) -> float:
        report = await look_again(self._client, self._settings, self._report)
        now_s = self._clock.monotonic_s()
        if self.is_away:
            self.outages.append((self._answered_s, now_s))
        self._answered_s, self.is_away = now_s, False
        # While the store loads its data, it refuses all commands, and its report does not show the state after loading.
        if not report.is_loading:
            self._take(report)
        return POLL_S

    def _failed(self, error: Exception, complaint: str) -> None:
        """Log nothing: every caller notices that the store is away."""
        self.is_away = True

    def _take(self, report: StoreReport) -> None:
        self._report = report
        if self._settings.durability == "fsync+quorum":
            for client in self._quorum_of:
                client.quorum_replicas = report.replicas_needed
        errors = [fault for fault in report.faults if fault.level == "error"]
        faults = {
            check: "; ".join(f"{fault.what} ({fault.how_to_fix})" for fault in errors if fault.check == check)
            for check in ("fitness", "durability")
        }
        used, most = report.memory_used_bytes, report.memory_max_bytes
        if most and used > most * FULL_AT:
            faults["space"] = (
                f"the store is full: {used} of {most} bytes are used; new jobs are refused until there is room"
            )
        faults = {check: fault for check, fault in faults.items() if fault}
        for check, fault in faults.items():
            if check not in self.faults:
                logger.error("%s", fault)
        for check in self.faults.keys() - faults.keys():
            logger.info("the store's %s is in order again", check)
        self.faults = faults
        self.on_look()
