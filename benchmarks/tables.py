"""Write the tables of a document from the records: `python -m benchmarks.tables FILE.jsonl --write
docs/performance.md`. Markers in the document show where each table stands."""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.scenario import label

Record = Mapping[str, Any]
BEGIN: Final = "<!-- begin {name}: written by `python -m benchmarks.tables` -->"
END: Final = "<!-- end {name} -->"
_SPLIT: Final = ("pusher", "master", "worker", "store")


@dataclass(frozen=True)
class Cell:
    """The values of one figure in all rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Cell":
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        if f"{_short(self.least)}" == f"{_short(self.most)}":
            return _short(self.median)
        return f"{_short(self.median)} ({_short(self.least)}–{_short(self.most)})"


@dataclass(frozen=True)
class Case:
    """All rounds of one scenario with one set of parameters."""

    scenario: str
    params: Mapping[str, Any]
    commit: str
    cells: Mapping[str, Cell]
    rounds: int

    @property
    def label(self) -> str:
        return label(self.scenario, self.params)

    def text(self, *names: str) -> str:
        """Return, as text, the first of these figures that the case has."""
        return next((str(self.cells[name]) for name in names if name in self.cells), "")


def read(path: Path) -> list[Record]:
    """Return the records of a file, in order. Raise ValueError for a line that is not a record."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def cases_of(records: Iterable[Record]) -> list[Case]:
    """Return the cases in the order of their first record. For each case, take only the rounds of its newest commit,
    because a median over two commits means nothing."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(label(record["scenario"], record["params"]), []).append(record)
    cases = []
    for of_case in grouped.values():
        newest = [record for record in of_case if record["commit"] == of_case[-1]["commit"]]
        names = [name for name in newest[0]["figures"] if all(name in one["figures"] for one in newest)]
        cells = {name: Cell.of([one["figures"][name] for one in newest]) for name in names}
        first = newest[0]
        cases.append(Case(first["scenario"], first["params"], first["commit"], cells, len(newest)))
    return cases


def _short(value: float) -> str:
    if value and abs(value) < 10:
        return f"{value:.2g}" if abs(value) < 1 else f"{value:.1f}"
    return f"{value:,.0f}"


def _params(case: Case) -> str:
    texts = (
        (name.replace("_", " "), f"{value:,}" if type(value) is int else str(value))
        for name, value in case.params.items()
    )
    return ", ".join(f"{name} {text}" for name, text in texts) or "–"


Column = tuple[str, Callable[[Case], str]]
CASE: Final[Column] = ("case", _params)
JOBS: Final[Column] = ("jobs/s", lambda case: case.text("jobs_per_s"))
CPU: Final[Column] = ("CPU µs a job", lambda case: case.text("cpu_us"))
SPLIT: Final[Column] = (
    "pusher · master · worker · store",
    lambda case: " · ".join(
        _short(case.cells[f"cpu_us_{kind}"].median) for kind in _SPLIT if f"cpu_us_{kind}" in case.cells
    ),
)  # fmt: skip
WAITS: Final[Column] = (
    "p50 · p99 · max ms",
    lambda case: " · ".join(
        str(case.cells[name]) for name in ("p50_ms", "p99_ms", "max_ms") if name in case.cells
    ),
)
STORE: Final[Column] = (
    "store: scripts · commands a job",
    lambda case: " · ".join(
        _short(case.cells[name].median) for name in ("store_scripts", "store_commands") if name in case.cells
    ),
)  # fmt: skip
BYTES: Final[Column] = ("store bytes a job", lambda case: case.text("store_bytes"))
RSS: Final[Column] = ("resident bytes a job", lambda case: case.text("store_rss_bytes"))
FIGURES: Final[Column] = (
    "figures",
    lambda case: ", ".join(f"{name} {cell}" for name, cell in case.cells.items()),
)
NAME: Final[Column] = ("case", lambda case: case.label)
_PEER: Final[Column] = (
    "system",
    lambda case: f"{case.params['peer']} {case.params.get('version', '')}".strip(),
)

# When each system loses a job. The figures do not show this.
LOST_WHEN: Final = {
    "jqmaster": "never after it is accepted (here, with `everysec`, a power cut loses the last second)",
    "jqmaster single": "as above",
    "huey": "its worker dies while the job runs",
    "taskiq": "its worker dies while the job runs",
    "sidekiq": "its worker dies while the job runs",
    "beanstalkd": "never after it is accepted (a power cut loses the last second)",
}
# Maps the name of a table, which its marker has, to the scenarios and the columns.
TABLES: Final[dict[str, tuple[tuple[str, ...], tuple[Column, ...]]]] = {
    "end-to-end": (("end_to_end",), (CASE, JOBS, CPU, SPLIT, STORE)),
    "end-to-end-single": (("end_to_end_single",), (CASE, JOBS, CPU, SPLIT, WAITS)),
    "drain": (("drain",), (CASE, JOBS, CPU, SPLIT, STORE)),
    "enqueue-single": (("enqueue_single",), (CASE, JOBS, CPU, SPLIT, WAITS, BYTES)),
    "enqueue-bulk": (("enqueue_bulk",), (CASE, JOBS, CPU, SPLIT, BYTES, RSS)),
    "latency": (("latency", "delayed"), (NAME, WAITS)),
    "idle": (("idle",), (CASE, ("% of a core", lambda case: case.text("percent")), FIGURES)),
    "napping": (("napping",), (CASE, JOBS, CPU, SPLIT)),
    "peers": (("peer",), (_PEER, JOBS, CPU, ("drain, jobs/s", lambda case: case.text("drain_per_s")),
                          ("a job is lost when", lambda case: LOST_WHEN.get(case.params["peer"], "")))),
    "overload": (("overload",), (CASE, FIGURES)),
    "comparisons": (
        ("five_constraints", "distinct_keys", "blocked_in_front", "blocked_keys_in_front", "change_under_load",
         "change_by_name",
         "key_memory", "heartbeats_500", "million_waiting", "long_jobs", "pull_idle", "takeover"),
        (NAME, FIGURES),
    ),
    "machine": (("machine",), (("ns a step of a fixed loop", lambda case: case.text("loop_ns")),)),
}  # fmt: skip


def table(cases: Sequence[Case], name: str) -> str:
    """Return one table as Markdown, with the measured commits. If there are no records, return a note that nothing was
    measured."""
    scenarios, columns = TABLES[name]
    rows = [case for case in cases if case.scenario in scenarios]
    if not rows:
        return "Not measured yet.\n"
    lines = [
        "| " + " | ".join(title for title, _ in columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(text(case) or "–" for _, text in columns) + " |" for case in rows),
    ]
    commits = ", ".join(dict.fromkeys(f"`{case.commit}`" for case in rows))
    least = min(case.rounds for case in rows)
    most = max(case.rounds for case in rows)
    rounds = f"{most} round{'s' if most != 1 else ''}" if least == most else f"{least} to {most} rounds"
    return "\n".join(lines) + f"\n\nMedians (least–most) of {rounds}, commit {commits}.\n"


def written(document: str, cases: Sequence[Case]) -> str:
    """Return `document` with every table written anew between its markers. Raise ValueError for a marker without a
    table."""
    for name in re.findall(r"<!-- begin ([a-z-]+):", document):
        if name not in TABLES:
            raise ValueError(f"no table {name}")
        begin, end = BEGIN.format(name=name), END.format(name=name)
        before, _, rest = document.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"table {name} has no end")
        document = f"{before}{begin}\n\n{table(cases, name)}\n{end}{after}"
    return document


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.tables", description=__doc__)
    parser.add_argument("records", type=Path, nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT.md")
    options = parser.parse_args()
    cases = cases_of(record for path in options.records for record in read(path))
    if options.write:
        options.write.write_text(written(options.write.read_text(), cases))
        return
    for name, (scenarios, _) in TABLES.items():
        if any(case.scenario in scenarios for case in cases):
            sys.stdout.write(f"## {name}\n\n{table(cases, name)}\n")


if __name__ == "__main__":
    main()
