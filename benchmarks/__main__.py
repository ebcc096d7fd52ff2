"""`make bench`: run benchmarks. Prints a line of JSON for each measurement, and a table of medians at the end. `--only`
takes patterns such as `drain*` or `*everysec*`."""

import argparse
import asyncio
import datetime
import fnmatch
import functools
import inspect
import json
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from benchmarks import (
    challenges,
    constraints,
    definitions,
    fleet,
    gathered,
    instructions,
    logs,
    masters,
    microblog,
    overload,
    pull,
    shards,
    stores,
    suite,
    targets,
    unique,
)
from benchmarks.load import ROOT, loop_ns
from benchmarks.scenario import Figures, Params, Scenario, label


def _waited(measure: Callable[..., Awaitable[Figures]]) -> Callable[..., Figures]:
    # functools.wraps keeps the signature, from which the command line takes the names of the parameters.
    @functools.wraps(measure)
    def run(**params: Any) -> Figures:
        async def measured() -> Figures:
            return await measure(**params)

        return asyncio.run(measured())

    return run


# The values of these parameters in a quick run. A benchmark without such a parameter is not shortened.
QUICK: dict[str, Any] = {"jobs": 500, "keys": 500, "rounds": 1}
# Benchmarks that repeat their measurements themselves, because each of them compares two things within one run.
COMPARISONS: dict[str, dict[str, Callable[..., Awaitable[Figures]]]] = {
    "constraints": {
        "five_constraints": constraints.five_constraints,
        "distinct_keys": constraints.distinct_keys,
        "weighted": constraints.weighted,
        "weighted_keys": constraints.weighted_keys,
        "blocked_in_front": constraints.blocked_in_front,
        "blocked_keys_in_front": constraints.blocked_keys_in_front,
        "change_under_load": constraints.change_under_load,
        "change_by_name": constraints.change_by_name,
        "key_memory": constraints.key_memory,
    },
    "size": {
        "heartbeats_500": fleet.heartbeats_500,
        "million_waiting": fleet.million_waiting,
        "long_jobs": fleet.long_jobs,
        "pull_idle": pull.idle,
    },
    "change": {"takeover": masters.takeover},
}
SCENARIOS: list[Scenario] = [
    *suite.SCENARIOS,
    *(
        Scenario(
            name,
            _waited(measure),
            quick={key: QUICK[key] for key in QUICK.keys() & inspect.signature(measure).parameters.keys()},
            group=group,
        )
        for group, of_group in COMPARISONS.items()
        for name, measure in of_group.items()
    ),
    *overload.SCENARIOS,
    *microblog.SCENARIOS,
    *definitions.SCENARIOS,
    *shards.SCENARIOS,
    *instructions.SCENARIOS,
    *stores.SCENARIOS,
    *challenges.SCENARIOS,
    *targets.SCENARIOS,
    *gathered.SCENARIOS,
    *logs.SCENARIOS,
    *unique.SCENARIOS,
]
GROUPS = sorted({scenario.group for scenario in SCENARIOS})


def chosen(patterns: list[str], groups: list[str], *, is_quick: bool) -> list[tuple[Scenario, Params]]:
    """Return the cases to run, in their order. A pattern with `*` and `?` is matched against `name` and
    `name[key=value,…]`. Without patterns, return all cases of these groups."""
    # Escape brackets, because they are part of the names.
    patterns = [pattern.replace("[", "[[]") for pattern in patterns]
    found = []
    for scenario in SCENARIOS:
        for params in scenario.cases(is_quick=is_quick):
            names = (scenario.name, label(scenario.name, params))
            if (
                any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)
                if patterns
                else scenario.group in groups
            ):
                found.append((scenario, params))
    return found


def defaults_of(scenario: Scenario) -> dict[str, Any]:
    """Return the default values of the parameters of a benchmark."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(scenario.run).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }


def commit() -> str:
    """Return the commit of the working tree, followed by `+` if the tree has changes."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", action="append", default=[], help="may be repeated")
    parser.add_argument(
        "--group",
        choices=GROUPS,
        action="append",
        help="without --only: the groups to run; the default is `speed`",
    )
    parser.add_argument("--rounds", type=int, default=1, help="number of rounds; each round runs all cases")
    parser.add_argument(
        "--quick", action="store_true", help="small numbers: only shows that the benchmarks work"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="append the records to this file")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="a parameter of all chosen cases"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases, and run none")
    options = parser.parse_args()
    cases = chosen(options.only, options.group or ["speed"], is_quick=options.quick)
    if not cases:
        parser.error("no case has such a name")
    if options.list:
        for scenario, params in cases:
            print(label(scenario.name, params))
        return
    changed = {name: json.loads(value) for name, _, value in (one.partition("=") for one in options.set)}
    runs: dict[str, list[Figures]] = {}
    state = commit()
    with options.out.open("a") if options.out else open(sys.stdout.fileno(), "w", closefd=False) as out:
        for round_number in range(1, options.rounds + 1):
            for scenario, params in cases:
                given = {
                    **params,
                    **{name: value for name, value in changed.items() if name in defaults_of(scenario)},
                }
                name = label(scenario.name, given)
                print(f"round {round_number}: {name}", file=sys.stderr, flush=True)
                loop = loop_ns()
                figures = scenario.run(**given)
                runs.setdefault(name, []).append(figures)
                write_record(out, scenario.name, given, round_number, state, loop, figures)
    _table(runs, options.rounds)


def write_record(
    out: TextIO, name: str, params: Params, round_number: int, state: str, loop: float, figures: Figures
) -> None:
    """Write one record as a line of JSON."""
    record = {
        "scenario": name,
        "params": dict(sorted(params.items())),
        "round": round_number,
        "commit": state,
        "at": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "loop_ns": round(loop, 1),
        "figures": {key: round(value, 3) for key, value in figures.items()},
    }
    print(json.dumps(record), file=out, flush=True)


def _table(runs: dict[str, list[Figures]], rounds: int) -> None:
    table = Table(title=f"median of {rounds} round(s)")
    table.add_column("case")
    table.add_column("figures")
    for name, of_case in runs.items():
        medians = {key: statistics.median(run[key] for run in of_case) for key in of_case[0]}
        table.add_row(name, "  ".join(f"{key} {value:.4g}" for key, value in medians.items()))
    Console(stderr=True, width=160).print(table)


if __name__ == "__main__":
    main()
