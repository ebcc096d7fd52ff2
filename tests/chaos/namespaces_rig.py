"""The system of a run with namespaces: stores, masters that use all of them, and workers of several namespaces."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jqmaster.store.keys import Keys
from tests.chaos.history import Epoch, Fault, Silence
from tests.chaos.namespaces_history import HARNESS, Place
from tests.chaos.plan import namespace_names
from tests.chaos.rig import END_WITHIN_S, LOOK_S, STORE, Rig
from tests.support.processes import Process
from tests.support.waiting import wait_until

SERVED_WITHIN_S: Final = 60.0
# Its mover, its stores and the registry may be away meanwhile.
MOVED_WITHIN_S: Final = 120.0
# Processes that work for each namespace.
WORKERS_EACH: Final = 2
MOVE: Final = "move namespace"
ORDERED_WITHIN_S: Final = 10.0
STORE_CONNECTIONS: Final = 8
RUNS_EVERY_S: Final = 1.0
# A process that waits for a core so long cannot keep times of a few seconds.
STARVED_SHARE: Final = 0.3


def target_of(store: str) -> str:
    """Return the name of a configured store among the faults' targets."""
    return STORE if store == "default" else f"{STORE}-{store}"


def store_of(target: str) -> str:
    """Return the configured name of a store."""
    return "default" if target == STORE else target.removeprefix(f"{STORE}-")


@dataclass(slots=True)
class Space:
    """A namespace of the run. `epochs` by store."""

    name: str
    store: str
    epochs: dict[str, list[Epoch]] = field(default_factory=dict)

    @property
    def keys(self) -> Keys:
        return Keys("jq" if self.name == "default" else self.name)

    @property
    def path(self) -> str:
        return f"/ns/{self.name}"


class InstallationRig(Rig):
    """Use it as its base: `async with InstallationRig.running(...) as rig`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        names = namespace_names(self.scale.namespaces)
        self.spaces = {
            name: Space(name, self.scale.stores[n % len(self.scale.stores)], {one: [] for one in self.stores})
            for n, name in enumerate(names)
        }
        self.places = [Place(one.name, one.store, 0.0) for one in self.spaces.values()]

    def journals_of(self, namespace: str) -> list[Any]:
        return sorted(self.directory.glob(f"journal-worker-*-{namespace}"))

    async def store_id_of(self, space: Space) -> str:
        found = await self.clients[space.store].command("GET", space.keys.generation)
        return str(found.decode())

    # --- up

    def _settings_of(self, master: str) -> dict[str, object]:
        others = {
            store_of(one): {"redis_url": self._store_url(master, one)} for one in self.stores if one != STORE
        }
        # A link holds two files for each connection, in the process of the harness.
        return {"stores": json.dumps(others), "store_connections": STORE_CONNECTIONS}

    async def _prepare(self) -> None:
        """Create the namespaces, and wait until each master serves all."""
        for space in self.spaces.values():
            if space.name != "default":
                await self._until_done(
                    "PUT", f"/api/namespaces/{space.name}", {"store": store_of(space.store)}
                )
        for master in self.masters.values():
            for space in self.spaces.values():

                async def is_ready(url: str = f"{master.url}{space.path}/readyz") -> bool:
                    return (await self._ask("GET", url))[0] == 200

                await wait_until(is_ready, timeout_s=SERVED_WITHIN_S, what=f"{space.name} is served")

    async def _make_worker(self, name: str, number: int) -> None:
        count, spaces = self.scale.workers, list(self.spaces)
        own = [one for n, one in enumerate(spaces) if (number - 1 - n) % count < min(WORKERS_EACH, count)]
        urls = [master.url for master in self.masters.values()]
        self.workers[name] = Process(
            ["-m", "tests.chaos.namespaces_worker"],
            self.directory / f"{name}.log",
            CHAOS_WORKER=name,
            CHAOS_NAMESPACES=" ".join(own),
            CHAOS_MASTERS=" ".join(urls[number % len(urls) :] + urls[: number % len(urls)]),
            CHAOS_PULL="1" if self.scale.is_pulling(number) else "",
            CHAOS_MAX_JOBS=str(self.scale.max_jobs * len(own)),
            CHAOS_GRACE_S=str(self.scale.worker_grace_s),
            CHAOS_JOURNAL=str(self.directory / f"journal-{name}"),
        )

    async def _all_registered(self) -> bool:
        for space in self.spaces.values():
            found = await self.clients[space.store].command("ZCARD", space.keys.workers)
            if found < min(WORKERS_EACH, self.scale.workers):
                return False
        return True

    def _watched(self, store: str) -> Sequence[tuple[Keys, list[Epoch]]]:
        return [(space.keys, space.epochs[store]) for space in self.spaces.values()]

    # --- faults

    async def _other_fault(self, kind: str, target: str) -> int:
        match kind:
            case "deploy":
                return await self._deploy(self.masters if target == "masters" else self.workers)
            case "move namespace":
                return await self._move_namespace(self.spaces[target])
        return await super()._other_fault(kind, target)

    async def _deploy(self, processes: Mapping[str, Process]) -> int:
        """End and start each, one after the other. One that another fault holds is left out."""
        done = 0
        for name in processes:
            if name in self._held:
                continue
            self._held.add(name)
            from_s = time.monotonic()
            try:
                bites, dead_s = await self._terminate(name, 0.0)
                self.faults.append(Fault("term", name, from_s, time.monotonic(), bites, dead_s=dead_s))
                done += bites
            finally:
                self._held.discard(name)
            if name in self.masters:
                await self._until_ready(self.masters[name].url)
        return done

    async def _until_ready(self, url: str) -> None:
        """Wait as a rolling deploy does, at most as long as a process may take to end."""
        end_s = time.monotonic() + END_WITHIN_S
        while time.monotonic() < end_s and (await self._ask("GET", f"{url}/readyz"))[0] != 200:
            await asyncio.sleep(LOOK_S)

    async def _move_namespace(self, space: Space) -> int:
        """Move it to the next store while jobs are pushed to it. Return whether it came there."""
        targets = list(self.stores)
        after = targets[(targets.index(space.store) + 1) % len(targets)]
        path, order = f"/api/namespaces/{space.name}/move", {"store": store_of(after)}
        for master in list(self.masters.values()):
            status, _ = await self._ask("POST", f"{master.url}{path}", order)
            if 200 <= status < 500:
                break
            # This master may have taken the order, or may still take it, whatever the next one says.
            await asyncio.sleep(ORDERED_WITHIN_S)
        end_s = time.monotonic() + MOVED_WITHIN_S
        while time.monotonic() < end_s:
            await asyncio.sleep(LOOK_S)
            seen = await self._entry(space)
            if seen and seen["state"] == "open" and (seen["move"] is None or seen["move"]["ended_at"]):
                is_there = target_of(seen["store"]) == after
                if is_there:
                    space.store = after
                    self.places.append(Place(space.name, after, time.monotonic()))
                return int(is_there)
        self.stuck.append(f"{space.name}: neither moved nor open again within {MOVED_WITHIN_S:g} s")
        return 0

    async def _entry(self, space: Space) -> dict[str, Any] | None:
        for master in self.masters.values():
            status, said = await self._ask("GET", f"{master.url}/api/namespaces/{space.name}")
            if status == 200:
                return dict(said)
        return None

    async def _until_done(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        async def is_done() -> bool:
            return 200 <= await self._ask_any(method, path, body) < 300

        await wait_until(is_done, timeout_s=SERVED_WITHIN_S, what=f"{method} {path}")

    async def note_starvation(self, found: list[Silence]) -> None:
        """Note until cancelled when a master, or this process, waited for a core instead of running: too few cores are
        a fault like any other."""
        watches = {HARNESS: Runs(os.getpid())}
        while True:
            await asyncio.sleep(RUNS_EVERY_S)
            for name, pid in {HARNESS: os.getpid(), **self._pids()}.items():
                if name not in watches or watches[name].pid != pid:
                    watches[name] = Runs(pid)
                elif (span := watches[name].starved()) is not None:
                    found.append(Silence(name, *span))

    def _pids(self) -> dict[str, int]:
        return {name: one.pid for name, one in self.masters.items() if one.popen is not None}


class Runs:
    """How long a process had to wait for a core, as the kernel counts it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._at_s, self._waited_s = time.monotonic(), self._read_s()

    def starved(self) -> tuple[float, float] | None:
        """Return the time since the last look if the process waited for a large part of it."""
        from_s, before_s = self._at_s, self._waited_s
        self._at_s, self._waited_s = time.monotonic(), self._read_s()
        is_starved = self._waited_s - before_s > STARVED_SHARE * (self._at_s - from_s)
        return (from_s, self._at_s) if is_starved else None

    def _read_s(self) -> float:
        with contextlib.suppress(OSError, IndexError, ValueError):
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9
        return 0.0
