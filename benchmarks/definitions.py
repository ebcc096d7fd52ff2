"""Measure definitions with a schedule: how late they fire, what they cost while they are not due, and how long a burst
takes."""

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import aiohttp

from benchmarks.load import System, running_system
from benchmarks.scenario import Figures, Scenario

CONNECTIONS: Final = 8
PAGE: Final = 500
MINUTE: Final = timedelta(minutes=1)
# How long to wait after the last measured instant for its run records.
SETTLE_S: Final = 3.0
# A jitter that spreads definitions over nearly a whole minute.
SPREAD_S: Final = 55
# The number of definitions to create in a second, which even a slow machine can reach.
PUT_PACE: Final = 150
BURST_WITHIN_S: Final = 60.0


async def lateness(*, definitions: int = 200, minutes: int = 1) -> Figures:
    """Measure definitions that are due each minute, spread over the minute by jitter. The figures are the times in ms
    from each instant to its run record. No worker runs."""
    with running_system(workers=0) as system:
        async with _session() as session:
            await _define(
                session, system, definitions, {"schedule": {"every_minutes": 1}, "jitter_s": SPREAD_S}
            )
            since = datetime.now(UTC)
            cpu = system.cpu_s()
            until = since + minutes * MINUTE
            await _sleep_until(until + timedelta(seconds=SETTLE_S))
            after = system.cpu_s()
            runs = [
                run
                for run in await _runs(session, system, minutes + 2)
                if since <= datetime.fromisoformat(run["due_at"]) < until
            ]
    assert len(runs) == definitions * minutes, f"{len(runs)} records of {definitions * minutes} instants"
    passed_s = minutes * MINUTE.total_seconds() + SETTLE_S
    split = {f"percent_{kind}": 100 * (after[kind] - cpu[kind]) / passed_s for kind in ("master", "store")}
    return _spread(runs) | split


async def burst(*, definitions: int = 5_000) -> Figures:
    """Measure definitions that are all due at the same time. No worker runs. The figures are the seconds until the last
    definition has fired, and how late the definitions fire, in ms."""
    with running_system(workers=0) as system:
        async with _session() as session:
            # Create all definitions before the time at which they are due.
            ready = datetime.now(UTC) + timedelta(seconds=definitions / PUT_PACE + SETTLE_S)
            at = ready.replace(second=0, microsecond=0) + MINUTE
            await _define(session, system, definitions, {"schedule": {"daily_at": f"{at:%H:%M}"}})
            assert datetime.now(UTC) < at, "the definitions were not made in time"
            await _sleep_until(at - timedelta(seconds=1))
            before = system.cpu_s()
            end_s = time.monotonic() + BURST_WITHIN_S
            while (waiting := system.unfinished()) < definitions and time.monotonic() < end_s:
                await asyncio.sleep(0.25)
            after = system.cpu_s()
            runs = await _runs(session, system, 1)
    assert waiting == len(runs) == definitions, (
        f"{len(runs)} records and {waiting} jobs of {definitions} instants"
    )
    split = {
        f"cpu_us_{kind}": (after[kind] - before[kind]) / definitions * 1e6 for kind in ("master", "store")
    }
    return {"seconds": max(map(_late_ms, runs)) / 1000} | _spread(runs) | split


async def idle(*, definitions: int = 10_000, seconds: float = 30) -> Figures:
    """Measure the CPU in percent of a core on one system: with definitions that are not due, and without
    definitions."""
    with running_system(workers=0) as system:
        without = await _percent(system, seconds)
        async with _session() as session:
            # The definitions are due at this time of day, which does not come during the run.
            at = datetime.now(UTC) + timedelta(hours=12)
            await _define(session, system, definitions, {"schedule": {"daily_at": f"{at:%H:%M}"}})
        await asyncio.sleep(min(SETTLE_S, seconds))
        with_them = await _percent(system, seconds)
        return {
            "percent": sum(with_them.values()) - sum(without.values()),
            "percent_without": sum(without.values()),
            **{f"percent_{kind}": with_them[kind] - without[kind] for kind in with_them},
        }


async def _percent(system: System, seconds: float) -> dict[str, float]:
    before, began = system.cpu_s(), time.perf_counter()
    await asyncio.sleep(seconds)
    after, passed = system.cpu_s(), time.perf_counter() - began
    return {kind: 100 * (after[kind] - before[kind]) / passed for kind in ("master", "store")}


# --- the definitions


async def _define(session: aiohttp.ClientSession, system: System, count: int, fields: dict[str, Any]) -> None:
    document = {"job": {"name": "noop"}, **fields}
    numbers = iter(range(count))

    async def put() -> None:
        for number in numbers:
            url = f"{system.url}/api/definitions/d{number}"
            async with session.put(url, json=document) as answer:
                answer.raise_for_status()

    await asyncio.gather(*(put() for _ in range(CONNECTIONS)))


async def _runs(session: aiohttp.ClientSession, system: System, newest: int) -> list[dict[str, Any]]:
    """Return the newest run records of each definition."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        url = f"{system.url}/api/definitions?limit={PAGE}&runs={newest}{cursor}"
        async with session.get(url) as answer:
            answer.raise_for_status()
            page = await answer.json()
        found += [run for one in page["definitions"] for run in one["runs"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def _late_ms(run: dict[str, Any]) -> float:
    late = datetime.fromisoformat(run["recorded_at"]) - datetime.fromisoformat(run["due_at"])
    return late.total_seconds() * 1000


def _spread(runs: list[dict[str, Any]]) -> Figures:
    late = sorted(map(_late_ms, runs))

    def at(share: float) -> float:
        return late[min(len(late) - 1, math.floor(share * len(late)))]

    return {"p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": late[-1]}


async def _sleep_until(at: datetime) -> None:
    await asyncio.sleep(max(0.0, (at - datetime.now(UTC)).total_seconds()))


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=60))


def _lateness(*, definitions: int = 200, minutes: int = 1) -> Figures:
    return asyncio.run(lateness(definitions=definitions, minutes=minutes))


def _burst(*, definitions: int = 5_000) -> Figures:
    return asyncio.run(burst(definitions=definitions))


def _idle(*, definitions: int = 10_000, seconds: float = 30) -> Figures:
    return asyncio.run(idle(definitions=definitions, seconds=seconds))


SCENARIOS: Final = [
    Scenario("definitions_lateness", _lateness, quick={"definitions": 20}, group="definitions"),
    Scenario("definitions_burst", _burst, quick={"definitions": 50}, group="definitions"),
    Scenario("definitions_idle", _idle, quick={"definitions": 50, "seconds": 1}, group="definitions"),
]
