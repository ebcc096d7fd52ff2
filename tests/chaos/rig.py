"""The system under test: a store, masters and workers as real processes, with a breakable link between any two of them.
It causes each fault, and reports the actual hits.
"""

import asyncio
import contextlib
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import aiohttp
import psutil

from jqmaster.errors import JqmasterError
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.chaos.history import Epoch, Fault, read_lines
from tests.chaos.plan import Planned, Scale
from tests.chaos.proxy import HttpLink, Link, RawLink, Weather
from tests.chaos.store import ChaosStore
from tests.support.ports import free_port
from tests.support.processes import MasterProcess, Process
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import SECRET

# How often the observer reads the leader, and the guard looks for processes that ended by themselves.
LOOK_S = 0.1
# A worker may finish its runs, deliver and sign off; a master hands over.
END_WITHIN_S = 45.0
ORDER_WITHIN_S = 30.0
# How long the store may use an old reading of its false clock. A store that is away reads it on its return.
CLOCK_WITHIN_S = 10.0
HALTED = {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
# The only store, or the one that `redis_url` names.
STORE = "store"
# How long the reading of the end state waits for each answer of a store.
READ_WITHIN_S = 60.0


def is_registration(first_line: str) -> bool:
    """Return whether this is a registration. A copy of it would look like another worker at the same address, as after
    a restart."""
    return first_line.split(" ")[:2] == ["POST", "/api/workers"]


class Rig:
    """Use it as a context: `async with Rig.running(...) as rig`."""

    def __init__(
        self, directory: Path, scale: Scale, plan: list[Planned], seed: int, max_losses: int, without: str
    ) -> None:
        self.directory = directory
        self.scale = scale
        self.stores = {name: ChaosStore(_of_store(plan, name)) for name in scale.stores}
        self.faults: list[Fault] = []
        self.stuck: list[str] = []
        self.epochs: list[Epoch] = []
        self.links: dict[str, Link] = {}
        self.masters: dict[str, MasterProcess] = {}
        self.workers: dict[str, Process] = {}
        # Each is at the address of a worker that is cut off meanwhile.
        self.successors: dict[str, Process] = {}
        # A master of another store, which sometimes takes our master's place.
        self._stranger: MasterProcess | None = None
        self._seed = seed
        self._plan = plan
        self._max_losses = max_losses
        self._without = without
        # Parts deliberately down or standing still.
        self._held: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._started_s: dict[str, float] = {}
        # By name of a process that ended by itself: when that was seen.
        self._dead_since_s: dict[str, float] = {}
        self.clients: dict[str, StoreClient] = {}
        # For the end state, which is read once: a slow disk must not leave the run without a verdict.
        self.readers: dict[str, StoreClient] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls,
        directory: Path,
        scale: Scale,
        plan: list[Planned],
        *,
        seed: int,
        max_losses: int = 3,
        without: str = "",
    ) -> AsyncIterator[Self]:
        """Start all processes and wait for registration. At the end, all of them have ended. `without`: see
        chaos_worker."""
        rig = cls(directory, scale, plan, seed, max_losses, without)
        try:
            await rig._start()
            yield rig
        finally:
            await rig._stop()

    # --- up and down

    @property
    def store(self) -> ChaosStore:
        return self.stores[STORE]

    @property
    def client(self) -> StoreClient:
        """Return a client that reaches the store without links."""
        return self.clients[STORE]

    @property
    def master_urls(self) -> list[str]:
        """Return the addresses known to pushers."""
        return [f"http://127.0.0.1:{self.links[f'pushers>{name}'].port}" for name in self.masters]

    @contextlib.asynccontextmanager
    async def forked_pusher(self, duration_s: float) -> AsyncIterator[Path]:
        """Run a pusher that forks while it pushes, and yield the file of its calls. It ends before the context does."""
        calls = self.directory / "calls-forked"
        process = Process(
            ["-m", "tests.chaos.forked_pusher"],
            self.directory / "forked-pusher.log",
            CHAOS_MASTERS=" ".join(self.master_urls),
            CHAOS_CALLS=str(calls),
            CHAOS_SEED=str(self._seed),
            CHAOS_UNTIL=str(time.monotonic() + duration_s),
        )
        process.start()
        try:
            yield calls
        finally:
            assert process.popen is not None
            status: int | None = None
            try:
                status = await asyncio.to_thread(process.popen.wait, END_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
            if status != 0:
                self.stuck.append(f"the forked pusher ({status}): {process.log.read_text()[-500:]}")

    async def store_id(self) -> str:
        """Return the store's ID as named in the masters' answers."""
        return str((await self.client.command("GET", Keys("jq").generation)).decode())

    def journals(self) -> list[Path]:
        return [self.directory / f"journal-{name}" for name in (*self.workers, *self.successors)]

    async def _start(self) -> None:
        for name, store in self.stores.items():
            await asyncio.to_thread(store.start)
            self.clients[name] = StoreClient(store.admin_url, connections=4, timeout_s=2.0)
            self.readers[name] = StoreClient(store.admin_url, connections=1, timeout_s=READ_WITHIN_S)
        for n in range(1, self.scale.masters + 1):
            await self._make_master(f"master-{n}")
        for n in range(1, self.scale.workers + 1):
            await self._make_worker(f"worker-{n}", n)
        for name, master in self.masters.items():
            self._begin(name, master)
        for master in self.masters.values():
            await asyncio.to_thread(master.wait_until_ready, 60)
        if any(planned.kind == "stranger" for planned in self._plan):
            await self._make_stranger()
        await self._prepare()
        for name, worker in self.workers.items():
            self._begin(name, worker)
        await wait_until(self._all_registered, timeout_s=60, what="all workers are registered")
        looks = [asyncio.create_task(self._look_on(name)) for name in self.stores]
        self._tasks = [*looks, asyncio.create_task(self._guard())]

    async def _prepare(self) -> None:
        """Do what workers need before they start."""

    async def _make_master(self, name: str) -> None:
        scale = self.scale
        directory = self.directory / name
        directory.mkdir()
        for store_name, store in self.stores.items():
            await self._open(RawLink(f"{name}>{store_name}", str(store.socket), seed=self._seed))
        self.masters[name] = MasterProcess(
            directory,
            redis_url=self._store_url(name, STORE),
            port=free_port(),
            lease_ms=round(scale.lease_s * 1000),
            offer_ms=round(scale.lease_s * 1000 / 3),
            heartbeat_interval_s=scale.heartbeat_s,
            worker_stale_s=scale.stale_s,
            leader_ttl_s=scale.leader_ttl_s,
            push_timeout_s=scale.push_timeout_s,
            store_timeout_s=scale.store_timeout_s,
            max_losses=self._max_losses,
            # The store's clock may be set ahead repeatedly.
            retention_succeeded_s=100 * 86_400,
            retention_failed_s=100 * 86_400,
            result_ttl_s=100 * 86_400,
            result_grace_s=100 * 86_400,
            retention_succeeded_max=10_000_000,
            retention_failed_max=10_000_000,
            definition_runs_max=10_000,
            check_arguments="report",
            webhook_secrets=SECRET,
            allowed_webhook_networks="127.0.0.0/8",
            log_level="info",
            **self._settings_of(name),
        )
        await self._open(HttpLink(f"pushers>{name}", ("127.0.0.1", self.masters[name].port), seed=self._seed))

    def _store_url(self, master: str, store: str) -> str:
        return f"redis://127.0.0.1:{self.links[f'{master}>{store}'].port}"

    def _settings_of(self, master: str) -> dict[str, object]:
        """Return further settings of this master."""
        return {}

    async def _make_stranger(self) -> None:
        """Use a separate store, so that faults of ours do not affect it."""
        directory = self.directory / "stranger"
        directory.mkdir()
        self._stranger = MasterProcess(directory)
        await asyncio.to_thread(self._stranger.start)

    async def _make_worker(self, name: str, number: int) -> None:
        port = free_port()
        await self._open(HttpLink(f"masters>{name}", ("127.0.0.1", port), seed=self._seed))
        urls = []
        for master, process in self.masters.items():
            link = HttpLink(
                f"{name}>{master}", ("127.0.0.1", process.port), seed=self._seed, spare=is_registration
            )
            await self._open(link)
            urls.append(f"http://127.0.0.1:{link.port}")
        module = "plain_worker" if self.scale.is_plain(number) else "chaos_worker"
        self.workers[name] = Process(
            ["-m", f"tests.chaos.{module}"],
            self.directory / f"{name}.log",
            CHAOS_WORKER=name,
            # Not all ask the same master first.
            CHAOS_MASTERS=" ".join(
                urls[len(self.workers) % len(urls) :] + urls[: len(self.workers) % len(urls)]
            ),
            CHAOS_PORT=str(port),
            CHAOS_URL=f"http://127.0.0.1:{self.links[f'masters>{name}'].port}",
            CHAOS_WITHOUT=self._without,
            CHAOS_PULL="1" if self.scale.is_pulling(number) else "",
            CHAOS_MAX_JOBS=str(self.scale.max_jobs),
            CHAOS_GRACE_S=str(self.scale.worker_grace_s),
            CHAOS_JOURNAL=str(self.directory / f"journal-{name}"),
        )

    def _make_successor(self, name: str) -> tuple[str, int]:
        """Return the successor's name and port. It uses links only for incoming calls to the worker's address."""
        successor, port = f"{name}-moved", free_port()
        self.successors[successor] = Process(
            ["-m", "tests.chaos.chaos_worker"],
            self.directory / f"{successor}.log",
            CHAOS_WORKER=successor,
            CHAOS_MASTERS=" ".join(master.url for master in self.masters.values()),
            CHAOS_PORT=str(port),
            CHAOS_URL=f"http://127.0.0.1:{self.links[f'masters>{name}'].port}",
            CHAOS_WITHOUT=self._without,
            CHAOS_MAX_JOBS=str(self.scale.max_jobs),
            CHAOS_GRACE_S=str(self.scale.worker_grace_s),
            CHAOS_JOURNAL=str(self.directory / f"journal-{successor}"),
        )
        return successor, port

    async def _open(self, link: Link) -> None:
        await link.start()
        self.links[link.name] = link

    def _begin(self, name: str, process: Process) -> None:
        # Do not use MasterProcess.start, which waits until ready.
        Process.start(process)
        self._started_s[name] = time.monotonic()
        self._dead_since_s.pop(name, None)

    async def _all_registered(self) -> bool:
        return len(await self.client.command("ZRANGE", Keys("jq").workers, 0, -1)) >= len(self.workers)

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        strangers = [self._stranger] if self._stranger else []
        processes = [*self.workers.values(), *self.successors.values(), *self.masters.values(), *strangers]
        for process in processes:
            if process.popen is not None and process.popen.poll() is None:
                process.signal(signal.SIGCONT)
                process.signal(signal.SIGTERM)
        for process in processes:
            if process.popen is not None:
                # A process that does not end needs its logs, but does not concern this run.
                with contextlib.suppress(AssertionError):
                    await asyncio.to_thread(process.terminate, 20)
        for client in (*self.clients.values(), *self.readers.values()):
            await client.close()
        for link in self.links.values():
            await link.stop()
        for store in self.stores.values():
            await asyncio.to_thread(store.stop)

    # --- looking on

    def _watched(self, store: str) -> Sequence[tuple[Keys, list[Epoch]]]:
        """Return the keys to watch in this store, and where their epochs belong."""
        return [(Keys("jq"), self.epochs)]

    async def _look_on(self, store: str) -> None:
        """Record the newest epochs and the locks' holders as often as possible."""
        watched = self._watched(store)
        reads = [("GET", key) for keys, _ in watched for key in (keys.epoch, keys.leader, keys.generation)]
        while True:
            with contextlib.suppress(JqmasterError):
                found = await self.clients[store].pipeline(reads)
                for (_, epochs), epoch, holder, mark in zip(
                    watched, found[::3], found[1::3], found[2::3], strict=True
                ):
                    if epoch:
                        # Nobody leads data without a mark: they are being moved, or were.
                        _note_epoch(epochs, epoch.decode(), holder.decode() if holder and mark else "")
            await asyncio.sleep(LOOK_S)

    async def _guard(self) -> None:
        """Restart whatever ended by itself, like a supervisor."""
        while True:
            await asyncio.sleep(LOOK_S)
            for name, store in self.stores.items():
                if name not in self._held and store.is_down:
                    from_s = time.monotonic() - 2 * LOOK_S
                    self._held.add(name)
                    await asyncio.to_thread(store.start)
                    self._held.discard(name)
                    self.faults.append(Fault("exit", name, from_s, time.monotonic()))
            guarded = [*self.masters.items(), *self.workers.items(), *self.successors.items()]
            for name, process in guarded:
                if process.popen is None or process.popen.poll() is None:
                    continue
                # A fault may hold a process for seconds after it ended by itself.
                dead_s = self._dead_since_s.setdefault(name, time.monotonic())
                if name in self._held:
                    continue
                self.faults.append(Fault("exit", name, dead_s - 2 * LOOK_S, dead_s))
                self._begin(name, process)

    async def leader(self) -> str | None:
        """Return the name of the master that says it leads."""
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
        """Cause all faults at their times, and return when the last one is over."""

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
        bites, dead_s = await self._bring_about(planned, target)
        hit = target.split(">")[0]
        # A killed process takes a while to return, which is part of the fault.
        is_leader = leader is not None and hit == leader
        self.faults.append(Fault(planned.kind, target, from_s, time.monotonic(), bites, is_leader, dead_s))

    async def _bring_about(self, planned: Planned, target: str) -> tuple[int, float]:
        """Cause the fault until it is over. Return how often it hit, and when a process that it ended was gone (0: it
        did not end one).
        """
        for_s = planned.for_s
        if planned.weather is not None:
            return await self._weather(planned, target), 0.0
        if target in self._held:
            return 0, 0.0
        self._held.add(target)
        try:
            match planned.kind:
                case "kill" if target in self.stores:
                    return await self._kill_store(target, for_s), 0.0
                case "kill":
                    return await self._kill(target, for_s)
                case "term":
                    return await self._terminate(target, for_s)
                case "stop":
                    return await self._stand_still(target, for_s), 0.0
                case "move":
                    return await self._move(target, for_s), 0.0
                case "stranger":
                    return await self._stand_in(target, for_s), 0.0
                case "demote":
                    return await self._demote(target), 0.0
                case "drain" | "detach" as order:
                    return await self._order(target, order, for_s), 0.0
                case "memory full":
                    return await self._fill_memory(self.clients[target], for_s), 0.0
                case "disk full":
                    return await self._fill_disk(for_s), 0.0
                case "clock step":
                    return await self._step_clock(planned.step_s, for_s), 0.0
                case other:
                    return await self._other_fault(other, target), 0.0
        finally:
            self._held.discard(target)

    async def _other_fault(self, kind: str, target: str) -> int:
        """Cause a fault that only some rigs know, and return how often it hit."""
        raise ValueError(f"not a fault: {kind}")

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
        if planned.kind == "reset idle":
            return sum(link.reset_idle() for link in links)
        for link in links:
            link.change(planned.weather)
        await asyncio.sleep(planned.for_s)
        for link in links:
            if planned.kind == "silent cut":
                link.forget_all()
            link.clear()
        return sum(link.bites.total for link in links)

    async def _kill_store(self, target: str, for_s: float) -> int:
        await asyncio.to_thread(self.stores[target].kill)
        await asyncio.sleep(for_s)
        await asyncio.to_thread(self.stores[target].start)
        return 1

    async def _kill(self, target: str, for_s: float) -> tuple[int, float]:
        process = self._process(target)
        was_alive = process.popen is not None and process.popen.poll() is None
        await asyncio.to_thread(process.kill)
        dead_s = time.monotonic()
        await asyncio.sleep(for_s)
        self._begin(target, process)
        return int(was_alive), dead_s

    async def _terminate(self, target: str, for_s: float) -> tuple[int, float]:
        process = self._process(target)
        if process.popen is None or process.popen.poll() is not None:
            self._begin(target, process)
            return 0, 0.0
        try:
            await asyncio.to_thread(process.terminate, END_WITHIN_S)
        except AssertionError:
            self.stuck.append(f"{target}: not within {END_WITHIN_S:g} s after SIGTERM")
        dead_s = time.monotonic()
        await asyncio.sleep(for_s)
        self._begin(target, process)
        return 1, dead_s

    async def _stand_still(self, target: str, for_s: float) -> int:
        send: Callable[[signal.Signals], None]
        if (store := self.stores.get(target)) is not None:
            assert store.process
            pid, send = store.process.pid, store.signal
        else:
            process = self._process(target)
            pid, send = process.pid, process.signal
        send(signal.SIGSTOP)
        await asyncio.sleep(for_s)
        halted = _is_halted(pid)
        send(signal.SIGCONT)
        return int(halted)

    async def _stand_in(self, target: str, for_s: float) -> int:
        """Let callers of this master find the stranger at its address."""
        assert self._stranger
        links = [link for name, link in self.links.items() if name.endswith(f">{target}")]
        before = sum(link.met for link in links)
        for stranger in (("127.0.0.1", self._stranger.port), None):
            for link in links:
                link.stranger = stranger
                link.reset()
            if stranger is not None:
                await asyncio.sleep(for_s)
        return sum(link.met for link in links) - before

    async def _move(self, target: str, for_s: float) -> int:
        """Keep the worker alive but unreachable, while another process serves its address. Return whether that one
        received anything."""
        to_it, from_it = self.links[f"masters>{target}"], self._links_of(f"{target}>masters")
        successor, port = self._make_successor(target)
        process, before = self.successors[successor], to_it.met
        for link in from_it:
            link.change(Weather(holds_requests=True, holds_answers=True))
        to_it.stranger = ("127.0.0.1", port)
        to_it.reset()
        self._held.discard(successor)
        self._begin(successor, process)
        await asyncio.sleep(for_s)
        self._held.add(successor)
        from_s = time.monotonic()
        try:
            await asyncio.to_thread(process.terminate, END_WITHIN_S)
        except AssertionError:
            self.stuck.append(f"{successor}: not within {END_WITHIN_S:g} s after SIGTERM")
        self.faults.append(Fault("term", successor, from_s, time.monotonic()))
        to_it.stranger = None
        to_it.reset()
        for link in from_it:
            link.clear()
        return to_it.met - before

    # --- orders of operators

    async def _demote(self, target: str) -> int:
        """Return whether a new epoch followed."""
        before = self.epochs[-1].number if self.epochs else 0
        status, said = await self._ask("GET", f"{self.masters[target].url}/healthz")
        if status == 200:
            status, _ = await self._ask("POST", f"{self.masters[target].url}/api/masters/{said['id']}/demote")
        if status != 202:
            return 0
        end_s = time.monotonic() + self.scale.leader_ttl_s
        while time.monotonic() < end_s:
            if self.epochs and self.epochs[-1].number > before:
                return 1
            await asyncio.sleep(LOOK_S)
        return 0

    async def _order(self, target: str, order: str, for_s: float) -> int:
        """Order a worker. A drain is undone after a while, however long the masters are away."""
        worker_id = await self._worker_id(target)
        if worker_id is None or await self._ask_any("POST", f"/api/workers/{worker_id}/{order}") != 200:
            return 0
        if order == "drain":
            await asyncio.sleep(for_s)
            end_s = time.monotonic() + ORDER_WITHIN_S
            # 404, 409: the worker has rejoined or was cut off; either way it is not draining.
            while await self._ask_any("POST", f"/api/workers/{worker_id}/resume") not in (200, 404, 409):
                if time.monotonic() > end_s:
                    self.stuck.append(f"{target}: not resumed within {ORDER_WITHIN_S:g} s")
                    break
                await asyncio.sleep(LOOK_S)
        return 1

    async def _worker_id(self, target: str) -> str | None:
        """Return the ID of its last registration, if masters hear it."""
        lines, _ = read_lines(self.directory / f"journal-{target}")
        own = next((line.detail for line in reversed(lines) if line.what == "registered"), None)
        for master in self.masters.values() if own else ():
            status, said = await self._ask("GET", f"{master.url}/api/workers/{own}")
            if status in (200, 404):
                return own if status == 200 and said["state"] == "fresh" else None
        return None

    async def _ask_any(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> int:
        """Return the first definite answer of any master, or 0 without one."""
        for master in self.masters.values():
            status, _ = await self._ask(method, f"{master.url}{path}", body)
            if status and status < 500:
                return status
        return 0

    async def _ask(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
            async with (
                aiohttp.ClientSession(trust_env=False) as session,
                session.request(
                    method,
                    url,
                    json=body,
                    headers={"Accept": "application/json"},
                    timeout=aiohttp.ClientTimeout(total=2.0),
                ) as response,
            ):
                return response.status, await response.json(content_type=None)
        return 0, None

    # --- bad days of the store

    async def _fill_memory(self, client: StoreClient, for_s: float) -> int:
        """Tell the store that it has less memory than it uses."""
        with contextlib.suppress(JqmasterError):
            info = (await client.command("INFO", "memory")).decode()
            used = int(info.split("used_memory:")[1].split("\r\n")[0])
            await client.command("CONFIG", "SET", "maxmemory", used * 9 // 10)
            await asyncio.sleep(for_s)
            while True:
                with contextlib.suppress(JqmasterError):
                    await client.command("CONFIG", "SET", "maxmemory", 0)
                    return 1
                await asyncio.sleep(LOOK_S)
        return 0

    async def _fill_disk(self, for_s: float) -> int:
        """Fill the disk. The store then ends by itself, because it cannot promise anything."""
        await asyncio.to_thread(self.store.fill_disk)
        try:
            await asyncio.sleep(for_s)
            bites = int(self.store.is_down)
        finally:
            await asyncio.to_thread(self.store.clear_disk)
        if self.store.is_down:
            await asyncio.to_thread(self.store.start)
        return bites

    async def _step_clock(self, step_s: float, for_s: float) -> int:
        """Step the clock for a time, or permanently if `for_s` is 0."""
        self.store.step_clock(step_s)
        bites = await self._clock_is_set()
        if for_s:
            await asyncio.sleep(for_s)
            self.store.step_clock(-step_s)
            await self._clock_is_set()
        return bites

    async def _clock_is_set(self) -> int:
        """Return whether the store has seen the clock in time. It need not be up."""
        end_s = time.monotonic() + CLOCK_WITHIN_S
        while time.monotonic() < end_s:
            with contextlib.suppress(JqmasterError):
                now_s, _ = await self.client.command("TIME")
                if abs(int(now_s) - time.time() - self.store.offset_s) < 1.5:
                    return 1
            await asyncio.sleep(LOOK_S)
        return 0

    def _process(self, target: str) -> Process:
        return self.masters[target] if target in self.masters else self.workers[target]


def _of_store(plan: list[Planned], name: str) -> list[Planned]:
    return [planned for planned in plan if planned.target == name]


def _note_epoch(epochs: list[Epoch], epoch: str, holder: str) -> None:
    """Add a reading if it differs from the last one."""
    number, _, nonce = epoch.partition(":")
    seen = Epoch(time.monotonic(), int(number), nonce, holder)
    before = epochs[-1] if epochs else None
    if not before or (before.number, before.nonce, before.holder) != (seen.number, seen.nonce, seen.holder):
        epochs.append(seen)


def _is_halted(pid: int) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        return psutil.Process(pid).status() in HALTED
    return False
