"""Watches how full the store is and whether it still keeps what it takes."""

import logging
from typing import Final

from jqmaster.clock import Clock
from jqmaster.errors import JqmasterError, StoreUnavailableError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.client import StoreClient

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0
# Beyond this share of maxmemory new jobs are refused, so that results, heartbeats and removals still find room.
FULL_AT: Final = 0.8


class StoreGauge:
    """Component. `fault` says why new jobs are refused at present; None: they are not."""

    def __init__(self, client: StoreClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._loops = BackgroundLoops("store_gauge")
        self.fault: str | None = None

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        await self._loops.stop()

    def admit(self) -> None:
        """Raises StoreUnavailableError while new jobs are refused."""
        if self.fault:
            raise StoreUnavailableError(self.fault, code="store_full", retry_after_s=5)

    async def _run(self) -> None:
        while True:
            try:
                info = await self._client.command("INFO", "memory")
            except JqmasterError:
                pass  # its absence shows itself to every caller
            else:
                self._judge(dict(line.partition(":")[::2] for line in info.decode().splitlines()))
            await self._clock.sleep(POLL_S)

    def _judge(self, memory: dict[str, str]) -> None:
        used, most = int(memory.get("used_memory", 0)), int(memory.get("maxmemory", 0))
        policy = memory.get("maxmemory_policy", "noeviction")
        fault = None
        if most and policy != "noeviction":
            fault = f"the store evicts data (maxmemory-policy {policy}); set it to noeviction"
        elif most and used > most * FULL_AT:
            fault = f"the store is full: {used} of {most} bytes are used; new jobs are refused until there is room"
        if fault and fault != self.fault:
            logger.error("%s", fault)
        self.fault = fault
