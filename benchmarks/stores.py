"""Measure namespaces on several stores: how the stores share the work, and how a fault of one store affects the
others."""

import asyncio
import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import psutil
import redis

from benchmarks.load import System, cpu_s, running_system
from benchmarks.scenario import Figures, Scenario
from tests.chaos.proxy import RawLink, Weather
from tests.support.server import StoreServer, started

NAMESPACES: Final = ("one", "two", "three")
# The namespaces in `isolation`. Each has its own store.
APART: Final = (*NAMESPACES, "four", "five")
# The names of the stores other than the default store.
OTHERS: Final = ("b", "c", "d", "e")
UP_WITHIN_S: Final = 60.0
OVER_WITHIN_S: Final = 600.0
CALL_WITHIN_S: Final = 10.0
SLOW_S: Final = 0.5
# Time until a fault, or the end of a fault, has its full effect. This time is not measured.
SETTLE_S: Final = 3.0


@dataclass(frozen=True)
class Stores:
    """A system with namespaces on several stores. `others`: the stores other than the default store. `link`: a proxy in
    front of the first of `others`, if there is one."""

    system: System
    others: list[StoreServer]
    link: RawLink | None
    namespaces: Sequence[str]

    def url(self, namespace: str) -> str:
        return f"{self.system.url}/ns/{namespace}"

    def cpu_s(self) -> list[float]:
        """Return the CPU seconds of each store so far."""
        processes = [psutil.Process(one.process.pid) for one in self.others if one.process]
        return [cpu_s(self.system.store), *map(cpu_s, processes)]

    def get(self, namespace: str, path: str) -> Any:
        answer = self.system.http.get(self.url(namespace) + path, headers={"Accept": "application/json"})
        return answer.raise_for_status().json()

    def until_over(self) -> None:
        """Wait until no job of any namespace waits or runs."""
        end_s = time.monotonic() + OVER_WITHIN_S
        for namespace in self.namespaces:
            while any(self._counts(namespace)) and time.monotonic() < end_s:
                time.sleep(0.1)

    def _counts(self, namespace: str) -> list[int]:
        counts = self.get(namespace, "/api/jobs?limit=1&state=running")["counts"]
        return [counts[state] for state in ("scheduled", "ready", "retrying", "running")]


@contextlib.contextmanager
def several(
    count: int, namespaces: Sequence[str] = NAMESPACES, *, is_linked: bool = False, **options: Any
) -> Iterator[Stores]:
    """Run a system with this many stores, and spread the namespaces over them."""
    with contextlib.ExitStack() as stack:
        others = [StoreServer() for _ in range(count - 1)]
        for one in others:
            stack.enter_context(started(one))
        link = stack.enter_context(_linked(others[0])) if is_linked else None
        urls = [one.url for one in others]
        if link:
            urls[0] = f"redis://127.0.0.1:{link.port}"
        stores = {name: {"redis_url": url} for name, url in zip(OTHERS, urls, strict=False)}
        told: dict[str, Any] = {"stores": json.dumps(stores)} if stores else {}
        system = stack.enter_context(running_system(workers=0, **told, **options))
        found = Stores(system, others, link, namespaces)
        for number, namespace in enumerate(namespaces):
            store = ("default", *stores)[number % count]
            system.http.put(
                f"{system.url}/api/namespaces/{namespace}", json={"store": store}
            ).raise_for_status()
        _until(lambda: all(found.get(one, "/readyz")["leader"] for one in namespaces))
        yield found


@contextlib.contextmanager
def _linked(store: StoreServer) -> Iterator[RawLink]:
    """Run a proxy in front of the store, in a separate thread."""
    link, loop = RawLink("master>store", str(store.socket), seed=1), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="link", daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(link.start(), loop).result()
    try:
        yield link
    finally:
        asyncio.run_coroutine_threadsafe(link.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# --- how the stores share the work


def sharing(*, stores: int = 1, count: int = 5_000) -> Figures:
    """Push `count` jobs in bulk to each of three namespaces, and run them. `busiest_percent`: the share of the busiest
    store in the CPU time of all stores."""
    with several(stores) as found:
        system = found.system
        for namespace in NAMESPACES:
            system.workers.append(
                system.spawn("worker", "benchmarks.worker:worker", "--master", found.url(namespace))
            )
        _until(lambda: all(found.get(one, "/api/workers")["workers"] for one in NAMESPACES))
        before, masters_s, began_s = found.cpu_s(), system.cpu_s()["master"], time.perf_counter()
        pushing = [
            system.start_push("bulk", urls=[found.url(one)], count=count, argument_bytes=100)
            for one in NAMESPACES
        ]
        for one in pushing:
            system.end_push(one)
        found.until_over()
        seconds = time.perf_counter() - began_s
        spent = [after - was for after, was in zip(found.cpu_s(), before, strict=True)]
        jobs = count * len(NAMESPACES)
        return {
            "store_us": 1e6 * sum(spent) / jobs,
            "busiest_us": 1e6 * max(spent) / jobs,
            "busiest_percent": 100 * max(spent) / sum(spent),
            "master_us": 1e6 * (system.cpu_s()["master"] - masters_s) / jobs,
            "jobs_per_s": jobs / seconds,
        }


# --- how a fault of one store affects the others


@dataclass
class Pusher:
    """Pushes single jobs to a namespace at a steady rate, however late the answers come. `waits_ms`: how long each
    answer took. `refused`: the number of answers with 503 and of calls without an answer."""

    url: str
    rate: float
    waits_ms: list[float] = field(default_factory=list)
    refused: int = 0

    async def run(self, http: httpx.AsyncClient, seconds: float) -> None:
        end_s, next_s = time.monotonic() + seconds, time.monotonic()
        async with asyncio.TaskGroup() as group:
            while next_s < end_s:
                await asyncio.sleep(max(0.0, next_s - time.monotonic()))
                next_s += 1 / self.rate
                group.create_task(self._push(http))

    async def _push(self, http: httpx.AsyncClient) -> None:
        began_s = time.perf_counter()
        try:
            answer = await http.post(f"{self.url}/api/jobs", json={"name": "nobody", "argument": "x" * 100})
            self.refused += answer.status_code == 503
        except httpx.HTTPError:
            self.refused += 1
        self.waits_ms.append(1000 * (time.perf_counter() - began_s))


def isolation(*, fault: str = "hung", seconds: float = 6, rate: float = 10, rounds: int = 4) -> Figures:
    """Push at a steady rate to five namespaces on five stores. One of the stores fails again and again. The figures
    describe the four other namespaces, with and without the fault. Phases with and without the fault take turns, so
    that the load of the machine affects both alike. The fault `none` shows how much the figures differ by chance."""
    with several(len(APART), APART, is_linked=fault == "slow") as found:
        begin, end = _fault(fault, found)
        without, during = asyncio.run(_compare(found, begin, end, seconds=seconds, rate=rate, rounds=rounds))
        before, then = without.waits_ms(), during.waits_ms()
        failing = during.failing
        return {
            "p50_before_ms": _at(before, 0.5),
            "p50_during_ms": _at(then, 0.5),
            "p99_before_ms": _at(before, 0.99),
            "p99_during_ms": _at(then, 0.99),
            "p99_ratio": _at(then, 0.99) / _at(before, 0.99),
            "master_before_percent": 100 * without.master_s / without.took_s,
            "master_during_percent": 100 * during.master_s / during.took_s,
            "refused_others": sum(one.refused for one in during.others),
            "refused_failing_percent": 100
            * sum(one.refused for one in failing)
            / max(1, sum(len(one.waits_ms) for one in failing)),
        }


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass
class Pushed:
    """The pushers of all phases without the fault, or of all phases with it.

    * `failing`: the pushers of the namespace on the failing store.
    * `master_s`: the CPU seconds of the master.
    * `took_s`: the time until the last push was answered. It is up to `CALL_WITHIN_S` longer if a store hangs.
    """

    others: list[Pusher] = field(default_factory=list)
    failing: list[Pusher] = field(default_factory=list)
    master_s: float = 0.0
    took_s: float = 0.0

    def waits_ms(self) -> list[float]:
        return sorted(wait for one in self.others for wait in one.waits_ms)


async def _compare(
    found: Stores,
    begin: Callable[[], object],
    end: Callable[[], object],
    *,
    seconds: float,
    rate: float,
    rounds: int,
) -> tuple[Pushed, Pushed]:
    without, during = Pushed(), Pushed()
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(trust_env=False, timeout=CALL_WITHIN_S, limits=limits) as http:

        async def push(seconds: float, into: Pushed) -> None:
            pushers = [Pusher(found.url(namespace), rate) for namespace in found.namespaces]
            before_s, began_s = found.system.cpu_s()["master"], time.monotonic()
            await asyncio.gather(*(one.run(http, seconds) for one in pushers))
            into.master_s += found.system.cpu_s()["master"] - before_s
            into.took_s += time.monotonic() - began_s
            one, failing, *others = pushers
            into.failing.append(failing)
            into.others += [one, *others]

        for _ in range(rounds):
            await push(SETTLE_S, Pushed())
            await push(seconds, without)
            await asyncio.to_thread(begin)
            await push(SETTLE_S, Pushed())
            await push(seconds, during)
            await asyncio.to_thread(end)
    return without, during


def _fault(kind: str, found: Stores) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return two functions. The first begins a fault of the first store in `others`. The second ends the fault."""
    store, link = found.others[0], found.link
    match kind:
        case "none":
            return lambda: None, lambda: None
        case "hung":
            return lambda: store.signal(signal.SIGSTOP), lambda: store.signal(signal.SIGCONT)
        case "killed":
            return store.kill, store.start
        case "full":
            return lambda: _limit(store, 1), lambda: _limit(store, 0)
        case "slow":
            assert link
            return lambda: link.change(Weather(delay_answers=1.0, delay_s=SLOW_S)), link.clear
    raise ValueError(f"not a fault: {kind}")


def _limit(store: StoreServer, size: int) -> None:
    with contextlib.closing(redis.Redis.from_url(store.admin_url)) as client:
        client.config_set("maxmemory", size)


def _until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < end_s:
        with contextlib.suppress(httpx.HTTPError):
            if is_so():
                return
        time.sleep(0.05)
    raise SystemExit("the namespaces are not served")


SCENARIOS: Final = [
    Scenario(
        "stores",
        sharing,
        [{"stores": count} for count in (1, 2, 3)],
        quick={"count": 100},
        group="shards",
    ),
    Scenario(
        "store_fault",
        isolation,
        [{"fault": kind} for kind in ("none", "hung", "killed", "full", "slow")],
        quick={"seconds": 2, "rate": 5, "rounds": 1},
        group="shards",
    ),
]
