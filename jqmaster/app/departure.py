"""The orderly shutdown of a master: load balancers learn of it before the port closes."""

import asyncio
from collections.abc import Callable, Sequence

from jqmaster.lifecycle import Component
from jqmaster.live_value import LiveValue


class Departure:
    """The steps of a shutdown.

    * `/readyz` reports the shutdown as soon as it begins.
    * The process gives its leads back, so that other masters take them at once.
    * The port stays open for `linger_s` seconds, if the process has not failed. During this time, each answer
      closes its connection.

    The port stays open because a load balancer removes an endpoint only some seconds after the process was told
    to stop. Until then, it sends requests to the endpoint.
    """

    def __init__(self, linger_s: float, *, has_failed: Callable[[], bool]) -> None:
        self._linger_s = linger_s
        self._has_failed = has_failed
        self.is_begun = LiveValue(False)

    def around(self, components: Sequence[Component]) -> list[Component]:
        """Return these components between the announcement and the wait. At shutdown, the announcement comes
        first, then the components stop, and then the wait follows."""
        return [_Wait(self), *components, _Announcement(self)]

    async def linger(self) -> None:
        """Wait for the time for which the port stays open."""
        if self._linger_s and not self._has_failed():
            await asyncio.sleep(self._linger_s)


class _Announcement:
    """Component: announces the shutdown. It stops first."""

    def __init__(self, departure: Departure) -> None:
        self._departure = departure

    async def start(self) -> None:
        self._departure.is_begun.current = False

    async def stop(self) -> None:
        self._departure.is_begun.current = True


class _Wait:
    """Component: waits during the shutdown. It stops after the lead was given back, and before the server stops."""

    def __init__(self, departure: Departure) -> None:
        self._departure = departure

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        await self._departure.linger()
