"""Compare this checkout with another one: `python -m benchmarks.beside PATH`, where PATH is a checkout with its
`.venv`.

The systems of both checkouts run at the same time and take turns of a tenth of a second. On a shared machine, the speed
may change by half within seconds, but such a change affects both alike. The medians of some fifty pairs of turns show
differences of a few per cent. Both run the same worker.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.beside.systems import PROCESSES, TURNS

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
WARM_UP: Final = 3
Turn = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.beside", description=__doc__)
    parser.add_argument("other", type=Path, metavar="PATH")
    parser.add_argument("--pairs", type=int, default=60, help="number of pairs of turns, for each kind")
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
                # Alternate the order, so that each tree is measured first in half of the pairs.
                if pair % 2:
                    mine = own(kind)
                    turns[kind].append((other(kind), mine))
                else:
                    theirs = other(kind)
                    turns[kind].append((theirs, own(kind)))
    for kind, pairs in turns.items():
        for name in (*PROCESSES, "all", "wall", "p50"):
            if any(theirs.get(name) for theirs, _ in pairs):
                print(json.dumps({"kind": kind, "process": name, **_figures(name, pairs)}))


def _figures(name: str, pairs: list[tuple[Turn, Turn]]) -> Turn:
    """Return the medians in µs per job, with the median and the quartiles of the ratios within the pairs. `wall`: the
    elapsed time per job. `p50`: the median time of a single job within a turn."""
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
    """Start the systems of a tree. Yield a function that lets them run one turn and returns its figures."""
    process = subprocess.Popen(
        [tree / ".venv/bin/python", HERE / "systems.py"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree}:{HERE}"},
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


if __name__ == "__main__":
    main()
