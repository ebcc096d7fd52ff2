"""docs/performance.md matches benchmarks/results.jsonl, and records always give the same tables and plots."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tables
from benchmarks.scenario import label

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results.jsonl"
DOCUMENT = ROOT / "docs" / "performance.md"


def record(scenario: str, jobs_per_s: float, *, commit: str = "abc", **params: Any) -> dict[str, Any]:
    figures = {"jobs_per_s": jobs_per_s, "cpu_us": 100.0, "cpu_us_master": 60.0, "cpu_us_store": 40.0}
    return {"scenario": scenario, "params": params, "round": 1, "commit": commit, "figures": figures}


def test_the_tables_are_those_of_the_records() -> None:
    document = DOCUMENT.read_text()
    cases = tables.cases_of(tables.read(RESULTS))
    assert tables.written(document, cases) == document, "python -m benchmarks.tables --write"
    assert set(re.findall(r"<!-- begin ([a-z-]+):", document)) == set(tables.TABLES), (
        "each table has its place"
    )


def test_records_name_what_was_measured_and_no_place_on_a_machine() -> None:
    for line in RESULTS.read_text().splitlines():
        found = json.loads(line)
        assert {"scenario", "params", "round", "commit", "figures"} <= found.keys()
        assert all(isinstance(value, int | float) for value in found["figures"].values())
        assert "/" not in line, "a path"


def test_a_table_has_medians_with_their_spread_of_the_newest_commit() -> None:
    records = [
        record("drain", 1.0, commit="old", appendfsync="always"),
        *[record("drain", rate, commit="new", appendfsync="always") for rate in (1000.0, 3000.0, 2000.0)],
        record("drain", 500.0, commit="new", appendfsync="everysec"),
    ]
    text = tables.table(tables.cases_of(records), "drain")
    assert "| appendfsync always | 2,000 (1,000–3,000) | 100 | 60 · 40 | – |" in text
    assert "| appendfsync everysec | 500 | 100 | 60 · 40 | – |" in text
    assert "1 to 3 rounds, commit `new`" in text


def test_a_document_is_written_between_its_markers_only() -> None:
    begin, end = tables.BEGIN.format(name="drain"), tables.END.format(name="drain")
    before = f"a\n{begin}\nold\n{end}\nb\n"
    after = tables.written(before, tables.cases_of([record("drain", 5.0)]))
    assert after.startswith(f"a\n{begin}\n")
    assert after.endswith(f"{end}\nb\n")
    assert "old" not in after
    assert tables.written(after, tables.cases_of([record("drain", 5.0)])) == after
    with pytest.raises(ValueError, match="no table x"):
        tables.written("<!-- begin x: y -->", [])


def test_every_case_has_a_name_of_its_own_and_quick_parameters_that_it_takes() -> None:
    pytest.importorskip("rich")
    from benchmarks.__main__ import SCENARIOS, defaults_of

    names = []
    for scenario in SCENARIOS:
        for is_quick in (False, True):
            for params in scenario.cases(is_quick=is_quick):
                assert set(params) <= set(defaults_of(scenario)), scenario.name
                if not is_quick:
                    names.append(label(scenario.name, params))
    assert len(names) == len(set(names))


@pytest.mark.filterwarnings("default")
def test_plots_are_the_same_bytes_for_the_same_records(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks import plots

    cases = tables.cases_of([record("drain", 5.0), record("end_to_end", 7.0), record("end_to_end", 9.0)])
    first, second = tmp_path / "a", tmp_path / "b"
    written = plots.draw(cases, first)
    assert [path.name for path in written] == ["cpu.svg", "throughput.svg"]
    for path in plots.draw(cases, second):
        assert path.read_bytes() == (first / path.name).read_bytes()
