"""The processes of the example: masters with their store, the other systems and workers; and the code that kills
them."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from examples.stdlib.system import Child, ending, start

# How long finished jobs are kept, in seconds. They must still exist when the ledger is made.
_KEPT_S: Final = "86400"
_MAX_JOBS: Final = 32
# How long the processes may take to start: they start at the same time, and other programs may keep the machine busy.
SERVES_WITHIN_S: Final = 600.0
# Reuse this client: a new one for each call would read the certificates of all authorities.
_HTTP: Final = httpx.Client(timeout=2.0, trust_env=False)


@dataclass
class Shop:
    """The running processes.

    * `urls`: addresses of the masters.
    * `outside_url`: address of the other systems.
    * `kills`: how often each process was killed.
    """

    directory: Path
    urls: tuple[str, ...]
    outside_url: str
    children: list[Child]
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    kills: dict[str, int] = field(default_factory=dict)

    def begin(self, name: str, *arguments: str) -> None:
        """Start a process, or start it again."""
        self.commands[name] = arguments
        self.children[:] = [child for child in self.children if child.name != name]
        self.children.append(start(name, self.directory, *arguments, env=self.env))

    def check_alive(self) -> None:
        """Raise SystemExit if one of the processes has ended."""
        for child in self.children:
            child.check_alive()

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, so that it cannot save anything."""
        child = next(child for child in self.children if child.name == name)
        os.kill(child.process.pid, signal.SIGKILL)
        child.process.wait()
        self.kills[name] = self.kills.get(name, 0) + 1

    async def kill_now_and_then(self, every_s: float, dice: random.Random) -> None:
        """Kill masters and workers, and start each again a moment later. Wait until all masters serve again before the
        next kill, so that even on a busy machine, jobs run between two kills.
        """
        names = [name for name in self.commands if name != "outside"]
        while True:
            await asyncio.sleep(every_s * dice.uniform(0.5, 1.5))
            name = dice.choice(names)
            self.kill(name)
            await asyncio.sleep(dice.uniform(0.0, 2.0))
            self.begin(name, *self.commands[name])
            while not await asyncio.to_thread(self._all_masters_serve):
                await asyncio.sleep(0.2)

    def _all_masters_serve(self) -> bool:
        try:
            return all(_status(f"{url}/readyz") == 200 for url in self.urls)
        except httpx.HTTPError:
            return False


@contextlib.asynccontextmanager
async def running_shop(
    directory: Path,
    ports: tuple[int, ...],
    *,
    workers: int = 1,
    redis_url: str | None = None,
    outside_options: tuple[str, ...] = (),
    answer_within_s: float = 20.0,
) -> AsyncIterator[Shop]:
    """Start everything, and yield when the workers have registered. Raise SystemExit if that fails.

    * `ports`: the port of the other systems, then the port of each master. Several masters need `redis_url`.
    """
    outside_port, *master_ports = ports
    urls = tuple(f"http://127.0.0.1:{port}" for port in master_ports)
    data = directory / "data"
    with ending(data) as children:
        shop = Shop(directory, urls, f"http://127.0.0.1:{outside_port}", children)
        shop.env = {
            "ORDERS_OUTSIDE": shop.outside_url,
            "ORDERS_ANSWER_S": str(answer_within_s),
            "JQMASTER_RETENTION_SUCCEEDED_S": _KEPT_S,
        }
        if redis_url:
            # Pass the URL in the environment: every process of the machine can read arguments, and it may hold a
            # password.
            shop.env["JQMASTER_REDIS_URL"] = redis_url
        store = () if redis_url else ("--data-dir", str(data))
        for number, port in enumerate(master_ports, 1):
            shop.begin(f"master {number}", "-m", "jqmaster", "serve", "--port", str(port), *store)
        shop.begin("outside", "-m", "examples.orders.outside", str(outside_port), *outside_options)
        for url in urls:
            await _until(lambda url=url: _status(f"{url}/readyz") == 200, shop, f"{url} is not ready")
        await _until(
            lambda: _status(f"{shop.outside_url}/book") == 200, shop, "the other systems do not answer"
        )
        masters = [word for url in urls for word in ("--master", url)]
        for number in range(1, workers + 1):
            options = ("--max-jobs", str(_MAX_JOBS), "--port", "0", *masters)
            shop.begin(
                f"worker {number}", "-m", "jqmaster", "worker", "examples.orders.steps:worker", *options
            )
        await _until(lambda: _workers(urls[0]) >= workers, shop, "the workers have not registered")
        yield shop


def _status(url: str) -> int:
    return _HTTP.get(url).status_code


def _workers(url: str) -> int:
    headers = {"Accept": "application/json"}
    answer = _HTTP.get(f"{url}/api/workers", headers=headers)
    return len(answer.json()["workers"])


async def _until(is_so: Callable[[], bool], shop: Shop, trouble: str) -> None:
    end_s = time.monotonic() + SERVES_WITHIN_S
    while time.monotonic() < end_s:
        shop.check_alive()
        with contextlib.suppress(httpx.HTTPError):
            if await asyncio.to_thread(is_so):
                return
        await asyncio.sleep(0.1)
    raise SystemExit(f"{trouble} after {SERVES_WITHIN_S:.0f} s; is the machine busy?")
