"""All namespaces that this process serves besides the default one."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from jqmaster.api.http.namespace_paths import Application
from jqmaster.app.open_namespace import Stage
from jqmaster.app.served_namespace import Build, ServedNamespace
from jqmaster.app.store_set import StoreSet
from jqmaster.clock import Clock
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import NamespaceUnavailableError, unknown_namespace
from jqmaster.lifecycle import Component
from jqmaster.runtime.leadership.hand_over import LedNamespace
from jqmaster.service.operations.metrics import Metrics

logger = logging.getLogger(__name__)

# Maximum time for which a start waits for the namespaces. Usually, the process serves all of them before it
# reports that it is ready. Stores that are away cannot delay the start longer.
WAIT_FOR_FIRST_S: Final = 2.0


class NamespaceSource(Protocol):
    """The namespaces of the installation; see `NamespaceRegistry`."""

    current: Mapping[str, Namespace]
    is_confirmed: bool

    def doubt(self, name: str) -> str | None: ...

    def follow(self, obey: Callable[[Mapping[str, Namespace]], None]) -> None: ...


class NamespaceSet:
    """Component: serves the namespaces that are open in the registry. The namespaces open concurrently, and the
    failure of one namespace does not affect the others.

    This component starts after the server. Its stages stop in the same order as the stages of the process.
    `serves_default`: the component also serves the default namespace.
    """

    def __init__(
        self,
        registry: NamespaceSource,
        stores: StoreSet,
        build: Build,
        clock: Clock,
        *,
        serves_default: bool = False,
    ) -> None:
        # Called when a namespace has been opened for the first time, and when a namespace has been closed.
        self.on_opened: Callable[[], None] = lambda: None
        self.on_closed: Callable[[], None] = lambda: None
        self._registry = registry
        self._stores = stores
        self._build = build
        self._clock = clock
        self._serves_default = serves_default
        self._served: dict[str, ServedNamespace] = {}
        self._closings: dict[str, asyncio.Task[None]] = {}
        self._is_started = False

    async def start(self) -> None:
        self._is_started = True
        self._registry.follow(self._obey)
        self._obey(self._registry.current)
        tries = [asyncio.ensure_future(one.tried.wait()) for one in self._served.values()]
        if tries:
            _, late = await asyncio.wait(tries, timeout=WAIT_FOR_FIRST_S)
            for one in late:
                one.cancel()

    async def stop(self) -> None:
        """Open nothing more, and give the leads back."""
        self._is_started = False
        await asyncio.gather(*(one.hold() for one in self._served.values()))
        await self.end("lead")

    async def end(self, stage: Stage) -> None:
        """End this stage of all namespaces."""
        await asyncio.gather(*(one.end(stage) for one in self._served.values()))
        if stage == "requests":
            await asyncio.gather(*self._closings.values(), return_exceptions=True)
            await self._stores.close()

    def ending(self, stage: Stage) -> Component:
        """Return the component that ends this stage when it stops."""
        return _StageEnd(self, stage)

    def app_of(self, name: str) -> Application:
        """Return the application that serves the requests of a namespace. Raises NotFoundError,
        NamespaceUnavailableError and StoreUnavailableError."""
        namespace = self._registry.current.get(name)
        if namespace is None:
            # If it is unknown whether the namespace exists, raise an error other than 404: a worker would end
            # after a wrong 404.
            if doubt := self._registry.doubt(name):
                raise NamespaceUnavailableError(
                    f"this master does not know whether namespace {name[:64]} exists",
                    code="namespace_faulted",
                    reason=doubt,
                    retry_after_s=5.0,
                )
            raise unknown_namespace(name)
        if namespace.state != "open":
            raise NamespaceUnavailableError(
                _STATES[namespace.state].format(name), code=f"namespace_{namespace.state}", retry_after_s=1.0
            )
        served = self._served.get(name)
        if served is None:
            raise NamespaceUnavailableError(
                f"namespace {name} is being opened", code="namespace_starting", retry_after_s=1.0
            )
        return served.app

    def is_serving(self, name: str) -> bool:
        """Return whether this process serves a namespace or is closing it now."""
        return name in self._served or name in self._closings

    def is_open(self, name: str) -> bool:
        """Return whether this process has opened this namespace. The namespace's store need not answer."""
        return name in self._served and self._served[name].is_open

    @property
    def is_useful(self) -> bool:
        """Return whether any namespace is open in this process and has a store that answers."""
        return any(one.is_useful for one in self._served.values())

    def led(self) -> dict[str, LedNamespace]:
        """Return the namespaces that this process leads, by name."""
        return {name: led for name, one in self._served.items() if (led := one.led)}

    def metrics(self) -> dict[str, Metrics | None]:
        """Return the metrics of this process's namespaces by name. None: the namespace is not open."""
        return {name: one.metrics for name, one in sorted(self._served.items())}

    def faults(self) -> dict[str, str]:
        """Return the reasons why namespaces are not served, by name."""
        return {name: one.fault for name, one in self._served.items() if one.fault}

    def _obey(self, namespaces: Mapping[str, Namespace]) -> None:
        if not self._is_started:
            return
        wanted = {
            name: one
            for name, one in namespaces.items()
            if one.state == "open" and (self._serves_default or not one.is_default)
        }
        for name, served in list(self._served.items()):
            now = wanted.get(name)
            if now is None or (now.tag, now.store) != (served.namespace.tag, served.namespace.store):
                del self._served[name]
                self._closings[name] = asyncio.create_task(self._close(served, self._closings.get(name)))
        for name, one in wanted.items():
            if name not in self._served:
                served = ServedNamespace(
                    one,
                    self._stores,
                    self._build,
                    self._clock,
                    may_begin=lambda: self._registry.is_confirmed,
                    on_opened=self._note_opened,
                )
                self._served[name] = served
                served.start(after=self._closings.get(name))

    def _note_opened(self) -> None:
        self.on_opened()

    async def _close(self, served: ServedNamespace, before: "asyncio.Task[None] | None") -> None:
        name = served.namespace.name
        if before:
            await asyncio.wait([before])
        try:
            await served.close()
            logger.info("namespace %s is no longer served", name)
            self.on_closed()
        except Exception:
            logger.exception("could not close namespace %s", name)
        finally:
            if self._closings.get(name) is asyncio.current_task():
                del self._closings[name]


_STATES: Final = {
    "closed": "namespace {} is closed; an admin can open it",
    "moving": "namespace {} is being moved to another store",
    "faulted": "namespace {} is marked as faulty; its registry entry says so",
}


class _StageEnd:
    """Component: ends one stage of all namespaces when it stops."""

    def __init__(self, namespaces: NamespaceSet, stage: Stage) -> None:
        self._namespaces = namespaces
        self._stage: Stage = stage

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        await self._namespaces.end(self._stage)
