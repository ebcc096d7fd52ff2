"""Measure logs of jobs: the CPU time that a line costs each process, and how long a job without lines takes
meanwhile."""

import time
from typing import Any, Final

import httpx

from benchmarks.load import System, running_system
from benchmarks.scenario import Figures, Scenario

# The ways to write lines; see `benchmarks.worker.lines`. The other ways are compared with the first.
WAYS: Final = ("silent", "null", "stream", "context", "loggers", "shown")
PROBE_EVERY_S: Final = 0.1
# How long to wait after the last job, until its collected lines have been sent and answered.
SETTLED_AFTER_S: Final = 1.0


def log_lines(
    *, rate: int = 10_000, seconds: float = 8.0, jobs: int = 10, ways: tuple[str, ...] = WAYS
) -> Figures:
    """Measure this many jobs that write `rate` lines a second in all. Run them once for each way, and once without
    lines. The figures are:

    * `WAY_worker`, `WAY_master`, `WAY_store`: the CPU time per line in µs, less the cost without lines.
    * `WAY_p50_ms`, `WAY_p99_ms`: the time that a job that does nothing takes at the same worker, from its push to the
      answer that it is over.
    """
    found: Figures = {}
    with running_system() as system:
        _measured(system, "context", rate, min(seconds, 2.0), jobs)
        silent = _measured(system, "silent", rate, seconds, jobs)
        for way in ways:
            figures = silent if way == "silent" else _measured(system, way, rate, seconds, jobs)
            for key, value in figures.items():
                if key.endswith("_ms"):
                    found[f"{way}_{key}"] = value
                elif way != "silent" and key != "took_s":
                    idle = silent[key] / silent["took_s"] * figures["took_s"]
                    found[f"{way}_{key}"] = (value - idle) / (rate * seconds) * 1e6
    return found


def _measured(system: System, way: str, rate: int, seconds: float, jobs: int) -> Figures:
    """Return the CPU seconds by process, the seconds that the jobs took, and the quantiles of the times of jobs that do
    nothing."""
    argument = {"way": way, "rate": rate / jobs, "seconds": seconds}
    before, began_s = system.cpu_s(), time.monotonic()
    body: dict[str, Any] = {"jobs": [{"name": "lines", "argument": argument}] * jobs}
    system.http.post(f"{system.url}/api/jobs/bulk", json=body).raise_for_status()
    waits = []
    while time.monotonic() < began_s + seconds:
        sent_s = time.monotonic()
        _until_over(system)
        waits.append(time.monotonic() - sent_s)
        time.sleep(max(0.0, PROBE_EVERY_S - waits[-1]))
    system.until_over()
    time.sleep(SETTLED_AFTER_S)
    after, took_s = system.cpu_s(), time.monotonic() - began_s
    waits.sort()
    return {kind: after[kind] - before[kind] for kind in ("worker", "master", "store")} | {
        "took_s": took_s,
        "p50_ms": waits[len(waits) // 2] * 1e3,
        "p99_ms": waits[min(len(waits) - 1, len(waits) * 99 // 100)] * 1e3,
    }


def _until_over(system: System) -> None:
    answer: httpx.Response = system.http.post(f"{system.url}/api/jobs", json={"name": "noop"})
    url = f"{system.url}/api/jobs/{answer.raise_for_status().json()['id']}/result?wait=10"
    while system.http.get(url).raise_for_status().status_code != httpx.codes.OK:
        pass


SCENARIOS: Final = [
    Scenario("log_lines", log_lines, quick={"rate": 1_000, "seconds": 0.5, "jobs": 2}, group="logs"),
]
