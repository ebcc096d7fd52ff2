"""Measure the cost of constraints. Each benchmark runs the same load with and without constraints, in the same run on
the same system."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp

from benchmarks.load import System, running_system
from worker_sdk import Pusher

JOBS = 20_000
KEYS = 100_000
BLOCKED = 100_000
ROUNDS = 3
PADDING = "x" * 76  # as `x` in `{"k": …, "x": …}`, which has about 100 bytes of MessagePack
Figures = dict[str, float]
Document = dict[str, Any]

ALL = {"field": "name", "op": "eq", "value": "noop"}
# One constraint for each kind of limit. Each of them applies to every job and holds no job back.
FIVE: dict[str, Document] = {
    "by-name": {"matcher": ALL, "concurrency": 1_000_000},
    "by-argument": {"matcher": {"field": "argument.k", "op": "ge", "value": 0}, "concurrency": 1_000_000},
    "by-priority": {"matcher": {"field": "priority", "op": "le", "value": 10}, "concurrency": 1_000_000},
    "rate": {"matcher": ALL, "rate": {"limit": 100_000, "period_s": 1}},
    "backlog": {"matcher": ALL, "max_backlog": 100_000_000},
}
ONE_EACH: dict[str, Document] = {"per-key": {"matcher": ALL, "key": "argument.k", "concurrency": 1}}
# Limits that hold no job back, without a weight and with one. The weight of a job is its number `k`.
WEIGHT: Document = {"from": "argument.k", "default": 1}
PLAIN: dict[str, Document] = {
    "limit": {"matcher": ALL, "concurrency": 1_000_000, "rate": {"limit": 100_000, "period_s": 1}},
}
WEIGHTED: dict[str, Document] = {
    "limit": {
        "matcher": ALL,
        "concurrency": 1_000_000_000,
        "rate": {"limit": 1_000_000_000, "period_s": 1},
        "weight": WEIGHT,
    },
}
WEIGHTED_EACH: dict[str, Document] = {
    "per-key": {"matcher": ALL, "key": "argument.k", "concurrency": 1_000_000, "weight": WEIGHT},
}
BLOCKING: dict[str, Document] = {
    "by-argument": {"matcher": {"field": "argument.k", "op": "lt", "value": 0}, "paused": True},
}
BLOCKING_KEYED: dict[str, Document] = {
    "per-key": {"matcher": ALL, "key": "argument.tenant", "overrides": [{"value": "slow", "paused": True}]},
}


async def five_constraints(*, jobs: int = JOBS, rounds: int = ROUNDS) -> Figures:
    """Measure jobs end to end, with and without five constraints that match every job and hold no job back."""
    return await _beside_none(FIVE, range(jobs), rounds=rounds)


async def distinct_keys(*, keys: int = KEYS, rounds: int = ROUNDS) -> Figures:
    """Measure jobs end to end, with and without a limit of one job at a time for each key value. Each job has a key
    value of its own."""
    return await _beside_none(ONE_EACH, range(keys), rounds=rounds)


async def weighted(*, jobs: int = JOBS, rounds: int = ROUNDS) -> Figures:
    """Measure jobs end to end with a constraint that has a weight, and with the same constraint without the weight."""
    async with _system() as (system, session, pusher):
        await _drained(system, session, pusher, range(2_000))
        runs: dict[str, list[Figures]] = {"plain": [], "weighted": []}
        for _ in range(rounds):
            for name, constraints in (("plain", PLAIN), ("weighted", WEIGHTED)):
                await _put(session, system, constraints)
                runs[name].append(await _drained(system, session, pusher, range(jobs)))
                await _delete(session, system, constraints)
        return _compared(runs["plain"], runs["weighted"])


async def weighted_keys(*, keys: int = KEYS) -> Figures:
    """Measure jobs end to end, with and without a weighted limit for each key value. Each job has a key value of its
    own."""
    return await _beside_none(WEIGHTED_EACH, range(keys), rounds=1)


async def blocked_in_front() -> Figures:
    """Measure jobs end to end: behind 100,000 older jobs that a constraint without a key holds back, and in an empty
    queue."""
    return await _behind(BLOCKING, {"k": -1, "x": PADDING})


async def blocked_keys_in_front() -> Figures:
    """Measure jobs end to end: behind 100,000 older jobs of one paused key value, and in an empty queue."""
    return await _behind(BLOCKING_KEYED, {"tenant": "slow", "x": PADDING})


async def change_under_load() -> Figures:
    """Measure how long it takes until 100,000 waiting jobs obey a new constraint that reads their argument."""
    return await _change({"matcher": FIVE["by-argument"]["matcher"], "key": "argument.k", "concurrency": 1})


async def change_by_name() -> Figures:
    """Measure how long it takes until 100,000 waiting jobs obey a new constraint that reads only their names."""
    return await _change({"matcher": ALL, "concurrency": 1})


async def _change(document: Document) -> Figures:
    async with _system(workers=0) as (system, session, pusher):
        await pusher.enqueue_many(_jobs(range(BLOCKED)))
        began, before = time.monotonic(), system.cpu_s()
        await _put(session, system, {"new": document})
        acknowledged_s = time.monotonic() - began
        while not (await _get(session, f"{system.url}/api/constraints/new"))["usage"]["in_force"]:
            await asyncio.sleep(0.25)
        moved_s, after = time.monotonic() - began, system.cpu_s()
        return {
            "acknowledged_ms": acknowledged_s * 1000,
            "all_moved_s": moved_s,
            **{f"{kind}_cpu_s": after[kind] - before[kind] for kind in ("master", "store")},
        }


async def key_memory() -> Figures:
    """Measure how many bytes the store needs for a waiting job with its own value of a constraint's key. There are
    three figures: without the constraint, with an open gate, and with a closed gate, where the job waits in its own
    lane."""
    async with _system(workers=1) as (system, session, pusher):
        store = system.store
        await _put(session, system, {"pause": {"matcher": ALL, "paused": True}})
        before = store.memory_info().rss
        await pusher.enqueue_many(_jobs(range(KEYS)))
        plain = (store.memory_info().rss - before) / KEYS
    async with _system(workers=1) as (system, session, pusher):
        store = system.store
        await _put(session, system, {**ONE_EACH, "pause": {"matcher": ALL, "paused": True}})
        before = store.memory_info().rss
        await pusher.enqueue_many(_jobs(range(KEYS)))
        open_gate = (store.memory_info().rss - before) / KEYS
    async with _system(workers=1) as (system, session, pusher):
        store = system.store
        await _put(session, system, {"per-key": {**ONE_EACH["per-key"], "paused": True}})
        before = store.memory_info().rss
        await pusher.enqueue_many(_jobs(range(KEYS)))
        await _until_put_aside(session, system, pusher)
        closed_gate = (store.memory_info().rss - before) / KEYS
    return {
        "rss_bytes_per_job": plain,
        "rss_bytes_per_job_open_gate": open_gate,
        "rss_bytes_per_job_lane_and_closed_gate": closed_gate,
    }


async def _until_put_aside(session: aiohttp.ClientSession, system: System, pusher: Pusher) -> None:
    """Wait until claims have put aside all blocked jobs. Only then does a younger job run that has no key and therefore
    no limit."""
    blocked = await _unfinished(session, system)
    await pusher.enqueue("noop", {"x": PADDING})
    while await _unfinished(session, system) > blocked:
        await asyncio.sleep(0.05)


async def _beside_none(constraints: dict[str, Document], numbers: range, *, rounds: int) -> Figures:
    async with _system() as (system, session, pusher):
        await _drained(system, session, pusher, range(2_000))
        without: list[Figures] = []
        under: list[Figures] = []
        for _ in range(rounds):
            without.append(await _drained(system, session, pusher, numbers))
            await _put(session, system, constraints)
            under.append(await _drained(system, session, pusher, numbers))
            await _delete(session, system, constraints)
        return _compared(without, under)


async def _behind(constraints: dict[str, Document], argument: Document) -> Figures:
    async with _system() as (system, session, pusher):
        await _put(session, system, constraints)
        await _drained(system, session, pusher, range(2_000))
        without = [await _drained(system, session, pusher, range(JOBS)) for _ in range(ROUNDS)]
        await pusher.enqueue_many({"name": "noop", "argument": argument} for _ in range(BLOCKED))
        # Let the first claims put the blocked jobs aside before the measurement.
        await _drained(system, session, pusher, range(2_000))
        behind = [await _drained(system, session, pusher, range(JOBS)) for _ in range(ROUNDS)]
        return _compared(without, behind)


def _compared(without: list[Figures], under: list[Figures]) -> Figures:
    def median(runs: list[Figures], name: str) -> float:
        return statistics.median(run[name] for run in runs)

    return {
        "cpu_us_per_job": median(under, "cpu_us"),
        "cpu_us_per_job_without": median(without, "cpu_us"),
        "cpu_ratio": median(under, "cpu_us") / median(without, "cpu_us"),
        "store_us": median(under, "store_us"),
        "store_us_without": median(without, "store_us"),
        "jobs_per_s": median(under, "jobs_per_s"),
        "jobs_per_s_without": median(without, "jobs_per_s"),
    }


async def _drained(system: System, session: aiohttp.ClientSession, pusher: Pusher, numbers: range) -> Figures:
    left = await _unfinished(session, system)
    before, began = system.cpu_s(), time.monotonic()
    await pusher.enqueue_many(_jobs(numbers))
    # Count the unfinished jobs, because only a limited number of succeeded jobs is kept.
    while await _unfinished(session, system) > left:
        await asyncio.sleep(0.02)
    seconds, after = time.monotonic() - began, system.cpu_s()
    spent = {kind: (after[kind] - before[kind]) / len(numbers) * 1e6 for kind in after}
    return {"cpu_us": sum(spent.values()), "store_us": spent["store"], "jobs_per_s": len(numbers) / seconds}


def _jobs(numbers: range) -> Iterator[Document]:
    return ({"name": "noop", "argument": {"k": number, "x": PADDING}} for number in numbers)


async def _unfinished(session: aiohttp.ClientSession, system: System) -> int:
    counts = (await _get(session, f"{system.url}/api/jobs?limit=1&state=running"))["counts"]
    return sum(int(counts[state]) for state in ("scheduled", "ready", "retrying", "running"))


async def _get(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url) as response:
        response.raise_for_status()
        return await response.json()


async def _put(session: aiohttp.ClientSession, system: System, constraints: dict[str, Document]) -> None:
    for name, document in constraints.items():
        async with session.put(f"{system.url}/api/constraints/{name}", json=document) as response:
            assert response.status < 300, await response.text()


async def _delete(session: aiohttp.ClientSession, system: System, constraints: dict[str, Document]) -> None:
    for name in constraints:
        async with session.delete(f"{system.url}/api/constraints/{name}") as response:
            assert response.status < 300, await response.text()


@contextlib.asynccontextmanager
async def _system(workers: int = 1) -> AsyncIterator[tuple[System, aiohttp.ClientSession, Pusher]]:
    with running_system(workers=workers) as system:
        async with (
            aiohttp.ClientSession(headers={"Accept": "application/json"}) as session,
            Pusher(system.url, max_wait_s=60) as pusher,
        ):
            yield system, session, pusher
