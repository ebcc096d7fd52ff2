"""Measure the cost of a uniqueness key. Jobs with and without keys are pushed in turns to the same system."""

import statistics
from typing import Final

from benchmarks.load import running_system
from benchmarks.scenario import Figures, Meter, Scenario

PARTS: Final = ("master", "store")


def enqueue_unique(*, jobs: int = 5_000, rounds: int = 5, batch: int = 1, connections: int = 16) -> Figures:
    """Push jobs with different keys, and as many jobs without keys. Measure the CPU time of both, and by how many
    percent the jobs with keys take more. `batch`: the number of jobs in one POST. No worker runs."""
    with running_system(workers=0) as system:
        spent: dict[bool, list[Figures]] = {False: [], True: []}
        for number in range(rounds + 1):
            for is_unique, of_kind in spent.items():
                meter = Meter(system)
                with meter.running():
                    told = system.push(
                        "single",
                        count=jobs // batch,
                        connections=connections,
                        argument_bytes=100,
                        batch=batch,
                        is_unique=is_unique,
                    )
                if number:  # the first round only warms up
                    of_kind.append(meter.figures(jobs // batch * batch, seconds=told["seconds"]))
    with_key, without = (
        {name: statistics.median(one[name] for one in spent[kind]) for name in spent[kind][0]}
        for kind in (True, False)
    )
    cpu_us = {kind: sum(of[f"cpu_us_{part}"] for part in PARTS) for kind, of in ((1, with_key), (0, without))}
    return {
        "percent": 100 * (cpu_us[1] / cpu_us[0] - 1),
        **{f"cpu_us_{part}": with_key[f"cpu_us_{part}"] for part in PARTS},
        **{f"cpu_us_{part}_without": without[f"cpu_us_{part}"] for part in PARTS},
        "jobs_per_s": with_key["jobs_per_s"],
        "jobs_per_s_without": without["jobs_per_s"],
    }


SCENARIOS: Final = [
    Scenario(
        "enqueue_unique",
        enqueue_unique,
        [{}, {"batch": 100, "jobs": 20_000, "connections": 4}],
        quick={"jobs": 400, "rounds": 1},
        group="definitions",
    )
]
