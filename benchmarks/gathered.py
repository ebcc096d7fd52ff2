"""Compare what gathered jobs and single jobs cost the worker and the store. Both run in turns on one system."""

import statistics
from collections import defaultdict
from typing import Any, Final

from benchmarks.load import System, running_system
from benchmarks.scenario import Figures, Meter, Scenario

PAGE: Final = 1_000
# Tasks in benchmarks/tasks.py. All of them take the same argument.
KINDS: Final = ("single_async", "single_def", "gathered_async", "gathered_def")


def gathered(*, jobs: int = 10_000, slots: int = 500, rounds: int = 5) -> Figures:
    """Measure the time in which a worker runs waiting jobs, up to the end of the last job. The figures include claims,
    calls and ends. They do not include pushes."""
    found: dict[str, list[float]] = defaultdict(list)
    with running_system(max_jobs=slots) as system:
        [worker] = system.get("/api/workers")["workers"]
        for kind in KINDS:
            _run(system, worker["id"], kind, min(jobs, 2 * slots))
        for _ in range(rounds):
            for kind in KINDS:
                figures = _run(system, worker["id"], kind, jobs)
                for of in ("worker", "store", "master"):
                    found[f"{of}_us_{kind}"].append(figures[f"cpu_us_{of}"])
                found[f"commands_{kind}"].append(figures["store_commands"])
    medians = {name: statistics.median(values) for name, values in found.items()}
    ratios = {
        f"{of}_ratio_{way}": medians[f"{of}_us_gathered_{way}"] / medians[f"{of}_us_single_{way}"]
        for of in ("worker", "store")
        for way in ("async", "def")
    }
    return medians | ratios


def _run(system: System, worker_id: str, name: str, jobs: int) -> Figures:
    _post(system, f"/api/workers/{worker_id}/drain")
    for start in range(0, jobs, PAGE):
        page = [
            {"name": name, "argument": {"rows": {"id": number, "text": "x" * 80}}}
            for number in range(start, min(start + PAGE, jobs))
        ]
        _post(system, "/api/jobs/bulk", {"jobs": page})
    meter = Meter(system)
    with meter.running():
        _post(system, f"/api/workers/{worker_id}/resume")
        system.until_over()
    return meter.figures(jobs)


def _post(system: System, path: str, body: Any = None) -> None:
    system.http.post(system.url + path, json=body).raise_for_status()


SCENARIOS: Final = [Scenario("gathered", gathered, quick={"jobs": 500, "rounds": 1}, group="gathered")]
