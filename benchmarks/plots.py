"""Draw the records of benchmarks as SVG: `python -m benchmarks.plots FILE.jsonl --into docs/performance`. The same
records give the same bytes."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.tables import Case, cases_of, read

KINDS: Final = ("pusher", "master", "worker", "store")
COLOURS: Final = {"pusher": "#9aa5b1", "master": "#3b6ea5", "worker": "#4f9d69", "store": "#c8743c"}
# Write text as text, and use fixed IDs, so that the file of an unchanged plot does not change. The type is Any, because
# the type in matplotlib lists every key.
STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "jqmaster",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}


def draw(cases: Sequence[Case], into: Path) -> list[Path]:
    """Draw the plots for which there are records. Return the files that were written."""
    import matplotlib as mpl

    mpl.use("svg")
    into.mkdir(parents=True, exist_ok=True)
    throughput = ("end_to_end", "drain", "enqueue_single", "enqueue_bulk")
    plots = {
        "cpu": (_cpu, [c for c in cases if c.scenario in ("end_to_end", "drain", "peer")]),
        "throughput": (_throughput, [c for c in cases if c.scenario in throughput]),
        "latency": (_latency, [c for c in cases if c.scenario in ("latency", "delayed")]),
        "peers": (_peers, [c for c in cases if c.scenario == "peer"]),
    }  # fmt: skip
    found = []
    with mpl.rc_context(STYLE):
        for name, (plot, of_plot) in plots.items():
            if of_plot:
                path = into / f"{name}.svg"
                _save(plot(of_plot), path)
                found.append(path)
    return found


def _save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _bars(rows: int) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.32 * rows))
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def _named(cases: Sequence[Case]) -> list[str]:
    return [str(c.params["peer"]) if c.scenario == "peer" else c.label for c in cases]


def _cpu(cases: Sequence[Case]) -> Any:
    cases = [c for c in cases if "cpu_us" in c.cells]
    figure, axes = _bars(len(cases))
    names, left = _named(cases), [0.0] * len(cases)
    rows = range(len(cases))
    for kind in KINDS:
        widths = [c.cells[f"cpu_us_{kind}"].median if f"cpu_us_{kind}" in c.cells else 0.0 for c in cases]
        axes.barh(rows, widths, left=left, color=COLOURS[kind], label=kind)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_yticks(rows, names)
    axes.set_xlabel("CPU µs a job, over all processes")
    axes.legend(frameon=False)
    return figure


def _spread(cases: Sequence[Case], figure_name: str, title: str) -> Any:
    figure, axes = _bars(len(cases))
    cells = [c.cells[figure_name] for c in cases]
    medians = [cell.median for cell in cells]
    spread = [[c.median - c.least for c in cells], [c.most - c.median for c in cells]]
    axes.barh(range(len(cases)), medians, xerr=spread, color=COLOURS["master"], ecolor="#444444", capsize=2)
    axes.set_yticks(range(len(cases)), _named(cases))
    axes.set_xlabel(title)
    return figure


def _throughput(cases: Sequence[Case]) -> Any:
    return _spread(
        [c for c in cases if "jobs_per_s" in c.cells], "jobs_per_s", "jobs a second: median, least and most"
    )


def _peers(cases: Sequence[Case]) -> Any:
    return _spread(cases, "jobs_per_s", "jobs a second, end to end: median, least and most")


def _latency(cases: Sequence[Case]) -> Any:
    figure, axes = _bars(len(cases))
    for name, marker in (("p50_ms", "o"), ("p99_ms", "s"), ("max_ms", "x")):
        axes.scatter([c.cells[name].median for c in cases], range(len(cases)), marker=marker, label=name[:-3])
    axes.set_yticks(range(len(cases)), _named(cases))
    axes.set_xscale("log")
    axes.set_xlabel("ms from the push (or the instant) to the start of the handler")
    axes.legend(frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.plots", description=__doc__)
    parser.add_argument("records", type=Path, nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--into", type=Path, required=True, metavar="DIRECTORY")
    options = parser.parse_args()
    for path in draw(cases_of(r for one in options.records for r in read(one)), options.into):
        print(path)


if __name__ == "__main__":
    main()
