"""Measure namespaces: what each of them costs without work, and what a job costs while there are many of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import psutil

from benchmarks.load import System, running_system
from benchmarks.scenario import Figures, Scenario
from jqmaster.config import Settings
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.namespaces import NamespaceStore

UP_WITHIN_S: Final = 300.0
# How long to wait before a measurement. A quiet shard is polled rarely, but only after several polls that have found
# nothing.
SETTLE_S: Final = 15.0


async def idle(*, namespaces: int = 1, seconds: float = 30) -> Figures:
    """Measure the CPU, memory and commands that each idle namespace adds to the same system without namespaces."""
    with running_system(workers=0) as system:
        await asyncio.sleep(min(SETTLE_S, seconds))
        without = await _figures(system, seconds)
        began_s, before = time.perf_counter(), system.cpu_s()
        await open_namespaces(system, namespaces)
        opened_s, after = time.perf_counter() - began_s, system.cpu_s()
        await asyncio.sleep(min(SETTLE_S, seconds))
        with_them = await _figures(system, seconds)
    return {
        **{name: (with_them[name] - without[name]) / namespaces for name in with_them},
        "opened_s": opened_s,
        "opened_cpu_ms": 1000 * (after["master"] - before["master"]) / namespaces,
    }


async def beside(*, namespaces: int = 1, jobs: int = 20_000, seconds: float = 10) -> Figures:
    """Measure the CPU time of a job while there are this many namespaces. The cost of all idle namespaces is not
    included."""
    with running_system() as system:
        if namespaces > 1:
            await open_namespaces(system, namespaces - 1)
            await asyncio.sleep(min(SETTLE_S, seconds))
        idle_s, began_s = await _cpu_of_idle(system, seconds), time.perf_counter()
        before = system.cpu_s()
        await asyncio.to_thread(system.push, "bulk", count=jobs, argument_bytes=100)
        await asyncio.to_thread(system.until_over)
        passed_s, after = time.perf_counter() - began_s, system.cpu_s()
    return {
        f"{kind}_us_per_job": 1e6 * (after[kind] - before[kind] - idle_s[kind] * passed_s) / jobs
        for kind in ("master", "store")
    }


async def _cpu_of_idle(system: System, seconds: float) -> dict[str, float]:
    """Return the CPU seconds that each kind of process uses in a second without work."""
    before = system.cpu_s()
    await asyncio.sleep(seconds)
    return {kind: (now - before[kind]) / seconds for kind, now in system.cpu_s().items()}


async def open_namespaces(system: System, namespaces: int) -> None:
    """Create this many namespaces, and wait until each of them has a leader."""
    client = StoreClient(system.store_url, connections=2)
    try:
        await _create(Shard(client, Keys(str(Settings.model_fields["shard"].default))), namespaces)
        await _until(lambda: _led(client, namespaces))
    finally:
        await client.close()


async def _create(link: Shard, count: int) -> None:
    store = NamespaceStore(link)
    for number in range(count):
        name = f"idle-{number}"
        entry = encode_entry(
            who="benchmark", action="namespace.create", target=name, before=None, after={"tag": name}
        )
        await store.put(None, Namespace(name, name), entry, max_namespaces=count)


async def _led(client: StoreClient, count: int) -> bool:
    found = await client.pipeline([("EXISTS", Keys(f"idle-{number}").leader) for number in range(count)])
    return all(found)


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(UP_WITHIN_S):
        while not await is_so():
            await asyncio.sleep(0.5)


async def _figures(system: System, seconds: float) -> Figures:
    calls, before, began = system.store_calls(), system.cpu_s(), time.perf_counter()
    await asyncio.sleep(seconds)
    passed, after = time.perf_counter() - began, system.cpu_s()
    return {
        **{f"{kind}_us_per_s": 1e6 * (after[kind] - before[kind]) / passed for kind in ("master", "store")},
        "commands_per_s": (system.store_calls()["commands"] - calls["commands"]) / passed,
        "master_mb": _memory_mb(system.master),
    }


def _memory_mb(process: psutil.Process) -> float:
    return float(process.memory_full_info().pss) / 2**20


def _idle(*, namespaces: int = 1, seconds: float = 30) -> Figures:
    return asyncio.run(idle(namespaces=namespaces, seconds=seconds))


def _beside(*, namespaces: int = 1, jobs: int = 20_000, seconds: float = 10) -> Figures:
    return asyncio.run(beside(namespaces=namespaces, jobs=jobs, seconds=seconds))


SCENARIOS: Final = [
    Scenario(
        "beside_shards",
        _beside,
        [{"namespaces": count} for count in (1, 10, 100)],
        quick={"namespaces": 2, "jobs": 500, "seconds": 1},
        group="shards",
    ),
    Scenario(
        "idle_shards",
        _idle,
        [{"namespaces": count} for count in (1, 100, 1_000)],
        quick={"namespaces": 2, "seconds": 1},
        group="shards",
    ),
]
