"""The orderly shutdown of a master: load balancers learn of it before the port closes."""

import asyncio
from collections.abc import Callable, Sequence

from jqmaster.lifecycle import Component
from jqmaster.live_value import LiveValue


class Departure:
    """The steps of a shutdown. As soon as it begins, `/readyz` reports it. The lead is given back first, so that
    another master takes it at once. Then the port stays open for `linger_s`, unless the process has failed. Meanwhile
    each answer closes its connection.

    A load balancer removes an endpoint some seconds after the process was told to stop, and sends requests there until
    then.
    """

    def __init__(self, linger_s: float, *, has_failed: Callable[[], bool]) -> None:
        self._linger_s = linger_s
        self._has_failed = has_failed
        self.is_begun = LiveValue(False)

    def around(self, components: Sequence[Component]) -> list[Component]:
        """Return these components between the announcement and the wait. So at the end, the announcement comes first,
        then the components stop, and then the wait follows."""
        return [_Wait(self), *components, _Announcement(self)]

    async def linger(self) -> None:
        """Wait for the time that the port stays open."""
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
    """Component: waits during the shutdown. It stops after the lead was given back, and before the server."""

    def __init__(self, departure: Departure) -> None:
        self._departure = departure

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        await self._departure.linger()
