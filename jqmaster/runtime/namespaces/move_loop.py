"""Takes part in moves of namespaces: stops serving those that are being moved, and does the work of a mover."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from jqmaster.clock import Clock, wait_for_event
from jqmaster.domain.namespaces.move import LeftCopy
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import DamagedError, JqmasterError
from jqmaster.runtime.periodic_loop import PeriodicLoop
from jqmaster.service.namespaces.mover import Mover, MoveTools
from jqmaster.service.namespaces.registry import NamespaceRegistry
from jqmaster.store.namespaces.frozen import FrozenData
from jqmaster.store.namespaces.moves import LostMoveError

# The pauses between rounds: while a namespace is being moved, and otherwise.
BUSY_S: Final = 0.25
IDLE_S: Final = 60.0


class MoveLoop(PeriodicLoop):
    """Component: takes over moves that no other master works on, and removes copies that were kept long enough. In an
    installation without namespaces, it sends no requests to the store. `is_served`: whether this process still serves a
    namespace, or answers a request to it."""

    is_vital = False

    def __init__(
        self,
        registry: NamespaceRegistry,
        tools: MoveTools,
        clock: Clock,
        *,
        master_id: str,
        is_served: Callable[[str], bool],
    ) -> None:
        super().__init__("moves", clock, complaint="cannot move namespaces")
        self._registry = registry
        self._tools = tools
        self._master_id = master_id
        self._is_served = is_served
        self._movers: dict[str, asyncio.Task[None]] = {}
        # Namespaces whose record of the move cannot be read, so that this is logged only once.
        self._unreadable: set[str] = set()
        # By namespace: the version of its registry entry when this process released it.
        self._released: dict[str, int] = {}
        self._looked_at_copies_s = -IDLE_S
        self._removal: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._registry.follow(self._obey)
        await super().start()

    async def stop(self) -> None:
        self._registry.unfollow(self._obey)
        await super().stop()
        tasks = [*self._movers.values(), *([self._removal] if self._removal else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _obey(self, namespaces: Mapping[str, Namespace]) -> None:
        self.wake()

    async def _round(self) -> float:
        if not self._registry.version:
            return IDLE_S
        moving = [one for one in self._registry.current.values() if one.is_moving]
        self._unreadable &= {one.name for one in moving}
        for namespace in moving:
            try:
                await self._release(namespace)
                await self._take(namespace.name)
            except DamagedError as exc:
                # Skip this namespace, so that the moves of others go on.
                if namespace.name not in self._unreadable:
                    self._unreadable.add(namespace.name)
                    self._logger.error("namespace %s cannot be moved: %s", namespace.name, exc.detail)
        now_s = self._clock.monotonic_s()
        if self._removal is None and now_s - self._looked_at_copies_s >= IDLE_S:
            self._looked_at_copies_s = now_s
            # Remove old copies in a separate task: a large copy, or a store that is away, must not delay moves.
            self._removal = asyncio.create_task(self._remove_copies(), name="remove copies")
            self._removal.add_done_callback(self._removed)
        return BUSY_S if moving else IDLE_S

    async def _pause(self, seconds: float) -> None:
        await wait_for_event(self._wake, seconds)
        self._wake.clear()

    async def _release(self, namespace: Namespace) -> None:
        """Once this master has stopped serving the namespace, tell the mover."""
        name, version = namespace.name, namespace.version
        if namespace.state != "moving" or self._released.get(name) == version or self._is_served(name):
            return
        await self._tools.moves.release(name, self._master_id, self._registry.version)
        self._released[name] = version

    async def _take(self, name: str) -> None:
        if name in self._movers or (number := await self._tools.moves.take(name, self._master_id)) is None:
            return
        move = await self._tools.moves.get(name)
        if move is None or not move.is_under_way:
            return
        self._logger.info("this master moves namespace %s to store %s", name, move.terms.target)
        task = asyncio.create_task(Mover(self._tools, move, number).run(), name=f"move {name}")
        self._movers[name] = task
        task.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, mover: "asyncio.Task[None]") -> None:
        del self._movers[name]
        if not mover.cancelled() and (error := mover.exception()):
            self._logger.error("the mover of namespace %s has ended", name, exc_info=error)
        self.wake()

    def _removed(self, removal: "asyncio.Task[None]") -> None:
        self._removal = None
        if not removal.cancelled() and (error := removal.exception()):
            self._logger.error("cannot remove copies of moved namespaces", exc_info=error)

    async def _remove_copies(self) -> None:
        try:
            copies = await self._tools.moves.left_copies()
        except JqmasterError as exc:
            self._logger.warning("cannot look for copies of moved namespaces: %s", exc.detail)
            return
        for left in copies:
            try:
                await self._remove(left)
            except JqmasterError as exc:
                self._logger.warning("a copy in store %s is not removed yet: %s", left.store, exc.detail)

    async def _remove(self, left: LeftCopy) -> None:
        place = await self._tools.places.shard_of(Namespace(left.tag, left.tag, left.store))
        try:
            await FrozenData(place, left.id, left.number).remove_left()
        except LostMoveError:
            self._logger.info("the copy of %s in store %s is no longer there", left.tag, left.store)
        await self._tools.moves.forget(left)
