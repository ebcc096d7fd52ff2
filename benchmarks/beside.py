"""Compare this tree with another one: `python -m benchmarks.beside PATH`, where PATH is a checkout with its `.venv`.

Systems of both run at the same time and take turns, for a tenth of a second each. So a machine whose speed changes by
half within seconds slows both down alike, and the medians of some fifty pairs tell a few per cent.
"""

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
# The jobs of one turn.
TURNS: Final = {"single": 500, "bulk": 2_000, "drain": 2_000, "lone": 20}
PROCESSES: Final = ("pusher", "master", "worker", "store")
WARM_UP: Final = 3
Turn = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.beside", description=__doc__)
    parser.add_argument("other", type=Path, metavar="PATH")
    parser.add_argument("--pairs", type=int, default=60, help="pairs of turns of each kind")
    parser.add_argument("--kind", action="append", choices=list(TURNS), help="may be repeated; default: all")
    options = parser.parse_args()
    kinds = options.kind or list(TURNS)
    turns: dict[str, list[tuple[Turn, Turn]]] = {kind: [] for kind in kinds}
    with _systems(options.other.resolve()) as other, _systems(ROOT) as own:
        for kind in kinds:
            for _ in range(WARM_UP):
                other(kind), own(kind)
        for pair in range(options.pairs):
            for kind in kinds:
                # Neither tree is always the second one.
                if pair % 2:
                    mine = own(kind)
                    turns[kind].append((other(kind), mine))
                else:
                    theirs = other(kind)
                    turns[kind].append((theirs, own(kind)))
    for kind, pairs in turns.items():
        for name in (*PROCESSES, "all", "wall"):
            if any(theirs[name] for theirs, _ in pairs):
                print(json.dumps({"kind": kind, "process": name, **_figures(name, pairs)}))


def _figures(name: str, pairs: list[tuple[Turn, Turn]]) -> Turn:
    """Return the medians in µs a job, and the median and quartiles of the ratios within the pairs."""
    ratios = [mine[name] / theirs[name] for theirs, mine in pairs if theirs[name]]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "other_us": round(statistics.median(theirs[name] for theirs, _ in pairs), 1),
        "own_us": round(statistics.median(mine[name] for _, mine in pairs), 1),
        "ratio": round(middle, 3),
        "ratio_low": round(low, 3),
        "ratio_high": round(high, 3),
    }


@contextlib.contextmanager
def _systems(tree: Path) -> Iterator[Callable[[str], Turn]]:
    """Yield a function that gives the systems of a tree one turn."""
    process = subprocess.Popen(
        [tree / ".venv/bin/python", Path(__file__), "--serve"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin
    assert process.stdout
    orders, answers = process.stdin, process.stdout

    def turn(kind: str) -> Turn:
        orders.write(kind + "\n")
        line = answers.readline()
        if not line:
            raise SystemExit(f"the systems of {tree} have ended")
        figures: Turn = json.loads(line)
        return figures

    try:
        if answers.readline() != "ready\n":
            raise SystemExit(f"the systems of {tree} did not start")
        yield turn
    finally:
        orders.close()
        process.wait(60)


def serve() -> None:
    """Run two systems of the tree in the working directory: one for single POSTs, whose worker asks for no
    jobs, and one with a usual worker. Run a turn for each line that is read. The modules are those of that
    tree, however old they are."""
    import uvloop

    from benchmarks import pushing
    from benchmarks.load import running_system

    # Lines that a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    durable: dict[str, Any] = {"appendfsync": "everysec"}
    with (
        running_system(workers=0, **durable) as filled,
        running_system(workers=1, **durable) as worked_off,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        load: dict[str, Any] = {"argument_bytes": 100}
        # The master tells each pusher about names that no worker has ever served. Usual pushes do not have
        # that cost.
        idle = {"url": None, "names": ["noop"], "max_jobs": 1, "secret": secrets.token_hex(32)}
        filled.http.post(f"{filled.url}/api/workers", json=idle).raise_for_status()

        def single(jobs: int) -> None:
            runner.run(pushing.single([filled.url], count=jobs, connections=32, **load))

        def bulk(jobs: int) -> None:
            runner.run(pushing.bulk([worked_off.url], count=jobs, **load))
            # A job behind them ends when they do. Counting the unfinished ones until then takes the master
            # and the pusher as long as many jobs, and a tree that counts more of them would look slower.
            lone(1)
            worked_off.until_over()

        def drain(jobs: int) -> None:
            change_worker("resume")
            lone(1)
            worked_off.until_over()

        def fill(jobs: int) -> None:
            change_worker("drain")
            runner.run(pushing.bulk([worked_off.url], count=jobs, **load))

        def change_worker(change: str) -> None:
            workers = f"{worked_off.url}/api/workers"
            (worker,) = worked_off.http.get(workers).raise_for_status().json()["workers"]
            worked_off.http.post(f"{workers}/{worker['id']}/{change}").raise_for_status()

        def lone(jobs: int) -> None:
            for _ in range(jobs):
                answer = worked_off.http.post(f"{worked_off.url}/api/jobs", json={"name": "noop"})
                url = f"{worked_off.url}/api/jobs/{answer.raise_for_status().json()['id']}/result?wait=10"
                while worked_off.http.get(url).raise_for_status().status_code != 200:
                    pass

        ways = {"single": single, "bulk": bulk, "drain": drain, "lone": lone}
        print("ready", file=answers)
        for line in sys.stdin:
            kind = line.strip()
            system, jobs = filled if kind == "single" else worked_off, TURNS[kind]
            if kind == "drain":
                fill(jobs)
            before, began_s = _cpu_ns(system), time.perf_counter()
            ways[kind](jobs)
            took_s, after = time.perf_counter() - began_s, _cpu_ns(system)
            figures = {name: (after[name] - before[name]) / 1_000 / jobs for name in PROCESSES}
            print(
                json.dumps(figures | {"all": sum(figures.values()), "wall": took_s / jobs * 1e6}),
                file=answers,
            )


def _cpu_ns(system: Any) -> dict[str, int]:
    """Return the CPU time of each kind of process so far. `psutil` reports it only in steps of 10 ms."""
    pids = {
        "pusher": [os.getpid()],
        "master": [process.pid for process in system.master_processes()],
        "worker": [process.pid for process in system.workers],
        "store": [system.store.pid],
    }
    return {name: sum(map(_cpu_ns_of, of_name)) for name, of_name in pids.items()}


def _cpu_ns_of(pid: int) -> int:
    # A thread may have ended since the folder was read.
    spent = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            spent += int(file.read_text().split()[0])
    return spent


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
