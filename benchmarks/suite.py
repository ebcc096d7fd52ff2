"""Measure the main figures of docs/performance.md, such as end to end, drain, enqueue, latency and idle."""

import time
from typing import Any, Final

import httpx

from benchmarks.load import System, loop_ns, running_system
from benchmarks.scenario import Figures, Meter, Scenario, waits

JOBS: Final = 20_000
WARM_UP: Final = 2_000
# Limits that apply to every job and hold no job back, as in `benchmarks.constraints`.
ALL: Final = {"field": "name", "op": "eq", "value": "noop"}
NO_LIMIT: Final[dict[str, dict[str, Any]]] = {
    "by-name": {"matcher": ALL, "concurrency": 1_000_000},
    "by-argument": {"matcher": {"field": "argument.k", "op": "ge", "value": 0}, "concurrency": 1_000_000},
    "rate": {"matcher": ALL, "rate": {"limit": 100_000, "period_s": 1}},
}


def machine() -> Figures:
    """Measure the present speed of this machine, for comparison: the speed of a shared machine varies by half."""
    return {"loop_ns": loop_ns()}


def end_to_end(
    *,
    jobs: int = JOBS,
    appendfsync: str = "always",
    argument_bytes: int = 100,
    workers: int = 1,
    masters: int = 1,
    processes: int = 1,
    constraints: int = 0,
    pull: bool = False,
    batch: bool = False,
) -> Figures:
    """Measure no-op jobs from the first push to the last end. The jobs are enqueued in bulk while workers with 200
    slots in all run them. `batch`: whether the jobs are members of one batch, which must be complete at the end."""
    with running_system(
        workers=workers,
        max_jobs=max(1, 200 // workers),
        pull=pull,
        masters=masters,
        processes=processes,
        appendfsync=appendfsync,
    ) as system:
        _limit(system, constraints)
        options: dict[str, Any] = {"argument_bytes": argument_bytes, "keys": 1000 if constraints else 0}
        system.push("bulk", count=min(WARM_UP, jobs), **options)
        system.until_over()
        made = httpx.post(f"{system.url}/api/batches", json={}).json()["id"] if batch else ""
        meter = Meter(system)
        with meter.running():
            told = system.push("bulk", count=jobs, pushers=max(1, masters), batch=made, **options)
            system.until_over()
        if batch:
            sealed = httpx.post(f"{system.url}/api/batches/{made}/seal").raise_for_status().json()
            assert (sealed["state"], sealed["counts"]["succeeded"]) == ("complete", jobs), sealed
        return meter.figures(jobs, since_s=told["began_s"])


def end_to_end_tasks(*, jobs: int = JOBS, appendfsync: str = "always", typed: bool = True) -> Figures:
    """Measure as `end_to_end` does, with a map as the argument. `typed`: whether a task runs the jobs. If not, a plain
    handler runs them."""
    with running_system(appendfsync=appendfsync) as system:
        options: dict[str, Any] = {
            "argument_bytes": 100,
            "keys": 1000,
            "name": "noop_task" if typed else "noop",
        }
        system.push("bulk", count=min(WARM_UP, jobs), **options)
        system.until_over()
        meter = Meter(system)
        with meter.running():
            told = system.push("bulk", count=jobs, **options)
            system.until_over()
        return meter.figures(jobs, since_s=told["began_s"])


def end_to_end_single(
    *, jobs: int = JOBS, connections: int = 32, appendfsync: str = "always", processes: int = 1
) -> Figures:
    """Measure as `end_to_end` does, but push the jobs by single POSTs."""
    with running_system(appendfsync=appendfsync, processes=processes) as system:
        system.push("single", count=min(WARM_UP, jobs), connections=connections, argument_bytes=100)
        system.until_over()
        meter = Meter(system)
        with meter.running():
            told = system.push("single", count=jobs, connections=connections, argument_bytes=100)
            system.until_over()
        return meter.figures(jobs, since_s=told["began_s"]) | waits(told)


def drain(*, jobs: int = JOBS, appendfsync: str = "always", workers: int = 1, backlog: int = 0) -> Figures:
    """Measure what it costs workers, master and store to work off waiting jobs until `backlog` jobs are left. Pushes
    are not included."""
    with running_system(workers=0, max_jobs=max(1, 200 // workers), appendfsync=appendfsync) as system:
        total = jobs + WARM_UP + backlog
        system.push("bulk", count=total, argument_bytes=100)
        for _ in range(workers):
            system.start_worker()
        system.until_over(total - WARM_UP // 2)
        waiting = system.unfinished()
        meter = Meter(system)
        with meter.running():
            system.until_over(backlog)
            left = system.unfinished()
        # The workers continue with the backlog, so they may have run more than `jobs` jobs. Count the jobs that they
        # have run.
        return meter.figures(waiting - left)


def enqueue_single(
    *,
    jobs: int = 10_000,
    connections: int = 32,
    appendfsync: str = "always",
    argument_bytes: int = 100,
    processes: int = 1,
    masters: int = 1,
    sdk: bool = False,
) -> Figures:
    """Push one job per POST, without a worker."""
    with running_system(workers=0, appendfsync=appendfsync, processes=processes, masters=masters) as system:
        options: dict[str, Any] = {"connections": connections, "argument_bytes": argument_bytes}
        kind = "single_by_sdk" if sdk else "single"
        system.push(kind, count=min(1_000, jobs), **options)
        memory = system.store_memory()
        meter = Meter(system)
        with meter.running():
            told = system.push(kind, count=jobs, **options)
        figures = meter.figures(jobs, seconds=told["seconds"]) | waits(told)
        return figures | {"store_bytes": (system.store_memory() - memory) / jobs}


def send_events(
    *,
    jobs: int = 50_000,
    appendfsync: str = "always",
    definitions: int = 50,
    batch: int = 100,
    connections: int = 4,
    rate: float = 0.0,
) -> Figures:
    """Send events with different keys, `batch` in one POST, while there are this many definitions. Each event starts
    the job of one definition. The definition also compares one part of the payload, and makes the argument from another
    part. No worker runs."""
    with running_system(workers=0, appendfsync=appendfsync) as system:
        for n in range(definitions):
            _define(system, n)
        options: dict[str, Any] = {
            "connections": connections,
            "argument_bytes": 100,
            "types": definitions,
            "batch": batch,
        }
        system.push("events", count=min(WARM_UP, jobs), **options)
        waiting, memory = system.unfinished(), system.store_memory()
        meter = Meter(system)
        with meter.running():
            told = system.push("events", count=jobs, rate=rate, **options)
        assert system.unfinished() - waiting == jobs
        figures = meter.figures(jobs, seconds=told["seconds"]) | waits(told)
        return figures | {"store_bytes": (system.store_memory() - memory) / jobs}


def enqueue_bulk(
    *, jobs: int = 100_000, appendfsync: str = "always", argument_bytes: int = 100, backlog: int = 0
) -> Figures:
    """Push with the SDK, in bulks of 1,000, without a worker."""
    with running_system(workers=0, appendfsync=appendfsync) as system:
        system.push("bulk", count=max(backlog, WARM_UP), argument_bytes=100)
        memory, resident = system.store_memory(), system.store.memory_info().rss
        meter = Meter(system)
        with meter.running():
            told = system.push("bulk", count=jobs, argument_bytes=argument_bytes)
        return meter.figures(jobs, seconds=told["seconds"]) | {
            "store_bytes": (system.store_memory() - memory) / jobs,
            "store_rss_bytes": (system.store.memory_info().rss - resident) / jobs,
        }


def latency(
    *, rate: int = 100, seconds: float = 10, appendfsync: str = "always", pull: bool = False
) -> Figures:
    """Measure the time from the push to the start of the handler, at a steady rate."""
    with running_system(appendfsync=appendfsync, pull=pull) as system:
        told = system.push(
            "latency", rate=rate, count=max(20, int(rate * seconds)), waits_file=str(system.waits_file)
        )
        return waits(told)


def delayed(*, rate: int = 100, seconds: float = 10, delay_s: float = 2.0) -> Figures:
    """Measure how long after its planned time a delayed job starts. The time of the push is included."""
    with running_system() as system:
        count = max(20, int(rate * seconds))
        told = system.push(
            "latency", rate=rate, count=count, delay_s=delay_s, waits_file=str(system.waits_file)
        )
        return waits(told)


def idle(*, seconds: float = 30, workers: int = 1, processes: int = 1) -> Figures:
    """Measure the CPU, in percent of a core, while there is nothing to do. Measure once without and once with an open
    stream of the web UI."""
    with running_system(workers=workers, processes=processes) as system:
        time.sleep(min(3.0, seconds))
        before, began = system.cpu_s(), time.perf_counter()
        time.sleep(seconds)
        after, passed = system.cpu_s(), time.perf_counter() - began
        kinds = ("master", "worker", "store")
        split = {f"percent_{kind}": 100 * (after[kind] - before[kind]) / passed for kind in kinds}
        return {"percent": sum(split.values()), **split}


def napping(*, jobs: int = 20_000, slots: int = 500) -> Figures:
    """Measure handlers that wait for 50 ms each, in 500 slots of one worker. A slot can run at most 20 jobs a
    second."""
    with running_system(max_jobs=slots) as system:
        system.push("bulk", count=slots, argument_bytes=100, name="nap50")
        system.until_over()
        meter = Meter(system)
        with meter.running():
            told = system.push("bulk", count=jobs, argument_bytes=100, name="nap50")
            system.until_over()
        figures = meter.figures(jobs, since_s=told["began_s"])
        return figures | {"share_of_most": figures["jobs_per_s"] / (slots * 20)}


def _define(system: System, number: int) -> None:
    document = {
        "kind": "event",
        "event_type": f"type.{number}",
        "matcher": {"field": "payload.n", "op": "ge", "value": 1},
        "argument": {"from": "payload.x"},
        "job": {"name": "noop"},
    }
    url = f"{system.url}/api/definitions/d{number}"
    httpx.put(url, json=document, trust_env=False).raise_for_status()


def _limit(system: System, count: int) -> None:
    for name, document in list(NO_LIMIT.items())[:count]:
        httpx.put(f"{system.url}/api/constraints/{name}", json=document, trust_env=False).raise_for_status()


BOTH: Final = ("always", "everysec")
SCENARIOS: Final = [
    Scenario("machine", machine),
    Scenario(
        "end_to_end",
        end_to_end,
        [
            *({"appendfsync": one} for one in BOTH),
            {"appendfsync": "always", "workers": 10},
            {"appendfsync": "always", "workers": 100},
            {"appendfsync": "always", "masters": 2},
            {"appendfsync": "always", "processes": 2},
            {"appendfsync": "always", "argument_bytes": 10_000},
            {"appendfsync": "always", "argument_bytes": 200_000, "jobs": 1_000},
            {"appendfsync": "always", "constraints": 3},
            {"appendfsync": "always", "pull": True},
            {"appendfsync": "always", "jobs": 100_000, "batch": False},
            {"appendfsync": "always", "jobs": 100_000, "batch": True},
        ],
        quick={"jobs": 500},
    ),
    Scenario(
        "end_to_end_tasks",
        end_to_end_tasks,
        [{"appendfsync": "everysec", "typed": one} for one in (False, True)],
        quick={"jobs": 500},
    ),
    Scenario(
        "end_to_end_single",
        end_to_end_single,
        [{"appendfsync": one} for one in BOTH],
        quick={"jobs": 300},
    ),
    Scenario(
        "drain",
        drain,
        [*({"appendfsync": one} for one in BOTH), {"appendfsync": "always", "workers": 10}],
        quick={"jobs": 3_000},
    ),
    Scenario(
        "drain",
        drain,
        [
            {"appendfsync": "always", "jobs": 80_000},
            {"backlog": 100_000, "jobs": 80_000},
            {"backlog": 1_000_000, "jobs": 80_000},
            # Drain only the oldest jobs. These are no longer in the caches of the machine or of the store's allocator.
            {"backlog": 1_000_000},
        ],
        {"jobs": 3_000, "backlog": 5_000},
        "size",
    ),
    Scenario(
        "enqueue_single",
        enqueue_single,
        [
            *({"connections": n, "appendfsync": one} for n in (1, 32, 256) for one in BOTH),
            {"connections": 32, "appendfsync": "always", "processes": 2},
            {"connections": 32, "appendfsync": "always", "masters": 2},
            {"connections": 32, "appendfsync": "always", "argument_bytes": 10_000},
            {"connections": 32, "appendfsync": "always", "argument_bytes": 200_000, "jobs": 1_000},
            {"connections": 32, "appendfsync": "always", "sdk": True},
        ],
        quick={"jobs": 300},
    ),
    Scenario(
        "enqueue_bulk",
        enqueue_bulk,
        [
            *({"appendfsync": one} for one in BOTH),
            {"appendfsync": "always", "argument_bytes": 10_000, "jobs": 10_000},
        ],
        quick={"jobs": 2_000},
    ),
    Scenario(
        "enqueue_bulk",
        enqueue_bulk,
        [
            {"appendfsync": "always", "jobs": 200_000},
            {"backlog": 100_000, "jobs": 200_000},
            {"backlog": 1_000_000, "jobs": 200_000},
        ],
        {"jobs": 2_000, "backlog": 5_000},
        "size",
    ),
    Scenario(
        "send_events",
        send_events,
        [
            *({"appendfsync": one} for one in BOTH),
            {"appendfsync": "always", "batch": 1, "connections": 32, "jobs": 10_000},
            {"appendfsync": "always", "rate": 5_000},
        ],
        quick={"jobs": 1_000, "rate": 0.0},
    ),
    Scenario(
        "latency",
        latency,
        [
            *({"rate": rate, "appendfsync": one} for rate in (10, 100, 1_000) for one in BOTH),
            {"rate": 100, "appendfsync": "always", "pull": True},
        ],
        quick={"seconds": 1},
    ),
    Scenario("delayed", delayed, [{}], quick={"seconds": 1, "delay_s": 0.5}),
    Scenario("idle", idle, [{}, {"processes": 2}], quick={"seconds": 1}),
    Scenario("napping", napping, [{}], quick={"jobs": 1_000}),
]  # fmt: skip
