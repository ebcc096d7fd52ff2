"""The namespaces of the installation, as this master knows them."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from jqmaster.clock import Clock, until_tick_s, wait_for_event
from jqmaster.domain.namespaces.namespace import DEFAULT, DEFAULT_STORE, Namespace, default_namespace
from jqmaster.domain.namespaces.quotas import NO_QUOTAS, Quotas
from jqmaster.errors import DamagedError, JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from jqmaster.store.namespaces.namespaces import NamespaceStore, StoredNamespaces

logger = logging.getLogger(__name__)

# If the store of the registry did not answer, the master tries to read the registry again after this time.
RETRY_S: Final = 2.0
NO_NAMESPACES: Final = StoredNamespaces(0, {})


class NamespaceRegistry:
    """Component: follows the registry in the store, and keeps a copy on the disk of this master. With the copy, the
    master can start and serve while the store of the registry is unreachable.

    * `current`: all namespaces by name, the default namespace first. The mapping never changes: it is replaced as a
      whole.
    * `is_confirmed`: whether the last read of the registry from the store succeeded. If not, `current` may come from
      the copy or be out of date.
    * `fault`: why the copy cannot be read or written, or which entries of the registry cannot be read. Empty: there is
      no fault.
    * `shard`: the hash tag of the default namespace.
    * `defaults`: the installation's default quotas. Each applies to namespaces that have no such quota of their own.

    A confirmed registry is read again only after a call of `wake`. `LiveSettings` calls it when the version of the
    registry has changed.
    """

    def __init__(
        self,
        store: NamespaceStore,
        copy: RegistryCopy,
        clock: Clock,
        *,
        shard: str,
        defaults: LiveValue[Quotas] | None = None,
    ) -> None:
        self._store = store
        self._copy = copy
        self._clock = clock
        self._default = default_namespace(shard)
        self._defaults = defaults or LiveValue(NO_QUOTAS)
        self._known = NO_NAMESPACES
        self.current: Mapping[str, Namespace] = self._with_default({})
        self.is_confirmed = False
        self.fault = ""
        self._followers: list[Callable[[Mapping[str, Namespace]], None]] = []
        self._woken = asyncio.Event()
        self._reading = asyncio.Lock()
        self._loops = BackgroundLoops("namespaces", is_vital=False)

    @property
    def version(self) -> int:
        """Return the version of the registry that is in force at this master. 0: nobody has created a namespace."""
        return self._known.version

    def quotas_of(self, name: str) -> Quotas:
        """Return the quotas that are in force in a namespace. Each is the namespace's own or, if it has none, the
        default of the installation."""
        namespace = self.current.get(name)
        return (namespace.quotas if namespace else NO_QUOTAS).or_else(self._defaults.current)

    @property
    def damaged(self) -> frozenset[str]:
        """Return the names of the namespaces with unreadable entries. If such an entry could be read earlier, `current`
        still has the namespace, unchanged."""
        return self._known.damaged

    def doubt(self, name: str) -> str | None:
        """For a name that `current` does not have, return why it is unknown whether such a namespace exists. None: it
        does not exist."""
        if name in self._known.damaged:
            return f"the entry of namespace {name} in the registry cannot be read"
        if self._known is NO_NAMESPACES and not self.is_confirmed:
            return (
                "the registry of namespaces cannot be read at this moment, and this master has no copy of it"
            )
        return None

    async def start(self) -> None:
        """Read the registry or, if the store does not answer, the copy. This never fails. If neither can be read, this
        master knows only the default namespace, and tries the store again later."""
        copied = await self._copied()
        try:
            stored = await self._store.load()
        except JqmasterError as exc:
            self._begin_with(copied, exc)
        else:
            if copied and copied.version > stored.version:
                logger.warning(
                    "the registry of namespaces has version %s, and its copy %s has version %s: the store was "
                    "restored to an older state, and its version is used",
                    stored.version,
                    self._copy.path,
                    copied.version,
                )
            # Begin with the copy: if an entry cannot be read from the store, `_take` keeps the entry of the copy.
            self._know(copied or NO_NAMESPACES)
            await self._take(stored)
        self._loops.spawn("follow", self._follow)

    async def stop(self) -> None:
        await self._loops.stop()

    def follow(self, obey: Callable[[Mapping[str, Namespace]], None]) -> None:
        """Call `obey` with the namespaces after every change. `obey` must not raise."""
        self._followers.append(obey)

    def tell(self) -> None:
        """Call all followers. Use this after a change of namespaces or of the default quotas."""
        for obey in list(self._followers):
            obey(self.current)

    def unfollow(self, obey: Callable[[Mapping[str, Namespace]], None]) -> None:
        """Stop calling `obey`."""
        self._followers.remove(obey)

    def faults(self) -> dict[str, str]:
        """Return `fault` under the name of the registry, or an empty map if there is none."""
        return {"namespaces": self.fault} if self.fault else {}

    def wake(self) -> None:
        """Make the loop read the registry again. Use this after a change."""
        self._woken.set()

    async def reload(self) -> None:
        """Read the registry. Raise what the store raises."""
        # Let only one read run at a time, so that the result of an older read never replaces that of a newer one.
        async with self._reading:
            await self._take(await self._store.load())

    async def _follow(self) -> None:
        while True:
            if self.is_confirmed:
                await self._woken.wait()
            else:
                await wait_for_event(self._woken, until_tick_s(self._clock.monotonic_s(), RETRY_S))
            self._woken.clear()
            try:
                await self.reload()
            except JqmasterError as exc:
                if self.is_confirmed:
                    logger.warning("cannot read the registry of namespaces: %s", exc.detail)
                self.is_confirmed = False
            self._loops.worked("follow")

    async def _copied(self) -> StoredNamespaces | None:
        try:
            return await asyncio.to_thread(self._copy.read)
        except DamagedError as exc:
            self.fault = f"{exc.detail}; the copy is not used, and is written again once the store answers"
        except OSError as exc:
            self.fault = f"{self._copy.path} cannot be read: {exc.strerror}"
        logger.error("%s", self.fault)
        return None

    def _begin_with(self, copied: StoredNamespaces | None, exc: JqmasterError) -> None:
        if copied is None:
            logger.warning(
                "cannot read the registry of namespaces, and there is no copy of it here: only the default "
                "namespace is known until the store answers: %s",
                exc.detail,
            )
            return
        logger.warning(
            "cannot read the registry of namespaces; the copy %s, version %s, is in force until the store answers: %s",
            self._copy.path,
            copied.version,
            exc.detail,
        )
        self._know(copied)

    async def _take(self, stored: StoredNamespaces) -> None:
        """Apply the registry that was read from the store, and copy it to the disk."""
        kept = {
            name: self._known.namespaces[name] for name in stored.damaged if name in self._known.namespaces
        }
        namespaces = dict(sorted({**stored.namespaces, **kept}.items()))
        taken = StoredNamespaces(stored.version, namespaces, stored.damaged)
        is_first, self.is_confirmed = not self.is_confirmed, True
        is_new = taken != self._known
        if is_new:
            self._know(taken)
        # Write no copy until the installation gets its first namespace.
        if taken.version and (is_new or is_first or self.fault):
            self.fault = await self._write(taken)

    def _know(self, registry: StoredNamespaces) -> None:
        before, self._known = self.current, registry
        self.current = self._with_default(registry.namespaces)
        if dict(self.current) != dict(before):
            self.tell()

    async def _write(self, registry: StoredNamespaces) -> str:
        """Write the copy. Return the fault, or an empty text if there is none."""
        faults = [f"namespace {name} cannot be read in the registry" for name in sorted(registry.damaged)]
        try:
            await asyncio.to_thread(self._copy.write, registry)
        except OSError as exc:
            faults.append(
                f"{self._copy.path} cannot be written ({exc.strerror}): without this copy, the master does not "
                "know the namespaces if it starts while the store of the registry is unreachable"
            )
            logger.warning("%s", faults[-1])
        return "; ".join(faults)

    def _with_default(self, namespaces: Mapping[str, Namespace]) -> Mapping[str, Namespace]:
        """Return the namespaces and the default namespace. The store entry of the default namespace has only its title
        and its quotas. Its tag, store and state are those of the installation."""
        stored = namespaces.get(DEFAULT, self._default)
        default = Namespace(
            DEFAULT, self._default.tag, DEFAULT_STORE, "open", stored.title, stored.quotas, stored.version
        )
        others = {name: one for name, one in namespaces.items() if name != DEFAULT}
        return MappingProxyType({DEFAULT: default, **others})
