"""The system under test: a store, masters and workers as real processes, and between any two of them a link that can
be made to fail. Each fault is done here, and what it really hit is told.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import psutil

from jqmaster.errors import JqmasterError
from jqmaster.store.client import StoreClient
from jqmaster.store.keys import Keys
from tests.chaos.history import Epoch, Fault
from tests.chaos.plan import Planned, Scale
from tests.chaos.proxy import HttpLink, Link, RawLink, Weather
from tests.support.processes import MasterProcess, Process, free_port
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

# How often the onlooker reads who leads, and the guard looks for processes that ended by themselves.
LOOK_S = 0.1
HALTED = {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}


def is_registration(first_line: str) -> bool:
    """A copy of it would be another worker at the same address: that is a restart, and not told apart from one."""
    return first_line.split(" ")[:2] == ["POST", "/api/workers"]


class Rig:
    """Started and stopped as a context: `async with Rig.running(...) as rig`."""

    def __init__(self, directory: Path, scale: Scale, seed: int, max_losses: int, without: str) -> None:
        self.directory = directory
        self.scale = scale
        self.store = StoreServer()
        self.faults: list[Fault] = []
        self.epochs: list[Epoch] = []
        self.links: dict[str, Link] = {}
        self.masters: dict[str, MasterProcess] = {}
        self.workers: dict[str, Process] = {}
        self._seed = seed
        self._max_losses = max_losses
        self._without = without
        # Parts that are down or standing still on purpose.
        self._held: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._started_s: dict[str, float] = {}
        self._client: StoreClient | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls, directory: Path, scale: Scale, *, seed: int, max_losses: int = 3, without: str = ""
    ) -> AsyncIterator["Rig"]:
        """All processes up and registered. At the end everything that it started is over. `without`: see chaos_worker."""
        rig = cls(directory, scale, seed, max_losses, without)
        try:
            await rig._start()
            yield rig
        finally:
            await rig._stop()

    # --- up and down

    @property
    def client(self) -> StoreClient:
        """To the store itself, past all links."""
        assert self._client
        return self._client

    @property
    def master_urls(self) -> list[str]:
        """As pushers know them."""
        return [f"http://127.0.0.1:{self.links[f'pushers>{name}'].port}" for name in self.masters]

    def journals(self) -> list[Path]:
        return [self.directory / f"journal-{name}" for name in self.workers]

    async def _start(self) -> None:
        await asyncio.to_thread(self.store.start)
        self._client = StoreClient(self.store.url, connections=4, timeout_s=2.0)
        ttl_s, lease_s = self.scale.leader_ttl_s, self.scale.lease_s
        for n in range(1, self.scale.masters + 1):
            await self._make_master(f"master-{n}", lease_s, ttl_s)
        for n in range(1, self.scale.workers + 1):
            await self._make_worker(f"worker-{n}")
        for name, master in self.masters.items():
            self._begin(name, master)
        for master in self.masters.values():
            await asyncio.to_thread(master.wait_until_ready, 60)
        for name, worker in self.workers.items():
            self._begin(name, worker)
        await wait_until(self._all_registered, timeout_s=60, what="all workers are registered")
        self._tasks = [asyncio.create_task(self._look_on()), asyncio.create_task(self._guard())]

    async def _make_master(self, name: str, lease_s: float, ttl_s: float) -> None:
        directory = self.directory / name
        directory.mkdir()
        store = RawLink(
            f"{name}>store", str(self.store.socket), seed=self._seed, path=self.store.directory / name
        )
        await self._open(store)
        self.masters[name] = MasterProcess(
            directory,
            redis_url=f"unix://{self.store.directory / name}",
            port=free_port(),
            lease_ms=round(lease_s * 1000),
            offer_ms=round(lease_s * 1000 / 3),
            heartbeat_interval_s=lease_s / 6,
            worker_stale_s=lease_s * 2 / 3,
            leader_ttl_s=ttl_s,
            push_timeout_s=1.0,
            store_timeout_s=2.0,
            max_losses=self._max_losses,
            retention_succeeded_s=86_400,
            retention_succeeded_max=10_000_000,
            retention_failed_max=10_000_000,
            log_level="info",
        )
        await self._open(HttpLink(f"pushers>{name}", ("127.0.0.1", self.masters[name].port), seed=self._seed))

    async def _make_worker(self, name: str) -> None:
        port = free_port()
        await self._open(HttpLink(f"masters>{name}", ("127.0.0.1", port), seed=self._seed))
        urls = []
        for master, process in self.masters.items():
            link = HttpLink(
                f"{name}>{master}", ("127.0.0.1", process.port), seed=self._seed, spare=is_registration
            )
            await self._open(link)
            urls.append(f"http://127.0.0.1:{link.port}")
        self.workers[name] = Process(
            ["-m", "tests.chaos.chaos_worker"],
            self.directory / f"{name}.log",
            CHAOS_WORKER=name,
            # Not all ask the same master first.
            CHAOS_MASTERS=" ".join(
                urls[len(self.workers) % len(urls) :] + urls[: len(self.workers) % len(urls)]
            ),
            CHAOS_PORT=str(port),
            CHAOS_URL=f"http://127.0.0.1:{self.links[f'masters>{name}'].port}",
            # Each third one is not reached, and asks.
            CHAOS_PULL="1" if len(self.workers) % 3 == 2 else "",
            CHAOS_WITHOUT=self._without,
            CHAOS_JOURNAL=str(self.directory / f"journal-{name}"),
        )

    async def _open(self, link: Link) -> None:
        await link.start()
        self.links[link.name] = link

    def _begin(self, name: str, process: Process) -> None:
        # Not MasterProcess.start, which waits until it serves.
        Process.start(process)
        self._started_s[name] = time.monotonic()

    async def _all_registered(self) -> bool:
        return len(await self.client.command("ZRANGE", Keys("jq").workers, 0, -1)) >= len(self.workers)

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        processes = [*self.workers.values(), *self.masters.values()]
        for process in processes:
            if process.popen is not None and process.popen.poll() is None:
                process.signal(signal.SIGCONT)
                process.signal(signal.SIGTERM)
        for process in processes:
            if process.popen is not None:
                # Logs are what is wanted of a process that does not end; it is not this run's question.
                with contextlib.suppress(AssertionError):
                    await asyncio.to_thread(process.terminate, 20)
        if self._client is not None:
            await self._client.close()
        for link in self.links.values():
            await link.stop()
        await asyncio.to_thread(self.store.stop)

    # --- looking on

    async def _look_on(self) -> None:
        """The newest epoch and the holder of the lock, as often as can be."""
        keys = Keys("jq")
        while True:
            with contextlib.suppress(JqmasterError):
                epoch, holder = await self.client.pipeline([("GET", keys.epoch), ("GET", keys.leader)])
                if epoch:
                    number, _, nonce = epoch.decode().partition(":")
                    seen = Epoch(time.monotonic(), int(number), nonce, holder.decode() if holder else "")
                    before = self.epochs[-1] if self.epochs else None
                    if not before or (before.number, before.nonce, before.holder) != (
                        seen.number,
                        seen.nonce,
                        seen.holder,
                    ):
                        self.epochs.append(seen)
            await asyncio.sleep(LOOK_S)

    async def _guard(self) -> None:
        """Whoever supervises services starts again what ended by itself."""
        while True:
            await asyncio.sleep(LOOK_S)
            for name, process in [*self.masters.items(), *self.workers.items()]:
                if name in self._held or process.popen is None or process.popen.poll() is None:
                    continue
                now_s = time.monotonic()
                self.faults.append(Fault("exit", name, now_s - 2 * LOOK_S, now_s))
                self._begin(name, process)

    async def leader(self) -> str | None:
        """The name of the master that says it leads."""
        async with aiohttp.ClientSession(trust_env=False) as session:
            for name, master in self.masters.items():
                if name in self._held:
                    continue
                with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
                    async with session.get(
                        f"{master.url}/readyz",
                        headers={"Accept": "application/json"},
                        timeout=aiohttp.ClientTimeout(total=0.5),
                    ) as response:
                        if (await response.json(content_type=None)).get("leader"):
                            return name
        return None

    # --- faults

    async def suffer(self, plan: list[Planned], began_s: float) -> None:
        """Does all of it in its time; returns when the last fault is over."""

        async def one(planned: Planned) -> None:
            await asyncio.sleep(max(0.0, began_s + planned.at_s - time.monotonic()))
            await self._do(planned)

        async with asyncio.TaskGroup() as group:
            for planned in plan:
                group.create_task(one(planned))

    async def _do(self, planned: Planned) -> None:
        target, leader = planned.target, await self.leader()
        if "leader" in target:
            if leader is None:
                now_s = time.monotonic()
                self.faults.append(Fault(planned.kind, target, now_s, now_s, bites=0))
                return
            target = target.replace("leader", leader)
        from_s = time.monotonic()
        if planned.weather is not None:
            bites = await self._weather(planned, target)
        elif planned.kind == "kill":
            bites = await self._kill(target, planned.for_s)
        else:
            bites = await self._stand_still(target, planned.for_s)
        hit = target.split(">")[0]
        # A process that was killed needs a while to be back: that belongs to the fault.
        self.faults.append(
            Fault(planned.kind, target, from_s, time.monotonic(), bites, leader is not None and hit == leader)
        )

    def _links_of(self, target: str) -> list[Link]:
        source, _, sink = target.partition(">")
        if sink == "masters":
            return [self.links[f"{source}>{master}"] for master in self.masters]
        return [self.links[target]]

    async def _weather(self, planned: Planned, target: str) -> int:
        links = self._links_of(target)
        assert planned.weather is not None
        if planned.kind == "reset":
            return sum(link.reset() for link in links)
        for link in links:
            link.change(planned.weather)
        await asyncio.sleep(planned.for_s)
        for link in links:
            link.clear()
        return sum(link.bites.total for link in links)

    async def _kill(self, target: str, for_s: float) -> int:
        if target in self._held:
            return 0
        self._held.add(target)
        try:
            if target == "store":
                await asyncio.to_thread(self.store.kill)
                await asyncio.sleep(for_s)
                await asyncio.to_thread(self.store.start)
                return 1
            process = self._process(target)
            was_alive = process.popen is not None and process.popen.poll() is None
            await asyncio.to_thread(process.kill)
            await asyncio.sleep(for_s)
            self._begin(target, process)
            return int(was_alive)
        finally:
            self._held.discard(target)

    async def _stand_still(self, target: str, for_s: float) -> int:
        if target in self._held:
            return 0
        self._held.add(target)
        try:
            send: Callable[[signal.Signals], None]
            if target == "store":
                assert self.store.process
                pid, send = self.store.process.pid, self.store.signal
            else:
                process = self._process(target)
                pid, send = process.pid, process.signal
            send(signal.SIGSTOP)
            await asyncio.sleep(for_s)
            halted = _is_halted(pid)
            send(signal.SIGCONT)
            return int(halted)
        finally:
            self._held.discard(target)

    def _process(self, target: str) -> Process:
        return self.masters[target] if target in self.masters else self.workers[target]


def _is_halted(pid: int) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        return psutil.Process(pid).status() in HALTED
    return False


def good_weather(links: dict[str, Link]) -> None:
    for link in links.values():
        if link.weather != Weather():
            link.clear()
