"""Check whether another system, such as the archive of job logs, works, long before a job needs it."""

from collections.abc import Callable
from typing import Final, Protocol

from jqmaster.clock import Clock
from jqmaster.errors import JqmasterError
from jqmaster.runtime.periodic_loop import PeriodicLoop

EVERY_S: Final = 3600.0
RETRY_S: Final = 60.0


class Probed(Protocol):
    async def probe(self) -> None:
        """Check the system. Raise JqmasterError with the fault and its remedy."""
        ...


class OutsideCheck(PeriodicLoop):
    """Component: checks another system from time to time. `fault`: why the last check failed. Empty: it succeeded. Each
    fault is logged once.

    `what`: the name of the system for people. `until_then`: the consequence until the fault is repaired."""

    is_vital = False

    def __init__(self, name: str, probed: Probed, clock: Clock, *, what: str, until_then: str) -> None:
        super().__init__(f"{name}_check", clock, complaint=f"{what} cannot be used")
        self.name = name
        self._probed = probed
        self._what = what
        self._until_then = until_then
        self.fault = ""
        # Called when `fault` has changed.
        self.on_change: Callable[[], object] = lambda: None

    async def _round(self) -> float:
        try:
            await self._probed.probe()
        except JqmasterError as exc:
            if exc.detail != self.fault:
                self._logger.warning("%s: %s; %s", self._complaint, exc.detail, self._until_then)
                self.fault = exc.detail
                self.on_change()
            return RETRY_S
        if self.fault:
            self._logger.info("%s can be used again", self._what)
            self.fault = ""
            self.on_change()
        return EVERY_S
