"""Measure how long dispatch stops when the leader changes. Three masters run on one store, with default settings."""

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks import load
from jqmaster.embedded import EmbeddedValkey
from worker_sdk import Pusher

MASTERS: Final = 3
ROUNDS: Final = 10
# The interval between two pushes, and the duration of the pushes. The pushes begin just before the event, and go on for
# at least as long as a change of the leader takes.
PUSH_EVERY_S: Final = 0.02
PUSH_FOR_S: Final = 1.5
UP_WITHIN_S: Final = 30.0
Figures = dict[str, float]


class Cluster:
    """Several masters, and a worker that knows all of them."""

    def __init__(self, store_url: str, directory: Path, session: aiohttp.ClientSession) -> None:
        self._environment = {
            **os.environ, "JQMASTER_REDIS_URL": store_url, "JQMASTER_LOG_LEVEL": "warning", "BENCH_MAX_JOBS": "200",
        }  # fmt: skip
        self._log = directory / "log"
        self._session = session
        self._masters: dict[str, subprocess.Popen[bytes]] = {}
        self._worker: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        for _ in range(MASTERS):
            self._serve(f"http://127.0.0.1:{load.free_port()}")
        await self._until(self._is_whole)
        options = [part for url in self._masters for part in ("--master", url)]
        self._worker = self._spawn("worker", "benchmarks.worker:worker", *options)
        await self._until(self._has_worker)

    def stop(self) -> None:
        for process in (self._worker, *self._masters.values()):
            if process:
                load._end(process)

    async def leader(self) -> dict[str, Any]:
        return next(one for one in await self._listed() if one["role"] == "leader")

    def follower_of(self, url: str) -> str:
        return next(other for other in self._masters if other != url)

    async def demote(self, leader: dict[str, Any]) -> None:
        async with self._session.post(f"{leader['url']}/api/masters/{leader['id']}/demote") as response:
            assert response.status == 202, await response.text()

    def signal(self, url: str, number: signal.Signals) -> None:
        self._masters[url].send_signal(number)

    async def restore(self, ended: str | None) -> None:
        """If a master has ended, start it again. Wait until all masters know one another."""
        if ended:
            await asyncio.to_thread(self._masters[ended].wait, UP_WITHIN_S)
            self._serve(ended)
        await self._until(self._is_whole)

    def _serve(self, url: str) -> None:
        # Give each master its own node ID, as if it ran on its own node.
        port = url.rpartition(":")[2]
        self._masters[url] = self._spawn("serve", "--port", port, JQMASTER_NODE_ID=f"node-{port}")

    def _spawn(self, *arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "jqmaster", *arguments],
                cwd=load.ROOT,
                env={**self._environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=load._end_with_parent,  # noqa: PLW1509 - one thread, as yet
            )

    async def _listed(self) -> list[dict[str, Any]]:
        for url in self._masters:
            with contextlib.suppress(aiohttp.ClientError):
                async with self._session.get(
                    f"{url}/api/masters", headers={"Accept": "application/json"}
                ) as response:
                    listed: list[dict[str, Any]] = (await response.json())["masters"]
                    return listed
        return []

    async def _is_whole(self) -> bool:
        fresh = [one for one in await self._listed() if one["state"] == "fresh"]
        pids = {one["pid"] for one in fresh}
        roles = {one["role"] for one in fresh}
        return pids == {m.pid for m in self._masters.values()} and {"leader", "sub_leader"} <= roles

    async def _has_worker(self) -> bool:
        url = next(iter(self._masters))
        async with self._session.get(
            f"{url}/api/workers", headers={"Accept": "application/json"}
        ) as response:
            return len((await response.json())["workers"]) == 1

    async def _until(self, is_true: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + UP_WITHIN_S
        while not await is_true():
            if time.monotonic() > deadline:
                raise SystemExit(f"the masters did not come up:\n{self._log.read_text()[-3000:]}")
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def _running_cluster() -> AsyncIterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="jqmaster-bench-") as name:
        store = EmbeddedValkey(Path(name) / "data")
        await store.start()
        try:
            async with aiohttp.ClientSession() as session:
                cluster = Cluster(store.url, Path(name), session)
                try:
                    await cluster.start()
                    yield cluster
                finally:
                    cluster.stop()
        finally:
            await store.stop()


async def takeover() -> Figures:
    """Measure the longest wait of a job from its push to its start while the leader is killed, stopped or demoted."""
    gaps: dict[str, list[float]] = {"kill": [], "term": [], "demote": []}
    async with _running_cluster() as cluster:
        for _ in range(ROUNDS):
            for event, found in gaps.items():
                leader = await cluster.leader()
                found.append(await _longest_wait_s(cluster, event, leader))
                await cluster.restore(None if event == "demote" else leader["url"])
    return {
        f"{event}_{name}_ms": figure(found) * 1000
        for event, found in gaps.items()
        for name, figure in (("p50", statistics.median), ("max", max))
    }


async def _longest_wait_s(cluster: Cluster, event: str, leader: dict[str, Any]) -> float:
    async with Pusher(cluster.follower_of(leader["url"]), max_wait_s=60) as pusher:

        async def one() -> float:
            pushed = time.clock_gettime(time.CLOCK_MONOTONIC)
            job_id = await pusher.enqueue("waited", pushed, keep_result=True)
            result = await pusher.result(job_id, wait=60)
            assert result
            return float(result.result)

        await one()  # opens all connections before the measurement
        match event:
            case "demote":
                await cluster.demote(leader)
            case "kill":
                cluster.signal(leader["url"], signal.SIGKILL)
            case _:
                cluster.signal(leader["url"], signal.SIGTERM)
        began = time.monotonic()
        waiting = []
        while time.monotonic() < began + PUSH_FOR_S:
            waiting.append(asyncio.create_task(one()))
            await asyncio.sleep(PUSH_EVERY_S)
        return max(await asyncio.gather(*waiting))
